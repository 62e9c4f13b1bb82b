//! A policy can do no more than its author: random policies with random variables in random places, for authors with random
//! permissions. What the admission check admits is run by the real engine behind the real gate, and everything that is read or
//! written must be within the author's permissions and the policy's reach. Who may do what is decided by a model of RBAC.
#![allow(unreachable_pub, reason = "each target is a crate of its own")]

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use serde_json::{Value, json};
use writ::compile::generate;
use writ::core::access::Access;
use writ::core::catalog::{ApiResource, Catalog};
use writ::core::generate::api_path::ApiPath;
use writ::core::generate::global::GlobalEntry;
use writ::core::generate::{Answer, Evaluation, Facts, Fetch, InstallBounds, Plan, Rule, Trigger, drive};
use writ::core::kinds::Scope;
use writ::core::resource::{Gvk, ObjectKey, text_at};

const HOME: &str = "home";
const INSTALL: &str = "writ-system";
const RBAC: &str = "rbac.authorization.k8s.io";

/// What a variable may become: names, kinds, versions and pieces of paths that lead elsewhere.
const VALUES: &[&str] = &[
    "home",
    "other",
    "writ-system",
    "x",
    "",
    "Secret",
    "ConfigMap",
    "Namespace",
    "ClusterRole",
    "RoleBinding",
    "Widget",
    "Gadget",
    "ClusterPolicy",
    "v1",
    "rbac.authorization.k8s.io/v1",
    "example.org/v1",
    "kyverno.io/v1",
    "/kyverno.io/v1",
    "v1/Secret",
    "v1/Namespace",
    "a/secrets/s?x=",
    "other/secrets/s?x=",
    "v1/namespaces/other",
    "/api/v1/secrets",
    "/api/v1/namespaces/other/secrets/s",
    "/api/v1/namespaces/writ-system/secrets/s",
    "/version",
    "secrets",
    "status",
    "entry",
    "$(./../name)",
];
const KINDS: &[(&str, &str)] = &[
    ("v1", "Secret"),
    ("v1", "ConfigMap"),
    ("v1", "Namespace"),
    ("v1", "Secret/status"),
    ("rbac.authorization.k8s.io/v1", "Role"),
    ("rbac.authorization.k8s.io/v1", "ClusterRole"),
    ("rbac.authorization.k8s.io/v1", "RoleBinding"),
    ("rbac.authorization.k8s.io/v1", "ClusterRoleBinding"),
    ("example.org/v1", "Widget"),
    ("example.org/v1", "Gadget"),
    ("kyverno.io/v1", "ClusterPolicy"),
    ("kyverno.io/v1", "Policy"),
];
const PATHS: &[&str] = &[
    "/api/v1/namespaces/V/configmaps/V",
    "/api/v1/namespaces/home/secrets",
    "/api/v1/namespaces/V/secrets/s",
    "/api/v1/secrets",
    "/api/v1/namespaces/V",
    "/api/V/namespaces/home/configmaps",
    "/api/v1/V",
    "V",
    "/apis/example.org/v1/widgets/V",
    "/apis/example.org/v1/namespaces/home/gadgets/x/V",
    "/apis/V/widgets",
    "/api/v1/namespaces/home/pods/p/log",
    "/version",
    "/apis/authorization.k8s.io/v1/subjectaccessreviews",
];
const VERBS: &[&str] = &["get", "list", "watch", "create", "update", "delete", "bind", "escalate", "*"];
const GROUPS: &[&str] = &["", RBAC, "example.org", "kyverno.io", "*"];
const RESOURCES: &[&str] =
    &["secrets", "configmaps", "namespaces", "roles", "clusterroles", "rolebindings", "widgets", "gadgets", "*"];

/// Choices, made by bytes; without any left, always the first.
struct Choices<'d> {
    data: &'d [u8],
}

