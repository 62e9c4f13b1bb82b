//! The transport on loopback, with real TLS: versions, limits, rotation, drain.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::version;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use writ::server::{Bound, Certificates, ClientRule, Handler, Limits, Pair, Phase, Shutdown, Tls};

use crate::support::tls::{Client, TestPair, ask, post, read_answer};

const SOON: Duration = Duration::from_secs(10);

/// A server whose handler echoes, waits at a gate, or panics, as the path says.
struct Running {
    tls: Arc<Tls>,
    address: SocketAddr,
    pair: TestPair,
    certificates: Arc<Certificates>,
    shutdown: Shutdown,
    task: JoinHandle<()>,
    gate: Arc<Semaphore>,
    arrived: Arc<Semaphore>,
}

async fn start(limits: Limits) -> Running {
    start_with(limits, None).await
}

async fn start_with(limits: Limits, clients: Option<(&str, &[&str])>) -> Running {
    let pair = TestPair::make();
    let certificates = Arc::new(Certificates::default());
    certificates.serve(&Pair::from_pem(pair.chain.as_bytes(), pair.key.as_bytes()).unwrap());
    let names: Vec<String> =
        clients.iter().flat_map(|(_, names)| names.iter().map(|name| (*name).to_owned())).collect();
    let clients = clients.map(|(roots, _)| ClientRule { roots: roots.as_bytes(), names: &names });
    let tls = Arc::new(Tls::new(certificates.clone(), clients).unwrap());
    let bound = Bound::bind(([127, 0, 0, 1], 0).into()).await.unwrap();
    let address = bound.address();
    let (shutdown, drain) = Shutdown::new();
    let (gate, arrived) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
    let handler = {
        let (gate, arrived) = (gate.clone(), arrived.clone());
        move |request: Request<Bytes>| {
            let (gate, arrived) = (gate.clone(), arrived.clone());
            async move {
                match request.uri().path() {
                    "/wait" => {
                        arrived.add_permits(1);
                        gate.acquire().await.unwrap().forget();
                    }
                    "/panic" => panic!("as asked"),
                    _ => {}
                }
                Response::new(request.into_body())
            }
        }
    };
    let task = tokio::spawn(bound.serve(Some(tls.clone()), handler, limits, (), drain));
    Running { tls, address, pair, certificates, shutdown, task, gate, arrived }
}

impl Running {
    fn client(&self) -> Client {
        Client::trusting(&self.pair)
    }

    /// Waits until so many requests to `/wait` have arrived.
    async fn arrivals(&self, count: u32) {
        timeout(SOON, self.arrived.acquire_many(count)).await.expect("they arrive").unwrap().forget();
    }
}

#[tokio::test]
async fn speaks_what_the_client_prefers() {
    let server = start(Limits::default()).await;
    for versions in [vec![&version::TLS13], vec![&version::TLS12]] {
        let mut stream = Client { versions, ..server.client() }.connect(server.address).await.unwrap();
        for body in ["one", "two"] {
            let answer = ask(&mut stream, &post("/", body)).await.unwrap();
            assert_eq!((answer.status, answer.body.as_str()), (200, body));
        }
    }
    // Without ALPN: HTTP/1.1.
    let mut stream = Client { alpn: &[], ..server.client() }.connect(server.address).await.unwrap();
    assert_eq!(ask(&mut stream, &post("/", "x")).await.unwrap().body, "x");

    let mut http2 = http2(&server).await;
    let answer = http2.send_request(request("/", "over http/2")).await.unwrap();
    assert_eq!(answer.into_body().collect().await.unwrap().to_bytes(), "over http/2");
}

type Http2 = hyper::client::conn::http2::SendRequest<Full<Bytes>>;

