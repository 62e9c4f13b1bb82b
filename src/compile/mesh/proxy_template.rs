//! ProxyTemplate: selectors and `conf` with imports, raw resources and modifications.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::modification::{self, Keep};
use super::record::{RecordContent, RecordSchemas, ResourceRecord};
use super::tags::{self, Values};
use super::{Resource, kuma3};
use crate::api::definition::{Column, Scope};
use crate::api::schema::open;
use crate::compile::Findings;
use crate::compile::reader::Node;
use crate::core::envoy::modification::Dialect;
use crate::core::envoy::{self, Strictness};
use crate::core::json::{Document, Json, Tree};
use crate::core::mesh::proxy_template::{Profile, ProxyTemplate, RawResource};
use crate::core::problem::Reason;

const SERVICE_TAG: &str = "kuma.io/service";
const TYPE_KEY: &str = "@type";

pub(super) static RECORD: ResourceRecord = ResourceRecord {
    kind: "ProxyTemplate",
    plural: "proxytemplates",
    short_names: &[],
    description: "Changes the Envoy configuration that the mesh generates for the proxies it selects.",
    content: RecordContent::Older(Scope::Cluster, &[Column::text("Mesh", ".mesh")], spec),
    check: Some(check),
    is_checked: true,
    schemas: RecordSchemas::new(),
};

/// The content of a ProxyTemplate is open for the API server, as it always was: every check is the webhook's, so that all
/// problems of a template come back at once and none is hidden behind the first wrong type.
fn spec() -> Value {
    json!({
        "type": "object",
        "description": "Which proxies, and what to change in their configuration.",
        "x-kubernetes-preserve-unknown-fields": true,
        "properties": {
            "selectors": open(
                "List of {match: {tag: value}}: a proxy is selected when one of its inbounds carries all tags of \
                 one entry; `*` matches any value. kuma.io/service is mandatory in each entry."),
            "conf": open(
                "imports: profiles to generate (default-proxy, gateway-proxy, ingress-proxy, egress-proxy). \
                 modifications: list of changes, run in order; each entry has exactly one of cluster, listener, \
                 route, virtualHost, httpFilter, networkFilter with operation, match, and value (Envoy YAML as \
                 text or inline) or jsonPatches."),
        },
    })
}

/// Checks the content of a template.
pub(super) fn check(resource: &Resource<'_>, findings: &mut Findings) {
    compile::<()>(&resource.content, findings);
    kuma3::warn_of_template(findings);
}

/// Compiles the content of a template, leaving out what has findings.
pub(super) fn compile<D: Keep>(content: &Node<'_>, findings: &mut Findings) -> ProxyTemplate<D> {
    let content = content.object(findings);
    let (selectors, conf) = (content.get("selectors"), content.get("conf"));
    // In the universal form the content stands beside the resource's own fields.
    content.pass_over(&["type", "mesh", "name", "labels", "creationTime", "modificationTime"]);
    content.warn_of_unknown(findings);
    let selectors = selectors.list(findings).iter().map(|selector| read_selector(selector, findings)).collect();

    let conf = conf.object(findings);
    let (imports, resources, modifications) = (conf.get("imports"), conf.get("resources"), conf.get("modifications"));
    conf.warn_of_unknown(findings);
    let imports = imports.list(findings).iter().filter_map(|import| read_import(import, findings)).collect();
    if resources.is_present() {
        let message = "deprecated; use `modifications` with operation `add` instead";
        findings.warn(resources.path, Reason::Deprecated, message);
    }
    let resources = resources.list(findings).iter().filter_map(|resource| read_resource(resource, findings)).collect();
    let modifications = modification::read_list(&modifications, Dialect::ProxyTemplate, findings);
    ProxyTemplate { selectors, imports, resources, modifications }
}

