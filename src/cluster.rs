//! All I/O with a Kubernetes API server.

pub mod certificates;
mod client;
mod error;

pub use client::connect;
pub use error::ClusterError;
