//! The two ports of the room: who answers requests, and who is told what happened on the wire.

use bytes::Bytes;
use hyper::http::request::Parts;
use hyper::{Request, Response, StatusCode};

/// Answers requests. Any `async` closure of that shape is one.
pub trait Handler: Send + Sync + 'static {
    /// The rejection of a request by its head, before anything is spent on its body; nothing if it is to be handled. It may
    /// change the head that is handled.
    fn screen(&self, _head: &mut Parts) -> Option<Response<Bytes>> {
        None
    }

    fn handle(&self, request: Request<Bytes>) -> impl Future<Output = Response<Bytes>> + Send;
}

impl<F, A> Handler for F
where
    F: Fn(Request<Bytes>) -> A + Send + Sync + 'static,
    A: Future<Output = Response<Bytes>> + Send,
{
    fn handle(&self, request: Request<Bytes>) -> impl Future<Output = Response<Bytes>> + Send {
        self(request)
    }
}

/// What happens on the wire without a handler's doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    Connected,
    Disconnected,
    HandshakeFailed,
    /// Closed because its peer, or all of them, have too many connections.
    Dropped,
    RequestStarted,
    RequestEnded,
    /// Answered by the transport itself: too large, too slow, too many.
    Refused(StatusCode),
    /// The handler panicked; the caller got a 500.
    Panicked,
}

/// Is told each [`Event`]. It is called on the request path: count, do not wait.
pub trait Observer: Send + Sync + 'static {
    fn observe(&self, event: Event);
}

/// Nobody looks.
impl Observer for () {
    fn observe(&self, _event: Event) {}
}
