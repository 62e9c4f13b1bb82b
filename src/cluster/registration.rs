//! The webhook configuration for the objects that rules are about, written from what the policies need.
//!
//! The manifests ship it empty. It calls the same Service, with the same CA, as the configuration of the install, and it belongs
//! to that one: who uninstalls it removes both. Every entry fails open and leaves Writ's own namespace and kube-node-lease alone,
//! and kube-system unless operators select namespaces themselves. Entries for Policies are for their namespaces only.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use tracing::info;

use super::configurations::split_url;
use super::keys::KeyReader;
use super::kinds::ApiKind;
use super::{Api, ClusterError, Rehearsal};
use crate::core::generate::registration::{Hook, HookRule, HookScope, Purpose};
use crate::core::matching::Operation;
use crate::core::resource::text_at;
use crate::core::settings::WebhookSettings;

/// Where every namespace has its own name.
const NAME_LABEL: &str = "kubernetes.io/metadata.name";
const NODE_LEASES: &str = "kube-node-lease";
/// How often somebody else may be faster.
const MOST_CONFLICTS: usize = 8;

const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Writes the configuration.
#[derive(Clone)]
pub struct Registrar {
    api: Api,
    names: Names,
    kind: ApiKind,
    keys: KeyReader,
}

/// What is called how in this install.
#[derive(Clone, Debug)]
pub struct Names {
    /// The configuration of the install, which calls Writ for policies.
    pub installed: String,
    /// The configuration that is kept here.
    pub configuration: String,
    /// The namespace of the install.
    pub namespace: String,
    /// The path that entries call, before the token.
    pub path: String,
}

/// How new entries stand to old ones.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    /// They take their place.
    Replace,
    /// They take their place, and so does everything about them.
    Renew,
    /// They are added.
    Extend,
}

impl Registrar {
    pub fn new(api: Api, names: Names, keys: KeyReader) -> Self {
        let kind = ApiKind::builtin("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration");
        Self { api, names, kind, keys }
    }

    /// Makes the configuration say exactly this. For whoever leads.
    pub async fn write(&self, hooks: &[Hook], settings: &WebhookSettings) -> Result<(), ClusterError> {
        self.put(hooks, settings, Way::Replace).await
    }

    /// The same under other settings than before: labels and annotations that are no longer set go, too.
    pub async fn renew(&self, hooks: &[Hook], settings: &WebhookSettings) -> Result<(), ClusterError> {
        self.put(hooks, settings, Way::Renew).await
    }

    /// Adds what is missing and takes nothing away: others may know of policies that are not known here yet.
    pub async fn extend(&self, hooks: &[Hook], settings: &WebhookSettings) -> Result<(), ClusterError> {
        self.put(hooks, settings, Way::Extend).await
    }

    /// What the API server says of CEL conditions. Nothing is stored.
    pub async fn objections(&self, conditions: &[(String, String)]) -> Result<Option<String>, ClusterError> {
        let mut entry = json!({
            "name": "conditions.writ.dev",
            "admissionReviewVersions": ["v1"],
            "clientConfig": {"url": "https://localhost/"},
            "sideEffects": "None",
            "rules": [],
        });
        entry["matchConditions"] = render_conditions(conditions);
        let name = &self.names.configuration;
        let body = json!({
            "apiVersion": self.kind.gvk.api_version(), "kind": self.kind.gvk.kind,
            "metadata": {"name": name}, "webhooks": [entry],
        });
        match self.api.apply(&self.kind, None, name, &body, Rehearsal::Yes).await {
            Ok(_) => Ok(None),
            Err(ClusterError::Rejected { reason, .. }) => Ok(Some(plain(&reason))),
            Err(error) => Err(error),
        }
    }

    async fn put(&self, hooks: &[Hook], settings: &WebhookSettings, way: Way) -> Result<(), ClusterError> {
        let mut attempts = 0;
        loop {
            match self.try_put(hooks, settings, way).await {
                Err(ClusterError::Conflict { .. } | ClusterError::Missing { .. }) if attempts < MOST_CONFLICTS => {
                    attempts += 1;
                }
                outcome => return outcome,
            }
        }
    }

