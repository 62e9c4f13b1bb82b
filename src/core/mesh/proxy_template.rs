//! A ProxyTemplate: which proxies it selects, which profiles it imports, and what it changes in the result.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::core::envoy::modification::Modification;

/// At most one template applies to a proxy: the one whose best selector is the most specific.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProxyTemplate<D = Value> {
    /// Each a set of tags that one inbound must carry; no selector selects every proxy.
    pub selectors: Vec<BTreeMap<String, String>>,
    pub imports: Vec<Profile>,
    /// Whole resources that replace generated ones of the same name, after all policies.
    pub resources: Vec<RawResource<D>>,
    pub modifications: Vec<Modification<D>>,
}

/// A named set of generated resources.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Profile {
    Default,
    Gateway,
    Ingress,
    Egress,
}

#[derive(Clone, Debug, PartialEq)]
pub struct RawResource<D = Value> {
    pub name: String,
    pub version: String,
    /// Canonical proto JSON with its `@type`.
    pub resource: D,
}

impl Profile {
    pub const ALL: [Self; 4] = [Self::Default, Self::Gateway, Self::Ingress, Self::Egress];

    /// The name that templates import it by.
    pub fn name(self) -> &'static str {
        match self {
            Self::Default => "default-proxy",
            Self::Gateway => "gateway-proxy",
            Self::Ingress => "ingress-proxy",
            Self::Egress => "egress-proxy",
        }
    }
}
