//! Accepting connections and speaking HTTP on them, from the first handshake to the last drained request.
//!
//! Whoever reached the listener gets an answer: a connection or request above the limits waits for its turn and is then
//! told 503, a panic in the handler is a 500, and a stop finishes what has begun.

use std::convert::Infallible;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{CONNECTION, CONTENT_TYPE, EXPECT, HeaderValue, RETRY_AFTER};
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode, Version};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tracing::{debug, error, warn};

use super::body::{self, BodyError};
use super::{Drain, Event, Handler, Limits, Observer, Phase};

/// A listener that has its port and waits to be told what to do with it.
#[derive(Debug)]
pub struct Bound {
    listener: TcpListener,
    address: SocketAddr,
}

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServerError {
    #[error("cannot listen on {address}: {source}")]
    Bind {
        address: SocketAddr,
        source: std::io::Error,
    },
}

/// What all connections of one listener share.
struct Shared<H, O> {
    handler: H,
    observer: O,
    limits: Limits,
    seats: Semaphore,
    turns: Semaphore,
    drain: Drain,
}

/// Whether a connection got a seat in time.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Seat {
    Taken,
    None,
}

/// What the client agreed to speak.
#[derive(Clone, Copy)]
enum Protocol {
    Http1,
    Http2,
}

impl Bound {
    pub async fn bind(address: SocketAddr) -> Result<Self, ServerError> {
        let listening = async {
            let listener = match TcpListener::bind(address).await {
                // `[::]` means every address; a host without IPv6 has only the others.
                Err(_) if address.ip() == Ipv6Addr::UNSPECIFIED => {
                    TcpListener::bind((Ipv4Addr::UNSPECIFIED, address.port())).await
                }
                other => other,
            }?;
            let address = listener.local_addr()?;
            Ok(Self { listener, address })
        };
        listening.await.map_err(|source| ServerError::Bind { address, source })
    }

    /// The address in use, with the port that the system chose if it was asked to.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until `drain` says stop, then finishes what is in flight, within the limits. Without `tls` it speaks plain
    /// HTTP/1.1.
    pub async fn serve<H: Handler, O: Observer>(
        self,
        tls: Option<Arc<ServerConfig>>,
        handler: H,
        limits: Limits,
        observer: O,
        mut drain: Drain,
    ) {
        let tls = tls.map(TlsAcceptor::from);
        let doors = Arc::new(Semaphore::new(limits.connections + limits.overflow()));
        let shared = Arc::new(Shared {
            seats: Semaphore::new(limits.connections),
            turns: Semaphore::new(limits.requests),
            drain: drain.clone(),
            handler,
            observer,
            limits,
        });
        let mut connections = JoinSet::new();
        let stopping = drain.stopping();
        let mut stopping = pin!(stopping);
        loop {
            let door = doors.clone();
            let arrival = async {
                let pass = door.acquire_owned().await.expect("the semaphore is never closed");
                (self.listener.accept().await, pass)
            };
            let (accepted, pass) = tokio::select! {
                biased;
                () = &mut stopping => break,
                Some(ended) = connections.join_next(), if !connections.is_empty() => {
                    report_end(ended);
                    continue;
                }
                arrival = arrival => arrival,
            };
            match accepted {
                Ok((stream, _peer)) => {
                    let (shared, tls) = (shared.clone(), tls.clone());
                    connections.spawn(async move {
                        shared.converse(stream, tls).await;
                        drop(pass);
                    });
                }
                Err(error) => {
                    // Out of file descriptors, most likely. Those who wait outside are served when some are free again.
                    warn!(%error, "Accepting a connection failed");
                    sleep(Duration::from_millis(50)).await;
                }
            }
        }
        // A client whose connection the kernel has completed believes itself accepted.
        while let Some(Ok((stream, _peer))) = self.listener.accept().now_or_never() {
            let (shared, tls) = (shared.clone(), tls.clone());
            connections.spawn(async move { shared.converse(stream, tls).await });
        }
        drop(self.listener);
        finish(connections, shared.limits.drain_time).await;
    }
}