    async fn try_put(&self, hooks: &[Hook], settings: &WebhookSettings, way: Way) -> Result<(), ClusterError> {
        let Names { installed, configuration, .. } = &self.names;
        let found = self.api.find(&self.kind, None, configuration).await?;
        if hooks.is_empty() && (found.is_none() || way == Way::Extend) {
            return Ok(());
        }
        let owner = self.api.get(&self.kind, None, installed).await.map_err(|error| match error {
            // Told apart from a configuration that is only just being deleted: trying again does not help.
            ClusterError::Missing { resource } => ClusterError::NotInstalled { resource },
            error => error,
        })?;
        let Some(found) = found else {
            return Err(ClusterError::NotInstalled { resource: self.kind.name(None, configuration) });
        };
        let keys = self.keys.ready().await;
        let render = |hook: &Hook| self.render(hook, settings, &owner, keys.called.reveal());
        let wanted: Vec<Value> = hooks.iter().map(render).collect();
        let present = found.get("webhooks").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let next = match way {
            Way::Replace if wears(&found, settings) => replace(present, wanted),
            Way::Replace | Way::Renew => Some(wanted),
            Way::Extend => extend(present, wanted),
        };
        if let Some(next) = next {
            let mut body = self.whole(&owner, settings, next);
            body["metadata"]["resourceVersion"] = found["metadata"]["resourceVersion"].clone();
            // By it kubectl knows what the manifests have said before.
            if let Some(applied) = found.pointer("/metadata/annotations").and_then(|all| all.get(LAST_APPLIED)) {
                body["metadata"]["annotations"][LAST_APPLIED] = applied.clone();
            }
            self.api.replace(&self.kind, None, configuration, &body, Rehearsal::No).await?;
            info!(name = configuration, "Webhook configuration changed");
        }
        Ok(())
    }

    fn whole(&self, owner: &Value, settings: &WebhookSettings, webhooks: Vec<Value>) -> Value {
        let (api_version, kind) = (self.kind.gvk.api_version(), &self.kind.gvk.kind);
        // Those of the install win: it is by them that all of it is found again.
        let mut labels: Map<String, Value> = settings.labels.iter().map(text_pair).collect();
        labels.extend(owner.pointer("/metadata/labels").and_then(Value::as_object).cloned().unwrap_or_default());
        let mut body = json!({
            "apiVersion": api_version,
            "kind": kind,
            "metadata": {
                "name": self.names.configuration,
                "labels": labels,
                "ownerReferences": [{
                    "apiVersion": api_version, "kind": kind,
                    "name": text_at(owner, &["metadata", "name"]), "uid": text_at(owner, &["metadata", "uid"]),
                }],
            },
            "webhooks": webhooks,
        });
        if !settings.annotations.is_empty() {
            body["metadata"]["annotations"] = settings.annotations.iter().map(text_pair).collect();
        }
        body
    }

