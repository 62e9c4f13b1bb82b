//! A namespaced Policy stays in its namespace: scope comes from the API server, not from text.

use super::{ATTACK, Attack, run};

#[test]
fn a_namespaced_policy_writes_nothing_cluster_scoped() {
    run(&[Attack {
        name: "data: a cluster-scoped kind by variable, with metadata.namespace",
        may: &["* *.*"],
        attempt: r#"
apiVersion: kyverno.io/v1
kind: Policy
metadata: {name: escape, namespace: NS}
spec:
  rules:
    - name: out
      match: {any: [{resources: {kinds: [ConfigMap], names: [start]}}]}
      generate:
        apiVersion: v1
        kind: "{{ request.object.data.kind }}"
        name: UNIQUE-made
        namespace: NS
        data: {}
"#,
        trigger: r#"
apiVersion: v1
kind: ConfigMap
metadata: {name: start, namespace: NS}
data: {kind: Namespace}
"#,
        never: &["namespace UNIQUE-made"],
        ..ATTACK
    }]);
}
