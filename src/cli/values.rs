//! The values file: facts and request details that a rule gets when there is no cluster to ask.
//!
//! The format is the one of the Kyverno command line (`kind: Values`), so the files people have go on working. A dotted key
//! is a path: `request.operation: UPDATE` changes the request, `dictionary.data.env: prod` gives the context entry
//! `dictionary`. Later ones win: `globalValues`, then those of the rule, then those of the resource. `foreachValues` of a
//! rule has a list for each path, with one value for each element of its loops. `subresources` says which payloads belong to
//! a subresource of which kind.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, bail};
use serde_json::{Map, Value};

use crate::core::resource::Gvk;
use crate::core::yaml;

/// A values file, read.
#[derive(Clone, Debug, Default)]
pub(super) struct Values {
    global: Map<String, Value>,
    rules: BTreeMap<(String, String), Map<String, Value>>,
    resources: BTreeMap<(String, String), Map<String, Value>>,
    /// Lists by path.
    loops: BTreeMap<(String, String), Map<String, Value>>,
    subresources: Vec<Subresource>,
    /// Labels of namespaces, by name.
    pub(super) namespaces: BTreeMap<String, Map<String, Value>>,
}

/// A kind of object that is the payload of a subresource, as `Scale` is of `deployments/scale`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Subresource {
    payload: Gvk,
    /// The part behind the slash.
    pub(super) name: String,
    /// The kind that it belongs to.
    pub(super) parent: Gvk,
    /// The plural of that kind.
    pub(super) parent_resource: String,
}

/// What the file has for one rule and one trigger.
#[derive(Clone, Debug, Default)]
pub(super) struct Given {
    /// To be laid over the request.
    pub(super) request: Map<String, Value>,
    /// Context values by name.
    pub(super) variables: Map<String, Value>,
    /// The same for each element of a loop.
    pub(super) each: Vec<Map<String, Value>>,
}

/// Who the requests are made by: `kind: UserInfo` with `userInfo`, `roles` and `clusterRoles`.
pub(super) fn read_requester(path: &Path) -> anyhow::Result<Map<String, Value>> {
    let document = read_document(path)?;
    let mut requester = Map::new();
    for (key, value) in object(&document, "the file")? {
        match key.as_str() {
            "userInfo" | "roles" | "clusterRoles" => {
                requester.insert(key.clone(), value.clone());
            }
            "apiVersion" | "kind" | "metadata" => {}
            other => bail!("{}: unknown field `{other}`; known: userInfo, roles, clusterRoles", path.display()),
        }
    }
    Ok(requester)
}

impl Values {
    pub(super) fn read(path: &Path) -> anyhow::Result<Self> {
        let document = read_document(path)?;
        Self::from_document(&document).with_context(|| format!("reading values from {}", path.display()))
    }

    pub(super) fn from_document(document: &Value) -> anyhow::Result<Self> {
        let mut values = Self::default();
        for (key, value) in object(document, "the file")? {
            match key.as_str() {
                "apiVersion" | "kind" | "metadata" => {}
                "subresources" => {
                    for entry in list(value, "subresources")? {
                        values.subresources.push(Subresource::read(entry)?);
                    }
                }
                "globalValues" => values.global = object(value, "globalValues")?.clone(),
                "policies" => {
                    for policy in list(value, "policies")? {
                        values.add_policy(policy)?;
                    }
                }
                "namespaceSelector" => {
                    for namespace in list(value, "namespaceSelector")? {
                        let labels = namespace.get("labels").cloned().unwrap_or_default();
                        let labels = labels.as_object().cloned().unwrap_or_default();
                        values.namespaces.insert(name_of(namespace, "namespaceSelector")?, labels);
                    }
                }
                other => {
                    bail!("unknown field `{other}`; known: globalValues, policies, namespaceSelector, subresources")
                }
            }
        }
        Ok(values)
    }

