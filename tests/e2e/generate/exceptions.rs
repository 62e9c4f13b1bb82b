//! Exceptions, on a cluster whose Writ honours those of one namespace.

use std::sync::OnceLock;

use serde_json::json;

use super::rules::Rule;
use super::{Stage, VALUE, base64, grant};
use crate::admission::writ;
use crate::support::{ControlPlane, Writ};

const HONOURED: &str = "exceptions";

fn stage(prefix: &str) -> Option<Stage<'static>> {
    static PLACE: OnceLock<Option<(ControlPlane, Writ)>> = OnceLock::new();
    let place = PLACE.get_or_init(|| {
        let cluster = ControlPlane::start()?;
        let writ = Writ::start(&cluster, &[&format!("--exception-namespace={HONOURED}")]);
        grant(&cluster);
        cluster.kubectl(["create", "namespace", HONOURED]).ok();
        Some((cluster, writ))
    });
    place.as_ref().map(|(cluster, _)| Stage::new(cluster, prefix))
}

impl Stage<'_> {
    /// An exception for trigger `a` from every rule of a policy; gives what the API server says to it.
    fn except(&self, policy: &str, namespace: &str) -> String {
        let resources = json!({"kinds": ["ConfigMap"], "namespaces": [self.ns.name], "names": ["a"]});
        let exception = json!({
            "apiVersion": "kyverno.io/v2", "kind": "PolicyException",
            "metadata": {"name": self.ns.name, "namespace": namespace},
            "spec": {
                "exceptions": [{"policyName": policy, "ruleNames": ["*"]}],
                "match": {"any": [{"resources": resources}]},
                "conditions": {"all": [
                    {"key": "{{ request.object.data.value }}", "operator": "NotEquals", "value": "but not this"},
                ]},
            },
        });
        let answer = self.cluster.kubectl(["apply", "-f", "-"]).stdin(&exception.to_string()).run();
        assert!(answer.success, "{}", answer.stderr);
        self.fence();
        answer.stderr
    }

    fn end_exception(&self) {
        self.cluster.kubectl(["delete", "polex", &self.ns.name, "-n", HONOURED]).ok();
    }
}

#[test]
fn an_exception_keeps_rules_from_its_triggers_until_it_ends() {
    let Some(stage) = stage("excepted") else { return };
    let policy = stage.policy([Rule::data("sync").synchronized(), Rule::data("once")]);
    assert_eq!(stage.except(&policy, HONOURED), "");
    stage.trigger("a", "1");
    stage.trigger("b", "1");
    stage.appears("secret", "sync-b");
    stage.appears("secret", "once-b");
    stage.fence();
    stage.is_absent("secret", "sync-a");
    stage.is_absent("secret", "once-a");
    let explain = |flags: &[&str]| {
        let arguments = [&["explain", "cm/a", "-n", &stage.ns.name], flags].concat();
        writ(stage.cluster, &arguments).1
    };
    let (told, name) = (explain(&["--exception-namespace=*"]), &stage.ns.name);
    assert!(told.contains(&format!("rule sync: skipped: exception {HONOURED}/{name}\n")), "{told}");
    assert!(explain(&[]).contains("rule sync: applies"), "exceptions do not count unless somebody says so");
    // Conditions are asked for every state of the trigger.
    stage.trigger("a", "but not this");
    stage.becomes("secret", "sync-a", VALUE, &base64("but not this"));
    stage.delete("configmap", "a");
    stage.disappears("secret", "sync-a");
    stage.trigger("a", "2");
    stage.fence();
    stage.is_absent("secret", "sync-a");
    stage.end_exception();
    stage.becomes("secret", "sync-a", VALUE, &base64("2"));
}

#[test]
fn what_was_made_before_an_exception_is_left_alone() {
    let Some(stage) = stage("left") else { return };
    let policy = stage.policy(Rule::data("sync").synchronized());
    stage.trigger("a", "1");
    stage.becomes("secret", "sync-a", VALUE, &base64("1"));
    stage.except(&policy, HONOURED);
    stage.trigger("a", "2");
    stage.patch("secret", "sync-a", r#"{"stringData": {"mine": "too"}}"#);
    stage.fence();
    assert_eq!(stage.field("secret", "sync-a", VALUE), Some(base64("1")), "neither deleted nor kept in step");
    assert_eq!(stage.field("secret", "sync-a", ".data.mine"), Some(base64("too")), "changes stay");
    stage.end_exception();
    stage.becomes("secret", "sync-a", VALUE, &base64("2"));
    stage.becomes("secret", "sync-a", ".data.mine", "");
}

#[test]
fn exceptions_elsewhere_do_not_count_and_bad_ones_are_refused() {
    let Some(stage) = stage("elsewhere") else { return };
    let policy = stage.policy(Rule::data("sync").synchronized());
    let told = stage.except(&policy, &stage.ns.name);
    assert!(told.contains("honours exceptions in namespace `exceptions` only"), "{told}");
    stage.trigger("a", "1");
    stage.becomes("secret", "sync-a", VALUE, &base64("1"));
    stage.ns.rejects(
        "{apiVersion: kyverno.io/v2beta1, kind: PolicyException, metadata: {name: bad}, spec: {exceptions: [], match: {}}}",
        "spec.exceptions",
    );
}
