//! Policies that change the Envoy configuration of proxies, and the resources that they change.

use serde_json::Value;

use super::{modification, proxy_patch, proxy_template, resource};
use crate::compile::reader::Node;
use crate::compile::way::Ways;
use crate::compile::{Findings, check, identify};
use crate::core::envoy::modify::{Resource, ResourceType};
use crate::core::envoy::{self, Strictness};
use crate::core::json::{Document, Tree};
use crate::core::mesh::proxy_patch::ProxyPatch;
use crate::core::mesh::proxy_template::ProxyTemplate;
use crate::core::problem::{FieldPath, Reason};

const TYPE_KEY: &str = "@type";

/// A policy with modifications.
#[derive(Clone, Debug, PartialEq)]
pub enum Modifier {
    ProxyTemplate(ProxyTemplate),
    MeshProxyPatch(ProxyPatch),
}

/// Compiles a policy with modifications; `None` for any other document. Without errors there is a policy: what only an API
/// server would refuse can be applied all the same.
pub fn modifier(document: &Value) -> Option<(Option<Modifier>, Findings)> {
    let identity = identify(document)?;
    let is_older = match identity.kind {
        "ProxyTemplate" => true,
        "MeshProxyPatch" => false,
        _ => return None,
    };
    let findings = check(document)?;
    if !findings.errors.is_empty() {
        return Some((None, findings));
    }
    let (document, ways) = (Document::from(document), Ways::default());
    let resource = resource(document.root(), identity.form, is_older, &ways);
    // What there is to say has been said.
    let silent = &mut Findings::default();
    let modifier = match is_older {
        true => Some(Modifier::ProxyTemplate(proxy_template::compile(&resource.content, silent))),
        false => proxy_patch::compile(&resource, silent).map(Modifier::MeshProxyPatch),
    };
    Some((modifier, findings))
}

/// Reads the resources of a proxy, each with its place: a list, or an object with the list in `resources`.
pub fn resources(document: &Value) -> (Vec<(FieldPath, Resource)>, Findings) {
    let mut findings = Findings::default();
    let (document, ways) = (Document::from(document), Ways::default());
    let root = Node::new(Some(document.root()), ways.root());
    let list = if document.root().is_object() { root.below("resources") } else { root };
    let mut resources = Vec::new();
    for entry in list.list(&mut findings) {
        resources.extend(read_resource(&entry, &mut findings).map(|resource| (entry.path.told(), resource)));
    }
    (resources, findings)
}

fn read_resource(entry: &Node<'_>, findings: &mut Findings) -> Option<Resource> {
    let entry = entry.object(findings);
    let (kind, origin, key, body) = (entry.get("type"), entry.get("origin"), entry.get("name"), entry.get("resource"));
    entry.warn_of_unknown(findings);
    let before = findings.errors.len();
    let document = modification::read_document(&body, findings);
    if document.is_none() && findings.errors.len() == before {
        findings.refuse(body.path, Reason::Required, "required: the Envoy resource, as a mapping or as YAML text");
    }
    let mut document = document?.root().to_value();
    let url = document.as_object_mut().and_then(|document| document.remove(TYPE_KEY));
    let given = kind.text(findings);
    let name = given.as_deref().or_else(|| url.as_ref()?.as_str()).unwrap_or_default();
    let short = name.rsplit(['/', '.']).next().unwrap_or_default();
    let Some(kind_of) = ResourceType::ALL.into_iter().find(|known| known.name() == short) else {
        let what = if name.is_empty() { "missing".to_owned() } else { format!("unknown value `{name}`") };
        let known = ResourceType::ALL.map(ResourceType::name).join(", ");
        findings.refuse(kind.path, Reason::Enum, format!("{what}; known: {known}"));
        return None;
    };
    if let Some(url) = url.as_ref().and_then(Value::as_str)
        && url.rsplit(['/', '.']).next() != Some(short)
    {
        let message = format!("the resource says that it is a `{url}`; it is read as a {short}");
        findings.warn(kind.path, Reason::Suspicious, message);
    }
    let decoded = envoy::decode(kind_of.message(), &document, Strictness::Partial);
    let content = modification::accept(decoded, kind_of.name(), body.path, findings)?.to_value();
    let own = content.get("name").and_then(Value::as_str).unwrap_or_default();
    let key = key.text(findings).map_or_else(|| own.to_owned(), |key| key.into_owned());
    let origin = origin.text(findings).unwrap_or_default().into_owned();
    Some(Resource { kind: kind_of, key, origin, content })
}
