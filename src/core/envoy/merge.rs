//! Merging a part into a message as protobuf does it: what is set in the part wins, lists grow, messages merge in turn.
//!
//! Both sides are canonical, so that what cannot be told from absence (a zero without presence) is not there at all.

use serde_json::{Map, Value};

use super::scalars;
use super::schema::{Field, Form, Kind, Label, Message, Schema};
use crate::core::json::Tree;

/// Where an `Any` names its message.
const TYPE_KEY: &str = "@type";

/// Merges a part of a message into it.
pub(super) fn merge(message: &Message, into: &mut Value, part: &Value) {
    match (message.form, into, part) {
        (Form::Fields | Form::Empty, Value::Object(into), Value::Object(part)) => merge_fields(message, into, part),
        (Form::Any, Value::Object(into), Value::Object(part)) => merge_any(into, part),
        // A zero in a wrapper is a zero without presence in a message that is there.
        (Form::Wrapper, into, part) if !is_zero(message, part) => *into = part.clone(),
        (Form::Wrapper, ..) => {}
        (Form::Struct | Form::Value, Value::Object(into), Value::Object(part)) => {
            into.extend(part.iter().map(|(key, value)| (key.clone(), value.clone())));
        }
        (Form::ListValue | Form::Value, Value::Array(into), Value::Array(part)) => into.extend_from_slice(part),
        (Form::FieldMask, Value::String(into), Value::String(part)) if !into.is_empty() && !part.is_empty() => {
            into.push(',');
            into.push_str(part);
        }
        (_, into, part) => *into = part.clone(),
    }
}

fn merge_fields(message: &Message, into: &mut Map<String, Value>, part: &Map<String, Value>) {
    // What is no field of the message is the name of its type.
    let fields = part.iter().filter_map(|(key, value)| Some((message.field(key)?, value)));
    for (field, value) in fields {
        match (field.label, into.get_mut(field.json)) {
            (Label::Repeated, Some(Value::Array(into))) => into.extend(value.as_array().into_iter().flatten().cloned()),
            (Label::Map(_), Some(Value::Object(into))) => {
                let entries = value.as_object().into_iter().flatten();
                into.extend(entries.map(|(key, value)| (key.clone(), value.clone())));
            }
            (Label::Singular | Label::Optional | Label::Member(_), Some(old)) => merge_single(field, old, value),
            (label, _) => {
                if let Label::Member(oneof) = label {
                    let others = message.fields.iter().filter(|other| other.label == Label::Member(oneof));
                    others.for_each(|other| drop(into.remove(other.json)));
                }
                into.insert(field.json.to_owned(), value.clone());
            }
        }
    }
}

fn merge_single(field: &Field, into: &mut Value, part: &Value) {
    match field.kind {
        Kind::Message(id) => merge(Schema::get().message_at(id), into, part),
        Kind::Scalar(_) | Kind::Enum(_) => *into = part.clone(),
    }
}

/// The content of an `Any` is one value, and an empty one is a zero: it leaves the old content alone.
fn merge_any(into: &mut Map<String, Value>, part: &Map<String, Value>) {
    match part.get(TYPE_KEY) {
        Some(name) if part.len() == 1 => drop(into.insert(TYPE_KEY.to_owned(), name.clone())),
        _ => *into = part.clone(),
    }
}

fn is_zero(wrapper: &Message, value: &Value) -> bool {
    matches!(wrapper.fields.first().map(|field| field.kind), Some(Kind::Scalar(scalar)) if scalars::is_zero(scalar, value.shape()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::core::envoy::{MessageType, Strictness, decode};

    #[track_caller]
    fn check(message: MessageType, into: Value, part: Value, expected: Value) {
        let read = |document: &Value| {
            decode(message, document, Strictness::Partial).expect("a test writes messages").document.to_value()
        };
        let mut merged = read(&into);
        merge(Schema::get().message(message.full_name()).expect("it is there"), &mut merged, &read(&part));
        assert_eq!(merged, expected, "{part} into {into}");
    }

    #[track_caller]
    fn cluster(into: Value, part: Value, expected: Value) {
        check(MessageType::Cluster, into, part, expected);
    }

    #[test]
    fn scalars_are_overwritten_unless_they_are_zero() {
        cluster(
            json!({"name": "a", "altStatName": "x"}),
            json!({"name": "b", "altStatName": ""}),
            json!({"name": "b", "altStatName": "x"}),
        );
        cluster(
            json!({"lbPolicy": "LEAST_REQUEST"}),
            json!({"lbPolicy": "ROUND_ROBIN"}),
            json!({"lbPolicy": "LEAST_REQUEST"}),
        );
        cluster(json!({"lbPolicy": "LEAST_REQUEST"}), json!({"lbPolicy": "RANDOM"}), json!({"lbPolicy": "RANDOM"}));
    }

    #[test]
    fn a_member_of_a_oneof_clears_the_others_even_with_a_zero() {
        cluster(json!({"type": "EDS"}), json!({"type": "STATIC"}), json!({"type": "STATIC"}));
        cluster(json!({"type": "EDS"}), json!({"clusterType": {"name": "x"}}), json!({"clusterType": {"name": "x"}}));
        cluster(
            json!({"ringHashLbConfig": {"minimumRingSize": 5}}),
            json!({"ringHashLbConfig": {"maximumRingSize": 9}}),
            json!({"ringHashLbConfig": {"minimumRingSize": "5", "maximumRingSize": "9"}}),
        );
    }

    #[test]
    fn durations_are_replaced_and_wrappers_only_by_what_is_not_zero() {
        cluster(json!({"connectTimeout": "5s"}), json!({"connectTimeout": "0s"}), json!({"connectTimeout": "0s"}));
        cluster(
            json!({"perConnectionBufferLimitBytes": 7, "connectTimeout": "1.5s"}),
            json!({"perConnectionBufferLimitBytes": 0, "maxRequestsPerConnection": 0}),
            json!({"perConnectionBufferLimitBytes": 7, "maxRequestsPerConnection": 0, "connectTimeout": "1.500s"}),
        );
    }

    #[test]
    fn lists_grow_and_maps_are_replaced_key_by_key() {
        check(
            MessageType::VirtualHost,
            json!({"name": "v", "domains": ["a"]}),
            json!({"domains": ["b"]}),
            json!({"name": "v", "domains": ["a", "b"]}),
        );
        cluster(
            json!({"metadata": {"filterMetadata": {"a": {"x": 1, "y": 2}, "b": {"z": 3}}}}),
            json!({"metadata": {"filterMetadata": {"a": {"x": 5}}}}),
            json!({"metadata": {"filterMetadata": {"a": {"x": 5}, "b": {"z": 3}}}}),
        );
    }

    #[test]
    fn an_any_is_one_value() {
        let socket = |body: Value| json!({"name": "s", "typedConfig": body});
        let tls = "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext";
        let raw = "type.googleapis.com/envoy.extensions.transport_sockets.raw_buffer.v3.RawBuffer";
        cluster(
            json!({"transportSocket": socket(json!({"@type": tls, "sni": "a"}))}),
            json!({"transportSocket": {"typedConfig": {"@type": tls, "allowRenegotiation": true}}}),
            json!({"transportSocket": socket(json!({"@type": tls, "allowRenegotiation": true}))}),
        );
        cluster(
            json!({"transportSocket": socket(json!({"@type": tls, "sni": "a"}))}),
            json!({"transportSocket": {"typedConfig": {"@type": raw}}}),
            json!({"transportSocket": socket(json!({"@type": raw, "sni": "a"}))}),
        );
    }
}
