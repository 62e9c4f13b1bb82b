//! `_layout`: the inbounds and outbounds of a proxy.

use std::collections::BTreeMap;

use serde::Serialize;

use super::view::json;
use crate::core::mesh::backend::BackendRef;
use crate::core::mesh::kind::{MESH_EXTERNAL_SERVICE, MESH_MULTI_ZONE_SERVICE, MESH_SERVICE};
use crate::core::mesh::resources::{Dataplane, Destination, InboundKind};
use crate::core::mesh::target_ref::Pairs;
use crate::index::mesh::MeshContents;

#[derive(Serialize)]
struct Layout<'m> {
    kri: String,
    labels: &'m Pairs,
    inbounds: Vec<Part>,
    outbounds: Vec<Part>,
    listeners: Vec<Listener>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Part {
    kri: String,
    port: u32,
    protocol: String,
    proxy_resource_name: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Listener {
    kri: String,
    r#type: &'static str,
    port: u32,
    proxy_resource_name: String,
}

pub(super) fn of(mesh: &MeshContents, dataplane: &Dataplane) -> String {
    let meta = &dataplane.meta;
    let (mut inbounds, mut listeners) = (Vec::new(), Vec::new());
    for inbound in &dataplane.inbounds {
        let (section, port) = (inbound.section(), inbound.listener.port);
        let kri = meta.section_key(&section).to_string();
        let (r#type, name) = match inbound.kind {
            InboundKind::Workload => {
                let proxy_resource_name = format!("self_inbound_dp_{section}");
                inbounds.push(Part { kri, port, protocol: inbound.protocol.clone(), proxy_resource_name });
                continue;
            }
            InboundKind::ZoneIngress => ("ZoneIngress", "zoneingress"),
            InboundKind::ZoneEgress => ("ZoneEgress", "zoneegress"),
        };
        listeners.push(Listener { kri, r#type, port, proxy_resource_name: format!("self_{name}_dp_{section}") });
    }
    let outbounds = outbounds(mesh, dataplane);
    json(&Layout { kri: meta.key().to_string(), labels: &meta.labels, inbounds, outbounds, listeners })
}

/// What the proxy names itself, or else what it may reach, or else everything.
fn outbounds(mesh: &MeshContents, dataplane: &Dataplane) -> Vec<Part> {
    let mut parts = BTreeMap::new();
    dataplane.outbounds.iter().for_each(|backend| add_backend(mesh, dataplane, backend, &mut parts));
    if parts.is_empty() {
        match &dataplane.reachable {
            Some(reachable) => reachable.iter().for_each(|backend| add_backend(mesh, dataplane, backend, &mut parts)),
            None => {
                for kind in [MESH_SERVICE, MESH_EXTERNAL_SERVICE, MESH_MULTI_ZONE_SERVICE] {
                    let all = mesh.destinations().of_kind(kind.kind);
                    all.for_each(|(_, destination)| add_ports(destination, None, &mut parts));
                }
            }
        }
    }
    parts.into_values().collect()
}

fn add_backend(mesh: &MeshContents, dataplane: &Dataplane, backend: &BackendRef, parts: &mut BTreeMap<String, Part>) {
    for (slot, _) in mesh.destinations().resolve(&backend.target, &dataplane.meta) {
        if let Some(destination) = mesh.destinations().get(slot) {
            add_ports(destination, backend.port, parts);
        }
    }
}

/// Adds the port with a number, or all ports.
fn add_ports(destination: &Destination, number: Option<u32>, parts: &mut BTreeMap<String, Part>) {
    for port in destination.ports.iter().filter(|port| number.is_none_or(|number| port.number == number)) {
        let kri = destination.meta.section_key(&port.section).to_string();
        let part = Part {
            kri: kri.clone(),
            port: port.number,
            protocol: port.protocol.clone(),
            proxy_resource_name: kri.clone(),
        };
        parts.insert(kri, part);
    }
}
