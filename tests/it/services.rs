//! Rules that call services: real requests to a server on loopback, with and without TLS.

use std::fmt::Write;
use std::future::pending;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::future::join_all;
use hyper::{Request, Response};
use rustls::version;
use serde_json::{Map, Value, json};
use tokio::io::AsyncReadExt;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use writ::cluster::{ServiceOptions, Services};
use writ::compile;
use writ::core::generate::{
    Answer, Evaluation, Facts, Fetch, Gate, InstallBounds, Outbound, Reach, ServiceFetch, Trigger, evaluate,
};
use writ::core::yaml;
use writ::server::{Bound, Certificates, Limits, Pair, Shutdown, Tls};

use crate::support::tls::TestPair;

/// What a service says besides its status: nobody but the rule may read it.
const HIDDEN: &str = "hidden-from-logs";

/// A service that answers as the path says.
struct Service {
    address: SocketAddr,
    pair: TestPair,
    _shutdown: Shutdown,
    task: JoinHandle<()>,
}

impl Service {
    async fn start(with_tls: bool) -> Self {
        let pair = TestPair::make();
        let certificates = Arc::new(Certificates::default());
        certificates.serve(&Pair::from_pem(pair.chain.as_bytes(), pair.key.as_bytes()).unwrap());
        let tls = with_tls.then(|| Arc::new(Tls::new(certificates, None).unwrap()));
        let bound = Bound::bind(([127, 0, 0, 1], 0).into()).await.unwrap();
        let address = bound.address();
        let (shutdown, drain) = Shutdown::new();
        let task = tokio::spawn(bound.serve(tls, respond, Limits::default(), (), drain));
        Self { address, pair, _shutdown: shutdown, task }
    }

    fn port(&self) -> u16 {
        self.address.port()
    }

