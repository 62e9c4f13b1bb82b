//! `generate`: what a rule makes, once or for each element of a list.

use serde_json::{Map, Value};

use super::policy::flag;
use super::rule::{Surroundings, compile_conditions, compile_template};
use super::scope::{self, Part, is_variable};
use super::{Node, Object, context, slips};
use crate::compile::Findings;
use crate::core::condition::Form;
use crate::core::expr::Expression;
use crate::core::generate::{Loop, Output, Pattern, TargetKind, Targets};
use crate::core::kinds::Scope;
use crate::core::problem::{FieldPath, Reason};
use crate::core::selector::{LabelSelector, Wildcards};

/// `generate`, compiled.
pub(super) struct Made {
    pub(super) synchronize: bool,
    pub(super) orphan_on_policy_delete: bool,
    /// What the rule itself says.
    pub(super) generate_existing: Option<bool>,
    pub(super) targets: Option<Targets>,
}

/// The alternatives of a rule or of a loop.
const FORMS: [&str; 4] = ["data", "clone", "dataList", "cloneList"];
/// The identity of a target.
const IDENTITY: [&str; 4] = ["apiVersion", "kind", "name", "namespace"];

pub(super) fn compile(node: &Node<'_>, around: &Surroundings<'_>, findings: &mut Findings) -> Made {
    let generate = node.object(findings);
    let synchronize = flag(&generate.get("synchronize"), findings).unwrap_or(false);
    let orphan_on_policy_delete = flag(&generate.get("orphanDownstreamOnPolicyDelete"), findings).unwrap_or(false);
    let generate_existing = flag(&generate.get("generateExisting"), findings);
    let foreach = generate.get("foreach");
    ask_for_output(&generate);
    generate.refuse_unknown(findings);

    let targets = if foreach.is_present() {
        for other in FORMS.map(|form| node.below(form)).iter().filter(|form| form.is_present()) {
            findings.refuse(other.path, Reason::Xor, "stands beside `foreach`; put it inside an entry");
        }
        let nodes = foreach.list(findings);
        if nodes.is_empty() {
            findings.refuse(foreach.path, Reason::Empty, "needs at least one entry");
        }
        let loops: Vec<_> = nodes.iter().map(|entry| compile_loop(entry, around, findings)).collect();
        loops.into_iter().collect::<Option<Vec<_>>>().map(Targets::Foreach)
    } else {
        compile_output(node, around, findings).map(|output| Targets::Once(Box::new(output)))
    };
    Made { synchronize, orphan_on_policy_delete, generate_existing, targets }
}

fn compile_loop(node: &Node<'_>, around: &Surroundings<'_>, findings: &mut Findings) -> Option<Loop> {
    let entry = node.object(findings);
    let (list, entries, conditions) = (entry.get("list"), entry.get("context"), entry.get("preconditions"));
    ask_for_output(&entry);
    entry.refuse_unknown(findings);
    let list = compile_list(&list, findings);
    let context = context::compile(&entries, around, findings);
    let preconditions = compile_conditions(&conditions, Form::Foreach, findings);
    let output = compile_output(node, around, findings);
    Some(Loop {
        list: list?,
        context: context?,
        preconditions: preconditions?,
        output: output?,
        field: node.path.told(),
    })
}

fn compile_list(node: &Node<'_>, findings: &mut Findings) -> Option<Expression> {
    let text = node.text(findings).unwrap_or_default();
    if text.trim().is_empty() {
        findings.refuse(node.path, Reason::Required, "needs an expression that gives the elements");
        return None;
    }
    let bare = slips::strip_braces(&text, &node.path.told(), findings);
    match Expression::compile(bare) {
        Ok(expression) => Some(expression),
        Err(error) => {
            findings.refuse(node.path, Reason::Format, error.to_string());
            None
        }
    }
}

fn ask_for_output(object: &Object<'_>) {
    for field in IDENTITY.into_iter().chain(FORMS) {
        object.get(field);
    }
    // In the schema, and without effect.
    object.get("uid");
}

fn compile_output(node: &Node<'_>, around: &Surroundings<'_>, findings: &mut Findings) -> Option<Output> {
    let [data, clone, data_list, clone_list] = FORMS.map(|form| node.below(form));
    let present: Vec<&str> = FORMS.into_iter().filter(|form| node.below(form).is_present()).collect();
    if present.len() > 1 {
        findings.refuse(node.path, Reason::Xor, format!("has {}; only one of them is possible", present.join(" and ")));
        return None;
    }
    if clone.is_present() {
        compile_clone(node, &clone, around, findings).map(Output::Clone)
    } else if data_list.is_present() {
        warn_of_idle(node, &IDENTITY, "dataList", findings);
        let nodes = data_list.list(findings);
        refuse_empty(&data_list, &nodes, findings);
        let items = nodes.iter().map(|item| {
            let fields = item.object(findings);
            for field in IDENTITY.into_iter().chain(["data"]) {
                fields.get(field);
            }
            fields.refuse_unknown(findings);
            compile_data(item, &item.below("data"), around, findings)
        });
        let items: Vec<_> = items.collect();
        items.into_iter().collect::<Option<_>>().map(Output::DataList)
    } else if clone_list.is_present() {
        compile_clone_list(node, &clone_list, around, findings)
    } else {
        compile_data(node, &data, around, findings).map(Output::Data)
    }
}

