//! Writ's own certificates on a real API server: they come, they are trusted, they are renewed, and nobody notices.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use kube::api::{DynamicObject, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Api, Client, Config};
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, ServerName};
use serde_json::json;
use tokio::net::TcpStream;

use crate::support::{Cluster, ControlPlane, Writ, eventually, root, unique};

const SOON: Duration = Duration::from_secs(30);
/// Short enough for a test, long enough for an API server on a busy machine: renewed about every six seconds.
const SHORT_LIVED: &[&str] = &["--cert-lifetime=9s", "--cert-grace=1s"];
const SECRET: [&str; 3] = ["--namespace=writ-system", "get", "secret/writ-certificates"];
/// What leads API servers to Writ.
const CONFIGURATIONS: [&str; 2] = ["validatingwebhookconfiguration/writ", "mutatingwebhookconfiguration/writ"];

#[test]
fn ten_renewals_fail_no_request() {
    let Some(cluster) = ControlPlane::start() else { return };
    let writ = Writ::start(&cluster, SHORT_LIVED);
    let reloads = || number(&writ, "writ_certificate_reloads_total");
    let before = reloads();
    let mut tokens = std::collections::BTreeSet::new();
    let calls = under_a_stream_of_calls(&cluster, || {
        eventually(Duration::from_secs(120), "ten renewals", || {
            tokens.insert(webhook_token(&cluster));
            match reloads() - before {
                renewals if renewals >= 10 => Ok(()),
                renewals => Err(format!("{renewals} so far")),
            }
        });
    });
    assert!(tokens.len() >= 8, "the token in the path is rotated with the certificate: {} tokens", tokens.len());
    assert_eq!(number(&writ, "writ_webhook_unauthenticated_total"), 0);
    let retired = tokens.iter().filter(|token| writ.log().contains(*token));
    assert_eq!(retired.count(), 0, "tokens stay out of the log");
    assert!(calls > 200, "only {calls} calls were made");
    let denied = number(&writ, "writ_admission_requests_total{outcome=\"allowed\"}");
    assert!(denied >= calls, "all {calls} calls were judged by Writ, {denied} of them here");
    assert!(!writ.log().contains("PRIVATE"), "keys stay out of the log");
}

#[test]
fn a_changed_ca_bundle_is_repaired() {
    let Some(cluster) = ControlPlane::start() else { return };
    let _writ = Writ::start(&cluster, &[]);
    let good = ca_bundle(&cluster);
    assert!(good.starts_with("-----BEGIN CERTIFICATE-----"), "{good}");
    let repaired = || {
        for configuration in CONFIGURATIONS {
            eventually(SOON, &format!("the repair of {configuration}"), || match ca_bundles(&cluster, configuration) {
                found if !found.is_empty() && found.iter().all(|found| *found == good) => Ok(()),
                found => Err(format!("{found:?}")),
            });
        }
    };
    let other = STANDARD.encode("-----BEGIN CERTIFICATE-----\nnonsense\n-----END CERTIFICATE-----\n");
    for configuration in CONFIGURATIONS {
        for patch in [
            json!([{"op": "remove", "path": "/webhooks/0/clientConfig/caBundle"}]),
            json!([{"op": "add", "path": "/webhooks/1/clientConfig/caBundle", "value": STANDARD.encode(good.repeat(2))}]),
            json!([{"op": "add", "path": "/webhooks/0/clientConfig/caBundle", "value": other}]),
            json!([{"op": "add", "path": "/metadata/labels/touched", "value": "yes"}]),
        ] {
            let patch = format!("--patch={patch}");
            cluster.kubectl(["patch", configuration, "--type=json", &patch]).ok();
            repaired();
        }
    }
    // The same for configurations that are deleted and applied again, with nothing in them.
    let ports = ports(&cluster);
    cluster.kubectl(["delete"].iter().chain(&CONFIGURATIONS)).ok();
    let install = Command::new(root().join("tests/cluster/install"))
        .args([&root().join("manifests/overlays/local").display().to_string(), &ports["webhook"]])
        .env("KUBECONFIG", kubeconfig(&cluster))
        .output()
        .expect("the script runs");
    assert!(install.status.success(), "{}", String::from_utf8_lossy(&install.stderr));
    repaired();
    let ns = cluster.namespace("repaired");
    let name = unique("repaired");
    ns.owns("proxytemplates.kuma.io", &name);
    eventually(SOON, "a call that succeeds", || {
        let answer = cluster.kubectl(["apply", "-f", "-"]).stdin(&template(&name).to_string()).run();
        if answer.success { Ok(()) } else { Err(answer.stderr) }
    });
}

