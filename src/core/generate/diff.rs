//! Wanted content against actual content.
//!
//! The API server fills in defaults, rewrites quantities and drops nulls, so a difference between two documents is not yet a
//! difference between what they mean. What is decided here is only what can be decided without asking it.

use std::hash::{DefaultHasher, Hasher};

use serde_json::{Map, Value};

/// What the API server keeps about an object, and nobody writes.
pub(super) const BOOKKEEPING: [&str; 9] = [
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "selfLink",
    "managedFields",
    "generateName",
];

/// How a wanted object stands to the stored one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// Nothing to write.
    Same,
    /// Everything wanted is there, and more beside it: defaults, or somebody's edit. The API server can tell.
    MoreThanWanted,
    /// Something wanted is missing or other.
    Differs,
}

/// Compares by content: without what the API server keeps, without status.
pub fn compare(wanted: &Value, actual: &Value) -> Comparison {
    if fingerprint(wanted) == fingerprint(actual) {
        return Comparison::Same;
    }
    let covered = content(wanted).all(|(path, value)| find(actual, path).is_some_and(|found| covers(found, value)));
    if covered { Comparison::MoreThanWanted } else { Comparison::Differs }
}

/// A number for the content of an object. Equal content gives equal numbers within one process; status, bookkeeping and
/// null fields do not count.
pub fn fingerprint(object: &Value) -> u64 {
    let mut hasher = DefaultHasher::new();
    for (path, value) in content(object) {
        hasher.write_u8(u8::from(path.0));
        hasher.write(path.1.as_bytes());
        hash(value, &mut hasher);
    }
    hasher.finish()
}

/// Like [`fingerprint`], with the status.
pub fn fingerprint_with_status(object: &Value) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write_u64(fingerprint(object));
    hash(&object["status"], &mut hasher);
    hasher.finish()
}

/// Whether a field is below `metadata`, and its name.
type Place<'v> = (bool, &'v str);

/// The fields that somebody writes, in order.
fn content(object: &Value) -> impl Iterator<Item = (Place<'_>, &Value)> {
    let empty = |value: &Value| value.is_null() || value.as_object().is_some_and(Map::is_empty);
    let metadata = object.get("metadata").and_then(Value::as_object).into_iter().flatten();
    let metadata = metadata.filter(move |(name, value)| !BOOKKEEPING.contains(&name.as_str()) && !empty(value));
    let fields = object.as_object().into_iter().flatten();
    let fields = fields.filter(|(name, value)| !matches!(name.as_str(), "metadata" | "status") && !value.is_null());
    let metadata = metadata.map(|(name, value)| ((true, name.as_str()), value));
    metadata.chain(fields.map(|(name, value)| ((false, name.as_str()), value)))
}

fn find<'v>(object: &'v Value, (in_metadata, name): Place<'_>) -> Option<&'v Value> {
    if in_metadata { object.get("metadata")?.get(name) } else { object.get(name) }
}

fn covers(actual: &Value, wanted: &Value) -> bool {
    match (actual, wanted) {
        (Value::Object(actual), Value::Object(wanted)) => wanted
            .iter()
            .filter(|(_, value)| !value.is_null())
            .all(|(name, value)| actual.get(name).is_some_and(|actual| covers(actual, value))),
        (Value::Array(actual), Value::Array(wanted)) => {
            actual.len() == wanted.len() && actual.iter().zip(wanted).all(|(actual, wanted)| covers(actual, wanted))
        }
        (Value::Number(actual), Value::Number(wanted)) => actual.as_f64() == wanted.as_f64(),
        _ => actual == wanted,
    }
}

fn hash(value: &Value, hasher: &mut DefaultHasher) {
    match value {
        Value::Null => hasher.write_u8(0),
        Value::Bool(value) => hasher.write(&[1, u8::from(*value)]),
        Value::Number(number) => {
            hasher.write_u8(2);
            match (number.as_i64(), number.as_f64()) {
                (Some(whole), _) => hasher.write_i64(whole),
                // A whole number written as a fraction is the same number.
                (None, Some(real)) if real.fract() == 0.0 && real.abs() < 9e15 => hasher.write_i64(real as i64),
                (None, real) => hasher.write_u64(real.unwrap_or_default().to_bits()),
            }
        }
        Value::String(text) => {
            hasher.write_u8(3);
            hasher.write_usize(text.len());
            hasher.write(text.as_bytes());
        }
        Value::Array(items) => {
            hasher.write_u8(4);
            hasher.write_usize(items.len());
            items.iter().for_each(|item| hash(item, hasher));
        }
        Value::Object(fields) => {
            hasher.write_u8(5);
            for (name, value) in fields.iter().filter(|(_, value)| !value.is_null()) {
                hasher.write_usize(name.len());
                hasher.write(name.as_bytes());
                hash(value, hasher);
            }
            hasher.write_u8(6);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(wanted: Value, actual: Value, expected: Comparison) {
        assert_eq!(compare(&wanted, &actual), expected, "{wanted} {actual}");
    }

    #[test]
    fn bookkeeping_and_status_do_not_count() {
        check(
            json!({"kind": "A", "metadata": {"name": "n", "annotations": {}}, "data": {"k": "v", "gone": null}}),
            json!({"kind": "A", "metadata": {"name": "n", "uid": "u", "resourceVersion": "7", "managedFields": []},
                   "data": {"k": "v"}, "status": {"phase": "x"}}),
            Comparison::Same,
        );
        check(json!({"spec": {"n": 1}}), json!({"spec": {"n": 1.0}}), Comparison::Same);
    }

    #[test]
    fn more_may_be_a_default() {
        check(json!({"spec": {"a": 1}}), json!({"spec": {"a": 1, "b": 2}}), Comparison::MoreThanWanted);
        check(json!({"spec": [{"a": 1}]}), json!({"spec": [{"a": 1, "b": 2}]}), Comparison::MoreThanWanted);
        check(json!({}), json!({"metadata": {"labels": {"a": "b"}}}), Comparison::MoreThanWanted);
    }

    #[test]
    fn less_or_other_is_a_difference() {
        check(json!({"data": {"k": "v"}}), json!({"data": {"k": "w"}}), Comparison::Differs);
        check(json!({"data": {"k": "v"}}), json!({}), Comparison::Differs);
        check(json!({"spec": [1]}), json!({"spec": [1, 2]}), Comparison::Differs);
        check(json!({"metadata": {"labels": {"a": "b"}}}), json!({"metadata": {}}), Comparison::Differs);
    }

    #[test]
    fn status_counts_where_it_is_part_of_the_object() {
        let (one, other) = (json!({"status": {"a": 1}}), json!({"status": {"a": 2}}));
        assert_eq!(fingerprint(&one), fingerprint(&other));
        assert_ne!(fingerprint_with_status(&one), fingerprint_with_status(&other));
    }
}
