//! What a policy may read and write: the questions for access reviews, and the content of a role that grants no more than is
//! needed.
//!
//! Works on documents that compile. What a variable decides is known only when the rule runs, so it is asked as `*`: a kind, an
//! API version or a whole path that is a variable stands for every resource of every group, a namespace or name that is one for
//! all of them. The gate keeps a rule to what was asked: a variable stays within its part of a path, and a kind that is a
//! variable lives in the namespace that the policy names.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::Node;
use super::scope::is_variable;
use super::slips;
use crate::compile::Findings;
use crate::compile::way::Ways;
use crate::core::access::Access;
use crate::core::catalog::Catalog;
use crate::core::generate::api_path::PathPattern;
use crate::core::generate::gate::is_policy_group;
use crate::core::generate::{Policy, Rule, readings};
use crate::core::kinds::Scope;
use crate::core::matching::{Block, KindSelector};
use crate::core::problem::{FieldPath, Problem, Reason};
use crate::core::resource::{Gvk, text_at};
use crate::core::scalar::wildcard;

/// Stands for all groups, resources, subresources or verbs.
const ANY: &str = "*";
/// A pattern that selects more resources than this is asked about as all of them: reviews cost the API server.
const MATCHED_ONE_BY_ONE: usize = 32;
const RBAC: &str = "rbac.authorization.k8s.io";

/// One resource that a rule uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Need {
    pub part: Part,
    /// Where the policy says so.
    pub field: FieldPath,
    /// `*` for all groups.
    pub group: String,
    /// The plural name; `*` for all resources.
    pub resource: String,
    /// Empty for the resource itself, `*` for all subresources.
    pub subresource: String,
    /// Empty for all namespaces, and for what is in none.
    pub namespace: String,
    /// Empty for all. Of [`Part::Path`], the path.
    pub name: String,
    /// Whether the objects are listed, not read one by one.
    pub listed: bool,
    /// Whether the rule keeps its targets in sync.
    pub synchronize: bool,
}

/// What for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// It sets the rule off, and its content is handed on.
    Trigger,
    /// It is written.
    Target,
    /// It is copied.
    Source,
    /// It is read for the context.
    Lookup,
    /// It is followed, to be at hand for the context.
    Followed,
    /// A review is posted to it.
    Review,
    /// A path of the API server that is no resource.
    Path,
    /// A generated role grants whatever its author likes.
    Role,
    /// A generated binding grants this role.
    RoleRef,
    /// A generated policy acts by itself: what it does is unknown.
    Policy,
}

/// The resource of a kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KindResource {
    pub plural: String,
    pub scope: Scope,
}

/// Everything that a policy needs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rights {
    /// In the order of the policy.
    pub needs: Vec<Need>,
    /// Kinds that have no resource, and where they stand.
    pub unresolved: Vec<(FieldPath, Gvk)>,
    /// Global context entries that are read, and where; nothing for one that a variable names.
    pub entries: Vec<(FieldPath, Option<String>)>,
    /// The namespace of a namespaced Policy.
    home: Option<String>,
}

