//! What holds for every mesh: random resources and policies.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;
use proptest::sample::{Index as Pick, select};
use serde_json::{Value, json};
use writ::compile::mesh::kinds;
use writ::core::mesh::merge::{self, ConfOf};
use writ::core::mesh::mesh_policy::MeshPolicy;
use writ::core::mesh::meta::{ResourceKey, ResourceMeta};
use writ::core::mesh::outbound::{ResourceRules, sorted_entries};
use writ::core::mesh::resources::Destination;
use writ::core::mesh::target_ref::{ResourceRef, TargetRef};
use writ::index::mesh::{MeshContents, MeshIndex, MeshKey, MeshSnapshot};
use writ::inspect::{InspectRequest, answer};

const SERVICE_KINDS: [&str; 3] = ["MeshService", "MeshExternalService", "MeshMultiZoneService"];

fn labels() -> impl Strategy<Value = Value> {
    let part = |name: &'static str, values: &'static [&'static str]| {
        prop::option::of(select(values)).prop_map(move |value| value.map(|value| (name.to_owned(), json!(value))))
    };
    let parts = (
        part("app", &["a", "b"]),
        part("team", &["x", "y"]),
        part("kuma.io/zone", &["east", "west"]),
        part("k8s.kuma.io/namespace", &["one", "two"]),
    );
    parts.prop_map(|(app, team, zone, namespace)| {
        Value::Object([app, team, zone, namespace].into_iter().flatten().collect())
    })
}

fn service() -> impl Strategy<Value = Value> {
    let ports = prop::collection::vec(prop::option::of(select(&["web", "admin"][..])), 0..3);
    (select(&SERVICE_KINDS[..]), 0..6u8, labels(), ports).prop_map(|(kind, name, labels, ports)| {
        let ports: Vec<Value> =
            ports.iter().enumerate().map(|(index, name)| json!({"port": 80 + index, "name": name})).collect();
        let spec = match kind {
            "MeshExternalService" => json!({"match": {"port": 80}}),
            _ => json!({"ports": ports}),
        };
        json!({"type": kind, "mesh": "default", "name": format!("s{name}"), "labels": labels, "spec": spec})
    })
}

fn reference() -> impl Strategy<Value = Value> {
    const KINDS: [&str; 5] = ["Mesh", "MeshService", "MeshExternalService", "MeshMultiZoneService", "MeshHTTPRoute"];
    let namespace = prop::option::of(select(&["one", "two"][..]));
    let section = prop::option::of(select(&["web", "80", "81", "none"][..]));
    (select(&KINDS[..]), 0..6u8, namespace, labels(), any::<bool>(), section).prop_map(
        |(kind, name, namespace, labels, by_labels, section)| {
            let mut target = json!({"kind": kind});
            if kind == "Mesh" {
                return target;
            }
            if by_labels && labels != json!({}) {
                target["labels"] = labels;
            } else {
                let letter = if kind == "MeshHTTPRoute" { "r" } else { "s" };
                target["name"] = format!("{letter}{name}").into();
                target["namespace"] = json!(namespace);
            }
            if kind == "MeshService" {
                target["sectionName"] = json!(section);
            }
            target
        },
    )
}

fn top() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        Just(json!({"kind": "Mesh", "proxyTypes": ["Sidecar"]})),
        Just(json!({"kind": "MeshSubset", "tags": {"version": "1"}})),
        Just(json!({"kind": "Dataplane", "name": "d0"})),
        Just(json!({"kind": "Dataplane", "labels": {"app": "a"}})),
    ]
}

fn timeout() -> impl Strategy<Value = Value> {
    let conf = (select(&["idleTimeout", "connectionTimeout"][..]), 1..9u8)
        .prop_map(|(field, value)| json!({field: format!("{value}s")}));
    let entries = prop::collection::vec((reference(), conf), 1..4);
    let role = prop::option::of(select(&["system", "producer", "consumer"][..]));
    (0..8u8, labels(), role, top(), entries).prop_map(|(name, mut labels, role, top, entries)| {
        if let Some(role) = role {
            labels["kuma.io/policy-role"] = role.into();
        }
        let to: Vec<Value> =
            entries.into_iter().map(|(target, conf)| json!({"targetRef": target, "default": conf})).collect();
        json!({"type": "MeshTimeout", "mesh": "default", "name": format!("p{name}"), "labels": labels,
            "spec": {"targetRef": top, "to": to}})
    })
}