async fn http2(server: &Running) -> Http2 {
    let stream = Client { alpn: &["h2"], ..server.client() }.connect(server.address).await.unwrap();
    let (sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    sender
}

fn request(path: &str, body: &str) -> Request<Full<Bytes>> {
    Request::post(format!("https://localhost{path}")).body(Full::new(Bytes::from(body.to_owned()))).unwrap()
}

#[tokio::test]
async fn refuses_tls_1_1() {
    let server = start(Limits::default()).await;
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    // A ClientHello of TLS 1.1 with one cipher suite of that time.
    let mut hello = vec![3, 2];
    hello.extend([7; 32]);
    hello.extend([0, 0, 2, 0xc0, 0x13, 1, 0]);
    let mut record =
        vec![22, 3, 1, 0, u8::try_from(hello.len() + 4).unwrap(), 1, 0, 0, u8::try_from(hello.len()).unwrap()];
    record.extend(hello);
    stream.write_all(&record).await.unwrap();
    let mut alert = Vec::new();
    stream.read_to_end(&mut alert).await.unwrap();
    assert_eq!((alert[0], alert.len(), alert[5]), (21, 7, 2), "one fatal alert and nothing else");
}

#[tokio::test]
async fn a_client_certificate_is_checked_if_asked_for() {
    let (clients, stranger) = (TestPair::make(), TestPair::make());
    let server = start_with(Limits::default(), Some((&clients.authority, &[]))).await;
    let is_let_in = async |shows: Option<&TestPair>| {
        let shows = shows.map(|pair| (pair.chain.clone(), pair.key.clone()));
        let client = Client { shows, ..server.client() };
        // In TLS 1.3 the client learns of the refusal with its first read.
        let Ok(mut stream) = client.connect(server.address).await else { return false };
        ask(&mut stream, &post("/", "x")).await.is_some_and(|answer| answer.status == 200)
    };
    assert!(is_let_in(Some(&clients)).await);
    assert!(!is_let_in(Some(&stranger)).await);
    assert!(!is_let_in(None).await);

    assert!(server.tls.trust(b"no authority").is_err());
    assert!(is_let_in(Some(&clients)).await, "those in use stay");
    server.tls.trust(stranger.authority.as_bytes()).unwrap();
    assert!(is_let_in(Some(&stranger)).await);
    assert!(!is_let_in(Some(&clients)).await);
}

#[tokio::test]
async fn a_client_certificate_may_need_a_name() {
    let clients = TestPair::make();
    for (names, expected) in [(&["other", "localhost"][..], true), (&["other"], false), (&["localhos"], false)] {
        let server = start_with(Limits::default(), Some((&clients.authority, names))).await;
        let client = Client { shows: Some((clients.chain.clone(), clients.key.clone())), ..server.client() };
        for _ in 0..2 {
            let answer = match client.connect(server.address).await {
                Ok(mut stream) => ask(&mut stream, &post("/", "x")).await.map(|answer| answer.status),
                Err(_) => None,
            };
            assert_eq!(answer == Some(200), expected, "{names:?}");
            // The names stay when the CA is read again.
            server.tls.trust(clients.authority.as_bytes()).unwrap();
        }
    }
}

/// Lets in who names the word in the path; the handled path is another.
struct Screened;

impl Handler for Screened {
    fn screen(&self, head: &mut hyper::http::request::Parts) -> Option<Response<Bytes>> {
        if head.uri.path() == "/word" {
            head.uri = "/changed".parse().unwrap();
            return None;
        }
        Some(Response::builder().status(404).body(Bytes::from("no such path")).unwrap())
    }

    async fn handle(&self, request: Request<Bytes>) -> Response<Bytes> {
        Response::new(Bytes::from(format!("{} {}", request.uri().path(), request.body().len())))
    }
}

/// A plain server on loopback that ends with the test.
async fn plain(handler: impl Handler, limits: Limits) -> (SocketAddr, Shutdown) {
    let bound = Bound::bind(([127, 0, 0, 1], 0).into()).await.unwrap();
    let address = bound.address();
    let (shutdown, drain) = Shutdown::new();
    tokio::spawn(bound.serve(None, handler, limits, (), drain));
    (address, shutdown)
}

#[tokio::test]
async fn a_request_is_rejected_by_its_head_before_room_is_taken_for_its_body() {
    let limits = Limits { requests: 1, queue_time: Duration::from_millis(100), ..Limits::default() };
    let (address, _shutdown) = plain(Screened, limits).await;
    let mut stream = TcpStream::connect(address).await.unwrap();
    assert_eq!(ask(&mut stream, &post("/word", "abc")).await.unwrap().body, "/changed 3");
    // The only turn is taken by a body that does not come; a rejection needs none.
    let mut slow = TcpStream::connect(address).await.unwrap();
    slow.write_all(b"POST /word HTTP/1.1\r\nhost: localhost\r\ncontent-length: 5\r\n\r\n").await.unwrap();
    eventually_busy(&mut stream).await;
    let text = "POST /guess HTTP/1.1\r\nhost: localhost\r\nexpect: 100-continue\r\ncontent-length: 5000000\r\n\r\n";
    let answer = timeout(SOON, ask(&mut stream, text)).await.unwrap().unwrap();
    assert_eq!((answer.status, answer.body.as_str()), (404, "no such path"));
}

/// Asks until the one turn is taken by somebody else.
async fn eventually_busy(stream: &mut TcpStream) {
    let busy = async { while ask(stream, &post("/word", "x")).await.unwrap().status != 503 {} };
    timeout(SOON, busy).await.expect("the turn is taken");
}

#[tokio::test]
async fn heads_have_a_limit() {
    let (address, _shutdown) = plain(Screened, Limits { head: 16 << 10, ..Limits::default() }).await;
    let answer = async |headers: String| {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let text = format!("POST /word HTTP/1.1\r\nhost: localhost\r\ncontent-length: 0\r\n{headers}\r\n");
        timeout(SOON, ask(&mut stream, &text)).await.unwrap().unwrap().status
    };
    assert_eq!(answer(format!("x: {}\r\n", "y".repeat(8 << 10))).await, 200);
    assert_eq!(answer(format!("x: {}\r\n", "y".repeat(20 << 10))).await, 431);
    assert_eq!(answer((0..200).map(|number| format!("x{number}: y\r\n")).collect()).await, 431);

    let server = start(Limits { head: 16 << 10, ..Limits::default() }).await;
    let mut multiplexed = http2(&server).await;
    let mut large = request("/", "x");
    large.headers_mut().insert("x", "y".repeat(20 << 10).parse().unwrap());
    let refused = multiplexed.send_request(large).await;
    assert!(refused.is_err() || refused.is_ok_and(|answer| answer.status() == 431), "headers over HTTP/2");
    assert_eq!(http2(&server).await.send_request(request("/", "x")).await.unwrap().status(), StatusCode::OK);
}

/// A connection from another address of loopback.
async fn from(host: [u8; 4], address: SocketAddr) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind((host, 0).into()).unwrap();
    socket.connect(address).await.unwrap()
}

