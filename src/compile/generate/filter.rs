//! What `match` and `exclude` of a generate rule, and `match` of an exception, must and must not say, beyond what the engine's own parser checks.

use serde_json::Value;

use super::Node;
use super::rule::Surroundings;
use crate::compile::Findings;
use crate::core::kinds::{self as known, Scope};
use crate::core::matching::{self, Block, KindSelector, RuleMatch};
use crate::core::problem::{FieldPath, Reason};
use crate::core::resource::Gvk;
use crate::core::scalar::wildcard;

const BACKGROUND: &str =
    "subjects, roles and clusterRoles are known only while a request is handled; set `background: false`";

/// Where a kind lives, if that is known.
type Kinds<'k> = &'k dyn Fn(&Gvk) -> Option<Scope>;

pub(super) fn compile(rule: &Node<'_>, around: &Surroundings<'_>, findings: &mut Findings) -> Option<RuleMatch> {
    let (selected, excluded, generate) = (rule.below("match"), rule.below("exclude"), rule.below("generate"));
    let is_namespaced =
        |selector: &KindSelector| scope_of(selector, around.kinds).map(|scope| scope == Scope::Namespaced);
    let scope = matching::Scope { policy_namespace: around.policy.namespace.as_deref(), is_namespaced: &is_namespaced };
    let mut problems = Vec::new();
    let value = |node: &Node<'_>| node.value().cloned().unwrap_or_default();
    let compiled = RuleMatch::parse(&value(&selected), &value(&excluded), scope, &rule.path.told(), &mut problems);
    findings.take(problems);
    refuse_own_kind(&selected, &generate, findings);
    let compiled = compiled?;
    if around.background {
        let exclude = compiled.exclude.as_ref();
        for (block, path) in [(Some(&compiled.matching), selected.path), (exclude, excluded.path)] {
            if block.is_some_and(Block::asks_requester) {
                findings.refuse(path, Reason::Context, BACKGROUND);
            }
        }
    }
    warn_of_unknown_kinds(&compiled.matching, &selected.path.told(), around.kinds, findings);
    Some(compiled)
}

/// The `match` of an exception.
pub(super) fn compile_exception(
    selected: &Node<'_>,
    background: bool,
    kinds: Kinds<'_>,
    findings: &mut Findings,
) -> Option<Block> {
    let mut problems = Vec::new();
    let value = selected.value().cloned().unwrap_or_default();
    let compiled = Block::parse_exception(&value, &selected.path.told(), &mut problems);
    findings.take(problems);
    let compiled = compiled?;
    if background && compiled.asks_requester() {
        findings.refuse(selected.path, Reason::Context, BACKGROUND);
    }
    warn_of_unknown_kinds(&compiled, &selected.path.told(), kinds, findings);
    Some(compiled)
}

/// The older form of `match` must not name the kind that the rule makes: it would trigger itself.
fn refuse_own_kind(selected: &Node<'_>, generate: &Node<'_>, findings: &mut Findings) {
    let kinds = selected.below("resources").below("kinds");
    let Some(own) = generate.below("kind").value().and_then(Value::as_str) else {
        return;
    };
    for (index, kind) in kinds.value().and_then(Value::as_array).into_iter().flatten().enumerate() {
        if kind == own {
            let message = format!("the rule generates {own} itself; match it under `any` if that is meant");
            findings.refuse(kinds.path.index(index), Reason::Context, message);
        }
    }
}

/// A kind that nobody knows is most likely a mistake in writing, but may be a custom resource to come.
fn warn_of_unknown_kinds(block: &Block, path: &FieldPath, kinds: Kinds<'_>, findings: &mut Findings) {
    for selector in block.kinds() {
        let literal = ![&selector.group, &selector.version, &selector.kind]
            .iter()
            .any(|part| part.as_str() != "*" && wildcard::is_pattern(part));
        let built_in_group = selector.group == "*" || known::is_closed_group(&selector.group);
        if literal && built_in_group && selector.kind != "*" && scope_of(selector, kinds).is_none() {
            let known = known::all().map(|row| row.kind);
            if let Some(near) = crate::core::nearest::nearest(&selector.kind, known) {
                let message = format!("kind `{}` is not known; did you mean `{near}`?", selector.kind);
                findings.warn(path, Reason::Suspicious, message);
            }
        }
    }
}

/// Where objects of a selected kind live; a bare kind is looked for in every group.
fn scope_of(selector: &KindSelector, kinds: Kinds<'_>) -> Option<Scope> {
    if selector.group == "*" {
        return known::named(&selector.kind).next().map(|row| row.scope);
    }
    let gvk = Gvk { group: selector.group.clone(), version: selector.version.clone(), kind: selector.kind.clone() };
    kinds(&gvk)
}