fn route() -> impl Strategy<Value = Value> {
    (0..3u8, labels(), top(), 0..6u8).prop_map(|(name, labels, top, service)| {
        json!({"type": "MeshHTTPRoute", "mesh": "default", "name": format!("r{name}"), "labels": labels,
        "spec": {"targetRef": top, "to": [{
            "targetRef": {"kind": "MeshService", "name": format!("s{service}")},
            "rules": [{"matches": [{"path": {"type": "Exact", "value": format!("/{name}")}}], "default": {}}],
        }]}})
    })
}

fn proxy() -> impl Strategy<Value = Value> {
    (0..3u8, labels(), select(&["1", "2"][..])).prop_map(|(name, labels, version)| {
        json!({"type": "Dataplane", "mesh": "default", "name": format!("d{name}"), "labels": labels, "networking": {
            "address": "10.0.0.1", "inbound": [{"port": 80, "tags": {"kuma.io/service": "d", "version": version}}]}})
    })
}

/// Resources of one mesh, no two with the same key.
fn mesh() -> impl Strategy<Value = Vec<Value>> {
    let many = |of: BoxedStrategy<Value>, most: usize| prop::collection::vec(of, 0..most);
    let parts = (
        many(service().boxed(), 8),
        many(timeout().boxed(), 6),
        many(route().boxed(), 3),
        prop::collection::vec(proxy().boxed(), 1..3),
        any::<bool>(),
    );
    parts.prop_map(|(services, timeouts, routes, proxies, with_mesh)| {
        let mut documents: BTreeMap<MeshKey, Value> = BTreeMap::new();
        let mesh = with_mesh.then(|| json!({"type": "Mesh", "name": "default"}));
        for document in [services, timeouts, routes, proxies].concat().into_iter().chain(mesh) {
            documents.insert(MeshKey::of(&document).expect("a kind of the mesh"), document);
        }
        documents.into_values().collect()
    })
}

fn snapshot(documents: &[Value]) -> MeshSnapshot {
    let mut index = MeshIndex::default();
    for document in documents {
        index.apply(document).expect("a readable document");
    }
    index.snapshot()
}

/// All that can be asked of the proxies.
fn bodies(snapshot: &MeshSnapshot) -> Vec<String> {
    let mut bodies = Vec::new();
    for name in ["d0", "d1", "d2"] {
        for query in ["", "view=sparse"] {
            let path = format!("/meshes/default/dataplanes/{name}/_rules");
            bodies.push(answer(snapshot, &InspectRequest { path: &path, query, base: "" }).body);
        }
    }
    for name in 0..8 {
        let path = format!("/meshes/default/meshtimeouts/p{name}/_resources/dataplanes");
        bodies.push(answer(snapshot, &InspectRequest { path: &path, query: "", base: "" }).body);
    }
    bodies
}

/// The definition: every entry against every destination.
fn naive(policies: &[&MeshPolicy], contents: &MeshContents) -> BTreeMap<ResourceKey, (Vec<Value>, Vec<String>)> {
    let destinations: Vec<&Arc<Destination>> = ["MeshService", "MeshExternalService", "MeshMultiZoneService"]
        .into_iter()
        .chain(["MeshHTTPRoute", "MeshTCPRoute"])
        .flat_map(|kind| contents.destinations().of_kind(kind).map(|(_, destination)| destination))
        .collect();
    let entries = sorted_entries(policies.iter().copied());
    let mut resolved: Vec<(usize, Option<&Destination>, String)> = Vec::new();
    for (position, to) in entries.iter().enumerate() {
        if matches!(to.entry.target, TargetRef::Mesh { .. }) {
            if contents.resource().is_some() {
                resolved.push((position, None, String::new()));
            }
            continue;
        }
        for destination in &destinations {
            if let Some(section) = meant(&to.entry.target, &to.policy.meta, destination) {
                resolved.push((position, Some(destination), section));
            }
        }
    }
    let mesh_key = contents.resource().map(|mesh| mesh.meta.key());
    let mut rules = BTreeMap::new();
    for (_, target, section) in &resolved {
        let key = match target {
            Some(destination) => destination.meta.section_key(section),
            None => mesh_key.clone().expect("a mesh"),
        };
        let covering: Vec<_> = resolved
            .iter()
            .filter(|(_, by, held)| match (by, target) {
                (None, _) => true,
                (Some(_), None) => false,
                (Some(by), Some(target)) => by.meta == target.meta && (held.is_empty() || held == section),
            })
            .map(|(position, ..)| &entries[*position])
            .collect();
        let confs = covering.iter().map(|to| ConfOf { target: Some(&to.entry.target), conf: &to.entry.conf });
        let conf = merge::merge(policies[0].kind.merge, confs);
        let origin = covering.iter().map(|to| format!("{}#{}", to.policy.meta.name, to.index)).collect();
        rules.insert(key, (conf, origin));
    }
    rules
}