    fn add_policy(&mut self, policy: &Value) -> anyhow::Result<()> {
        let name = name_of(policy, "policies")?;
        for (key, value) in object(policy, "policies")? {
            let store = match key.as_str() {
                "name" => continue,
                "rules" => &mut self.rules,
                "resources" => &mut self.resources,
                other => bail!("policy {name}: unknown field `{other}`; known: name, rules, resources"),
            };
            for part in list(value, key)? {
                let part_name = name_of(part, key)?;
                if let Some(lists) = part.get("foreachValues").filter(|_| key == "rules") {
                    let lists = object(lists, "foreachValues")?;
                    for (path, values) in lists {
                        list(values, path)
                            .with_context(|| format!("policy {name}, rule {part_name}: foreachValues"))?;
                    }
                    self.loops.entry((name.clone(), part_name.clone())).or_default().extend(lists.clone());
                }
                let given = part.get("values").cloned().unwrap_or_default();
                let given = given.as_object().cloned().unwrap_or_default();
                store.entry((name.clone(), part_name)).or_default().extend(given);
            }
        }
        Ok(())
    }

    pub(super) fn given(&self, policy: &str, rule: &str, resource: &str) -> Given {
        let of_rule = self.rules.get(&(policy.to_owned(), rule.to_owned()));
        let of_resource = self.resources.get(&(policy.to_owned(), resource.to_owned()));
        let mut variables = Map::new();
        for layer in [Some(&self.global), of_rule, of_resource].into_iter().flatten() {
            for (path, value) in layer {
                put(&mut variables, path, value.clone());
            }
        }
        let request = match variables.remove("request") {
            Some(Value::Object(request)) => request,
            _ => Map::new(),
        };
        let each = self.loops.get(&(policy.to_owned(), rule.to_owned())).map(|lists| each(lists, &variables));
        Given { request, variables, each: each.unwrap_or_default() }
    }

    /// The subresource that objects of a kind are the payload of.
    pub(super) fn subresource(&self, payload: &Gvk) -> Option<&Subresource> {
        self.subresources.iter().find(|subresource| subresource.payload == *payload)
    }
}

impl Subresource {
    fn read(entry: &Value) -> anyhow::Result<Self> {
        let (subresource, parent) = (entry.get("subresource"), entry.get("parentResource"));
        let kind = |part: Option<&Value>, what: &str| {
            let part = part.with_context(|| format!("every entry of `subresources` needs a `{what}`"))?;
            let text = |field: &str| part.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
            let gvk = Gvk { group: text("group"), version: text("version"), kind: text("kind") };
            if gvk.version.is_empty() || gvk.kind.is_empty() {
                bail!("`{what}` of `subresources` needs `version` and `kind`");
            }
            Ok((gvk, name_of(part, what)?))
        };
        let (payload, name) = kind(subresource, "subresource")?;
        let (parent, parent_resource) = kind(parent, "parentResource")?;
        let name = name.rsplit('/').next().unwrap_or_default().to_owned();
        Ok(Self { payload, name, parent, parent_resource })
    }
}

/// For each element the values of all lists at its index, laid over what is given for the whole rule.
fn each(lists: &Map<String, Value>, variables: &Map<String, Value>) -> Vec<Map<String, Value>> {
    let longest = lists.values().filter_map(Value::as_array).map(Vec::len).max().unwrap_or_default();
    let of_element = |index: usize| {
        let mut given = Map::new();
        for (path, values) in lists {
            let Some(value) = values.get(index) else { continue };
            let name = path.split('.').next().unwrap_or(path);
            if !given.contains_key(name)
                && let Some(whole) = variables.get(name)
            {
                given.insert(name.to_owned(), whole.clone());
            }
            put(&mut given, path, value.clone());
        }
        given
    };
    (0..longest).map(of_element).collect()
}

/// Puts a value at a dotted path; a part that is no object gives way to one.
fn put(into: &mut Map<String, Value>, path: &str, value: Value) {
    const DEEPEST: usize = 64;
    let mut parts: Vec<&str> = path.splitn(DEEPEST, '.').collect();
    let last = parts.pop().unwrap_or(path);
    let below = parts.into_iter().fold(into, |below, part| {
        let slot = below.entry(part).or_insert(Value::Null);
        if !slot.is_object() {
            *slot = Value::Object(Map::new());
        }
        slot.as_object_mut().expect("made an object just above")
    });
    below.insert(last.to_owned(), value);
}

