//! From the wire form of `match` and `exclude` to [`RuleMatch`], with every problem found on the way.

use serde_json::{Map, Value};

use super::cover::swallows;
use super::filter::Side;
use super::{Block, Filter, KindSelector, Operation, Operations, RuleMatch, Subject};
use crate::core::problem::{FieldPath, Problem, Reason};
use crate::core::selector::{LabelSelector, Wildcards};

/// What must be known beside the blocks themselves.
#[derive(Clone, Copy)]
pub struct Scope<'a> {
    /// The namespace of a namespaced policy.
    pub policy_namespace: Option<&'a str>,
    /// Whether objects of a kind live in namespaces; `None` if nobody knows.
    pub is_namespaced: &'a dyn Fn(&KindSelector) -> Option<bool>,
}

const FILTER_FIELDS: [&str; 4] = ["resources", "subjects", "roles", "clusterRoles"];
const RESOURCE_FIELDS: [&str; 8] =
    ["kinds", "name", "names", "namespaces", "annotations", "selector", "namespaceSelector", "operations"];

impl RuleMatch {
    /// Compiles the `match` and `exclude` of the generate rule at `path`; an absent block comes in as null. `None` if there
    /// were problems.
    pub fn parse(
        matching: &Value,
        exclude: &Value,
        scope: Scope<'_>,
        path: &FieldPath,
        problems: &mut Vec<Problem>,
    ) -> Option<Self> {
        let before = problems.len();
        let exclude_path = path.field("exclude");
        let matching = Compiler { scope, side: Side::Match, problems }.block(matching, &path.field("match"));
        let exclude = Compiler { scope, side: Side::Exclude, problems }.block(exclude, &exclude_path);
        if let (Some(matching), Some(exclude)) = (&matching, &exclude)
            && swallows(exclude, matching)
        {
            problems.push(Problem::new(&exclude_path, Reason::Context, "takes out everything that match selects"));
        }
        if problems.len() > before {
            return None;
        }
        Some(Self { matching: matching?, exclude, policy_namespace: scope.policy_namespace.map(str::to_owned) })
    }
}

impl Block {
    /// Compiles the `match` of an exception, which stands at `path`. Unlike a rule it need not name kinds, and it may mean all
    /// of them; but it must say something.
    pub fn parse_exception(matching: &Value, path: &FieldPath, problems: &mut Vec<Problem>) -> Option<Self> {
        let before = problems.len();
        let scope = Scope { policy_namespace: None, is_namespaced: &|_| None };
        let block = Compiler { scope, side: Side::Except, problems }.block(matching, path);
        block.filter(|_| problems.len() == before)
    }
}

/// Compiles one block; problems are pushed, and the caller looks at them in the end.
struct Compiler<'a, 'p> {
    scope: Scope<'a>,
    side: Side,
    problems: &'p mut Vec<Problem>,
}

impl Compiler<'_, '_> {
    fn report(&mut self, path: &FieldPath, reason: Reason, message: impl Into<String>) {
        self.problems.push(Problem::new(path, reason, message));
    }

    fn block(&mut self, value: &Value, path: &FieldPath) -> Option<Block> {
        let empty = Map::new();
        let fields = match value {
            Value::Null => &empty,
            Value::Object(fields) => fields,
            _ => {
                self.report(path, Reason::Format, "must be an object with any or all");
                return None;
            }
        };
        self.refuse_variables(value, path);
        let present = |name: &str| fields.get(name).is_some_and(|value| !value.is_null());
        let legacy = FILTER_FIELDS.iter().any(|name| present(name));
        if usize::from(present("any")) + usize::from(present("all")) + usize::from(legacy) > 1 {
            self.report(path, Reason::Xor, "use any, or all, or filter fields directly, not several of them");
            return None;
        }
        for name in fields.keys().filter(|name| !matches!(name.as_str(), "any" | "all")) {
            if !FILTER_FIELDS.contains(&name.as_str()) {
                self.report(
                    &path.field(name.clone()),
                    Reason::Unknown,
                    "a block has any, all or the fields of one filter",
                );
            }
        }
        if present("any") {
            return self.filters(&fields["any"], &path.field("any")).map(Block::Any);
        }
        if present("all") {
            return self.filters(&fields["all"], &path.field("all")).map(Block::All);
        }
        if legacy && self.side == Side::Except {
            self.report(path, Reason::Format, "an exception has its filters under any or all");
            return None;
        }
        if legacy {
            return Some(Block::Any(vec![self.filter_fields(fields, path)]));
        }
        match self.side {
            Side::Match => self.report(path, Reason::Required, "a rule needs at least one kind under any or all"),
            Side::Except => self.report(path, Reason::Required, "an exception needs a filter under any or all"),
            Side::Exclude => {}
        }
        None
    }