impl Choices<'_> {
    fn below(&mut self, count: usize) -> usize {
        match self.data.split_first() {
            Some((first, rest)) => {
                self.data = rest;
                usize::from(*first) % count.max(1)
            }
            None => 0,
        }
    }

    fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }

    fn yes(&mut self) -> bool {
        self.below(2) == 1
    }

    /// An expression that gives a value of the trigger, or the element of a loop.
    fn variable(&mut self) -> String {
        match self.below(6) {
            0 => "{{ element }}".to_owned(),
            1 => "$(./../name)".to_owned(),
            index => format!("{{{{ request.object.data.k{} }}}}", index - 2),
        }
    }

    /// Mostly a variable that becomes what it should: the kind, say, of some object.
    fn variable_for(&mut self, what: &str) -> String {
        if self.below(4) == 0 { self.variable() } else { format!("{{{{ request.object.data.{what} }}}}") }
    }

    /// A text that is written out, or holds a variable.
    fn text(&mut self, literal: &str) -> String {
        match self.below(5) {
            0 => self.variable(),
            1 => format!("{literal}{}", self.variable()),
            _ => literal.to_owned(),
        }
    }

    fn namespace(&mut self) -> String {
        let literal = self.pick(&[HOME, HOME, "other", INSTALL]);
        self.text(literal)
    }

    fn path(&mut self) -> String {
        let mut path = self.pick(PATHS).to_owned();
        while let Some(at) = path.find('V') {
            let part = if self.yes() { self.variable() } else { "x".to_owned() };
            path.replace_range(at..=at, &part);
        }
        path
    }

    /// Apiversion, kind, name and namespace; one that lives nowhere mostly names no namespace.
    fn identity(&mut self) -> Value {
        let (api_version, kind) = self.pick(KINDS);
        let mut identity = json!({
            "apiVersion": if self.below(8) == 0 { self.variable_for("version") } else { api_version.to_owned() },
            "kind": if self.below(3) == 0 { self.variable_for("kind") } else { kind.to_owned() },
            "name": self.text("made"),
        });
        let is_namespaced =
            !matches!(kind, "Namespace" | "ClusterRole" | "ClusterRoleBinding" | "Widget" | "ClusterPolicy");
        if is_namespaced || self.below(4) == 0 {
            identity["namespace"] = self.namespace().into();
        }
        identity
    }

    fn body(&mut self) -> Value {
        let mut body = json!({"data": {"a": self.text("v")}, "metadata": {"namespace": "other", "name": "y"}});
        if self.yes() {
            body["roleRef"] =
                json!({"apiGroup": RBAC, "kind": self.pick(&["Role", "ClusterRole"]), "name": self.text("view")});
        }
        if self.below(6) == 0 {
            body[self.variable()] = json!({"kind": "ClusterRole", "name": "cluster-admin"});
        }
        body
    }

    fn output(&mut self) -> Value {
        match self.below(5) {
            0 => {
                let mut output = self.identity();
                output["data"] = self.body();
                output
            }
            1 => {
                let mut output = self.identity();
                output["clone"] = json!({"name": self.text("source")});
                if output.get("namespace").is_some() {
                    output["clone"]["namespace"] = self.namespace().into();
                }
                output
            }
            2 => {
                let mut item = self.identity();
                item["data"] = self.body();
                json!({"dataList": [item, self.identity()]})
            }
            3 => {
                let (api_version, kind) = self.pick(KINDS);
                let kind = if self.below(4) == 0 { self.variable() } else { format!("{api_version}/{kind}") };
                let mut output = json!({"cloneList": {"kinds": [kind]}});
                if self.below(4) > 0 {
                    output["namespace"] = self.namespace().into();
                    output["cloneList"]["namespace"] = self.namespace().into();
                }
                output
            }
            _ => {
                let (source, mut target) = (self.identity(), self.identity());
                if self.yes() {
                    target.as_object_mut().expect("an object").remove("kind");
                    target.as_object_mut().expect("an object").remove("apiVersion");
                }
                json!({"cloneList": [{"source": source, "target": target}]})
            }
        }
    }

    fn context(&mut self, name: &str) -> Value {
        match self.below(4) {
            0 => json!({"name": name, "configMap": {"name": self.text("c"), "namespace": self.namespace()}}),
            1 => json!({"name": name, "globalReference": {"name": self.text("entry")}}),
            2 => {
                json!({"name": name, "apiCall": {"urlPath": self.path(), "method": self.pick(&["GET", "GET", "POST"])}})
            }
            _ => json!({"name": name, "variable": {"jmesPath": "is_external_url('http://a.example')"}}),
        }
    }

    fn policy(&mut self) -> Value {
        let kinds = self.pick(&["ConfigMap", "ConfigMap", "Secret", "Namespace", "Config*", "Gadget", "?*", "Widget"]);
        let mut filter = json!({"kinds": [kinds]});
        if self.below(3) == 0 {
            filter["namespaces"] = json!([self.pick(&[HOME, "other", "ho*"])]);
        }
        let mut generate = match self.below(3) {
            0 => {
                let mut entry = self.output();
                entry["list"] = "request.object.data.list".into();
                if self.yes() {
                    entry["context"] = json!([self.context("inner")]);
                    entry["preconditions"] = used("inner");
                }
                json!({"foreach": [entry]})
            }
            _ => self.output(),
        };
        generate["synchronize"] = self.yes().into();
        let mut rule = json!({"name": "r", "match": {"any": [{"resources": filter}]}, "generate": generate});
        if self.yes() {
            rule["context"] = json!([self.context("outer")]);
            rule["preconditions"] = used("outer");
        }
        let mut policy = json!({"apiVersion": "kyverno.io/v1", "kind": "ClusterPolicy", "metadata": {"name": "p"},
                                "spec": {"rules": [rule]}});
        if self.yes() {
            policy["kind"] = "Policy".into();
            policy["metadata"]["namespace"] = HOME.into();
        }
        policy
    }

    fn trigger(&mut self) -> Value {
        let (api_version, kind) = self.pick(&[
            ("v1", "ConfigMap"),
            ("v1", "ConfigMap"),
            ("v1", "ConfigMap"),
            ("v1", "Secret"),
            ("v1", "Namespace"),
            ("example.org/v1", "Gadget"),
            ("example.org/v1", "Widget"),
        ]);
        let data: BTreeMap<String, &str> = (0..4).map(|index| (format!("k{index}"), self.pick(VALUES))).collect();
        let mut data = json!(data);
        let (version, kind_value) = self.pick(KINDS);
        data["version"] = version.into();
        data["kind"] = kind_value.into();
        data["list"] = json!([self.pick(VALUES), self.pick(VALUES)]);
        let mut object =
            json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "start", "uid": "u"}, "data": data});
        match kind {
            "Namespace" => object["metadata"]["name"] = self.pick(&[HOME, "other", INSTALL]).into(),
            "Widget" => {}
            _ => object["metadata"]["namespace"] = self.pick(&[HOME, HOME, "other", INSTALL]).into(),
        }
        object
    }

    fn permissions(&mut self, asked: &[Access]) -> Permissions {
        let mut permissions = Permissions::default();
        if self.below(4) > 0 {
            // Exactly what is asked, and sometimes one thing less.
            let missing = if self.below(3) == 0 { Some(self.below(asked.len())) } else { None };
            for (index, access) in asked.iter().enumerate() {
                if missing != Some(index) {
                    permissions.0.push(Permission::of(access));
                }
            }
        }
        for _ in 0..self.below(4) {
            permissions.0.push(Permission {
                verbs: vec![self.pick(VERBS).to_owned(), self.pick(VERBS).to_owned()],
                group: self.pick(GROUPS).to_owned(),
                resource: self.pick(RESOURCES).to_owned(),
                namespace: self.pick(&["", HOME, "other"]).to_owned(),
                ..Permission::default()
            });
        }
        permissions
    }
}

