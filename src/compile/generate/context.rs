//! Context entries of a rule or of a `foreach` entry.

use serde_json::Value;
use x509_parser::pem::Pem;

use super::rule::{Entries, Surroundings, compile_template};
use super::{Node, Object};
use crate::compile::Findings;
use crate::core::expr::{Expression, Template};
use crate::core::generate::InstallBounds;
use crate::core::generate::api_path::PathPattern;
use crate::core::generate::context::{ApiCall, Entry, EntrySource, Query, RESERVED, Variable};
use crate::core::generate::gate::{Gate, Outbound, Reach, Refusal};
use crate::core::problem::Reason;

const SOURCES: [&str; 5] = ["variable", "configMap", "apiCall", "imageRegistry", "globalReference"];

pub(super) fn compile(list: &Node<'_>, around: &Surroundings<'_>, findings: &mut Findings) -> Entries {
    let nodes = list.list(findings);
    let entries: Vec<_> = nodes.iter().map(|node| read_entry(node, around, findings)).collect();
    entries.into_iter().collect()
}

fn read_entry(node: &Node<'_>, around: &Surroundings<'_>, findings: &mut Findings) -> Option<Entry> {
    let before = findings.errors.len();
    let entry = node.object(findings);
    let name = read_name(&entry, node, findings);
    let sources = SOURCES.map(|source| entry.get(source));
    entry.refuse_unknown(findings);
    let present: Vec<&Node<'_>> = sources.iter().filter(|source| source.is_present()).collect();
    let [_] = present.as_slice() else {
        let message = format!("an entry has exactly one of {}", SOURCES.join(", "));
        findings.refuse(node.path, Reason::Xor, message);
        return None;
    };
    let [variable, config_map, api_call, image, global] = &sources;
    let source = if variable.is_present() {
        read_variable(variable, findings)
    } else if config_map.is_present() {
        read_config_map(config_map, around, findings)
    } else if api_call.is_present() {
        read_api_call(api_call, around, findings)
    } else if image.is_present() {
        let object = image.object(findings);
        object.get("imageRegistryCredentials");
        read_reference(&object, "reference", findings)
            .map(|(reference, query)| EntrySource::ImageRegistry { reference, query })
    } else {
        read_reference(&global.object(findings), "name", findings)
            .map(|(name, query)| EntrySource::GlobalReference { name, query })
    };
    let source = source?;
    (findings.errors.len() == before).then(|| Entry { name, source, field: node.path.told() })
}

fn read_name(entry: &Object<'_>, node: &Node<'_>, findings: &mut Findings) -> String {
    let field = entry.get("name");
    let name = field.text(findings).unwrap_or_default().into_owned();
    let nested = node.below("variable").below("name");
    if name.is_empty() && nested.is_present() {
        let message =
            "`name` belongs to the entry, beside `variable`: `- name: x` and `variable: {…}` on the next line";
        findings.refuse(nested.path, Reason::Context, message);
    } else if name.is_empty() {
        findings.refuse(field.path, Reason::Required, "a context entry needs a name");
    }
    let root = name.split('.').next().unwrap_or_default();
    if RESERVED.contains(&root) {
        findings.refuse(field.path, Reason::Forbidden, format!("`{root}` is a name of the engine's own; take another"));
    }
    name
}

fn read_variable(node: &Node<'_>, findings: &mut Findings) -> Option<EntrySource> {
    let variable = node.object(findings);
    let (value, path, default) = (variable.get("value"), variable.get("jmesPath"), variable.get("default"));
    if !node.below("name").is_present() {
        variable.refuse_unknown(findings);
    }
    if !value.is_present() && !path.is_present() {
        let message = "needs a `value`, a `jmesPath`, or both; `default` alone is not enough";
        findings.refuse(node.path, Reason::AnyOf, message);
        return None;
    }
    let mut template = |field: &Node<'_>| match field.value() {
        Some(document) => compile_template(document, &field.path.told(), findings).map(Some),
        None => Some(None),
    };
    let (value, default) = (template(&value)?, template(&default)?);
    Some(EntrySource::Variable(Variable { value, query: read_query(&path, findings)?, default }))
}

