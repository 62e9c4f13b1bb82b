//! Why a rule is not for a request, in words.

use std::fmt;

use super::{Filter, KindSelector, Operation, Operations, Resource};
use crate::core::selector::LabelSelector;

/// The reason that decided.
#[derive(Clone, Debug, PartialEq)]
pub enum Why<'a> {
    /// There is neither a new nor an old object.
    NoObject,
    /// A namespaced policy looks at its own namespace only.
    OtherNamespace { policy: &'a str, object: &'a str },
    /// A filter of the match block did not accept it.
    NotMatched(Mismatch<'a>),
    /// The exclude block took it out again.
    Excluded(&'a [Filter]),
}

/// The first attribute of a filter that failed.
#[derive(Clone, Debug, PartialEq)]
pub enum Mismatch<'a> {
    /// The filter asks for nothing that could be tested.
    Empty,
    Operation {
        operation: Option<Operation>,
        wanted: Operations,
    },
    Kind {
        resource: Resource<'a>,
        wanted: &'a [KindSelector],
    },
    Name {
        name: &'a str,
        wanted: &'a [String],
    },
    Namespace {
        namespace: &'a str,
        wanted: &'a [String],
    },
    Annotation {
        key: &'a str,
        value: &'a str,
    },
    Labels {
        wanted: &'a LabelSelector,
    },
    Requester {
        attribute: Attribute,
    },
    NamespaceLabels {
        namespace: &'a str,
        wanted: &'a LabelSelector,
    },
    /// A Namespace has no namespace whose labels could be looked at.
    NamespaceItself,
}

/// What a filter knows about requesters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attribute {
    Roles,
    ClusterRoles,
    Subjects,
}

impl Mismatch<'_> {
    /// How far the filter got: of several filters the one that came closest explains best.
    pub(super) fn depth(&self) -> u8 {
        match self {
            Self::Empty => 0,
            Self::Kind { .. } => 1,
            Self::Operation { .. } => 2,
            Self::Namespace { .. } => 3,
            Self::Name { .. } => 4,
            Self::Annotation { .. } => 5,
            Self::Labels { .. } => 6,
            Self::Requester { .. } => 7,
            Self::NamespaceLabels { .. } | Self::NamespaceItself => 8,
        }
    }
}

impl fmt::Display for Why<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoObject => f.write_str("there is no object"),
            Self::OtherNamespace { policy, object: "" } => {
                write!(f, "the policy is for namespace \"{policy}\", the object is in none")
            }
            Self::OtherNamespace { policy, object } => {
                write!(f, "the policy is for namespace \"{policy}\", the object is in \"{object}\"")
            }
            Self::NotMatched(mismatch) => mismatch.fmt(f),
            Self::Excluded(filters) => {
                f.write_str("excluded by ")?;
                for (position, filter) in filters.iter().enumerate() {
                    write!(f, "{}{filter}", if position > 0 { " and " } else { "" })?;
                }
                Ok(())
            }
        }
    }
}

impl fmt::Display for Mismatch<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("match cannot be empty"),
            Self::Operation { operation: Some(operation), wanted } => {
                write!(f, "operation {operation} is not {}", one_of(wanted.iter()))
            }
            Self::Operation { operation: None, wanted } => {
                write!(f, "there is no request whose operation could be {}", one_of(wanted.iter()))
            }
            Self::Kind { resource, wanted } => write!(f, "kind {resource} is not {}", one_of(wanted.iter())),
            Self::Name { name, wanted } => {
                write!(f, "name \"{name}\" does not match {}", one_of(wanted.iter().map(Quoted)))
            }
            Self::Namespace { namespace: "", wanted } => {
                write!(f, "an object without namespace does not match {}", one_of(wanted.iter().map(Quoted)))
            }
            Self::Namespace { namespace, wanted } => {
                write!(f, "namespace \"{namespace}\" does not match {}", one_of(wanted.iter().map(Quoted)))
            }
            Self::Annotation { key, value } => write!(f, "no annotation matches \"{key}\": \"{value}\""),
            Self::Labels { wanted } => write!(f, "the labels do not satisfy {wanted}"),
            Self::Requester { attribute: Attribute::Roles } => f.write_str("the requester has none of the roles"),
            Self::Requester { attribute: Attribute::ClusterRoles } => {
                f.write_str("the requester has none of the cluster roles")
            }
            Self::Requester { attribute: Attribute::Subjects } => f.write_str("the requester is none of the subjects"),
            Self::NamespaceLabels { namespace: "", wanted } => {
                write!(f, "an object without namespace does not satisfy namespaceSelector {wanted}")
            }
            Self::NamespaceLabels { namespace, wanted } => {
                write!(f, "the labels of namespace \"{namespace}\" do not satisfy {wanted}")
            }
            Self::NamespaceItself => f.write_str("a Namespace never matches a namespaceSelector"),
        }
    }
}

impl fmt::Display for Resource<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind)?;
        if self.subresource.is_empty() { Ok(()) } else { write!(f, "/{}", self.subresource) }
    }
}

struct Quoted<'a>(&'a String);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.0)
    }
}

/// `a`, or `one of a, b`.
pub(super) fn one_of(items: impl Iterator<Item = impl fmt::Display>) -> String {
    let items: Vec<String> = items.map(|item| item.to_string()).collect();
    if items.len() == 1 { items.concat() } else { format!("one of {}", items.join(", ")) }
}
