//! PolicyException: metadata and `spec`.

use serde_json::Value;

use super::policy::flag;
use super::rule::compile_conditions;
use super::{Node, filter, variables};
use crate::compile::Findings;
use crate::compile::way::{Way, Ways};
use crate::core::condition::Form;
use crate::core::generate::{Exception, ExceptionEntry, ExceptionKey};
use crate::core::kinds::Scope;
use crate::core::problem::Reason;
use crate::core::resource::Gvk;

pub(super) fn compile(
    document: &Value,
    kinds: &dyn Fn(&Gvk) -> Option<Scope>,
    findings: &mut Findings,
) -> Option<Exception> {
    let ways = Ways::default();
    let root = Node::new(Some(document), ways.root()).object(findings);
    root.knows(&["apiVersion", "kind"]);
    let key = read_key(&root.get("metadata"), findings);
    let spec = root.get("spec");
    root.refuse_unknown(findings);

    let spec = spec.object(findings);
    let background = flag(&spec.get("background"), findings).unwrap_or(true);
    let (entries, selected, conditions) = (spec.get("exceptions"), spec.get("match"), spec.get("conditions"));
    let pod_security = spec.get("podSecurity");
    if pod_security.is_present() {
        findings.warn(pod_security.path, Reason::Suspicious, "is for validate rules; it has no effect here");
    }
    spec.refuse_unknown(findings);

    let entries = read_entries(&entries, findings);
    let matching = filter::compile_exception(&selected, background, kinds, findings);
    let compiled = compile_conditions(&conditions, Form::Foreach, findings);
    if variables::check_exception(&conditions, background, findings).reads_admission {
        warn_of_watched_rules(conditions.path, findings);
    }
    if matching.as_ref().is_some_and(|matching| matching.asks_admission()) {
        warn_of_watched_rules(selected.path, findings);
    }
    Some(Exception { key, entries, matching: matching?, conditions: compiled? })
}

fn read_key(metadata: &Node<'_>, findings: &mut Findings) -> ExceptionKey {
    let (name, namespace) = (metadata.below("name"), metadata.below("namespace"));
    let text = name.text(findings).unwrap_or_default().into_owned();
    if text.is_empty() && !metadata.below("generateName").is_present() {
        findings.refuse(name.path, Reason::Required, "an exception needs a name");
    }
    let namespace = namespace.text(findings).map(String::from).filter(|namespace| !namespace.is_empty());
    // kubectl fills in the namespace of its context; offline there is none but the usual one.
    ExceptionKey { namespace: namespace.unwrap_or_else(|| "default".to_owned()), name: text }
}

fn read_entries(node: &Node<'_>, findings: &mut Findings) -> Vec<ExceptionEntry> {
    let entries = node.list(findings);
    if entries.is_empty() {
        findings.refuse(node.path, Reason::Required, "an exception needs the policies and rules that it is for");
    }
    entries.iter().map(|entry| read_entry(entry, findings)).collect()
}

fn read_entry(node: &Node<'_>, findings: &mut Findings) -> ExceptionEntry {
    let entry = node.object(findings);
    let (policy, rules) = (entry.get("policyName"), entry.get("ruleNames"));
    entry.refuse_unknown(findings);
    let required = |node: &Node<'_>, message: &str, findings: &mut Findings| {
        let text = node.text(findings).unwrap_or_default().into_owned();
        if text.is_empty() {
            findings.refuse(node.path, Reason::Required, message);
        }
        text
    };
    let policy = required(
        &policy,
        "name a policy: `name` of a ClusterPolicy, `namespace/name` of a Policy; `*` and `?` match",
        findings,
    );
    let names = rules.list(findings);
    if names.is_empty() {
        findings.refuse(rules.path, Reason::Required, "name at least one rule; `*` is all of them");
    }
    let names = names.iter().map(|name| required(name, "the name of a rule may not be empty", findings));
    ExceptionEntry { policy, rules: names.collect() }
}

/// Most rules run after the fact, when requester and operation are forgotten.
fn warn_of_watched_rules(path: Way<'_>, findings: &mut Findings) {
    let message = "asks for what is known only while a request is handled (requester, operation, old object, subresource); \
                   it takes nothing out of rules that do not ask for such things themselves";
    findings.warn(path, Reason::Suspicious, message);
}
