//! One connection: handshake, then requests and answers until either side has had enough.
//!
//! Every request that could be read is answered: one above the limits waits for its turn and is then told 503, a panic in
//! the handler is a 500. A client that got no seat is told so once and then sent away, so that its next try may find one.

use std::convert::Infallible;
use std::future::pending;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures::stream::FuturesUnordered;
use futures::{FutureExt, StreamExt};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{CONNECTION, CONTENT_TYPE, EXPECT, HeaderValue, RETRY_AFTER};
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode, Version};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulConnection;
use tokio::io::{AsyncRead, AsyncWrite, BufReader};
use tokio::net::TcpStream;
use tokio::sync::{Notify, Semaphore, SemaphorePermit};
use tokio::time::{Instant, interval_at, sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tracing::{debug, error};

use super::body::{self, BodyError, Room, Share};
use super::peers::PeerConnection;
use super::{Drain, Event, Handler, Limits, Observer, Phase};

/// Streams that one HTTP/2 client may have open at once.
const MOST_STREAMS: u32 = 256;
/// Streams that an HTTP/2 client may reset before they are looked at, or have reset by its own faults, before it is cut off.
const MOST_RESETS: usize = 64;
/// Bytes that an HTTP/2 client may send before they are read: of one request, and of all on a connection.
const STREAM_WINDOW: u32 = 256 << 10;
const CONNECTION_WINDOW: u32 = 1 << 20;
/// Bytes of answers that wait for an HTTP/2 client.
const SEND_BUFFER: usize = 64 << 10;
/// The smallest buffer that hyper takes.
const LEAST_BUFFER: usize = 8 << 10;
/// So often within the time that a connection may rest it is looked at.
const LOOKS: u32 = 4;
/// How long a refused client may go on sending before it is cut off.
const DISCARD_TIME: Duration = Duration::from_secs(2);

/// What all connections of one listener share.
pub(super) struct Shared<H, O> {
    handler: H,
    observer: O,
    limits: Limits,
    seats: Semaphore,
    turns: Semaphore,
    room: Room,
    drain: Drain,
}

/// How a connection should end.
enum Farewell {
    AtOnce,
    /// Not before what it has begun.
    Gracefully,
}

/// Whether a connection got a seat in time.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Seat {
    Taken,
    None,
}

/// The requests of one connection, told to whoever drives it.
#[derive(Default)]
struct Requests {
    begun: AtomicUsize,
    ended: AtomicUsize,
    /// Somebody without a seat has been answered.
    turned_away: Notify,
}

impl Requests {
    fn begin(self: &Arc<Self>, seat: Seat) -> Underway {
        self.begun.fetch_add(1, Ordering::Relaxed);
        Underway(self.clone(), seat)
    }
}

/// A request that has begun; it ends when this is dropped.
struct Underway(Arc<Requests>, Seat);

impl Drop for Underway {
    fn drop(&mut self) {
        let Self(requests, seat) = self;
        requests.ended.fetch_add(1, Ordering::Relaxed);
        if *seat == Seat::None {
            requests.turned_away.notify_one();
        }
    }
}

/// Tells the observer when something ends, however it ends: hyper drops a request whose client has gone.
struct Until<'a, O: Observer>(&'a O, Event);

impl<O: Observer> Drop for Until<'_, O> {
    fn drop(&mut self) {
        self.0.observe(self.1);
    }
}

impl<H: Handler, O: Observer> Shared<H, O> {
    pub(super) fn new(handler: H, limits: Limits, observer: O, drain: Drain) -> Self {
        let (seats, turns) = (Semaphore::new(limits.connections), Semaphore::new(limits.requests));
        let room = Room::new(&limits);
        Self { handler, observer, limits, seats, turns, room, drain }
    }

    /// Closes a connection that is one too many, without a word: whoever has so many does not listen.
    pub(super) fn drop_connection(&self, stream: TcpStream) {
        debug!("Too many connections of one peer");
        self.observer.observe(Event::Dropped);
        drop(stream);
    }

