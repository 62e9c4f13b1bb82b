//! `jsonPatches`: operations of RFC 6902 in a modification.

use serde_json::Value;

use crate::compile::Findings;
use crate::compile::reader::Node;
use crate::core::envoy::modification::JsonPatch;
use crate::core::json::Tree;
use crate::core::problem::Reason;

pub(super) const OPERATIONS: &[&str] = &["add", "remove", "replace", "move", "copy"];

/// Reads the list; entries with findings are left out of the result.
pub(super) fn read(patches: &Node<'_>, findings: &mut Findings) -> Vec<JsonPatch> {
    patches.list(findings).iter().filter_map(|patch| read_one(patch, findings)).collect()
}

fn read_one(patch: &Node<'_>, findings: &mut Findings) -> Option<JsonPatch> {
    let before = findings.errors.len();
    // `value: null` is a value here, unlike everywhere else.
    let value = patch.value().and_then(|patch| patch.get("value")).map(Tree::to_value);
    let patch = patch.object(findings);
    let (op_field, path_field, from_field, value_field) =
        (patch.get("op"), patch.get("path"), patch.get("from"), patch.get("value"));
    let op = op_field.text(findings).unwrap_or_default();
    let path = path_field.text(findings);
    let from = from_field.text(findings).filter(|from| !from.is_empty());
    patch.warn_of_unknown(findings);

    if !OPERATIONS.contains(&op.as_ref()) {
        let message = format!("unknown value `{op}`; known: {}", OPERATIONS.join(", "));
        findings.refuse(op_field.path, Reason::Enum, message);
    }
    match &path {
        None => findings.refuse(path_field.path, Reason::Required, "required: a JSON pointer such as /connectTimeout"),
        Some(path) if op == "remove" && matches!(path.as_ref(), "" | "/") => {
            findings.refuse(path_field.path, Reason::Context, "the whole document cannot be removed");
        }
        Some(_) => {}
    }
    let moves = matches!(op.as_ref(), "move" | "copy");
    if moves && from.is_none() {
        findings.refuse(from_field.path, Reason::Empty, format!("may not be empty with {op}"));
    } else if !moves && from.is_some() {
        findings.refuse(from_field.path, Reason::Context, "only valid with move and copy");
    }
    let writes = matches!(op.as_ref(), "add" | "replace");
    if writes && value.is_none() {
        findings.refuse(value_field.path, Reason::Empty, format!("may not be empty with {op}"));
    } else if !writes && value.is_some() {
        findings.refuse(value_field.path, Reason::Context, "only valid with add and replace");
    }
    if findings.errors.len() > before {
        return None;
    }

    let path = path.unwrap_or_default().into_owned();
    let from = from.unwrap_or_default().into_owned();
    let value = value.unwrap_or(Value::Null);
    Some(match op.as_ref() {
        "add" => JsonPatch::Add { path, value },
        "replace" => JsonPatch::Replace { path, value },
        "move" => JsonPatch::Move { from, path },
        "copy" => JsonPatch::Copy { from, path },
        _ => JsonPatch::Remove { path },
    })
}
