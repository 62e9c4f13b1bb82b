//! Transport: binds, terminates TLS, reads a bounded body, answers, drains. It knows no path and nothing of Kubernetes.
//!
//! A [`Handler`] is given whole requests and gives whole responses, so handlers are tested without a socket. What this
//! room sees of its own work it tells an [`Observer`].

mod accept;
mod body;
mod connection;
mod drain;
mod files;
mod handler;
mod limits;
mod peers;
mod tls;

pub use accept::{Bound, ServerError};
pub use drain::{Drain, Phase, Shutdown};
pub use files::{FilesError, PairFiles, RootsFile};
pub use handler::{Event, Handler, Observer};
pub use limits::Limits;
pub use tls::{Certificates, ClientRule, Pair, Tls, TlsError};
