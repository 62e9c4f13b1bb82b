//! A policy can do no more than its author.

use super::{ATTACK, Attack, WRITE_CLUSTER_POLICIES, run};

#[test]
fn an_author_copies_no_secret_that_he_may_not_read() {
    run(&[Attack {
        name: "clone: a Secret of another namespace",
        may_everywhere: &[WRITE_CLUSTER_POLICIES, "* configmaps", "create,update,delete secrets"],
        attempt: r#"
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: UNIQUE}
spec:
  rules:
    - name: out
      match: {any: [{resources: {kinds: [ConfigMap], names: [start], namespaces: [NS]}}]}
      generate:
        apiVersion: v1
        kind: Secret
        name: copy
        namespace: NS
        synchronize: true
        clone: {namespace: VICTIM, name: secret}
"#,
        rejected: &["spec.rules[0].generate.clone", "get", "secrets `secret` in namespace `VICTIM`"],
        never: &["secret NS/copy"],
        ..ATTACK
    }]);
}
