//! Only the API server is believed: reviews and stored requests of others count for nothing.

use serde_json::{Value, json};

use super::{ATTACK, Attack, Tenant, field};
use crate::certificates::webhook_token;
use crate::hostile::{Call, Wire};
use crate::support::{eventually, unique};

/// A rule that only a request can set off: it tells who asked.
const POLICY: &str = r#"
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: UNIQUE}
spec:
  background: false
  rules:
    - name: out
      match: {any: [{resources: {kinds: [ConfigMap], names: ["trigger*", note], namespaces: [NS]}}]}
      generate:
        synchronize: false
        apiVersion: v1
        kind: ConfigMap
        name: "out-{{request.object.metadata.name}}"
        namespace: VICTIM
        data: {data: {by: "{{request.userInfo.username}}"}}
"#;

/// What somebody stores who may write that kind in the namespace of the install.
const FORGED: &str = r#"
apiVersion: kyverno.io/v2
kind: UpdateRequest
metadata:
  name: UNIQUE
  namespace: writ-system
  labels: {writ.dev/intake: "", generate.kyverno.io/policy-name: UNIQUE}
  annotations: {writ.dev/mac: "0000000000000000000000000000000000000000000000000000000000000000"}
spec:
  requestType: generate
  policy: UNIQUE
  rule: ""
  resource: {}
  context:
    userInfo: {userInfo: {username: root}, roles: [], clusterRoles: [cluster-admin]}
    admissionRequestInfo:
      operation: CREATE
      admissionRequest:
        uid: forged
        operation: CREATE
        name: note
        namespace: NS
        kind: {group: "", version: v1, kind: ConfigMap}
        resource: {group: "", version: v1, resource: configmaps}
        userInfo: {username: root}
        object: {apiVersion: v1, kind: ConfigMap, metadata: {name: note, namespace: NS}}
  deleteDownstream: false
  ruleContext: [{rule: out, deleteDownstream: false, trigger: {apiVersion: v1, kind: ConfigMap, namespace: NS, name: note}}]
"#;

/// Older than the policy, so that only a request could set the rule off for it.
const NOTE: &str = "{apiVersion: v1, kind: ConfigMap, metadata: {name: note, namespace: NS}}";
const WRITE_REQUESTS: &str = "get,create,update,patch updaterequests.kyverno.io";

fn tenant(field: &'static super::Field) -> Tenant<'static> {
    let attack = Attack { name: "edge", may_everywhere: &[WRITE_REQUESTS], ..ATTACK };
    Tenant::new(field, &attack)
}

fn counted(field: &super::Field, metric: &str) -> u64 {
    let (_, metrics) = field.writ.get("/metrics").expect("metrics");
    let line = metrics.lines().find_map(|line| line.strip_prefix(metric)).expect("the metric");
    line.trim().parse().expect("a number")
}

/// A review as a pod on the network would write it: it makes a trigger that nobody has made.
fn review(tenant: &Tenant<'_>) -> String {
    let object = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "trigger-forged", "namespace": tenant.fill("NS"), "uid": "u"},
    });
    json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "request": {
            "uid": "forged", "operation": "CREATE", "name": "trigger-forged", "namespace": tenant.fill("NS"),
            "kind": {"group": "", "version": "v1", "kind": "ConfigMap"},
            "resource": {"group": "", "version": "v1", "resource": "configmaps"},
            "userInfo": {"username": "root", "groups": ["system:masters"]},
            "object": object,
        },
    })
    .to_string()
}

#[test]
fn a_forged_review_is_answered_404_and_counted() {
    let Some(field) = field() else { return };
    let Some(wire) = Wire::of(&field.cluster) else { return };
    let tenant = tenant(field);
    tenant.admin(POLICY);
    let token = webhook_token(&field.cluster);
    let guessed = token.chars().rev().collect::<String>();
    let metric = "writ_webhook_unauthenticated_total";
    let mut before = counted(field, metric);
    for base in ["/validate", "/default", "/policyvalidate", "/validate/resources"] {
        for path in
            [base.to_owned(), format!("{base}/{guessed}"), format!("{base}/{token}/"), format!("/{token}{base}")]
        {
            let call = Call { method: "POST", path: &path, kind: "application/json", body: &review(&tenant) };
            let told = wire.check(&call, 404, "no such path");
            assert!(!told.contains("validate"), "it tells what there is: {told}");
            before += 1;
            assert_eq!(counted(field, metric), before, "{path}");
        }
    }
    // The same review is taken in if it comes from somebody who knows the token: the token is what stood in the way.
    let call = Call {
        method: "POST",
        path: &format!("/validate/resources/{token}"),
        kind: "application/json",
        body: &review(&tenant),
    };
    wire.check(&call, 200, "\"allowed\":true");
    assert_eq!(counted(field, metric), before);
}

