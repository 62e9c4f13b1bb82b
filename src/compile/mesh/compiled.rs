//! From documents to what the rule engine runs: meshes, proxies, gateways, destinations and policies.
//!
//! What is stored has been admitted, so this reader is lenient: what it cannot read of a document it leaves out. A policy
//! with a reference that nobody can read is none.

use std::str::FromStr;
use std::sync::Arc;

use serde_json::{Value, json};

use super::normal;
use super::older_route;
use super::record::{PolicyRecord, kinds};
use super::target_ref;
use crate::compile::{Form, identify};
use crate::core::mesh::backend::BackendRef;
use crate::core::mesh::kind::{
    DATAPLANE, MESH, MESH_EXTERNAL_SERVICE, MESH_GATEWAY, MESH_MULTI_ZONE_SERVICE, MESH_SERVICE, MergeRule, PolicyKind,
    RESOURCE_TYPES, ResourceType,
};
use crate::core::mesh::mesh_policy::{InboundEntry, MeshPolicy, PolicyEntry};
use crate::core::mesh::meta::{DISPLAY_NAME, MESH_LABEL, ResourceMeta};
use crate::core::mesh::resources::{
    Dataplane, Destination, GatewayListener, GatewayProxy, Inbound, InboundKind, InboundListener, MeshGateway,
    MeshResource, MeshServicesMode, ProxySelector, ServicePort,
};
use crate::core::mesh::target_ref::{Pairs, TargetRef};
use crate::core::resource::text_at;

const DEFAULT_MESH: &str = "default";

/// A document as the engine knows it.
#[derive(Clone, Debug)]
pub enum Compiled {
    Mesh(MeshResource),
    Dataplane(Dataplane),
    Gateway(MeshGateway),
    Destination(Destination),
    Policy(MeshPolicy),
}

/// Compiles a document of a kind that the engine knows; `None` for any other.
pub fn compiled(document: &Value) -> Option<Compiled> {
    let identity = identify(document)?;
    if identity.form == Form::Kubernetes && !text_at(document, &["apiVersion"]).starts_with("kuma.io/") {
        return None;
    }
    let policy = kinds().policy(identity.kind);
    let resource = match policy {
        Some(policy) => &policy.resource,
        None => RESOURCE_TYPES.iter().find(|known| known.kind == identity.kind)?,
    };
    let meta = Arc::new(meta(document, identity.form, resource));
    let older = [MESH, DATAPLANE, MESH_GATEWAY].contains(resource);
    let content = if identity.form == Form::Universal && older { document } else { document.get("spec")? };
    Some(match policy {
        Some(kind) => Compiled::Policy(read_policy(kind, meta, content)?),
        None if *resource == MESH => Compiled::Mesh(read_mesh(meta, content)),
        None if *resource == DATAPLANE => Compiled::Dataplane(read_dataplane(meta, content)),
        None if *resource == MESH_GATEWAY => Compiled::Gateway(read_gateway(meta, content)),
        None if is_service(resource) => Compiled::Destination(read_service(meta, content)),
        None => return None,
    })
}

/// The kind and the core name of a document, by which the store knows it.
pub fn resource_name(document: &Value) -> Option<(&'static ResourceType, String, String)> {
    let identity = identify(document)?;
    let resource = kinds().resource(identity.kind)?;
    let meta = meta(document, identity.form, resource);
    Some((resource, meta.mesh, meta.name))
}

fn is_service(kind: &ResourceType) -> bool {
    [MESH_SERVICE, MESH_EXTERNAL_SERVICE, MESH_MULTI_ZONE_SERVICE].contains(kind)
}