#[tokio::test]
async fn one_peer_cannot_take_the_connections_of_others() {
    let (address, _shutdown) = plain(Screened, Limits { connections_per_peer: 2, ..Limits::default() }).await;
    let mut used = [from([127, 0, 0, 2], address).await, from([127, 0, 0, 2], address).await];
    for stream in &mut used {
        assert_eq!(ask(stream, &post("/word", "")).await.unwrap().status, 200);
    }
    let mut third = from([127, 0, 0, 2], address).await;
    let closed = timeout(SOON, third.read_to_end(&mut Vec::new())).await.expect("it is closed");
    assert_eq!(closed.unwrap_or(0), 0);
    let mut other = from([127, 0, 0, 3], address).await;
    assert_eq!(ask(&mut other, &post("/word", "")).await.unwrap().status, 200);
    for stream in &mut used {
        assert_eq!(ask(stream, &post("/word", "")).await.unwrap().status, 200, "those in use stay");
    }
    drop(used);
    let again = async {
        loop {
            let mut stream = from([127, 0, 0, 2], address).await;
            if ask(&mut stream, &post("/word", "")).await.is_some_and(|answer| answer.status == 200) {
                break;
            }
        }
    };
    timeout(SOON, again).await.expect("room for the peer again");
}

#[tokio::test]
async fn probes_are_answered_while_one_peer_holds_ten_thousand_idle_connections() {
    let answer = async |_request: Request<Bytes>| Response::new(Bytes::from("ok"));
    let (address, _shutdown) = plain(answer, Limits::for_probes()).await;
    let mut idle = Vec::new();
    for _ in 0..idle_connections() {
        idle.push(TcpStream::connect(address).await.unwrap());
    }
    // From the node, and from the very peer that holds the connections.
    for host in [[127, 0, 0, 2], [127, 0, 0, 1]] {
        for _ in 0..20 {
            let mut probe = from(host, address).await;
            let text = "GET /readyz HTTP/1.1\r\nhost: localhost\r\n\r\n";
            let answer = timeout(Duration::from_secs(1), ask(&mut probe, text)).await.expect("in time").unwrap();
            assert_eq!(answer.status, 200);
            assert!(answer.head.contains("\r\nconnection: close\r\n"), "{}", answer.head);
            let rest = timeout(SOON, probe.read_to_end(&mut Vec::new())).await.expect("it closes");
            assert_eq!(rest.unwrap(), 0);
        }
    }
}

