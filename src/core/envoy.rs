//! Envoy configuration: its resources and the modifications that policies make to them.

pub mod modification;

// Placeholder until the decoder lands on main; never merge this part.
use serde_json::Value;
#[derive(Clone, Copy)]
pub enum MessageType { Cluster, Listener, RouteConfiguration, VirtualHost, NetworkFilter, HttpFilter }
#[derive(Clone, Copy)]
pub enum Strictness { Whole, Partial }
pub struct Decoded { pub value: Value, pub notes: Vec<String> }
#[derive(Debug, thiserror::Error)]
#[error("x")]
pub struct DecodeError;
impl MessageType { pub fn name(self) -> &'static str { "resource" } }
pub fn decode(_: MessageType, document: &Value, _: Strictness) -> Result<Decoded, DecodeError> {
    if document.is_object() { Ok(Decoded { value: document.clone(), notes: vec![] }) } else { Err(DecodeError) }
}
pub fn decode_resource(document: &Value) -> Result<Decoded, DecodeError> { decode(MessageType::Cluster, document, Strictness::Whole) }