fn read_config_map(node: &Node<'_>, around: &Surroundings<'_>, findings: &mut Findings) -> Option<EntrySource> {
    let fields = node.object(findings);
    let (name, namespace) = (fields.get("name"), fields.get("namespace"));
    fields.refuse_unknown(findings);
    for field in [&name, &namespace] {
        if field.text(findings).unwrap_or_default().is_empty() {
            findings.refuse(field.path, Reason::Required, "a ConfigMap is named by name and namespace");
        }
    }
    if let (Some(own), Some(namespace_text)) = (&around.policy.namespace, namespace.value().and_then(Value::as_str))
        && !namespace_text.contains("{{")
        && namespace_text != own
    {
        let message = format!("a Policy reads its own namespace only, which is `{own}`");
        findings.refuse(namespace.path, Reason::Forbidden, message);
    }
    compile_template(node.value()?, &node.path.told(), findings).map(EntrySource::ConfigMap)
}

fn read_api_call(node: &Node<'_>, around: &Surroundings<'_>, findings: &mut Findings) -> Option<EntrySource> {
    let fields = node.object(findings);
    let (query, default) = (fields.get("jmesPath"), fields.get("default"));
    check_call(node, &fields, &around.policy.reach(), findings)?;
    let mut call = node.value()?.clone();
    for own in ["jmesPath", "default"] {
        call.as_object_mut().map(|call| call.remove(own));
    }
    let call = compile_template(&call, &node.path.told(), findings)?;
    Some(EntrySource::ApiCall(ApiCall {
        call,
        path: PathPattern::of(node.below("urlPath").value().and_then(Value::as_str).unwrap_or_default()),
        query: read_query(&query, findings)?,
        default: default.value().cloned(),
        is_service: node.below("service").is_present(),
    }))
}

/// Whom a call asks and with what, after the caller has taken the fields of its own. Nothing if that cannot even be said.
pub(super) fn check_call(node: &Node<'_>, fields: &Object<'_>, reach: &Reach, findings: &mut Findings) -> Option<()> {
    let (path, service) = (fields.get("urlPath"), fields.get("service"));
    let (method, data) = (fields.get("method"), fields.get("data"));
    fields.refuse_unknown(findings);
    if path.is_present() == service.is_present() {
        findings.refuse(node.path, Reason::Xor, "an API call has exactly one of urlPath, service");
        return None;
    }
    if let Some(method_text) = method.text(findings)
        && !["GET", "POST"].contains(&&*method_text)
    {
        findings.refuse(method.path, Reason::Enum, format!("unknown value `{method_text}`; known: GET, POST"));
    }
    for pair in data.list(findings) {
        let pair = pair.object(findings);
        let key = pair.get("key");
        pair.get("value");
        pair.refuse_unknown(findings);
        if !key.is_present() {
            findings.refuse(key.path, Reason::Required, "needs a key");
        }
    }
    check_service(&service, reach, findings);
    check_path(&path, method.value().and_then(Value::as_str) == Some("POST"), reach, findings);
    Some(())
}

fn check_service(service: &Node<'_>, reach: &Reach, findings: &mut Findings) {
    if !service.is_present() {
        return;
    }
    let fields = service.object(findings);
    let (url, headers, bundle) = (fields.get("url"), fields.get("headers"), fields.get("caBundle"));
    fields.refuse_unknown(findings);
    let text = url.text(findings).unwrap_or_default();
    if text.is_empty() {
        findings.refuse(url.path, Reason::Required, "a service needs its url");
    } else if !text.contains("{{") {
        check_url(&text, &url, findings);
    }
    for header in headers.list(findings) {
        let header = header.object(findings);
        let key = header.get("key");
        header.get("value");
        header.refuse_unknown(findings);
        if key.text(findings).unwrap_or_default().is_empty() {
            findings.refuse(key.path, Reason::Required, "a header needs its key");
        }
    }
    if let Some(pem) = bundle.text(findings)
        && !pem.is_empty()
        && !pem.contains("{{")
        && !holds_certificates(&pem)
    {
        findings.refuse(bundle.path, Reason::Format, "must be certificates in PEM");
    }
    if *reach != Reach::Cluster {
        findings.refuse(service.path, Reason::Forbidden, "a Policy cannot leave its namespace; use a ClusterPolicy");
    }
}

