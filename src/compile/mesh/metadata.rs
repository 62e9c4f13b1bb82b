//! Who a document says it is, where no API server has looked at that before: files of either form.

use super::admission;
use crate::compile::mesh::format::{is_dns_subdomain, is_resource_name};
use crate::core::json::{Json, Shape, Tree};
use crate::core::nearest;
use crate::core::problem::{FieldPath, Problem, Reason};

const LONGEST_NAME: usize = 253;
const LONGEST_LABEL: usize = 63;

/// The fields that a universal document may have beside its content.
const UNIVERSAL_FIELDS: &[&str] =
    &["type", "mesh", "name", "labels", "creationTime", "modificationTime", "kri", "spec", "status"];

/// What the API server refuses in the metadata of an object, whatever its kind.
pub(super) fn of_object(document: Json<'_>) -> Vec<Problem> {
    let mut problems = Vec::new();
    let path = FieldPath::root().field("metadata");
    let metadata = document.get("metadata");
    let name = metadata.and_then(|metadata| metadata.get("name"));
    let generated = metadata.is_some_and(|metadata| metadata.get("generateName").is_some());
    if name.is_some() || !generated {
        problems.extend(fault_of_name(name, &path.field("name"), is_dns_subdomain));
    }
    problems.extend(faults_of_labels(metadata.and_then(|metadata| metadata.get("labels")), &path.field("labels")));
    problems
}

/// What the peer's API refuses in a universal document besides its content. `is_new` is a kind whose content stands below
/// `spec`.
pub(super) fn of_universal(document: Json<'_>, is_new: bool) -> Vec<Problem> {
    let root = FieldPath::root;
    let is_name = if is_new { is_dns_subdomain } else { is_resource_name };
    let mut problems: Vec<_> =
        fault_of_name(document.get("name"), &root().field("name"), is_name).into_iter().collect();
    let mesh = document.get("mesh");
    match mesh.map(Tree::shape) {
        None => {}
        Some(Shape::Text(mesh)) => {
            let fault = admission::fault_of_mesh_name(mesh);
            problems.extend(fault.map(|(reason, message)| Problem::new(root().field("mesh"), reason, message)));
        }
        Some(other) => problems.push(not_text(&root().field("mesh"), other)),
    }
    let labels = root().field("labels");
    problems.extend(faults_of_labels(document.get("labels"), &labels));
    let label = |name: &str| document.at(&["labels", name]).and_then(Tree::as_text);
    if let Some(origin) = label(admission::ORIGIN_LABEL).filter(|origin| !matches!(*origin, "global" | "zone")) {
        let message = format!("unknown value `{origin}`; known: global, zone");
        problems.push(Problem::new(labels.key(admission::ORIGIN_LABEL), Reason::Enum, message));
    }
    let own = mesh.and_then(Tree::as_text).unwrap_or(admission::DEFAULT_MESH);
    if label(admission::MESH_LABEL).is_some_and(|label| label != own) {
        let message = format!("must be `{own}`, as the field `mesh` says");
        problems.push(Problem::new(labels.key(admission::MESH_LABEL), Reason::Context, message));
    }
    if is_new {
        let spec = root().field("spec");
        match document.get("spec").filter(|spec| !spec.is_null()) {
            None => problems.push(Problem::new(spec, Reason::Required, "required")),
            Some(content) => walk(content, &spec, &mut problems),
        }
    }
    problems
}

/// The fields of a universal document that have no effect.
pub(super) fn unknown_fields(document: Json<'_>) -> Vec<Problem> {
    let names = document.fields().map(|(name, _)| name).filter(|name| !UNIVERSAL_FIELDS.contains(name));
    let problem = |name: &str| {
        let hint = nearest::hint(name, UNIVERSAL_FIELDS.iter().copied());
        let message = format!("unknown field, it has no effect; {hint}");
        Problem::new(FieldPath::root().field(name.to_owned()), Reason::Unknown, message)
    };
    names.map(problem).collect()
}

