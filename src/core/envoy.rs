//! Envoy's own configuration: what its messages look like, and how a document that a user embeds in a policy is read.
//!
//! A document is decoded by Envoy's message descriptors, as Envoy itself would, and comes out as canonical proto JSON: one
//! spelling for everything that means the same. What is done with it afterwards (merging, patching, matching) stands on
//! [`schema`]. This room knows neither policies nor YAML.

pub mod modification;
pub mod modify;
pub mod schema;

mod constraints;
mod decode;
mod instant;
mod json_patch;
mod merge;
mod opaque;
mod path;
mod rules;
mod scalars;

pub use decode::{DecodeError, Decoded, MessageType, Note, Remark, Strictness, decode, decode_as};
pub use opaque::is_opaque_type;