fn meta(document: &Value, form: Form, kind: &'static ResourceType) -> ResourceMeta {
    let (name, mut labels, created) = match form {
        Form::Universal => (
            text_at(document, &["name"]).to_owned(),
            pairs(document.get("labels")),
            text_at(document, &["creationTime"]),
        ),
        Form::Kubernetes => {
            let name = text_at(document, &["metadata", "name"]);
            let namespace = text_at(document, &["metadata", "namespace"]);
            let mut labels = pairs(document.pointer("/metadata/labels"));
            let annotations = pairs(document.pointer("/metadata/annotations"));
            labels.insert(DISPLAY_NAME.to_owned(), name.to_owned());
            for shown in [DISPLAY_NAME, "k8s.kuma.io/service-account", "kuma.io/workload"] {
                if let Some(value) = annotations.get(shown) {
                    labels.insert(shown.to_owned(), value.clone());
                }
            }
            let name = if namespace.is_empty() { name.to_owned() } else { format!("{name}.{namespace}") };
            (name, labels, text_at(document, &["metadata", "creationTimestamp"]))
        }
    };
    labels.retain(|key, _| !key.is_empty());
    let mesh = if *kind == MESH {
        String::new()
    } else {
        let field = text_at(document, &["mesh"]);
        let label = labels.get(MESH_LABEL).map(String::as_str).filter(|_| form == Form::Kubernetes);
        let given = label.or(Some(field)).filter(|mesh| !mesh.is_empty());
        given.unwrap_or(DEFAULT_MESH).to_owned()
    };
    let created = jiff::Timestamp::from_str(created).ok().map(jiff::Timestamp::as_second);
    ResourceMeta { kind, mesh, name, labels, created }
}

fn read_mesh(meta: Arc<ResourceMeta>, content: &Value) -> MeshResource {
    let services = MeshServicesMode::parse(text_at(content, &["meshServices", "mode"]));
    MeshResource { meta, services }
}

fn read_dataplane(meta: Arc<ResourceMeta>, content: &Value) -> Dataplane {
    let networking = &content["networking"];
    let address = text(networking, "address").to_owned();
    let listener = |item: &Value| {
        let own = text(item, "address");
        let address = if own.is_empty() { address.clone() } else { own.to_owned() };
        InboundListener { port: number(item, "port"), address }
    };
    let workload = list(networking, "inbound").map(|item| {
        let tags = pairs(item.get("tags"));
        let protocol = match text(item, "protocol") {
            "" => tags.get("kuma.io/protocol").cloned().unwrap_or_default(),
            protocol => protocol.to_owned(),
        };
        Inbound {
            listener: listener(item),
            kind: InboundKind::Workload,
            name: text(item, "name").to_owned(),
            protocol,
            tags,
        }
    });
    let zone = list(networking, "listeners").map(|item| Inbound {
        listener: listener(item),
        kind: if text(item, "type") == "ZoneEgress" { InboundKind::ZoneEgress } else { InboundKind::ZoneIngress },
        name: text(item, "name").to_owned(),
        protocol: String::new(),
        tags: Pairs::new(),
    });
    let inbounds = workload.chain(zone).collect();
    let gateway = networking
        .get("gateway")
        .filter(|gateway| gateway.is_object())
        .map(|gateway| GatewayProxy { builtin: text(gateway, "type") == "BUILTIN", tags: pairs(gateway.get("tags")) });
    let outbounds = list(networking, "outbound").filter_map(|item| read_backend(item.get("backendRef")?)).collect();
    let reachable = networking.pointer("/transparentProxying/reachableBackends").filter(|refs| refs.is_object());
    let reachable = reachable.map(|reachable| list(reachable, "refs").filter_map(read_backend).collect());
    Dataplane { meta, address, inbounds, outbounds, gateway, reachable }
}

fn read_backend(reference: &Value) -> Option<BackendRef> {
    let port = reference.get("port").and_then(Value::as_u64).and_then(|port| u32::try_from(port).ok());
    let weight = reference.get("weight").and_then(Value::as_u64).unwrap_or(BackendRef::DEFAULT_WEIGHT);
    Some(BackendRef { target: target_ref::read_stored(reference)?, weight, port })
}

fn read_gateway(meta: Arc<ResourceMeta>, content: &Value) -> MeshGateway {
    let listeners = content.get("conf").map(|conf| list(conf, "listeners")).into_iter().flatten();
    let listeners = listeners.map(|item| GatewayListener {
        port: number(item, "port"),
        hostname: match text(item, "hostname") {
            "" => "*".to_owned(),
            hostname => hostname.to_owned(),
        },
        tags: pairs(item.get("tags")),
    });
    MeshGateway {
        meta,
        selectors: list(content, "selectors").map(|selector| pairs(selector.get("match"))).collect(),
        tags: pairs(content.get("tags")),
        listeners: listeners.collect(),
    }
}

