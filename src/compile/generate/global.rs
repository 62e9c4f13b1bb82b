//! GlobalContextEntry: data that is kept at hand for rules.

use std::time::Duration;

use serde_json::Value;

use super::context::check_call;
use super::{Node, Object};
use crate::compile::Findings;
use crate::compile::way::Ways;
use crate::core::expr::Expression;
use crate::core::generate::Reach;
use crate::core::generate::context::Call;
use crate::core::generate::global::{GlobalEntry, GlobalPoll, GlobalResource, GlobalSource};
use crate::core::problem::{FieldPath, Reason};
use crate::core::resource::text_at;
use crate::core::scalar::duration;

pub(super) const KIND: &str = "GlobalContextEntry";

const REFRESH: Duration = Duration::from_secs(600);
const RETRIES: u32 = 3;

/// Whether a document is such an entry.
pub fn is_entry(document: &Value) -> bool {
    matches!(text_at(document, &["apiVersion"]), "kyverno.io/v2alpha1" | "kyverno.io/v2beta1")
        && text_at(document, &["kind"]) == KIND
}

/// Compiles an entry. Without errors it is there; with them it is not, and nobody must use it.
pub fn entry(document: &Value) -> (Option<GlobalEntry>, Findings) {
    let mut findings = Findings::default();
    let ways = Ways::default();
    let node = Node::new(Some(document), ways.root()).below("spec");
    let spec = node.object(&mut findings);
    let (resource, call, projections) = (spec.get("kubernetesResource"), spec.get("apiCall"), spec.get("projections"));
    spec.refuse_unknown(&mut findings);
    let source = match (resource.is_present(), call.is_present()) {
        (true, false) => read_resource(&resource, &mut findings).map(GlobalSource::Resource),
        (false, true) => read_call(&call, &mut findings).map(GlobalSource::Poll),
        _ => {
            let message = "an entry has exactly one of kubernetesResource, apiCall";
            findings.refuse(node.path, Reason::Xor, message);
            None
        }
    };
    let projections = read_projections(&projections, &mut findings);
    let name = text_at(document, &["metadata", "name"]).to_owned();
    let entry = source.map(|source| GlobalEntry { name, source, projections });
    (entry.filter(|_| findings.errors.is_empty()), findings)
}

fn read_resource(node: &Node<'_>, findings: &mut Findings) -> Option<GlobalResource> {
    let fields = node.object(findings);
    let group = text(&fields, "group", findings);
    let namespace = text(&fields, "namespace", findings);
    let version = required(&fields, "version", "the version of the resource", findings);
    let resource = required(&fields, "resource", "the plural name of the resource", findings);
    fields.refuse_unknown(findings);
    if resource.contains('/') {
        let message = "objects are kept, not their subresources";
        findings.refuse(node.below("resource").path, Reason::Format, message);
    }
    Some(GlobalResource { group, version, resource, namespace: Some(namespace).filter(|name| !name.is_empty()) })
}

fn read_call(node: &Node<'_>, findings: &mut Findings) -> Option<GlobalPoll> {
    let fields = node.object(findings);
    let (interval, limit) = (fields.get("refreshInterval"), fields.get("retryLimit"));
    let before = findings.errors.len();
    check_call(node, &fields, &Reach::Cluster, findings)?;
    node.value().into_iter().for_each(|call| refuse_variables(call, &node.path.told(), findings));
    let every = read_interval(&interval, findings);
    let retries = match limit.value() {
        None => RETRIES,
        Some(value) => value.as_u64().and_then(|number| u32::try_from(number).ok()).unwrap_or_else(|| {
            findings.refuse(limit.path, Reason::Format, "must be a whole number, 0 or more");
            RETRIES
        }),
    };
    match Call::read(node.value()?) {
        Ok(call) => Some(GlobalPoll { call, every, retries }),
        Err(reason) => {
            if findings.errors.len() == before {
                findings.refuse(node.path, Reason::Format, reason);
            }
            None
        }
    }
}

fn refuse_variables(value: &Value, path: &FieldPath, findings: &mut Findings) {
    let look = |text: &str, findings: &mut Findings| {
        if text.contains("{{") {
            findings.refuse(path, Reason::Context, "an entry has no trigger, and so no variables");
        }
    };
    match value {
        Value::String(text) => look(text, findings),
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(index, item)| refuse_variables(item, &path.index(index), findings));
        }
        Value::Object(fields) => {
            for (key, value) in fields {
                look(key, findings);
                refuse_variables(value, &path.field(key.clone()), findings);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn read_interval(node: &Node<'_>, findings: &mut Findings) -> Duration {
    let Some(text) = node.text(findings) else { return REFRESH };
    match text.parse::<duration::Duration>() {
        Ok(every) if every.as_nanos() >= 1_000_000_000 => Duration::from_nanos(every.as_nanos().unsigned_abs()),
        Ok(_) => {
            findings.refuse(node.path, Reason::Range, "must be at least 1s");
            REFRESH
        }
        Err(error) => {
            findings.refuse(node.path, Reason::Format, error.to_string());
            REFRESH
        }
    }
}

fn read_projections(node: &Node<'_>, findings: &mut Findings) -> Vec<(String, Expression)> {
    let mut projections: Vec<(String, Expression)> = Vec::new();
    for item in node.list(findings) {
        let fields = item.object(findings);
        let name = required(&fields, "name", "a projection needs its name", findings);
        let path = required(&fields, "jmesPath", "a projection needs its expression", findings);
        fields.refuse_unknown(findings);
        if projections.iter().any(|(known, _)| *known == name) {
            let message = format!("there is a projection `{name}` already");
            findings.refuse(item.below("name").path, Reason::Duplicate, message);
        }
        match Expression::compile(&path) {
            Ok(expression) => projections.push((name, expression)),
            Err(error) if !path.is_empty() => {
                findings.refuse(item.below("jmesPath").path, Reason::Format, error.to_string());
            }
            Err(_) => {}
        }
    }
    projections
}

fn text(fields: &Object<'_>, name: &'static str, findings: &mut Findings) -> String {
    fields.get(name).text(findings).unwrap_or_default().into_owned()
}

fn required(fields: &Object<'_>, name: &'static str, what: &str, findings: &mut Findings) -> String {
    let field = fields.get(name);
    let text = field.text(findings).unwrap_or_default().into_owned();
    if text.is_empty() {
        findings.refuse(field.path, Reason::Required, what);
    }
    text
}