#[test]
fn replicas_that_start_together_share_one_pair() {
    let Some(cluster) = ControlPlane::start() else { return };
    // So that the second finds its service account, whoever comes first.
    cluster.install(&root().join("manifests/overlays/local"));
    let (one, two) = std::thread::scope(|threads| {
        let one = threads.spawn(|| Writ::start(&cluster, SHORT_LIVED));
        let two = threads.spawn(|| Writ::start_second(&cluster, SHORT_LIVED));
        (one.join().expect("the first"), two.join().expect("the second"))
    });
    let ports = ports(&cluster);
    // Over a few renewals: whatever API servers trust, both replicas can show.
    let reloads = |writ: &Writ| number(writ, "writ_certificate_reloads_total");
    let goal = (reloads(&one) + 2, reloads(&two) + 2);
    let mut looks = 0;
    eventually(Duration::from_secs(60), "two renewals of both", || {
        looks += 1;
        for port in ["webhook", "second_webhook"] {
            let bundle = ca_bundle(&cluster);
            if let Err(error) = greet(&ports[port], &bundle) {
                panic!("{port} is not trusted at look {looks}: {error}\n{}\n{}", one.log(), two.log());
            }
        }
        let now = (reloads(&one), reloads(&two));
        if now.0 >= goal.0 && now.1 >= goal.1 { Ok(()) } else { Err(format!("{now:?}")) }
    });
    // Whoever loses a race reads what the other wrote; that is no error.
    for writ in [&one, &two] {
        assert_eq!(number(writ, "writ_certificate_errors_total"), 0, "{}", writ.log());
    }
}

#[test]
fn a_replica_killed_in_the_middle_of_a_renewal_is_no_loss() {
    let Some(cluster) = ControlPlane::start() else { return };
    // A third of the life is left when the second one starts, and that takes a while on a busy machine.
    const LONGER_LIVED: &[&str] = &["--cert-lifetime=18s", "--cert-grace=1s"];
    let first = Writ::start(&cluster, LONGER_LIVED);
    // Killed when the next pair is announced: the stage of which the one that follows knows only from the Secret.
    eventually(Duration::from_secs(30), "an announcement", || {
        let keys = cluster.kubectl(SECRET.into_iter().chain(["--output=jsonpath={.data}"])).ok();
        keys.contains("next-tls.crt").then_some(()).ok_or("no next pair")
    });
    first.signal("KILL");
    drop(first);
    let second = Writ::start(&cluster, LONGER_LIVED);
    let reloads = || number(&second, "writ_certificate_reloads_total");
    let calls = under_a_stream_of_calls(&cluster, || {
        let goal = reloads() + 2;
        eventually(Duration::from_secs(60), "two renewals", || if reloads() >= goal { Ok(()) } else { Err("not yet") });
    });
    assert!(calls > 20, "only {calls} calls were made");
}

