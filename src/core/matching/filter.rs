//! One filter of a match or exclude block: several attributes, all of which must accept the object.

use std::collections::BTreeSet;
use std::fmt;

use super::request::Candidate;
use super::why::one_of;
use super::{Attribute, KindSelector, Mismatch, NeedsNamespaceLabels, Requester};
use crate::core::scalar::wildcard;
use crate::core::selector::LabelSelector;

/// What an admission request does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operation {
    Create,
    Update,
    Delete,
    Connect,
}

/// A set of operations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Operations(u8);

/// How the filters of a block combine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Block {
    /// One suffices.
    Any(Vec<Filter>),
    /// Every one is needed.
    All(Vec<Filter>),
}

/// Conditions on an object and its requester. An empty list, or `None`, asks for nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    pub operations: Operations,
    pub kinds: Vec<KindSelector>,
    /// Patterns.
    pub names: Vec<String>,
    /// Patterns.
    pub namespaces: Vec<String>,
    /// Pairs of patterns, each of which some annotation must match.
    pub annotations: Vec<(String, String)>,
    pub selector: Option<LabelSelector>,
    pub namespace_selector: Option<LabelSelector>,
    pub subjects: Vec<Subject>,
    /// As `namespace:name`.
    pub roles: BTreeSet<String>,
    pub cluster_roles: BTreeSet<String>,
}

/// A kind of requester; the texts are patterns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    User(String),
    Group(String),
    /// The username of the account.
    ServiceAccount(String),
}

/// Which side of a rule a filter stands on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Match,
    Exclude,
    /// The `match` of an exception, which takes objects out as an exclude does.
    Except,
}

/// What a filter says about an object.
pub(super) enum Answer<'a> {
    Accepts,
    Refuses(Mismatch<'a>),
    Needs(NeedsNamespaceLabels),
}

impl Operation {
    pub const ALL: [Self; 4] = [Self::Create, Self::Update, Self::Delete, Self::Connect];

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|operation| operation.as_str() == text)
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Create => "CREATE",
            Self::Update => "UPDATE",
            Self::Delete => "DELETE",
            Self::Connect => "CONNECT",
        }
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Operations {
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub fn contains(self, operation: Operation) -> bool {
        self.0 & 1 << operation as u8 != 0
    }

    pub fn insert(&mut self, operation: Operation) {
        self.0 |= 1 << operation as u8;
    }

    pub fn iter(self) -> impl Iterator<Item = Operation> {
        Operation::ALL.into_iter().filter(move |operation| self.contains(*operation))
    }
}

impl FromIterator<Operation> for Operations {
    fn from_iter<I: IntoIterator<Item = Operation>>(operations: I) -> Self {
        let mut set = Self::default();
        operations.into_iter().for_each(|operation| set.insert(operation));
        set
    }
}

impl Block {
    pub fn filters(&self) -> &[Filter] {
        match self {
            Self::Any(filters) | Self::All(filters) => filters,
        }
    }

    /// Every kind selector of the block.
    pub fn kinds(&self) -> impl Iterator<Item = &KindSelector> {
        self.filters().iter().flat_map(|filter| &filter.kinds)
    }

    /// Whether a filter lists this operation by name.
    pub fn lists(&self, operation: Operation) -> bool {
        self.filters().iter().any(|filter| filter.operations.contains(operation))
    }

    /// Whether only admission knows what a filter asks for.
    pub fn asks_admission(&self) -> bool {
        self.asks_requester()
            || self.filters().iter().any(|filter| !filter.operations.is_empty())
            || self.kinds().any(|kind| !kind.subresource.is_empty())
    }

    /// Whether a filter looks at who asks.
    pub fn asks_requester(&self) -> bool {
        self.filters().iter().any(Filter::asks_requester)
    }
}

impl Filter {
    /// Whether it looks at who asks.
    pub fn asks_requester(&self) -> bool {
        !(self.subjects.is_empty() && self.roles.is_empty() && self.cluster_roles.is_empty())
    }

    /// Whether it asks for anything about the object.
    fn asks_object(&self) -> bool {
        !(self.operations.is_empty()
            && self.kinds.is_empty()
            && self.names.is_empty()
            && self.namespaces.is_empty()
            && self.annotations.is_empty()
            && self.selector.is_none()
            && self.namespace_selector.is_none())
    }

    /// The cheapest attributes come first, the one that may need a look-up last.
    pub(super) fn test<'a>(&'a self, candidate: &Candidate<'a>, side: Side) -> Answer<'a> {
        if let Some(mismatch) = self.object_mismatch(candidate).or_else(|| self.requester_mismatch(candidate, side)) {
            return Answer::Refuses(mismatch);
        }
        let Some(selector) = &self.namespace_selector else {
            return Answer::Accepts;
        };
        if candidate.is_namespace() {
            return Answer::Refuses(Mismatch::NamespaceItself);
        }
        let namespace = candidate.namespace();
        let matches = match candidate.request.namespace_labels {
            _ if namespace.is_empty() => selector.matches(&None::<&serde_json::Map<_, _>>),
            Some(labels) => selector.matches(labels),
            None => {
                return Answer::Needs(NeedsNamespaceLabels { namespace: namespace.to_owned() });
            }
        };
        if matches {
            Answer::Accepts
        } else {
            Answer::Refuses(Mismatch::NamespaceLabels { namespace, wanted: selector })
        }
    }

