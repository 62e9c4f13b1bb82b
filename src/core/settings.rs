//! What operators set in the ConfigMap of the install, with the names that Kyverno gave them.
//!
//! `updateRequestThreshold` may be set and has no effect: no work is dropped, however much there is.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use super::limits::Limits;
use super::matching::{ExcludedUsers, ResourceFilters, UserPatterns};
use super::problem::{FieldPath, Problem, Reason};
use super::scalar::quantity::Quantity;
use super::selector::{LabelSelector, Wildcards};

/// The settings in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Objects that set nothing off.
    pub resource_filters: ResourceFilters,
    /// Requesters whose requests set nothing off.
    pub excluded_users: ExcludedUsers,
    /// Whether successes become events, too.
    pub success_events: bool,
    /// The actions whose successes do; all if none is named.
    pub success_actions: BTreeSet<String>,
    /// JSON bytes of context that a rule may load; 0 for any.
    pub context_bytes: usize,
    pub webhooks: WebhookSettings,
}

/// What operators ask of the webhook configuration for resources.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WebhookSettings {
    /// Selectors in their wire form.
    pub namespace_selector: Option<Value>,
    pub object_selector: Option<Value>,
    pub labels: BTreeMap<String, String>,
    pub annotations: BTreeMap<String, String>,
    /// Names and CEL expressions, for every entry.
    pub match_conditions: Vec<(String, String)>,
}

/// What is left alone unless somebody says otherwise: the cluster's own machinery.
const FILTERS: &str = "\
    [*/*,kube-system,*][*/*,kube-public,*][*/*,kube-node-lease,*]\
    [Event,*,*][Node,*,*][Node/?*,*,*][APIService,*,*][APIService/?*,*,*]\
    [TokenReview,*,*][SubjectAccessReview,*,*][SelfSubjectAccessReview,*,*][LocalSubjectAccessReview,*,*]\
    [Binding,*,*][Pod/binding,*,*][ReplicaSet,*,*][ReplicaSet/?*,*,*]\
    [UpdateRequest,*,*][Lease,*,*]";
const EXCLUDED_GROUPS: &str = "system:nodes";

impl Settings {
    /// Reads the `data` of the ConfigMap. What cannot be read is a problem, and as if it were not set.
    pub fn read(data: &Map<String, Value>, own_namespace: &str, problems: &mut Vec<Problem>) -> Self {
        let reading = Reading { data };
        let filters = format!("{}[*/*,{own_namespace},*]", reading.text("resourceFilters").unwrap_or(FILTERS));
        let patterns = |key: &str, default: &str| UserPatterns::parse(reading.text(key).unwrap_or(default));
        Self {
            resource_filters: ResourceFilters::parse(&filters, &path("resourceFilters"), problems),
            excluded_users: ExcludedUsers {
                usernames: patterns("excludeUsernames", ""),
                groups: patterns("excludeGroups", EXCLUDED_GROUPS),
                roles: patterns("excludeRoles", ""),
                cluster_roles: patterns("excludeClusterRoles", ""),
            },
            success_events: reading.text("generateSuccessEvents") == Some("true"),
            success_actions: words(reading.text("successEventActions").unwrap_or_default()),
            context_bytes: reading.bytes("maxContextSize", problems).unwrap_or(Limits::default().context_bytes),
            webhooks: reading.webhooks(problems),
        }
    }
}

/// The entries of the ConfigMap.
struct Reading<'d> {
    data: &'d Map<String, Value>,
}