fn compile_data(
    node: &Node<'_>,
    data: &Node<'_>,
    around: &Surroundings<'_>,
    findings: &mut Findings,
) -> Option<Pattern> {
    let kind = read_target(node, around, findings);
    if data.is_present() && !data.value().is_some_and(Value::is_object) {
        findings.refuse(data.path, Reason::Format, "must be the body of the object, a mapping");
    }
    slips::refuse_anchors(data, findings);
    compile_pattern(node, &["data"], vec![kind], findings)
}

fn compile_clone(
    node: &Node<'_>,
    clone: &Node<'_>,
    around: &Surroundings<'_>,
    findings: &mut Findings,
) -> Option<Pattern> {
    let kind = read_target(node, around, findings);
    let fields = clone.object(findings);
    let (name, namespace) = (fields.get("name"), fields.get("namespace"));
    fields.refuse_unknown(findings);
    require(&name, "the source needs its name", findings);
    let scope = known_scope(&kind, around);
    scope::check(scope, Part::Source, &namespace, around, findings);
    warn_of_variables(&[&name, &namespace], findings);
    compile_pattern(node, &["clone"], vec![kind], findings)
}

fn compile_clone_list(
    node: &Node<'_>,
    clone_list: &Node<'_>,
    around: &Surroundings<'_>,
    findings: &mut Findings,
) -> Option<Output> {
    warn_of_idle(node, &IDENTITY[..3], "cloneList", findings);
    // A plain list is the short form of `list`.
    if clone_list.value().is_some_and(Value::is_array) {
        return compile_sources(node, clone_list, around, findings);
    }
    let fields = clone_list.object(findings);
    let (list, kinds) = (fields.get("list"), fields.get("kinds"));
    let (namespace, selector) = (fields.get("namespace"), fields.get("selector"));
    fields.refuse_unknown(findings);
    if list.is_present() {
        for other in [&kinds, &namespace, &selector].into_iter().filter(|other| other.is_present()) {
            findings.refuse(other.path, Reason::Xor, "stands beside `list`; sources are named or selected, not both");
        }
        return compile_sources(node, &list, around, findings);
    }
    let target = node.below("namespace");
    let target_text = target.text(findings).unwrap_or_default().into_owned();
    let nodes = kinds.list(findings);
    if nodes.is_empty() {
        findings.refuse(kinds.path, Reason::Required, "needs kinds such as `v1/Secret`, or a `list` of sources");
    }
    let mut scopes: Vec<Scope> = Vec::new();
    let mut target_kinds = Vec::new();
    for kind in &nodes {
        let text = kind.text(findings).unwrap_or_default().into_owned();
        let Some((api_version, name)) = text.rsplit_once('/') else {
            if !is_variable(&text) {
                findings.refuse(kind.path, Reason::Format, format!("needs its version, such as `v1/{text}`"));
            }
            continue;
        };
        scopes.extend(scope::of_kind(api_version, name, &kind.path.told(), around, findings));
        target_kinds.push(TargetKind {
            api_version: api_version.to_owned(),
            kind: name.to_owned(),
            namespace: target_text.clone(),
        });
    }
    if scopes.windows(2).any(|pair| pair[0] != pair[1]) {
        findings.refuse(kinds.path, Reason::Context, "must all live in namespaces, or all outside of them");
    } else {
        let scope = scopes.first().copied();
        scope::check(scope, Part::Source, &namespace, around, findings);
        if scope == Some(Scope::Cluster) && around.policy.namespace.is_none() && !target_text.is_empty() {
            // The peer accepts it, so such policies exist.
            let message = "is ignored: the kinds of `cloneList` are cluster-scoped";
            findings.warn(target.path, Reason::Suspicious, message);
        } else {
            scope::check(scope, Part::Target, &target, around, findings);
        }
    }
    check_selector(&selector, findings);
    warn_of_variables(&[&namespace], findings);
    compile_pattern(node, &["cloneList"], target_kinds, findings).map(Output::CloneSelected)
}

fn check_selector(selector: &Node<'_>, findings: &mut Findings) {
    let Some(value) = selector.value() else { return };
    if is_variable(&value.to_string()) {
        findings.warn(
            selector.path,
            Reason::Suspicious,
            "variables here may keep changes of sources from being followed",
        );
        return;
    }
    let mut problems = Vec::new();
    LabelSelector::parse(value, Wildcards::Refused, &selector.path.told(), &mut problems);
    findings.take(problems);
}

/// `cloneList.list`.
fn compile_sources(
    node: &Node<'_>,
    list: &Node<'_>,
    around: &Surroundings<'_>,
    findings: &mut Findings,
) -> Option<Output> {
    warn_of_idle(node, &IDENTITY[3..], "cloneList", findings);
    let nodes = list.list(findings);
    refuse_empty(list, &nodes, findings);
    let items: Vec<_> = nodes.iter().map(|item| compile_source(item, around, findings)).collect();
    items.into_iter().collect::<Option<_>>().map(Output::CloneEach)
}