    fn bundle(&self) -> Value {
        self.pair.authority.clone().into()
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn respond(request: Request<Bytes>) -> Response<Bytes> {
    let body = |text: String| Response::new(Bytes::from(text));
    let with_status = |status: u16| {
        let mut response = body(HIDDEN.to_owned());
        *response.status_mut() = status.try_into().unwrap();
        response
    };
    match request.uri().path() {
        "/echo" => {
            let headers = request.headers().iter();
            let headers: Map<String, Value> =
                headers.map(|(name, value)| (name.to_string(), value.to_str().unwrap().into())).collect();
            let text = String::from_utf8(request.body().to_vec()).unwrap();
            body(
                json!({
                    "method": request.method().as_str(), "query": request.uri().query(), "headers": headers,
                    "body": text,
                })
                .to_string(),
            )
        }
        "/null" => body("null".to_owned()),
        "/text" => body(HIDDEN.to_owned()),
        "/large" => body(format!("\"{}\"", "x".repeat(100_000))),
        "/moved" => {
            let mut response = with_status(302);
            response.headers_mut().insert("location", "/echo".parse().unwrap());
            response
        }
        "/slow" => pending().await,
        path => with_status(path.trim_start_matches('/').parse().unwrap()),
    }
}

/// Every host, those of this machine among them.
fn bounds() -> InstallBounds {
    InstallBounds::offline().with_outbound(outbound())
}

fn outbound() -> Outbound {
    Outbound::new(["*", "localhost", "127.0.0.1"].map(str::to_owned))
}

fn options() -> ServiceOptions {
    ServiceOptions {
        timeout: Duration::from_secs(10),
        response_limit: 50_000,
        token_file: PathBuf::from("/nonexistent/token"),
    }
}

/// The value of a context entry `apiCall`, as a rule for a Pod `web` of a ClusterPolicy sees it; or the error.
async fn look_up_with(options: ServiceOptions, call: &Value) -> Result<Value, String> {
    let policy = json!({
        "apiVersion": "kyverno.io/v1", "kind": "ClusterPolicy", "metadata": {"name": "p"},
        "spec": {"background": false, "rules": [{
            "name": "r", "match": {"any": [{"resources": {"kinds": ["Pod"]}}]},
            "context": [{"name": "c", "apiCall": call}],
            "generate": {
                "apiVersion": "v1", "kind": "ConfigMap", "name": "made", "namespace": "a",
                "data": {"data": {"v": "{{ c }}"}},
            },
        }]},
    });
    let (policy, findings) = compile::generate::policy(&yaml::read_value(&policy.to_string()).unwrap());
    let policy = policy.unwrap_or_else(|| panic!("{:?}", findings.errors));
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web", "namespace": "a", "uid": "u"}});
    let (trigger, services) = (Trigger::background(pod), Services::new(options));
    let mut facts = Facts::new(jiff::Timestamp::UNIX_EPOCH, 1, bounds());
    loop {
        match evaluate(&policy.rules[0], &trigger, &facts).map_err(|error| error.to_string())? {
            Evaluation::Needs(needs) => {
                for fetch in needs {
                    let Fetch::Service(service) = &fetch else { panic!("{fetch}") };
                    let answer = services.answer(service).await;
                    facts.insert(fetch, answer);
                }
            }
            Evaluation::Done(plan) => match plan.failures.first() {
                Some(failure) => return Err(failure.error.to_string()),
                None => return Ok(plan.targets[0].body["data"]["v"].clone()),
            },
            other => panic!("{other:?}"),
        }
    }
}

async fn look_up(call: Value) -> Result<Value, String> {
    look_up_with(options(), &call).await
}

#[track_caller]
fn assert_fails(found: Result<Value, String>, part: &str) {
    let error = found.expect_err("an error");
    assert!(error.contains(part), "{error}");
    assert!(!error.contains(HIDDEN), "{error}");
}

#[tokio::test]
async fn a_get_carries_headers_and_no_data() {
    let service = Service::start(false).await;
    let url = format!("http://localhost:{}/echo?name={{{{ request.object.metadata.name }}}}", service.port());
    let headers = json!([
        {"key": "X-Name", "value": "{{ request.object.metadata.name }}"},
        {"key": "Content-Length", "value": "7"}, {"key": "Host", "value": "elsewhere"},
    ]);
    let call = json!({"service": {"url": url, "headers": headers}, "data": [{"key": "k", "value": "v"}]});
    let found = look_up(call).await.unwrap();
    assert_eq!((&found["method"], &found["body"]), (&json!("GET"), &json!("")));
    assert_eq!(found["query"], json!("name=web"));
    assert_eq!(found["headers"]["x-name"], json!("web"));
    assert_eq!(found["headers"]["host"], json!(format!("localhost:{}", service.port())));
    assert_eq!(found["headers"].get("authorization"), None);
}

#[tokio::test]
async fn a_post_carries_data_over_tls() {
    let service = Service::start(true).await;
    let url = format!("https://localhost:{}/echo", service.port());
    let call = |data: Value| {
        let service = json!({"url": url, "caBundle": service.bundle()});
        json!({"service": service, "method": "POST", "data": data})
    };
    let data = json!([{"key": "name", "value": "{{ request.object.metadata.name }}"},
        {"key": "meta", "value": "{{ request.object.metadata }}"}, {"key": "n", "value": 1}]);
    let found = look_up(call(data)).await.unwrap();
    assert_eq!(found["method"], json!("POST"));
    assert_eq!(found["headers"]["content-type"], json!("application/json"));
    let body = found["body"].as_str().unwrap();
    assert!(body.ends_with("}\n"), "{body:?}");
    let sent: Value = serde_json::from_str(body).unwrap();
    assert_eq!(sent, json!({"name": "web", "meta": {"name": "web", "namespace": "a", "uid": "u"}, "n": 1}));
    assert_eq!(look_up(call(json!([]))).await.unwrap()["body"], json!("{}\n"));
}

#[tokio::test]
async fn authorities_are_those_of_the_bundle() {
    let service = Service::start(true).await;
    let url = format!("https://localhost:{}/null", service.port());
    let with = |bundle: Value| look_up(json!({"service": {"url": url, "caBundle": bundle}}));
    assert_eq!(with(service.bundle()).await, Ok(Value::Null));
    assert_fails(with(TestPair::make().authority.into()).await, "no TLS connection: ");
    assert_fails(with("{{ 'no PEM' }}".into()).await, "caBundle holds no certificate");
    // The authorities of the system, if it has any, do not know this one.
    let error = look_up(json!({"service": {"url": url}})).await.expect_err("an unknown authority");
    assert!(error.contains("no TLS connection: ") || error.contains("trusts no authority"), "{error}");
    // The name must fit as well.
    let url = format!("https://127.0.0.1:{}/null", service.port());
    assert_fails(look_up(json!({"service": {"url": url, "caBundle": service.bundle()}})).await, "no TLS connection: ");
}

/// A client that offered something older than 1.2 would say so in its first message.
#[tokio::test]
async fn tls_begins_at_1_2() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let hello = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut hello = vec![0; 4096];
        let read = stream.read(&mut hello).await.unwrap();
        hello.truncate(read);
        hello
    });
    let bundle = TestPair::make().authority;
    let call = json!({"service": {"url": format!("https://localhost:{port}/"), "caBundle": bundle}});
    assert_fails(look_up(call).await, "no TLS connection: ");
    let hello = hello.await.unwrap();
    // The extension `supported_versions`: type, length, length of the list, versions.
    let extension = [0x00, 0x2b, 0x00, 0x05, 0x04];
    let at = hello.windows(5).position(|window| window == extension).expect("two versions");
    let mut offered = String::new();
    for byte in &hello[at + 5..at + 9] {
        write!(offered, "{byte:02x}").unwrap();
    }
    assert_eq!(offered, format!("{:04x}{:04x}", u16::from(version::TLS13.version), u16::from(version::TLS12.version)));
}

