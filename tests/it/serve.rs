//! `writ serve` as a process: files that change, signals, an API server that is not there.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::net::TcpStream;

use crate::support::tls::{Answer, Client, TestPair, ask, post};

const SOON: Duration = Duration::from_secs(20);

/// A running `writ serve` on ports of the system's choice; ended with the test.
struct Serve {
    child: Child,
    log: Arc<Mutex<String>>,
    https: SocketAddr,
    admin: SocketAddr,
}

impl Serve {
    fn start(arguments: &[&str]) -> Self {
        let mut child = command(arguments).stderr(Stdio::piped()).spawn().expect("writ starts");
        let log = Arc::new(Mutex::new(String::new()));
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        let heard = log.clone();
        let (sender, receiver) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let mut line = String::new();
            while stderr.read_line(&mut line).is_ok_and(|read| read > 0) {
                if line.contains("Listening") {
                    let _ = sender.send(line.clone());
                }
                heard.lock().unwrap().push_str(&line);
                line.clear();
            }
        });
        let line = receiver.recv_timeout(SOON).unwrap_or_else(|_| panic!("not listening: {}", log.lock().unwrap()));
        let address = |name: &str| {
            let rest = line.split_once(name).expect("the line names it").1;
            rest.split_whitespace().next().unwrap().parse().expect("an address")
        };
        let (https, admin) = (address("https="), address("admin="));
        Self { child, log, https, admin }
    }

    async fn admin(&self, path: &str) -> Answer {
        let mut stream = TcpStream::connect(self.admin).await.unwrap();
        ask(&mut stream, &format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n")).await.unwrap()
    }

    async fn until_ready(&self) {
        self.until("ready", async || (self.admin("/readyz").await.status == 200).then_some(())).await;
    }

    fn terminate(&self) {
        assert!(Command::new("kill").arg(self.child.id().to_string()).status().unwrap().success());
    }

    fn wait(&mut self) -> ExitStatus {
        let deadline = Instant::now() + SOON;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(Instant::now() < deadline, "still running: {}", self.log.lock().unwrap());
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Asks again until the answer is there.
    async fn until<T>(&self, what: &str, mut ask: impl AsyncFnMut() -> Option<T>) -> T {
        let deadline = Instant::now() + SOON;
        loop {
            if let Some(answer) = ask().await {
                return answer;
            }
            assert!(Instant::now() < deadline, "{what}: {}", self.log.lock().unwrap());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

impl Drop for Serve {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_writ"));
    command.arg("serve").args(arguments);
    for port in ["--listen=", "--admin-listen="] {
        if !arguments.iter().any(|argument| argument.starts_with(port)) {
            command.arg(format!("{port}127.0.0.1:0"));
        }
    }
    command.stdin(Stdio::null()).stdout(Stdio::null());
    command
}

fn write(folder: &Path, pair: &TestPair) -> [String; 2] {
    let (chain, key) = (folder.join("tls.crt"), folder.join("tls.key"));
    std::fs::write(&chain, &pair.chain).unwrap();
    std::fs::write(&key, &pair.key).unwrap();
    [format!("--tls-cert-file={}", chain.display()), format!("--tls-key-file={}", key.display())]
}

#[tokio::test]
async fn without_a_cluster_the_token_of_paths_comes_from_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let pair = TestPair::make();
    let [chain, key] = write(folder.path(), &pair);
    let (file, token) = (folder.path().join("token"), "0123456789abcdef".repeat(4));
    std::fs::write(&file, &token).unwrap();
    let serve = Serve::start(&["--offline", &chain, &key, &format!("--webhook-token-file={}", file.display())]);
    serve.until_ready().await;
    let mut stream = Client::trusting(&pair).connect(serve.https).await.unwrap();
    for path in ["/validate", "/", &format!("/validate/{}", token.replace('0', "1")), "/validate/resources"] {
        let answer = ask(&mut stream, &post(path, "{}")).await.unwrap();
        assert_eq!(answer.status, 404, "{path}");
        assert!(answer.body.contains("no such path") && !answer.body.contains("/validate"), "{}", answer.body);
    }
    let answer = ask(&mut stream, &post(&format!("/validate/{token}"), "{}")).await.unwrap();
    assert_ne!(answer.status, 404, "{}", answer.body);
    let metrics = serve.admin("/metrics").await.body;
    assert!(metrics.contains("writ_webhook_unauthenticated_total 4\n"), "{metrics}");
    assert!(!serve.log.lock().unwrap().contains(&token));
}

#[tokio::test]
async fn files_that_change_are_served_without_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let old = TestPair::make();
    let [chain, key] = write(folder.path(), &old);
    let serve = Serve::start(&["--offline", "--tls-reload-interval=20ms", &chain, &key]);
    Client::trusting(&old).connect(serve.https).await.expect("the first pair");
    serve.until_ready().await;

    // A pair that does not fit changes nothing.
    std::fs::write(folder.path().join("tls.key"), &TestPair::make().key).unwrap();
    serve.until("a warning", async || serve.log.lock().unwrap().contains("do not fit together").then_some(())).await;
    Client::trusting(&old).connect(serve.https).await.expect("still the first pair");

    let new = TestPair::make();
    write(folder.path(), &new);
    serve.until("the new pair", async || Client::trusting(&new).connect(serve.https).await.ok()).await;
    assert!(serve.admin("/metrics").await.body.contains("writ_certificate_reloads_total 2\n"));
    assert!(!serve.log.lock().unwrap().contains("PRIVATE"));
}

#[tokio::test]
async fn a_pair_that_its_authority_does_not_vouch_for_is_not_ready() {
    let folder = tempfile::tempdir().unwrap();
    let (one, two) = (TestPair::make(), TestPair::make());
    let [chain, key] = write(folder.path(), &one);
    let authority = folder.path().join("ca.crt");
    std::fs::write(&authority, &two.authority).unwrap();
    let authority_flag = format!("--tls-ca-file={}", authority.display());
    let serve = Serve::start(&["--offline", "--tls-reload-interval=20ms", &chain, &key, &authority_flag]);
    let because = async |words: &str| {
        let answer = async || Some(serve.admin("/readyz").await).filter(|answer| answer.body.contains(words));
        assert_eq!(serve.until(words, answer).await.status, 503);
    };
    because("ca.crt: the certificate is not one of these authorities").await;
    std::fs::write(&authority, "nonsense").unwrap();
    because("ca.crt: the authorities cannot be read").await;
    std::fs::write(&authority, &one.authority).unwrap();
    serve.until_ready().await;

    // What is in use stays in use while the file is spoiled, but only for the pair that it vouches for.
    std::fs::write(&authority, "nonsense").unwrap();
    let said = async || (serve.log.lock().unwrap().matches("cannot be read").count() == 2).then_some(());
    serve.until("a warning", said).await;
    assert_eq!(serve.admin("/readyz").await.status, 200);
    write(folder.path(), &two);
    because("the authorities cannot be read").await;
    std::fs::write(&authority, &two.authority).unwrap();
    serve.until_ready().await;
}

#[tokio::test]
async fn a_stop_is_announced_then_drained() {
    let folder = tempfile::tempdir().unwrap();
    let pair = TestPair::make();
    let [chain, key] = write(folder.path(), &pair);
    let mut serve = Serve::start(&["--offline", "--drain-delay=1s", &chain, &key]);
    serve.until_ready().await;
    serve.terminate();
    let answer = serve
        .until("not ready", async || Some(serve.admin("/readyz").await).filter(|answer| answer.status == 503))
        .await;
    assert_eq!(answer.body, "{\"because\":{\"draining\":\"stopping\"},\"ready\":false}\n");
    let mut late = Client::trusting(&pair).connect(serve.https).await.expect("still serving");
    assert_eq!(ask(&mut late, &post("/validate", "{}")).await.unwrap().status, 400);
    assert_eq!(serve.wait().code(), Some(0));
}

#[tokio::test]
async fn an_api_server_that_is_not_there_is_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let kubeconfig = folder.path().join("kubeconfig");
    // Port 1 of loopback: nobody listens there.
    let text =
        "{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c, user: u}}],
        clusters: [{name: c, cluster: {server: 'http://127.0.0.1:1'}}], users: [{name: u, user: {}}]}";
    std::fs::write(&kubeconfig, text).unwrap();
    let mut serve = Serve::start(&[&format!("--kubeconfig={}", kubeconfig.display())]);
    let answer = serve
        .until("a reason", async || {
            Some(serve.admin("/readyz").await).filter(|answer| answer.body.contains("does not answer"))
        })
        .await;
    assert_eq!(answer.status, 503);
    assert!(answer.body.contains("secrets/writ-system/writ-certificates"), "{}", answer.body);
    assert_eq!(serve.admin("/healthz").await.status, 200);
    serve.terminate();
    // Nobody waits behind a listener that never opened its door; the delay is for those who are still sent here.
    serve.terminate();
    assert_eq!(serve.wait().code(), Some(0));
}

