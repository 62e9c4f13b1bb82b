//! The reference at the top level: Kuma 3 takes the whole mesh, or proxies by their labels.

use serde_json::{Map, Value};

use super::reference::{self, NAME_LABEL, NAMESPACE_LABEL};
use super::subject::{Field, Subject};
use super::{Attempt, Obstacle, Rewrite};
use crate::core::mesh::target_ref::TargetKind;
use crate::core::problem::{Problem, Reason};
use crate::core::yaml::edit::Edit;

/// Tags that the control plane itself writes to all inbounds of a proxy, with the same value as the label of that name.
pub(super) const TAGS_LIKE_LABELS: &[&str] = &[NAMESPACE_LABEL, "kuma.io/zone"];

/// Whether a fault goes away by the migration: Kuma 2 never took a MeshTCPRoute where it took the other route.
pub(super) fn cures(object: &Value, fault: &Problem) -> bool {
    let kind = object.pointer("/spec/targetRef/kind").and_then(Value::as_str);
    fault.reason == Reason::Kind
        && fault.field.to_string() == "spec.targetRef.kind"
        && kind == Some(TargetKind::MeshTcpRoute.name())
}

pub(super) fn rewrite(subject: &Subject<'_>) -> Vec<Attempt> {
    let reference = subject.spec().below("targetRef");
    let Some(kind) = TargetKind::parse(reference.below("kind").text()) else { return Vec::new() };
    let attempt = match kind {
        TargetKind::Mesh => whole_mesh(&reference),
        TargetKind::Dataplane => named_proxy(subject, &reference),
        TargetKind::MeshSubset => Some(subset(&reference)),
        TargetKind::MeshHttpRoute | TargetKind::MeshTcpRoute => Some(route(subject, kind, &reference)),
        TargetKind::MeshGateway => Some(Err(by_hand(
            &reference,
            "Kuma 3 has no MeshGateway: move the gateway to the Gateway API, then select its proxies by kind Dataplane \
             with labels",
        ))),
        _ => Some(Err(by_hand(
            &reference,
            "it selects inbounds by the tag kuma.io/service, which no label is known to equal: give the proxies of this \
             service a label and use kind Dataplane with `labels`",
        ))),
    };
    attempt.into_iter().collect()
}

fn by_hand(reference: &Field<'_>, message: &str) -> Obstacle {
    Obstacle::new(&reference.path, &reference.path.field("kind"), message)
}

fn whole_mesh(reference: &Field<'_>) -> Option<Attempt> {
    let proxies = reference.below("proxyTypes");
    if !proxies.is_present() {
        return None;
    }
    Some(drop_proxy_types(reference).map(|edit| Rewrite {
        field: proxies.path,
        message: "left out: it names all sorts of proxies".to_owned(),
        edits: vec![edit],
    }))
}

/// `proxyTypes` says nothing if it has both types.
pub(super) fn drop_proxy_types(reference: &Field<'_>) -> Result<Edit, Obstacle> {
    let proxies = reference.below("proxyTypes");
    let has = |name: &str| proxies.elements().iter().any(|element| element.text() == name);
    if has("Sidecar") && has("Gateway") {
        return Ok(Edit::Remove { at: proxies.path });
    }
    let message = "Kuma 3 does not tell sidecars from gateways here: give the proxies a label and use kind Dataplane with \
                   `labels`; kind Dataplane without labels selects every proxy, delegated gateways too";
    Err(Obstacle::new(&reference.path, &proxies.path, message))
}

fn named_proxy(subject: &Subject<'_>, reference: &Field<'_>) -> Option<Attempt> {
    let (name, namespace) = (reference.below("name"), reference.below("namespace"));
    if name.is_filled() {
        return Some(reference::by_labels(subject, reference, None));
    }
    namespace.is_filled().then(|| {
        let message = "a namespace without a name selects no proxy: name the proxy, or select by \
                       `labels: {k8s.kuma.io/namespace: …}`";
        Err(Obstacle::new(&reference.path, &namespace.path, message))
    })
}