    /// Serves one connection to its end.
    pub(super) async fn converse(self: Arc<Self>, stream: TcpStream, tls: Option<TlsAcceptor>, peer: PeerConnection) {
        let peer = Arc::new(peer);
        self.observer.observe(Event::Connected);
        let _end = Until(&self.observer, Event::Disconnected);
        let _ = stream.set_nodelay(true);
        let Some(tls) = tls else {
            return self.speak(stream, Version::HTTP_11, &peer).await;
        };
        // rustls asks for 4 KiB at a time: with room for a whole review before it, that is one call into the kernel, not two.
        let stream = BufReader::new(stream);
        let handshake = tokio::select! {
            handshake = timeout(self.limits.handshake_time, tls.accept(stream)) => handshake,
            () = peer.evicted() => return self.observer.observe(Event::Dropped),
        };
        match handshake {
            Ok(Ok(stream)) => {
                let version = match stream.get_ref().1.alpn_protocol() {
                    Some(b"h2") => Version::HTTP_2,
                    _ => Version::HTTP_11,
                };
                self.speak(stream, version, &peer).await;
            }
            Ok(Err(error)) => {
                debug!(%error, "TLS handshake failed");
                self.observer.observe(Event::HandshakeFailed);
            }
            Err(_elapsed) => {
                debug!("TLS handshake took too long");
                self.observer.observe(Event::HandshakeFailed);
            }
        }
    }

