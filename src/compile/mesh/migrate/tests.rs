use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::compile::Findings;
use crate::compile::mesh::proxy_patch;
use crate::compile::mesh::proxy_template;
use crate::compile::reader::Node;
use crate::compile::way::Ways;
use crate::core::json::{self, Tree};
use crate::core::mesh::policy::Role;
use crate::core::mesh::target_ref::TargetRef;

fn settings() -> Settings {
    Settings { system_namespace: "kuma-system".to_owned() }
}

/// Modifications as people write them in templates, each with an equal in a MeshProxyPatch.
fn modifications() -> impl Strategy<Value = Value> {
    let origin = prop_oneof![
        Just(json!({})),
        Just(json!({"side": "inbound"})),
        Just(json!({"origin": "outbound"})),
        Just(json!({"origin": "", "side": "inbound"})),
        Just(json!({"origin": "inbound", "side": ""})),
        Just(json!({"origin": "inbound", "side": "inbound"})),
    ];
    let value = prop_oneof![
        Just(json!("connectTimeout: 3s\nlbPolicy: RANDOM\n")),
        Just(json!({"connectTimeout": "3s", "dnsRefreshRate": "1s"})),
    ];
    let cluster = (origin.clone(), value).prop_map(|(mut criteria, value)| {
        criteria["name"] = json!("");
        json!({"cluster": {"operation": "patch", "match": criteria, "value": value}})
    });
    let filter = prop_oneof![Just("type"), Just("name")];
    let filter = (origin, filter, prop_oneof![Just("networkFilter"), Just("httpFilter")]).prop_map(
        |(mut criteria, spelling, target)| {
            criteria[spelling] = json!("envoy.filters.network.rbac");
            criteria["listenerName"] = json!("");
            json!({target: {"operation": "remove", "match": criteria}})
        },
    );
    let others = prop_oneof![
        Just(json!({"virtualHost": {"operation": "remove"}})),
        Just(json!({"listener": {"operation": "Remove", "match": {"tags": {"a": "*"}}}})),
        Just(json!({"cluster": {"operation": "add", "value": {"name": "extra", "connectTimeout": "1s"}}})),
        Just(json!({"cluster": {"operation": "patch", "jsonPatches": [{"op": "remove", "path": "/name"}]}})),
    ];
    prop_oneof![cluster, filter, others]
}

proptest! {
    /// The modifications of the patch are the very ones of the template.
    #[test]
    fn a_template_and_its_patch_modify_the_same(
        list in proptest::collection::vec(modifications(), 1..5), universal in any::<bool>(), block in any::<bool>(),
    ) {
        let content = json!({
            "selectors": [{"match": {"kuma.io/service": "*"}}],
            "conf": {"imports": ["default-proxy"], "modifications": list},
        });
        let mut document = if universal {
            json!({"type": "ProxyTemplate", "mesh": "default", "name": "t"})
        } else {
            json!({"apiVersion": "kuma.io/v1alpha1", "kind": "ProxyTemplate", "mesh": "default", "metadata": {"name": "t"}})
        };
        if universal {
            document["selectors"] = content["selectors"].clone();
            document["conf"] = content["conf"].clone();
        } else {
            document["spec"] = content.clone();
        }
        let mut findings = Findings::default();
        let template = {
            let (content, ways) = (json::Document::from(&content), Ways::default());
            proxy_template::compile::<Value>(&Node::new(Some(content.root()), ways.root()), &mut findings)
        };
        prop_assert_eq!(findings.errors, vec![]);

        let text = if block { serde_saphyr::to_string(&document).expect("YAML") } else { document.to_string() };
        let migration = migrate(&text, &settings()).expect("good YAML");
        prop_assert!(migration.documents.iter().all(|document| document.remaining.is_empty()), "{:?}", migration.documents);
        let patch = yaml::read_value(&migration.text).expect("good YAML");
        let (patch, ways) = (json::Document::from(&patch), Ways::default());
        let spec = Node::new(patch.root().get("spec"), ways.root());
        let mut findings = Findings::default();
        let resource = crate::compile::mesh::Resource { content: spec, role: Role::System };
        let patch = proxy_patch::compile(&resource, &mut findings);
        prop_assert_eq!(findings.errors, vec![]);
        let patch = patch.expect("a patch");
        prop_assert_eq!(patch.modifications, template.modifications);
        prop_assert_eq!(patch.target, TargetRef::WHOLE_MESH);
    }
}
