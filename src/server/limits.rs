//! The bounds of one listener. Every queue in this room has an end, and every wait has one too.

use std::time::Duration;

/// How much of everything a listener takes, and how long it waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The largest body, in bytes. An API server sends an object and its predecessor, each up to 3 MiB as JSON.
    pub body: usize,
    /// Bytes of all bodies that are in memory at once; one body of the largest size always fits. What is made of a body takes
    /// several times its size, so this is a small part of the memory that there is.
    pub bodies: usize,
    /// Connections served at once; some more are accepted only to be told that the server is busy.
    pub connections: usize,
    /// Connections of one peer address. One above the limit takes the place of the oldest that has sent no request, or is
    /// closed if all have.
    pub connections_per_peer: usize,
    /// Whether a connection stays open after an answer.
    pub keep_alive: bool,
    /// Bytes of the head of a request: its line or pseudo-headers, and its headers.
    pub head: usize,
    /// Requests read and handled at once.
    pub requests: usize,
    /// How long a connection waits for its seat, a request for its turn and a body for room before it is answered 503.
    pub queue_time: Duration,
    /// How long a TLS handshake may take.
    pub handshake_time: Duration,
    /// How long a new connection may take to send its first request line and headers.
    pub header_time: Duration,
    /// How long a body may take to arrive.
    pub body_time: Duration,
    /// How long a kept-alive connection may rest. It must exceed the 90 seconds after which API servers close idle
    /// connections themselves: a connection that both sides close at once can swallow a request.
    pub idle_time: Duration,
    /// How long requests in flight may go on after the listener has stopped accepting.
    pub drain_time: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            body: 8 << 20,
            bodies: 32 << 20,
            connections: 4096,
            connections_per_peer: 512,
            keep_alive: true,
            head: 64 << 10,
            requests: 512,
            queue_time: Duration::from_secs(2),
            handshake_time: Duration::from_secs(10),
            header_time: Duration::from_secs(10),
            body_time: Duration::from_secs(10),
            idle_time: Duration::from_secs(180),
            drain_time: Duration::from_secs(20),
        }
    }
}

impl Limits {
    /// For a port that answers probes and is asked for metrics: small requests, each on a connection of its own. It answers
    /// however many connections a peer holds open, because those that send no request are the first to go.
    pub fn for_probes() -> Self {
        Self {
            body: 4 << 10,
            bodies: 64 << 10,
            connections: 256,
            connections_per_peer: 64,
            keep_alive: false,
            head: 16 << 10,
            requests: 64,
            header_time: Duration::from_secs(2),
            body_time: Duration::from_secs(2),
            drain_time: Duration::from_secs(1),
            ..Self::default()
        }
    }

    /// Connections accepted above [`Limits::connections`], which get no more than an answer that says so.
    pub(super) fn overflow(&self) -> usize {
        (self.connections / 8).max(16)
    }
}