fn meant(target: &TargetRef, policy: &ResourceMeta, destination: &Destination) -> Option<String> {
    let (reference, section) = match target {
        TargetRef::MeshService { service, section } | TargetRef::MeshMultiZoneService { service, section } => {
            (service, section.clone())
        }
        TargetRef::MeshExternalService(reference) | TargetRef::MeshHttpRoute(reference) => (reference, None),
        _ => return None,
    };
    let meta = &destination.meta;
    let fits = match reference {
        ResourceRef::Labelled(labels) => labels.iter().all(|(key, value)| meta.labels.get(key) == Some(value)),
        ResourceRef::Named { name, namespace } => {
            meta.display_name() == name
                && meta.zone() == policy.zone()
                && meta.namespace() == namespace.as_deref().unwrap_or(policy.namespace())
        }
    };
    if meta.kind.kind != target.kind().name() || !fits {
        return None;
    }
    match section {
        Some(section) if !destination.ports.is_empty() => {
            destination.ports.iter().find(|port| port.section == section).map(|port| port.section.clone())
        }
        _ => Some(String::new()),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn the_order_of_the_input_does_not_matter(documents in mesh().prop_flat_map(|all| (Just(all.clone()), Just(all).prop_shuffle()))) {
        let (one, other) = documents;
        prop_assert_eq!(bodies(&snapshot(&one)), bodies(&snapshot(&other)));
    }

    #[test]
    fn an_unrelated_policy_changes_nothing(documents in mesh(), reference in reference()) {
        let before = bodies(&snapshot(&documents));
        for (mesh, top) in [("other", Value::Null), ("default", json!({"kind": "Dataplane", "name": "nobody"}))] {
            let unrelated = json!({"type": "MeshTimeout", "mesh": mesh, "name": "unrelated",
                "spec": {"targetRef": top, "to": [{"targetRef": reference, "default": {"idleTimeout": "99s"}}]}});
            let mut with = documents.clone();
            with.push(unrelated);
            prop_assert_eq!(&bodies(&snapshot(&with)), &before);
        }
    }

    #[test]
    fn indexed_resolution_is_the_definition(documents in mesh()) {
        let snapshot = snapshot(&documents);
        let contents = snapshot.contents("default").expect("a mesh with a proxy");
        let kind = kinds().policy("MeshTimeout").expect("a kind");
        let policies: Vec<&MeshPolicy> = contents.policies(kind).map(AsRef::as_ref).collect();
        let rules = ResourceRules::build(kind, policies.iter().copied(), contents.resource(), contents.destinations());
        let found: BTreeMap<_, _> = rules
            .iter()
            .map(|rule| {
                let origin: Vec<_> =
                    rule.merged.origin.iter().map(|origin| format!("{}#{}", origin.policy.name, origin.index)).collect();
                (rule.resource.section_key(&rule.section), (rule.merged.conf.clone(), origin))
            })
            .collect();
        let expected = if policies.is_empty() { BTreeMap::new() } else { naive(&policies, contents) };
        prop_assert_eq!(found, expected);
    }

    #[test]
    fn changes_lead_to_what_a_fresh_index_has(documents in mesh(), other in mesh(), gone in prop::collection::vec(any::<Pick>(), 0..5)) {
        let mut index = MeshIndex::default();
        for document in documents.iter().chain(&other) {
            index.apply(document);
            // Rules that were asked for must not outlive what they are built from.
            bodies(&index.snapshot());
        }
        let all: BTreeMap<MeshKey, &Value> =
            documents.iter().chain(&other).map(|document| (MeshKey::of(document).expect("a kind"), document)).collect();
        let mut left = all.clone();
        for pick in gone {
            let key = pick.get(&all.keys().cloned().collect::<Vec<_>>()).clone();
            index.delete(&key);
            left.remove(&key);
        }
        let fresh: Vec<Value> = left.values().map(|document| (*document).clone()).collect();
        prop_assert_eq!(bodies(&index.snapshot()), bodies(&snapshot(&fresh)));
    }
}
