//! What a policy wants to read and write, as far as its text says so: the questions for access reviews, and the content of a
//! role that grants no more than is needed.
//!
//! Works on documents that compile. What a variable decides is known only when the rule runs: a kind that is a variable is
//! left out, a namespace or name that is one stands for all of them.

use serde_json::Value;

use super::Node;
use super::scope::is_variable;
use super::slips;
use crate::compile::Findings;
use crate::compile::way::Ways;
use crate::core::generate::api_path::ApiPath;
use crate::core::problem::FieldPath;
use crate::core::resource::{Gvk, text_at};

/// One resource that a rule uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Need {
    pub part: Part,
    /// Where the policy says so.
    pub field: FieldPath,
    pub group: String,
    /// The plural name.
    pub resource: String,
    /// Empty for the resource itself.
    pub subresource: String,
    /// Empty for all namespaces, and for what is in none.
    pub namespace: String,
    /// Empty for all.
    pub name: String,
    /// Whether the rule keeps its targets in step.
    pub synchronize: bool,
}

/// What for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// It is written.
    Target,
    /// It is copied.
    Source,
    /// It is read for the context.
    Lookup,
    /// It is followed, to be at hand for the context.
    Followed,
}

/// Everything that a policy needs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rights {
    /// In the order of the policy.
    pub needs: Vec<Need>,
    /// Kinds that have no resource, and where they stand.
    pub unresolved: Vec<(FieldPath, Gvk)>,
    /// Global context entries that are read, as they are named, and where.
    pub entries: Vec<(FieldPath, String)>,
}

/// Reads them from a document. `plural` gives the name of the resource of a kind.
pub fn rights(document: &Value, plural: &dyn Fn(&Gvk) -> Option<String>) -> Rights {
    let mut reading = Reading { plural, synchronize: false, rights: Rights::default() };
    let ways = Ways::default();
    let spec = Node::new(Some(document), ways.root()).below("spec");
    if super::is_global_entry(document) {
        reading.global(&spec);
        return reading.rights;
    }
    let rules = spec.below("rules");
    for rule in items(&rules).iter().filter(|rule| rule.below("generate").is_present()) {
        let generate = rule.below("generate");
        reading.synchronize = generate.below("synchronize").value() == Some(&Value::Bool(true));
        reading.context(&rule.below("context"));
        match items(&generate.below("foreach")).as_slice() {
            [] => reading.output(&generate),
            loops => {
                for entry in loops {
                    reading.context(&entry.below("context"));
                    reading.output(entry);
                }
            }
        }
    }
    reading.rights
}

struct Reading<'r> {
    plural: &'r dyn Fn(&Gvk) -> Option<String>,
    synchronize: bool,
    rights: Rights,
}

/// Texts of an object reference as they are written.
struct Reference<'v> {
    api_version: &'v str,
    kind: &'v str,
    namespace: &'v str,
    name: &'v str,
}

