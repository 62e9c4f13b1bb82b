//! The keeper of certificates and the store of keys before a scripted API server: lost races, outages at the wrong moment,
//! refusals.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use bytes::Bytes;
use hyper::{Method, Request, Response};
use serde_json::{Value, json};
use tokio::sync::{Notify, mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use writ::cluster::certificates::{FixedBundle, Keeper, Report, Settings};
use writ::cluster::connect;
use writ::cluster::keys::{KeyReader, KeySettings, KeyStore, Keys};
use writ::core::integrity::MacPurpose;
use writ::core::webhook_token::WebhookType;
use writ::server::{Bound, Limits, Shutdown};

const SOON: Duration = Duration::from_secs(20);

/// What is stored, and how the next calls go wrong.
struct World {
    secret: Option<Value>,
    version: u32,
    bundle: Option<String>,
    path: Option<String>,
    /// Every path that was written.
    paths: Vec<String>,
    /// So many reads find the Secret as it was shipped, as if it were about to be written.
    unseen: usize,
    outages: usize,
    refusals: VecDeque<Refusal>,
}

impl Default for World {
    fn default() -> Self {
        let (secret, refusals) = (Some(shipped()), VecDeque::new());
        Self { secret, version: 0, bundle: None, path: None, paths: Vec::new(), unseen: 0, outages: 0, refusals }
    }
}

/// The Secret as the manifests ship it.
fn shipped() -> Value {
    json!({"metadata": {"name": "pair", "namespace": "ns", "resourceVersion": "shipped"}})
}

/// Why a patch is refused.
enum Refusal {
    ForGood,
    /// Somebody else has changed the configuration meanwhile.
    Late,
}

/// An API server with one Secret and one webhook configuration.
struct Server {
    task: JoinHandle<()>,
    _shutdown: Shutdown,
    _folder: tempfile::TempDir,
    client: kube::Client,
    world: Arc<Mutex<World>>,
    /// Tells one watch of the Secret that something happened.
    touched: Arc<Notify>,
}

impl Server {
    async fn start() -> Self {
        let bound = Bound::bind(([127, 0, 0, 1], 0).into()).await.unwrap();
        let address = bound.address();
        let (shutdown, drain) = Shutdown::new();
        let (world, touched) = (Arc::new(Mutex::new(World::default())), Arc::new(Notify::new()));
        let (asked, touches) = (world.clone(), touched.clone());
        let answer = move |request: Request<Bytes>| {
            let (asked, touches) = (asked.clone(), touches.clone());
            async move {
                let about_secrets = request.uri().path().contains("/secrets");
                if request.uri().query().is_some_and(|query| query.contains("watch=true")) {
                    if !about_secrets {
                        std::future::pending::<()>().await;
                    }
                    touches.notified().await;
                    let metadata = json!({"name": "pair", "namespace": "ns", "resourceVersion": "9"});
                    let object =
                        json!({"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata", "metadata": metadata});
                    return respond(200, &json!({"type": "MODIFIED", "object": object}));
                }
                let mut world = asked.lock().unwrap();
                if about_secrets { world.secrets(&request) } else { world.configurations(&request) }
            }
        };
        let task = tokio::spawn(bound.serve(None, answer, Limits::default(), (), drain));
        let folder = tempfile::tempdir().unwrap();
        let kubeconfig = folder.path().join("kubeconfig");
        let text = format!(
            "{{apiVersion: v1, kind: Config, current-context: c, contexts: [{{name: c, context: {{cluster: c, user: u}}}}],
              clusters: [{{name: c, cluster: {{server: 'http://{address}'}}}}], users: [{{name: u, user: {{}}}}]}}"
        );
        std::fs::write(&kubeconfig, text).unwrap();
        let client = connect(Some(&kubeconfig), None).await.unwrap();
        Self { task, _shutdown: shutdown, _folder: folder, client, world, touched }
    }

    fn world(&self) -> MutexGuard<'_, World> {
        self.world.lock().unwrap()
    }

    /// A keeper at work, and what it reports.
    fn keeper(&self) -> (JoinHandle<()>, watch::Receiver<Report>) {
        let (keeper, reports) = Keeper::new(self.client.clone(), settings());
        (tokio::spawn(keeper.run()), reports)
    }
}