/// Null is no value there, and the entry of a header modifier needs one.
fn walk(value: Json<'_>, path: &FieldPath, problems: &mut Vec<Problem>) {
    for (index, item) in value.items().enumerate() {
        walk(item, &path.index(index), problems);
    }
    for (name, field) in value.fields() {
        let here = path.field(name.to_owned());
        // A JSON patch may write null, and an Envoy document is read by other rules.
        if name == "value" {
            continue;
        }
        if field.is_null() {
            problems.push(Problem::new(&here, Reason::Format, "must not be null; leave the field out"));
        }
        if matches!(name, "set" | "add") {
            let bare = |header: &Json<'_>| header.get("name").is_some() && header.get("value").is_none();
            for (index, _) in field.items().enumerate().filter(|(_, header)| bare(header)) {
                let missing = here.index(index).field("value");
                problems.push(Problem::new(missing, Reason::Required, "required"));
            }
        }
        walk(field, &here, problems);
    }
}

fn fault_of_name(name: Option<Json<'_>>, path: &FieldPath, is_name: fn(&str) -> bool) -> Option<Problem> {
    let (reason, message) = match name.map(Tree::shape) {
        None | Some(Shape::Null) => (Reason::Required, "required".to_owned()),
        Some(Shape::Text("")) => (Reason::Empty, "may not be empty".to_owned()),
        Some(Shape::Text(name)) if name.len() > LONGEST_NAME => {
            (Reason::Range, format!("longer than {LONGEST_NAME} characters"))
        }
        Some(Shape::Text(name)) if !is_name(name) => {
            let message =
                "malformed: lower-case letters, digits, `-` and `.`, starting and ending with a letter or digit";
            (Reason::Format, message.to_owned())
        }
        Some(Shape::Text(_)) => return None,
        Some(other) => return Some(not_text(path, other)),
    };
    Some(Problem::new(path, reason, message))
}

fn faults_of_labels(labels: Option<Json<'_>>, path: &FieldPath) -> Vec<Problem> {
    let Some(labels) = labels.filter(|labels| !labels.is_null()) else { return Vec::new() };
    if !labels.is_object() {
        let message = format!("must be a mapping, not {}", labels.shape().describe());
        return vec![Problem::new(path, Reason::Format, message)];
    }
    let fault = |(key, value): (&str, Json<'_>)| {
        let here = path.key(key);
        if !is_label_key(key) {
            let message = "malformed: a label key is a name of at most 63 characters, perhaps after a domain and `/`";
            return Some(Problem::new(&here, Reason::Format, message));
        }
        match value.shape() {
            Shape::Text(value) if is_label_value(value) => None,
            Shape::Text(_) => {
                let message = "malformed: a label value has at most 63 letters, digits and inner `-_.`";
                Some(Problem::new(&here, Reason::Format, message))
            }
            other => Some(not_text(&here, other)),
        }
    };
    labels.fields().filter_map(fault).collect()
}

fn not_text(path: &FieldPath, shape: Shape<'_>) -> Problem {
    Problem::new(path, Reason::Format, format!("must be text, not {}", shape.describe()))
}

fn is_label_key(key: &str) -> bool {
    let (domain, name) = key.split_once('/').map_or((None, key), |(domain, name)| (Some(domain), name));
    let is_domain = |domain: &str| domain.len() <= LONGEST_NAME && is_dns_subdomain(domain);
    domain.is_none_or(is_domain) && !name.is_empty() && is_label_value(name)
}

