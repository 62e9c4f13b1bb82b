//! Writ admits, runs and explains two policy languages on Kubernetes: Kyverno generate rules and Kuma mesh policies.
//!
//! The rooms in reading order; arrows between them point downwards only (`tests/it/layers.rs` keeps it so):
//!
//! | room | duty |
//! |---|---|
//! | [`core`] | the engine: values in, values out; no I/O, no clock |

pub mod api;
pub mod compile;
pub mod core;