    fn object_mismatch<'a>(&'a self, candidate: &Candidate<'a>) -> Option<Mismatch<'a>> {
        let request = candidate.request;
        let any = |patterns: &[String], text: &str| patterns.iter().any(|pattern| wildcard::matches(pattern, text));
        if !self.operations.is_empty()
            && !request.operation.is_some_and(|operation| self.operations.contains(operation))
        {
            return Some(Mismatch::Operation { operation: request.operation, wanted: self.operations });
        }
        if !self.kinds.is_empty() && !self.kinds.iter().any(|kind| kind.matches(&request.resource)) {
            return Some(Mismatch::Kind { resource: request.resource, wanted: &self.kinds });
        }
        if !self.names.is_empty() && !any(&self.names, candidate.name()) {
            return Some(Mismatch::Name { name: candidate.name(), wanted: &self.names });
        }
        if !self.namespaces.is_empty() {
            let namespace = if candidate.is_namespace() { candidate.name() } else { candidate.namespace() };
            if !any(&self.namespaces, namespace) {
                return Some(Mismatch::Namespace { namespace, wanted: &self.namespaces });
            }
        }
        for (key, value) in &self.annotations {
            use crate::core::selector::Labels;
            let found =
                candidate.annotations().any_label(&mut |k, v| wildcard::matches(key, k) && wildcard::matches(value, v));
            if !found {
                return Some(Mismatch::Annotation { key, value });
            }
        }
        match &self.selector {
            Some(selector) if !selector.matches(&candidate.labels()) => Some(Mismatch::Labels { wanted: selector }),
            _ => None,
        }
    }

    fn requester_mismatch<'a>(&'a self, candidate: &Candidate<'a>, side: Side) -> Option<Mismatch<'a>> {
        let Some(requester) = candidate.request.requester else {
            // Nobody is known to have asked. A match then goes by the object alone, an exclude does not apply.
            let decided = match side {
                Side::Match => self.asks_object(),
                Side::Exclude | Side::Except => self.asks_object() && !self.asks_requester(),
            };
            return if decided { None } else { Some(Mismatch::Empty) };
        };
        if !self.asks_object() && !self.asks_requester() {
            return Some(Mismatch::Empty);
        }
        let attribute = if !self.roles.is_empty() && self.roles.is_disjoint(&requester.roles) {
            Attribute::Roles
        } else if !self.cluster_roles.is_empty() && self.cluster_roles.is_disjoint(&requester.cluster_roles) {
            Attribute::ClusterRoles
        } else if !self.subjects.is_empty() && !self.subjects.iter().any(|subject| subject.matches(requester)) {
            Attribute::Subjects
        } else {
            return None;
        };
        Some(Mismatch::Requester { attribute })
    }
}

impl fmt::Display for Filter {
    /// The attributes that are asked for, in a few words.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = Vec::new();
        let mut add = |name: &str, items: Vec<String>| {
            if !items.is_empty() {
                parts.push(format!("{name} {}", one_of(items.into_iter())));
            }
        };
        let texts = |items: &[String]| items.iter().map(|item| format!("\"{item}\"")).collect();
        add("operation", self.operations.iter().map(|operation| operation.to_string()).collect());
        add("kind", self.kinds.iter().map(ToString::to_string).collect());
        add("name", texts(&self.names));
        add("namespace", texts(&self.namespaces));
        add("annotation", self.annotations.iter().map(|(key, value)| format!("\"{key}\": \"{value}\"")).collect());
        add("labels", self.selector.iter().map(ToString::to_string).collect());
        add("namespace labels", self.namespace_selector.iter().map(ToString::to_string).collect());
        add("role", self.roles.iter().cloned().collect());
        add("cluster role", self.cluster_roles.iter().cloned().collect());
        add("subject", self.subjects.iter().map(ToString::to_string).collect());
        f.write_str(&parts.join(", "))
    }
}

impl Subject {
    fn matches(&self, requester: &Requester) -> bool {
        match self {
            Self::User(name) | Self::ServiceAccount(name) => wildcard::matches(name, &requester.username),
            Self::Group(name) => requester.groups.iter().any(|group| wildcard::matches(name, group)),
        }
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::User(name) => write!(f, "User {name}"),
            Self::Group(name) => write!(f, "Group {name}"),
            Self::ServiceAccount(name) => write!(f, "ServiceAccount {name}"),
        }
    }
}