impl<'d> Reading<'d> {
    /// Nothing if the key is missing or says nothing.
    fn text(&self, key: &str) -> Option<&'d str> {
        self.data.get(key).and_then(Value::as_str)
    }

    fn json(&self, key: &'static str, problems: &mut Vec<Problem>) -> Option<Value> {
        let text = self.text(key).filter(|text| !text.trim().is_empty())?;
        let read = serde_json::from_str(text);
        read.map_err(|error| problems.push(Problem::new(path(key), Reason::Format, format!("is no JSON: {error}"))))
            .ok()
    }

    fn bytes(&self, key: &'static str, problems: &mut Vec<Problem>) -> Option<usize> {
        let text = self.text(key).filter(|text| !text.trim().is_empty())?;
        let reason = match text.trim().parse::<Quantity>() {
            // Kubernetes rounds up to whole bytes; nobody has so many that a float could not tell them apart.
            Ok(size) if size.to_f64() >= 0.0 => return Some(size.to_f64().ceil() as usize),
            Ok(_) => format!("`{text}` is less than nothing"),
            Err(error) => error.to_string(),
        };
        problems.push(Problem::new(path(key), Reason::Format, reason));
        None
    }

    fn webhooks(&self, problems: &mut Vec<Problem>) -> WebhookSettings {
        let selectors = match self.json("webhooks", problems) {
            // An older form: a list, of which the first counts.
            Some(Value::Array(list)) => list.into_iter().next(),
            other => other,
        };
        if selectors.as_ref().is_some_and(|selectors| !selectors.is_object()) {
            let message = "must be an object with namespaceSelector or objectSelector";
            problems.push(Problem::new(path("webhooks"), Reason::Format, message));
        }
        let mut selector = |field: &'static str| {
            let value = selectors.as_ref()?.get(field).filter(|value| !value.is_null())?;
            let sound = LabelSelector::parse(value, Wildcards::Refused, &path("webhooks").field(field), problems);
            sound.map(|_| lean(value))
        };
        WebhookSettings {
            namespace_selector: selector("namespaceSelector"),
            object_selector: selector("objectSelector"),
            labels: self.pairs("webhookLabels", |label| label.clone(), problems),
            // Values of annotations may be anything.
            annotations: self.pairs("webhookAnnotations", |_| "".into(), problems),
            match_conditions: self.conditions(problems),
        }
    }

    /// A mapping whose keys, and what `checked` makes of the values, are as labels must be.
    fn pairs(
        &self,
        key: &'static str,
        checked: fn(&Value) -> Value,
        problems: &mut Vec<Problem>,
    ) -> BTreeMap<String, String> {
        let Some(value) = self.json(key, problems) else {
            return BTreeMap::new();
        };
        let fields = value.as_object();
        let pair = |(name, value): (&String, &Value)| Some((name.clone(), value.as_str()?.to_owned()));
        let Some(pairs) = fields.and_then(|fields| fields.iter().map(pair).collect()) else {
            let message = "must be an object whose values are texts";
            problems.push(Problem::new(path(key), Reason::Format, message));
            return BTreeMap::new();
        };
        let labels: Map<String, Value> =
            fields.into_iter().flatten().map(|(name, value)| (name.clone(), checked(value))).collect();
        let sound = LabelSelector::parse(&json!({"matchLabels": labels}), Wildcards::Refused, &path(key), problems);
        sound.map(|_| pairs).unwrap_or_default()
    }

    fn conditions(&self, problems: &mut Vec<Problem>) -> Vec<(String, String)> {
        let key = "matchConditions";
        let Some(value) = self.json(key, problems) else {
            return Vec::new();
        };
        let text = |item: &Value, field: &str| {
            item.get(field).and_then(Value::as_str).filter(|text| !text.is_empty()).map(str::to_owned)
        };
        let pair = |item: &Value| Some((text(item, "name")?, text(item, "expression")?));
        let conditions: Option<Vec<_>> = value.as_array().and_then(|items| items.iter().map(pair).collect());
        conditions.unwrap_or_else(|| {
            let message = "must be a list of objects with name and expression";
            problems.push(Problem::new(path(key), Reason::Format, message));
            Vec::new()
        })
    }
}

fn path(key: &'static str) -> FieldPath {
    FieldPath::root().field("data").field(key)
}

/// A selector without what says nothing: API servers keep it that way, and what they keep is compared with this.
fn lean(value: &Value) -> Value {
    let empty = |value: &Value| match value {
        Value::Null => true,
        Value::Object(fields) => fields.is_empty(),
        Value::Array(items) => items.is_empty(),
        _ => false,
    };
    match value {
        Value::Object(fields) => {
            fields.iter().filter(|(_, value)| !empty(value)).map(|(name, value)| (name.clone(), lean(value))).collect()
        }
        Value::Array(items) => items.iter().map(lean).collect(),
        other => other.clone(),
    }
}

