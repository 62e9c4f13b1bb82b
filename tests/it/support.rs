//! What tests share.

pub(crate) mod command;
pub(crate) mod core_time;
pub(crate) mod tls;