fn read_service(meta: Arc<ResourceMeta>, content: &Value) -> Destination {
    let port = |item: &Value, protocol: &str| {
        let number = number(item, "port");
        let section = match text(item, "name") {
            "" => number.to_string(),
            name => name.to_owned(),
        };
        let protocol = match text(item, protocol) {
            "" => "tcp".to_owned(),
            protocol => protocol.to_owned(),
        };
        ServicePort { section, number, protocol }
    };
    let ports = match content.get("match") {
        Some(one) if *meta.kind == MESH_EXTERNAL_SERVICE => vec![port(
            &json!({
                "port": one.get("port"), "protocol": one.get("protocol"),
            }),
            "protocol",
        )],
        _ => list(content, "ports").map(|item| port(item, "appProtocol")).collect(),
    };
    let selector = &content["selector"];
    let labels = ["dataplaneLabels", "dataplane"].iter().find_map(|form| selector.get(form)?.get("matchLabels"));
    let selector = match text_at(selector, &["dataplaneRef", "name"]) {
        "" if selector.get("dataplaneTags").is_some_and(Value::is_object) => {
            ProxySelector::Tags(pairs(selector.get("dataplaneTags")))
        }
        "" => labels.map_or(ProxySelector::None, |labels| ProxySelector::Labels(pairs(Some(labels)))),
        name => ProxySelector::Named(name.to_owned()),
    };
    Destination { meta, ports, selector }
}

fn read_policy(kind: &'static PolicyKind, meta: Arc<ResourceMeta>, spec: &Value) -> Option<MeshPolicy> {
    let top = match spec.get("targetRef").filter(|target| !target.is_null()) {
        Some(target) => target_ref::read_stored(target)?,
        None => TargetRef::WHOLE_MESH,
    };
    let record = PolicyRecord::find(kind.resource.kind)?;
    let schema = record.spec_schema();
    let entries = |field: &str| -> Option<Vec<PolicyEntry>> {
        let schema = schema.pointer(&format!("/properties/{field}/items")).unwrap_or(&Value::Null);
        let read = |entry: &Value| {
            let conf = match kind.merge {
                MergeRule::Fields => default_of(record, schema, entry),
                MergeRule::HttpRoutes => route_conf(schema, &older_route::present_form(entry)),
                MergeRule::TcpRoutes => route_conf(schema, entry),
            };
            Some(PolicyEntry { target: target_ref::read_stored(entry.get("targetRef")?)?, conf: Arc::new(conf) })
        };
        list(spec, field).map(read).collect()
    };
    let rules = list(spec, "rules").filter(|_| kind.rules).map(|entry| {
        let schema = schema.pointer("/properties/rules/items").unwrap_or(&Value::Null);
        InboundEntry {
            matches: list(entry, "matches").map(|one| Arc::new(one.clone())).collect(),
            conf: Arc::new(default_of(record, schema, entry)),
        }
    });
    Some(MeshPolicy {
        kind,
        meta,
        top,
        to: if kind.to { entries("to")? } else { Vec::new() },
        from: if kind.from { entries("from")? } else { Vec::new() },
        rules: rules.collect(),
        single: kind.single.then(|| Arc::new(default_of(record, schema, spec))),
    })
}

/// What an entry of a route says besides where it leads from.
fn route_conf(schema: &Value, entry: &Value) -> Value {
    let mut conf = normal::normalise(schema, entry);
    if let Some(fields) = conf.as_object_mut() {
        fields.retain(|name, _| name == "rules" || name == "hostnames");
    }
    conf
}

fn default_of(record: &PolicyRecord, schema: &Value, entry: &Value) -> Value {
    let schema = schema.pointer("/properties/default").unwrap_or(&Value::Null);
    match entry.get("default").filter(|conf| conf.is_object()) {
        Some(conf) => normal::conf(record, schema, conf),
        None => json!({}),
    }
}

fn text<'v>(object: &'v Value, field: &str) -> &'v str {
    object.get(field).and_then(Value::as_str).unwrap_or_default()
}

fn number(object: &Value, field: &str) -> u32 {
    let number = object.get(field).and_then(Value::as_u64);
    number.and_then(|number| u32::try_from(number).ok()).unwrap_or_default()
}

fn list<'v>(object: &'v Value, field: &str) -> impl Iterator<Item = &'v Value> {
    object.get(field).and_then(Value::as_array).into_iter().flatten()
}

/// A map of texts; numbers and flags count as the text that they are written as.
fn pairs(object: Option<&Value>) -> Pairs {
    let fields = object.and_then(Value::as_object).into_iter().flatten();
    let text = |value: &Value| match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(_) | Value::Bool(_) => Some(value.to_string()),
        _ => None,
    };
    fields.filter_map(|(key, value)| Some((key.clone(), text(value)?))).collect()
}
