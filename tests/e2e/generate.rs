//! Generate rules on a real API server: the life of what they make, event by event.
//!
//! Triggers are ConfigMaps of one namespace, downstream are Secrets beside them, so that a test takes no longer than its
//! events. "Nothing happens" is asserted behind a [`Stage::fence`]: later work that is seen done.

mod clones;
mod context;
mod data;
mod exceptions;
mod lists;
mod matrix;
mod outages;
mod policies;
mod quirks;
mod replicas;
mod requests;
mod reviews;
mod rules;

use std::sync::OnceLock;
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::{self, Cluster, Namespace, eventually};
use rules::{Policy, Rule};

const SOON: Duration = Duration::from_secs(10);

/// What policies of these tests may do, granted as people grant it.
const GRANTED: &str = r#"
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: generate-tests
  labels: {rbac.kyverno.io/aggregate-to-background-controller: "true"}
rules:
  - apiGroups: [""]
    resources: [configmaps, secrets, services, limitranges, resourcequotas, namespaces]
    verbs: [get, list, watch, create, update, patch, delete]
  - apiGroups: [networking.k8s.io]
    resources: [networkpolicies]
    verbs: [get, list, watch, create, update, patch, delete]
"#;

/// A namespace with what these tests do in it.
struct Stage<'c> {
    cluster: &'c Cluster,
    ns: Namespace<'c>,
    fences: std::cell::Cell<u32>,
}

/// A stage on the cluster that all tests share.
fn stage(prefix: &str) -> Option<Stage<'static>> {
    static GRANT: OnceLock<()> = OnceLock::new();
    let cluster = support::with_writ()?;
    GRANT.get_or_init(|| grant(cluster));
    Some(Stage::new(cluster, prefix))
}

/// Grants the rights and waits until they count.
fn grant(cluster: &Cluster) {
    cluster.kubectl(["apply", "-f", "-"]).stdin(GRANTED).ok();
    eventually(SOON, "the rights", || {
        let arguments = ["auth", "can-i", "watch", "secrets", "--as=system:serviceaccount:writ-system:writ"];
        let answer = cluster.kubectl(arguments).run();
        if answer.success { Ok(()) } else { Err(answer.stdout) }
    });
}

impl<'c> Stage<'c> {
    fn new(cluster: &'c Cluster, prefix: &str) -> Self {
        Self { cluster, ns: cluster.namespace(prefix), fences: std::cell::Cell::new(0) }
    }

    /// A stage in another namespace of the same cluster.
    fn beside(&self, prefix: &str) -> Self {
        Self::new(self.cluster, prefix)
    }

    /// Applies a policy and waits until it is ready; gives its name.
    fn policy(&self, policy: impl Into<Policy>) -> String {
        let policy = policy.into();
        let name = policy.name().replace("NS", &self.ns.name);
        let kind = if policy.is_namespaced() { "policies.kyverno.io" } else { "clusterpolicy" };
        if !policy.is_namespaced() {
            self.ns.owns(kind, &name);
        }
        self.apply(&policy.to_string());
        self.becomes(kind, &name, ".status.conditions[*].status", "True");
        name
    }

    /// Applies objects. `NS` in the text is the namespace of the stage.
    fn apply(&self, text: &str) {
        self.ns.kubectl(["apply", "-f", "-"]).stdin(&text.replace("NS", &self.ns.name)).ok();
    }

    /// A ConfigMap that sets the rules of these tests off.
    fn trigger(&self, name: &str, value: &str) {
        self.trigger_with(name, &json!({"value": value}));
    }

