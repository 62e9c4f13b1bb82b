//! From what users write to what the engine runs, collecting every problem on the way.
//!
//! The webhook, the controller and the command line all come through here, so nothing is admitted that cannot be run and
//! nothing is refused in one place that another accepts. This room knows documents; it does no I/O.

mod decimal;
mod format;
pub mod generate;
mod json_patch;
pub mod mesh;
pub mod migrate;
mod modification;
pub mod modifier;
mod proxy_template;
mod reader;
mod scalars;
mod schema;
mod tags;
mod target_ref;
mod way;

use std::collections::BTreeSet;

use serde_json::Value;

use crate::core::json::{Document, Json, Tree};
use crate::core::mesh::policy::Role;
use crate::core::problem::{FieldPath, Problem, Reason};
use crate::core::structural;
use mesh::Resource;
use reader::Node;
use way::Ways;

/// What a check found in one document.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    /// Why the document is refused.
    pub errors: Vec<Problem>,
    /// What the API server's schema refuses before anybody is asked.
    pub schema: Vec<Problem>,
    /// What is accepted but should be looked at.
    pub warnings: Vec<Problem>,
}

/// Who a document is, as far as it says so itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity<'v> {
    pub kind: &'v str,
    pub name: &'v str,
    pub form: Form,
}

/// The two ways to write a policy down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// `apiVersion`, `kind`, `metadata`, and the content below `spec`.
    Kubernetes,
    /// `type`, `mesh`, `name`, and the content beside them (older kinds) or below `spec`.
    Universal,
}

/// How a kind of group `kuma.io` is checked, besides by its schema.
struct MeshKind {
    name: &'static str,
    /// Where the content of a universal document stands.
    content: Content,
    /// `None` where there is nothing to say beyond the schema.
    check: Option<fn(&Resource<'_>, &mut Findings)>,
}

#[derive(Clone, Copy)]
enum Content {
    /// Beside `type` and `name`.
    Document,
    Spec,
}

const fn policy(name: &'static str, check: fn(&Resource<'_>, &mut Findings)) -> MeshKind {
    MeshKind { name, content: Content::Spec, check: Some(check) }
}

const fn service(name: &'static str) -> MeshKind {
    MeshKind { name, content: Content::Spec, check: None }
}

const MESH_KINDS: &[MeshKind] = &[
    MeshKind { name: "ProxyTemplate", content: Content::Document, check: Some(proxy_template::check) },
    policy("MeshHTTPRoute", |resource, findings| drop(mesh::http_route::compile(resource, findings))),
    policy("MeshTCPRoute", |resource, findings| drop(mesh::tcp_route::compile(resource, findings))),
    policy("MeshTimeout", |resource, findings| drop(mesh::timeout::compile(resource, findings))),
    policy("MeshProxyPatch", |resource, findings| drop(mesh::proxy_patch::compile::<()>(resource, findings))),
    policy("MeshTLS", mesh::tls::check),
    policy("MeshLoadBalancingStrategy", mesh::load_balancing::check),
    policy("MeshPassthrough", mesh::passthrough::check),
    policy("MeshAccessLog", mesh::access_log::check),
    policy("MeshTrace", mesh::trace::check),
    policy("MeshFaultInjection", mesh::fault_injection::check),
    policy("MeshRateLimit", mesh::rate_limit::check),
    policy("MeshTrafficPermission", mesh::traffic_permission::check),
    policy("MeshHealthCheck", mesh::health_check::check),
    policy("MeshCircuitBreaker", mesh::circuit_breaker::check),
    policy("MeshRetry", mesh::retry::check),
    policy("MeshMetric", mesh::metric::check),
    service("MeshService"),
    service("MeshExternalService"),
    service("MeshMultiZoneService"),
];

impl MeshKind {
    fn find(name: &str) -> Option<&'static Self> {
        MESH_KINDS.iter().find(|kind| kind.name == name)
    }
}

/// Whether [`check`] knows a kind of a Kubernetes API group.
pub fn serves(group: &str, kind: &str) -> bool {
    match group {
        "kuma.io" => MeshKind::find(kind).is_some(),
        "kyverno.io" => generate::KINDS.contains(&kind),
        _ => false,
    }
}

/// Checks a document of one of the kinds that Writ serves; `None` for any other.
pub fn check(document: &Value) -> Option<Findings> {
    if generate::is_policy(document) {
        return Some(generate::policy(document).1);
    }
    if generate::is_exception(document) {
        return Some(generate::exception(document).1);
    }
    if generate::is_global_entry(document) {
        return Some(generate::global_entry(document).1);
    }
    check_mesh(Document::from(document).root())
}

