//! Writ on this host, serving a local control plane with the identity and the rights of its own manifests.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Command, ExitStatus};
use std::time::Duration;

use super::process::Script;
use super::{Cluster, script};

/// A running Writ. Dropping it stops it; what it installed stays.
pub(crate) struct Writ {
    script: Script,
    pid: String,
    admin: String,
    log: PathBuf,
}

impl Writ {
    /// Applies `manifests/overlays/local` and starts Writ behind its webhook, with further flags of `writ serve`. Returns when
    /// it is ready.
    pub(crate) fn start(cluster: &Cluster, flags: &[&str]) -> Self {
        Self::spawn(cluster, &[], "writ", flags)
    }

    /// Like [`Self::start`], with a way to the API server of its own.
    pub(crate) fn start_through(cluster: &Cluster, address: &str) -> Self {
        Self::spawn(cluster, &["--through", address], "writ", &[])
    }

    /// Like [`Self::start`] where Writ has served before: nothing is applied.
    pub(crate) fn start_again(cluster: &Cluster, flags: &[&str]) -> Self {
        Self::spawn(cluster, &["--again"], "writ", flags)
    }

    /// The same, with a way to the API server of its own.
    pub(crate) fn start_again_through(cluster: &Cluster, address: &str) -> Self {
        Self::spawn(cluster, &["--again", "--through", address], "writ", &[])
    }

    /// Another one beside the first, to which no webhook leads.
    pub(crate) fn start_second(cluster: &Cluster, flags: &[&str]) -> Self {
        Self::spawn(cluster, &["--second"], "writ-second", flags)
    }

    fn spawn(cluster: &Cluster, options: &[&str], name: &str, flags: &[&str]) -> Self {
        let folder = cluster.folder().expect("Writ runs on the host only beside a local control plane");
        let mut command = Command::new(script("serve"));
        command.args(options).arg(folder).args(flags).env("WRIT", env!("CARGO_BIN_EXE_writ"));
        // Tests do not wait as long as operators should.
        command.env("WRIT_ABSENT_POLICY_GRACE", "1s");
        let script = Script::spawn(&mut command);
        let pid = script.expect("pid ", Duration::from_secs(60));
        let admin = script.expect("ready ", Duration::from_secs(60));
        Self { script, pid, admin, log: folder.join("logs").join(format!("{name}.log")) }
    }

    /// Sends a signal to Writ itself: `TERM`, `KILL`, …
    pub(crate) fn signal(&self, name: &str) {
        let status = Command::new("kill").arg(format!("-{name}")).arg(&self.pid).status();
        assert!(status.is_ok_and(|status| status.success()), "Writ has ended already:\n{}", self.log());
    }

    /// Asks Writ to end, as a node does, and waits until it has.
    pub(crate) fn terminate(mut self) -> Option<ExitStatus> {
        let status = Command::new("kill").arg("-TERM").arg(self.script.pid().to_string()).status();
        assert!(status.is_ok_and(|status| status.success()), "Writ has ended already:\n{}", self.log());
        self.script.wait(Duration::from_secs(90))
    }

    /// Everything that it has logged so far.
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default() + &self.script.talk()
    }

    /// Status and body of a GET on the admin port: `/metrics`, `/healthz`, `/readyz`.
    pub(crate) fn get(&self, path: &str) -> Result<(u16, String), String> {
        let mut stream = TcpStream::connect(&self.admin).map_err(|error| error.to_string())?;
        stream.set_read_timeout(Some(Duration::from_secs(10))).map_err(|error| error.to_string())?;
        let request = format!("GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n");
        stream.write_all(request.as_bytes()).map_err(|error| error.to_string())?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).map_err(|error| error.to_string())?;
        let (head, body) = answer.split_once("\r\n\r\n").ok_or("no answer")?;
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).ok_or("no status")?;
        Ok((status, body.to_owned()))
    }
}