/// Which hosts an operator permits is not known here; an address that is wrong for everybody is.
fn check_url(text: &str, url: &Node<'_>, findings: &mut Findings) {
    let bounds = InstallBounds::offline().with_outbound(Outbound::any());
    let refusal = Gate::new(&Reach::Cluster, &bounds).service(text, Vec::new(), None, None).err();
    match refusal {
        // The own machine is a matter of that list.
        None | Some(Refusal::OwnMachine { .. }) => {}
        Some(refusal @ Refusal::Url { .. }) => findings.refuse(url.path, Reason::Format, refusal.to_string()),
        Some(refusal) => findings.refuse(url.path, Reason::Forbidden, refusal.to_string()),
    }
}

fn holds_certificates(pem: &str) -> bool {
    let mut blocks = Pem::iter_from_buffer(pem.as_bytes()).peekable();
    blocks.peek().is_some()
        && blocks.all(|block| block.is_ok_and(|block| block.label == "CERTIFICATE" && block.parse_x509().is_ok()))
}

/// A path without variables is tried on the gate; of one with variables only what can be seen is checked.
fn check_path(path: &Node<'_>, post: bool, reach: &Reach, findings: &mut Findings) {
    let Some(text) = path.text(findings) else { return };
    if text.contains("{{") {
        if text.matches('?').count() > 1
            && !text.split("{{").skip(1).any(|rest| rest.split("}}").next().is_some_and(|x| x.contains('?')))
        {
            findings.refuse(path.path, Reason::Format, "it has a second `?`; parameters are separated by `&`");
        }
        return;
    }
    // Of resources that are not built in, the gate decides when the rule runs.
    let bounds = InstallBounds::offline();
    let gate = Gate::new(reach, &bounds);
    let refusal = gate.call(&text, post.then(String::new), &PathPattern::of(&text)).err();
    match refusal {
        None => {}
        Some(refusal @ Refusal::Path(_)) => findings.refuse(path.path, Reason::Format, refusal.to_string()),
        Some(refusal) => findings.refuse(path.path, Reason::Forbidden, refusal.to_string()),
    }
}

fn read_reference(
    fields: &Object<'_>,
    name: &'static str,
    findings: &mut Findings,
) -> Option<(Template, Option<Query>)> {
    let (reference, query) = (fields.get(name), fields.get("jmesPath"));
    fields.refuse_unknown(findings);
    let text = reference.text(findings).unwrap_or_default();
    if text.is_empty() {
        findings.refuse(reference.path, Reason::Required, "may not be empty");
        return None;
    }
    let template = compile_template(&Value::from(&*text), &reference.path.told(), findings)?;
    Some((template, read_query(&query, findings)?))
}

/// A bare expression; with braces in it, only its parts can be checked now.
fn read_query(node: &Node<'_>, findings: &mut Findings) -> Option<Option<Query>> {
    let Some(text) = node.text(findings) else {
        return Some(None);
    };
    if text.contains("{{") {
        return compile_template(&Value::from(&*text), &node.path.told(), findings)
            .map(|text| Some(Query::Computed(text)));
    }
    match Expression::compile(&text) {
        Ok(expression) => Some(Some(Query::Fixed(expression))),
        Err(error) => {
            findings.refuse(node.path, Reason::Format, error.to_string());
            None
        }
    }
}
