//! Work that others store in the cluster.

use super::rules::Rule;
use super::stage;
use crate::support::unique;

fn request(stage: &super::Stage<'_>, policy: &str, trigger: &str, uid: &str) -> String {
    let name = unique("ur-test");
    let yaml = format!(
        r#"
apiVersion: kyverno.io/v2
kind: UpdateRequest
metadata: {{name: {name}, namespace: writ-system}}
spec:
  requestType: generate
  policy: {policy}
  rule: ""
  resource: {{}}
  context: {{}}
  deleteDownstream: false
  ruleContext:
    - rule: out
      deleteDownstream: false
      trigger: {{apiVersion: v1, kind: ConfigMap, namespace: {}, name: "{trigger}", uid: "{uid}"}}
"#,
        stage.ns.name
    );
    stage.cluster.kubectl(["create", "-f", "-"]).stdin(&yaml).ok();
    name
}

#[test]
fn a_request_of_others_is_left_alone() {
    let Some(stage) = stage("request") else { return };
    // Older than the policy: only a request could set the rule off for it.
    stage.trigger("a", "1");
    let policy = stage.policy(Rule::data("out"));
    let name = request(&stage, &policy, "a", &stage.field("configmap", "a", ".metadata.uid").expect("there"));
    let found = || {
        let told = "-o=jsonpath={.metadata.name} {.status}";
        stage.cluster.kubectl(["get", "ur", &name, "-n", "writ-system", "--ignore-not-found", told]).ok()
    };
    // What comes after it is done.
    stage.trigger("b", "1");
    stage.appears("secret", "out-b");
    assert_eq!(found().trim(), name, "neither done nor removed, and without a status");
    stage.is_absent("secret", "out-a");
    stage.cluster.kubectl(["delete", "ur", &name, "-n", "writ-system"]).ok();
}
