//! What the rules of this test want, worked out from what the user did. Knows nothing of how Writ works it out.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use serde_json::{Value, json};

use crate::support::{Cluster, eventually};

use super::outages::Outages;
use super::script::Step;
use super::user::{NAMESPACE, User};

const SOON: Duration = Duration::from_secs(30);
/// What the user writes into an object of their own.
const MINE: &str = "mine";

/// On a ConfigMap with the label `chaos: "yes"`: a synchronized object, a synchronized copy of Secret `source`, an object
/// that is made once, one that is synchronized by what admission tells, and one that is made when the ConfigMap is deleted.
const RULES: &str = r#"
apiVersion: v1
kind: Namespace
metadata: {name: chaos}
---
apiVersion: v1
kind: Secret
metadata: {name: source, namespace: chaos}
stringData: {value: "0"}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: chaos
  labels:
    rbac.kyverno.io/aggregate-to-background-controller: "true"
    rbac.kyverno.io/aggregate-to-admission-controller: "true"
rules:
  - apiGroups: [""]
    resources: [configmaps, secrets]
    verbs: [get, list, watch, create, update, patch, delete]
---
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: chaos}
spec:
  rules:
    - name: synced
      match: {any: [{resources: {kinds: [ConfigMap], namespaces: [chaos], selector: {matchLabels: {chaos: "yes"}}}}]}
      generate:
        apiVersion: v1
        kind: ConfigMap
        name: "synced-{{request.object.metadata.name}}"
        namespace: chaos
        synchronize: true
        data: {data: {value: "{{request.object.data.value}}"}}
    - name: copy
      match: {any: [{resources: {kinds: [ConfigMap], namespaces: [chaos], selector: {matchLabels: {chaos: "yes"}}}}]}
      generate:
        apiVersion: v1
        kind: Secret
        name: "copy-{{request.object.metadata.name}}"
        namespace: chaos
        synchronize: true
        clone: {namespace: chaos, name: source}
    - name: once
      match: {any: [{resources: {kinds: [ConfigMap], namespaces: [chaos], selector: {matchLabels: {chaos: "yes"}}}}]}
      generate:
        apiVersion: v1
        kind: ConfigMap
        name: "once-{{request.object.metadata.name}}"
        namespace: chaos
        data: {data: {value: "{{request.object.data.value}}"}}
    - name: asked
      match: {any: [{resources: {kinds: [ConfigMap], namespaces: [chaos], selector: {matchLabels: {chaos: "yes"}}}}]}
      preconditions: {all: [{key: "{{request.operation}}", operator: AnyNotIn, value: [CONNECT]}]}
      generate:
        apiVersion: v1
        kind: ConfigMap
        name: "asked-{{request.object.metadata.name}}"
        namespace: chaos
        synchronize: true
        data: {data: {value: "{{request.object.data.value}}"}}
---
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: farewell}
spec:
  rules:
    - name: farewell
      match:
        any:
          - resources: {kinds: [ConfigMap], namespaces: [chaos], operations: [DELETE], selector: {matchLabels: {chaos: "yes"}}}
      generate:
        apiVersion: v1
        kind: ConfigMap
        name: "farewell-{{request.object.metadata.name}}"
        namespace: chaos
        data: {data: {value: "bye"}}
"#;

/// Installs the rules, grants what they need, and waits until they work.
pub(super) fn prepare(cluster: &Cluster) {
    let (rights, policies) = RULES.split_once("---\napiVersion: kyverno.io").expect("rights, then policies");
    cluster.kubectl(["apply", "-f", "-"]).stdin(rights).ok();
    eventually(SOON, "the rights", || {
        let account = "--as=system:serviceaccount:writ-system:writ";
        let answer = cluster.kubectl(["auth", "can-i", "delete", "secrets", "--namespace=chaos", account]).run();
        if answer.success { Ok(()) } else { Err(answer.stdout) }
    });
    let policies = format!("apiVersion: kyverno.io{policies}");
    cluster.kubectl(["apply", "-f", "-"]).stdin(&policies).ok();
    for policy in ["chaos", "farewell"] {
        eventually(SOON, "a policy that is ready", || {
            let status = "--output=jsonpath={.status.conditions[*].status}";
            let status = cluster.kubectl(["get", "clusterpolicy", policy, status]).ok();
            if status == "True" { Ok(()) } else { Err(status) }
        });
    }
}

/// What the user did.
#[derive(Default)]
pub(super) struct Model {
    triggers: BTreeMap<String, Trigger>,
    /// The user's own objects, by name, with the identity they were given.
    own: BTreeMap<String, String>,
    source: u32,
    changes: u32,
}