    fn render(&self, hook: &Hook, settings: &WebhookSettings, owner: &Value, token: &str) -> Value {
        let Hook { purpose, policy, namespaces, rules, match_conditions, timeout_seconds } = hook;
        let word = match purpose {
            Purpose::Intake => "intake",
            Purpose::Preview => "preview",
        };
        let (name, path) = match policy {
            None if namespaces.is_empty() => (format!("{word}.writ.dev"), self.names.path.clone()),
            None => {
                (format!("{word}-{}.namespaced.writ.dev", fingerprint(hook)), format!("{}/namespaced", self.names.path))
            }
            Some(key) => {
                let path = format!("{}/policy/{key}", self.names.path);
                let name = match &key.namespace {
                    Some(namespace) => format!("{}.{namespace}.namespaced.{word}.writ.dev", key.name),
                    None => format!("{}.{word}.writ.dev", key.name),
                };
                (name, path)
            }
        };
        let mut client = owner.pointer("/webhooks/0/clientConfig").cloned().unwrap_or_else(|| json!({}));
        let path = format!("{path}/{token}");
        match client.get_mut("service") {
            Some(service) => service["path"] = path.into(),
            None => client["url"] = format!("{}{path}", split_url(text_at(&client, &["url"])).0).into(),
        }
        let mut entry = json!({
            "name": name,
            "admissionReviewVersions": ["v1"],
            "clientConfig": client,
            "failurePolicy": "Ignore",
            "matchPolicy": "Equivalent",
            "sideEffects": "NoneOnDryRun",
            "timeoutSeconds": timeout_seconds,
            "namespaceSelector": selector(settings.namespace_selector.as_ref(), &self.names.namespace, namespaces),
            "objectSelector": settings.object_selector.clone().unwrap_or_else(|| json!({})),
            "rules": rules.iter().map(render_rule).collect::<Vec<_>>(),
        });
        let conditions = joined(match_conditions, &settings.match_conditions);
        if !conditions.is_empty() {
            entry["matchConditions"] = render_conditions(&conditions);
        }
        entry
    }
}

/// A short name for what an entry of Policies asks for, whichever their namespaces.
fn fingerprint(hook: &Hook) -> String {
    let rules: Vec<Value> = hook.rules.iter().map(render_rule).collect();
    let text = json!([rules, hook.timeout_seconds]).to_string();
    hex::encode(&Sha256::digest(text.as_bytes())[..6])
}

/// The namespaces whose requests are sent: those that operators select, of these those that the entry is for, and never
/// Writ's own. Every node renews its lease in kube-node-lease every few seconds: no rule is worth a call for each.
fn selector(selected: Option<&Value>, own: &str, only: &BTreeSet<String>) -> Value {
    let by_name = |operator: &str, names: Value| json!({"key": NAME_LABEL, "operator": operator, "values": names});
    let mut selector = selected.cloned().unwrap_or_else(|| json!({}));
    let mut expressions = selector["matchExpressions"].as_array().cloned().unwrap_or_default();
    expressions.push(match selected {
        Some(_) => by_name("NotIn", json!([NODE_LEASES, own])),
        None => by_name("NotIn", json!(["kube-system", NODE_LEASES, own])),
    });
    if !only.is_empty() {
        expressions.push(by_name("In", json!(only)));
    }
    selector["matchExpressions"] = expressions.into();
    selector
}

/// The conditions of an entry, then those for all of them; a name may stand there only once.
fn joined(own: &[(String, String)], everywhere: &[(String, String)]) -> Vec<(String, String)> {
    let mut conditions = own.to_vec();
    for (name, expression) in everywhere {
        let mut name = name.clone();
        while conditions.iter().any(|(taken, _)| *taken == name) {
            name.push_str(".settings");
        }
        conditions.push((name, expression.clone()));
    }
    conditions
}

/// Whether a configuration has the labels and annotations that operators want on it. Others may have put more there.
fn wears(found: &Value, settings: &WebhookSettings) -> bool {
    let has = |field: &str, wanted: &BTreeMap<String, String>| {
        wanted.iter().all(|(name, value)| found["metadata"][field][name] == value.as_str())
    };
    has("labels", &settings.labels) && has("annotations", &settings.annotations)
}

fn text_pair((name, value): (&String, &String)) -> (String, Value) {
    (name.clone(), value.as_str().into())
}

fn render_rule(rule: &HookRule) -> Value {
    let HookRule { group, version, scope, operations, resources } = rule;
    let scope = match scope {
        HookScope::Namespaced => "Namespaced",
        HookScope::All => "*",
    };
    json!({
        "apiGroups": [group], "apiVersions": [version], "resources": resources, "scope": scope,
        "operations": operations.iter().map(|operation: &Operation| operation.as_str()).collect::<Vec<_>>(),
    })
}

fn render_conditions(conditions: &[(String, String)]) -> Value {
    conditions.iter().map(|(name, expression)| json!({"name": name, "expression": expression})).collect()
}