#[test]
fn applying_the_manifests_again_leaves_what_is_stored_and_brings_back_what_was_deleted() {
    let Some(cluster) = ControlPlane::start() else { return };
    let writ = Writ::start(&cluster, &[]);
    let folder = root().join("manifests/overlays/local").display().to_string();
    let stored = |secret: &str| {
        let answer = cluster.kubectl(["--namespace=writ-system", "get", secret, "--output=jsonpath={.data}"]).run();
        match answer.success && answer.stdout.len() > 2 {
            true => Ok(answer.stdout),
            false => Err(answer.stdout + &answer.stderr),
        }
    };
    let secrets = ["secret/writ-certificates", "secret/writ-keys"];
    let before = secrets.map(|secret| stored(secret).expect("content"));
    let configurations = || CONFIGURATIONS.map(|name| (ca_bundles(&cluster, name), paths(&cluster, name)));
    let called = configurations();
    // By either way of applying, twice.
    for _ in 0..2 {
        for way in [&["apply", "-k"][..], &["apply", "--server-side", "--force-conflicts", "-k"]] {
            cluster.kubectl(way.iter().copied().chain([folder.as_str()])).ok();
            assert_eq!(secrets.map(|secret| stored(secret).expect("content")), before, "{way:?}");
            assert_eq!(configurations(), called, "{way:?}");
        }
    }
    for secret in secrets {
        cluster.kubectl(["--namespace=writ-system", "delete", secret]).ok();
    }
    cluster.kubectl(["apply", "-k", &folder]).ok();
    let back = secrets.map(|secret| eventually(SOON, secret, || stored(secret)));
    assert_eq!(back, before);
    assert_eq!(number(&writ, "writ_ready"), 1);
}

#[test]
fn files_are_trusted_if_their_authority_vouches_for_them() {
    let Some(cluster) = ControlPlane::start() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let (one, two) = (OwnFiles::make(), OwnFiles::make());
    let flags = one.write(folder.path());
    let writ = Writ::start(&cluster, &[&flags[0], &flags[1], &flags[2], "--tls-reload-interval=100ms"]);
    let ns = cluster.namespace("files");
    let judged = |name: &str| {
        ns.owns("proxytemplates.kuma.io", name);
        let answer = cluster.kubectl(["apply", "-f", "-"]).stdin(&template(name).to_string()).run();
        if answer.success { Ok(()) } else { Err(answer.stderr) }
    };
    assert_eq!(ca_bundle(&cluster), one.authority);
    eventually(SOON, "a call by the first authority", || judged(&unique("files")));

    // A pair of a stranger: whoever asks is told, and what API servers trust stays as it is.
    let ready = || writ.get("/readyz").expect("an answer");
    two.write_pair(folder.path());
    eventually(SOON, "a reason", || match ready() {
        (503, told) if told.contains("ca.crt: the certificate is not one of these authorities") => Ok(()),
        (_, told) => Err(told),
    });
    assert_eq!(ca_bundle(&cluster), one.authority);
    two.write(folder.path());
    eventually(SOON, "the second authority", || match (ready().0, ca_bundle(&cluster)) {
        (200, bundle) if bundle == two.authority => Ok(()),
        (status, bundle) => Err(format!("{status} {bundle}")),
    });
    eventually(SOON, "a call by the second authority", || judged(&unique("files")));
}

/// A pair for Writ's Service and the authority that signed it, all PEM.
struct OwnFiles {
    authority: String,
    chain: String,
    key: String,
}

impl OwnFiles {
    fn make() -> Self {
        let [authority_key, key] = [(); 2].map(|()| rcgen::KeyPair::generate().expect("a key"));
        let mut authority = rcgen::CertificateParams::new(Vec::<String>::new()).expect("no names");
        authority.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let authority_pem = authority.self_signed(&authority_key).expect("an authority").pem();
        let leaf = rcgen::CertificateParams::new(vec!["writ.writ-system.svc".to_owned()]).expect("a name");
        let leaf = leaf.signed_by(&key, &rcgen::Issuer::new(authority, authority_key)).expect("a leaf");
        Self { authority: authority_pem, chain: leaf.pem(), key: key.serialize_pem() }
    }

    /// Gives the flags that name the files.
    fn write(&self, folder: &Path) -> [String; 3] {
        std::fs::write(folder.join("ca.crt"), &self.authority).expect("written");
        self.write_pair(folder);
        [("cert", "tls.crt"), ("key", "tls.key"), ("ca", "ca.crt")]
            .map(|(flag, file)| format!("--tls-{flag}-file={}", folder.join(file).display()))
    }