/// Conditions that read a context entry, and hold.
fn used(name: &str) -> Value {
    json!({"all": [{"key": format!("{{{{ {name} }}}}"), "operator": "NotEquals", "value": "never"}]})
}

/// A rule of a Role, or without a namespace of a ClusterRole, bound to the author.
#[derive(Debug, Default)]
struct Permission {
    verbs: Vec<String>,
    group: String,
    resource: String,
    namespace: String,
    name: String,
    path: String,
}

impl Permission {
    fn of(access: &Access) -> Self {
        let Access { verb, group, resource, subresource, namespace, name, path } = access.clone();
        let resource = if subresource.is_empty() { resource } else { format!("{resource}/{subresource}") };
        Self { verbs: vec![verb], group, resource, namespace, name, path }
    }
}

/// RBAC, as far as rules go.
#[derive(Debug, Default)]
struct Permissions(Vec<Permission>);

impl Permissions {
    fn allow(&self, access: &Access) -> bool {
        self.0.iter().any(|rule| {
            let is_verb = rule.verbs.iter().any(|verb| *verb == access.verb || verb == "*");
            if !access.path.is_empty() {
                return is_verb && rule.path == access.path;
            }
            let whole = match access.subresource.as_str() {
                "" => access.resource.clone(),
                subresource => format!("{}/{subresource}", access.resource),
            };
            is_verb
                && rule.path.is_empty()
                && (rule.namespace.is_empty() || rule.namespace == access.namespace)
                && (rule.group == access.group || rule.group == "*")
                && (rule.resource == whole
                    || rule.resource == "*"
                    || (!access.subresource.is_empty() && rule.resource == format!("*/{}", access.subresource)))
                && (rule.name.is_empty() || rule.name == access.name)
        })
    }
}

