//! What a test does with a cluster: kubectl, namespaces, accepted and rejected objects. Which cluster it is stays out of
//! sight.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, OnceLock};

use super::control_plane::build;
use super::{ControlPlane, Writ, root, script, skipped, unique};

/// The cluster that all tests of the run share, or nothing if cluster tests are skipped.
pub(crate) fn cluster() -> Option<&'static Cluster> {
    static OTHER: OnceLock<Cluster> = OnceLock::new();
    static OWN: OnceLock<ControlPlane> = OnceLock::new();
    if skipped() {
        return None;
    }
    Some(match std::env::var_os("WRIT_TEST_KUBECONFIG") {
        Some(file) => OTHER.get_or_init(|| Cluster::other(PathBuf::from(file))),
        None => OWN.get_or_init(|| ControlPlane::start_at(&std::env::temp_dir().join(unique("writ-cluster")))),
    })
}

/// [`cluster`] with Writ installed and ready.
pub(crate) fn with_writ() -> Option<&'static Cluster> {
    static WRIT: OnceLock<Option<Writ>> = OnceLock::new();
    let cluster = cluster()?;
    WRIT.get_or_init(|| match cluster.folder {
        // Rules of tests call services on loopback.
        Some(_) => Some(Writ::start(cluster, &["--service-hosts=127.0.0.1"])),
        None => {
            cluster.install(&root().join("manifests"));
            let rollout = ["rollout", "status", "deployment/writ", "--namespace=writ-system", "--timeout=120s"];
            cluster.kubectl(rollout).ok();
            None
        }
    });
    Some(cluster)
}

/// A cluster, seen as its admin unless [`Cluster::acting_as`] says otherwise.
pub(crate) struct Cluster {
    kubeconfig: PathBuf,
    kubectl: PathBuf,
    /// Where `tests/cluster/control-plane` runs it; nothing for a cluster from elsewhere.
    folder: Option<PathBuf>,
    /// What holds the kubeconfig, if it was made for this value.
    #[expect(dead_code, reason = "dropped with it")]
    identity: Option<tempfile::TempDir>,
}

impl Cluster {
    pub(super) fn local(kubeconfig: PathBuf, folder: PathBuf) -> Self {
        Self { kubeconfig, kubectl: Path::new(&build()).join("kubectl"), folder: Some(folder), identity: None }
    }

    pub(super) fn other(kubeconfig: PathBuf) -> Self {
        Self { kubeconfig, kubectl: Path::new(&build()).join("kubectl"), folder: None, identity: None }
    }

    /// The folder of a local control plane: `logs/PROGRAM.log`, `ports` and so on.
    pub(crate) fn folder(&self) -> Option<&Path> {
        self.folder.as_deref()
    }

    pub(crate) fn kubectl<I: AsRef<str>>(&self, arguments: impl IntoIterator<Item = I>) -> Kubectl {
        let mut command = Command::new(&self.kubectl);
        command.arg("--kubeconfig").arg(&self.kubeconfig).arg("--request-timeout=30s");
        command.args(arguments.into_iter().map(|argument| argument.as_ref().to_owned()));
        Kubectl { command, input: String::new() }
    }

    /// With which other programs than kubectl reach it.
    pub(crate) fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// The same cluster, seen as one of its service accounts.
    pub(crate) fn acting_as(&self, namespace: &str, account: &str) -> Self {
        let identity = tempfile::tempdir().expect("a folder of its own");
        let kubeconfig = identity.path().join("kubeconfig");
        self.script("identity", &[namespace, account, kubeconfig.to_str().expect("a path in UTF-8")]);
        Self { kubeconfig, kubectl: self.kubectl.clone(), folder: self.folder.clone(), identity: Some(identity) }
    }

    /// A namespace with a random name, for the time of one test.
    pub(crate) fn namespace(&self, prefix: &str) -> Namespace<'_> {
        let name = unique(prefix);
        self.kubectl(["create", "namespace", &name]).ok();
        Namespace { cluster: self, name, others: Mutex::default() }
    }

    /// Applies a folder of `manifests` as an admin does.
    pub(crate) fn install(&self, folder: &Path) {
        self.script("install", &[folder.to_str().expect("a path in UTF-8")]);
    }

    #[track_caller]
    fn script(&self, name: &str, arguments: &[&str]) {
        let output = Command::new(script(name)).args(arguments).env("KUBECONFIG", &self.kubeconfig).output();
        let output = output.unwrap_or_else(|error| panic!("cannot run tests/cluster/{name}: {error}"));
        assert!(output.status.success(), "tests/cluster/{name}: {}", String::from_utf8_lossy(&output.stderr));
    }

    /// The end of every program's log, and of Writ's pods if there are any.
    pub(crate) fn logs(&self) -> String {
        let mut files: Vec<PathBuf> = self
            .folder
            .iter()
            .filter_map(|folder| std::fs::read_dir(folder.join("logs")).ok())
            .flat_map(|entries| entries.filter_map(Result::ok).map(|entry| entry.path()))
            .filter(|path| path.is_file())
            .collect();
        files.sort();
        let mut logs = String::new();
        for file in files {
            let text = std::fs::read(&file).unwrap_or_default();
            logs += &format!("--- {}\n{}", file.display(), end_of(&String::from_utf8_lossy(&text)));
        }
        let pods = ["logs", "--namespace=writ-system", "--selector=app.kubernetes.io/name=writ", "--prefix"];
        logs + &end_of(&self.kubectl(pods).run().stdout)
    }
}

