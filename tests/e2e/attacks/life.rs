//! Nothing runs that was not admitted, own writes are known by facts, and nothing is deleted by mistake.

use super::{ATTACK, Attack, SOON, Tenant, WRITE_POLICIES, field, run};
use crate::support::eventually;

/// Two rules of the admin: one makes something for each trigger, the other makes what would set it off again.
const RULES: &str = r#"
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: UNIQUE}
spec:
  rules:
    - name: out
      match: {any: [{resources: {kinds: [ConfigMap], names: ["trigger*"], namespaces: [NS]}}]}
      generate:
        apiVersion: v1
        kind: ConfigMap
        name: "out-{{request.object.metadata.name}}"
        namespace: NS
        synchronize: true
        data: {data: {key: value}}
    - name: chain
      match: {any: [{resources: {kinds: [ConfigMap], names: ["chain*"], namespaces: [NS]}}]}
      generate:
        apiVersion: v1
        kind: ConfigMap
        name: "chain-{{request.object.metadata.name}}"
        namespace: NS
        synchronize: true
        data: {data: {key: value}}
"#;

/// The labels of what rule `out` makes for a trigger.
const FORGED: &str = "app.kubernetes.io/managed-by: kyverno, generate.kyverno.io/policy-name: UNIQUE, \
    generate.kyverno.io/policy-namespace: \"\", generate.kyverno.io/rule-name: RULE, generate.kyverno.io/trigger-uid: UID, \
    generate.kyverno.io/trigger-group: \"\", generate.kyverno.io/trigger-version: v1, \
    generate.kyverno.io/trigger-kind: ConfigMap, generate.kyverno.io/trigger-namespace: NS";

const WRITE_MAPS: &str = "get,create,update,patch,delete configmaps";

fn tenant(name: &'static str, may: &'static [&'static str]) -> Option<Tenant<'static>> {
    field().map(|field| Tenant::new(field, &Attack { name, may, ..ATTACK }))
}

fn forged(rule: &str, uid: &str) -> String {
    FORGED.replace("RULE", rule).replace("UID", uid)
}

/// Applies objects as the tenant.
fn apply(tenant: &Tenant<'_>, text: &str, more: &[&str]) {
    tenant.kubectl(&[&["apply", "-f", "-"], more].concat()).stdin(&tenant.fill(text)).ok();
}

fn uid(tenant: &Tenant<'_>, object: &str) -> String {
    let found: serde_json::Value = serde_json::from_str(&tenant.find(object).expect("the object")).expect("JSON");
    found["metadata"]["uid"].as_str().expect("a UID").to_owned()
}

#[test]
fn no_name_and_no_label_makes_a_trigger_writs_own() {
    let Some(tenant) = tenant("forged triggers", &[WRITE_MAPS]) else { return };
    tenant.admin(RULES);
    let appears = |name: &str| {
        eventually(SOON, name, || tenant.find(&format!("configmap NS/{name}")).ok_or("it does not exist"));
    };
    let map = |name: &str, labels: &str| {
        format!("{{apiVersion: v1, kind: ConfigMap, metadata: {{name: {name}, namespace: NS, labels: {{{labels}}}}}}}")
    };
    apply(&tenant, &map("trigger-plain", ""), &[]);
    appears("out-trigger-plain");
    apply(&tenant, &map("trigger-manager", ""), &["--server-side", "--field-manager=kyverno-generate"]);
    appears("out-trigger-manager");
    tenant
        .kubectl(&[
            "create",
            "configmap",
            "trigger-created",
            "--field-manager=kyverno-generate",
            "-n",
            &tenant.fill("NS"),
        ])
        .ok();
    appears("out-trigger-created");
    let owner = uid(&tenant, "configmap NS/trigger-plain");
    for (name, rule) in [("trigger-labelled", "out"), ("trigger-other", "chain")] {
        apply(&tenant, &map(name, &forged(rule, &owner)), &["--server-side", "--field-manager=kyverno-generate"]);
        appears(&format!("out-{name}"));
    }
    // What Writ makes itself sets nothing off.
    apply(&tenant, &map("chain-a", ""), &[]);
    appears("chain-chain-a");
    tenant.fence();
    assert_eq!(tenant.find("configmap NS/chain-chain-chain-a"), None, "a rule feeds on itself");
}

#[test]
fn labels_that_somebody_forges_delete_nothing() {
    let Some(tenant) = tenant("forged downstream", &["get,create,patch,delete configmaps"]) else { return };
    tenant.admin(RULES);
    tenant
        .admin("{apiVersion: v1, kind: ConfigMap, metadata: {name: precious, namespace: VICTIM}, data: {key: value}}");
    apply(&tenant, "{apiVersion: v1, kind: ConfigMap, metadata: {name: trigger-a, namespace: NS}}", &[]);
    eventually(SOON, "downstream", || tenant.find("configmap NS/out-trigger-a").ok_or("it does not exist"));
    // Somebody who may label the victim's object, and may not delete it.
    let labels = forged("out", &uid(&tenant, "configmap NS/trigger-a"));
    tenant.admin(&format!(
        "{{apiVersion: v1, kind: ConfigMap, metadata: {{name: precious, namespace: VICTIM, labels: {{{labels}}}}}}}"
    ));
    tenant.fence();
    tenant.kubectl(&["delete", "configmap", "trigger-a", "-n", &tenant.fill("NS")]).ok();
    eventually(SOON, "the end of downstream", || match tenant.find("configmap NS/out-trigger-a") {
        None => Ok(()),
        Some(_) => Err("it is there"),
    });
    tenant.fence();
    assert!(tenant.find("configmap VICTIM/precious").is_some(), "labels alone have deleted it");
}

/// A policy that its author may write, as far as it does nothing that he may not.
const HARMLESS: &str = r#"
apiVersion: kyverno.io/v1
kind: Policy
metadata: {name: UNIQUE, namespace: NS, finalizers: [example.org/hold]}
spec:
  rules:
    - name: out
      match: {any: [{resources: {kinds: [ConfigMap], names: [start]}}]}
      generate: {apiVersion: v1, kind: ConfigMap, name: made, namespace: NS, data: {data: {key: value}}}
"#;

#[test]
fn a_policy_that_is_being_deleted_is_checked_like_any_other() {
    let may = &[WRITE_POLICIES, "get,list,watch,create,update,patch,delete configmaps"];
    let Some(tenant) = tenant("deleted policy", may) else { return };
    apply(&tenant, HARMLESS, &[]);
    let (ns, name) = (tenant.fill("NS"), tenant.fill("UNIQUE"));
    tenant.kubectl(&["delete", "policies.kyverno.io", &name, "-n", &ns, "--wait=false"]).ok();
    let patch = |patch: &str| {
        tenant.kubectl(&["patch", "policies.kyverno.io", &name, "-n", &ns, "--type=merge", "-p", patch]).run()
    };
    let secret = r#"{"spec": {"rules": [{"name": "out", "match": {"any": [{"resources": {"kinds": ["ConfigMap"]}}]},
        "generate": {"apiVersion": "v1", "kind": "Secret", "name": "made", "namespace": "NS", "data": {"stringData": {"k": "v"}}}}]}}"#;
    let answer = patch(&tenant.fill(secret));
    assert!(
        !answer.success && answer.stderr.contains("lacks permission to create"),
        "{} {}",
        answer.stdout,
        answer.stderr
    );
    let answer = patch(r#"{"metadata": {"finalizers": []}}"#);
    assert!(answer.success, "nothing is in the way of its end: {}", answer.stderr);
}

