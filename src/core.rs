//! The engine. Values in, values out: it never reads a file, a clock, an environment or a network.

pub mod access;
pub mod catalog;
pub mod condition;
pub mod envoy;
pub mod expr;
pub mod generate;
pub mod integrity;
pub mod json;
pub mod kinds;
pub mod limits;
pub mod matching;
pub mod mesh;
pub mod nearest;
pub mod problem;
pub mod resource;
pub mod reviewed;
pub mod scalar;
pub mod selector;
pub mod settings;
pub mod shape;
pub mod structural;
pub mod webhook_token;
pub mod yaml;