/// Letters, digits and inner `-_.`; the empty value passes.
fn is_label_value(value: &str) -> bool {
    let bytes = value.as_bytes();
    let ends = |c: Option<&u8>| c.is_none_or(u8::is_ascii_alphanumeric);
    bytes.len() <= LONGEST_LABEL
        && ends(bytes.first())
        && ends(bytes.last())
        && bytes.iter().all(|c| c.is_ascii_alphanumeric() || matches!(c, b'-' | b'_' | b'.'))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::core::json::Document;

    fn listed(problems: &[Problem]) -> Vec<String> {
        problems.iter().map(|problem| format!("{} {}", problem.field, problem.reason.as_str())).collect()
    }

    /// A universal document with one field changed; null takes it away.
    #[track_caller]
    fn universal(field: &str, value: Value, expected: &[&str]) {
        let mut document = json!({"type": "MeshTimeout", "name": "x", "mesh": "default", "spec": {}});
        document[field] = value;
        document.as_object_mut().expect("an object").retain(|_, value| !value.is_null());
        let found = of_universal(Document::from(&document).root(), true);
        assert_eq!(listed(&found), expected, "{document}");
    }

    #[test]
    fn names() {
        universal("name", json!("a.b-c"), &[]);
        universal("name", json!(null), &["name REQ"]);
        universal("name", json!(""), &["name EMPTY"]);
        universal("name", json!(1), &["name FORMAT"]);
        for name in ["A", "a_b", "-a"] {
            universal("name", json!(name), &["name FORMAT"]);
        }
        universal("name", json!("a".repeat(254)), &["name RANGE"]);
        universal("mesh", json!(""), &["mesh EMPTY"]);
        universal("mesh", json!("A"), &["mesh FORMAT"]);
        universal("mesh", json!(1), &["mesh FORMAT"]);
        universal("mesh", json!(null), &[]);
        let older = json!({"type": "ProxyTemplate", "name": "a_b", "mesh": "default"});
        assert_eq!(of_universal(Document::from(&older).root(), false), []);
    }

    #[test]
    fn labels() {
        universal("labels", json!({"kuma.io/origin": "zone", "kuma.io/mesh": "default", "a": ""}), &[]);
        universal("labels", json!({"kuma.io/origin": "moon"}), &["labels[\"kuma.io/origin\"] ENUM"]);
        universal("labels", json!({"kuma.io/mesh": "other"}), &["labels[\"kuma.io/mesh\"] CTX"]);
        universal("labels", json!({"a b": "x"}), &["labels[\"a b\"] FORMAT"]);
        universal("labels", json!({"a": "x y"}), &["labels[\"a\"] FORMAT"]);
        universal("labels", json!({"a": "x".repeat(64)}), &["labels[\"a\"] FORMAT"]);
        universal("labels", json!({"a": 1}), &["labels[\"a\"] FORMAT"]);
        universal("labels", json!(["a"]), &["labels FORMAT"]);
    }

    #[test]
    fn content() {
        universal("spec", json!(null), &["spec REQ"]);
        universal("spec", json!({"to": [{"targetRef": null}]}), &["spec.to[0].targetRef FORMAT"]);
        universal("spec", json!({"add": [{"name": "a"}, {"name": "b", "value": ""}]}), &["spec.add[0].value REQ"]);
        universal("spec", json!({"jsonPatches": [{"op": "add", "value": null}]}), &[]);
    }

    #[test]
    fn objects() {
        let problems = |metadata: Value| {
            let object = json!({"kind": "MeshTimeout", "metadata": metadata});
            listed(&of_object(Document::from(&object).root()))
        };
        assert_eq!(problems(json!({"name": "a"})), Vec::<String>::new());
        assert_eq!(problems(json!({"generateName": "a-"})), Vec::<String>::new());
        assert_eq!(
            problems(json!({"name": "A", "labels": {"b": 1}})),
            ["metadata.name FORMAT", "metadata.labels[\"b\"] FORMAT"]
        );
        assert_eq!(problems(json!({})), ["metadata.name REQ"]);
    }

    #[test]
    fn fields_without_effect() {
        let document = json!({"type": "MeshTimeout", "name": "x", "spec": {}, "metadata": {}});
        let found = unknown_fields(Document::from(&document).root());
        assert_eq!(listed(&found), ["metadata UNKNOWN"]);
    }
}