/// The last lines of a log, none of them longer than one can read.
fn end_of(log: &str) -> String {
    let lines: Vec<&str> = log.lines().collect();
    let last = &lines[lines.len().saturating_sub(20)..];
    last.iter().map(|line| line.chars().take(300).chain(['\n']).collect::<String>()).collect()
}

/// One call of kubectl.
#[must_use]
pub(crate) struct Kubectl {
    command: Command,
    input: String,
}

/// What kubectl answered.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) success: bool,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Kubectl {
    pub(crate) fn stdin(mut self, text: &str) -> Self {
        self.input = text.to_owned();
        self
    }

    pub(crate) fn run(mut self) -> Answer {
        let mut child = self
            .command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("cannot start {:?}: {error}", self.command));
        let mut stdin = child.stdin.take().expect("stdin is piped");
        // A kubectl that has refused already does not read on; its answer says why.
        let _ = stdin.write_all(self.input.as_bytes());
        drop(stdin);
        let output = child.wait_with_output().expect("kubectl ends");
        Answer {
            success: output.status.success(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// What it prints; fails unless it succeeds.
    #[track_caller]
    pub(crate) fn ok(self) -> String {
        let call = format!("{:?}", self.command.get_args().collect::<Vec<_>>());
        let Answer { success, stdout, stderr } = self.run();
        assert!(success, "kubectl {call}: {stderr}{stdout}");
        stdout
    }
}

/// A namespace of one test. At its end the namespace is deleted, and so is what else the test owned; nobody waits for it.
pub(crate) struct Namespace<'a> {
    cluster: &'a Cluster,
    pub(crate) name: String,
    others: Mutex<Vec<[String; 2]>>,
}

impl Namespace<'_> {
    /// kubectl with this namespace as its default.
    pub(crate) fn kubectl<I: AsRef<str>>(&self, arguments: impl IntoIterator<Item = I>) -> Kubectl {
        let mut kubectl = self.cluster.kubectl::<I>([]);
        kubectl.command.arg("--namespace").arg(&self.name);
        kubectl.command.args(arguments.into_iter().map(|argument| argument.as_ref().to_owned()));
        kubectl
    }

    /// Deletes a cluster-scoped object when the test ends.
    pub(crate) fn owns(&self, kind: &str, name: &str) {
        self.others.lock().expect("nobody panics here").push([kind.to_owned(), name.to_owned()]);
    }

    /// `kubectl apply` takes the object; gives what it said on stderr, which is where warnings of a webhook show.
    #[track_caller]
    pub(crate) fn accepts(&self, yaml: &str) -> String {
        let answer = self.kubectl(["apply", "-f", "-"]).stdin(yaml).run();
        assert!(answer.success, "refused: {}\n{yaml}", answer.stderr);
        answer.stderr
    }

    /// `kubectl apply` is refused, and the reason contains `because`; gives the whole reason.
    #[track_caller]
    pub(crate) fn rejects(&self, yaml: &str, because: &str) -> String {
        let answer = self.kubectl(["apply", "-f", "-"]).stdin(yaml).run();
        assert!(!answer.success, "accepted: {}\n{yaml}", answer.stdout);
        assert!(answer.stderr.contains(because), "refused, but not because of `{because}`: {}", answer.stderr);
        answer.stderr
    }
}

impl Drop for Namespace<'_> {
    #[expect(clippy::print_stderr, reason = "the test harness keeps it and shows it with the failure")]
    fn drop(&mut self) {
        if std::thread::panicking() {
            let events = self.kubectl(["get", "events"]).run();
            eprintln!("{}--- events in {}\n{}", self.cluster.logs(), self.name, events.stdout);
        }
        let mut objects = std::mem::take(&mut *self.others.lock().unwrap_or_else(std::sync::PoisonError::into_inner));
        objects.push(["namespace".to_owned(), self.name.clone()]);
        for [kind, name] in objects {
            let _ = self.cluster.kubectl(["delete", &kind, &name, "--wait=false", "--ignore-not-found"]).run();
        }
    }
}