/// Tags become labels where both are known to be the same.
fn subset(reference: &Field<'_>) -> Attempt {
    let (kind, tags, labels) = (reference.below("kind"), reference.below("tags"), reference.below("labels"));
    let mut edits = vec![Edit::Set { at: kind.path.clone(), value: Value::from(TargetKind::Dataplane.name()) }];
    if reference.below("proxyTypes").is_present() {
        edits.push(drop_proxy_types(reference)?);
    }
    let given = tags.value.as_object().cloned().unwrap_or_default();
    for (tag, value) in &given {
        if !TAGS_LIKE_LABELS.contains(&tag.as_str()) || value.as_str().is_none_or(|value| value == "*") {
            let message = format!(
                "the tag `{tag}: {}` of inbounds is not known to equal a label of proxies: give these proxies a label and \
                 use kind Dataplane with `labels`",
                value.as_str().map_or_else(|| value.to_string(), str::to_owned)
            );
            return Err(Obstacle::new(&reference.path, &tags.path.key(tag.as_str()), message));
        }
    }
    match (given.is_empty(), labels.value.as_object()) {
        (true, _) if reference.has("tags") => edits.push(Edit::Remove { at: tags.path }),
        (true, _) => {}
        (false, None) => {
            if reference.has("labels") {
                edits.push(Edit::Remove { at: labels.path });
            }
            edits.push(Edit::Rename { at: tags.path, key: "labels" });
        }
        (false, Some(labelled)) => {
            let both: Map<_, _> =
                labelled.iter().chain(&given).map(|(key, value)| (key.clone(), value.clone())).collect();
            edits.push(Edit::Remove { at: tags.path });
            edits.push(Edit::Replace { at: labels.path, key: "labels", value: Value::Object(both) });
        }
    }
    Ok(Rewrite {
        field: kind.path,
        message:
            "MeshSubset becomes Dataplane with labels; it wins over policies for the whole mesh as before, but no more \
                  over others of kind Dataplane"
                .to_owned(),
        edits,
    })
}

/// A route goes from the top level into every entry of `to`.
fn route(subject: &Subject<'_>, kind: TargetKind, reference: &Field<'_>) -> Attempt {
    if subject.policy.is_some_and(|policy| policy.resource.kind == "MeshRateLimit") {
        return Err(by_hand(
            reference,
            "a MeshRateLimit of Kuma 3 cannot name a route: limit the whole proxy by kind Dataplane with labels and `rules`",
        ));
    }
    let spec = subject.spec();
    let entries = spec.below("to").elements();
    if entries.is_empty() || spec.below("from").is_filled() || spec.below("rules").is_filled() {
        let message = "the route has to go into `to[].targetRef`, but the policy has no `to`, or something beside it";
        return Err(by_hand(reference, message));
    }
    let (name, namespace, labels) = (reference.below("name"), reference.below("namespace"), reference.below("labels"));
    let mut selected = labels.value.as_object().cloned().unwrap_or_default();
    for (field, label) in [(name, NAME_LABEL), (namespace, NAMESPACE_LABEL)] {
        if field.is_filled() {
            selected.insert(label.to_owned(), field.value.clone());
        }
    }
    let mut edits = Vec::new();
    for entry in entries {
        let target = entry.below("targetRef");
        if *target.value != serde_json::json!({"kind": "Mesh"}) {
            let message = "this entry is for one destination of the route alone, which Kuma 3 cannot say: decide whether the \
                           route or the destination is meant, and name it in `to[].targetRef`";
            return Err(Obstacle::new(&reference.path, &target.path, message));
        }
        edits.push(Edit::Set { at: target.path.field("kind"), value: Value::from(kind.name()) });
        let value = Value::Object(selected.clone());
        edits.push(Edit::Insert { into: target.path, key: "labels", value, after: Some("kind") });
    }
    edits.push(Edit::Remove { at: reference.path.clone() });
    let message = format!("the {} goes into `to[].targetRef`, by its labels", kind.name());
    Ok(Rewrite { field: reference.path.clone(), message, edits })
}