/// Checks a document of one of the kinds of the mesh; `None` for any other.
pub fn check_mesh(document: Json<'_>) -> Option<Findings> {
    let identity = identify(document)?;
    let kind = MeshKind::find(identity.kind)?;
    if identity.form == Form::Kubernetes && group_of(document) != "kuma.io" {
        return None;
    }
    let structural::Findings { refused, unknown } = schema::check(kind.name, document, identity.form);
    let mut findings = Findings { schema: refused, ..Findings::default() };
    match kind.check {
        // It warns of unknown fields itself: it knows more than one spelling of some.
        Some(check) => {
            check(&resource(document, identity.form, kind.content, &Ways::default()), &mut findings);
            findings.warnings.extend(unknown.into_iter().filter(|problem| !is_content(&problem.field)));
        }
        None => findings.warnings = unknown,
    }
    Some(findings)
}

/// Whether a field stands in the content of an object, which its check reads, and not beside it.
fn is_content(field: &FieldPath) -> bool {
    let field = field.to_string();
    field.strip_prefix("spec").is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
}

fn resource<'v>(document: Json<'v>, form: Form, content: Content, ways: &'v Ways) -> Resource<'v> {
    let root = Node::new(Some(document), ways.root());
    let labels = match form {
        Form::Kubernetes => document.at(&["metadata", "labels"]),
        Form::Universal => document.get("labels"),
    };
    let role = labels.and_then(|labels| labels.get("kuma.io/policy-role")).and_then(Tree::as_text);
    // Nobody but the webhook writes the label; what it could not have written counts as if it were not there.
    let role = role.and_then(Role::parse).unwrap_or_default();
    let content = match (form, content) {
        (Form::Universal, Content::Document) => root,
        _ => root.below("spec"),
    };
    Resource { content, role }
}

/// Kind, name and form of a document; `None` if it is neither a Kubernetes object nor a universal resource.
pub fn identify<'v>(document: impl Tree<'v>) -> Option<Identity<'v>> {
    let text = |path: &[&str]| document.at(path).and_then(Tree::as_text);
    if document.get("apiVersion").is_some() {
        let kind = text(&["kind"])?;
        let metadata = document.get("metadata");
        let name = metadata.and_then(|metadata| metadata.get("name").or_else(|| metadata.get("generateName")));
        let name = name.and_then(Tree::as_text).unwrap_or_default();
        return Some(Identity { kind, name, form: Form::Kubernetes });
    }
    let (kind, name) = (text(&["type"])?, text(&["name"]).unwrap_or_default());
    Some(Identity { kind, name, form: Form::Universal })
}

fn group_of<'v>(document: impl Tree<'v>) -> &'v str {
    let version = document.get("apiVersion").and_then(Tree::as_text).unwrap_or_default();
    version.split_once('/').map_or("", |(group, _)| group)
}

/// The generation of Kuma that a document has to please.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KumaVersion {
    #[default]
    Two,
    Three,
}

impl Findings {
    /// All errors: what the schema says of a field that the checks have spoken of need not be told again.
    pub fn refusals(&self) -> Vec<Problem> {
        let told: BTreeSet<_> = self.errors.iter().map(|error| &error.field).collect();
        let news = self.schema.iter().filter(|problem| !told.contains(&problem.field));
        self.errors.iter().chain(news).cloned().collect()
    }

    /// What the version of Kuma makes of the findings: for Kuma 3 the forms that it has no more are errors.
    #[must_use]
    pub fn seen_by(mut self, version: KumaVersion) -> Self {
        if version == KumaVersion::Three {
            let removed = self.warnings.extract_if(.., |warning| warning.reason == Reason::Removed);
            self.errors.extend(removed);
        }
        self
    }

    /// Makes errors of unknown fields.
    pub fn refuse_unknown(&mut self) {
        let unknown = self.warnings.extract_if(.., |warning| warning.reason == Reason::Unknown);
        self.schema.extend(unknown);
    }

    /// Adds an error.
    fn refuse(&mut self, field: impl Into<FieldPath>, reason: Reason, message: impl Into<String>) {
        self.errors.push(Problem::new(field, reason, message));
    }

    /// Adds a warning.
    fn warn(&mut self, field: impl Into<FieldPath>, reason: Reason, message: impl Into<String>) {
        self.warnings.push(Problem::new(field, reason, message));
    }
}