impl Reading<'_> {
    fn output(&mut self, node: &Node<'_>) {
        let clone_list = node.below("cloneList");
        if clone_list.is_present() {
            return self.clone_list(node, &clone_list);
        }
        let data_list = items(&node.below("dataList"));
        if !data_list.is_empty() {
            return data_list.iter().for_each(|item| self.add(Part::Target, item, reference(item.value())));
        }
        let target = reference(node.value());
        let clone = node.below("clone");
        if let Some(source) = clone.value() {
            let source = Reference {
                namespace: text_at(source, &["namespace"]),
                name: text_at(source, &["name"]),
                ..reference(node.value())
            };
            self.add(Part::Source, &clone, source);
        }
        self.add(Part::Target, node, target);
    }

    fn clone_list(&mut self, node: &Node<'_>, clone_list: &Node<'_>) {
        let list = match clone_list.value() {
            Some(Value::Array(_)) => items(clone_list),
            _ => items(&clone_list.below("list")),
        };
        for item in &list {
            let (source, target) = (item.below("source"), item.below("target"));
            let mended = slips::unswap(&source, &mut Findings::default());
            let from = reference(mended.as_ref().or(source.value()));
            let to = reference(target.value());
            let given = |own: &'_ str| !own.is_empty();
            let to = Reference {
                api_version: if given(to.api_version) { to.api_version } else { from.api_version },
                kind: if given(to.kind) { to.kind } else { from.kind },
                ..to
            };
            self.add(Part::Target, &target, to);
            self.add(Part::Source, &source, from);
        }
        let (from, to) = (clone_list.value(), node.value());
        for kind in items(&clone_list.below("kinds")) {
            let text = kind.value().and_then(Value::as_str).unwrap_or_default();
            let Some((api_version, name)) = text.rsplit_once('/') else {
                continue;
            };
            for (part, place) in [(Part::Source, from), (Part::Target, to)] {
                let namespace = place.map_or("", |place| text_at(place, &["namespace"]));
                self.add(part, &kind, Reference { api_version, kind: name, namespace, name: "" });
            }
        }
    }

    fn context(&mut self, entries: &Node<'_>) {
        for entry in items(entries) {
            let config_map = entry.below("configMap");
            if let Some(value) = config_map.value() {
                let (namespace, name) = (text_at(value, &["namespace"]), text_at(value, &["name"]));
                self.add(
                    Part::Lookup,
                    &config_map,
                    Reference { api_version: "v1", kind: "ConfigMap", namespace, name },
                );
            }
            self.call(&entry.below("apiCall"));
            let name = entry.below("globalReference").below("name");
            let text = name.value().and_then(Value::as_str).filter(|text| !is_variable(text));
            self.rights.entries.extend(text.map(|text| (name.path.told(), text.to_owned())));
        }
    }

    fn global(&mut self, spec: &Node<'_>) {
        let followed = spec.below("kubernetesResource");
        if let Some(value) = followed.value() {
            self.rights.needs.push(Need {
                part: Part::Followed,
                field: followed.path.told(),
                group: text_at(value, &["group"]).to_owned(),
                resource: text_at(value, &["resource"]).to_owned(),
                subresource: String::new(),
                namespace: text_at(value, &["namespace"]).to_owned(),
                name: String::new(),
                synchronize: false,
            });
        }
        self.call(&spec.below("apiCall"));
    }

    fn call(&mut self, call: &Node<'_>) {
        let method = call.below("method").value().and_then(Value::as_str).unwrap_or("GET");
        let path = call.below("urlPath");
        let text = path.value().and_then(Value::as_str).unwrap_or_default();
        if method == "GET" && !text.is_empty() {
            self.path(&path, text);
        }
    }

    /// A path is asked about as it is, with all of what a variable stands for.
    fn path(&mut self, node: &Node<'_>, text: &str) {
        // A word that no object has for a name takes the place of each variable while the path is taken apart.
        const UNKNOWN: &str = "0-variable-0";
        let Some(plain) = replace_variables(text, UNKNOWN) else {
            return;
        };
        let Ok(ApiPath::Resource(path)) = ApiPath::parse(&plain) else {
            return;
        };
        let known = |text: Option<String>| text.filter(|text| !text.contains(UNKNOWN)).unwrap_or_default();
        if path.resource.contains(UNKNOWN) || path.group.contains(UNKNOWN) {
            return;
        }
        self.rights.needs.push(Need {
            part: Part::Lookup,
            field: node.path.told(),
            group: path.group,
            resource: path.resource,
            subresource: known(path.subresource),
            namespace: known(path.namespace),
            name: known(path.name),
            synchronize: false,
        });
    }

    fn add(&mut self, part: Part, node: &Node<'_>, reference: Reference<'_>) {
        let Reference { api_version, kind, namespace, name } = reference;
        if api_version.is_empty() || kind.is_empty() || is_variable(api_version) || is_variable(kind) {
            return;
        }
        let (kind, subresource) = kind.split_once('/').unwrap_or((kind, ""));
        let gvk = Gvk::new(api_version, kind);
        let Some(resource) = (self.plural)(&gvk) else {
            self.rights.unresolved.push((node.path.told(), gvk));
            return;
        };
        let known = |text: &str| {
            if is_variable(text) { String::new() } else { text.to_owned() }
        };
        self.rights.needs.push(Need {
            part,
            field: node.path.told(),
            group: gvk.group,
            resource,
            subresource: subresource.to_owned(),
            namespace: known(namespace),
            name: known(name),
            synchronize: self.synchronize,
        });
    }
}

impl Need {
    /// What the account that writes must be allowed.
    pub fn writer_verbs(&self) -> &'static [&'static str] {
        if self.synchronize { &["get", "create", "update", "delete"] } else { &["get", "create"] }
    }

    /// What the author of the policy must be allowed, because the rule does it for everybody.
    pub fn author_verbs(&self) -> &'static [&'static str] {
        match (self.part, self.synchronize) {
            (Part::Target, true) => &["create", "update", "delete"],
            (Part::Target, false) => &["create"],
            (Part::Source | Part::Lookup | Part::Followed, _) if self.name.is_empty() => &["get", "list"],
            (Part::Source | Part::Lookup | Part::Followed, _) => &["get"],
        }
    }

    /// What a role has to grant so that everything about the rule works: writes, watches, marks on sources.
    pub fn role_verbs(&self) -> &'static [&'static str] {
        match (self.part, self.synchronize) {
            (Part::Target, true) => &["get", "list", "watch", "create", "update", "patch", "delete"],
            (Part::Target, false) => &["get", "list", "watch", "create", "patch"],
            (Part::Source, _) => &["get", "list", "watch", "patch", "update"],
            (Part::Followed, _) => &["get", "list", "watch"],
            (Part::Lookup, _) if self.name.is_empty() => &["get", "list"],
            (Part::Lookup, _) => &["get"],
        }
    }

    /// `networkpolicies.networking.k8s.io/status`
    pub fn qualified(&self) -> String {
        let mut text = self.resource.clone();
        if !self.group.is_empty() {
            text = format!("{text}.{}", self.group);
        }
        if !self.subresource.is_empty() {
            text = format!("{text}/{}", self.subresource);
        }
        text
    }
}