/// Ten thousand, or as many as this process may have open.
#[expect(clippy::print_stdout, reason = "a test that shows less than its name says so")]
fn idle_connections() -> usize {
    let limits = std::fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let files =
        limits.lines().find_map(|line| line.strip_prefix("Max open files")?.split_whitespace().next()?.parse().ok());
    // The other ends, other tests, and what the process has open besides.
    let most = files.map_or(500, |files: usize| files.saturating_sub(2000).max(files / 4));
    if most < 10_000 {
        println!("only {most} idle connections: the limit of open files is too low for 10,000");
    }
    most.min(10_000)
}

#[tokio::test]
async fn a_body_over_the_limit_is_413_whether_announced_or_not() {
    let server = start(Limits { body: 1000, ..Limits::default() }).await;
    let mut stream = server.client().connect(server.address).await.unwrap();
    assert_eq!(ask(&mut stream, &post("/", &"x".repeat(1000))).await.unwrap().status, 200);
    let answer = ask(&mut stream, &post("/", &"x".repeat(1001))).await.unwrap();
    assert_eq!((answer.status, answer.body.as_str()), (413, "the body is larger than the limit of 1000 bytes\n"));

    let mut stream = server.client().connect(server.address).await.unwrap();
    let chunk = format!("1f4\r\n{}\r\n", "x".repeat(500)).repeat(3);
    let text = format!("POST / HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n{chunk}0\r\n\r\n");
    assert_eq!(ask(&mut stream, &text).await.unwrap().status, 413);

    let answer = http2(&server).await.send_request(request("/", &"x".repeat(1001))).await.unwrap();
    assert_eq!(answer.status(), StatusCode::PAYLOAD_TOO_LARGE);
}

#[tokio::test]
async fn a_client_that_asks_first_is_refused_before_it_sends() {
    let server = start(Limits { body: 10, ..Limits::default() }).await;
    let mut stream = server.client().connect(server.address).await.unwrap();
    let text = "POST / HTTP/1.1\r\nhost: localhost\r\nexpect: 100-continue\r\ncontent-length: 11\r\n\r\n";
    assert_eq!(timeout(Duration::from_millis(1500), ask(&mut stream, text)).await.unwrap().unwrap().status, 413);
}

