//! Mesh policies as the engine runs them.

pub mod backend;
pub mod caller;
pub mod http_route;
pub mod kind;
pub mod mesh_policy;
pub mod meta;
pub mod policy;
pub mod proxy_patch;
pub mod proxy_template;
pub mod reach;
pub mod target_ref;
pub mod tcp_route;
pub mod timeout;
