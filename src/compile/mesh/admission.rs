//! What a control plane does when an object of group `kuma.io` is applied: labels that it adds, who may write what where,
//! and the order of all checks. Plain data in and out; the webhook puts them on the wire.

mod catalogue;
mod defaults;
mod permission;
mod role;

use serde_json::{Map, Value};

use crate::compile::mesh::{self, metadata};
use crate::compile::{self, Findings, Form};
use crate::core::json::{Document, Json, Tree};
use crate::core::problem::{FieldPath, Problem, Reason};
use catalogue::{Catalogued, Scope};

pub use defaults::defaults;
pub use role::{RoleError, role};

pub(super) const MESH_LABEL: &str = "kuma.io/mesh";
pub(super) const ORIGIN_LABEL: &str = "kuma.io/origin";
const ROLE_LABEL: &str = "kuma.io/policy-role";
const ZONE_LABEL: &str = "kuma.io/zone";

pub(super) const DEFAULT_MESH: &str = "default";

/// Where the operators of a mesh are, if nobody says otherwise.
pub const SYSTEM_NAMESPACE: &str = "kuma-system";
/// The name of a zone that stands alone, if nobody gives it another.
pub const DEFAULT_ZONE: &str = "default";
/// They delete what belongs to something that was deleted: nobody else will.
const CLEANERS: [&str; 2] = [
    "system:serviceaccount:kube-system:generic-garbage-collector",
    "system:serviceaccount:kube-system:namespace-controller",
];

/// The control plane that is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControlPlane {
    pub mode: Mode,
    /// The namespace of the operators: `kuma-system`.
    pub system_namespace: String,
    /// Users to whom no permission check applies.
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
    pub object: Json<'r>,
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
    /// Why; empty if that is what the problems say.
    pub message: String,
    /// The fields that are at fault.
    pub problems: Vec<Problem>,
    /// What would have been warned of.
    pub warnings: Vec<Problem>,
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

/// Whether a control plane has anything to say about a kind of an API group.
pub fn serves(group: &str, kind: &str) -> bool {
    Catalogued::find(group, kind).is_some()
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
    let findings = match fault_of_metadata(request.object, &kind) {
        Some(problem) => Findings { errors: vec![problem], ..Findings::default() },
        None => mesh::check(request.object).unwrap_or_default(),
    };
    // A cluster may have looser definitions than ours, so what the schema should have refused is refused here.
    let problems = findings.refusals();
    if problems.is_empty() {
        return Ok(findings.warnings);
    }
    Err(Refusal { problems, warnings: findings.warnings, ..Refusal::new(RefusalKind::Invalid, "") })
}

/// What an object comes to that is applied by somebody who may do that; `None` for a kind whose content is not checked. An
/// object that does not say its namespace is taken for one of the operators.
pub fn rehearse(document: &Value, system_namespace: &str) -> Option<Findings> {
    let borrowed = Document::from(document);
    let object = borrowed.root();
    let Some(kind) = Catalogued::of(object) else {
        let mut findings = compile::check(document)?;
        if let Some(kind) = compile::identify(object)
            .filter(|identity| identity.form == Form::Universal)
            .and_then(|identity| Catalogued::find("kuma.io", identity.kind))
        {
            findings.errors.extend(metadata::of_universal(object, kind.is_new));
            if kind.is_new {
                findings.warnings.extend(metadata::unknown_fields(object));
            }
        }
        return Some(findings);
    };
    let namespace = object.at(&["metadata", "namespace"]).and_then(Tree::as_text);
    let (mut findings, role) = match namespace.filter(|_| kind.policy.is_some()) {
        None => (mesh::check(object)?, None),
        Some(namespace) => {
            let role = role(object, namespace, system_namespace);
            let findings = match &role {
                Ok(role) => compile::check(&labelled(document, ROLE_LABEL, role.name()))?,
                Err(_) => mesh::check(object)?,
            };
            (findings, role.err())
        }
    };
    if let Some(problem) = fault_of_metadata(object, &kind) {
        findings = Findings { errors: vec![problem], ..Findings::default() };
    }
    findings.schema.extend(metadata::of_object(object));
    if let Some(error) = role {
        findings.errors.insert(0, error.problem());
    }
    Some(findings)
}

