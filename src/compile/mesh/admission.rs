//! What a control plane does when an object of group `kuma.io` is applied: labels that it adds, who may write what where,
//! and the order of all checks. Plain data in and out; the webhook puts them on the wire.

mod catalogue;
mod defaults;
mod permission;
mod role;

use serde_json::Value;

use crate::compile;
use crate::core::problem::{FieldPath, Problem, Reason};
use catalogue::{Catalogued, Scope};

pub use defaults::defaults;
pub use role::{RoleError, role};

const MESH_LABEL: &str = "kuma.io/mesh";
const ORIGIN_LABEL: &str = "kuma.io/origin";
const ZONE_LABEL: &str = "kuma.io/zone";

/// The control plane that is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControlPlane {
    pub mode: Mode,
    /// The namespace of the operators: `kuma-system`.
    pub system_namespace: String,
    /// Users to whom no permission check applies: the control plane itself, the garbage collector.
    pub privileged: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mode {
    Global,
    Zone {
        name: String,
        /// Whether there is a global control plane above it.
        federated: bool,
    },
}

/// What is asked.
#[derive(Clone, Copy, Debug)]
pub struct Request<'r> {
    pub operation: Operation,
    pub user: &'r str,
    /// Empty for objects without a namespace.
    pub namespace: &'r str,
    pub object: &'r Value,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    Create,
    Update,
    Delete,
}

/// Why a request is turned down.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    pub kind: RefusalKind,
    pub message: String,
    /// The name and kind of the object, where the object itself is at fault.
    pub subject: Option<(String, String)>,
    pub causes: Vec<Cause>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefusalKind {
    /// Not now, not here, not by this user.
    Forbidden,
    /// Forbidden because of the namespace.
    ForbiddenNamespace,
    /// The object has faults.
    Invalid,
    /// The labels cannot be computed.
    Internal,
}

/// A field that led to a refusal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cause {
    pub field: String,
    pub message: String,
}

/// Checks a request: who and where first, then the mesh, the origin, and the content. `Ok` holds the warnings.
pub fn review(request: &Request<'_>, plane: &ControlPlane) -> Result<Vec<Problem>, Refusal> {
    let Some(kind) = Catalogued::of(request.object) else {
        return Ok(Vec::new());
    };
    permission::check(request, &kind, plane)?;
    if request.operation == Operation::Delete {
        return Ok(Vec::new());
    }
    let refuse = |problem| Err(Refusal::invalid(request.object, &[problem]));
    if let Some(problem) = check_mesh(request.object, &kind) {
        return refuse(problem);
    }
    if let Some(problem) = check_origin(request.object) {
        return refuse(problem);
    }
    let findings = compile::check(request.object).unwrap_or_default();
    let errors = findings.refusals();
    if errors.is_empty() { Ok(findings.warnings) } else { Err(Refusal::invalid(request.object, &errors)) }
}

fn check_mesh(object: &Value, kind: &Catalogued) -> Option<Problem> {
    if kind.scope != Scope::Mesh {
        return None;
    }
    let path = FieldPath::root().field("mesh");
    let mesh = mesh_of(object, kind);
    let in_name = |c: char| c.is_ascii_digit() || c.is_ascii_lowercase() || matches!(c, '-' | '_' | '.');
    if mesh.is_empty() {
        Some(Problem::new(&path, Reason::Empty, "may not be empty"))
    } else if mesh.len() > 253 {
        Some(Problem::new(&path, Reason::Range, "longer than 253 characters"))
    } else if !mesh.chars().all(in_name) {
        let message = "malformed: only digits, lower-case letters and `-_.` may stand in the name of a mesh";
        Some(Problem::new(&path, Reason::Format, message))
    } else {
        None
    }
}

/// Newer kinds take the mesh from a label and are in `default` without it, older ones have a field of their own.
fn mesh_of<'o>(object: &'o Value, kind: &Catalogued) -> &'o str {
    let field = object.get("mesh").and_then(Value::as_str).unwrap_or_default();
    if kind.is_new { label(object, MESH_LABEL).unwrap_or("default") } else { field }
}

fn check_origin(object: &Value) -> Option<Problem> {
    let origin = label(object, ORIGIN_LABEL).filter(|origin| !matches!(*origin, "global" | "zone"))?;
    let path = FieldPath::root().field("labels").key(ORIGIN_LABEL);
    Some(Problem::new(&path, Reason::Enum, format!("unknown value `{origin}`; known: global, zone")))
}

fn label<'o>(object: &'o Value, name: &str) -> Option<&'o str> {
    object.get("metadata")?.get("labels")?.get(name)?.as_str()
}

fn name_of(object: &Value) -> &str {
    object.get("metadata").and_then(|metadata| metadata.get("name")).and_then(Value::as_str).unwrap_or_default()
}

impl ControlPlane {
    fn is_local(&self, origin: Option<&str>) -> bool {
        match self.mode {
            Mode::Global => matches!(origin, None | Some("global")),
            Mode::Zone { .. } => matches!(origin, None | Some("zone")),
        }
    }
}

impl Refusal {
    fn new(kind: RefusalKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), subject: None, causes: Vec::new() }
    }

    fn invalid(object: &Value, problems: &[Problem]) -> Self {
        let messages: Vec<_> = problems.iter().map(Problem::to_string).collect();
        let kind = object.get("kind").and_then(Value::as_str).unwrap_or_default();
        let cause = |problem: &Problem| Cause { field: problem.field.to_string(), message: problem.message.clone() };
        Self {
            subject: Some((name_of(object).to_owned(), kind.to_owned())),
            causes: problems.iter().map(cause).collect(),
            ..Self::new(RefusalKind::Invalid, messages.join("; "))
        }
    }

    /// The status code of the answer.
    pub fn code(&self) -> u16 {
        match self.kind {
            RefusalKind::Forbidden | RefusalKind::ForbiddenNamespace => 403,
            RefusalKind::Invalid => 422,
            RefusalKind::Internal => 500,
        }
    }

    /// The reason of the answer, as API servers name it.
    pub fn reason(&self) -> &'static str {
        match self.kind {
            RefusalKind::Forbidden | RefusalKind::ForbiddenNamespace => "Forbidden",
            RefusalKind::Invalid => "Invalid",
            RefusalKind::Internal => "InternalError",
        }
    }

    /// Whether the answer has `status: Failure`, which clients of the reference do not find on refused namespaces.
    pub fn is_marked_as_failure(&self) -> bool {
        self.kind != RefusalKind::ForbiddenNamespace
    }
}