fn words(text: &str) -> BTreeSet<String> {
    text.split(',').map(str::trim).filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::core::matching::Resource;

    fn read(data: Value) -> Settings {
        let mut problems = Vec::new();
        let settings = Settings::read(data.as_object().expect("an object"), "writ-system", &mut problems);
        assert_eq!(problems, []);
        settings
    }

    fn filters(settings: &Settings, kind: &str, namespace: &str, name: &str) -> bool {
        let resource = Resource { group: "", version: "v1", kind, subresource: "" };
        settings.resource_filters.matches(&resource, namespace, name)
    }

    #[test]
    fn the_machinery_is_left_alone() {
        let settings = read(json!({}));
        assert!(filters(&settings, "Secret", "kube-system", "a"));
        assert!(filters(&settings, "Namespace", "", "kube-system"));
        assert!(filters(&settings, "Secret", "writ-system", "a"));
        assert!(!filters(&settings, "Secret", "default", "a"));
        assert!(!settings.success_events);
    }

    #[test]
    fn operators_say_otherwise() {
        let settings = read(json!({"resourceFilters": "[Secret,*,a*]", "generateSuccessEvents": "true"}));
        assert!(filters(&settings, "Secret", "default", "abc"));
        assert!(!filters(&settings, "Secret", "kube-system", "b"));
        assert!(filters(&settings, "Secret", "writ-system", "b"), "its own namespace stays out in any case");
        assert!(settings.success_events);
    }

    #[test]
    fn events_and_context_have_bounds() {
        let settings = read(json!({}));
        assert_eq!((settings.context_bytes, settings.success_actions.len()), (2 << 20, 0));
        let settings = read(json!({
            "maxContextSize": "1.5Mi", "successEventActions": "Resource Generated, None",
            "updateRequestThreshold": "1000",
        }));
        assert_eq!(settings.context_bytes, 3 << 19);
        assert!(settings.success_actions.contains("Resource Generated") && settings.success_actions.contains("None"));
        assert_eq!(read(json!({"maxContextSize": "0"})).context_bytes, 0);
    }

    #[test]
    fn webhooks_are_shaped() {
        let selector = json!({"matchExpressions": [{"key": "team", "operator": "Exists"}]});
        let settings = read(json!({
            "webhooks": json!({
                "namespaceSelector": {"matchExpressions": [{"key": "team", "operator": "Exists", "values": []}]},
                "objectSelector": {"matchLabels": {"a": "b"}, "matchExpressions": null},
            }).to_string(),
            "webhookLabels": r#"{"example.com/owner": "a"}"#,
            "webhookAnnotations": r#"{"example.com/note": "any text at all"}"#,
            "matchConditions": r#"[{"name": "no-nodes", "expression": "!('system:nodes' in request.userInfo.groups)"}]"#,
        }));
        let webhooks = settings.webhooks;
        assert_eq!(webhooks.namespace_selector, Some(selector.clone()));
        assert_eq!(webhooks.object_selector, Some(json!({"matchLabels": {"a": "b"}})));
        assert_eq!(webhooks.labels["example.com/owner"], "a");
        assert_eq!(webhooks.annotations["example.com/note"], "any text at all");
        assert_eq!(webhooks.match_conditions[0].0, "no-nodes");
        let older = read(json!({"webhooks": json!([{"namespaceSelector": selector}]).to_string()}));
        assert_eq!(older.webhooks.namespace_selector, Some(selector));
        assert_eq!(read(json!({"webhooks": "", "webhookLabels": " "})).webhooks, WebhookSettings::default());
    }

    #[test]
    fn what_cannot_be_read_is_told_and_left_out() {
        let data = json!({
            "maxContextSize": "plenty", "webhooks": "{", "webhookLabels": r#"{"a b": "c"}"#,
            "webhookAnnotations": r#"{"a": 1}"#, "matchConditions": r#"[{"name": "a"}]"#,
        });
        let mut problems = Vec::new();
        let settings = Settings::read(data.as_object().expect("an object"), "writ-system", &mut problems);
        assert_eq!(settings, read(json!({})));
        let fields: Vec<String> = problems.iter().map(|problem| problem.field.to_string()).collect();
        assert_eq!(
            fields,
            [
                "data.maxContextSize",
                "data.webhooks",
                r#"data.webhookLabels.matchLabels["a b"]"#,
                "data.webhookAnnotations",
                "data.matchConditions"
            ]
        );
    }
}