/// Reads them from a document. `resource` gives the resource of a kind.
pub fn rights(document: &Value, resource: &dyn Fn(&Gvk) -> Option<KindResource>) -> Rights {
    let home =
        (text_at(document, &["kind"]) == "Policy").then(|| match text_at(document, &["metadata", "namespace"]) {
            "" => "default".to_owned(),
            namespace => namespace.to_owned(),
        });
    let mut reading = Reading { resource, synchronize: false, rights: Rights { home, ..Rights::default() } };
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

/// The same for a cluster whose kinds are known.
pub fn rights_among(document: &Value, catalog: &Catalog) -> Rights {
    rights(document, &|gvk| {
        let resource = catalog.get(gvk)?;
        Some(KindResource { plural: resource.plural.clone(), scope: resource.scope })
    })
}

impl Rights {
    /// What entries hold that the rules read: whoever reads an entry reads that. `stored` has the entries by name; what one
    /// holds that is not stored yet, or that a variable names, is unknown.
    pub fn of_entries(&self, stored: &BTreeMap<String, Value>) -> Vec<Need> {
        let mut needs = Vec::new();
        for (field, name) in &self.entries {
            let entry = name.as_deref().and_then(|name| readings(name).find_map(|(entry, _)| stored.get(entry)));
            match entry {
                Some(entry) => {
                    let held = rights(entry, &|_| None).needs;
                    needs.extend(held.into_iter().map(|need| Need { field: field.clone(), ..need }));
                }
                None => needs.extend(any_resource(Part::Followed, field, self.home.as_deref().unwrap_or_default())),
            }
        }
        needs
    }

    /// The names under which entries may be stored that the rules read.
    pub fn entry_names(&self) -> BTreeSet<&str> {
        let names = self.entries.iter().filter_map(|(_, name)| name.as_deref());
        names.flat_map(|name| readings(name).map(|(entry, _)| entry)).collect()
    }
}

/// What a rule reads of its triggers, by those selectors of its match block that are wanted. A kind that the cluster does not
/// serve is unknown.
pub fn trigger_needs(rule: &Rule, catalog: &Catalog, wanted: &dyn Fn(&KindSelector) -> bool) -> Vec<Need> {
    let field = rule.field.field("match");
    let home = rule.policy.namespace.as_deref();
    let mut needs = Vec::new();
    for filter in rule.matching.matching.filters() {
        // What names its namespaces one by one is set off by nothing outside of them.
        let literal = !filter.namespaces.is_empty() && !filter.namespaces.iter().any(|name| wildcard::is_pattern(name));
        let everywhere = [String::new()];
        let namespaces: &[String] = match home {
            Some(home) => &[home.to_owned()],
            None if literal => &filter.namespaces,
            None => &everywhere,
        };
        for selector in filter.kinds.iter().filter(|selector| wanted(selector)) {
            needs.extend(selected(selector, catalog, home.is_some(), namespaces, &field));
        }
    }
    // A filter without kinds is about all of them, unless another one must match as well.
    let is_any = match &rule.matching.matching {
        Block::Any(filters) => filters.iter().any(|filter| filter.kinds.is_empty()),
        Block::All(filters) => filters.iter().all(|filter| filter.kinds.is_empty()),
    };
    if is_any {
        needs.extend(any_resource(Part::Trigger, &field, home.unwrap_or_default()));
    }
    needs
}

/// What one selector of kinds stands for, in some namespaces.
fn selected(
    selector: &KindSelector,
    catalog: &Catalog,
    namespaced_only: bool,
    namespaces: &[String],
    field: &FieldPath,
) -> Vec<Need> {
    let mut found: Vec<_> = catalog.select(selector).collect();
    // Requests for some subresources come with the whole object, which the resource itself covers.
    found.retain(|resource| !selector.subresource.is_empty() || resource.subresource.is_empty());
    if found.is_empty() || (wildcard::is_pattern(&selector.kind) && found.len() > MATCHED_ONE_BY_ONE) {
        // Whether it lives in namespaces is unknown too: where they are named, those of a Policy alone hold it.
        let namespace = namespaces.first().filter(|_| namespaced_only).map(String::as_str).unwrap_or_default();
        let mut needs = any_resource(Part::Trigger, field, namespace);
        needs.truncate(if selector.subresource.is_empty() { 1 } else { 2 });
        return needs;
    }
    // A Policy is never about objects that live in no namespace.
    found.retain(|resource| !namespaced_only || resource.scope == Scope::Namespaced);
    let mut needs = Vec::new();
    for resource in found {
        let everywhere = [String::new()];
        let namespaces = if resource.scope == Scope::Cluster { &everywhere } else { namespaces };
        needs.extend(namespaces.iter().map(|namespace| Need {
            group: resource.group.clone(),
            resource: resource.plural.clone(),
            subresource: resource.subresource.clone(),
            namespace: namespace.clone(),
            ..Need::new(Part::Trigger, field)
        }));
    }
    needs
}

/// Everything that the author of a policy must be allowed, except for what global context entries hold.
pub fn author_needs(policy: &Policy, rights: &Rights, catalog: &Catalog) -> Vec<Need> {
    let triggers = policy.rules.iter().flat_map(|rule| trigger_needs(rule, catalog, &|_| true));
    triggers.chain(rights.needs.iter().cloned()).collect()
}

/// Where a policy or a global context entry names the namespace that Writ is installed in, which is out of reach.
pub fn name_install(document: &Value, policy: Option<&Policy>, rights: &Rights, install: &str) -> Vec<Problem> {
    const MESSAGE: &str = "no rule reads or writes the namespace that Writ is installed in";
    let problem = |field: &FieldPath| Problem::new(field, Reason::Forbidden, MESSAGE);
    if install.is_empty() {
        return Vec::new();
    }
    let metadata = FieldPath::root().field("metadata").field("namespace");
    if text_at(document, &["metadata", "namespace"]) == install {
        return vec![problem(&metadata)];
    }
    let is_named = |need: &&Need| {
        need.namespace == install || (need.resource == "namespaces" && need.group.is_empty() && need.name == install)
    };
    let named = rights.needs.iter().filter(is_named).map(|need| problem(&need.field));
    let rules = policy.into_iter().flat_map(|policy| &policy.rules);
    let matched = rules.filter(|rule| {
        rule.matching.matching.filters().iter().any(|filter| {
            let is_namespace = filter.kinds.iter().any(|kind| kind.kind == "Namespace");
            filter.namespaces.iter().any(|name| name == install)
                || (is_namespace && filter.names.iter().any(|name| name == install))
        })
    });
    let mut problems: Vec<Problem> = named.chain(matched.map(|rule| problem(&rule.field.field("match")))).collect();
    problems.dedup();
    problems
}

struct Reading<'r> {
    resource: &'r dyn Fn(&Gvk) -> Option<KindResource>,
    synchronize: bool,
    rights: Rights,
}