/// The part of a refusal that is about the conditions.
fn plain(reason: &str) -> String {
    reason.split_once("matchConditions").map_or(reason, |(_, rest)| rest).to_owned()
}

/// The wanted entries, unless they are there already.
fn replace(present: &[Value], wanted: Vec<Value>) -> Option<Vec<Value>> {
    let same =
        present.len() == wanted.len() && present.iter().zip(&wanted).all(|(present, wanted)| says(present, wanted));
    (!same).then_some(wanted)
}

/// The present entries with what is missing of the wanted ones, unless nothing is.
fn extend(present: &[Value], wanted: Vec<Value>) -> Option<Vec<Value>> {
    let mut next = present.to_vec();
    let mut changed = false;
    for mut entry in wanted {
        let Some(position) = next.iter().position(|other| other["name"] == entry["name"]) else {
            next.push(entry);
            changed = true;
            continue;
        };
        let mut rules = next[position]["rules"].as_array().cloned().unwrap_or_default();
        for rule in entry["rules"].as_array().into_iter().flatten() {
            if !rules.iter().any(|present| covers(present, rule)) {
                rules.push(rule.clone());
            }
        }
        entry["rules"] = rules.into();
        join_namespaces(&mut entry, &next[position]);
        // Policies that are not known here may have asked for more time.
        let timeout = |entry: &Value| entry["timeoutSeconds"].as_u64();
        if timeout(&next[position]) > timeout(&entry) {
            entry["timeoutSeconds"] = next[position]["timeoutSeconds"].clone();
        }
        if !says(&next[position], &entry) {
            next[position] = entry;
            changed = true;
        }
    }
    changed.then_some(next)
}