struct Trigger {
    uid: String,
    value: String,
    /// Every value that it ever had while it matched.
    values: BTreeSet<String>,
    matches: bool,
    alive: bool,
    /// The user deleted what the one-shot rule made.
    once_deleted: bool,
    /// It was deleted while it matched: whether Writ must have been told.
    farewell: Option<bool>,
}

/// Whether an object has to be there.
#[derive(Clone, Copy, PartialEq)]
enum Wanted {
    Yes,
    Perhaps,
}

impl Model {
    pub(super) fn act(&mut self, user: &User, outages: &Outages, step: &Step) {
        self.changes += 1;
        let change = self.changes.to_string();
        match step {
            Step::Create { name } => {
                let trigger = config_map(name, &json!({"chaos": "yes"}), &change);
                let created = user.create(&trigger).found.expect("a trigger");
                let trigger = Trigger {
                    uid: created.metadata.uid.unwrap_or_default(),
                    values: BTreeSet::from([change.clone()]),
                    value: change,
                    matches: true,
                    alive: true,
                    once_deleted: false,
                    farewell: None,
                };
                self.triggers.insert(name.clone(), trigger);
            }
            Step::Change { name } => {
                user.patch::<ConfigMap>(name, &json!({"data": {"value": change}}));
                self.changed(name, |trigger| trigger.value = change);
            }
            Step::Unlabel { name } => {
                user.patch::<ConfigMap>(name, &json!({"metadata": {"labels": {"chaos": "no"}}}));
                self.changed(name, |trigger| trigger.matches = false);
            }
            Step::Relabel { name } => {
                user.patch::<ConfigMap>(name, &json!({"metadata": {"labels": {"chaos": "yes"}}}));
                self.changed(name, |trigger| trigger.matches = true);
            }
            Step::Delete { name } => {
                let calm = outages.is_calm();
                let told = user.delete::<ConfigMap>(name).at_once && calm;
                self.changed(name, |trigger| {
                    trigger.alive = false;
                    trigger.farewell = trigger.matches.then_some(told);
                });
            }
            Step::ChangeSource => {
                self.source += 1;
                let value = self.source.to_string();
                user.patch::<Secret>("source", &json!({"stringData": {"value": value}}));
            }
            Step::EditSynced { name } => {
                user.patch::<ConfigMap>(&format!("synced-{name}"), &json!({"data": {"value": "edited", "more": "x"}}));
            }
            Step::DeleteSynced { name } => drop(user.delete::<ConfigMap>(&format!("synced-{name}"))),
            Step::DeleteOnce { name } => {
                user.delete::<ConfigMap>(&format!("once-{name}"));
                self.changed(name, |trigger| trigger.once_deleted = true);
            }
            Step::CreateOwn { name } => {
                for name in [format!("once-{name}"), format!("own-{name}")] {
                    let object = config_map(&name, &json!({}), MINE);
                    let uid = user.create(&object).found.and_then(|created| created.metadata.uid);
                    self.own.insert(name, uid.unwrap_or_default());
                }
            }
            Step::Strike(_) | Step::Settle(_) => unreachable!("no act of the user"),
        }
    }

    fn changed(&mut self, name: &str, change: impl FnOnce(&mut Trigger)) {
        let trigger = self.triggers.get_mut(name).expect("acts follow the creation");
        change(trigger);
        if trigger.matches {
            trigger.values.insert(trigger.value.clone());
        }
    }

    /// Whether the one-shot rule has made something for every trigger so far.
    pub(super) fn all_are_served(&self, user: &User) -> Result<(), String> {
        let found = user.list::<ConfigMap>();
        let missing = self.triggers.keys().filter(|name| !found.contains_key(&format!("once-{name}")));
        let missing: Vec<&String> = missing.collect();
        if missing.is_empty() { Ok(()) } else { Err(format!("nothing yet for {missing:?}")) }
    }

    /// How many deletions Writ must have been told of; without any, stored requests would not be put to the test.
    pub(super) fn farewells(&self) -> usize {
        self.triggers.values().filter(|trigger| trigger.farewell == Some(true)).count()
    }