impl Server {
    /// A store of keys at work, what it publishes, and what it tells.
    fn keys(&self, lifetime: Duration) -> (JoinHandle<()>, KeyReader, mpsc::UnboundedReceiver<Option<String>>) {
        let Settings { namespace, secret, service, configurations, .. } = settings();
        let entries = &[(WebhookType::Validating, "a.writ.dev", "/validate")];
        let grace = lifetime / 10;
        let settings = KeySettings { namespace, secret, service, configurations, entries, lifetime, grace };
        let (store, keys) = KeyStore::new(self.client.clone(), settings);
        let (tell, told) = mpsc::unbounded_channel();
        (tokio::spawn(store.run(move |problem| drop(tell.send(problem)))), keys, told)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl World {
    fn secrets(&mut self, request: &Request<Bytes>) -> Response<Bytes> {
        let named = request.uri().path().ends_with("/pair");
        match *request.method() {
            Method::GET if !named => list(),
            Method::GET if self.unseen > 0 => {
                self.unseen -= 1;
                respond(200, &shipped())
            }
            Method::GET => match &self.secret {
                Some(secret) => respond(200, secret),
                None => failure(404, "NotFound", "not there"),
            },
            _ if self.outages > 0 => {
                self.outages -= 1;
                failure(500, "InternalError", "not now")
            }
            Method::PUT => {
                let mut secret: Value = serde_json::from_slice(request.body()).unwrap();
                let stored = self.secret.as_ref().map(|stored| &stored["metadata"]["resourceVersion"]);
                if stored != Some(&secret["metadata"]["resourceVersion"]) {
                    return failure(409, "Conflict", "somebody was faster");
                }
                self.version += 1;
                secret["metadata"]["resourceVersion"] = self.version.to_string().into();
                respond(200, self.secret.insert(secret))
            }
            _ => failure(403, "Forbidden", "not with the permissions of the manifests"),
        }
    }

    fn configurations(&mut self, request: &Request<Bytes>) -> Response<Bytes> {
        let path = request.uri().path();
        if !path.ends_with("/writ") {
            return list();
        }
        if !path.contains("/validating") {
            return failure(404, "NotFound", "only a validating one");
        }
        if request.method() == Method::PATCH {
            match self.refusals.pop_front() {
                Some(Refusal::ForGood) => return failure(422, "Invalid", "this bundle is not to our taste"),
                Some(Refusal::Late) => {
                    self.version += 1;
                    return failure(422, "Invalid", "the test failed");
                }
                None => {}
            }
            let patch: Value = serde_json::from_slice(request.body()).unwrap();
            let value = Some(patch[1]["value"].as_str().unwrap().to_owned());
            match patch[1]["path"].as_str() {
                Some("/webhooks/0/clientConfig/service/path") => {
                    self.paths.extend(value.clone());
                    self.path = value;
                }
                _ => self.bundle = value,
            }
            self.version += 1;
        }
        let mut call = json!({"service": {"name": "writ", "namespace": "ns"}});
        if let Some(bundle) = &self.bundle {
            call["caBundle"] = bundle.as_str().into();
        }
        if let Some(path) = &self.path {
            call["service"]["path"] = path.as_str().into();
        }
        let entry = json!({"name": "a.writ.dev", "sideEffects": "None", "admissionReviewVersions": ["v1"], "clientConfig": call});
        let metadata = json!({"name": "writ", "resourceVersion": self.version.to_string()});
        respond(200, &json!({"metadata": metadata, "webhooks": [entry]}))
    }
}

fn settings() -> Settings {
    Settings {
        namespace: "ns".to_owned(),
        secret: "pair".to_owned(),
        service: "writ".to_owned(),
        configurations: vec!["writ".to_owned()],
        lifetime: Duration::from_secs(3600),
        grace: Duration::from_secs(60),
    }
}

fn list() -> Response<Bytes> {
    let kind = "PartialObjectMetadataList";
    respond(
        200,
        &json!({"apiVersion": "meta.k8s.io/v1", "kind": kind, "metadata": {"resourceVersion": "1"}, "items": []}),
    )
}

fn failure(code: u16, reason: &str, message: &str) -> Response<Bytes> {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason, "message": message,
    });
    respond(code, &status)
}