/// The cluster: the built-in kinds, a cluster-scoped one and a namespaced one.
fn catalog() -> Arc<Catalog> {
    static CATALOG: LazyLock<Arc<Catalog>> = LazyLock::new(make_catalog);
    CATALOG.clone()
}

fn make_catalog() -> Arc<Catalog> {
    let custom = |kind: &str, plural: &str, scope| ApiResource {
        group: "example.org".into(),
        version: "v1".into(),
        kind: kind.into(),
        plural: plural.into(),
        subresource: String::new(),
        scope,
    };
    let custom = [custom("Widget", "widgets", Scope::Cluster), custom("Gadget", "gadgets", Scope::Namespaced)];
    Arc::new(Catalog::new(Catalog::builtin().all().cloned().chain(custom)))
}

/// The one global context entry that is stored.
fn entry() -> Value {
    json!({"apiVersion": "kyverno.io/v2alpha1", "kind": "GlobalContextEntry", "metadata": {"name": "entry"},
           "spec": {"kubernetesResource": {"version": "v1", "resource": "secrets", "namespace": HOME}}})
}

/// Runs one case; says whether the policy was admitted and did something.
pub fn author(data: &[u8]) -> bool {
    let mut choices = Choices { data };
    let (document, catalog) = (choices.policy(), catalog());
    let (Some(policy), _) = generate::policy_among(&document, &|gvk| catalog.scope(gvk)) else {
        return false;
    };
    let rights = generate::rights_among(&document, &catalog);
    if !generate::name_install(&document, Some(&policy), &rights, INSTALL).is_empty() {
        return false;
    }
    let mut needs = generate::author_needs(&policy, &rights, &catalog);
    needs.extend(rights.of_entries(&BTreeMap::from([("entry".to_owned(), entry())])));
    let asked: Vec<Access> =
        needs.iter().flat_map(|need| need.author_verbs().iter().map(|verb| need.access(verb))).collect();
    let permissions = choices.permissions(&asked);
    if !asked.iter().all(|access| permissions.allow(access)) {
        return false;
    }
    let trigger = choices.trigger();
    let case = Case { document: &document, catalog: &catalog, permissions: &permissions, trigger: &trigger };
    policy.rules.iter().any(|rule| case.run(rule))
}

/// An admitted policy and its trigger.
struct Case<'c> {
    document: &'c Value,
    catalog: &'c Arc<Catalog>,
    permissions: &'c Permissions,
    trigger: &'c Value,
}