/// Texts of an object reference as they are written.
#[derive(Clone, Copy)]
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
            return data_list.iter().for_each(|item| {
                self.target(item, reference(item.value()), item.below("data").value());
            });
        }
        let target = reference(node.value());
        let clone = node.below("clone");
        if let Some(source) = clone.value() {
            let source =
                Reference { namespace: text_at(source, &["namespace"]), name: text_at(source, &["name"]), ..target };
            self.add(Part::Source, &clone, source, false);
        }
        self.target(node, target, node.below("data").value());
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
            self.target(&target, to, None);
            self.add(Part::Source, &source, from, false);
        }
        let (from, to) = (clone_list.value(), node.value());
        for kind in items(&clone_list.below("kinds")) {
            let text = kind.value().and_then(Value::as_str).unwrap_or_default();
            // A variable may stand for the version, the kind and the slash between them.
            let (api_version, name) =
                if is_variable(text) { (text, text) } else { text.rsplit_once('/').unwrap_or_default() };
            let [source, target] = [from, to].map(|place| {
                let namespace = place.map_or("", |place| text_at(place, &["namespace"]));
                Reference { api_version, kind: name, namespace, name: "" }
            });
            self.add(Part::Source, &kind, source, true);
            self.target(&kind, target, None);
        }
    }

    fn context(&mut self, entries: &Node<'_>) {
        for entry in items(entries) {
            let config_map = entry.below("configMap");
            if let Some(value) = config_map.value() {
                let (namespace, name) = (text_at(value, &["namespace"]), text_at(value, &["name"]));
                let reference = Reference { api_version: "v1", kind: "ConfigMap", namespace, name };
                self.add(Part::Lookup, &config_map, reference, false);
            }
            self.call(&entry.below("apiCall"));
            let global = entry.below("globalReference");
            if global.is_present() {
                let name = global.below("name");
                let text = name.value().and_then(Value::as_str).filter(|text| !is_variable(text));
                self.rights.entries.push((name.path.told(), text.map(str::to_owned)));
            }
        }
    }

    fn global(&mut self, spec: &Node<'_>) {
        let followed = spec.below("kubernetesResource");
        if let Some(value) = followed.value() {
            self.rights.needs.push(Need {
                group: text_at(value, &["group"]).to_owned(),
                resource: text_at(value, &["resource"]).to_owned(),
                namespace: text_at(value, &["namespace"]).to_owned(),
                ..Need::new(Part::Followed, &followed.path.told())
            });
        }
        self.call(&spec.below("apiCall"));
    }

    fn call(&mut self, call: &Node<'_>) {
        let node = call.below("urlPath");
        let Some(text) = node.value().and_then(Value::as_str) else { return };
        let part = match call.below("method").value().and_then(Value::as_str) {
            Some("POST") => Part::Review,
            _ => Part::Lookup,
        };
        let field = node.path.told();
        let path = match PathPattern::of(text) {
            PathPattern::Open => {
                let needs = any_resource(part, &field, self.rights.home.as_deref().unwrap_or_default());
                return self.rights.needs.extend(needs);
            }
            PathPattern::Discovery(path) => {
                let need = Need { name: path, ..Need::new(Part::Path, &field) };
                return self.rights.needs.push(need);
            }
            PathPattern::Resource(path) => path,
        };
        let known =
            |text: Option<&String>| text.filter(|text| !PathPattern::is_open(text)).cloned().unwrap_or_default();
        let namespace = match &self.rights.home {
            Some(home) => home.clone(),
            None => known(path.namespace.as_ref()),
        };
        let subresource = path.subresource.clone().unwrap_or_default();
        if PathPattern::is_open(&subresource) {
            // In RBAC only a rule for all resources of a group covers all subresources of one.
            let needs = any_resource(part, &field, &namespace).into_iter();
            return self.rights.needs.extend(needs.map(|need| Need { group: path.group.clone(), ..need }));
        }
        self.rights.needs.push(Need {
            resource: path.resource,
            subresource,
            group: path.group,
            namespace,
            name: known(path.name.as_ref()),
            listed: path.name.is_none(),
            ..Need::new(part, &field)
        });
    }

    /// What a rule writes, and what writing it lets the author do beyond that.
    fn target(&mut self, node: &Node<'_>, reference: Reference<'_>, data: Option<&Value>) {
        self.add(Part::Target, node, reference, false);
        let Reference { api_version, kind, namespace, .. } = reference;
        let (field, gvk) = (node.path.told(), Gvk::new(api_version, parent(kind)));
        let scope = (self.resource)(&gvk).map(|resource| resource.scope);
        let namespace = self.place(namespace, scope);
        let in_rbac = |part, resource: &str, name: &str| Need {
            group: RBAC.to_owned(),
            resource: resource.to_owned(),
            namespace: namespace.clone(),
            name: name.to_owned(),
            ..Need::new(part, &field)
        };
        let extra = if is_variable(api_version) || is_variable(kind) {
            let all = |part| any_resource(part, &field, &namespace).into_iter().take(1);
            all(Part::Role).chain(all(Part::RoleRef)).collect()
        } else if is_policy_group(&gvk.group) {
            any_resource(Part::Policy, &field, &namespace)
        } else {
            match (gvk.group.as_str(), gvk.kind.as_str()) {
                (RBAC, "Role") => vec![in_rbac(Part::Role, "roles", "")],
                (RBAC, "ClusterRole") => vec![in_rbac(Part::Role, "clusterroles", "")],
                (RBAC, "RoleBinding" | "ClusterRoleBinding") => match data.and_then(role_ref) {
                    Some(("Role", name)) => vec![in_rbac(Part::RoleRef, "roles", name)],
                    Some(("ClusterRole", name)) => vec![in_rbac(Part::RoleRef, "clusterroles", name)],
                    _ => vec![in_rbac(Part::RoleRef, "roles", ""), in_rbac(Part::RoleRef, "clusterroles", "")],
                },
                _ => Vec::new(),
            }
        };
        self.rights.needs.extend(extra);
    }

    fn add(&mut self, part: Part, node: &Node<'_>, reference: Reference<'_>, listed: bool) {
        let Reference { api_version, kind, namespace, name } = reference;
        if api_version.is_empty() || kind.is_empty() {
            return;
        }
        let field = node.path.told();
        let known = |text: &str| if is_variable(text) { String::new() } else { text.to_owned() };
        let need = Need { listed, synchronize: self.synchronize, ..Need::new(part, &field) };
        // What stands after the kind (`Deployment/scale`) is not written: the object itself is.
        let gvk = Gvk::new(api_version, parent(kind));
        let is_unknown = is_variable(api_version) || is_variable(kind);
        let resource = if is_unknown { None } else { (self.resource)(&gvk) };
        let namespace = self.place(namespace, resource.as_ref().map(|resource| resource.scope));
        let Some(resource) = resource else {
            if !is_unknown {
                self.rights.unresolved.push((field, gvk));
            }
            let (group, resource) = (ANY.to_owned(), ANY.to_owned());
            return self.rights.needs.push(Need { group, resource, namespace, ..need });
        };
        let (group, resource) = (gvk.group, resource.plural);
        self.rights.needs.push(Need { group, resource, namespace, name: known(name), ..need });
    }

    /// The namespace to ask about: that of a Policy, or the one that is written out, or all of them.
    fn place(&self, namespace: &str, scope: Option<Scope>) -> String {
        match &self.rights.home {
            Some(home) => home.clone(),
            None if scope == Some(Scope::Cluster) || is_variable(namespace) => String::new(),
            None => namespace.to_owned(),
        }
    }
}