fn compile_source(item: &Node<'_>, around: &Surroundings<'_>, findings: &mut Findings) -> Option<Pattern> {
    let fields = item.object(findings);
    let (source, target) = (fields.get("source"), fields.get("target"));
    fields.refuse_unknown(findings);
    for part in [&source, &target] {
        let fields = part.object(findings);
        for field in IDENTITY {
            fields.get(field);
        }
        fields.refuse_unknown(findings);
        require(&part.below("name"), "needs its name", findings);
    }
    let swapped = slips::unswap(&source, findings);
    let source_value = swapped.as_ref().or(source.value());
    let source = Node::new(source_value, source.path);
    let (api_version, kind) = (source.below("apiVersion"), source.below("kind"));
    let mut written = TargetKind {
        api_version: require(&api_version, "the source needs its apiVersion, such as `v1`", findings),
        kind: require(&kind, "the source needs its kind, such as `Secret`", findings),
        namespace: target.below("namespace").text(findings).unwrap_or_default().into_owned(),
    };
    warn_of_variables(&[&api_version, &kind], findings);
    let scope = scope::of_kind(&written.api_version, &written.kind, &kind.path.told(), around, findings);
    scope::check(scope, Part::Source, &source.below("namespace"), around, findings);
    let (target_version, target_kind) = (target.below("apiVersion"), target.below("kind"));
    if target_version.is_present() || target_kind.is_present() {
        written.api_version = target_version.text(findings).map_or(written.api_version, String::from);
        written.kind = target_kind.text(findings).map_or(written.kind, String::from);
    }
    let scope = known_scope(&written, around);
    scope::check(scope, Part::Target, &target.below("namespace"), around, findings);

    let mut document = item.value()?.clone();
    if let (Some(swapped), Some(document)) = (swapped, document.as_object_mut()) {
        document.insert("source".to_owned(), swapped);
    }
    let template = compile_template(&document, &item.path.told(), findings)?;
    Some(Pattern { template, field: item.path.told(), kinds: vec![written] })
}

/// Reads and checks the identity of a target.
fn read_target(node: &Node<'_>, around: &Surroundings<'_>, findings: &mut Findings) -> TargetKind {
    let [api_version, kind, name, namespace] = IDENTITY.map(|field| node.below(field));
    let written = TargetKind {
        api_version: require(&api_version, "the target needs its apiVersion, such as `v1`", findings),
        kind: require(&kind, "the target needs its kind, such as `ConfigMap`", findings),
        namespace: namespace.text(findings).unwrap_or_default().into_owned(),
    };
    require(&name, "the target needs its name", findings);
    warn_of_variables(&[&api_version, &kind], findings);
    let scope = scope::of_kind(&written.api_version, &written.kind, &kind.path.told(), around, findings);
    scope::check(scope, Part::Target, &namespace, around, findings);
    written
}

/// The scope of a kind that has been checked before.
fn known_scope(kind: &TargetKind, around: &Surroundings<'_>) -> Option<Scope> {
    scope::of_kind(&kind.api_version, &kind.kind, &FieldPath::root(), around, &mut Findings::default())
}

/// The part of a rule, loop or item that is substituted as one document.
fn compile_pattern(
    node: &Node<'_>,
    forms: &[&str],
    kinds: Vec<TargetKind>,
    findings: &mut Findings,
) -> Option<Pattern> {
    let fields = node.value()?.as_object()?;
    let wanted = fields.iter().filter(|(key, _)| IDENTITY.contains(&key.as_str()) || forms.contains(&key.as_str()));
    let document: Map<String, Value> = wanted.map(|(key, value)| (key.clone(), value.clone())).collect();
    let template = compile_template(&Value::Object(document), &node.path.told(), findings)?;
    Some(Pattern { template, field: node.path.told(), kinds })
}

/// The text of a field that must not be empty.
fn require(node: &Node<'_>, message: &str, findings: &mut Findings) -> String {
    let text = node.text(findings).unwrap_or_default().into_owned();
    if text.is_empty() {
        findings.refuse(node.path, Reason::Required, message);
    }
    text
}

fn refuse_empty(list: &Node<'_>, nodes: &[Node<'_>], findings: &mut Findings) {
    if nodes.is_empty() {
        findings.refuse(list.path, Reason::Empty, "needs at least one item");
    }
}

fn warn_of_idle(node: &Node<'_>, fields: &[&'static str], form: &str, findings: &mut Findings) {
    for field in fields.iter().map(|field| node.below(field)).filter(Node::is_present) {
        findings.warn(
            field.path,
            Reason::Suspicious,
            format!("has no effect beside `{form}`; its items say it themselves"),
        );
    }
}

fn warn_of_variables(fields: &[&Node<'_>], findings: &mut Findings) {
    for field in fields {
        if field.value().and_then(Value::as_str).is_some_and(is_variable) {
            let message = "a variable here may keep changes of the rule and its sources from being followed";
            findings.warn(field.path, Reason::Suspicious, message);
        }
    }
}
