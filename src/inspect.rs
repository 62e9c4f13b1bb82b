//! The Inspect API: which conf applies to which proxy, and which policy says so.
//!
//! [`answer`] is a function of a snapshot and a request. The server and `writ inspect get` both call it, so their bodies
//! are equal.

mod complete;
mod error;
mod layout;
mod listing;
mod path;
mod policies;
mod resource;
mod rules;
mod view;
mod warnings;

use crate::core::mesh::resources::{Dataplane, MeshServicesMode};
use crate::index::mesh::{MeshContents, MeshSnapshot};
use error::InspectError;
use path::Endpoint;

/// A request for a path.
#[derive(Clone, Copy, Debug, Default)]
pub struct InspectRequest<'r> {
    /// Starts with `/`, percent-encoded.
    pub path: &'r str,
    /// Without the `?`.
    pub query: &'r str,
    /// What stands before the path in links: scheme and host, or nothing.
    pub base: &'r str,
}

/// What is answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InspectAnswer {
    pub status: u16,
    pub content_type: &'static str,
    pub body: String,
}

/// Answers a request.
pub fn answer(snapshot: &MeshSnapshot, request: &InspectRequest<'_>) -> InspectAnswer {
    let endpoint = path::parse(request.path, snapshot.kinds());
    let body = match &endpoint {
        Some(endpoint) => body(snapshot, endpoint, request),
        None => Err(InspectError::UnknownPath),
    };
    match body {
        Ok(body) => InspectAnswer { status: 200, content_type: JSON, body },
        Err(error) => error.answer(),
    }
}

const JSON: &str = "application/json";

fn body(snapshot: &MeshSnapshot, endpoint: &Endpoint, request: &InspectRequest<'_>) -> Result<String, InspectError> {
    let kinds = snapshot.kinds();
    match endpoint {
        Endpoint::Resources => Ok(resource::types(kinds)),
        Endpoint::Kri(kri) => resource::by_kri(snapshot, kri),
        Endpoint::ProxyRules { mesh, name } => {
            let (mesh, dataplane) = find_proxy(snapshot, mesh, name)?;
            Ok(rules::of_proxy(mesh, kinds, dataplane, rules::View::of(request.query)))
        }
        Endpoint::GatewayRules { mesh, name } => {
            let mesh = find_mesh(snapshot, mesh)?;
            let gateway = mesh.gateway(name).ok_or(InspectError::NotFound("Could not retrieve MeshGateway"))?;
            rules::of_gateway(mesh, kinds, gateway, rules::View::of(request.query))
        }
        Endpoint::PolicyProxies { mesh, kind, name } => {
            listing::of_policy(find_mesh(snapshot, mesh)?, kind, name, request)
        }
        Endpoint::ServiceProxies { mesh, name } => listing::of_service(find_mesh(snapshot, mesh)?, name, request),
        Endpoint::ProxyPolicies { mesh, name } => {
            let (mesh, dataplane) = find_proxy(snapshot, mesh, name)?;
            need_services(mesh, "_policies")?;
            Ok(policies::of_proxy(mesh, kinds, dataplane))
        }
        Endpoint::InboundPolicies { mesh, name, inbound } => {
            let (mesh, dataplane) = find_proxy(snapshot, mesh, name)?;
            need_services(mesh, "_policies")?;
            policies::of_inbound(mesh, kinds, dataplane, inbound)
        }
        Endpoint::OutboundPolicies { mesh, name, outbound } => {
            let (mesh, dataplane) = find_proxy(snapshot, mesh, name)?;
            need_services(mesh, "_policies")?;
            policies::of_outbound(mesh, kinds, dataplane, outbound)
        }
        Endpoint::Routes { mesh, name, outbound } => {
            let (mesh, dataplane) = find_proxy(snapshot, mesh, name)?;
            need_services(mesh, "_policies")?;
            policies::routes(mesh, kinds, dataplane, outbound)
        }
        Endpoint::RoutePolicies { mesh, name, outbound, route } => {
            let (mesh, dataplane) = find_proxy(snapshot, mesh, name)?;
            need_services(mesh, "_policies")?;
            policies::of_route(mesh, kinds, dataplane, outbound, route)
        }
        Endpoint::Layout { mesh, name } => {
            let mesh = find_mesh(snapshot, mesh)?;
            need_services(mesh, "_layout")?;
            let missing = InspectError::NotFound("Failed to retrieve Dataplane");
            Ok(layout::of(mesh, mesh.dataplane(name).ok_or(missing)?))
        }
    }
}

fn find_mesh<'s>(snapshot: &'s MeshSnapshot, name: &str) -> Result<&'s MeshContents, InspectError> {
    snapshot.mesh(name).ok_or(InspectError::NotFound("Failed to retrieve Mesh"))
}

fn find_proxy<'s>(
    snapshot: &'s MeshSnapshot,
    mesh: &str,
    name: &str,
) -> Result<(&'s MeshContents, &'s Dataplane), InspectError> {
    let mesh = find_mesh(snapshot, mesh)?;
    let dataplane = mesh.dataplane(name).ok_or(InspectError::NotFound("Could not retrieve Dataplane"))?;
    Ok((mesh, dataplane))
}

/// These endpoints know destinations as resources only.
fn need_services(mesh: &MeshContents, endpoint: &'static str) -> Result<(), InspectError> {
    let mode = mesh.resource().map(|mesh| mesh.services);
    if mode == Some(MeshServicesMode::Exclusive) { Ok(()) } else { Err(InspectError::Mode(endpoint)) }
}