    fn write_pair(&self, folder: &Path) {
        std::fs::write(folder.join("tls.crt"), &self.chain).expect("written");
        std::fs::write(folder.join("tls.key"), &self.key).expect("written");
    }
}

#[test]
fn missing_rights_are_named() {
    let Some(cluster) = ControlPlane::start() else { return };
    cluster.install(&root().join("manifests/overlays/local"));
    cluster.kubectl(["--namespace=writ-system", "delete", "rolebinding/writ"]).ok();
    let serve = Loose::start(&cluster);
    let secret = "secrets/writ-system/writ-certificates";
    serve.says(&format!("not allowed to get {secret}"));
    serve.says("manifests/base/rbac.yaml grants this right");
    serve.says("Certificates not settled");

    // With the rights it goes on by itself, as far as they go.
    cluster.kubectl(["delete", "clusterrolebinding/writ"]).ok();
    cluster.install(&root().join("manifests/overlays/local"));
    serve.says("CA bundle written");
}

/// `writ serve` that need not become ready, with the identity of its service account.
struct Loose {
    child: Child,
    log: std::path::PathBuf,
}

impl Loose {
    fn start(cluster: &Cluster) -> Self {
        let folder = cluster.folder().expect("a local control plane");
        let identity = folder.join("loose.kubeconfig");
        let made = Command::new(root().join("tests/cluster/identity"))
            .args(["writ-system", "writ", &identity.display().to_string()])
            .env("KUBECONFIG", kubeconfig(cluster))
            .status();
        assert!(made.is_ok_and(|status| status.success()), "an identity");
        let log = folder.join("logs/loose.log");
        let child = Command::new(env!("CARGO_BIN_EXE_writ"))
            .args(["serve", "--listen=127.0.0.1:0", "--admin-listen=127.0.0.1:0", "--kubeconfig"])
            .arg(identity)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(std::fs::File::create(&log).expect("a log"))
            .spawn()
            .expect("writ starts");
        Self { child, log }
    }

    #[track_caller]
    fn says(&self, words: &str) {
        eventually(SOON, words, || match std::fs::read_to_string(&self.log) {
            Ok(log) if log.contains(words) => Ok(()),
            Ok(log) => Err(log),
            Err(error) => Err(error.to_string()),
        });
    }
}

