//! Generate rules on a real API server: the life of what they make, event by event.
//!
//! Triggers are ConfigMaps of one namespace, downstream are Secrets beside them, so that a test takes no longer than its
//! events. "Nothing happens" is asserted behind a [`Stage::fence`]: later work that is seen done.

mod clones;
mod data;
mod lists;
mod outages;
mod policies;
mod replicas;
mod requests;

use std::sync::OnceLock;
use std::time::Duration;

use crate::support::{self, Cluster, Namespace, eventually};

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

    /// Applies a ClusterPolicy named after the namespace, with `RULES` below `spec.rules`. `NS` in the text is the namespace.
    fn policy(&self, rules: &str) -> String {
        let name = self.ns.name.clone();
        self.ns.owns("clusterpolicy", &name);
        self.apply(&format!(
            "apiVersion: kyverno.io/v1\nkind: ClusterPolicy\nmetadata: {{name: NS}}\nspec:\n  rules:\n{}",
            indent(rules)
        ));
        self.ready(&name);
        name
    }

    fn ready(&self, policy: &str) {
        eventually(SOON, "a policy that is ready", || {
            let status =
                self.cluster.kubectl(["get", "cpol", policy, "-o", "jsonpath={.status.conditions[*].status}"]).ok();
            if status == "True" { Ok(()) } else { Err(status) }
        });
    }

    fn apply(&self, yaml: &str) {
        self.ns.kubectl(["apply", "-f", "-"]).stdin(&yaml.replace("NS", &self.ns.name)).ok();
    }

    /// A ConfigMap that rules with [`ON_TRIGGER`] match.
    fn trigger(&self, name: &str, value: &str) {
        self.apply(&format!(
            "{{apiVersion: v1, kind: ConfigMap, metadata: {{name: {name}, labels: {{make: \"yes\"}}}}, data: {{value: \"{value}\"}}}}"
        ));
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

    /// Returns when what happened before has been dealt with: a later trigger has had its effect, twice over.
    fn fence(&self) {
        let policy = format!("{}-fence", self.ns.name);
        if self.fences.get() == 0 {
            self.ns.owns("clusterpolicy", &policy);
            self.apply(&format!(
                "apiVersion: kyverno.io/v1\nkind: ClusterPolicy\nmetadata: {{name: {policy}}}\nspec:\n  rules:\n{}",
                indent(FENCE)
            ));
            self.ready(&policy);
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

const FENCE: &str = r#"
- name: fence
  match: {any: [{resources: {kinds: [ConfigMap], namespaces: [NS], selector: {matchLabels: {fence: "yes"}}}}]}
  generate:
    apiVersion: v1
    kind: LimitRange
    name: "{{request.object.metadata.name}}"
    namespace: NS
    synchronize: true
    data: {spec: {limits: []}}
"#;

/// Which objects set the rules of these tests off.
const ON_TRIGGER: &str =
    r#"match: {any: [{resources: {kinds: [ConfigMap], namespaces: [NS], selector: {matchLabels: {make: "yes"}}}}]}"#;

/// A rule that makes Secret `out-TRIGGER` with the value of its trigger.
fn data_rule(name: &str, more: &str) -> String {
    format!(
        r#"
- name: {name}
  {ON_TRIGGER}
  generate:
    apiVersion: v1
    kind: Secret
    name: "{name}-{{{{request.object.metadata.name}}}}"
    namespace: NS
    data: {{stringData: {{value: "{{{{request.object.data.value}}}}"}}}}
    {more}
"#
    )
}

const SYNCHRONIZE: &str = "synchronize: true";

fn indent(text: &str) -> String {
    text.lines().map(|line| format!("    {line}\n")).collect()
}

fn base64(text: &str) -> String {
    use base64::Engine;
    base64::engine::general_purpose::STANDARD.encode(text)
}

/// The value that a generated Secret holds.
const VALUE: &str = ".data.value";