#[tokio::test]
async fn slow_clients_are_let_go() {
    let short = Duration::from_millis(100);
    let limits = Limits { handshake_time: short, header_time: short, body_time: short, ..Limits::default() };
    let server = start(limits).await;

    let mut silent = TcpStream::connect(server.address).await.unwrap();
    let read = timeout(SOON, silent.read_to_end(&mut Vec::new())).await.expect("the handshake has an end");
    assert_eq!(read.unwrap_or(0), 0);

    let mut stream = server.client().connect(server.address).await.unwrap();
    stream.write_all(b"POST / HT").await.unwrap();
    assert!(timeout(SOON, read_answer(&mut stream)).await.expect("headers have an end").is_none());

    let mut stream = server.client().connect(server.address).await.unwrap();
    let text = "POST / HTTP/1.1\r\nhost: localhost\r\ncontent-length: 11\r\n\r\nhalf";
    assert_eq!(timeout(SOON, ask(&mut stream, text)).await.expect("bodies have an end").unwrap().status, 408);
}

#[tokio::test]
async fn an_idle_connection_outlives_the_time_for_its_first_headers() {
    let server = start(Limits { header_time: Duration::from_millis(50), ..Limits::default() }).await;
    let mut stream = server.client().connect(server.address).await.unwrap();
    assert_eq!(ask(&mut stream, &post("/", "one")).await.unwrap().body, "one");
    tokio::time::sleep(Duration::from_millis(150)).await;
    assert_eq!(ask(&mut stream, &post("/", "two")).await.unwrap().body, "two");
}

#[tokio::test]
async fn requests_over_the_limit_wait_and_are_then_told() {
    let limits = Limits { requests: 1, queue_time: Duration::from_millis(100), ..Limits::default() };
    let server = start(limits).await;
    let mut first = server.client().connect(server.address).await.unwrap();
    first.write_all(post("/wait", "first").as_bytes()).await.unwrap();
    server.arrivals(1).await;

    let mut second = server.client().connect(server.address).await.unwrap();
    let answer = ask(&mut second, &post("/", "second")).await.unwrap();
    assert_eq!(answer.status, 503);
    assert!(answer.head.contains("\r\nretry-after: 1\r\n"), "{}", answer.head);
    assert_eq!(answer.body, "busy: the limit of 1 requests is reached, try again\n");

    // One that waits gets its turn, on the very connection that was refused before.
    second.write_all(post("/", "third").as_bytes()).await.unwrap();
    server.gate.add_permits(1);
    assert_eq!(read_answer(&mut first).await.unwrap().body, "first");
    assert_eq!(read_answer(&mut second).await.unwrap().body, "third");
}

#[tokio::test]
async fn bodies_over_the_room_wait_and_are_then_told() {
    let queue_time = Duration::from_millis(100);
    let server = start(Limits { body: 100_000, bodies: 110_000, queue_time, ..Limits::default() }).await;
    let mut first = server.client().connect(server.address).await.unwrap();
    first.write_all(post("/wait", &"x".repeat(100_000)).as_bytes()).await.unwrap();
    server.arrivals(1).await;

    let mut second = server.client().connect(server.address).await.unwrap();
    assert_eq!(ask(&mut second, &post("/", "small")).await.unwrap().body, "small");
    let large = "y".repeat(70_000);
    let answer = ask(&mut second, &post("/", &large)).await.unwrap();
    assert_eq!(answer.status, 503);
    assert!(answer.head.contains("\r\nretry-after: 1\r\n"), "{}", answer.head);
    assert_eq!(answer.body, "busy: the limit of 110000 bytes of bodies is reached, try again\n");
    let answer = http2(&server).await.send_request(request("/", &large)).await.unwrap();
    assert_eq!(answer.status(), StatusCode::SERVICE_UNAVAILABLE);

    // One that waits gets its room, and gives it back.
    second.write_all(post("/", &large).as_bytes()).await.unwrap();
    server.gate.add_permits(1);
    assert_eq!(read_answer(&mut first).await.unwrap().body.len(), 100_000);
    assert_eq!(read_answer(&mut second).await.unwrap().body, large);
    for _ in 0..3 {
        assert_eq!(ask(&mut second, &post("/", &"z".repeat(100_000))).await.unwrap().status, 200);
    }
}