impl Case<'_> {
    fn run(&self, rule: &Rule) -> bool {
        let bounds = InstallBounds::of_cluster(self.catalog.clone(), INSTALL);
        let mut facts = Facts::new("2024-02-29T12:00:00Z".parse().expect("a time"), 1, bounds.clone());
        let (global, _) = generate::global_entry(&entry());
        let global = global.expect("a good entry");
        let read = RefCell::new(Vec::new());
        let trigger = Trigger::background(self.trigger.clone());
        let evaluation = drive(rule, &trigger, &mut facts, |fetch| {
            read.borrow_mut().push(fetch.clone());
            self.answer(fetch, &bounds, &global)
        });
        let read = read.into_inner();
        for fetch in &read {
            self.check_read(rule, fetch, &bounds, &global);
        }
        match evaluation {
            Ok(Evaluation::NotApplicable { .. } | Evaluation::OutOfReach { .. }) => {
                assert!(read.is_empty(), "{read:?} is read for a trigger that does not matter");
                false
            }
            Ok(Evaluation::Done(plan)) => {
                self.check_trigger();
                self.check_plan(rule, &plan);
                !plan.targets.is_empty()
            }
            _ => {
                self.check_trigger();
                false
            }
        }
    }

    fn answer(&self, fetch: &Fetch, bounds: &InstallBounds, global: &GlobalEntry) -> Answer {
        let object = |namespace: &str| {
            json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": namespace, "uid": "s"},
                   "data": self.trigger["data"], "roleRef": {"kind": "ClusterRole", "name": "cluster-admin"}})
        };
        let mut found = match fetch {
            Fetch::Object(object) if self.catalog.get(&object.key().gvk).is_none() => return Answer::Absent,
            Fetch::Object(object) => {
                json!({"apiVersion": object.key().gvk.api_version(), "kind": object.key().gvk.kind,
                "metadata": {"name": object.key().name, "namespace": object.key().namespace, "uid": "o"},
                "data": self.trigger["data"], "roleRef": {"kind": "ClusterRole", "name": "cluster-admin"}})
            }
            Fetch::List(list) if self.catalog.get(list.gvk()).is_none() => return Answer::Absent,
            Fetch::List(list) => match (self.catalog.scope(list.gvk()), list.namespace()) {
                (Some(Scope::Cluster), _) => json!([{"metadata": {"name": "s", "uid": "s"}}]),
                (_, Some(namespace)) => json!([object(namespace)]),
                (_, None) => json!([object(HOME), object("other"), object(INSTALL)]),
            },
            Fetch::Global(fetch) if global.check_reach(fetch, bounds).is_err() => {
                return Answer::Failed("no".to_owned());
            }
            Fetch::Global(fetch) if fetch.readings().all(|(name, _)| name != "entry") => return Answer::Absent,
            Fetch::Host(_) => return Answer::found(json!(["10.0.0.1"])),
            _ => object(HOME),
        };
        bounds.withhold(&mut found, false);
        Answer::found(found)
    }

    #[track_caller]
    fn require(&self, access: Access, what: &dyn std::fmt::Debug) {
        assert!(
            self.permissions.allow(&access),
            "{} {access} in `{}` is beyond the author's permissions: {what:?}\npolicy {}\ntrigger {}\npermissions {:?}",
            access.verb,
            access.namespace,
            self.document,
            self.trigger,
            self.permissions,
        );
    }

    /// A verb on a resource as the API server authorizes it: the namespace of what is cluster-scoped is none.
    fn access(&self, verb: &str, gvk: &Gvk, namespace: Option<&str>, name: &str) -> Option<Access> {
        let resource = self.catalog.get(gvk)?;
        let namespace = namespace.filter(|_| resource.scope == Scope::Namespaced).unwrap_or_default();
        Some(Access {
            verb: verb.to_owned(),
            group: gvk.group.clone(),
            resource: resource.plural.clone(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            ..Access::default()
        })
    }

    fn check_reach(&self, rule: &Rule, scope: Scope, namespace: Option<&str>, what: &dyn std::fmt::Debug) {
        assert_ne!(namespace, Some(INSTALL), "{what:?} belongs to the install\npolicy {}", self.document);
        if rule.policy.namespace.is_some() {
            assert_eq!(
                (scope, namespace),
                (Scope::Namespaced, Some(HOME)),
                "{what:?} is outside the namespace of the Policy\npolicy {}\ntrigger {}",
                self.document,
                self.trigger
            );
        }
    }

    fn check_trigger(&self) {
        let key = ObjectKey::of(self.trigger);
        assert_ne!(key.namespace.as_deref(), Some(INSTALL), "a trigger of the install");
        assert!(key.gvk.kind != "Namespace" || key.name != INSTALL, "the namespace of the install is a trigger");
        for verb in ["get", "list", "watch"] {
            let access = self.access(verb, &key.gvk, key.namespace.as_deref(), "").expect("a served kind");
            self.require(access, &"the trigger");
        }
    }

    fn check_read(&self, rule: &Rule, fetch: &Fetch, bounds: &InstallBounds, global: &GlobalEntry) {
        match fetch {
            Fetch::Object(object) => {
                let key = object.key();
                let Some(resource) = self.catalog.get(&key.gvk) else { return };
                self.check_reach(rule, resource.scope, key.namespace.as_deref(), fetch);
                let access = self.access("get", &key.gvk, key.namespace.as_deref(), &key.name);
                access.into_iter().for_each(|access| self.require(access, fetch));
            }
            Fetch::List(list) => {
                let Some(resource) = self.catalog.get(list.gvk()) else { return };
                self.check_reach(rule, resource.scope, list.namespace(), fetch);
                let access = self.access("list", list.gvk(), list.namespace(), "");
                access.into_iter().for_each(|access| self.require(access, fetch));
            }
            Fetch::Call(call) => match call.path() {
                ApiPath::Discovery(path) => {
                    assert!(rule.policy.namespace.is_none(), "{fetch} is outside the namespace of the Policy");
                    self.require(Access { verb: "get".into(), path: path.clone(), ..Access::default() }, fetch);
                }
                ApiPath::Resource(path) => {
                    let scope = bounds.scope_of_resource(&path.group, &path.resource).unwrap_or(Scope::Namespaced);
                    self.check_reach(rule, scope, path.namespace.as_deref(), fetch);
                    let is_install = path.resource == "namespaces" && path.name.as_deref() == Some(INSTALL);
                    assert!(!is_install, "{fetch} is the namespace of the install");
                    let verb = match (call.body(), &path.name) {
                        (Some(_), _) => "create",
                        (None, Some(_)) => "get",
                        (None, None) => "list",
                    };
                    let access = Access {
                        verb: verb.to_owned(),
                        group: path.group.clone(),
                        resource: path.resource.clone(),
                        subresource: path.subresource.clone().unwrap_or_default(),
                        namespace: path.namespace.clone().unwrap_or_default(),
                        name: path.name.clone().unwrap_or_default(),
                        ..Access::default()
                    };
                    self.require(access, fetch);
                }
            },
            Fetch::Global(asked) => {
                let is_stored = asked.readings().any(|(name, _)| name == "entry");
                if is_stored && global.check_reach(asked, bounds).is_ok() {
                    self.check_reach(rule, Scope::Namespaced, Some(HOME), fetch);
                    let access = self.access("list", &Gvk::new("v1", "Secret"), Some(HOME), "");
                    access.into_iter().for_each(|access| self.require(access, fetch));
                }
            }
            _ => assert!(rule.policy.namespace.is_none(), "{fetch} is outside the namespace of the Policy"),
        }
    }

    fn check_plan(&self, rule: &Rule, plan: &Plan) {
        for target in &plan.targets {
            let (key, body) = (ObjectKey::of(&target.body), &target.body);
            assert_eq!(key, target.key, "what is written is what was planned");
            let Some(resource) = self.catalog.get(&key.gvk) else { continue };
            self.check_reach(rule, resource.scope, key.namespace.as_deref(), &key);
            assert!(key.gvk.kind != "Namespace" || key.name != INSTALL, "the namespace of the install is written");
            let verbs: &[&str] = if plan.synchronize { &["create", "update", "delete"] } else { &["create"] };
            for verb in verbs {
                let access = self.access(verb, &key.gvk, key.namespace.as_deref(), "");
                access.into_iter().for_each(|access| self.require(access, &key));
            }
            let namespace = key.namespace.as_deref();
            let rbac = |verb: &str, kind: &str, name: &str| Access {
                name: name.to_owned(),
                verb: verb.to_owned(),
                group: RBAC.to_owned(),
                resource: if kind == "Role" { "roles".to_owned() } else { "clusterroles".to_owned() },
                namespace: namespace.unwrap_or_default().to_owned(),
                ..Access::default()
            };
            match (key.gvk.group.as_str(), key.gvk.kind.as_str()) {
                (RBAC, kind @ ("Role" | "ClusterRole")) => self.require(rbac("escalate", kind, ""), &key),
                (RBAC, _) => {
                    let (kind, name) = (text_at(body, &["roleRef", "kind"]), text_at(body, &["roleRef", "name"]));
                    if !name.is_empty() {
                        self.require(rbac("bind", kind, name), &key);
                    }
                }
                ("kyverno.io", _) => {
                    let any = || "*".to_owned();
                    let namespace = namespace.unwrap_or_default().to_owned();
                    let access = Access { verb: any(), group: any(), resource: any(), namespace, ..Access::default() };
                    self.require(access, &key);
                }
                _ => {}
            }
        }
    }
}
