//! The two servers as processes, each held to the first core where the system can do that.

use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

use super::bare::BARE_SERVER;

/// A certificate for both, in files.
pub(super) struct TestFiles {
    _folder: tempfile::TempDir,
    pub(super) authority: String,
    chain: PathBuf,
    key: PathBuf,
}

pub(super) struct Server {
    child: Child,
    pub(super) port: u16,
    pub(super) ready_after: Duration,
}

impl TestFiles {
    pub(super) fn make() -> anyhow::Result<Self> {
        let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()])?;
        let folder = tempfile::tempdir()?;
        let (chain, key) = (folder.path().join("tls.crt"), folder.path().join("tls.key"));
        std::fs::write(&chain, made.cert.pem())?;
        std::fs::write(&key, made.signing_key.serialize_pem())?;
        Ok(Self { _folder: folder, authority: made.cert.pem(), chain, key })
    }
}

impl Server {
    pub(super) fn writ(files: &TestFiles) -> anyhow::Result<Self> {
        let (port, admin) = (free_port()?, free_port()?);
        let mut command = on_one_core(env!("CARGO_BIN_EXE_writ"));
        command.args(["serve", "--offline", "--worker-threads=1", "--log=warn"]);
        command.arg(format!("--listen=127.0.0.1:{port}")).arg(format!("--admin-listen=127.0.0.1:{admin}"));
        command.arg("--tls-cert-file").arg(&files.chain).arg("--tls-key-file").arg(&files.key);
        Self::start(command, port, || is_ready(admin))
    }

    pub(super) fn bare(files: &TestFiles) -> anyhow::Result<Self> {
        let port = free_port()?;
        let program = std::env::current_exe()?;
        let mut command = on_one_core(&program.display().to_string());
        command.arg(BARE_SERVER).arg(&files.chain).arg(&files.key).arg(port.to_string());
        Self::start(command, port, || TcpStream::connect(("127.0.0.1", port)).is_ok())
    }

    fn start(mut command: Command, port: u16, is_up: impl Fn() -> bool) -> anyhow::Result<Self> {
        let started = Instant::now();
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().context("starting a server")?;
        let mut server = Self { child, port, ready_after: Duration::ZERO };
        while !is_up() {
            if started.elapsed() > Duration::from_secs(10) || server.child.try_wait()?.is_some() {
                bail!("the server does not come up");
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        server.ready_after = started.elapsed();
        Ok(server)
    }

    /// The time that its threads have spent on a core so far. Unlike the clock on the wall it does not run while somebody
    /// else has the core.
    pub(super) fn cpu(&self) -> anyhow::Result<Duration> {
        let mut nanos = 0;
        for thread in std::fs::read_dir(format!("/proc/{}/task", self.child.id()))? {
            let text = std::fs::read_to_string(thread?.path().join("schedstat")).unwrap_or_default();
            nanos += text.split(' ').next().and_then(|it| it.parse::<u64>().ok()).unwrap_or_default();
        }
        Ok(Duration::from_nanos(nanos))
    }

    /// Resident memory.
    pub(super) fn resident_kib(&self) -> anyhow::Result<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS")?;
        Ok(line.trim().trim_end_matches(" kB").parse()?)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// `taskset` replaces itself by the program, so the child's id is the program's.
fn on_one_core(program: &str) -> Command {
    let can_pin = Command::new("taskset").args(["-c", "0", "true"]).stderr(Stdio::null()).status();
    if can_pin.is_ok_and(|status| status.success()) {
        let mut command = Command::new("taskset");
        command.args(["-c", "0", program]);
        return command;
    }
    Command::new(program)
}

fn free_port() -> anyhow::Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

fn is_ready(admin: u16) -> bool {
    use std::io::{Read, Write};
    let answer = || -> std::io::Result<String> {
        let mut stream = TcpStream::connect(("127.0.0.1", admin))?;
        stream.write_all(b"GET /readyz HTTP/1.0\r\nhost: localhost\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    };
    answer().is_ok_and(|answer| answer.starts_with("HTTP/1.0 200") || answer.starts_with("HTTP/1.1 200"))
}
