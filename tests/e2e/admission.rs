//! Generate policies at the door of a real API server: what is refused and why, what is registered, what a dry run is told,
//! and what the explaining commands say.

use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::{self, Cluster, ControlPlane, Namespace, Writ, eventually, unique};

const SOON: Duration = Duration::from_secs(10);

/// A policy whose triggers are ConfigMaps `start-…` of one namespace and whose targets are beside them.
fn policy(name: &str, namespace: &str, kind: &str, more: &str) -> String {
    format!(
        r#"
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {{name: {name}}}
spec:
  background: false
  rules:
    - name: out
      match: {{any: [{{resources: {{kinds: [ConfigMap], names: ["start-*"], namespaces: [{namespace}]}}}}]}}
      generate:
        apiVersion: v1
        kind: {kind}
        name: "out-{{{{request.object.metadata.name}}}}"
        namespace: {namespace}
        {more}
"#
    )
}

/// Lets Writ write ConfigMaps and Secrets, as people grant it.
fn granted(cluster: &Cluster, ns: &Namespace<'_>) {
    let role = unique("admission-tests");
    ns.owns("clusterrole", &role);
    let yaml = format!(
        r#"
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {{name: {role}, labels: {{rbac.writ.dev/aggregate: "true"}}}}
rules:
  - apiGroups: [""]
    resources: [configmaps, secrets]
    verbs: [get, list, watch, create, update, patch, delete]
"#
    );
    cluster.kubectl(["apply", "-f", "-"]).stdin(&yaml).ok();
    eventually(SOON, "the rights", || {
        let arguments = ["auth", "can-i", "delete", "secrets", "--as=system:serviceaccount:writ-system:writ", "-A"];
        let answer = cluster.kubectl(arguments).run();
        if answer.success { Ok(()) } else { Err(answer.stdout) }
    });
}

/// A command on a cluster: its exit code, what it said and what it talked.
pub(crate) fn writ(cluster: &Cluster, arguments: &[&str]) -> (i32, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_writ"))
        .args(arguments)
        .env("KUBECONFIG", cluster.kubeconfig())
        .output()
        .expect("writ runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code().unwrap_or(-1), text(&output.stdout), text(&output.stderr))
}

fn get(ns: &Namespace<'_>, kind: &str, name: &str) -> Result<Value, String> {
    let answer = ns.kubectl(["get", kind, name, "-o", "json"]).run();
    if answer.success { Ok(serde_json::from_str(&answer.stdout).expect("JSON")) } else { Err(answer.stderr) }
}

#[test]
fn rights_that_are_missing_are_named_and_count_once_they_are_granted() {
    let Some(cluster) = support::with_writ() else { return };
    let ns = cluster.namespace("rights");
    let name = unique("rights");
    ns.owns("clusterpolicy", &name);
    let leases = policy(&name, &ns.name, "Lease", "synchronize: true")
        .replace("apiVersion: v1\n", "apiVersion: coordination.k8s.io/v1\n");
    let refusal = format!(
        "spec.rules[0].generate: system:serviceaccount:writ-system:writ is not allowed to create, delete, get, update \
         leases.coordination.k8s.io in namespace `{}`",
        ns.name
    );
    ns.rejects(&leases, &refusal);

    let (code, role, talk) = {
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), &leases).expect("a written file");
        writ(cluster, &["rbac", file.path().to_str().expect("a path"), "--name", &name])
    };
    assert_eq!(code, 0, "{talk}");
    ns.owns("clusterrole", &name);
    cluster.kubectl(["apply", "-f", "-"]).stdin(&role).ok();
    eventually(SOON, "the role to count", || {
        let answer = ns.kubectl(["apply", "-f", "-"]).stdin(&leases).run();
        if answer.success { Ok(()) } else { Err(answer.stderr) }
    });
}

