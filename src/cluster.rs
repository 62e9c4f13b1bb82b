//! All I/O with a Kubernetes API server.

pub mod access;
mod api;
pub mod bindings;
pub mod certificates;
mod client;
pub mod discovery;
mod error;
mod fetch;
pub mod kinds;
pub mod registration;
pub mod watch;

pub(crate) use api::FIELD_MANAGER;
pub use api::{Api, Page, Rehearsal, Selection};
pub use client::connect;
pub use error::ClusterError;
pub use fetch::Fetcher;
