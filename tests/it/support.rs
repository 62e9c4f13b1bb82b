//! What tests share.

pub(crate) mod tls;