    /// All differences between the cluster and what is wanted.
    pub(super) fn compare(&self, user: &User) -> Result<(), String> {
        let mut differences = Vec::new();
        let mut maps = user.list::<ConfigMap>();
        let mut secrets = user.list::<Secret>();
        self.compare_own(&mut maps, &mut differences);
        secrets.remove("source");
        for (name, trigger) in &self.triggers {
            let active = (trigger.alive && trigger.matches).then_some(Wanted::Yes);
            if trigger.alive && maps.remove(name).is_none() {
                differences.push(format!("trigger {name} is gone"));
            }
            let current = BTreeSet::from([trigger.value.clone()]);
            let found = maps.remove(&format!("synced-{name}"));
            judge(&mut differences, "synced", name, trigger, active, found.as_ref().map(map_facts), &current);
            let source = BTreeSet::from([self.source.to_string()]);
            let found = secrets.remove(&format!("copy-{name}"));
            judge(&mut differences, "copy", name, trigger, active, found.as_ref().map(secret_facts), &source);

            // What admission was not told of is not made, but nothing outlives its trigger.
            let found = maps.remove(&format!("asked-{name}"));
            let wanted = trigger.alive.then_some(Wanted::Perhaps);
            judge(&mut differences, "asked", name, trigger, wanted, found.as_ref().map(map_facts), &trigger.values);

            let found = maps.remove(&format!("farewell-{name}"));
            let wanted = trigger.farewell.map(|told| if told { Wanted::Yes } else { Wanted::Perhaps });
            let bye = BTreeSet::from(["bye".to_owned()]);
            judge(&mut differences, "farewell", name, trigger, wanted, found.as_ref().map(map_facts), &bye);

            if self.own.contains_key(&format!("once-{name}")) {
                continue;
            }
            let found = maps.remove(&format!("once-{name}"));
            // A trigger that came and went while nobody looked has set nothing off.
            let wanted = if trigger.once_deleted { None } else { active.or(Some(Wanted::Perhaps)) };
            judge(&mut differences, "once", name, trigger, wanted, found.as_ref().map(map_facts), &trigger.values);
        }
        differences.extend(maps.keys().map(|name| format!("ConfigMap {name} is nobody's")));
        differences.extend(secrets.keys().map(|name| format!("Secret {name} is nobody's")));
        let requests = user.stored_requests();
        differences.extend(requests.into_iter().map(|request| format!("a request is left: {request}")));
        if differences.is_empty() { Ok(()) } else { Err(differences.join("\n")) }
    }

    /// What is the user's is there, the same object, untouched.
    fn compare_own(&self, maps: &mut BTreeMap<String, ConfigMap>, differences: &mut Vec<String>) {
        for (name, uid) in &self.own {
            let Some(found) = maps.remove(name) else {
                differences.push(format!("{name}, the user's own, is gone"));
                continue;
            };
            let facts = map_facts(&found);
            if facts.value.as_deref() != Some(MINE)
                || found.metadata.uid.as_ref() != Some(uid)
                || !facts.labels.is_empty()
            {
                differences.push(format!("{name}, the user's own, was touched: {facts:?}"));
            }
        }
    }
}

/// What is judged of a generated object.
#[derive(Debug)]
struct Facts {
    value: Option<String>,
    keys: usize,
    labels: BTreeMap<String, String>,
}

fn map_facts(map: &ConfigMap) -> Facts {
    let data = map.data.clone().unwrap_or_default();
    Facts {
        value: data.get("value").cloned(),
        keys: data.len(),
        labels: map.metadata.labels.clone().unwrap_or_default(),
    }
}

fn secret_facts(secret: &Secret) -> Facts {
    let data = secret.data.clone().unwrap_or_default();
    let text = |ByteString(bytes): &ByteString| String::from_utf8_lossy(bytes).into_owned();
    Facts {
        value: data.get("value").map(text),
        keys: data.len(),
        labels: secret.metadata.labels.clone().unwrap_or_default(),
    }
}

fn judge(
    differences: &mut Vec<String>,
    rule: &str,
    name: &str,
    trigger: &Trigger,
    wanted: Option<Wanted>,
    found: Option<Facts>,
    values: &BTreeSet<String>,
) {
    let (facts, wanted) = match (found, wanted) {
        (None, None | Some(Wanted::Perhaps)) => return,
        (None, Some(Wanted::Yes)) => return differences.push(format!("{rule}-{name} is missing")),
        (Some(_), None) => return differences.push(format!("{rule}-{name} should not be there")),
        (Some(facts), Some(wanted)) => (facts, wanted),
    };
    let policy = if rule == "farewell" { "farewell" } else { "chaos" };
    let labels = [
        ("app.kubernetes.io/managed-by", "kyverno"),
        ("generate.kyverno.io/policy-name", policy),
        ("generate.kyverno.io/rule-name", rule),
        ("generate.kyverno.io/trigger-uid", &trigger.uid),
    ];
    let labelled = labels.iter().all(|(key, value)| facts.labels.get(*key).is_some_and(|found| found == value));
    let fits = facts.value.as_ref().is_some_and(|value| values.contains(value)) && facts.keys == 1;
    if !labelled || !fits {
        let surely = if wanted == Wanted::Yes { "" } else { " (if it is there)" };
        differences.push(format!("{rule}-{name} should hold {values:?}{surely}, and is {facts:?}"));
    }
}

fn config_map(name: &str, labels: &Value, value: &str) -> ConfigMap {
    let object = json!({
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": labels},
        "data": {"value": value},
    });
    serde_json::from_value(object).expect("a ConfigMap")
}