#[test]
fn authors_need_the_rights_that_their_policies_use() {
    let Some(cluster) = support::with_writ() else { return };
    let ns = cluster.namespace("author");
    granted(cluster, &ns);
    let (name, role) = (unique("author"), unique("author-role"));
    for kind in ["clusterpolicy", "clusterrolebinding"] {
        ns.owns(kind, if kind == "clusterpolicy" { &name } else { &role });
    }
    ns.owns("clusterrole", &role);
    ns.kubectl(["create", "serviceaccount", "author"]).ok();
    let account = format!("--serviceaccount={}:author", ns.name);
    cluster.kubectl(["create", "clusterrole", &role, "--verb=*", "--resource=clusterpolicies.kyverno.io"]).ok();
    cluster.kubectl(["create", "clusterrolebinding", &role, &format!("--clusterrole={role}"), &account]).ok();
    let author = cluster.acting_as(&ns.name, "author");
    let yaml = policy(&name, &ns.name, "Secret", "clone: {name: key, namespace: kube-system}");
    let refusal = author.kubectl(["apply", "-f", "-"]).stdin(&yaml).run();
    assert!(!refusal.success);
    for part in [
        "lacks permission to get secrets `key` in namespace `kube-system`",
        "lacks permission to create secrets in namespace",
    ] {
        assert!(refusal.stderr.contains(part), "{}", refusal.stderr);
    }
    ns.accepts(&yaml);

    // Somebody who changes nothing is asked nothing.
    let labelled = author.kubectl(["label", "clusterpolicy", &name, "team=x"]).run();
    assert!(labelled.success, "{}", labelled.stderr);
    cluster.kubectl(["delete", "clusterpolicy", &name]).ok();

    let rights = format!("{role}-secrets");
    for kind in ["clusterrole", "clusterrolebinding"] {
        ns.owns(kind, &rights);
    }
    cluster.kubectl(["create", "clusterrole", &rights, "--verb=*", "--resource=secrets,configmaps"]).ok();
    cluster.kubectl(["create", "clusterrolebinding", &rights, &format!("--clusterrole={rights}"), &account]).ok();
    eventually(SOON, "the author's rights to count", || {
        let answer = author.kubectl(["apply", "-f", "-"]).stdin(&yaml).run();
        if answer.success { Ok(()) } else { Err(answer.stderr) }
    });
}

#[test]
fn conditions_are_compiled_and_unknown_kinds_waited_for() {
    let Some(cluster) = support::with_writ() else { return };
    let ns = cluster.namespace("conditions");
    granted(cluster, &ns);
    let name = unique("conditions");
    ns.owns("clusterpolicy", &name);
    let with = |expression: &str| {
        let condition =
            format!("webhookConfiguration: {{matchConditions: [{{name: c, expression: \"{expression}\"}}]}}\n  rules:");
        policy(&name, &ns.name, "Secret", "data: {}").replace("rules:", &condition)
    };
    ns.rejects(&with("object.["), "spec.webhookConfiguration.matchConditions: [0].expression");
    ns.accepts(&with("object.metadata.name != 'x'"));

    let unknown = policy(&name, &ns.name, "Secret", "data: {}").replace("[ConfigMap]", "[example.org/v1/Widget]");
    cluster.kubectl(["delete", "clusterpolicy", &name]).ok();
    let said = ns.accepts(&unknown);
    assert!(said.contains("the cluster has no kind `example.org/v1/Widget`"), "{said}");
}

