//! Work that others store in the cluster.

use super::rules::Rule;
use super::stage;
use crate::support::{eventually, unique};

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
fn a_request_of_others_is_done_and_removed() {
    let Some(stage) = stage("request") else { return };
    stage.trigger("a", "1");
    let policy = stage.policy(Rule::data("out"));
    let name = request(&stage, &policy, "a", &stage.field("configmap", "a", ".metadata.uid").expect("there"));
    stage.appears("secret", "out-a");
    eventually(super::SOON, "the end of the request", || {
        let found = stage.cluster.kubectl(["get", "ur", &name, "-n", "writ-system", "--ignore-not-found"]).ok();
        if found.is_empty() { Ok(()) } else { Err(found) }
    });
}

#[test]
fn a_request_without_a_trigger_fails_and_stays() {
    let Some(stage) = stage("request-bad") else { return };
    let policy = stage.policy(Rule::data("out"));
    let name = request(&stage, &policy, "nobody", "00000000-0000-0000-0000-000000000000");
    eventually(super::SOON, "the failure", || {
        let state =
            stage.cluster.kubectl(["get", "ur", &name, "-n", "writ-system", "-o", "jsonpath={.status.state}"]).ok();
        if state == "Failed" { Ok(()) } else { Err(state) }
    });
    stage.is_absent("secret", "out-nobody");
    stage.cluster.kubectl(["delete", "ur", &name, "-n", "writ-system"]).ok();
}