impl Drop for Loose {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Judges policies without a pause, while something happens. None may fail; gives how many there were.
fn under_a_stream_of_calls(cluster: &Cluster, happens: impl FnOnce()) -> usize {
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    let client = runtime.block_on(client(kubeconfig(cluster).as_path()));
    let (done, calls) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let callers: Vec<_> = (0..3)
        .map(|_| {
            let (done, calls, client) = (done.clone(), calls.clone(), client.clone());
            runtime.spawn(async move {
                let kind = GroupVersionKind::gvk("kuma.io", "v1alpha1", "ProxyTemplate");
                let api: Api<DynamicObject> =
                    Api::all_with(client, &ApiResource::from_gvk_with_plural(&kind, "proxytemplates"));
                let params = PostParams { dry_run: true, ..PostParams::default() };
                let object: DynamicObject = serde_json::from_value(template(&unique("stream"))).expect("an object");
                let mut failures = Vec::new();
                while !done.load(Ordering::Relaxed) && failures.len() < 20 {
                    calls.fetch_add(1, Ordering::Relaxed);
                    if let Err(error) = api.create(&params, &object).await {
                        failures.push(error.to_string());
                    }
                }
                failures
            })
        })
        .collect();
    happens();
    done.store(true, Ordering::Relaxed);
    let failures: Vec<String> =
        callers.into_iter().flat_map(|caller| runtime.block_on(caller).expect("a caller")).collect();
    let calls = calls.load(Ordering::Relaxed);
    assert!(failures.is_empty(), "{} of {calls} calls failed: {failures:#?}\n{}", failures.len(), cluster.logs());
    calls
}

pub(crate) async fn client(kubeconfig: &Path) -> Client {
    let file = Kubeconfig::read_from(kubeconfig).expect("a kubeconfig");
    let config = Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await.expect("a configuration");
    Client::try_from(config).expect("a client")
}

fn template(name: &str) -> serde_json::Value {
    json!({
        "apiVersion": "kuma.io/v1alpha1", "kind": "ProxyTemplate", "metadata": {"name": name}, "mesh": "default",
        "spec": {
            "selectors": [{"match": {"kuma.io/service": "backend"}}],
            "conf": {"imports": ["default-proxy"], "modifications": [{"cluster": {"operation": "remove"}}]},
        },
    })
}

fn kubeconfig(cluster: &Cluster) -> std::path::PathBuf {
    cluster.folder().expect("a local control plane").join("kubeconfig")
}

/// The ports that the control plane claimed, by name.
pub(crate) fn ports(cluster: &Cluster) -> std::collections::BTreeMap<String, String> {
    let text = std::fs::read_to_string(cluster.folder().expect("a local control plane").join("ports")).expect("ports");
    let pairs = text.lines().filter_map(|line| line.split_once('='));
    pairs.map(|(name, port)| (name.to_owned(), port.to_owned())).collect()
}

/// The bundle in the first entry, as PEM; empty if there is none.
pub(crate) fn ca_bundle(cluster: &Cluster) -> String {
    ca_bundles(cluster, CONFIGURATIONS[0]).into_iter().next().unwrap_or_default()
}

/// The bundles of all entries of a webhook configuration, as PEM; empty where there is none.
fn ca_bundles(cluster: &Cluster, configuration: &str) -> Vec<String> {
    let answer = cluster.kubectl(["get", configuration, "--output=json"]).run();
    let found: serde_json::Value = serde_json::from_str(&answer.stdout).unwrap_or_default();
    let entries = found["webhooks"].as_array().cloned().unwrap_or_default();
    let bundle = |entry: &serde_json::Value| {
        let encoded = entry["clientConfig"]["caBundle"].as_str().unwrap_or_default();
        String::from_utf8(STANDARD.decode(encoded).expect("base64")).expect("PEM")
    };
    entries.iter().map(bundle).collect()
}

/// The paths of all entries of a webhook configuration.
fn paths(cluster: &Cluster, configuration: &str) -> Vec<String> {
    let told = "--output=jsonpath={.webhooks[*].clientConfig.service.path}";
    let paths = cluster.kubectl(["get", configuration, told]).ok();
    paths.split_whitespace().map(str::to_owned).collect()
}

/// The token of the install, as an API server finds it in the path of the first entry.
pub(crate) fn webhook_token(cluster: &Cluster) -> String {
    let path = paths(cluster, CONFIGURATIONS[0]).into_iter().next().expect("a path");
    let (_, token) = path.rsplit_once('/').expect("a path with a token");
    token.to_owned()
}

/// A TLS handshake as an API server does it.
fn greet(port: &str, bundle: &str) -> Result<(), String> {
    let mut roots = RootCertStore::empty();
    for root in CertificateDer::pem_slice_iter(bundle.as_bytes()) {
        roots.add(root.map_err(|error| error.to_string())?).map_err(|error| error.to_string())?;
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::try_from("writ.writ-system.svc").map_err(|error| error.to_string())?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let stream = TcpStream::connect(format!("127.0.0.1:{port}")).await.map_err(|error| error.to_string())?;
        let connector = tokio_rustls::TlsConnector::from(Arc::new(config));
        connector.connect(name, stream).await.map(drop).map_err(|error| error.to_string())
    })
}

/// A metric of a running Writ.
fn number(writ: &Writ, name: &str) -> usize {
    let (_, metrics) = writ.get("/metrics").expect("metrics");
    let line = metrics.lines().find_map(|line| line.strip_prefix(name)).expect("the metric");
    line.trim().parse().expect("a number")
}