    async fn speak<I>(self: &Arc<Self>, io: I, version: Version, peer: &Arc<PeerConnection>)
    where
        I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        if self.seats.available_permits() == 0 {
            peer.claim_seat();
        }
        let permit = tokio::select! {
            permit = within(&self.seats, self.limits.queue_time) => permit,
            () = peer.evicted() => return self.observer.observe(Event::Dropped),
        };
        let seat = if permit.is_some() { Seat::Taken } else { Seat::None };
        if seat == Seat::Taken {
            peer.seated();
        }
        let requests = Arc::new(Requests::default());
        let service = {
            let (shared, requests, peer) = (self.clone(), requests.clone(), peer.clone());
            service_fn(move |request: Request<Incoming>| {
                peer.asked();
                let (shared, underway) = (shared.clone(), requests.begin(seat));
                async move {
                    let response = shared.answer(request, seat).await;
                    drop(underway);
                    Ok::<_, Infallible>(response)
                }
            })
        };
        let io = TokioIo::new(io);
        if version == Version::HTTP_2 {
            let mut builder = http2::Builder::new(TokioExecutor::new());
            builder.timer(TokioTimer::new()).max_concurrent_streams(MOST_STREAMS);
            builder.keep_alive_interval(self.limits.idle_time / LOOKS);
            builder.max_header_list_size(u32::try_from(self.limits.head).unwrap_or(u32::MAX));
            builder.initial_stream_window_size(STREAM_WINDOW).initial_connection_window_size(CONNECTION_WINDOW);
            builder.max_send_buf_size(SEND_BUFFER);
            builder.max_pending_accept_reset_streams(MOST_RESETS).max_local_error_reset_streams(MOST_RESETS);
            let idle = self.until_idle(&requests);
            self.run(builder.serve_connection(io, service), &requests, peer, idle).await;
        } else {
            let mut builder = http1::Builder::new();
            // hyper's time for headers runs while a connection rests, too; ours for the first headers is below.
            builder.timer(TokioTimer::new()).header_read_timeout(self.limits.idle_time);
            builder.keep_alive(self.limits.keep_alive).max_buf_size(self.limits.head.max(LEAST_BUFFER));
            self.run(builder.serve_connection(io, service), &requests, peer, pending()).await;
        }
    }

    /// Returns when no request was there for the time that a connection may rest, or a little longer. hyper knows no such
    /// time for HTTP/2; looking now and then costs requests nothing.
    async fn until_idle(&self, requests: &Requests) {
        let pause = (self.limits.idle_time / LOOKS).max(Duration::from_millis(1));
        let mut looks = interval_at(Instant::now() + pause, pause);
        let (mut seen, mut quiet) = (0, 0);
        while quiet < LOOKS {
            looks.tick().await;
            let (ended, begun) = (requests.ended.load(Ordering::Relaxed), requests.begun.load(Ordering::Relaxed));
            quiet = if begun == seen && ended == begun { quiet + 1 } else { 0 };
            seen = begun;
        }
    }

    /// Drives a connection to its end. A new one that does not ask in time is closed; one that is idle or has no seat is
    /// asked to go, and a stop lets it finish.
    async fn run<C>(&self, connection: C, requests: &Requests, peer: &PeerConnection, idle: impl Future<Output = ()>)
    where
        C: GracefulConnection<Error: std::fmt::Display>,
    {
        let mut connection = pin!(connection);
        // Looked at when something in it has happened, and not whenever the connection moves: that is several times a request.
        let mut farewells = FuturesUnordered::from_iter([self.farewell(requests, peer, idle)]);
        let ended = loop {
            tokio::select! {
                ended = connection.as_mut() => break ended,
                Some(farewell) = farewells.next() => match farewell {
                    Farewell::AtOnce => {
                        debug!("No request came on a new connection");
                        return;
                    }
                    Farewell::Gracefully => connection.as_mut().graceful_shutdown(),
                },
            }
        };
        if let Err(error) = ended {
            debug!(%error, "Connection ended early");
        }
    }

    /// Returns when a connection should end.
    async fn farewell(&self, requests: &Requests, peer: &PeerConnection, idle: impl Future<Output = ()>) -> Farewell {
        let silence = async {
            sleep(self.limits.header_time).await;
            if requests.begun.load(Ordering::Relaxed) > 0 {
                pending::<()>().await;
            }
        };
        let mut drain = self.drain.clone();
        tokio::select! {
            () = silence => Farewell::AtOnce,
            () = peer.evicted() => {
                self.observer.observe(Event::Dropped);
                Farewell::AtOnce
            }
            () = drain.stopping() => Farewell::Gracefully,
            () = requests.turned_away.notified() => Farewell::Gracefully,
            () = idle => Farewell::Gracefully,
        }
    }

    async fn answer(&self, request: Request<Incoming>, seat: Seat) -> Response<Full<Bytes>> {
        self.observer.observe(Event::RequestStarted);
        let _end = Until(&self.observer, Event::RequestEnded);
        let version = request.version();
        let (mut head, mut body) = request.into_parts();
        let sends_unasked = !head.headers.contains_key(EXPECT);
        let rejection = if seat == Seat::Taken { self.handler.screen(&mut head) } else { None };
        let read = match rejection {
            None => self.read(&mut body, seat).await,
            Some(rejection) => Err(rejection),
        };
        let mut response = match read {
            Ok((bytes, _turn, _share)) => self.handle(Request::from_parts(head, bytes)).await,
            Err(refusal) => {
                self.observer.observe(Event::Refused(refusal.status()));
                if sends_unasked {
                    body::discard(&mut body, 4 * self.limits.body, DISCARD_TIME).await;
                }
                refusal
            }
        };
        let closing = seat == Seat::None || self.drain.phase() != Phase::Serving;
        if closing && version <= Version::HTTP_11 {
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        response.map(Full::new)
    }

    /// The body, the turn to handle it and its share of the room, or the refusal. The turn comes first: only those whose turn
    /// it is compete for room.
    async fn read(
        &self,
        body: &mut Incoming,
        seat: Seat,
    ) -> Result<(Bytes, SemaphorePermit<'_>, Share<'_>), Response<Bytes>> {
        let limits = &self.limits;
        if seat == Seat::None {
            return Err(busy("connections", limits.connections));
        }
        let Some(turn) = within(&self.turns, limits.queue_time).await else {
            return Err(busy("requests", limits.requests));
        };
        let (status, text) = match body::read(body, limits, &self.room).await {
            Ok((bytes, share)) => return Ok((bytes, turn, share)),
            Err(BodyError::NoRoom) => return Err(busy("bytes of bodies", limits.bodies)),
            Err(BodyError::TooLarge) => {
                (StatusCode::PAYLOAD_TOO_LARGE, format!("the body is larger than the limit of {} bytes", limits.body))
            }
            Err(BodyError::TooSlow) => (
                StatusCode::REQUEST_TIMEOUT,
                format!("the body did not arrive within {} s", limits.body_time.as_secs_f32()),
            ),
            Err(BodyError::Broken(reason)) => (StatusCode::BAD_REQUEST, format!("the body cannot be read: {reason}")),
        };
        Err(plain(status, text))
    }

    async fn handle(&self, request: Request<Bytes>) -> Response<Bytes> {
        let handling = AssertUnwindSafe(async { self.handler.handle(request).await });
        match handling.catch_unwind().await {
            Ok(response) => response,
            Err(_panic) => {
                error!("The handler of a request panicked");
                self.observer.observe(Event::Panicked);
                let text = "this request met a fault in the program, see its log";
                plain(StatusCode::INTERNAL_SERVER_ERROR, text.to_owned())
            }
        }
    }
}

/// A permit at once, or within the time.
async fn within(semaphore: &Semaphore, time: Duration) -> Option<SemaphorePermit<'_>> {
    match semaphore.try_acquire() {
        Ok(permit) => Some(permit),
        Err(_) => timeout(time, semaphore.acquire()).await.ok()?.ok(),
    }
}

fn busy(what: &str, limit: usize) -> Response<Bytes> {
    let text = format!("busy: the limit of {limit} {what} is reached, try again");
    let mut response = plain(StatusCode::SERVICE_UNAVAILABLE, text);
    response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
    response
}

fn plain(status: StatusCode, text: String) -> Response<Bytes> {
    let mut response = Response::new(Bytes::from(text + "\n"));
    *response.status_mut() = status;
    let kind = HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}