#[tokio::test]
async fn a_projected_token_is_sent_over_tls_unless_the_rule_has_its_own() {
    let (service, plain) = (Service::start(true).await, Service::start(false).await);
    let folder = tempfile::tempdir().unwrap();
    let token_file = folder.path().join("token");
    std::fs::write(&token_file, "abc\n").unwrap();
    let sent = async |base: String, headers: Value| {
        let options = ServiceOptions { token_file: token_file.clone(), ..options() };
        let service = json!({"url": format!("{base}/echo"), "headers": headers, "caBundle": service.bundle()});
        let found = look_up_with(options, &json!({"service": service})).await;
        found.unwrap()["headers"]["authorization"].clone()
    };
    let secure = || format!("https://localhost:{}", service.port());
    assert_eq!(sent(secure(), json!([])).await, json!("Bearer abc"));
    assert_eq!(sent(secure(), json!([{"key": "authorization", "value": "Basic x"}])).await, json!("Basic x"));
    assert_eq!(sent(format!("http://localhost:{}", plain.port()), json!([])).await, Value::Null);
    std::fs::write(&token_file, "").unwrap();
    assert_eq!(sent(secure(), json!([])).await, Value::Null);
}

#[tokio::test]
async fn only_a_good_answer_counts() {
    let service = Service::start(false).await;
    let call = |path: &str| json!({"service": {"url": format!("http://localhost:{}{path}", service.port())}});
    assert_fails(look_up(call("/500")).await, "HTTP 500 Internal Server Error");
    assert_fails(look_up(call("/404")).await, "HTTP 404 Not Found");
    assert_fails(look_up(call("/moved")).await, "HTTP 302 Found; redirects are not followed");
    assert_fails(look_up(call("/text")).await, "the response is not JSON");
    assert_fails(look_up(call("/204")).await, "the response is not JSON");
    assert_fails(look_up(call("/large")).await, "the response is larger than 50000 bytes");
    let unlimited = ServiceOptions { response_limit: 0, ..options() };
    assert_eq!(look_up_with(unlimited, &call("/large")).await.unwrap().as_str().map(str::len), Some(100_000));
    let hasty = ServiceOptions { timeout: Duration::from_millis(100), ..options() };
    assert_fails(look_up_with(hasty, &call("/slow")).await, "no answer within 100ms");
    // Port 1 of loopback: nobody listens there.
    assert_fails(look_up(json!({"service": {"url": "http://127.0.0.1:1/"}})).await, "no connection: ");
    assert_fails(look_up(json!({"service": {"url": "http://no.such.invalid/"}})).await, "is not found");
}

