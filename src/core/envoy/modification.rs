//! A modification of generated Envoy configuration: what it touches, and what it does there.
//!
//! Whole resources (cluster, listener, route, virtual host) and filters take different operations, so they are different
//! variants: an `addFirst` of a cluster has no spelling.

use std::collections::BTreeMap;

use serde_json::Value;

/// Whose list of modifications it is: the two policies that have one differ in a few habits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    ProxyTemplate,
    MeshProxyPatch,
}

/// One entry of a list of modifications; they run in the order of the list. `D` is a document of Envoy's, in canonical
/// proto JSON.
#[derive(Clone, Debug, PartialEq)]
pub enum Modification<D = Value> {
    Resource { kind: ResourceKind, criteria: Criteria, change: ResourceChange<D> },
    Filter { kind: FilterKind, criteria: Criteria, change: FilterChange<D> },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResourceKind {
    Cluster,
    Listener,
    /// A RouteConfiguration, standalone or inline in a connection manager.
    Route,
    VirtualHost,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FilterKind {
    Network,
    Http,
}

/// What an object must be like to be touched; an absent criterion holds for every object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Criteria {
    pub name: Option<String>,
    pub origin: Option<String>,
    pub tags: BTreeMap<String, String>,
    pub listener_name: Option<String>,
    pub listener_tags: BTreeMap<String, String>,
    pub route_configuration_name: Option<String>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum ResourceChange<D = Value> {
    /// Add this resource, replacing one of the same name.
    Add(D),
    Remove,
    Patch(Patch<D>),
}

#[derive(Clone, Debug, PartialEq)]
pub enum FilterChange<D = Value> {
    Insert(Position, D),
    Remove,
    Patch(Patch<FilterPatch<D>>),
}

/// Where a filter is inserted; before and after are relative to the filter that the criteria name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Position {
    First,
    Last,
    Before,
    After,
}

/// A change of an existing object: by a partial document of type `D`, or by operations.
#[derive(Clone, Debug, PartialEq)]
pub enum Patch<D> {
    Merge(D),
    Json(Vec<JsonPatch>),
}

/// The partial document of a filter.
#[derive(Clone, Debug, PartialEq)]
pub enum FilterPatch<D = Value> {
    /// A filter with its typed config; only the config is merged.
    Filter(D),
    /// The bare body of the existing filter's config, whatever its type is.
    Body(D),
}

/// One operation of RFC 6902.
#[derive(Clone, Debug, PartialEq)]
pub enum JsonPatch {
    Add { path: String, value: Value },
    Remove { path: String },
    Replace { path: String, value: Value },
    Move { from: String, path: String },
    Copy { from: String, path: String },
}

impl ResourceKind {
    /// How a list of modifications names it.
    pub fn key(self) -> &'static str {
        match self {
            Self::Cluster => "cluster",
            Self::Listener => "listener",
            Self::Route => "route",
            Self::VirtualHost => "virtualHost",
        }
    }
}

impl FilterKind {
    /// How a list of modifications names it.
    pub fn key(self) -> &'static str {
        match self {
            Self::Network => "networkFilter",
            Self::Http => "httpFilter",
        }
    }
}
