//! All I/O with a Kubernetes API server, and with services that rules name.

pub mod access;
mod api;
pub mod apply;
pub mod bindings;
pub mod certificates;
mod client;
pub mod configurations;
pub mod discovery;
mod error;
pub mod events;
mod fetch;
pub mod globals;
pub mod keys;
pub mod kinds;
mod lean;
pub mod lease;
pub mod memory;
pub mod own_writes;
pub mod registration;
mod service;
pub mod status;
mod upkeep;
pub mod watch;

pub use api::{Api, Page, Rehearsal, Selection};
pub use client::connect;
pub use error::ClusterError;
pub use fetch::Reader;
pub use service::{ServiceOptions, Services};
