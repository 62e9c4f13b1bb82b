//! Rules and policies of these tests: one builder, so that a test says only what it is about.
//!
//! `NS` in any text is the namespace of the stage; see [`super::Stage::apply`].

use serde_json::{Value, json};

/// One generate rule. Its triggers are the ConfigMaps of [`super::Stage::trigger`].
#[derive(Clone)]
pub(super) struct Rule(Value);

impl Rule {
    pub(super) fn new(name: &str, generate: Value) -> Self {
        let triggers =
            json!({"kinds": ["ConfigMap"], "namespaces": ["NS"], "selector": {"matchLabels": {"make": "yes"}}});
        Self(json!({"name": name, "match": {"any": [{"resources": triggers}]}, "generate": generate}))
    }

    /// Makes Secret `NAME-TRIGGER` with the value of its trigger.
    pub(super) fn data(name: &str) -> Self {
        Self::secret(name).making("data", json!({"stringData": {"value": "{{request.object.data.value}}"}}))
    }

    /// Copies Secret `source` to `NAME-TRIGGER`.
    pub(super) fn clone(name: &str) -> Self {
        Self::secret(name).making("clone", json!({"namespace": "NS", "name": "source"}))
    }

    /// Copies every Secret with the label `copy: LABEL` to another namespace.
    pub(super) fn clone_list(name: &str, label: &str, namespace: &str) -> Self {
        let selector = json!({"matchLabels": {"copy": label}});
        let list = json!({"namespace": "NS", "kinds": ["v1/Secret"], "selector": selector});
        Self::new(name, json!({"namespace": namespace, "cloneList": list}))
    }

    /// Goes through the words of the trigger's value. `entry` is what is made for each, beside the list.
    pub(super) fn foreach(name: &str, mut entry: Value) -> Self {
        entry["list"] = "request.object.data.value | split(@, ',')".into();
        Self::new(name, json!({"foreach": [entry]}))
    }

    fn secret(name: &str) -> Self {
        Self::new(name, secret(&format!("{name}-{{{{request.object.metadata.name}}}}")))
    }

    pub(super) fn synchronized(self) -> Self {
        self.making("synchronize", json!(true))
    }

    pub(super) fn orphaning(self) -> Self {
        self.making("orphanDownstreamOnPolicyDelete", json!(true))
    }

    pub(super) fn for_existing(self) -> Self {
        self.making("generateExisting", json!(true))
    }

    /// Sets a field of `generate`.
    pub(super) fn making(mut self, field: &str, value: Value) -> Self {
        self.0["generate"][field] = value;
        self
    }

    /// Sets a field of the rule.
    pub(super) fn with(mut self, field: &str, value: Value) -> Self {
        self.0[field] = value;
        self
    }

    /// Sets a field of what the trigger must be.
    pub(super) fn on(mut self, field: &str, value: Value) -> Self {
        self.0["match"]["any"][0]["resources"][field] = value;
        self
    }

    /// Applies only while an expression has this value.
    pub(super) fn only_if(self, key: &str, value: &str) -> Self {
        self.with("preconditions", json!({"all": [{"key": key, "operator": "Equals", "value": value}]}))
    }
}

/// What says where a Secret of the stage is to be made.
pub(super) fn secret(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Secret", "name": name, "namespace": "NS"})
}

/// A ClusterPolicy named after the stage, unless said.
#[derive(Clone)]
pub(super) struct Policy(Value);

impl Policy {
    pub(super) fn named(mut self, name: &str) -> Self {
        self.0["metadata"]["name"] = name.into();
        self
    }

    /// A Policy in the namespace of the stage.
    pub(super) fn at_home(mut self) -> Self {
        self.0["kind"] = "Policy".into();
        self.0["metadata"]["namespace"] = "NS".into();
        self
    }

    pub(super) fn annotated(mut self, name: &str, value: &str) -> Self {
        self.0["metadata"]["annotations"][name] = value.into();
        self
    }

    /// Sets a field of `spec`.
    pub(super) fn with(mut self, field: &str, value: Value) -> Self {
        self.0["spec"][field] = value;
        self
    }

    pub(super) fn is_namespaced(&self) -> bool {
        self.0["kind"] == "Policy"
    }

    pub(super) fn name(&self) -> &str {
        self.0["metadata"]["name"].as_str().unwrap_or_default()
    }
}

impl std::fmt::Display for Policy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

impl From<Vec<Rule>> for Policy {
    fn from(rules: Vec<Rule>) -> Self {
        let rules: Vec<Value> = rules.into_iter().map(|rule| rule.0).collect();
        let kind = "ClusterPolicy";
        Self(json!({"apiVersion": "kyverno.io/v1", "kind": kind, "metadata": {"name": "NS"}, "spec": {"rules": rules}}))
    }
}

impl<const N: usize> From<[Rule; N]> for Policy {
    fn from(rules: [Rule; N]) -> Self {
        Vec::from(rules).into()
    }
}

impl From<Rule> for Policy {
    fn from(rule: Rule) -> Self {
        vec![rule].into()
    }
}