    fn filters(&mut self, value: &Value, path: &FieldPath) -> Option<Vec<Filter>> {
        let Value::Array(items) = value else {
            self.report(path, Reason::Format, "must be a list of filters");
            return None;
        };
        match self.side {
            Side::Match if items.is_empty() => self.report(path, Reason::Empty, "a rule needs at least one kind"),
            Side::Except if items.is_empty() => self.report(path, Reason::Empty, "an exception needs a filter"),
            _ => {}
        }
        let mut filters = Vec::with_capacity(items.len());
        for (index, item) in items.iter().enumerate() {
            let path = path.index(index);
            let Value::Object(fields) = item else {
                self.report(&path, Reason::Format, "must be a filter: an object with resources or subjects");
                continue;
            };
            for name in fields.keys().filter(|name| !FILTER_FIELDS.contains(&name.as_str())) {
                let message = format!("a filter has {}", FILTER_FIELDS.join(", "));
                self.report(&path.field(name.clone()), Reason::Unknown, message);
            }
            let filter = self.filter_fields(fields, &path);
            if self.side == Side::Except && filter == Filter::default() {
                self.report(&path, Reason::Empty, "a filter without any attribute matches nothing");
            }
            filters.push(filter);
        }
        Some(filters)
    }

    fn filter_fields(&mut self, fields: &Map<String, Value>, path: &FieldPath) -> Filter {
        let mut filter = Filter::default();
        let resources = path.field("resources");
        match fields.get("resources") {
            None | Some(Value::Null) => {}
            Some(Value::Object(fields)) => self.resources(fields, &resources, &mut filter),
            Some(_) => self.report(&resources, Reason::Format, "must be an object"),
        }
        if self.side == Side::Match && fields.get("resources").is_none_or(|r| r.get("kinds").is_none_or(is_nothing)) {
            self.report(&resources.field("kinds"), Reason::Required, "a match filter needs at least one kind");
        }
        filter.subjects = self.subjects(fields, path);
        for (path, role) in self.texts(fields, "roles", path) {
            if role.matches(':').count() == 1 {
                filter.roles.insert(role.to_owned());
            } else {
                self.report(&path, Reason::Format, format!("`{role}` is not a role: write namespace:name"));
            }
        }
        filter.cluster_roles =
            self.texts(fields, "clusterRoles", path).into_iter().map(|(_, role)| role.to_owned()).collect();
        filter
    }