fn labelled(object: &Value, label: &str, value: &str) -> Value {
    let mut object = object.clone();
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        let labels = metadata.entry("labels").or_insert(Value::Null);
        if labels.is_null() {
            *labels = Value::Object(Map::new());
        }
        if let Some(labels) = labels.as_object_mut() {
            labels.insert(label.to_owned(), value.into());
        }
    }
    object
}

/// What is wrong with the mesh, or else with the origin. The content of such an object is not looked at.
fn fault_of_metadata(object: Json<'_>, kind: &Catalogued) -> Option<Problem> {
    check_mesh(object, kind).or_else(|| check_origin(object))
}

fn check_mesh(object: Json<'_>, kind: &Catalogued) -> Option<Problem> {
    if kind.scope != Scope::Mesh {
        return None;
    }
    let (reason, message) = fault_of_mesh_name(mesh_of(object, kind))?;
    Some(Problem::new(FieldPath::root().field("mesh"), reason, message))
}

/// What is wrong with the name of a mesh.
pub(super) fn fault_of_mesh_name(mesh: &str) -> Option<(Reason, &'static str)> {
    let in_name = |c: char| c.is_ascii_digit() || c.is_ascii_lowercase() || matches!(c, '-' | '_' | '.');
    if mesh.is_empty() {
        Some((Reason::Empty, "may not be empty"))
    } else if mesh.len() > 253 {
        Some((Reason::Range, "longer than 253 characters"))
    } else if !mesh.chars().all(in_name) {
        let message = "malformed: only digits, lower-case letters and `-_.` may stand in the name of a mesh";
        Some((Reason::Format, message))
    } else {
        None
    }
}

/// Newer kinds take the mesh from a label and are in `default` without it, older ones have a field of their own.
fn mesh_of<'o>(object: Json<'o>, kind: &Catalogued) -> &'o str {
    let field = object.get("mesh").and_then(Tree::as_text).unwrap_or_default();
    if kind.is_new { label(object, MESH_LABEL).unwrap_or(DEFAULT_MESH) } else { field }
}

fn check_origin(object: Json<'_>) -> Option<Problem> {
    let origin = label(object, ORIGIN_LABEL).filter(|origin| !matches!(*origin, "global" | "zone"))?;
    let path = FieldPath::root().field("labels").key(ORIGIN_LABEL);
    Some(Problem::new(&path, Reason::Enum, format!("unknown value `{origin}`; known: global, zone")))
}

fn label<'o>(object: Json<'o>, name: &str) -> Option<&'o str> {
    object.at(&["metadata", "labels", name])?.as_text()
}

fn name_of(object: Json<'_>) -> &str {
    object.at(&["metadata", "name"]).and_then(Tree::as_text).unwrap_or_default()
}

impl ControlPlane {
    /// `privileged` comes besides the control plane's own account and those that clean up in every cluster.
    pub fn new(mode: Mode, system_namespace: String, mut privileged: Vec<String>) -> Self {
        privileged.push(format!("system:serviceaccount:{system_namespace}:kuma-control-plane"));
        privileged.extend(CLEANERS.map(str::to_owned));
        Self { mode, system_namespace, privileged }
    }

    fn is_local(&self, origin: Option<&str>) -> bool {
        match self.mode {
            Mode::Global => matches!(origin, None | Some("global")),
            Mode::Zone { .. } => matches!(origin, None | Some("zone")),
        }
    }
}

impl Default for ControlPlane {
    /// One zone that stands alone.
    fn default() -> Self {
        let mode = Mode::Zone { name: DEFAULT_ZONE.to_owned(), federated: false };
        Self::new(mode, SYSTEM_NAMESPACE.to_owned(), Vec::new())
    }
}

impl Refusal {
    fn new(kind: RefusalKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), problems: Vec::new(), warnings: Vec::new() }
    }
}

impl RefusalKind {
    /// The status code of the answer.
    pub fn code(self) -> u16 {
        match self {
            Self::Forbidden | Self::ForbiddenNamespace => 403,
            Self::Invalid => 422,
            Self::Internal => 500,
        }
    }

    /// The reason of the answer, as API servers name it.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Forbidden | Self::ForbiddenNamespace => "Forbidden",
            Self::Invalid => "Invalid",
            Self::Internal => "InternalError",
        }
    }

    /// Whether the answer has `status: Failure`, which clients of the reference do not find on refused namespaces.
    pub fn is_marked_as_failure(self) -> bool {
        self != Self::ForbiddenNamespace
    }
}
