//! Lists of proxies, page by page.

use serde::Serialize;

use super::InspectRequest;
use super::error::InspectError;
use super::path::parameter;
use super::view::{Meta, json};
use super::warnings;
use crate::core::mesh::kind::{MESH_SERVICE, PolicyKind};
use crate::core::mesh::resources::Dataplane;
use crate::index::mesh::MeshContents;

const DEFAULT_SIZE: usize = 100;
const MAX_SIZE: usize = 1000;
const MISSING: InspectError = InspectError::NotFound("Could not retrieve policy");

#[derive(Serialize)]
struct Page<'m> {
    total: usize,
    items: Vec<Meta<'m>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<String>,
}

/// The proxies that the reference at the top of a policy selects.
pub(super) fn of_policy(
    mesh: &MeshContents,
    kind: &PolicyKind,
    name: &str,
    request: &InspectRequest<'_>,
) -> Result<String, InspectError> {
    let size = page_size(request.query)?;
    let policy = mesh.policy(kind, name).ok_or(MISSING)?;
    let selected = mesh.dataplanes().filter(|dataplane| {
        let selection = mesh.proxy(dataplane).select(&policy.meta, &policy.top, mesh);
        selection.is_ok_and(|selection| !selection.is_empty())
    });
    page(selected.map(AsRef::as_ref), size, request, warnings::never_together(mesh, policy))
}

/// The proxies of a MeshService.
pub(super) fn of_service(
    mesh: &MeshContents,
    name: &str,
    request: &InspectRequest<'_>,
) -> Result<String, InspectError> {
    let size = page_size(request.query)?;
    let service = mesh.destinations().by_name(&MESH_SERVICE, name).ok_or(MISSING)?;
    let selected = mesh.dataplanes().filter(|dataplane| service.selector.selects(dataplane));
    page(selected.map(AsRef::as_ref), size, request, Vec::new())
}

fn page<'m>(
    proxies: impl Iterator<Item = &'m Dataplane>,
    size: usize,
    request: &InspectRequest<'_>,
    warnings: Vec<String>,
) -> Result<String, InspectError> {
    let name = parameter(request.query, "name").unwrap_or_default();
    let all: Vec<_> = proxies.filter(|dataplane| dataplane.meta.name.contains(&name)).collect();
    let offset = match parameter(request.query, "offset").filter(|offset| !offset.is_empty()) {
        Some(offset) => offset.parse::<usize>().map_err(|_| InspectError::Offset(offset))?,
        None => 0,
    };
    let items: Vec<Meta<'_>> = all.iter().skip(offset).take(size).map(|dataplane| (&*dataplane.meta).into()).collect();
    let end = offset.saturating_add(items.len());
    let next = (end < all.len()).then(|| link(request, end));
    Ok(json(&Page { total: all.len(), items, next, warnings }))
}

fn page_size(query: &str) -> Result<usize, InspectError> {
    let Some(size) = parameter(query, "size").filter(|size| !size.is_empty()) else { return Ok(DEFAULT_SIZE) };
    let size: i64 = size.parse().map_err(|_| InspectError::PageSize("invalid format".to_owned()))?;
    match usize::try_from(size) {
        Ok(0) | Err(_) => Err(InspectError::PageSize("must be greater than 0".to_owned())),
        Ok(size) if size > MAX_SIZE => {
            let reason = format!("invalid page size of {size}. Maximum page size is {MAX_SIZE}");
            Err(InspectError::PageSize(reason))
        }
        Ok(size) => Ok(size),
    }
}

/// The same request for what comes after.
fn link(request: &InspectRequest<'_>, offset: usize) -> String {
    let is_kept = |pair: &&str| !pair.is_empty() && !pair.starts_with("offset=");
    let mut parameters: Vec<String> = request.query.split('&').filter(is_kept).map(str::to_owned).collect();
    parameters.push(format!("offset={offset}"));
    format!("{}{}?{}", request.base, request.path, parameters.join("&"))
}