    fn resources(&mut self, fields: &Map<String, Value>, path: &FieldPath, filter: &mut Filter) {
        for name in fields.keys().filter(|name| !RESOURCE_FIELDS.contains(&name.as_str())) {
            self.report(
                &path.field(name.clone()),
                Reason::Unknown,
                format!("resources have {}", RESOURCE_FIELDS.join(", ")),
            );
        }
        for (path, text) in self.texts(fields, "kinds", path) {
            filter.kinds.extend(self.kind(text, &path));
        }
        filter.names = self.owned_texts(fields, "names", path);
        match fields.get("name") {
            None | Some(Value::Null) => {}
            Some(Value::String(name)) if name.is_empty() => {}
            Some(Value::String(name)) if filter.names.is_empty() => filter.names.push(name.clone()),
            Some(Value::String(_)) => self.report(&path.field("name"), Reason::Xor, "use either name or names"),
            Some(_) => self.report(&path.field("name"), Reason::Format, "must be a string"),
        }
        filter.namespaces = self.owned_texts(fields, "namespaces", path);
        if self.scope.policy_namespace.is_some() && !filter.namespaces.is_empty() {
            let message = "a namespaced policy is for its own namespace only";
            self.report(&path.field("namespaces"), Reason::Forbidden, message);
        }
        filter.annotations = self.annotations(fields, &path.field("annotations"));
        filter.selector = self.selector(fields, "selector", path);
        filter.namespace_selector = self.selector(fields, "namespaceSelector", path);
        filter.operations = self.operations(fields, path);
    }

    fn kind(&mut self, text: &str, path: &FieldPath) -> Option<KindSelector> {
        let Some(selector) = KindSelector::parse(text) else {
            let message = format!(
                "`{text}` matches nothing: write Kind, version/Kind, group/version/Kind, each with an optional /subresource"
            );
            self.report(path, Reason::Format, message);
            return None;
        };
        if selector.is_everything() && self.side != Side::Except {
            self.report(
                path,
                Reason::Forbidden,
                "a generate rule must name its kinds, a lone wildcard is not supported",
            );
        }
        if self.scope.policy_namespace.is_some() && (self.scope.is_namespaced)(&selector) == Some(false) {
            let message = format!("{selector} lives in no namespace, so a namespaced policy cannot match it");
            self.report(path, Reason::Forbidden, message);
        }
        Some(selector)
    }

    fn annotations(&mut self, fields: &Map<String, Value>, path: &FieldPath) -> Vec<(String, String)> {
        let entries = match fields.get("annotations") {
            None | Some(Value::Null) => return Vec::new(),
            Some(Value::Object(entries)) => entries,
            Some(_) => {
                self.report(path, Reason::Format, "must be an object");
                return Vec::new();
            }
        };
        let mut annotations = Vec::with_capacity(entries.len());
        for (key, value) in entries {
            match value.as_str() {
                Some(value) => annotations.push((key.clone(), value.to_owned())),
                None => self.report(&path.key(key), Reason::Format, "must be a string; put it in quotes"),
            }
        }
        annotations
    }

    fn selector(&mut self, fields: &Map<String, Value>, name: &str, path: &FieldPath) -> Option<LabelSelector> {
        let path = path.field(name.to_owned());
        let value = fields.get(name).filter(|value| !value.is_null())?;
        let selector = LabelSelector::parse(value, Wildcards::Allowed, &path, self.problems)?;
        if selector.is_empty() {
            self.report(&path, Reason::Empty, "a selector needs matchLabels or matchExpressions");
        }
        Some(selector)
    }

    fn operations(&mut self, fields: &Map<String, Value>, path: &FieldPath) -> Operations {
        let mut operations = Operations::default();
        for (path, text) in self.texts(fields, "operations", path) {
            match Operation::parse(text) {
                Some(operation) => operations.insert(operation),
                None => {
                    let known = Operation::ALL.map(Operation::as_str).join(", ");
                    self.report(&path, Reason::Enum, format!("`{text}` is not one of {known}"));
                }
            }
        }
        operations
    }

    fn subjects(&mut self, fields: &Map<String, Value>, path: &FieldPath) -> Vec<Subject> {
        let path = path.field("subjects");
        let items = match fields.get("subjects") {
            None | Some(Value::Null) => return Vec::new(),
            Some(Value::Array(items)) => items,
            Some(_) => {
                self.report(&path, Reason::Format, "must be a list");
                return Vec::new();
            }
        };
        items.iter().enumerate().filter_map(|(index, item)| self.subject(item, &path.index(index))).collect()
    }

