//! Which requests a rule is for: the `match` and `exclude` blocks, and the filters of the operator that come before them.
//!
//! Everything is decided from what the caller brings. The labels of a namespace are such a fact: where a rule asks for them
//! and they are not there, the answer is [`NeedsNamespaceLabels`], and the caller fetches them and asks again.

mod compile;
mod cover;
mod decide;
mod filter;
mod index;
mod intake;
mod kind;
mod request;
mod why;

pub use compile::Scope;
pub use filter::{Block, Filter, Operation, Operations, Subject};
pub use index::KindIndex;
pub use intake::{ExcludedUsers, ResourceFilters, UserPatterns, is_internal_kind};
pub use kind::{KindSelector, split_api_version};
pub use request::{Request, Requester, Resource};
pub use why::{Attribute, Mismatch, Why};

/// The compiled `match` and `exclude` of one rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleMatch {
    pub matching: Block,
    pub exclude: Option<Block>,
    /// The namespace of a namespaced policy, which reaches no further.
    pub policy_namespace: Option<String>,
}

/// What a rule has to do with a request. It borrows from both, and costs nothing until it is printed.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome<'a> {
    /// The object matches as it is now.
    Matches,
    /// Only the object as it was before matched.
    MatchedOld,
    NotApplicable(Why<'a>),
}

/// The rule selects by the labels of this namespace, and they are not known.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the labels of namespace `{namespace}` are needed")]
pub struct NeedsNamespaceLabels {
    pub namespace: String,
}