fn respond(code: u16, value: &Value) -> Response<Bytes> {
    let response = Response::builder().status(code).header("content-type", "application/json");
    response.body(Bytes::from(format!("{value}\n"))).unwrap()
}

async fn settled(reports: &mut watch::Receiver<Report>) -> Report {
    let settled = reports.wait_for(|report| report.unit.is_some() && report.trouble.is_none());
    timeout(SOON, settled).await.expect("a settled pair").unwrap().clone()
}

#[tokio::test]
async fn whoever_comes_second_takes_the_pair_of_the_first_and_complains_of_nothing() {
    let server = Server::start().await;
    let (_first, mut reports) = server.keeper();
    let first = settled(&mut reports).await;
    server.world().unseen = 1;
    let (_second, mut reports) = server.keeper();
    let second = settled(&mut reports).await;
    assert_eq!(server.world().unseen, 0, "the second began with an empty Secret");
    assert_eq!(second.unit, first.unit);
    assert_eq!((first.failures, second.failures), (0, 0));
}

#[tokio::test]
async fn a_secret_that_is_shipped_anew_gets_back_what_it_held_even_if_writing_fails_at_first() {
    let server = Server::start().await;
    let (_keeper, mut reports) = server.keeper();
    let before = settled(&mut reports).await;
    let stored = {
        let mut world = server.world();
        world.outages = 2;
        world.secret.replace(shipped()).unwrap()
    };
    server.touched.notify_one();
    timeout(SOON, reports.wait_for(|report| report.failures == 2)).await.expect("two failures").unwrap();
    let back = async {
        while server.world().secret.as_ref().unwrap().get("data").is_none() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(SOON, back).await.expect("the Secret is back");
    assert_eq!(server.world().secret.as_ref().unwrap()["data"], stored["data"]);
    assert_eq!(reports.borrow().unit, before.unit);
}

#[tokio::test]
async fn a_missing_secret_is_told_with_what_to_do_and_takes_nothing_from_what_is_served() {
    let server = Server::start().await;
    server.world().secret = None;
    let (_keeper, mut reports) = server.keeper();
    let told = timeout(SOON, reports.wait_for(|report| report.failures > 0)).await.expect("a failure").unwrap().clone();
    let trouble = told.trouble.expect("a reason");
    assert_eq!(trouble, "secrets/ns/pair does not exist; it is part of the install: apply the manifests again");
    server.world().secret = Some(shipped());
    let before = settled(&mut reports).await;
    server.world().secret = None;
    server.touched.notify_one();
    timeout(SOON, reports.wait_for(|report| report.failures > before.failures)).await.expect("a failure").unwrap();
    let after = reports.borrow().clone();
    assert_eq!((after.unit, after.trouble), (before.unit, None));
}

#[tokio::test]
async fn a_refused_bundle_is_told_with_the_reason_and_a_lost_race_is_not_told() {
    let server = Server::start().await;
    server.world().refusals.extend([Refusal::Late, Refusal::ForGood]);
    let (_bundle, wanted) = watch::channel(Some("an authority".to_owned()));
    let (tell, mut told) = mpsc::unbounded_channel();
    let keeper = FixedBundle::new(server.client.clone(), settings(), wanted);
    let keeping = tokio::spawn(keeper.run(move |trouble| tell.send(trouble).unwrap()));
    let mut next = async || timeout(SOON, told.recv()).await.expect("a word").unwrap();
    let trouble = next().await.expect("the refusal");
    assert!(trouble.contains("cannot patch validatingwebhookconfigurations/writ: this bundle"), "{trouble}");
    assert_eq!(next().await, None);
    assert_eq!(server.world().bundle.as_deref(), Some("YW4gYXV0aG9yaXR5"));
    keeping.abort();
}

const LONG: Duration = Duration::from_secs(3600);

/// What shows that two have the same keys, without showing the keys.
fn proof(keys: &Keys) -> (String, String) {
    (keys.called.reveal().to_owned(), keys.mac.sign(MacPurpose::UpdateRequest, &[b"x"]))
}

#[tokio::test]
async fn the_first_replica_makes_the_keys_and_the_second_adopts_them() {
    let server = Server::start().await;
    let (_first, keys, _) = server.keys(LONG);
    let first = timeout(SOON, keys.ready()).await.expect("keys");
    server.world().unseen = 1;
    let (_second, keys, mut told) = server.keys(LONG);
    let second = timeout(SOON, keys.ready()).await.expect("keys");
    assert_eq!(timeout(SOON, told.recv()).await.expect("a word"), Some(None), "a lost race is no problem");
    assert_eq!(server.world().unseen, 0, "the second began with an empty Secret");
    assert!(proof(&first) == proof(&second) && first.random == second.random);
    assert_eq!(server.world().path, Some(format!("/validate/{}", first.called.reveal())));
    let data = server.world().secret.clone().unwrap()["data"].as_object().unwrap().clone();
    assert_eq!(data.keys().collect::<Vec<_>>(), ["mac-key", "random-seed", "webhook-token"]);
}

#[tokio::test]
async fn a_missing_secret_of_keys_is_told_with_what_to_do_and_backed_off_from() {
    let server = Server::start().await;
    server.world().secret = None;
    let (_store, keys, mut told) = server.keys(LONG);
    let problem = timeout(SOON, told.recv()).await.expect("a word").flatten().expect("a problem");
    assert_eq!(problem, "secrets/ns/pair does not exist; it is part of the install: apply the manifests again");
    assert!(keys.current().is_none());
    server.world().secret = Some(shipped());
    let before = timeout(SOON, keys.ready()).await.expect("keys");
    // Deleted and shipped anew: the keys in use come back, or everything that was signed would be void.
    server.world().secret = Some(shipped());
    server.touched.notify_one();
    let back = async {
        while server.world().secret.as_ref().unwrap().get("data").is_none() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(SOON, back).await.expect("the keys are back");
    let (_other, keys, _) = server.keys(LONG);
    let after = timeout(SOON, keys.ready()).await.expect("keys");
    assert!(proof(&before) == proof(&after) && before.random == after.random);
}

#[tokio::test]
async fn a_rotation_of_the_token_leaves_every_called_path_accepted() {
    let server = Server::start().await;
    let (_store, keys, _) = server.keys(Duration::from_secs(2));
    let first = timeout(SOON, keys.ready()).await.expect("keys");
    let mac = first.mac.sign(MacPurpose::UpdateRequest, &[b"x"]);
    let rotated = async {
        loop {
            let (path, written) = {
                let world = server.world();
                (world.path.clone(), world.paths.len())
            };
            let now = keys.current().expect("keys");
            if let Some(path) = path {
                assert_eq!(now.tokens.base_path(&path), Some("/validate"), "what is called is accepted");
            }
            assert_eq!(now.mac.sign(MacPurpose::UpdateRequest, &[b"x"]), mac, "only the token is rotated");
            if written >= 4 {
                return now;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let last = timeout(SOON, rotated).await.expect("three rotations");
    let first_path = format!("/validate/{}", first.called.reveal());
    assert_eq!(last.tokens.base_path(&first_path), None, "a token ends with its rotation");
}
