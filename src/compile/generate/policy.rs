//! Metadata and `spec` of a policy.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::Value;

use super::rule::{self, Surroundings};
use super::{Node, Object};
use crate::compile::Findings;
use crate::compile::way::Ways;
use crate::core::generate::{Apply, Policy, PolicyKey, Webhook};
use crate::core::kinds::Scope;
use crate::core::problem::Reason;
use crate::core::resource::Gvk;

/// The longest text that fits into a label.
const LABEL_LENGTH: usize = 63;
const PRUNE: &str = "writ.dev/prune";
const AUTOGEN: &str = "pod-policies.kyverno.io/autogen-controllers";

pub(super) fn compile(
    document: &Value,
    kinds: &dyn Fn(&Gvk) -> Option<Scope>,
    findings: &mut Findings,
) -> Option<Policy> {
    let ways = Ways::default();
    let root = Node::new(Some(document), ways.root()).object(findings);
    let (kind, metadata, spec) = (root.get("kind"), root.get("metadata"), root.get("spec"));
    let version = root.get("apiVersion").text(findings).unwrap_or_default().into_owned();
    root.get("status");
    root.refuse_unknown(findings);
    let namespaced = kind.text(findings).as_deref() == Some("Policy");
    let key = read_key(&metadata, namespaced, findings);
    let prune = read_annotations(&metadata, findings);

    let spec_path = spec.path;
    let spec = spec.object(findings);
    let background = flag(&spec.get("background"), findings).unwrap_or(true);
    let admission = flag(&spec.get("admission"), findings).unwrap_or(true);
    let generate_existing = flag(&spec.get("generateExisting"), findings).unwrap_or(false);
    let server_side_apply = flag(&spec.get("useServerSideApply"), findings).unwrap_or(false);
    let apply = match one_of(&spec.get("applyRules"), &["All", "One"], findings).as_deref() {
        Some("One") => Apply::One,
        _ => Apply::All,
    };
    let webhook = read_webhook(&spec, findings);
    refuse_removed(&spec, findings);
    // Fields that exist and mean nothing here.
    for ignored in [
        "schemaValidation",
        "validationFailureAction",
        "validationFailureActionOverrides",
        "emitWarning",
        "mutateExistingOnPolicyUpdate",
    ] {
        spec.get(ignored);
    }
    let rules_node = spec.get("rules");
    spec.refuse_unknown(findings);

    let surroundings = Surroundings {
        policy: &key,
        background,
        generate_existing,
        strict_preconditions: version == "kyverno.io/v2beta1",
        server_selects: !webhook.match_conditions.is_empty(),
        kinds,
    };
    let nodes = rules_node.list(findings);
    if nodes.is_empty() {
        findings.refuse(rules_node.path, Reason::Required, "a policy needs at least one rule");
    }
    let mut names = BTreeSet::new();
    let mut rules = Vec::new();
    for node in &nodes {
        if let Some(name) = node.below("name").value().and_then(Value::as_str)
            && !names.insert(name)
        {
            findings.refuse(node.path.field("name"), Reason::Duplicate, format!("another rule is called `{name}` too"));
        }
        rules.extend(rule::compile(node, &surroundings, findings).map(Arc::new));
    }
    let generates = nodes.iter().any(|node| node.below("generate").is_present());
    if !generates && !nodes.is_empty() {
        findings.warn(
            rules_node.path,
            Reason::Suspicious,
            "no rule generates anything, so Writ does nothing with this policy",
        );
    }
    if generates && !admission {
        findings.refuse(
            spec_path.field("admission"),
            Reason::Forbidden,
            "must not be false in a policy that generates",
        );
    }
    if !admission && !background {
        findings.refuse(
            spec_path.field("background"),
            Reason::Context,
            "admission and background cannot both be false",
        );
    }
    Some(Policy { key, apply, server_side_apply, prune, webhook, rules })
}

fn read_key(metadata: &Node<'_>, namespaced: bool, findings: &mut Findings) -> PolicyKey {
    let (name, namespace) = (metadata.below("name"), metadata.below("namespace"));
    let text = name.text(findings).unwrap_or_default().into_owned();
    if text.is_empty() && !metadata.below("generateName").is_present() {
        findings.refuse(name.path, Reason::Required, "a policy needs a name");
    }
    if text.len() > LABEL_LENGTH {
        let message =
            format!("must have at most {LABEL_LENGTH} characters, as it becomes a label of generated objects");
        findings.refuse(name.path, Reason::Range, message);
    }
    let given = namespace.text(findings).map(String::from).filter(|namespace| !namespace.is_empty());
    if !namespaced && given.is_some() {
        findings.refuse(namespace.path, Reason::Forbidden, "a ClusterPolicy has no namespace; use kind Policy");
    }
    // kubectl fills in the namespace of its context; offline there is none but the usual one.
    let namespace = namespaced.then(|| given.unwrap_or_else(|| "default".to_owned()));
    PolicyKey { namespace, name: text }
}