impl Need {
    fn new(part: Part, field: &FieldPath) -> Self {
        Self {
            part,
            field: field.clone(),
            group: String::new(),
            resource: String::new(),
            subresource: String::new(),
            namespace: String::new(),
            name: String::new(),
            listed: false,
            synchronize: false,
        }
    }

    /// Whether it stands for whatever a variable may become.
    pub fn is_open(&self) -> bool {
        self.resource == ANY
    }

    /// What the account that writes must be allowed.
    pub fn writer_verbs(&self) -> &'static [&'static str] {
        if self.synchronize { &["get", "create", "update", "delete"] } else { &["get", "create"] }
    }

    /// What the author of the policy must be allowed, because the rule does it for everybody.
    pub fn author_verbs(&self) -> &'static [&'static str] {
        match self.part {
            Part::Target if self.synchronize => &["create", "update", "delete"],
            Part::Target | Part::Review => &["create"],
            Part::Trigger | Part::Followed => &["get", "list", "watch"],
            Part::Source if self.listed => &["get", "list", "watch"],
            Part::Lookup if self.is_open() => &["get", "list"],
            Part::Lookup if self.listed => &["list"],
            Part::Source | Part::Lookup | Part::Path => &["get"],
            Part::Role => &["escalate"],
            Part::RoleRef => &["bind"],
            Part::Policy => &[ANY],
        }
    }

    /// What a role has to grant so that everything about the rule works: writes, watches, marks on sources. Nothing for what
    /// only its author must be allowed.
    pub fn role_verbs(&self) -> &'static [&'static str] {
        match (self.part, self.synchronize) {
            _ if self.is_open() => &[],
            (Part::Target, true) => &["get", "list", "watch", "create", "update", "patch", "delete"],
            (Part::Target, false) => &["get", "list", "watch", "create", "patch"],
            (Part::Source, _) => &["get", "list", "watch", "patch", "update"],
            (Part::Trigger | Part::Followed, _) => &["get", "list", "watch"],
            (Part::Lookup, _) if self.name.is_empty() => &["get", "list"],
            (Part::Lookup, _) => &["get"],
            (Part::Review, _) => &["create"],
            (Part::Path | Part::Role | Part::RoleRef | Part::Policy, _) => &[],
        }
    }

    /// One verb on it, as an access review asks.
    pub fn access(&self, verb: &str) -> Access {
        let verb = verb.to_owned();
        if self.part == Part::Path {
            return Access { verb, path: self.name.clone(), ..Access::default() };
        }
        // Objects that are yet to be made are not granted by name.
        let name = if self.part == Part::Target { String::new() } else { self.name.clone() };
        Access {
            verb,
            group: self.group.clone(),
            resource: self.resource.clone(),
            subresource: self.subresource.clone(),
            namespace: self.namespace.clone(),
            name,
            path: String::new(),
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

/// Every resource of every group, and every subresource.
fn any_resource(part: Part, field: &FieldPath, namespace: &str) -> Vec<Need> {
    let any = |subresource: &str| Need {
        group: ANY.to_owned(),
        resource: ANY.to_owned(),
        subresource: subresource.to_owned(),
        namespace: namespace.to_owned(),
        ..Need::new(part, field)
    };
    vec![any(""), any(ANY)]
}

/// Kind and name of the role that a binding refers to, if the policy writes them out. A key that is a variable may become
/// `roleRef` too.
fn role_ref(data: &Value) -> Option<(&str, &str)> {
    let literal = |fields: &Map<String, Value>| !fields.keys().any(|key| is_variable(key));
    data.as_object().filter(|fields| literal(fields))?;
    let reference = data.get("roleRef")?;
    reference.as_object().filter(|fields| literal(fields))?;
    let (kind, name) = (text_at(reference, &["kind"]), text_at(reference, &["name"]));
    (!name.is_empty() && !is_variable(kind) && !is_variable(name)).then_some((kind, name))
}

/// The kind without the subresource that may stand after it.
fn parent(kind: &str) -> &str {
    kind.split('/').next().unwrap_or(kind)
}

fn items<'v>(node: &Node<'v>) -> Vec<Node<'v>> {
    let values = node.value().and_then(Value::as_array).into_iter().flatten().enumerate();
    values.map(|(index, value)| Node::new(Some(value), node.path.index(index))).collect()
}

