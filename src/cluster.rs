//! All I/O with a Kubernetes API server.

pub mod certificates;
mod client;
mod error;
mod fetch;

pub use client::connect;
pub use error::ClusterError;
pub use fetch::Fetcher;
