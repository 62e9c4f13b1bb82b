//! Writ admits, runs and explains two policy languages on Kubernetes: Kyverno generate rules and Kuma mesh policies.
//!
//! The rooms in reading order; arrows between them point downwards only (`tests/it/layers.rs` keeps it so):
//!
//! | room | duty |
//! |---|---|
//! | [`cli`] | the commands, and the wiring of `writ serve` |
//! | [`webhook`] | AdmissionReviews: whole requests in, whole responses out |
//! | [`controller`] | keeps generated objects in step with policies, triggers and sources |
//! | [`cluster`] | all I/O with a Kubernetes API server |
//! | [`inspect`] | the Inspect API: whole requests in, whole bodies out |
//! | [`index`] | all policies at one moment |
//! | [`server`] | transport: TLS, bounded bodies, drain; knows no path |
//! | [`telemetry`] | logs, metrics, health |
//! | [`compile`] | what users write, checked and turned into what the engine runs |
//! | [`api`] | the definitions of the served kinds |
//! | [`core`] | the engine: values in, values out; no I/O, no clock |

pub mod api;
pub mod cli;
pub mod cluster;
pub mod compile;
pub mod controller;
pub mod core;
pub mod index;
pub mod inspect;
pub mod server;
pub mod telemetry;
pub mod webhook;
