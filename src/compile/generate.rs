//! ClusterPolicy and Policy of `kyverno.io`: generate rules from documents to [`crate::core::generate`].
//!
//! Strict where the API server's schema would be lenient: a field that no one knows is refused with its nearest known name,
//! because a policy that silently does less than it says is worse than one that is refused. Rules of other types (validate,
//! mutate, verifyImages) are somebody else's and are not looked into.
//!
//! | file | subject |
//! |---|---|
//! | `policy` | metadata and `spec` |
//! | `rule` | one rule |
//! | `filter` | what match and exclude must and must not say |
//! | `context` | context entries |
//! | `targets` | `generate`, `foreach` |
//! | `scope` | namespaces of targets and sources |
//! | `variables` | names used in expressions |
//! | `immutable` | old and new version of a policy |

mod context;
mod filter;
mod immutable;
mod policy;
mod rule;
mod scope;
mod targets;
mod variables;

use serde_json::Value;

use super::Findings;
use crate::core::generate::Policy;

pub use immutable::{Change, compare};

/// The API versions that are read.
pub(super) const VERSIONS: [&str; 2] = ["kyverno.io/v1", "kyverno.io/v2beta1"];
pub(super) const KINDS: [&str; 2] = ["ClusterPolicy", "Policy"];

/// Compiles a policy. Without errors the policy is there; with them it is not, and nothing of it must run.
pub fn policy(document: &Value) -> (Option<Policy>, Findings) {
    let mut findings = Findings::default();
    let policy = policy::compile(document, &mut findings);
    (policy.filter(|_| findings.errors.is_empty()), findings)
}