fn read_selector(selector: &Node<'_>, findings: &mut Findings) -> BTreeMap<String, String> {
    let selector = selector.object(findings);
    let tags_field = selector.get("match");
    selector.warn_of_unknown(findings);
    for (_, value) in tags_field.entries(&mut Findings::default()) {
        value.refuse_scalar(findings);
    }
    let mut tags = tags::read(&tags_field, Values::Selector, findings);
    if tags.is_empty() {
        findings.refuse(tags_field.path, Reason::AnyOf, format!("at least one tag, such as `{SERVICE_TAG}: backend`"));
    }
    // The short spelling `service` came first and means the same tag.
    if !tags.contains_key(SERVICE_TAG)
        && let Some(service) = tags.remove("service")
    {
        tags.insert(SERVICE_TAG.to_owned(), service);
    }
    if !tags.contains_key(SERVICE_TAG) {
        findings.refuse(
            tags_field.path,
            Reason::Required,
            format!("tag `{SERVICE_TAG}` required; `*` matches any service"),
        );
    }
    tags
}

fn read_import(import: &Node<'_>, findings: &mut Findings) -> Option<Profile> {
    import.refuse_scalar(findings);
    let name = import.text(findings).unwrap_or_default();
    if name.is_empty() {
        findings.refuse(import.path, Reason::Empty, "may not be empty");
        return None;
    }
    let profile = Profile::ALL.into_iter().find(|profile| profile.name() == name);
    if profile.is_none() {
        let known: Vec<_> = Profile::ALL.iter().map(|profile| profile.name()).collect();
        findings.refuse(import.path, Reason::Enum, format!("unknown value `{name}`; known: {}", known.join(", ")));
    }
    profile
}

fn read_resource<D: Keep>(resource: &Node<'_>, findings: &mut Findings) -> Option<RawResource<D>> {
    let before = findings.errors.len();
    let resource = resource.object(findings);
    let (name, version, body) = (resource.get("name"), resource.get("version"), resource.get("resource"));
    resource.warn_of_unknown(findings);
    let mut texts = [&name, &version].map(|field| {
        field.refuse_scalar(findings);
        let text = field.text(findings).unwrap_or_default().into_owned();
        if text.is_empty() {
            findings.refuse(field.path, Reason::Empty, "may not be empty");
        }
        text
    });
    let document = modification::read_document(&body, findings);
    if document.is_none() && findings.errors.iter().all(|problem| problem.field != body.path.told()) {
        findings.refuse(body.path, Reason::Empty, "may not be empty: an Envoy resource with its `@type`");
    }
    let document = document?;
    let resource = decode_resource(document.root(), &body, findings)?;
    (findings.errors.len() == before).then(|| RawResource {
        name: std::mem::take(&mut texts[0]),
        version: std::mem::take(&mut texts[1]),
        resource,
    })
}

/// A raw resource says its own type, with any prefix or none before the message's name.
fn decode_resource<D: Keep>(document: Json<'_>, body: &Node<'_>, findings: &mut Findings) -> Option<D> {
    let mut content = document.to_value();
    let url = content.as_object_mut().and_then(|content| content.remove(TYPE_KEY));
    let Some(Value::String(url)) = url else {
        let message = format!("not a valid Envoy resource: it must be a mapping with `{TYPE_KEY}`");
        findings.refuse(body.path, Reason::Envoy, message);
        return None;
    };
    let name = url.rsplit('/').next().unwrap_or_default();
    let Some(decoded) = envoy::decode_as(name, &content, Strictness::Whole) else {
        findings.refuse(body.path, Reason::Envoy, format!("not a valid Envoy resource: unknown type `{url}`"));
        return None;
    };
    let mut resource = modification::accept(decoded, name, body.path, findings)?.to_value();
    if let Some(fields) = resource.as_object_mut() {
        fields.insert(TYPE_KEY.to_owned(), Value::from(format!("type.googleapis.com/{name}")));
    }
    Some(D::keep(Document::from(&resource).root()))
}
