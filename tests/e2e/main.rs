//! Tests against a real control plane. How to write one: see `support`.

mod support;

mod node;
mod testbed;