async fn finish(mut connections: JoinSet<()>, time: Duration) {
    let all = async {
        while let Some(ended) = connections.join_next().await {
            report_end(ended);
        }
    };
    if timeout(time, all).await.is_err() {
        warn!(
            connections = connections.len(),
            "Connections were still busy at the end of the drain, closing them"
        );
        connections.shutdown().await;
    }
}

fn report_end(ended: Result<(), tokio::task::JoinError>) {
    if let Err(error) = ended
        && error.is_panic()
    {
        error!(%error, "A connection task panicked");
    }
}

impl<H: Handler, O: Observer> Shared<H, O> {
    async fn converse(self: Arc<Self>, stream: TcpStream, tls: Option<TlsAcceptor>) {
        self.observer.observe(Event::Connected);
        let _ = stream.set_nodelay(true);
        match tls {
            None => self.clone().take_seat(stream, Protocol::Http1).await,
            Some(tls) => match timeout(self.limits.handshake_time, tls.accept(stream)).await {
                Ok(Ok(stream)) => {
                    let protocol = match stream.get_ref().1.alpn_protocol() {
                        Some(b"h2") => Protocol::Http2,
                        _ => Protocol::Http1,
                    };
                    self.clone().take_seat(stream, protocol).await;
                }
                Ok(Err(error)) => {
                    debug!(%error, "TLS handshake failed");
                    self.observer.observe(Event::HandshakeFailed);
                }
                Err(_elapsed) => {
                    debug!("TLS handshake took too long");
                    self.observer.observe(Event::HandshakeFailed);
                }
            },
        }
        self.observer.observe(Event::Disconnected);
    }