#[test]
fn a_request_right_after_the_policy_is_not_missed() {
    let Some(cluster) = support::with_writ() else { return };
    let ns = cluster.namespace("intake");
    granted(cluster, &ns);
    let name = unique("intake");
    ns.owns("clusterpolicy", &name);
    let more = "synchronize: true\n        data: {stringData: {user: \"{{request.userInfo.username}}\"}}";
    ns.accepts(&policy(&name, &ns.name, "Secret", more));
    // Only admission knows who asked: had the request not come through it, there would be nothing.
    ns.kubectl(["create", "configmap", "start-a"]).ok();
    let secret = eventually(SOON, "the secret", || get(&ns, "secret", "out-start-a"));
    assert_eq!(secret["metadata"]["labels"]["generate.kyverno.io/rule-name"], "out");
    assert!(secret["data"]["user"].as_str().is_some_and(|user| !user.is_empty()));
    eventually(SOON, "the end of the stored request", || {
        let selector = format!("-l=generate.kyverno.io/policy-name={name}");
        let left = cluster.kubectl(["get", "updaterequests", "-A", &selector, "--no-headers"]).ok();
        if left.is_empty() { Ok(()) } else { Err(left) }
    });
    ns.kubectl(["delete", "configmap", "start-a"]).ok();
    eventually(SOON, "the end of the secret", || match get(&ns, "secret", "out-start-a") {
        Ok(found) => Err(found.to_string()),
        Err(_) => Ok(()),
    });
}

#[test]
fn entries_fail_open_and_belong_to_the_install() {
    let Some(cluster) = support::with_writ() else { return };
    let ns = cluster.namespace("entries");
    granted(cluster, &ns);
    let name = unique("entries");
    ns.owns("clusterpolicy", &name);
    ns.accepts(&policy(&name, &ns.name, "Secret", "data: {}"));
    let text = cluster.kubectl(["get", "validatingwebhookconfigurations", "writ-resources", "-o", "json"]).ok();
    let configuration: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(configuration["metadata"]["ownerReferences"][0]["name"], "writ");
    let entries = configuration["webhooks"].as_array().expect("a list");
    let preview = entries.iter().find(|entry| entry["name"] == "preview.writ.dev").expect("an entry for previews");
    assert_eq!(preview["matchConditions"][0]["expression"], "has(request.dryRun) && request.dryRun");
    for entry in entries {
        assert_eq!(entry["failurePolicy"], "Ignore", "{entry}");
        let excluded = &entry["namespaceSelector"]["matchExpressions"][0]["values"];
        assert_eq!(*excluded, json!(["kube-system", "kube-node-lease", "writ-system"]));
    }
}