    fn trigger_with(&self, name: &str, data: &Value) {
        let metadata = json!({"name": name, "labels": {"make": "yes"}});
        self.apply(&json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}).to_string());
    }

    /// A Secret for rules to copy; `label` is for those that copy many.
    fn source(&self, name: &str, label: &str, value: &str) {
        let metadata = json!({"name": name, "labels": {"copy": label}});
        let body = json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": {"value": value}});
        self.apply(&body.to_string());
    }

    fn delete(&self, kind: &str, name: &str) {
        self.ns.kubectl(["delete", kind, name]).ok();
    }

    fn patch(&self, kind: &str, name: &str, patch: &str) {
        self.ns.kubectl(["patch", kind, name, "--type=merge", "-p", patch]).ok();
    }

    /// A field of an object; nothing if the object is not there.
    fn field(&self, kind: &str, name: &str, path: &str) -> Option<String> {
        let path = format!("jsonpath={{{path}}}");
        let answer = self.ns.kubectl(["get", kind, name, "-o", &path]).run();
        answer.success.then_some(answer.stdout)
    }

    /// Waits until a field has a value.
    #[track_caller]
    fn becomes(&self, kind: &str, name: &str, path: &str, value: &str) {
        eventually(SOON, &format!("{path} of {kind} {name} to be `{value}`"), || match self.field(kind, name, path) {
            Some(found) if found == value => Ok(()),
            found => Err(format!("it is {found:?}")),
        });
    }

    #[track_caller]
    fn appears(&self, kind: &str, name: &str) {
        eventually(SOON, &format!("{kind} {name}"), || self.field(kind, name, ".metadata.name").ok_or("not there"));
    }

    #[track_caller]
    fn disappears(&self, kind: &str, name: &str) {
        eventually(SOON, &format!("the end of {kind} {name}"), || match self.field(kind, name, ".metadata.name") {
            None => Ok(()),
            Some(_) => Err("still there"),
        });
    }

    #[track_caller]
    fn is_there(&self, kind: &str, name: &str) {
        assert!(self.field(kind, name, ".metadata.name").is_some(), "{kind} {name} is gone");
    }

    #[track_caller]
    fn is_absent(&self, kind: &str, name: &str) {
        assert!(self.field(kind, name, ".metadata.name").is_none(), "{kind} {name} is there");
    }

    /// What the events about failures of a policy say.
    fn failures(&self, policy: &str) -> String {
        let selector = format!("--field-selector=reason=PolicyError,regarding.name={policy}");
        let note = "jsonpath={.items[*].note}";
        self.cluster.kubectl(["get", "events.events.k8s.io", "-n", "default", &selector, "-o", note]).ok()
    }

    /// Waits until no request of a policy is stored any more.
    #[track_caller]
    fn requests_are_done(&self, policy: &str) {
        let selector = format!("--selector=generate.kyverno.io/policy-name={policy}");
        eventually(SOON, "the end of stored requests", || {
            let left = self.cluster.kubectl(["get", "ur", "-A", "-o", "name", &selector]).ok();
            if left.is_empty() { Ok(()) } else { Err(left) }
        });
    }

    /// Returns when what happened before has been dealt with: a later trigger has had its effect, twice over.
    fn fence(&self) {
        if self.fences.get() == 0 {
            let body = json!({"apiVersion": "v1", "kind": "LimitRange", "name": "{{request.object.metadata.name}}",
                "namespace": "NS", "data": {"spec": {"limits": []}}});
            let labels = json!({"matchLabels": {"fence": "yes"}});
            let rule = Rule::new("fence", body).synchronized().on("selector", labels);
            self.policy(Policy::from(rule).named("NS-fence"));
        }
        for _ in 0..2 {
            let name = format!("fence-{}", self.fences.replace(self.fences.get() + 1));
            self.apply(&format!(
                "{{apiVersion: v1, kind: ConfigMap, metadata: {{name: {name}, labels: {{fence: \"yes\"}}}}}}"
            ));
            self.appears("limitrange", &name);
        }
    }
}

fn base64(text: &str) -> String {
    use base64::Engine;
    base64::engine::general_purpose::STANDARD.encode(text)
}

/// The value that a generated Secret holds.
const VALUE: &str = ".data.value";

/// A label of generated objects, as a path.
fn label(name: &str) -> String {
    format!(r".metadata.labels.generate\.kyverno\.io/{name}")
}