#[test]
fn policies_of_every_namespace_are_checked() {
    let attempt = |namespace: &str| {
        HARMLESS
            .replace("namespace: NS", &format!("namespace: {namespace}"))
            .replace(", finalizers: [example.org/hold]", "")
    };
    // Rows are static: they live as long as the tests.
    let row = |namespace: &str, rejected: &'static [&'static str]| Attack {
        name: "a Policy where webhooks used not to look",
        may_everywhere: &[WRITE_POLICIES],
        attempt: attempt(namespace).leak(),
        rejected,
        ..ATTACK
    };
    run(&[
        row("kube-system", &["lacks permission to"]),
        row("writ-system", &["no rule reads or writes the namespace that Writ is installed in"]),
    ]);
}

#[test]
fn a_policy_is_asked_about_in_its_namespace_only() {
    let may = &[WRITE_POLICIES, "get,list,watch,create,update,patch,delete configmaps"];
    let Some(tenant) = tenant("webhook entries", may) else { return };
    let policy = HARMLESS.replace(", finalizers: [example.org/hold]", "");
    let policy =
        policy.replace("  rules:", "  background: false\n  webhookConfiguration: {timeoutSeconds: 30}\n  rules:");
    apply(&tenant, &policy.replace("key: value", "key: \"{{request.userInfo.username}}\""), &[]);
    let ns = tenant.fill("NS");
    eventually(SOON, "the entry", || {
        let text = tenant.find("validatingwebhookconfiguration writ-resources").unwrap_or_default();
        let configuration: serde_json::Value = serde_json::from_str(&text).map_err(|error| error.to_string())?;
        let entries = configuration["webhooks"].as_array().cloned().unwrap_or_default();
        let only = |entry: &serde_json::Value| entry["namespaceSelector"]["matchExpressions"][1].clone();
        let own = entries.iter().find(|entry| only(entry)["values"].to_string().contains(&ns));
        match own {
            Some(entry) if only(entry)["operator"] == "In" && entry["timeoutSeconds"] == 5 => Ok(()),
            other => Err(format!("{other:?}")),
        }
    });
}