#[test]
fn settings_take_effect_while_writ_runs() {
    // A cluster of its own: settings are for everybody.
    let Some(cluster) = ControlPlane::start() else { return };
    let writ = Writ::start(&cluster, &["--exception-namespace=writ-system"]);
    let ns = cluster.namespace("settings");
    granted(&cluster, &ns);
    let name = unique("settings");
    ns.accepts(&policy(&name, &ns.name, "Secret", "data: {}"));
    let set = |data: Value| {
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "writ", "namespace": "writ-system"},
                         "data": data});
        cluster.kubectl(["apply", "-f", "-"]).stdin(&map.to_string()).ok();
    };
    let becomes = |what: &str, test: &dyn Fn(&Value) -> bool| {
        eventually(SOON, what, || {
            let text = cluster.kubectl(["get", "validatingwebhookconfigurations", "writ-resources", "-o", "json"]).ok();
            let configuration: Value = serde_json::from_str(&text).expect("JSON");
            if test(&configuration) { Ok(()) } else { Err(text + &writ.log()) }
        });
    };
    set(json!({
        "webhooks": r#"{"namespaceSelector": {"matchLabels": {"team": "a"}}}"#,
        "webhookLabels": r#"{"example.com/owner": "a"}"#,
        "matchConditions": r#"[{"name": "not-nodes", "expression": "!('system:nodes' in request.userInfo.groups)"}]"#,
    }));
    becomes("the settings in the entries", &|configuration| {
        let entry = &configuration["webhooks"][0];
        let (selector, conditions) = (&entry["namespaceSelector"], &entry["matchConditions"]);
        configuration["metadata"]["labels"]["example.com/owner"] == "a"
            && selector["matchLabels"]["team"] == "a"
            && selector["matchExpressions"][0]["values"] == json!(["kube-node-lease", "writ-system"])
            && conditions.as_array().and_then(|list| list.last()).is_some_and(|last| last["name"] == "not-nodes")
    });
    set(json!({"matchConditions": r#"[{"name": "bad", "expression": "]"}]"#}));
    becomes("the entries as they were", &|configuration| {
        let entry = &configuration["webhooks"][0];
        configuration["metadata"]["labels"].get("example.com/owner").is_none()
            && entry["namespaceSelector"]["matchExpressions"][0]["values"]
                == json!(["kube-system", "kube-node-lease", "writ-system"])
            && entry["matchConditions"].as_array().is_some_and(|list| list.len() == 1)
    });
    assert!(writ.log().contains("data.matchConditions"), "{}", writ.log());

    let broken = json!({"apiVersion": "kyverno.io/v2", "kind": "PolicyException",
                        "metadata": {"name": "e", "namespace": "writ-system"},
                        "spec": {"exceptions": [{"policyName": name, "ruleNames": []}],
                                 "match": {"any": [{"resources": {"kinds": ["Secret"]}}]}}});
    let answer = cluster.kubectl(["apply", "-f", "-"]).stdin(&broken.to_string()).run();
    assert!(!answer.success && answer.stderr.contains("spec.exceptions[0].ruleNames"), "{answer:?}");

    for part in [
        "kyverno_client_queries_total{operation=\"watch\"",
        "kyverno_admission_requests_total{request_allowed=\"false\"} 1",
        &format!("policy_name=\"{name}\",rule_name=\"out\",rule_type=\"generate\",status_ready=\"true\"}} 1"),
    ] {
        eventually(SOON, part, || {
            let (_, metrics) = writ.get("/metrics")?;
            if metrics.contains(part) { Ok(()) } else { Err(metrics) }
        });
    }
    cluster.kubectl(["delete", "clusterpolicy", &name]).ok();
}

#[test]
fn dry_runs_and_commands_tell_what_rules_do() {
    let Some(cluster) = support::with_writ() else { return };
    let ns = cluster.namespace("tell");
    granted(cluster, &ns);
    let name = unique("tell");
    ns.owns("clusterpolicy", &name);
    let data = |value: &str| {
        format!("synchronize: true\n        generateExisting: true\n        data: {{stringData: {{k: {value}}}}}")
    };
    let yaml = policy(&name, &ns.name, "Secret", &data("one"));
    ns.accepts(&yaml);
    let target = format!("v1 Secret {}/out-start-a", ns.name);
    eventually(SOON, "the preview", || {
        let answer = ns.kubectl(["create", "configmap", "start-a", "--dry-run=server"]).run();
        let expected = format!("policy {name}, rule out: would create {target}");
        if answer.stderr.contains(&expected) { Ok(()) } else { Err(answer.stderr) }
    });
    assert!(get(&ns, "secret", "out-start-a").is_err(), "a dry run generates nothing");

    ns.kubectl(["create", "configmap", "start-a"]).ok();
    eventually(SOON, "the secret", || get(&ns, "secret", "out-start-a"));
    let (code, said, talk) = writ(cluster, &["explain", "secret/out-start-a", "-n", &ns.name]);
    assert_eq!(code, 0, "{talk}");
    for part in [&format!("made by policy {name}, rule out"), &format!("for trigger v1 ConfigMap {}/start-a", ns.name)]
    {
        assert!(said.contains(part.as_str()), "{said}");
    }
    let (_, said, _) = writ(cluster, &["explain", "cm/start-a", "-n", &ns.name]);
    assert!(said.contains(&format!("{target}: there, as it should be")), "{said}");
    ns.kubectl(["create", "configmap", "other"]).ok();
    let (_, said, _) = writ(cluster, &["explain", "configmap/other", "-n", &ns.name]);
    assert!(
        said.contains(&format!("policy {name}, rule out: does not apply: name \"other\" does not match \"start-*\"")),
        "{said}"
    );

    let file = tempfile::NamedTempFile::new().expect("a file");
    let path = file.path().to_str().expect("a path");
    std::fs::write(file.path(), &yaml).expect("a written file");
    let (code, said, talk) = writ(cluster, &["plan", path]);
    assert_eq!(code, 0, "{said}{talk}");
    std::fs::write(file.path(), policy(&name, &ns.name, "Secret", &data("two"))).expect("a written file");
    let (code, said, _) = writ(cluster, &["plan", path]);
    assert_eq!(code, 1);
    assert!(said.contains(&format!("update {target}")) && said.contains("(hidden, "), "{said}");
    let without = yaml.replace("name: out\n", "name: other\n").replace("out-{{", "other-{{");
    std::fs::write(file.path(), without).expect("a written file");
    let (code, said, _) = writ(cluster, &["plan", path, "-o", "json"]);
    let plan: Value = serde_json::from_str(&said).expect("JSON");
    assert_eq!(code, 1);
    let actions: Vec<(&str, &str)> = plan["steps"]
        .as_array()
        .expect("steps")
        .iter()
        .map(|step| (step["action"].as_str().unwrap_or_default(), step["object"]["name"].as_str().unwrap_or_default()))
        .collect();
    assert_eq!(actions, [("create", "other-start-a"), ("delete", "out-start-a")]);
}

#[test]
fn apply_looks_up_what_the_files_do_not_have_and_writes_nothing() {
    let Some(cluster) = support::with_writ() else { return };
    let ns = cluster.namespace("apply");
    ns.kubectl(["create", "configmap", "settings", "--from-literal=team=blue"]).ok();
    ns.kubectl(["create", "secret", "generic", "source", "--from-literal=k=v"]).ok();
    let folder = tempfile::tempdir().expect("a folder");
    let (policy, trigger) = (folder.path().join("policy.yaml"), folder.path().join("trigger.yaml"));
    let namespace = &ns.name;
    let yaml = format!(
        r#"
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {{name: looks-up}}
spec:
  background: false
  rules:
    - name: data
      match: {{any: [{{resources: {{kinds: [Namespace]}}}}]}}
      context:
        - name: settings
          configMap: {{name: settings, namespace: {namespace}}}
        - name: count
          apiCall: {{urlPath: "/api/v1/namespaces/{namespace}/secrets", jmesPath: "items | length(@)"}}
      generate:
        apiVersion: v1
        kind: ConfigMap
        name: out
        namespace: "{{{{request.object.metadata.name}}}}"
        data: {{data: {{team: "{{{{settings.data.team}}}}", secrets: "{{{{to_string(count)}}}}"}}}}
    - name: clone
      match: {{any: [{{resources: {{kinds: [Namespace]}}}}]}}
      generate:
        apiVersion: v1
        kind: Secret
        name: copy
        namespace: "{{{{request.object.metadata.name}}}}"
        clone: {{name: source, namespace: {namespace}}}
"#
    );
    std::fs::write(&policy, yaml).expect("a written file");
    std::fs::write(&trigger, "{apiVersion: v1, kind: Namespace, metadata: {name: nowhere}}").expect("a written file");
    let (policy, trigger) = (policy.to_str().expect("a path"), trigger.to_str().expect("a path"));

    let (code, said, talk) = writ(cluster, &["apply", policy, "-r", trigger, "--cluster", "-o", "json"]);
    assert_eq!(code, 0, "{talk}");
    let report: Value = serde_json::from_str(&said).expect("JSON");
    let made = report["generated"].as_array().expect("objects");
    let find = |kind: &str| made.iter().find(|object| object["kind"] == kind).expect(kind);
    assert_eq!(find("ConfigMap")["data"]["team"], "blue");
    assert_eq!(find("ConfigMap")["data"]["secrets"], "1");
    assert_eq!(find("Secret")["data"]["k"], "dg==");
    assert!(!cluster.kubectl(["get", "namespace", "nowhere"]).run().success);

    let (code, said, talk) = writ(cluster, &["apply", policy, "-r", trigger]);
    assert_eq!(code, 1, "without the cluster the sources are missing: {said}{talk}");
}
