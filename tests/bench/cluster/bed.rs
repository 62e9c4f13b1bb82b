//! The control plane and Writ as processes, through the scripts of `tests/cluster`, and what they use of the machine.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, bail};

pub(super) struct Bed {
    // Dropped in order: Writ ends before its cluster.
    _writ: Held,
    _cluster: Held,
    folder: PathBuf,
    writ: u32,
    api_server: u32,
    ticks_per_second: u64,
}

/// CPU time since the start, and memory now.
pub(super) struct Usage {
    pub(super) writ: Duration,
    pub(super) api_server: Duration,
    pub(super) writ_mib: f64,
}

impl Bed {
    pub(super) fn start() -> anyhow::Result<Self> {
        let folder = std::env::temp_dir().join(format!("writ-bench-{}", std::process::id()));
        let mut cluster = Held::spawn(Command::new(script("control-plane")).arg(&folder))?;
        cluster.line("ready ")?;
        let mut serve = Command::new(script("serve"));
        serve.arg(&folder).arg("--log=warn").env("WRIT", env!("CARGO_BIN_EXE_writ"));
        let mut writ = Held::spawn(&mut serve)?;
        let pid = writ.line("pid ")?.parse()?;
        writ.line("ready ")?;
        let ports = std::fs::read_to_string(folder.join("ports"))?;
        let port = ports.lines().find_map(|line| line.strip_prefix("apiserver=")).context("no port")?;
        let ticks = Command::new("getconf").arg("CLK_TCK").output()?;
        Ok(Self {
            _writ: writ,
            _cluster: cluster,
            writ: pid,
            api_server: process_with(&format!("--secure-port={port}"))?,
            ticks_per_second: String::from_utf8(ticks.stdout)?.trim().parse()?,
            folder,
        })
    }

    pub(super) fn kubeconfig(&self) -> PathBuf {
        self.folder.join("kubeconfig")
    }

    /// A kubeconfig with the account that Writ has.
    pub(super) fn account(&self) -> anyhow::Result<PathBuf> {
        let file = self.folder.join("account.kubeconfig");
        let mut identity = Command::new(script("identity"));
        let identity = identity.args(["writ-system", "writ"]).arg(&file).env("KUBECONFIG", self.kubeconfig());
        anyhow::ensure!(identity.status()?.success(), "no kubeconfig for the account of Writ");
        Ok(file)
    }

    pub(super) fn usage(&self) -> anyhow::Result<Usage> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.writ)).context("Writ has ended")?;
        let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS")?;
        let kib: f64 = resident.trim().trim_end_matches(" kB").parse()?;
        Ok(Usage { writ: self.cpu(self.writ)?, api_server: self.cpu(self.api_server)?, writ_mib: kib / 1024.0 })
    }

    fn cpu(&self, process: u32) -> anyhow::Result<Duration> {
        let stat = std::fs::read_to_string(format!("/proc/{process}/stat"))?;
        // The name, in parentheses, may contain anything; user and system time are the 12th and 13th after it.
        let (_, fields) = stat.rsplit_once(')').context("no name")?;
        let ticks: u64 = fields.split_whitespace().skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum();
        Ok(Duration::from_millis(ticks * 1000 / self.ticks_per_second))
    }
}

/// A script that ends with its standard input.
struct Held {
    child: Child,
    lines: BufReader<ChildStdout>,
}

impl Held {
    fn spawn(command: &mut Command) -> anyhow::Result<Self> {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
        let lines = BufReader::new(child.stdout.take().context("stdout is piped")?);
        Ok(Self { child, lines })
    }

    /// The rest of the next line that begins with a word.
    fn line(&mut self, word: &str) -> anyhow::Result<String> {
        let mut line = String::new();
        loop {
            line.clear();
            if self.lines.read_line(&mut line)? == 0 {
                bail!("a script of tests/cluster ended before it said `{word}`");
            }
            if let Some(rest) = line.strip_prefix(word) {
                return Ok(rest.trim().to_owned());
            }
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cluster").join(name)
}

fn process_with(argument: &str) -> anyhow::Result<u32> {
    for entry in std::fs::read_dir("/proc")? {
        let path = entry?.path();
        let Some(pid) = path.file_name().and_then(|name| name.to_str()?.parse().ok()) else {
            continue;
        };
        let Ok(line) = std::fs::read(path.join("cmdline")) else {
            continue;
        };
        let mut arguments = line.split(|byte| *byte == 0);
        let is_api_server = arguments.next().is_some_and(|program| program.ends_with(b"/kube-apiserver"));
        if is_api_server && arguments.any(|found| found == argument.as_bytes()) {
            return Ok(pid);
        }
    }
    bail!("no API server with {argument}")
}