    async fn take_seat<I>(self: Arc<Self>, io: I, protocol: Protocol)
    where
        I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let shared = self.clone();
        let seat = match self.seats.try_acquire() {
            Ok(seat) => Some(seat),
            Err(_) => timeout(self.limits.queue_time, self.seats.acquire())
                .await
                .ok()
                .and_then(Result::ok),
        };
        let taken = if seat.is_some() { Seat::Taken } else { Seat::None };
        shared.speak(io, protocol, taken).await;
    }

    async fn speak<I>(self: Arc<Self>, io: I, protocol: Protocol, seat: Seat)
    where
        I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let asked = Arc::new(AtomicBool::new(false));
        let service = {
            let (shared, asked) = (self.clone(), asked.clone());
            service_fn(move |request: Request<Incoming>| {
                asked.store(true, Ordering::Relaxed);
                let shared = shared.clone();
                async move { Ok::<_, Infallible>(shared.answer(request, seat).await) }
            })
        };
        let io = TokioIo::new(io);
        let limits = &self.limits;
        let mut drain = self.drain.clone();
        // One loop for both protocols: their connection types share the method but no trait.
        macro_rules! run {
            ($connection:expr) => {{
                let mut connection = pin!($connection);
                let mut waiting = pin!(sleep(limits.header_time));
                let (mut first, mut open) = (true, true);
                loop {
                    tokio::select! {
                        ended = connection.as_mut() => break ended,
                        () = waiting.as_mut(), if first => {
                            first = false;
                            if !asked.load(Ordering::Relaxed) {
                                debug!("No request came on a new connection");
                                break Ok(());
                            }
                        }
                        () = drain.stopping(), if open => {
                            open = false;
                            connection.as_mut().graceful_shutdown();
                        }
                    }
                }
            }};
        }
        let ended = match protocol {
            Protocol::Http1 => run!(
                http1::Builder::new()
                    .timer(TokioTimer::new())
                    .header_read_timeout(limits.idle_time)
                    .serve_connection(io, service)
            ),
            Protocol::Http2 => run!(
                http2::Builder::new(TokioExecutor::new())
                    .timer(TokioTimer::new())
                    .keep_alive_interval(limits.idle_time / 4)
                    .max_concurrent_streams(256)
                    .serve_connection(io, service)
            ),
        };
        if let Err(error) = ended {
            debug!(%error, "Connection ended early");
        }
    }

    async fn answer(&self, request: Request<Incoming>, seat: Seat) -> Response<Full<Bytes>> {
        self.observer.observe(Event::RequestStarted);
        let version = request.version();
        let (head, mut body) = request.into_parts();
        let expects = head.headers.contains_key(EXPECT);
        let mut response = match self.read(&mut body, seat).await {
            Ok((bytes, _turn)) => self.handle(Request::from_parts(head, bytes)).await,
            Err(refusal) => {
                self.observer.observe(Event::Refused(refusal.status()));
                // A client that asked first has sent nothing yet and will not.
                if !expects {
                    body::discard(&mut body, 4 * self.limits.body, Duration::from_secs(2)).await;
                }
                refusal
            }
        };
        let closing = seat == Seat::None || self.drain.phase() != Phase::Serving;
        if closing && version <= Version::HTTP_11 {
            response
                .headers_mut()
                .insert(CONNECTION, HeaderValue::from_static("close"));
        }
        self.observer.observe(Event::RequestEnded);
        response.map(Full::new)
    }

    /// The body and the turn to handle it, or the refusal. The turn comes first, so that bodies in memory are bounded.
    async fn read(
        &self,
        body: &mut Incoming,
        seat: Seat,
    ) -> Result<(Bytes, tokio::sync::SemaphorePermit<'_>), Response<Bytes>> {
        let limits = &self.limits;
        if seat == Seat::None {
            return Err(busy("connections", limits.connections));
        }
        let turn = match self.turns.try_acquire() {
            Ok(turn) => turn,
            Err(_) => match timeout(limits.queue_time, self.turns.acquire()).await {
                Ok(Ok(turn)) => turn,
                _ => return Err(busy("requests", limits.requests)),
            },
        };
        match body::read(body, limits.body, limits.body_time).await {
            Ok(bytes) => Ok((bytes, turn)),
            Err(BodyError::TooLarge) => Err(plain(
                StatusCode::PAYLOAD_TOO_LARGE,
                format!("the body is larger than the limit of {} bytes", limits.body),
            )),
            Err(BodyError::TooSlow) => Err(plain(
                StatusCode::REQUEST_TIMEOUT,
                format!(
                    "the body did not arrive within {} seconds",
                    limits.body_time.as_secs_f32()
                ),
            )),
            Err(BodyError::Broken(reason)) => Err(plain(
                StatusCode::BAD_REQUEST,
                format!("the body cannot be read: {reason}"),
            )),
        }
    }

    async fn handle(&self, request: Request<Bytes>) -> Response<Bytes> {
        match AssertUnwindSafe(async { self.handler.handle(request).await })
            .catch_unwind()
            .await
        {
            Ok(response) => response,
            Err(_panic) => {
                error!("The handler of a request panicked");
                self.observer.observe(Event::Panicked);
                plain(
                    StatusCode::INTERNAL_SERVER_ERROR,
                    "this request met a fault in the program, see its log".to_owned(),
                )
            }
        }
    }
}

fn busy(what: &str, limit: usize) -> Response<Bytes> {
    let mut response = plain(
        StatusCode::SERVICE_UNAVAILABLE,
        format!("busy: the limit of {limit} {what} is reached, try again"),
    );
    response
        .headers_mut()
        .insert(RETRY_AFTER, HeaderValue::from_static("1"));
    response
}

fn plain(status: StatusCode, text: String) -> Response<Bytes> {
    let mut response = Response::new(Bytes::from(text + "\n"));
    *response.status_mut() = status;
    response
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    response
}