    fn subject(&mut self, value: &Value, path: &FieldPath) -> Option<Subject> {
        let text = |key: &str| value.get(key).and_then(Value::as_str).unwrap_or_default();
        let (kind, name, namespace) = (text("kind"), text("name"), text("namespace"));
        if name.is_empty() {
            self.report(&path.field("name"), Reason::Required, "name the subject");
        }
        match kind {
            "User" => Some(Subject::User(name.to_owned())),
            "Group" => Some(Subject::Group(name.to_owned())),
            "ServiceAccount" if namespace.is_empty() => {
                self.report(&path.field("namespace"), Reason::Required, "a ServiceAccount has a namespace");
                None
            }
            "ServiceAccount" => Some(Subject::ServiceAccount(format!("system:serviceaccount:{namespace}:{name}"))),
            "" => {
                self.report(&path.field("kind"), Reason::Required, "use User, Group or ServiceAccount");
                None
            }
            other => {
                let message = format!("`{other}` is not one of User, Group, ServiceAccount");
                self.report(&path.field("kind"), Reason::Enum, message);
                None
            }
        }
    }

    /// A list of texts with the path of each.
    fn texts<'v>(&mut self, fields: &'v Map<String, Value>, name: &str, path: &FieldPath) -> Vec<(FieldPath, &'v str)> {
        let path = path.field(name.to_owned());
        let items = match fields.get(name) {
            None | Some(Value::Null) => return Vec::new(),
            Some(Value::Array(items)) => items,
            Some(_) => {
                self.report(&path, Reason::Format, "must be a list of strings");
                return Vec::new();
            }
        };
        let mut texts = Vec::with_capacity(items.len());
        for (index, item) in items.iter().enumerate() {
            match item.as_str() {
                Some(text) => texts.push((path.index(index), text)),
                None => self.report(&path.index(index), Reason::Format, "must be a string"),
            }
        }
        texts
    }

    fn owned_texts(&mut self, fields: &Map<String, Value>, name: &str, path: &FieldPath) -> Vec<String> {
        self.texts(fields, name, path).into_iter().map(|(_, text)| text.to_owned()).collect()
    }

    /// Matching happens before anything is known that a variable could stand for.
    fn refuse_variables(&mut self, value: &Value, path: &FieldPath) {
        let is_variable = |text: &str| text.find("{{").is_some_and(|open| text[open..].contains("}}"));
        match value {
            Value::String(text) if is_variable(text) => {
                self.report(path, Reason::Forbidden, "variables are not allowed in match and exclude");
            }
            Value::Array(items) => {
                items.iter().enumerate().for_each(|(index, item)| self.refuse_variables(item, &path.index(index)));
            }
            Value::Object(entries) => {
                for (key, item) in entries {
                    let path = path.field(key.clone());
                    if is_variable(key) {
                        self.report(&path, Reason::Forbidden, "variables are not allowed in match and exclude");
                    }
                    self.refuse_variables(item, &path);
                }
            }
            _ => {}
        }
    }
}

