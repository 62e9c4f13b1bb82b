//! Who may write what where. With a global control plane above its zones, an object has one home, and is read-only
//! everywhere else.

use super::catalogue::{Catalogued, Writers};
use super::{ControlPlane, Mode, ORIGIN_LABEL, Refusal, RefusalKind, Request, ZONE_LABEL, label, role};
use crate::core::problem::{FieldPath, Problem, Reason};

/// Refuses a request that this control plane does not take from this user.
pub(super) fn check(request: &Request<'_>, kind: &Catalogued, plane: &ControlPlane) -> Result<(), Refusal> {
    if plane.privileged.iter().any(|user| user == request.user) {
        return Ok(());
    }
    check_namespace(request, kind, plane)?;
    check_writer(kind, plane)?;
    if kind.is_new { check_labels(request, kind, plane) } else { Ok(()) }
}

fn check_namespace(request: &Request<'_>, kind: &Catalogued, plane: &ControlPlane) -> Result<(), Refusal> {
    let system = &plane.system_namespace;
    if request.namespace.is_empty() || request.namespace == system {
        return Ok(());
    }
    let message = match plane.mode {
        Mode::Global => format!("on a global control plane a policy may stand only in the system namespace, {system}"),
        Mode::Zone { .. } if kind.only_in_system_namespace => {
            format!("a {} may stand only in the system namespace, {system}", kind.name)
        }
        Mode::Zone { .. } => return Ok(()),
    };
    Err(Refusal::new(RefusalKind::ForbiddenNamespace, message))
}

fn check_writer(kind: &Catalogued, plane: &ControlPlane) -> Result<(), Refusal> {
    let home = match (&plane.mode, kind.writers) {
        (Mode::Global, Writers::Zone) => "in a zone, and not on the global control plane",
        (Mode::Zone { federated: true, .. }, Writers::Global) => "on the global control plane, and not in a zone",
        _ => return Ok(()),
    };
    let message = format!("operation not allowed: a {} can be written only {home}", kind.name);
    Err(Refusal::new(RefusalKind::Forbidden, message))
}

fn check_labels(request: &Request<'_>, kind: &Catalogued, plane: &ControlPlane) -> Result<(), Refusal> {
    let forbid = |message: String| Err(Refusal::new(RefusalKind::Forbidden, message));
    let origin = label(request.object, ORIGIN_LABEL);
    match &plane.mode {
        Mode::Global if origin == Some("zone") => {
            forbid(format!("operation not allowed: label {ORIGIN_LABEL} must be `global` here, not `zone`"))
        }
        Mode::Global | Mode::Zone { federated: false, .. } => Ok(()),
        Mode::Zone { name, .. } => {
            if kind.policy.is_some()
                && let Err(error) = role(request.object, request.namespace, &plane.system_namespace)
            {
                return forbid(format!("operation not allowed: {error}"));
            }
            if request.namespace == plane.system_namespace && origin != Some("zone") {
                let message = format!(
                    "operation not allowed: in the system namespace of a zone label {ORIGIN_LABEL} must be `zone`"
                );
                // Without the quotes that a path has otherwise: clients of the reference know it by this spelling.
                let field = FieldPath::root().field("metadata").field(format!("labels[{ORIGIN_LABEL}]"));
                let problem = Problem::new(&field, Reason::Forbidden, "must be `zone`");
                return Err(Refusal { problems: vec![problem], ..Refusal::new(RefusalKind::Forbidden, message) });
            }
            match label(request.object, ZONE_LABEL) {
                Some(zone) if origin == Some("zone") && zone != name => {
                    forbid(format!("operation not allowed: label {ZONE_LABEL} must be `{name}` here, not `{zone}`"))
                }
                _ => Ok(()),
            }
        }
    }
}
