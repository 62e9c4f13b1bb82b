//! The engine. Values in, values out: it never reads a file, a clock, an environment or a network.

pub mod envoy;
pub mod problem;
pub mod yaml;
