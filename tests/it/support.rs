//! What tests share.

pub(crate) mod command;
pub(crate) mod tls;