#[tokio::test]
async fn bodies_that_are_only_announced_take_no_room() {
    let server = start(Limits { body: 1 << 20, bodies: 1 << 20, ..Limits::default() }).await;
    let mut silent = Vec::new();
    for _ in 0..8 {
        let mut stream = server.client().connect(server.address).await.unwrap();
        let head = format!("POST / HTTP/1.1\r\nhost: localhost\r\ncontent-length: {}\r\n\r\nx", 1 << 20);
        stream.write_all(head.as_bytes()).await.unwrap();
        silent.push(stream);
    }
    let mut stream = server.client().connect(server.address).await.unwrap();
    assert_eq!(ask(&mut stream, &post("/", &"x".repeat(200_000))).await.unwrap().status, 200);
}

#[tokio::test]
async fn connections_over_the_limit_wait_and_are_then_told() {
    let limits = Limits { connections: 1, queue_time: Duration::from_millis(100), ..Limits::default() };
    let server = start(limits).await;
    let mut first = server.client().connect(server.address).await.unwrap();
    assert_eq!(ask(&mut first, &post("/", "first")).await.unwrap().status, 200);

    let mut second = server.client().connect(server.address).await.unwrap();
    let answer = ask(&mut second, &post("/", "second")).await.unwrap();
    assert_eq!(answer.status, 503);
    assert!(answer.head.contains("\r\nconnection: close\r\n"), "{}", answer.head);

    drop(first);
    let mut third = server.client().connect(server.address).await.unwrap();
    assert_eq!(ask(&mut third, &post("/", "third")).await.unwrap().status, 200);
}