/// Whether stale downstream is to be pruned.
fn read_annotations(metadata: &Node<'_>, findings: &mut Findings) -> bool {
    let mut prune = false;
    for (key, value) in metadata.below("annotations").entries(findings) {
        match (key, value.value().and_then(Value::as_str)) {
            (PRUNE, Some("true")) => prune = true,
            (PRUNE, Some("false")) => {}
            (PRUNE, _) => findings.refuse(value.path, Reason::Enum, "must be \"true\" or \"false\""),
            (AUTOGEN, Some("all")) => {
                findings.refuse(
                    value.path,
                    Reason::Enum,
                    "`all` is no longer a value; name the controllers or leave it out",
                );
            }
            _ => {}
        }
    }
    prune
}

fn read_webhook(spec: &Object<'_>, findings: &mut Findings) -> Webhook {
    const POLICIES: &[&str] = &["Fail", "Ignore"];
    let (old_policy, old_timeout) = (spec.get("failurePolicy"), spec.get("webhookTimeoutSeconds"));
    let block = spec.get("webhookConfiguration").object(findings);
    let (policy, timeout, conditions) =
        (block.get("failurePolicy"), block.get("timeoutSeconds"), block.get("matchConditions"));
    block.refuse_unknown(findings);
    for (old, new) in [(&old_policy, &policy), (&old_timeout, &timeout)] {
        if old.is_present() && new.is_present() {
            findings.refuse(
                old.path,
                Reason::Context,
                format!("deprecated, and set beside its successor `{}`", new.path),
            );
        } else if old.is_present() {
            findings.warn(old.path, Reason::Deprecated, format!("deprecated; use `{}`", new.path));
        }
    }
    let policies = [&policy, &old_policy].map(|node| one_of(node, POLICIES, findings));
    let timeouts = [&timeout, &old_timeout].map(|node| read_timeout(node, findings));
    let match_conditions = conditions.list(findings).iter().filter_map(|node| read_condition(node, findings)).collect();
    Webhook {
        ignore_failure: policies.into_iter().flatten().next().as_deref() == Some("Ignore"),
        timeout_seconds: timeouts.into_iter().flatten().next(),
        match_conditions,
    }
}

fn read_timeout(node: &Node<'_>, findings: &mut Findings) -> Option<u8> {
    let seconds = node.value()?.as_u64().filter(|seconds| (1..=30).contains(seconds));
    if seconds.is_none() {
        findings.refuse(node.path, Reason::Range, "must be a whole number of seconds from 1 to 30");
    }
    seconds.and_then(|seconds| u8::try_from(seconds).ok())
}

fn read_condition(node: &Node<'_>, findings: &mut Findings) -> Option<(String, String)> {
    let condition = node.object(findings);
    let (name, expression) = (condition.get("name"), condition.get("expression"));
    condition.refuse_unknown(findings);
    let mut texts = [&name, &expression].map(|field| {
        let text = field.text(findings).unwrap_or_default().into_owned();
        if text.trim().is_empty() {
            findings.refuse(field.path, Reason::Required, "may not be empty");
        }
        text
    });
    let (name, expression) = (std::mem::take(&mut texts[0]), std::mem::take(&mut texts[1]));
    (!name.is_empty() && !expression.is_empty()).then_some((name, expression))
}

fn refuse_removed(spec: &Object<'_>, findings: &mut Findings) {
    let removed = spec.get("generateExistingOnPolicyUpdate");
    if removed.is_present() {
        findings.refuse(
            removed.path,
            Reason::Forbidden,
            "has been removed; use `generate.generateExisting` of the rule",
        );
    }
}

/// A switch; anything but a boolean is a finding.
pub(super) fn flag(node: &Node<'_>, findings: &mut Findings) -> Option<bool> {
    let value = node.value()?;
    if !value.is_boolean() {
        findings.refuse(node.path, Reason::Format, "must be true or false");
    }
    value.as_bool()
}

/// One of a few words.
fn one_of(node: &Node<'_>, known: &[&str], findings: &mut Findings) -> Option<String> {
    let text = node.text(findings)?.into_owned();
    if !known.contains(&text.as_str()) {
        findings.refuse(node.path, Reason::Enum, format!("unknown value `{text}`; known: {}", known.join(", ")));
    }
    Some(text)
}
