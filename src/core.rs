//! The engine. Values in, values out: it never reads a file, a clock, an environment or a network.

pub mod envoy;
pub mod mesh;
pub mod nearest;
pub mod problem;
pub mod scalar;
pub mod yaml;
