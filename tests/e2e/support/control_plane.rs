//! A control plane of the test's own.

use std::ops::Deref;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::Duration;

use super::process::Script;
use super::{Cluster, script, skipped, unique};

/// etcd, kube-apiserver and kube-controller-manager in a temporary folder. Dropping it stops them and removes the folder.
pub(crate) struct ControlPlane {
    cluster: Cluster,
    // Fields are dropped in order: the programs end before another control plane may start.
    script: Script,
    _turn: Turn,
}

impl ControlPlane {
    /// Starts one and waits until it answers, unless cluster tests are skipped. A few at most run side by side; the others
    /// wait for their turn.
    pub(crate) fn start() -> Option<Self> {
        if skipped() {
            return None;
        }
        let turn = Turn::take();
        Some(Self::start_in(&std::env::temp_dir().join(unique("writ-cluster")), turn))
    }

    /// Like [`Self::start`], without waiting for a turn, in a folder that somebody else knows of.
    pub(crate) fn start_at(folder: &Path) -> Self {
        Self::start_in(folder, Turn::none())
    }

    /// Kills the API server and starts it again, with everything that is stored; returns when it answers.
    pub(crate) fn restart_api_server(&self) {
        let status = Command::new("kill").arg("-USR1").arg(self.script.pid().to_string()).status();
        assert!(status.is_ok_and(|status| status.success()), "the control plane has ended");
        self.script.expect("restarted", Duration::from_secs(90));
    }

    fn start_in(folder: &Path, turn: Turn) -> Self {
        build();
        let script = Script::spawn(Command::new(script("control-plane")).arg(folder));
        let kubeconfig = script.expect("ready ", Duration::from_secs(150));
        Self { cluster: Cluster::local(kubeconfig.into(), folder.to_owned()), script, _turn: turn }
    }
}

impl Deref for ControlPlane {
    type Target = Cluster;

    fn deref(&self) -> &Cluster {
        &self.cluster
    }
}

/// The folder of the programs, built first if need be. That takes minutes, so it talks past the capture of the tests.
pub(super) fn build() -> String {
    let output = Command::new(script("build"))
        .stderr(Stdio::inherit())
        .output()
        .unwrap_or_else(|error| panic!("cannot run tests/cluster/build: {error}"));
    assert!(
        output.status.success(),
        "the programs of the test cluster are not there (see above); WRIT_SKIP_CLUSTER=1 leaves these tests out"
    );
    String::from_utf8(output.stdout).expect("a path in UTF-8").trim().to_owned()
}

/// Leave to run a control plane. Each costs about a core while it starts.
struct Turn {
    taken: usize,
}

static RUNNING: Mutex<usize> = Mutex::new(0);
static ENDED: Condvar = Condvar::new();

impl Turn {
    fn take() -> Self {
        let most = std::thread::available_parallelism().map_or(1, |cores| cores.get().div_ceil(2)).max(2);
        let mut running =
            ENDED.wait_while(running(), |running| *running >= most).unwrap_or_else(std::sync::PoisonError::into_inner);
        *running += 1;
        Self { taken: 1 }
    }

    fn none() -> Self {
        Self { taken: 0 }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        *running() -= self.taken;
        ENDED.notify_one();
    }
}

fn running() -> MutexGuard<'static, usize> {
    RUNNING.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