/// Over HTTP/2 nobody says `connection: close`: who got no seat is told once and then let go, to come back for one.
#[tokio::test]
async fn a_multiplexed_connection_without_a_seat_ends_after_its_answer() {
    let limits = Limits { connections: 1, queue_time: Duration::from_millis(100), ..Limits::default() };
    let server = start(limits).await;
    let mut first = server.client().connect(server.address).await.unwrap();
    assert_eq!(ask(&mut first, &post("/", "first")).await.unwrap().status, 200);

    let mut second = http2(&server).await;
    let answer = second.send_request(request("/", "second")).await.unwrap();
    assert_eq!(answer.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert!(answer.into_body().collect().await.unwrap().to_bytes().starts_with(b"busy: the limit of 1 connections"));
    ends(&second).await;

    drop(first);
    let answer = http2(&server).await.send_request(request("/", "third")).await.unwrap();
    assert_eq!(answer.status(), StatusCode::OK);
}

#[tokio::test]
async fn a_multiplexed_connection_may_rest_only_so_long() {
    let idle_time = Duration::from_millis(200);
    let server = start(Limits { idle_time, ..Limits::default() }).await;
    let mut multiplexed = http2(&server).await;
    // Whoever waits for an answer does not rest.
    let waiting = tokio::spawn(multiplexed.send_request(request("/wait", "busy")));
    server.arrivals(1).await;
    tokio::time::sleep(3 * idle_time).await;
    server.gate.add_permits(1);
    assert_eq!(waiting.await.unwrap().unwrap().status(), StatusCode::OK);
    assert!(!multiplexed.is_closed());
    assert_eq!(multiplexed.send_request(request("/", "again")).await.unwrap().status(), StatusCode::OK);
    ends(&multiplexed).await;
}

async fn ends(connection: &Http2) {
    let closed = async {
        while !connection.is_closed() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(SOON, closed).await.expect("the server ends the connection");
}

#[tokio::test]
async fn a_panic_is_a_500_and_the_connection_goes_on() {
    let server = start(Limits::default()).await;
    let mut stream = server.client().connect(server.address).await.unwrap();
    assert_eq!(ask(&mut stream, &post("/panic", "")).await.unwrap().status, 500);
    assert_eq!(ask(&mut stream, &post("/", "still here")).await.unwrap().body, "still here");
}

#[tokio::test]
async fn a_new_certificate_is_served_without_touching_open_connections() {
    let server = start(Limits::default()).await;
    let mut open = server.client().connect(server.address).await.unwrap();
    for _ in 0..3 {
        let next = TestPair::make();
        server.certificates.serve(&Pair::from_pem(next.chain.as_bytes(), next.key.as_bytes()).unwrap());
        let mut stream = Client::trusting(&next).connect(server.address).await.expect("the new pair is served");
        assert_eq!(ask(&mut stream, &post("/", "new")).await.unwrap().body, "new");
        assert!(server.client().connect(server.address).await.is_err(), "the old pair is not");
        assert_eq!(ask(&mut open, &post("/", "open")).await.unwrap().body, "open");
    }
}

#[tokio::test]
async fn a_drain_finishes_what_has_begun() {
    let server = start(Limits::default()).await;
    let mut busy = server.client().connect(server.address).await.unwrap();
    busy.write_all(post("/wait", "busy").as_bytes()).await.unwrap();
    let mut uploading = server.client().connect(server.address).await.unwrap();
    uploading.write_all(b"POST / HTTP/1.1\r\nhost: localhost\r\ncontent-length: 8\r\n\r\nhalf").await.unwrap();
    let mut idle = server.client().connect(server.address).await.unwrap();
    assert_eq!(ask(&mut idle, &post("/", "x")).await.unwrap().status, 200);
    let mut multiplexed = http2(&server).await;
    let streaming = tokio::spawn(multiplexed.send_request(request("/wait", "stream")));
    server.arrivals(2).await;

    server.shutdown.enter(Phase::Leaving);
    let answer = ask(&mut idle, &post("/", "leaving")).await.unwrap();
    assert_eq!(answer.body, "leaving");
    assert!(answer.head.contains("\r\nconnection: close\r\n"), "{}", answer.head);
    let mut late = server.client().connect(server.address).await.expect("still accepting");
    assert_eq!(ask(&mut late, &post("/", "late")).await.unwrap().body, "late");

    server.shutdown.enter(Phase::Stopping);
    let closed = || async { TcpStream::connect(server.address).await.is_err() };
    timeout(SOON, async {
        while !closed().await {
            tokio::task::yield_now().await
        }
    })
    .await
    .expect("no longer accepting");
    assert!(!server.task.is_finished());
    assert_eq!(ask(&mut uploading, "half").await.unwrap().body, "halfhalf");
    server.gate.add_permits(2);
    let answer = read_answer(&mut busy).await.unwrap();
    assert_eq!(answer.body, "busy");
    assert!(answer.head.contains("\r\nconnection: close\r\n"), "{}", answer.head);
    let answer = streaming.await.unwrap().unwrap();
    assert_eq!(answer.into_body().collect().await.unwrap().to_bytes(), "stream");
    timeout(SOON, server.task).await.expect("the drain ends with the last request").unwrap();
    assert!(multiplexed.send_request(request("/", "after")).await.is_err());
}

#[tokio::test]
async fn a_drain_has_an_end() {
    let server = start(Limits { drain_time: Duration::from_millis(100), ..Limits::default() }).await;
    let mut stuck = server.client().connect(server.address).await.unwrap();
    stuck.write_all(post("/wait", "stuck").as_bytes()).await.unwrap();
    server.arrivals(1).await;
    server.shutdown.enter(Phase::Stopping);
    timeout(SOON, server.task).await.expect("the drain ends").unwrap();
}