fn items<'v>(node: &Node<'v>) -> Vec<Node<'v>> {
    let values = node.value().and_then(Value::as_array).into_iter().flatten().enumerate();
    values.map(|(index, value)| Node::new(Some(value), node.path.index(index))).collect()
}

fn reference(value: Option<&Value>) -> Reference<'_> {
    let text = |field: &str| value.map_or("", |value| text_at(value, &[field]));
    Reference { api_version: text("apiVersion"), kind: text("kind"), namespace: text("namespace"), name: text("name") }
}

/// Nothing if braces do not pair up.
fn replace_variables(text: &str, by: &str) -> Option<String> {
    let mut plain = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("{{") {
        plain += before;
        plain += by;
        // Expressions may hold braces of their own; those come in pairs.
        let mut depth = 0_usize;
        let end = after.char_indices().find(|(index, char)| match char {
            '{' => {
                depth += 1;
                false
            }
            '}' if depth > 0 => {
                depth -= 1;
                false
            }
            '}' => after[*index..].starts_with("}}"),
            _ => false,
        })?;
        rest = &after[end.0 + 2..];
    }
    plain += rest;
    Some(plain)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::core::kinds;

    fn plural(gvk: &Gvk) -> Option<String> {
        kinds::find(&gvk.group, &gvk.kind).map(|row| row.plural.to_owned())
    }

    #[track_caller]
    fn check(rule: Value, expected: &[&str]) {
        let document = json!({"spec": {"rules": [rule]}});
        let Rights { needs, unresolved, .. } = rights(&document, &plural);
        let mut told: Vec<String> = needs
            .iter()
            .map(|need| format!("{:?} {} {}/{}", need.part, need.qualified(), need.namespace, need.name))
            .collect();
        told.extend(unresolved.iter().map(|(field, gvk)| format!("{field}: {gvk}")));
        assert_eq!(told, expected);
    }

    #[test]
    fn single_targets_and_their_sources() {
        check(
            json!({"generate": {"apiVersion": "v1", "kind": "Secret", "name": "a", "namespace": "{{x}}",
                   "clone": {"namespace": "default", "name": "regcred"}}}),
            &["Source secrets default/regcred", "Target secrets /a"],
        );
        check(
            json!({"generate": {"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy/status", "name": "a", "namespace": "n"}}),
            &["Target networkpolicies.networking.k8s.io/status n/a"],
        );
        check(json!({"generate": {"apiVersion": "v1", "kind": "{{k}}", "name": "a", "namespace": "n"}}), &[]);
        check(json!({"validate": {}}), &[]);
    }

    #[test]
    fn lists() {
        check(
            json!({"generate": {"namespace": "n", "cloneList": {"namespace": "s", "kinds": ["v1/Secret", "v1/ConfigMap"]}}}),
            &["Source secrets s/", "Target secrets n/", "Source configmaps s/", "Target configmaps n/"],
        );
        check(
            json!({"generate": {"dataList": [{"apiVersion": "v1", "kind": "Nothing", "name": "a"},
                                             {"apiVersion": "v1", "kind": "Namespace", "name": "b"}]}}),
            &["Target namespaces /b", "spec.rules[0].generate.dataList[0]: v1 Nothing"],
        );
        check(
            json!({"generate": {"foreach": [{"list": "x", "cloneList": [
                {"source": {"kind": "v1", "apiVersion": "Secret", "namespace": "s", "name": "a"},
                 "target": {"namespace": "{{element}}", "name": "b"}}]}]}}),
            &["Target secrets /b", "Source secrets s/a"],
        );
    }

    #[test]
    fn context() {
        check(
            json!({"context": [
                {"name": "a", "configMap": {"namespace": "n", "name": "{{ x }}"}},
                {"name": "b", "apiCall": {"urlPath": "/api/v1/namespaces/{{ request.object.{a: {b: c}}.a }}/secrets/x"}},
                {"name": "c", "apiCall": {"urlPath": "/apis/apps/v1/deployments?limit=5"}},
                {"name": "d", "apiCall": {"urlPath": "/api/v1/{{ x }}", "method": "GET"}},
                {"name": "e", "apiCall": {"urlPath": "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", "method": "POST"}},
                {"name": "f", "apiCall": {"urlPath": "/api/v1/{{ x"}},
            ], "generate": {}}),
            &["Lookup configmaps n/", "Lookup secrets /x", "Lookup deployments.apps /"],
        );
    }
}