fn reference(value: Option<&Value>) -> Reference<'_> {
    let text = |field: &str| value.map_or("", |value| text_at(value, &[field]));
    Reference { api_version: text("apiVersion"), kind: text("kind"), namespace: text("namespace"), name: text("name") }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::core::kinds;

    fn resource(gvk: &Gvk) -> Option<KindResource> {
        let row = kinds::find(&gvk.group, &gvk.kind)?;
        Some(KindResource { plural: row.plural.to_owned(), scope: row.scope })
    }

    #[track_caller]
    fn check(rule: Value, expected: &[&str]) {
        check_in(json!({"kind": "ClusterPolicy"}), rule, expected);
    }

    #[track_caller]
    fn check_in(mut document: Value, rule: Value, expected: &[&str]) {
        document["spec"] = json!({"rules": [rule]});
        let Rights { needs, unresolved, .. } = rights(&document, &resource);
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
            &["Target networkpolicies.networking.k8s.io n/a"],
        );
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
            &["Target *.* /", "Target namespaces /b", "spec.rules[0].generate.dataList[0]: v1 Nothing"],
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
            &[
                "Lookup configmaps n/",
                "Lookup secrets /x",
                "Lookup deployments.apps /",
                "Lookup *.* /",
                "Lookup *.*/* /",
                "Review selfsubjectaccessreviews.authorization.k8s.io /",
                "Lookup *.* /",
                "Lookup *.*/* /",
            ],
        );
        check(
            json!({"context": [
                {"name": "a", "apiCall": {"urlPath": "/api/v1/namespaces/n/pods/p/{{ x }}"}},
                {"name": "b", "apiCall": {"urlPath": "/api/v1/namespaces/n/pods/p/log"}},
                {"name": "c", "apiCall": {"urlPath": "/version"}},
            ], "generate": {}}),
            &["Lookup * n/", "Lookup */* n/", "Lookup pods/log n/p", "Path  //version"],
        );
    }

    #[test]
    fn what_a_variable_decides_is_everything() {
        let open = ["Target *.* n/", "Role *.* n/", "RoleRef *.* n/"];
        for (api_version, kind) in
            [("v1", "{{k}}"), ("{{v}}", "Secret"), ("v1", "$(./../name)"), ("v1", "Secret/{{s}}")]
        {
            let target = json!({"apiVersion": api_version, "kind": kind, "name": "a", "namespace": "n"});
            check(json!({"generate": target}), &open);
            check(json!({"generate": {"dataList": [target]}}), &open);
            check(json!({"generate": {"foreach": [target]}}), &open);
        }
        check(
            json!({"generate": {"namespace": "$(x)", "cloneList": {"namespace": "s", "kinds": ["{{k}}"]}}}),
            &["Source *.* s/", "Target *.* /", "Role *.* /", "RoleRef *.* /"],
        );
        check_in(
            json!({"kind": "Policy", "metadata": {"namespace": "home"}}),
            json!({"generate": {"apiVersion": "v1", "kind": "Secret", "name": "a", "namespace": "{{x}}"},
                   "context": [{"name": "p", "apiCall": {"urlPath": "{{x}}"}}]}),
            &["Lookup *.* home/", "Lookup *.*/* home/", "Target secrets home/a"],
        );
    }

    #[test]
    fn generated_permissions_and_policies() {
        let rbac = |kind: &str, data: Value| json!({"generate": {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "name": "a", "namespace": "n", "data": data}});
        let target = |plural: &str, namespace: &str| format!("Target {plural}.rbac.authorization.k8s.io {namespace}/a");
        check(rbac("Role", json!({})), &[&target("roles", "n"), "Role roles.rbac.authorization.k8s.io n/"]);
        check(
            rbac("ClusterRole", json!({})),
            &[&target("clusterroles", ""), "Role clusterroles.rbac.authorization.k8s.io /"],
        );
        check(
            rbac("RoleBinding", json!({"roleRef": {"kind": "ClusterRole", "name": "view"}})),
            &[&target("rolebindings", "n"), "RoleRef clusterroles.rbac.authorization.k8s.io n/view"],
        );
        let any = [
            &*target("rolebindings", "n"),
            "RoleRef roles.rbac.authorization.k8s.io n/",
            "RoleRef clusterroles.rbac.authorization.k8s.io n/",
        ];
        for data in [
            json!({}),
            json!({"roleRef": {"kind": "ClusterRole", "name": "{{x}}"}}),
            json!({"roleRef": {"kind": "ClusterRole", "name": "view"}, "{{x}}": {}}),
            json!({"roleRef": {"kind": "ClusterRole", "name": "view", "{{x}}": "admin"}}),
        ] {
            check(rbac("RoleBinding", data), &any);
        }
        check(
            json!({"generate": {"apiVersion": "kyverno.io/v1", "kind": "ClusterPolicy", "name": "p"}}),
            &["Target clusterpolicies.kyverno.io /p", "Policy *.* /", "Policy *.*/* /"],
        );
    }

    #[test]
    fn entries_are_what_they_hold() {
        let document = json!({"kind": "ClusterPolicy", "spec": {"rules": [{"generate": {}, "context": [
            {"name": "a", "globalReference": {"name": "keys.names"}},
            {"name": "b", "globalReference": {"name": "{{x}}"}},
            {"name": "c", "globalReference": {"name": "none"}},
        ]}]}});
        let rights = rights(&document, &resource);
        let entry = json!({"apiVersion": "kyverno.io/v2alpha1", "kind": "GlobalContextEntry",
            "spec": {"kubernetesResource": {"version": "v1", "resource": "secrets", "namespace": "prod"}}});
        let needs = rights.of_entries(&BTreeMap::from([("keys".to_owned(), entry)]));
        let told: Vec<_> =
            needs.iter().map(|need| format!("{} {} {}", need.field, need.qualified(), need.namespace)).collect();
        let field = |index: usize| format!("spec.rules[0].context[{index}].globalReference.name");
        assert_eq!(
            told,
            [
                format!("{} secrets prod", field(0)),
                format!("{} *.* ", field(1)),
                format!("{} *.*/* ", field(1)),
                format!("{} *.* ", field(2)),
                format!("{} *.*/* ", field(2)),
            ]
        );
    }
}