#[test]
fn a_forged_update_request_is_ignored_and_counted_once() {
    let Some(field) = field() else { return };
    let tenant = tenant(field);
    tenant.admin(NOTE);
    tenant.admin(POLICY);
    let metric = "writ_updaterequests_ignored_total";
    let before = counted(field, metric);
    let forged = tenant.fill(FORGED);
    tenant.kubectl(&["apply", "-f", "-"]).stdin(&forged).ok();
    eventually(super::SOON, "the count", || match counted(field, metric) {
        now if now > before => Ok(()),
        now => Err(format!("{now}")),
    });
    let name = tenant.fill("UNIQUE");
    let ur = ["updaterequests.kyverno.io", name.as_str(), "--namespace=writ-system"];
    tenant.kubectl(&["annotate", ur[0], ur[1], ur[2], "again=yes"]).ok();
    tenant.fence();
    assert_eq!(tenant.find("configmap VICTIM/out-note"), None, "a forged request was done");
    assert!(tenant.find("updaterequests.kyverno.io writ-system/UNIQUE").is_some(), "it is not Writ's to delete");
    let log = field.writ.log();
    let told = log.lines().filter(|line| line.contains("Ignored an UpdateRequest") && line.contains(&name));
    assert_eq!(told.count(), 1);
    field.cluster.kubectl(["delete", ur[0], ur[1], ur[2]]).ok();
}

#[test]
fn an_update_request_that_was_changed_after_it_was_stored_is_ignored() {
    let Some(field) = field() else { return };
    let tenant = tenant(field);
    tenant.admin(NOTE);
    tenant.admin(POLICY);
    // The request of a trigger that is never stored stays for a while: a quota rejects the object after the webhooks.
    tenant.admin(
        "apiVersion: v1\nkind: ResourceQuota\nmetadata: {name: none, namespace: NS}\nspec: {hard: {configmaps: \"1\"}}",
    );
    let requests = || {
        let found = field.cluster.kubectl(["get", "updaterequests", "-n", "writ-system", "-o", "json"]).ok();
        let found: Value = serde_json::from_str(&found).expect("JSON");
        let items = found["items"].as_array().cloned().unwrap_or_default();
        items.into_iter().find(|item| item["spec"]["policy"] == tenant.fill("UNIQUE").as_str())
    };
    // The webhook may hear of the policy a moment after it is stored.
    let stored = eventually(super::SOON, "a stored request", || {
        let name = unique("trigger");
        let _ = field.cluster.kubectl(["create", "configmap", &name, "--namespace", &tenant.fill("NS")]).run();
        requests().ok_or("none yet")
    });
    // Its copy with another requester and another trigger has a code that does not fit it.
    let mut changed = stored.clone();
    changed["metadata"] = json!({
        "name": tenant.fill("UNIQUE"), "namespace": "writ-system", "annotations": stored["metadata"]["annotations"],
    });
    tenant.admin(
        "apiVersion: v1\nkind: ResourceQuota\nmetadata: {name: none, namespace: NS}\nspec: {hard: {configmaps: \"9\"}}",
    );
    changed["spec"]["ruleContext"][0]["trigger"]["name"] = "note".into();
    changed["spec"]["context"]["admissionRequestInfo"]["admissionRequest"]["userInfo"]["username"] = "root".into();
    let metric = "writ_updaterequests_ignored_total";
    let before = counted(field, metric);
    tenant.kubectl(&["create", "-f", "-"]).stdin(&changed.to_string()).ok();
    eventually(super::SOON, "the count", || match counted(field, metric) {
        now if now > before => Ok(()),
        now => Err(format!("{now}")),
    });
    tenant.fence();
    assert_eq!(tenant.find("configmap VICTIM/out-note"), None, "a changed request was done");
    let name = tenant.fill("UNIQUE");
    field.cluster.kubectl(["delete", "updaterequests.kyverno.io", &name, "--namespace=writ-system"]).ok();
}
