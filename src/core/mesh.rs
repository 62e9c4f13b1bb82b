//! Mesh policies as the engine runs them.

pub mod backend;
pub mod caller;
pub mod destinations;
pub mod http_route;
pub mod inbound;
pub mod kind;
pub mod matching;
pub mod merge;
pub mod mesh_policy;
pub mod meta;
pub mod order;
pub mod outbound;
pub mod policy;
pub mod proxy_patch;
pub mod proxy_template;
pub mod reach;
pub mod resources;
pub mod select;
pub mod subset;
pub mod target_ref;
pub mod tcp_route;
pub mod timeout;
