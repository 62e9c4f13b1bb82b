//! The webhook configuration for the objects that rules are about, written from what the policies need.
//!
//! It calls the same Service, with the same authority, as the configuration of the install, and it belongs to that one: who
//! uninstalls it removes both. Every entry fails open and leaves the cluster's own namespaces alone.

use serde_json::{Value, json};
use tracing::info;

use super::kinds::ApiKind;
use super::{Api, ClusterError, Rehearsal};
use crate::core::generate::registration::{Hook, HookRule, HookScope, Purpose};
use crate::core::matching::Operation;
use crate::core::resource::text_at;

/// How often somebody else may be faster.
const MOST_CONFLICTS: usize = 8;

/// Writes the configuration.
#[derive(Clone)]
pub struct Registrar {
    api: Api,
    names: Names,
    kind: ApiKind,
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
    /// The path that entries call.
    pub path: String,
}

/// How new entries stand to old ones.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    /// They take their place.
    Replace,
    /// They are added.
    Extend,
}

impl Registrar {
    pub fn new(api: Api, names: Names) -> Self {
        let kind = ApiKind::builtin("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration");
        Self { api, names, kind }
    }

    /// Makes the configuration say exactly this. For whoever leads.
    pub async fn write(&self, hooks: &[Hook]) -> Result<(), ClusterError> {
        self.put(hooks, Way::Replace).await
    }

    /// Adds what is missing and takes nothing away: others may know of policies that are not known here yet.
    pub async fn extend(&self, hooks: &[Hook]) -> Result<(), ClusterError> {
        self.put(hooks, Way::Extend).await
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

    async fn put(&self, hooks: &[Hook], way: Way) -> Result<(), ClusterError> {
        let mut attempts = 0;
        loop {
            match self.try_put(hooks, way).await {
                Err(ClusterError::Conflict { .. } | ClusterError::Exists { .. } | ClusterError::Missing { .. })
                    if attempts < MOST_CONFLICTS =>
                {
                    attempts += 1;
                }
                outcome => return outcome,
            }
        }
    }

    async fn try_put(&self, hooks: &[Hook], way: Way) -> Result<(), ClusterError> {
        let Names { installed, configuration, .. } = &self.names;
        let found = self.api.find(&self.kind, None, configuration).await?;
        if hooks.is_empty() && (found.is_none() || way == Way::Extend) {
            return Ok(());
        }
        let owner = self.api.get(&self.kind, None, installed).await.map_err(|error| match error {
            // Told apart from a configuration that is only just being deleted: trying again does not help.
            ClusterError::Missing { resource } => ClusterError::Rejected {
                verb: "follow",
                resource,
                reason: "it does not exist; it is part of the install".to_owned(),
            },
            error => error,
        })?;
        let wanted: Vec<Value> = hooks.iter().map(|hook| self.render(hook, &owner)).collect();
        let Some(found) = found else {
            let body = self.whole(&owner, wanted);
            self.api.create(&self.kind, None, &body).await?;
            info!(name = configuration, "Webhook configuration created");
            return Ok(());
        };
        let present = found.get("webhooks").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let next = match way {
            Way::Replace => replace(present, wanted),
            Way::Extend => extend(present, wanted),
        };
        if let Some(next) = next {
            let mut body = self.whole(&owner, next);
            body["metadata"]["resourceVersion"] = found["metadata"]["resourceVersion"].clone();
            self.api.replace(&self.kind, None, configuration, &body, Rehearsal::No).await?;
            info!(name = configuration, "Webhook configuration changed");
        }
        Ok(())
    }

    fn whole(&self, owner: &Value, webhooks: Vec<Value>) -> Value {
        let (api_version, kind) = (self.kind.gvk.api_version(), &self.kind.gvk.kind);
        json!({
            "apiVersion": api_version,
            "kind": kind,
            "metadata": {
                "name": self.names.configuration,
                "labels": owner.pointer("/metadata/labels").cloned().unwrap_or_else(|| json!({})),
                "ownerReferences": [{
                    "apiVersion": api_version, "kind": kind,
                    "name": text_at(owner, &["metadata", "name"]), "uid": text_at(owner, &["metadata", "uid"]),
                }],
            },
            "webhooks": webhooks,
        })
    }

    fn render(&self, hook: &Hook, owner: &Value) -> Value {
        let Hook { purpose, policy, rules, match_conditions, timeout_seconds } = hook;
        let word = match purpose {
            Purpose::Intake => "intake",
            Purpose::Preview => "preview",
        };
        let (name, path) = match policy {
            None => (format!("{word}.writ.dev"), self.names.path.clone()),
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
        match client.get_mut("service") {
            Some(service) => service["path"] = path.into(),
            None => client["url"] = redirect(text_at(&client, &["url"]), &path).into(),
        }
        let mut entry = json!({
            "name": name,
            "admissionReviewVersions": ["v1"],
            "clientConfig": client,
            "failurePolicy": "Ignore",
            "matchPolicy": "Equivalent",
            "sideEffects": "NoneOnDryRun",
            "timeoutSeconds": timeout_seconds,
            "namespaceSelector": {"matchExpressions": [{
                "key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["kube-system", self.names.namespace],
            }]},
            "objectSelector": {},
            "rules": rules.iter().map(render_rule).collect::<Vec<_>>(),
        });
        if !match_conditions.is_empty() {
            entry["matchConditions"] = render_conditions(match_conditions);
        }
        entry
    }
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

/// An address with another path.
fn redirect(url: &str, path: &str) -> String {
    let start = url.find("://").map_or(0, |scheme| scheme + 3);
    let end = url[start..].find('/').map_or(url.len(), |slash| start + slash);
    format!("{}{path}", &url[..end])
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
        if !says(&next[position], &entry) {
            next[position] = entry;
            changed = true;
        }
    }
    changed.then_some(next)
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
    fn addresses_keep_their_host() {
        assert_eq!(redirect("https://localhost:9443/validate", "/x"), "https://localhost:9443/x");
        assert_eq!(redirect("https://localhost:9443", "/x"), "https://localhost:9443/x");
    }
}