fn fetch(url: &str) -> ServiceFetch {
    match Gate::new(&Reach::Cluster, &bounds()).service(url, Vec::new(), None, None) {
        Ok(Fetch::Service(fetch)) => fetch,
        other => panic!("{url}: {other:?}"),
    }
}

#[tokio::test]
async fn a_service_that_hangs_keeps_nobody_else_waiting() {
    let service = Service::start(false).await;
    let services = Services::new(options());
    let slow = fetch(&format!("http://localhost:{}/slow", service.port()));
    let hanging = join_all((0..100).map(|_| services.answer(&slow)));
    let other = fetch(&format!("http://127.0.0.1:{}/null", service.port()));
    tokio::select! {
        _ = hanging => panic!("the slow ones have ended first"),
        answer = services.answer(&other) => assert_eq!(answer, Answer::found("null".into())),
    }
}

#[tokio::test]
async fn waiting_for_a_turn_is_part_of_the_time() {
    let service = Service::start(false).await;
    let services = Services::new(ServiceOptions { timeout: Duration::from_secs(1), ..options() });
    let slow = fetch(&format!("http://localhost:{}/slow", service.port()));
    let began = Instant::now();
    let answers = join_all((0..64).map(|_| services.answer(&slow))).await;
    assert!(answers.iter().all(|answer| *answer == Answer::Failed("no answer within 1s".to_owned())), "{answers:?}");
    assert!(began.elapsed() < Duration::from_secs(5), "one after another would take at least 8 s");
}

#[tokio::test]
async fn a_default_covers_calls_that_fail_and_nothing_else() {
    let service = Service::start(false).await;
    let call = |path: &str, query: &str| {
        let service = json!({"url": format!("http://localhost:{}{path}", service.port())});
        json!({"service": service, "jmesPath": query, "default": {"query": "as it is"}})
    };
    let default = Ok(json!({"query": "as it is"}));
    assert_eq!(look_up(call("/500", "method")).await, default);
    assert_eq!(
        look_up(json!({"service": {"url": "http://127.0.0.1:1/"}, "default": {"query": "as it is"}})).await,
        default
    );
    assert_eq!(look_up(call("/echo", "method")).await, Ok(json!("GET")));
    assert_eq!(look_up(call("/null", "@")).await, Ok(Value::Null));
    assert_fails(look_up(call("/text", "@")).await, "the response is not JSON");
    assert_fails(look_up(call("/echo", "nothing")).await, "Unknown key \"nothing\"");
    assert_fails(look_up(call("/{{ request.object.spec.nothing }}", "@")).await, "Unknown key \"spec\"");
}

#[tokio::test]
async fn link_local_addresses_are_refused_by_whatever_name() {
    // Numbers are addresses to the resolver, though not to a parser of addresses.
    for host in ["169.254.169.254", "[fe80::1]", "[::ffff:169.254.169.254]", "2852039166", "0xa9.0xfe.0xa9.0xfe"] {
        let url = format!("http://{{{{ '{host}' }}}}/latest/meta-data");
        assert_fails(look_up(json!({"service": {"url": url}})).await, "is a link-local address");
    }
}

#[tokio::test]
async fn the_own_machine_is_called_by_the_name_that_operators_give() {
    // Numbers, names, what the resolver makes of an abbreviation: none of them is `localhost`.
    for host in ["127.0.0.2", "2130706433", "127.1", "0", "[::1]", "[::]"] {
        let url = format!("http://{{{{ '{host}' }}}}:1/");
        assert_fails(look_up(json!({"service": {"url": url}})).await, "is on the own machine");
    }
}
