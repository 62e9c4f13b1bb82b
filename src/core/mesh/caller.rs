//! Who calls: the matches of inbound rules.

/// A caller, by what its certificate and its TLS greeting say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallerMatch {
    pub spiffe_id: Option<SpiffeMatch>,
    /// The exact server name.
    pub sni: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SpiffeMatch {
    Exact(String),
    Prefix(String),
}
