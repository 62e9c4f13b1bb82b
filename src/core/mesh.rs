//! Mesh policies as the engine runs them.

pub mod proxy_template;
