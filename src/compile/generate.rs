//! ClusterPolicy, Policy and PolicyException of `kyverno.io`: generate rules from documents to [`crate::core::generate`].
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
//! | `slips` | common mistakes, mended or explained |
//! | `scope` | namespaces of targets and sources |
//! | `variables` | names used in expressions |
//! | `global` | GlobalContextEntry |
//! | `rights` | what the policy wants to read and write |
//! | `immutable` | old and new version of a policy |
//! | `exception` | exceptions from rules |

mod context;
mod exception;
mod filter;
mod global;
mod immutable;
mod policy;
mod rights;
mod rule;
mod scope;
mod slips;
mod targets;
mod variables;

use serde_json::Value;

use super::{Findings, reader};
use crate::core::generate::{Exception, Policy};
use crate::core::kinds::{self, Scope};
use crate::core::resource::{Gvk, text_at};

pub use global::{entry as global_entry, is_entry as is_global_entry};
pub use immutable::{Change, compare, retargeted};
pub use rights::{KindResource, Need, Part, Rights, author_needs, name_install, rights, rights_among, trigger_needs};

/// Parts of what is read are kept, so it is read from a tree of its own.
type Node<'v> = reader::Node<'v, &'v Value>;
type Object<'v> = reader::Object<'v, &'v Value>;

/// The kinds that are read here, of group `kyverno.io`.
pub const KINDS: [&str; 4] = ["ClusterPolicy", "Policy", "PolicyException", global::KIND];

/// Whether a document is a policy.
pub fn is_policy(document: &Value) -> bool {
    matches!(text_at(document, &["apiVersion"]), "kyverno.io/v1" | "kyverno.io/v2beta1")
        && matches!(text_at(document, &["kind"]), "ClusterPolicy" | "Policy")
}

/// Whether a document is an exception.
pub fn is_exception(document: &Value) -> bool {
    matches!(text_at(document, &["apiVersion"]), "kyverno.io/v2" | "kyverno.io/v2beta1")
        && text_at(document, &["kind"]) == "PolicyException"
}

/// Compiles a policy, knowing the built-in kinds. Without errors the policy is there; with them it is not, and nothing of it
/// must run.
pub fn policy(document: &Value) -> (Option<Policy>, Findings) {
    policy_among(document, &built_in)
}

/// Compiles a policy for a cluster whose kinds are known.
pub fn policy_among(document: &Value, kinds: &dyn Fn(&Gvk) -> Option<Scope>) -> (Option<Policy>, Findings) {
    let mut findings = Findings::default();
    let policy = policy::compile(document, kinds, &mut findings);
    (policy.filter(|_| findings.errors.is_empty()), findings)
}

/// Compiles an exception. With errors it is not there, and nothing is excepted.
pub fn exception(document: &Value) -> (Option<Exception>, Findings) {
    let mut findings = Findings::default();
    let exception = exception::compile(document, &built_in, &mut findings);
    (exception.filter(|_| findings.errors.is_empty()), findings)
}

fn built_in(gvk: &Gvk) -> Option<Scope> {
    kinds::find(&gvk.group, &gvk.kind).map(|row| row.scope)
}