fn is_nothing(value: &Value) -> bool {
    value.is_null() || value.as_array().is_some_and(Vec::is_empty)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn is_namespaced(selector: &KindSelector) -> Option<bool> {
        match selector.kind.as_str() {
            "Namespace" => Some(false),
            "Pod" => Some(true),
            _ => None,
        }
    }

    #[track_caller]
    fn check_in(policy_namespace: Option<&str>, matching: Value, exclude: Value, expected: &[(&str, Reason)]) {
        let mut problems = Vec::new();
        let scope = Scope { policy_namespace, is_namespaced: &is_namespaced };
        let rule = RuleMatch::parse(&matching, &exclude, scope, &FieldPath::root(), &mut problems);
        let found: Vec<_> = problems.iter().map(|p| (p.field.to_string(), p.reason)).collect();
        let expected: Vec<_> = expected.iter().map(|(field, reason)| ((*field).to_owned(), *reason)).collect();
        assert_eq!(found, expected, "{problems:?}");
        assert_eq!(rule.is_some(), expected.is_empty());
    }

    #[track_caller]
    fn check(matching: Value, expected: &[(&str, Reason)]) {
        check_in(None, matching, Value::Null, expected);
    }

    fn any(resources: Value) -> Value {
        json!({"any": [{"resources": resources}]})
    }

    #[test]
    fn blocks() {
        let filter = json!({"resources": {"kinds": ["Pod"]}});
        check(json!({"any": [filter]}), &[]);
        check(json!({"all": [filter, filter]}), &[]);
        check(filter.clone(), &[]);
        check(json!({"any": [filter], "all": [filter]}), &[("match", Reason::Xor)]);
        check(json!({"any": [filter], "resources": {"kinds": ["Pod"]}}), &[("match", Reason::Xor)]);
        check(json!({"any": [filter], "all": null}), &[]);
        check(json!(null), &[("match", Reason::Required)]);
        check(json!({}), &[("match", Reason::Required)]);
        check(json!([]), &[("match", Reason::Format)]);
        check(json!({"any": []}), &[("match.any", Reason::Empty)]);
        check(json!({"any": {}}), &[("match.any", Reason::Format)]);
        check(json!({"any": ["Pod"]}), &[("match.any[0]", Reason::Format)]);
        check(json!({"some": [filter]}), &[("match.some", Reason::Unknown), ("match", Reason::Required)]);
        check(
            json!({"any": [{"resource": {}}]}),
            &[("match.any[0].resource", Reason::Unknown), ("match.any[0].resources.kinds", Reason::Required)],
        );
    }

    #[test]
    fn exceptions_need_no_kinds_but_something() {
        let check = |matching: Value, expected: &[(&str, Reason)]| {
            let (mut problems, path) = (Vec::new(), FieldPath::root().field("match"));
            let block = Block::parse_exception(&matching, &path, &mut problems);
            let found: Vec<_> = problems.iter().map(|p| (p.field.to_string(), p.reason)).collect();
            let expected: Vec<_> = expected.iter().map(|(field, reason)| ((*field).to_owned(), *reason)).collect();
            assert_eq!(found, expected, "{problems:?}");
            assert_eq!(block.is_some(), expected.is_empty());
        };
        check(any(json!({"kinds": ["*"]})), &[]);
        check(any(json!({"namespaces": ["a"]})), &[]);
        check(json!({"all": [{"subjects": [{"kind": "User", "name": "jane"}]}]}), &[]);
        check(json!(null), &[("match", Reason::Required)]);
        check(json!({"any": []}), &[("match.any", Reason::Empty)]);
        check(json!({"any": [{}]}), &[("match.any[0]", Reason::Empty)]);
        check(any(json!({})), &[("match.any[0]", Reason::Empty)]);
        check(json!({"resources": {"kinds": ["Pod"]}}), &[("match", Reason::Format)]);
        check(
            any(json!({"kinds": ["a/b/c/d/e"], "names": ["a"]})),
            &[("match.any[0].resources.kinds[0]", Reason::Format)],
        );
        check(any(json!({"names": ["{{ x }}"]})), &[("match.any[0].resources.names[0]", Reason::Forbidden)]);
    }

    #[test]
    fn every_attribute_is_checked() {
        check(any(json!({"kinds": []})), &[("match.any[0].resources.kinds", Reason::Required)]);
        check(any(json!({"kinds": ["*"]})), &[("match.any[0].resources.kinds[0]", Reason::Forbidden)]);
        check(any(json!({"kinds": ["Pod", "*/*"]})), &[("match.any[0].resources.kinds[1]", Reason::Forbidden)]);
        check(any(json!({"kinds": ["apps/v1/*", "*/scale"]})), &[]);
        check(any(json!({"kinds": ["a/b/c/d/e"]})), &[("match.any[0].resources.kinds[0]", Reason::Format)]);
        check(any(json!({"kinds": "Pod"})), &[("match.any[0].resources.kinds", Reason::Format)]);
        check(
            any(json!({"kinds": ["Pod"], "name": "a", "names": ["b"]})),
            &[("match.any[0].resources.name", Reason::Xor)],
        );
        check(
            any(json!({"kinds": ["Pod"], "operations": ["CREATE", "PATCH"]})),
            &[("match.any[0].resources.operations[1]", Reason::Enum)],
        );
        check(
            any(json!({"kinds": ["Pod"], "annotations": {"a": 1}})),
            &[("match.any[0].resources.annotations[\"a\"]", Reason::Format)],
        );
        check(any(json!({"kinds": ["Pod"], "selector": {}})), &[("match.any[0].resources.selector", Reason::Empty)]);
        check(
            any(json!({"kinds": ["Pod"], "namespaceSelector": {"matchExpressions": [{"key": "a", "operator": "Is"}]}})),
            &[("match.any[0].resources.namespaceSelector.matchExpressions[0].operator", Reason::Enum)],
        );
        check(
            any(json!({"kinds": ["Pod"], "namespace": "a"})),
            &[("match.any[0].resources.namespace", Reason::Unknown)],
        );
        check(
            any(json!({"kinds": ["Pod"], "names": ["{{ request.name }}"]})),
            &[("match.any[0].resources.names[0]", Reason::Forbidden)],
        );
    }

    #[test]
    fn requesters_are_checked() {
        let pods = json!({"kinds": ["Pod"]});
        check(
            json!({"any": [{"resources": pods, "roles": ["ns:role", "role", "a:b:c"], "clusterRoles": ["admin"]}]}),
            &[("match.any[0].roles[1]", Reason::Format), ("match.any[0].roles[2]", Reason::Format)],
        );
        check(
            json!({"resources": pods, "subjects": [
                {"kind": "User", "name": "jane"},
                {"kind": "ServiceAccount", "name": "bot", "namespace": "team"},
                {"kind": "ServiceAccount", "name": "bot"},
                {"kind": "Robot", "name": "r"},
                {"kind": "Group"},
                {"name": "x"},
            ]}),
            &[
                ("match.subjects[2].namespace", Reason::Required),
                ("match.subjects[3].kind", Reason::Enum),
                ("match.subjects[4].name", Reason::Required),
                ("match.subjects[5].kind", Reason::Required),
            ],
        );
    }

    #[test]
    fn a_namespaced_policy_stays_at_home() {
        let pods = any(json!({"kinds": ["Pod", "Unknown"]}));
        check_in(Some("team"), pods.clone(), Value::Null, &[]);
        check_in(
            Some("team"),
            any(json!({"kinds": ["Namespace"], "namespaces": ["other"]})),
            any(json!({"namespaces": ["x"]})),
            &[
                ("match.any[0].resources.kinds[0]", Reason::Forbidden),
                ("match.any[0].resources.namespaces", Reason::Forbidden),
                ("exclude.any[0].resources.namespaces", Reason::Forbidden),
            ],
        );
        check_in(None, any(json!({"kinds": ["Namespace"], "namespaces": ["other"]})), Value::Null, &[]);
    }

    #[test]
    fn exclude_needs_no_kinds_but_must_leave_something() {
        let pods = any(json!({"kinds": ["Pod"], "names": ["a*"]}));
        check_in(None, pods.clone(), json!({}), &[]);
        check_in(None, pods.clone(), json!({"any": []}), &[]);
        check_in(None, pods.clone(), json!({"resources": {}}), &[]);
        check_in(None, pods.clone(), any(json!({"namespaces": ["kube-*"]})), &[]);
        check_in(None, pods.clone(), any(json!({"kinds": ["Pod"], "names": ["ab"]})), &[]);
        check_in(None, pods.clone(), pods.clone(), &[("exclude", Reason::Context)]);
        check_in(None, pods.clone(), any(json!({"kinds": ["Pod"]})), &[("exclude", Reason::Context)]);
        check_in(
            None,
            pods,
            json!({"all": [
                {"resources": {"kinds": ["Pod"]}}, {"resources": {"namespaces": ["x"]}},
            ]}),
            &[],
        );
    }
}
