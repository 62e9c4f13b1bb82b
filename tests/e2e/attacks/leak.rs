//! The content of Secrets stays inside: [`run`] looks for it in answers, Events, logs, metrics and stored requests.

use serde_json::Value;

use super::{ATTACK, Attack, SOON, Tenant, eventually, field, run};

/// A ClusterPolicy about the victim's Secret, with the fields of its one rule. Its author may do everything.
macro_rules! policy {
    ($fields:literal) => {
        concat!(
            "apiVersion: kyverno.io/v1\nkind: ClusterPolicy\nmetadata: {name: UNIQUE}\nspec:\n  rules:\n    - name: leak\n",
            "      match: {any: [{resources: {kinds: [Secret], names: [secret], namespaces: [VICTIM]}}]}\n",
            $fields
        )
    };
}

/// The Secret once more, with something new.
const CHANGED: &str = "
apiVersion: v1
kind: Secret
metadata: {name: secret, namespace: VICTIM, labels: {changed: 'yes'}}
stringData: {key: MARKER}
";

/// A rule of an author who may do everything, set off by the Secret.
const fn rule(name: &'static str, attempt: &'static str) -> Attack {
    Attack { name, may_everywhere: &["* *.*"], attempt, trigger: CHANGED, ..ATTACK }
}

#[test]
fn a_rule_that_fails_shows_no_content() {
    run(&[
        rule(
            "data: a function that fails",
            policy!(
                r#"
      generate:
        apiVersion: v1
        kind: ConfigMap
        name: leak
        namespace: NS
        data: {data: {v: "{{ add('x', base64_decode(request.object.data.key)) }}"}}
"#
            ),
        ),
        rule(
            "data: a text that becomes an expression",
            policy!(
                r#"
      generate:
        apiVersion: v1
        kind: ConfigMap
        name: leak
        namespace: NS
        data: {data: {v: "{{ nothing.\"{{ base64_decode(request.object.data.key) }}\" }}"}}
"#
            ),
        ),
        rule(
            "data: an object where a text is wanted",
            policy!(
                r#"
      generate:
        apiVersion: v1
        kind: ConfigMap
        name: "{{ request.object.data }}"
        namespace: NS
        data: {}
"#
            ),
        ),
        rule(
            "data: an object that the API server rejects and quotes",
            policy!(
                r#"
      generate:
        apiVersion: v1
        kind: ConfigMap
        name: leak
        namespace: NS
        data: {metadata: {labels: {v: "{{ request.object.data.key }}=="}}}
"#
            ),
        ),
        rule(
            "data: an object that the API server cannot decode",
            policy!(
                r#"
      generate:
        apiVersion: v1
        kind: ConfigMap
        name: leak
        namespace: NS
        data: {metadata: {creationTimestamp: "{{ request.object.data.key }}"}, immutable: "{{ request.object.data.key }}"}
"#
            ),
        ),
        rule(
            "preconditions: a condition that does not hold",
            policy!(
                r#"
      preconditions: {all: [{key: "{{ request.object.data.key }}", operator: Equals, value: other}]}
      generate:
        apiVersion: v1
        kind: ConfigMap
        name: leak
        namespace: NS
        synchronize: true
        data: {}
"#
            ),
        ),
        rule(
            "context: a path with the content in it",
            policy!(
                r#"
      context:
        - {name: v, apiCall: {urlPath: "/x/{{ base64_decode(request.object.data.key) }}?watch=true"}}
      generate:
        apiVersion: v1
        kind: ConfigMap
        name: leak
        namespace: NS
        data: {data: {v: "{{ v }}"}}
"#
            ),
        ),
        rule(
            "foreach: an element that fails",
            policy!(
                r#"
      generate:
        foreach:
          - list: request.object.data
            apiVersion: v1
            kind: ConfigMap
            name: leak
            namespace: NS
            data: {data: {v: "{{ split(element, 'x') }}"}}
"#
            ),
        ),
    ]);
}

/// Asks for the requester, so the request is stored; makes a Secret, which the quota of the namespace rejects.
const REQUESTER: &str = r#"
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: UNIQUE}
spec:
  background: false
  rules:
    - name: leak
      match: {any: [{resources: {kinds: [Secret], names: [secret], namespaces: [VICTIM]}}]}
      generate:
        apiVersion: v1
        kind: Secret
        name: made
        namespace: NS
        data: {stringData: {by: "{{ request.userInfo.username }}"}}
"#;

const QUOTA: &str = "
apiVersion: v1
kind: ResourceQuota
metadata: {name: none, namespace: NS}
spec: {hard: {count/secrets: 0}}
";

#[test]
fn a_stored_request_holds_no_content_and_is_kept_until_it_can_be_done() {
    let Some(field) = field() else { return };
    let attack = Attack { setup: QUOTA, ..rule("a request that is rejected", REQUESTER) };
    let tenant = Tenant::new(field, &attack);
    tenant.admin(QUOTA);
    tenant.attempt(&attack).expect("an admitted policy");
    tenant.admin(CHANGED);
    let stored = || {
        let list = field.cluster.kubectl(["get", "updaterequests", "-n", "writ-system", "-o", "json"]).run().stdout;
        let list: Value = serde_json::from_str(&list).expect("a list");
        let mut items = list["items"].as_array().cloned().unwrap_or_default();
        items.retain(|item| item["spec"]["policy"] == tenant.fill("UNIQUE").as_str());
        items
    };
    let request = eventually(SOON, "a request that says what is wrong", || {
        let found =
            stored().into_iter().find(|item| item["status"]["message"].as_str().is_some_and(|text| !text.is_empty()));
        found.ok_or("none")
    });
    let kept = request.pointer("/spec/context/admissionRequestInfo/admissionRequest/object").expect("the object");
    assert_eq!(kept["metadata"]["name"], "secret");
    assert!(kept.get("data").is_none() && kept.get("stringData").is_none(), "{kept}");
    assert_eq!(request["status"]["state"], "Pending");
    assert!(tenant.find("secret NS/made").is_none());
    tenant.search_marker().expect("no content");

    field.cluster.kubectl(["delete", "resourcequota", "none", "-n", &tenant.fill("NS")]).ok();
    // The pauses between attempts have grown meanwhile.
    eventually(SOON * 4, "the object of a request that was rejected before", || {
        tenant.find("secret NS/made").ok_or("none")
    });
    eventually(SOON, "the end of the request", || if stored().is_empty() { Ok(()) } else { Err("it is there") });
}

#[test]
fn a_preview_shows_no_content() {
    let Some(field) = field() else { return };
    let attack = rule(
        "a dry run of the trigger",
        policy!(
            r#"
      generate:
        apiVersion: v1
        kind: ConfigMap
        name: leak
        namespace: NS
        data: {data: {v: "{{ add('x', base64_decode(request.object.data.key)) }}"}}
"#
        ),
    );
    let tenant = Tenant::new(field, &attack);
    tenant.attempt(&attack).expect("an admitted policy");
    let dry = ["apply", "--dry-run=server", "-f", "-"];
    let answer = field.cluster.kubectl(dry).stdin(&tenant.fill(CHANGED)).run();
    assert!(answer.success && answer.stderr.contains("would fail"), "{}", answer.stderr);
    assert!(answer.stderr.contains("a string of"), "{}", answer.stderr);
    tenant.answers.lock().expect("nothing panics here").push_str(&answer.stderr);
    tenant.search_marker().expect("no content");
}
