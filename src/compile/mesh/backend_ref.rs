//! `backendRefs` of routes: target references with a weight and a port.

use crate::compile::Findings;
use crate::compile::mesh::scalars::UINT32;
use crate::compile::mesh::target_ref::{self, BACKENDS, MIRRORS, Place};
use crate::compile::reader::Node;
use crate::core::mesh::backend::BackendRef;
use crate::core::mesh::target_ref::{TargetKind, TargetRef};
use crate::core::problem::Reason;

/// Reads a list of backends; entries with findings are left out.
pub(super) fn read_list(list: &Node<'_>, exempt: Option<&'static str>, findings: &mut Findings) -> Vec<BackendRef> {
    let place = Place { exempt, service_tags: true, ..Place::of(BACKENDS) };
    list.list(findings).iter().filter_map(|entry| read(entry, &place, findings)).collect()
}

/// Reads the destination of mirrored requests, whose weight and port do not count.
pub(super) fn read_mirror(backend: &Node<'_>, findings: &mut Findings) -> Option<TargetRef> {
    let object = backend.object(findings);
    object.knows(&["weight", "port"]);
    let reference = target_ref::read_fields(&object, &Place::of(MIRRORS), findings);
    object.warn_of_unknown(findings);
    reference.target
}

fn read(entry: &Node<'_>, place: &Place, findings: &mut Findings) -> Option<BackendRef> {
    let before = findings.errors.len();
    let object = entry.object(findings);
    let (weight, port_field) = (object.get("weight"), object.get("port"));
    let reference = target_ref::read_fields(&object, place, findings);
    object.warn_of_unknown(findings);
    if reference.kind == Some(TargetKind::MeshMultiZoneService) && !port_field.is_present() {
        findings.refuse(port_field.path, Reason::Required, "required with kind MeshMultiZoneService");
    }
    let weight = weight.integer(0..=i64::MAX, findings).and_then(|weight| u64::try_from(weight).ok());
    let port = port_field.integer(UINT32, findings).and_then(|port| u32::try_from(port).ok());
    let target = reference.target?;
    let weight = weight.unwrap_or(BackendRef::DEFAULT_WEIGHT);
    (findings.errors.len() == before).then_some(BackendRef { target, weight, port })
}
