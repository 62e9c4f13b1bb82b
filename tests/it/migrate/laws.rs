//! What holds for every text: migrating twice is migrating once, what Kuma 3 still refuses was told, and what needs nothing
//! stays as it is.

use proptest::prelude::*;
use serde_json::{Value, json};
use writ::compile::KumaVersion;
use writ::core::yaml;

use super::{check_result, migrate};

/// Policies in which good and bad forms are mixed, so that most of them are accepted as they are.
fn policies() -> impl Strategy<Value = Value> {
    let top = prop_oneof![
        Just(json!({"kind": "Mesh"})),
        Just(json!({"kind": "Mesh", "proxyTypes": ["Sidecar", "Gateway"]})),
        Just(json!({"kind": "Mesh", "proxyTypes": ["Sidecar"]})),
        Just(json!({"kind": "MeshSubset", "tags": {"kuma.io/zone": "east"}})),
        Just(json!({"kind": "MeshSubset", "tags": {"app": "web"}})),
        Just(json!({"kind": "MeshSubset", "labels": {"app": "web"}})),
        Just(json!({"kind": "MeshService", "name": "web"})),
        Just(json!({"kind": "Dataplane", "name": "web", "namespace": "shop"})),
        Just(json!({"kind": "MeshHTTPRoute", "name": "route"})),
    ];
    let target = prop_oneof![
        Just(json!({"kind": "Mesh"})),
        Just(json!({"kind": "MeshService", "name": "backend"})),
        Just(json!({"kind": "MeshService", "name": "backend_shop_svc_80"})),
        Just(json!({"kind": "MeshService", "labels": {"a": "b"}})),
        Just(json!({"kind": "MeshHTTPRoute", "name": "route", "namespace": "other"})),
        Just(json!({"kind": "MeshExternalService", "name": "pay"})),
    ];
    let conf = Just(json!({"http": {"requestTimeout": "1s"}}));
    let entry = (target, conf.clone()).prop_map(|(target, conf)| json!({"targetRef": target, "default": conf}));
    let from = conf.prop_map(|conf| json!({"targetRef": {"kind": "Mesh"}, "default": conf}));
    let lists = prop_oneof![
        proptest::collection::vec(entry, 1..4).prop_map(|to| ("to", to)),
        proptest::collection::vec(from, 1..3).prop_map(|from| ("from", from)),
    ];
    (proptest::option::of(top), lists, any::<bool>(), proptest::option::of(Just("shop"))).prop_map(
        |(top, (name, list), universal, namespace)| {
            let mut spec = json!({name: list});
            if let Some(top) = top {
                spec["targetRef"] = top;
            }
            if universal {
                return json!({"type": "MeshTimeout", "name": "t", "mesh": "default", "spec": spec});
            }
            let mut policy =
                json!({"apiVersion": "kuma.io/v1alpha1", "kind": "MeshTimeout", "metadata": {"name": "t"}, "spec": spec});
            if let Some(namespace) = namespace {
                policy["metadata"]["namespace"] = json!(namespace);
            }
            policy
        },
    )
}

/// Writes a value in one of the ways that people write YAML.
fn write(value: &Value, style: u8) -> String {
    match style {
        0 => value.to_string(),
        1 => serde_json::to_string_pretty(value).expect("JSON"),
        2 => serde_saphyr::to_string(value).expect("YAML"),
        // Comments on every line of a block: none of them may be lost where nothing is rewritten.
        _ => serde_saphyr::to_string(value).expect("YAML").lines().map(|line| format!("{line} # c\n")).collect(),
    }
}

proptest! {
    #[test]
    fn once_is_enough_and_nothing_is_left_out_in_silence(policies in proptest::collection::vec((policies(), 0_u8..4), 1..4)) {
        let texts: Vec<_> = policies.iter().map(|(policy, style)| write(policy, *style)).collect();
        let text = texts.join("\n---\n");
        let migration = migrate(&text);
        check_result("a stream", &migration);
        prop_assert_eq!(migration.text.matches("\n---\n").count(), policies.len() - 1);
    }

    #[test]
    fn what_kuma_3_takes_is_not_touched(policy in policies(), style in 0_u8..4) {
        let text = write(&policy, style);
        let findings = writ::compile::check(&policy).expect("a policy").seen_by(KumaVersion::Three);
        let migration = migrate(&text);
        if findings.errors.is_empty() {
            prop_assert_eq!(&migration.text, &text);
            prop_assert!(migration.documents.is_empty());
        }
    }

    #[test]
    fn nothing_but_references_and_lists_changes(policy in policies(), style in 0_u8..4) {
        let migration = migrate(&write(&policy, style));
        let migrated = yaml::read_value(&migration.text).expect("good YAML");
        prop_assert_eq!(confs(&migrated), confs(&policy));
        for field in ["type", "name", "mesh", "apiVersion", "kind", "metadata"] {
            prop_assert_eq!(migrated.get(field), policy.get(field));
        }
    }

    #[test]
    fn no_text_panics(text in "[\\[\\]{}:,&*|'\"#a-c \\n\\-é]{0,60}", key in "(type|kind|spec|from|to|name)") {
        let text = format!("type: MeshTLS\n{key}: {text}\n");
        let settings = writ::compile::mesh::migrate::Settings { system_namespace: "s".to_owned() };
        let _ = writ::compile::mesh::migrate::migrate(&text, &settings);
    }
}

/// What the policy does, in order, wherever it says so.
fn confs(policy: &Value) -> Vec<Value> {
    let lists = ["to", "from", "rules"].iter().filter_map(|list| policy["spec"][*list].as_array());
    lists.flatten().map(|entry| entry["default"].clone()).collect()
}