/// Adds the namespaces that a present entry is for to those of an entry of the same name.
fn join_namespaces(entry: &mut Value, present: &Value) {
    let is_for = |expression: &&Value| expression["key"] == NAME_LABEL && expression["operator"] == "In";
    let values = |entry: &Value| -> BTreeSet<String> {
        let expressions = entry.pointer("/namespaceSelector/matchExpressions").and_then(Value::as_array);
        let values = expressions.into_iter().flatten().filter(is_for).filter_map(|found| found["values"].as_array());
        values.flatten().filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let all: BTreeSet<String> = values(entry).into_iter().chain(values(present)).collect();
    let expressions = entry.pointer_mut("/namespaceSelector/matchExpressions").and_then(Value::as_array_mut);
    if let Some(expression) = expressions.into_iter().flatten().rfind(|expression| is_for(&&**expression)) {
        expression["values"] = json!(all);
    }
}

/// Whether an entry says all that another says; the API server adds nothing but defaults.
fn says(present: &Value, wanted: &Value) -> bool {
    wanted.as_object().is_some_and(|wanted| wanted.iter().all(|(field, value)| present.get(field) == Some(value)))
        && present.get("matchConditions").is_some() == wanted.get("matchConditions").is_some()
}

/// Whether one rule is for all requests that another is for.
fn covers(present: &Value, wanted: &Value) -> bool {
    let all = |field: &str| {
        let list = |rule: &Value| rule[field].as_array().cloned().unwrap_or_default();
        let present = list(present);
        list(wanted).iter().all(|value| present.contains(value))
    };
    let scope = present["scope"] == wanted["scope"] || present["scope"] == "*";
    scope && ["apiGroups", "apiVersions", "resources", "operations"].into_iter().all(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(resources: &[&str], operations: &[&str]) -> Value {
        json!({"apiGroups": [""], "apiVersions": ["v1"], "resources": resources, "operations": operations, "scope": "*"})
    }

    fn entry(name: &str, rules: Vec<Value>) -> Value {
        json!({"name": name, "rules": rules, "timeoutSeconds": 5})
    }

    #[test]
    fn extending_takes_nothing_away() {
        let present = vec![entry("a", vec![rule(&["pods", "secrets"], &["CREATE", "UPDATE"])])];
        let covered = entry("a", vec![rule(&["secrets"], &["CREATE"])]);
        assert_eq!(extend(&present, vec![covered]), None);
        let more = rule(&["secrets"], &["DELETE"]);
        let next = extend(&present, vec![entry("a", vec![more.clone()]), entry("b", vec![])]).expect("a change");
        assert_eq!(next[0]["rules"], json!([present[0]["rules"][0], more]));
        assert_eq!(next[1]["name"], "b");
        let hasty = json!({"name": "a", "rules": [], "timeoutSeconds": 1});
        assert_eq!(extend(&present, vec![hasty]), None, "others may need the time");
        let patient = json!({"name": "a", "rules": [], "timeoutSeconds": 9});
        assert_eq!(extend(&present, vec![patient]).expect("a change")[0]["timeoutSeconds"], 9);
    }

    #[test]
    fn what_is_there_is_not_written_again() {
        let mut present = entry("a", vec![rule(&["pods"], &["CREATE"])]);
        let wanted = present.clone();
        present["matchPolicy"] = "Equivalent".into();
        assert_eq!(replace(std::slice::from_ref(&present), vec![wanted.clone()]), None);
        assert_eq!(replace(&[present], vec![]), Some(vec![]));
        assert_eq!(replace(&[], vec![wanted.clone()]), Some(vec![wanted]));
    }

    #[test]
    fn operators_shape_every_entry() {
        let all = BTreeSet::new();
        assert_eq!(
            selector(None, "writ-system", &all)["matchExpressions"][0]["values"],
            json!(["kube-system", "kube-node-lease", "writ-system"])
        );
        let chosen = json!({"matchLabels": {"team": "a"}});
        let selector = selector(Some(&chosen), "writ-system", &all);
        assert_eq!(selector["matchLabels"], chosen["matchLabels"]);
        assert_eq!(
            selector["matchExpressions"][0]["values"],
            json!(["kube-node-lease", "writ-system"]),
            "never its own"
        );
        let pair = |name: &str, expression: &str| (name.to_owned(), expression.to_owned());
        let conditions = joined(&[pair("a", "1"), pair("b", "2")], &[pair("b", "3"), pair("c", "4")]);
        assert_eq!(conditions, [pair("a", "1"), pair("b", "2"), pair("b.settings", "3"), pair("c", "4")]);
    }

    #[test]
    fn entries_of_policies_are_for_their_namespaces() {
        let entry = |names: &[&str]| {
            let only: BTreeSet<String> = names.iter().map(|name| (*name).to_owned()).collect();
            let mut entry = entry("a", vec![rule(&["pods"], &["CREATE"])]);
            entry["namespaceSelector"] = selector(None, "writ-system", &only);
            entry
        };
        let only = |entry: &Value| entry["namespaceSelector"]["matchExpressions"][1].clone();
        assert_eq!(only(&entry(&["b"])), json!({"key": NAME_LABEL, "operator": "In", "values": ["b"]}));
        let next = extend(&[entry(&["b"])], vec![entry(&["a"])]).expect("one more namespace");
        assert_eq!(only(&next[0])["values"], json!(["a", "b"]));
        assert_eq!(extend(&next, vec![entry(&["a"])]), None);
        assert_eq!(replace(&next, vec![entry(&["a"])]).expect("one less").len(), 1);
    }

    #[test]
    fn labels_of_others_are_no_reason_to_write() {
        let labels = BTreeMap::from([("a".to_owned(), "b".to_owned())]);
        let settings = WebhookSettings { labels, ..WebhookSettings::default() };
        assert!(wears(&json!({"metadata": {"labels": {"a": "b", "c": "d"}}}), &settings));
        assert!(!wears(&json!({"metadata": {"labels": {"a": "x"}}}), &settings));
        assert!(!wears(&json!({"metadata": {}}), &settings));
        assert!(wears(&json!({"metadata": {}}), &WebhookSettings::default()));
    }
}