/// Ends with 2 and says why.
#[track_caller]
fn cannot_run(arguments: &[&str], message: &str) {
    let output = command(arguments).stderr(Stdio::piped()).output().expect("writ starts");
    let talk = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{talk}");
    assert!(talk.contains(message), "{talk}");
}

#[test]
fn what_cannot_work_ends_at_once_with_a_reason() {
    let folder = tempfile::tempdir().unwrap();
    let [chain, key] = write(folder.path(), &TestPair::make());
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let listen = format!("--listen={}", taken.local_addr().unwrap());
    cannot_run(&["--offline"], "--tls-cert-file");
    cannot_run(&["--offline", "--tls-cert-file=none.crt", "--tls-key-file=none.key"], "none.crt");
    cannot_run(&["--offline", &chain, &key, &listen], "cannot listen on");
    cannot_run(&["--offline", &chain, &key, "--cert-lifetime=soon"], "write it like 90d");
    for lifetime in ["0", "1s", "1000000d"] {
        let flag = format!("--cert-lifetime={lifetime}");
        cannot_run(&["--offline", &chain, &key, &flag], "must be from 5s to 36500d");
    }
    cannot_run(&["--offline", &chain, &key, "--tls-reload-interval=0"], "must be from 10ms to 1d");
    cannot_run(&["--offline", &chain, &key, "--cert-lifetime=8s", "--cert-grace=3s"], "a quarter of --cert-lifetime");
    cannot_run(&["--offline", &chain, &key, "--tls-ca-file=none.crt"], "reading none.crt");
    cannot_run(&["--offline", &chain, &key, "--log==="], "is not a log filter");
    cannot_run(&["--kubeconfig=none.kubeconfig"], "no way to the cluster");
}