fn read_document(path: &Path) -> anyhow::Result<Value> {
    let text = std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
    yaml::read_value(&text).with_context(|| format!("reading {}", path.display()))
}

fn object<'v>(value: &'v Value, what: &str) -> anyhow::Result<&'v Map<String, Value>> {
    value.as_object().with_context(|| format!("{what} must be a mapping"))
}

fn list<'v>(value: &'v Value, what: &str) -> anyhow::Result<&'v Vec<Value>> {
    value.as_array().with_context(|| format!("`{what}` must be a list"))
}

fn name_of(value: &Value, what: &str) -> anyhow::Result<String> {
    let name = value.get("name").and_then(Value::as_str).map(str::to_owned);
    name.with_context(|| format!("every entry of `{what}` needs a `name`"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn later_layers_win_and_dotted_keys_are_paths() {
        let document = json!({
            "kind": "Values",
            "globalValues": {"request.operation": "UPDATE", "mode": "all"},
            "policies": [{
                "name": "p",
                "rules": [{"name": "r", "values": {"dictionary.data.env": "dev", "mode": "rule"}}],
                "resources": [{"name": "web", "values": {"dictionary.data.env": "prod"}}],
            }],
            "namespaceSelector": [{"name": "a", "labels": {"team": "x"}}],
        });
        let values = Values::from_document(&document).expect("good values");
        let given = values.given("p", "r", "web");
        assert_eq!(Value::Object(given.request), json!({"operation": "UPDATE"}));
        assert_eq!(Value::Object(given.variables), json!({"dictionary": {"data": {"env": "prod"}}, "mode": "rule"}));
        let other = values.given("p", "other", "x");
        assert_eq!(Value::Object(other.variables), json!({"mode": "all"}));
        assert_eq!(values.namespaces["a"]["team"], json!("x"));
    }

    #[test]
    fn loops_have_values_for_each_element() {
        let document = json!({"policies": [{"name": "p", "rules": [{
            "name": "r",
            "values": {"image.tag": "latest", "image.os": "linux"},
            "foreachValues": {"image.tag": ["1.0", "1.1"], "size": [5]},
        }]}]});
        let values = Values::from_document(&document).expect("good values");
        let given = values.given("p", "r", "web");
        assert_eq!(Value::Object(given.variables), json!({"image": {"tag": "latest", "os": "linux"}}));
        let each: Vec<_> = given.each.into_iter().map(Value::Object).collect();
        assert_eq!(
            each,
            [
                json!({"image": {"tag": "1.0", "os": "linux"}, "size": 5}),
                json!({"image": {"tag": "1.1", "os": "linux"}})
            ]
        );
        let no_list = json!({"policies": [{"name": "p", "rules": [{"name": "r", "foreachValues": {"a": "b"}}]}]});
        let error = format!("{:#}", Values::from_document(&no_list).expect_err("no list"));
        assert!(error.contains("policy p, rule r") && error.contains("`a` must be a list"), "{error}");
    }

    #[test]
    fn payloads_belong_to_subresources() {
        let document = json!({"subresources": [{
            "subresource": {"name": "deployments/scale", "kind": "Scale", "group": "autoscaling", "version": "v1"},
            "parentResource": {"name": "deployments", "kind": "Deployment", "group": "apps", "version": "v1"},
        }]});
        let values = Values::from_document(&document).expect("good values");
        let scale = values.subresource(&Gvk::new("autoscaling/v1", "Scale")).expect("known");
        assert_eq!((scale.name.as_str(), &scale.parent), ("scale", &Gvk::new("apps/v1", "Deployment")));
        assert_eq!(values.subresource(&Gvk::new("apps/v1", "Deployment")), None);
        let error = Values::from_document(&json!({"subresources": [{"subresource": {"name": "a/b"}}]}));
        assert!(error.expect_err("no kind").to_string().contains("needs `version` and `kind`"));
    }

    #[test]
    fn a_mistyped_field_is_refused() {
        let error = Values::from_document(&json!({"globalValue": {}})).expect_err("unknown field");
        assert!(error.to_string().contains("globalValue"), "{error}");
    }
}
