//! Whether targets and sources stand where their kind lives, and a Policy's own in its namespace.

use super::Node;
use super::rule::Surroundings;
use crate::compile::Findings;
use crate::core::kinds::{self, Scope};
use crate::core::problem::{FieldPath, Reason};
use crate::core::resource::Gvk;

/// What of a kind is being placed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    Target,
    Source,
}

/// Whether a text holds a variable, so that it is known only when the rule runs.
pub(super) fn is_variable(text: &str) -> bool {
    text.contains("{{") || text.contains("$(")
}

/// Where objects of a kind live. `kind` is its field, for what is wrong with it.
pub(super) fn of_kind(
    api_version: &str,
    kind_text: &str,
    kind: &FieldPath,
    around: &Surroundings<'_>,
    findings: &mut Findings,
) -> Option<Scope> {
    if is_variable(api_version) || is_variable(kind_text) || api_version.is_empty() || kind_text.is_empty() {
        return None;
    }
    let gvk = Gvk::new(api_version, kind_text.split('/').next().unwrap_or(kind_text));
    if let Some(scope) = (around.kinds)(&gvk) {
        return Some(scope);
    }
    if kinds::is_closed_group(&gvk.group) {
        let hint = match kinds::named(&gvk.kind).next() {
            Some(row) if row.group.is_empty() => format!("; it is in `{}`", row.versions[0]),
            Some(row) => format!("; it is in `{}/{}`", row.group, row.versions[0]),
            None => match crate::core::nearest::nearest(&gvk.kind, kinds::all().map(|row| row.kind)) {
                Some(near) => format!("; did you mean `{near}`?"),
                None => String::new(),
            },
        };
        findings.refuse(
            kind,
            Reason::Kind,
            format!("there is no kind `{}` in `{}`{hint}", gvk.kind, gvk.api_version()),
        );
        return None;
    }
    let message = format!("`{gvk}` is not a built-in kind; it is taken to live in namespaces");
    findings.warn(kind, Reason::Suspicious, message);
    Some(Scope::Namespaced)
}

/// Checks a namespace against the scope of its kind and the reach of the policy.
pub(super) fn check(
    scope: Option<Scope>,
    part: Part,
    namespace: &Node<'_>,
    around: &Surroundings<'_>,
    findings: &mut Findings,
) {
    let text = namespace.text(findings).unwrap_or_default();
    let what = match part {
        Part::Target => "target",
        Part::Source => "source",
    };
    match scope {
        Some(Scope::Namespaced) if text.is_empty() => {
            findings.refuse(namespace.path, Reason::Required, format!("the {what} lives in a namespace; name it"));
        }
        Some(Scope::Cluster) if !text.is_empty() => {
            let message = format!("the {what} lives in no namespace; leave it out");
            findings.refuse(namespace.path, Reason::Forbidden, message);
        }
        _ => {}
    }
    let Some(own) = &around.policy.namespace else { return };
    if scope == Some(Scope::Cluster) {
        let message = format!("a Policy cannot reach a cluster-scoped {what}; use a ClusterPolicy");
        findings.refuse(namespace.path, Reason::Forbidden, message);
    } else if !text.is_empty() && *text != *own.as_str() {
        let message = format!("the {what} of a Policy must be in its own namespace, written as `{own}`");
        findings.refuse(namespace.path, Reason::Forbidden, message);
    }
}
