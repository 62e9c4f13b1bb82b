//! Admission of generate policies and of the objects they are about, with a cluster that is played here.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde_json::{Value, json};
use writ::core::access::{Access, Subject};
use writ::core::catalog::{ApiResource, Catalog};
use writ::core::generate::request::UpdateRequest;
use writ::core::generate::{Answer, ExceptionKey, Facts, Fetch, Honoured, InstallBounds, Policy};
use writ::core::integrity::MacKey;
use writ::core::kinds::Scope;
use writ::core::matching::Requester;
use writ::core::reviewed::{ReviewState, code, is_reviewed};
use writ::core::settings::Settings;
use writ::index::Index;
use writ::webhook::{Accounts, Counter, Office, Trouble, View, handle_with};

const INSTALL: &str = "writ-system";
const WRITER: &str = "system:serviceaccount:writ-system:writ";

fn key() -> MacKey {
    MacKey::new(&[7; 32]).expect("32 bytes")
}

/// A policy as it is stored after a review.
fn reviewed(mut policy: Value) -> Value {
    let code = code(&key(), &policy);
    let annotations = &mut policy["metadata"]["annotations"];
    if annotations.is_null() {
        *annotations = json!({});
    }
    annotations["writ.dev/reviewed"] = code.into();
    policy
}

/// A cluster that answers as it is told.
struct World {
    index: Index,
    catalog: Catalog,
    /// What the cluster says when it is asked again.
    newer: Catalog,
    /// User and verb, as `jane create`.
    denied: Vec<&'static str>,
    objection: Option<&'static str>,
    settings: Value,
    honoured: Honoured,
    key: Option<MacKey>,
    /// Objects and lists by what is looked up.
    answers: BTreeMap<String, Value>,
    /// What the API server would store.
    rehearsed: Option<Value>,
    full: bool,
    asked: Mutex<Vec<String>>,
    registered: Mutex<Vec<String>>,
    stored: Mutex<Vec<UpdateRequest>>,
}

impl World {
    fn new() -> Self {
        Self {
            index: Index::default(),
            catalog: Catalog::builtin(),
            newer: Catalog::builtin(),
            denied: Vec::new(),
            objection: None,
            settings: json!({}),
            honoured: Honoured::Everywhere,
            key: Some(key()),
            answers: BTreeMap::new(),
            rehearsed: None,
            full: false,
            asked: Mutex::default(),
            registered: Mutex::default(),
            stored: Mutex::default(),
        }
    }

    fn with(mut self, policy: Value) -> Self {
        let transition = self.index.apply(policy, ReviewState::Reviewed, &|gvk| Catalog::builtin().scope(gvk));
        assert_eq!(transition.new.problems, []);
        self
    }

    fn call(&self, path: &str, request: Value) -> Value {
        let mut request = request;
        request["uid"] = "u-1".into();
        let review = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request});
        let request = hyper::Request::post(path).header("content-type", "application/json");
        let request = request.body(Bytes::from(review.to_string())).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let answer = runtime.block_on(handle_with(self, &request));
        let body: Value = serde_json::from_slice(answer.response.body()).unwrap();
        assert_eq!(body["response"]["uid"], "u-1");
        body["response"].clone()
    }

    /// The answer to a policy that both webhooks are asked about, as an API server does.
    fn admit(&self, mut request: Value) -> Value {
        let marked = self.call("/policymutate", request.clone());
        assert_eq!(marked["allowed"], true, "{marked}");
        if let Some(patch) = marked["patch"].as_str() {
            let patch = STANDARD.decode(patch).expect("base64");
            let patch: json_patch::Patch = serde_json::from_slice(&patch).expect("a patch");
            json_patch::patch(&mut request["object"], &patch).expect("it applies");
        }
        self.call("/policyvalidate", request)
    }

    /// Offers a policy to admission.
    fn offer(&self, old: Value, new: Value) -> Value {
        let operation = if old.is_null() { "CREATE" } else { "UPDATE" };
        self.admit(json!({
            "operation": operation, "object": new, "oldObject": old, "name": "p",
            "kind": {"group": "kyverno.io", "version": "v1", "kind": "ClusterPolicy"},
            "userInfo": {"username": "jane", "groups": ["devs"]},
        }))
    }
}

impl Office for World {
    fn catalog(&self) -> Arc<Catalog> {
        Arc::new(self.catalog.clone())
    }

    async fn refreshed(&self) -> Result<Arc<Catalog>, Trouble> {
        Ok(Arc::new(self.newer.clone()))
    }

    async fn allows(&self, who: &Subject, access: &Access) -> Result<bool, Trouble> {
        self.asked.lock().unwrap().push(format!("{} {} {access}", who.user, access.verb));
        let is_denied = |denied: &&&str| match access.verb.as_str() {
            // Who lacks something may not do everything.
            "*" => denied.split(' ').next() == Some(&who.user),
            verb => **denied == format!("{} {verb}", who.user),
        };
        Ok(!self.denied.iter().any(|denied| is_denied(&denied)))
    }

    async fn objections(&self, _: &[(String, String)]) -> Result<Option<String>, Trouble> {
        Ok(self.objection.map(str::to_owned))
    }

    async fn register(&self, policy: Arc<Policy>) -> Result<(), Trouble> {
        self.registered.lock().unwrap().push(policy.key.to_string());
        Ok(())
    }

    async fn accounts(&self) -> Result<Accounts, Trouble> {
        let writer = Subject::account(WRITER);
        Ok(Accounts { admission: writer.clone(), background: writer, reports: None, check_author: true })
    }

    async fn global_entry(&self, name: &str) -> Result<Option<Value>, Trouble> {
        Ok(self.answers.get(name).cloned())
    }

    fn mac_key(&self) -> Option<MacKey> {
        self.key.clone()
    }

    fn honoured(&self) -> &Honoured {
        &self.honoured
    }

    fn install_namespace(&self) -> &str {
        INSTALL
    }
}

impl Counter for World {
    fn panicked(&self) {}

    fn view(&self) -> View {
        let data = self.settings.as_object().cloned().unwrap_or_default();
        View {
            policies: self.index.snapshot(),
            fresh: Vec::new(),
            catalog: Arc::new(self.catalog.clone()),
            settings: Arc::new(Settings::read(&data, "writ-system", &mut Vec::new())),
            background: WRITER.to_owned(),
        }
    }

    fn roles(&self, requester: &mut Requester, namespace: &str) {
        requester.roles.insert(format!("{namespace}:editor"));
    }

    async fn store(&self, request: &UpdateRequest) -> Result<(), Trouble> {
        if self.full {
            return Err("etcd is full".to_owned());
        }
        self.stored.lock().unwrap().push(request.clone());
        Ok(())
    }

    fn facts(&self) -> Facts {
        Facts::new(jiff::Timestamp::UNIX_EPOCH, 1, InstallBounds::of_cluster(Arc::new(self.catalog.clone()), INSTALL))
    }

    async fn answer(&self, fetch: &Fetch) -> Answer {
        let selector = match fetch {
            Fetch::List(list) => list.selector(),
            _ => "",
        };
        let asked = format!("{fetch} {selector}");
        self.answers.get(asked.trim_end()).cloned().map_or(Answer::Absent, Answer::found)
    }

    async fn rehearse(&self, _: &Policy, _: &Value, _: &Value) -> Result<Value, Trouble> {
        self.rehearsed.clone().ok_or_else(|| "not today".to_owned())
    }
}

fn policy(rule: Value) -> Value {
    let mut whole = json!({
        "name": "r", "match": {"any": [{"resources": {"kinds": ["Namespace"]}}]},
        "generate": {
            "apiVersion": "v1", "kind": "ConfigMap", "name": "c", "namespace": "{{request.object.metadata.name}}",
            "synchronize": true, "data": {"data": {"k": "v"}},
        },
    });
    merge(&mut whole, &rule);
    json!({
        "apiVersion": "kyverno.io/v1", "kind": "ClusterPolicy", "metadata": {"name": "p"},
        "spec": {"background": false, "rules": [whole]},
    })
}

fn merge(below: &mut Value, above: &Value) {
    match (below, above) {
        (Value::Object(below), Value::Object(above)) => {
            for (field, value) in above {
                merge(below.entry(field.clone()).or_insert(Value::Null), value);
            }
        }
        (below, above) => *below = above.clone(),
    }
}

fn message(response: &Value) -> &str {
    assert_eq!(response["allowed"], false, "{response}");
    response["status"]["message"].as_str().unwrap()
}

fn warnings(response: &Value) -> Vec<&str> {
    assert_eq!(response["allowed"], true, "{response}");
    response["warnings"].as_array().into_iter().flatten().filter_map(Value::as_str).collect()
}

#[test]
fn a_good_policy_is_registered_before_it_is_answered() {
    let world = World::new();
    assert_eq!(warnings(&world.offer(json!(null), policy(json!({})))), [""; 0]);
    assert_eq!(*world.registered.lock().unwrap(), ["p"]);
}

#[test]
fn rights_of_the_account_are_asked_for_by_name() {
    let world = World {
        denied: vec!["system:serviceaccount:writ-system:writ create", "system:serviceaccount:writ-system:writ delete"],
        ..World::new()
    };
    let response = world.offer(json!(null), policy(json!({"generate": {"namespace": "a"}})));
    assert_eq!(
        message(&response),
        "spec.rules[0].generate: system:serviceaccount:writ-system:writ is not allowed to create, delete configmaps in \
         namespace `a`; grant it by a ClusterRole with an aggregation label, as `writ rbac` prints it"
    );
    assert_eq!(response["status"]["code"], 422);
    assert!(world.registered.lock().unwrap().is_empty());
}

#[test]
fn authors_cannot_do_by_policy_what_they_may_not_do() {
    let world = World { denied: vec!["jane get"], ..World::new() };
    let clone = json!({"generate": {"kind": "Secret", "data": null, "clone": {"namespace": "prod", "name": "key"}}});
    let response = world.offer(json!(null), policy(clone));
    assert_eq!(
        message(&response),
        "spec.rules[0].match: user `jane` lacks permission to get namespaces in the whole cluster, and a policy is forbidden \
         to do more than its author; spec.rules[0].generate.clone: user `jane` lacks permission to get secrets `key` in \
         namespace `prod`, and a policy is forbidden to do more than its author"
    );
    assert_eq!(response["status"]["code"], 403);
}

#[test]
fn what_is_kept_for_rules_the_author_must_be_allowed_to_see() {
    let entry = |resource: &str| {
        let resource = json!({"version": "v1", "resource": resource, "namespace": "prod"});
        json!({"apiVersion": "kyverno.io/v2alpha1", "kind": "GlobalContextEntry", "metadata": {"name": "e"},
               "spec": {"kubernetesResource": resource}})
    };
    let world = World { denied: vec!["jane list"], ..World::new() };
    let response = world.offer(json!(null), entry("secrets"));
    assert!(
        message(&response)
            .starts_with("spec.kubernetesResource: user `jane` lacks permission to list secrets in namespace `prod`"),
        "{response}"
    );
    assert_eq!(response["status"]["code"], 403);
    // Somebody who changes nothing is asked nothing.
    assert_eq!(world.offer(reviewed(entry("secrets")), entry("secrets"))["allowed"], json!(true));
    assert_eq!(world.offer(entry("secrets"), entry("secrets"))["allowed"], json!(false), "nobody has reviewed it");
    assert_eq!(World::new().offer(json!(null), entry("secrets"))["allowed"], json!(true));
    let response = World::new().offer(json!(null), entry(""));
    assert_eq!(response["status"]["details"]["causes"][0]["field"], json!("spec.kubernetesResource.resource"));
}

/// What somebody may not read is not to be read through what another keeps either.
#[test]
fn what_an_entry_keeps_the_author_of_a_policy_must_be_allowed_to_see() {
    let entry = json!({"apiVersion": "kyverno.io/v2alpha1", "kind": "GlobalContextEntry", "metadata": {"name": "keys"},
        "spec": {"kubernetesResource": {"version": "v1", "resource": "secrets", "namespace": "prod"}}});
    let answers = BTreeMap::from([("keys".to_owned(), entry)]);
    let reading = |name: &str| policy(json!({"context": [{"name": "k", "globalReference": {"name": name}}]}));
    let world = World { denied: vec!["jane list"], answers, ..World::new() };
    for name in ["keys", "keys.names"] {
        let response = world.offer(json!(null), reading(name));
        let expected = "spec.rules[0].context[0].globalReference.name: user `jane` lacks permission to list secrets in namespace `prod`";
        assert!(message(&response).contains(expected), "{response}");
    }
    // What an entry to come will hold is unknown, and so is what a variable names.
    for name in ["others", "{{ request.object.metadata.name }}"] {
        let response = world.offer(json!(null), reading(name));
        let expected = "spec.rules[0].context[0].globalReference.name: user `jane` lacks permission to list *.* in the whole cluster";
        assert!(message(&response).contains(expected), "{response}");
    }
}

#[test]
fn what_a_variable_decides_is_asked_for_everywhere() {
    let world = World { denied: vec!["jane update"], ..World::new() };
    let response = world.offer(json!(null), policy(json!({})));
    assert!(message(&response).contains("lacks permission to update configmaps in the whole cluster"), "{response}");
}

/// A policy that jane offers, who may not do something.
#[track_caller]
fn check_author(denied: &'static str, rule: Value, expected: &str) {
    let world = World { denied: vec![denied], ..World::new() };
    let response = world.offer(json!(null), policy(rule));
    assert!(message(&response).contains(expected), "{response}");
    assert_eq!(response["status"]["code"], 403);
}

#[test]
fn what_is_unknown_is_asked_as_everything() {
    let kind = json!({"generate": {"kind": "{{ request.object.metadata.name }}"}});
    check_author("jane create", kind.clone(), "spec.rules[0].generate: user `jane` lacks permission to create *.*");
    check_author("jane escalate", kind.clone(), "lacks permission to escalate *.* in the whole cluster");
    check_author("jane bind", kind, "lacks permission to bind *.* in the whole cluster");
    let path =
        |path: &str, method: &str| json!({"context": [{"name": "c", "apiCall": {"urlPath": path, "method": method}}]});
    check_author(
        "jane get",
        path("{{ request.object.metadata.name }}", "GET"),
        "spec.rules[0].context[0].apiCall.urlPath: user `jane` lacks permission to get *.*/* in the whole cluster",
    );
    check_author("jane get", path("/version", "GET"), "urlPath: user `jane` lacks permission to get /version, and");
    check_author(
        "jane create",
        path("/apis/authorization.k8s.io/v1/subjectaccessreviews", "POST"),
        "urlPath: user `jane` lacks permission to create subjectaccessreviews.authorization.k8s.io in the whole cluster",
    );
    let triggers =
        |kind: &str| json!({"match": {"any": [{"resources": {"kinds": [kind]}}]}, "generate": {"namespace": "a"}});
    check_author(
        "jane watch",
        triggers("Secret"),
        "spec.rules[0].match: user `jane` lacks permission to watch secrets in",
    );
    check_author("jane watch", triggers("?*"), "lacks permission to watch *.* in the whole cluster");
    check_author("jane watch", triggers("Sec*"), "lacks permission to watch secrets in the whole cluster");
    check_author("jane watch", triggers("example.org/v1/Widget"), "lacks permission to watch *.* in the whole cluster");
    check_author("jane list", triggers("Pod/exec"), "lacks permission to list pods/exec in the whole cluster");
    check_author(
        "jane bind",
        json!({"generate": {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "namespace": "a", "data":
            {"data": null, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "admin"}}}}),
        "lacks permission to bind clusterroles.rbac.authorization.k8s.io `admin` in namespace `a`",
    );
}

#[test]
fn an_administrator_costs_one_question() {
    let world = World::new();
    assert_eq!(warnings(&world.offer(json!(null), policy(json!({})))), [""; 0]);
    let asked = world.asked.lock().unwrap();
    let of_jane: Vec<_> = asked.iter().filter(|asked| asked.starts_with("jane ")).collect();
    assert_eq!(of_jane, ["jane * *.*"]);
}

#[test]
fn the_install_is_named_by_no_policy() {
    #[track_caller]
    fn check(document: Value, expected: &[&str]) {
        let response = World::new().offer(json!(null), document);
        assert_eq!(response["status"]["code"], 422, "{response}");
        let causes = response["status"]["details"]["causes"].as_array().expect("causes").iter();
        assert_eq!(causes.map(|cause| cause["field"].as_str().expect("a field")).collect::<Vec<_>>(), expected);
        assert!(message(&response).contains("the namespace that Writ is installed in"), "{response}");
    }
    check(policy(json!({"generate": {"namespace": INSTALL}})), &["spec.rules[0].generate"]);
    let clone = json!({"generate": {"kind": "Secret", "data": null, "clone": {"namespace": INSTALL, "name": "writ-certificates"}}});
    check(policy(clone), &["spec.rules[0].generate.clone"]);
    let path = format!("/api/v1/namespaces/{INSTALL}/secrets/writ-certificates");
    let context = json!([{"name": "a", "apiCall": {"urlPath": path}},
                         {"name": "b", "configMap": {"name": "writ", "namespace": INSTALL}}]);
    check(
        policy(json!({"context": context})),
        &["spec.rules[0].context[0].apiCall.urlPath", "spec.rules[0].context[1].configMap"],
    );
    let matched = json!({"match": {"any": [{"resources": {"kinds": ["Secret"], "namespaces": [INSTALL]}}]}});
    check(policy(matched), &["spec.rules[0].match"]);
    let mut own =
        policy(json!({"match": {"any": [{"resources": {"kinds": ["Pod"]}}]}, "generate": {"namespace": INSTALL}}));
    own["kind"] = "Policy".into();
    own["metadata"]["namespace"] = INSTALL.into();
    check(own, &["metadata.namespace"]);
    let entry = json!({"apiVersion": "kyverno.io/v2alpha1", "kind": "GlobalContextEntry", "metadata": {"name": "e"},
        "spec": {"kubernetesResource": {"version": "v1", "resource": "secrets", "namespace": INSTALL}}});
    check(entry, &["spec.kubernetesResource"]);
}

#[test]
fn the_namespace_of_cluster_scoped_copies_is_ignored() {
    let mut document = policy(json!({}));
    document["spec"]["rules"][0]["generate"] = json!({
        "namespace": "a", "cloneList": {"kinds": ["rbac.authorization.k8s.io/v1/ClusterRole"]},
    });
    let response = World::new().offer(json!(null), document.clone());
    let expected = "spec.rules[0].generate.namespace: is ignored: the kinds of `cloneList` are cluster-scoped";
    assert!(warnings(&response).contains(&expected), "{response}");
    document["kind"] = "Policy".into();
    document["metadata"]["namespace"] = "a".into();
    let response = World::new().offer(json!(null), document);
    assert!(message(&response).contains("cluster-scoped"), "{response}");
}

#[test]
fn kinds_to_come_are_waited_for() {
    let world = World { denied: vec!["system:serviceaccount:writ-system:writ create"], ..World::new() };
    let widgets = json!({"match": {"any": [{"resources": {"kinds": ["example.org/v1/Widget"]}}]}});
    let response = world.offer(json!(null), policy(widgets));
    assert_eq!(
        warnings(&response),
        ["spec.rules[0].match: the cluster has no kind `example.org/v1/Widget`; the rule waits until there is one"]
    );
}

#[test]
fn a_kind_that_came_a_moment_ago_counts() {
    let widget = ApiResource {
        group: "example.org".into(),
        version: "v1".into(),
        kind: "Widget".into(),
        plural: "widgets".into(),
        subresource: String::new(),
        scope: Scope::Cluster,
    };
    let newer = Catalog::new(Catalog::builtin().all().cloned().chain([widget]));
    let world = World { newer, ..World::new() };
    let target = json!({"generate": {"apiVersion": "example.org/v1", "kind": "Widget", "namespace": null}});
    assert_eq!(warnings(&world.offer(json!(null), policy(target))), [""; 0]);
    assert!(world.asked.lock().unwrap().contains(&format!("{WRITER} create widgets.example.org")));

    let target = json!({"generate": {"apiVersion": "example.org/v1", "kind": "Gadget"}});
    let response = world.offer(json!(null), policy(target));
    assert!(message(&response).contains("the cluster has no kind `example.org/v1 Gadget`"), "{response}");

    let target = json!({"generate": {"apiVersion": "kyverno.io/v9", "kind": "Gadget"}});
    let response = world.offer(json!(null), policy(target));
    let wanted = "the cluster has no kind `kyverno.io/v9 Gadget`; the rule fails until there is one";
    let wanted = format!("spec.rules[0].generate: {wanted}");
    assert!(warnings(&response).contains(&wanted.as_str()), "what came with Kyverno may have gone with it: {response}");
}

#[test]
fn a_kind_that_is_not_there_is_no_way_around_the_authors_rights() {
    let world = World { denied: vec!["jane delete"], ..World::new() };
    let target = json!({"generate": {"apiVersion": "kyverno.io/v9", "kind": "Gadget"}});
    let response = world.offer(json!(null), policy(target));
    assert!(
        message(&response).contains("user `jane` lacks permission to *, delete *.* in the whole cluster"),
        "{response}"
    );
}

#[test]
fn a_rule_that_cannot_hear_of_its_triggers_is_told_so() {
    let world = World { denied: vec!["system:serviceaccount:writ-system:writ watch"], ..World::new() };
    assert_eq!(
        warnings(&world.offer(json!(null), policy(json!({})))),
        [
            "spec.rules[0].match: system:serviceaccount:writ-system:writ is not allowed to watch namespaces in the whole \
          cluster, so the rule hears of nothing; grant it by a ClusterRole with an aggregation label, as `writ rbac` \
          prints it"
        ]
    );
    let request = json!({"generate": {"data": {"data": {"k": "{{request.userInfo.username}}"}}}});
    assert_eq!(
        warnings(&world.offer(json!(null), policy(request))),
        [""; 0],
        "a rule that admission serves watches none"
    );
    let many = json!({"match": {"any": [{"resources": {"kinds": ["Config*"]}}]}});
    assert_eq!(warnings(&world.offer(json!(null), policy(many))), [""; 0], "wildcards are not asked about");

    let mut own = policy(json!({
        "match": {"any": [{"resources": {"kinds": ["Secret"]}}]}, "generate": {"namespace": "team"},
    }));
    own["kind"] = "Policy".into();
    own["metadata"]["namespace"] = "team".into();
    let response = world.offer(json!(null), own);
    assert!(warnings(&response)[0].contains("not allowed to watch secrets in namespace `team`"), "{response}");
}

#[test]
fn other_targets_warn_and_stop() {
    let world = World { denied: vec!["system:serviceaccount:writ-system:writ create"], ..World::new() };
    let response = world.offer(policy(json!({})), policy(json!({"generate": {"name": "d"}})));
    let [first] = warnings(&response)[..] else { panic!("{response}") };
    assert!(
        first.starts_with("no synchronization will be performed to the old target resource upon policy updates"),
        "{first}"
    );

    let world = World { denied: vec!["jane create"], ..World::new() };
    let response = world.offer(policy(json!({})), policy(json!({"generate": {"name": "d"}})));
    assert!(
        message(&response).starts_with("spec.rules[0].generate: user `jane`"),
        "a change of targets is no way around"
    );
}

#[test]
fn the_rule_itself_cannot_change() {
    let other = json!({"match": {"any": [{"resources": {"kinds": ["Secret"]}}]}, "generate": {"namespace": "a"}});
    let before = policy(json!({"generate": {"namespace": "a"}}));
    let response = World::new().offer(before, policy(other));
    assert!(message(&response).contains("of generate rule `r` cannot change"), "{response}");
}

#[test]
fn bookkeeping_asks_nobody() {
    let world = World { denied: vec!["jane create"], ..World::new() };
    let mut new = policy(json!({}));
    new["metadata"]["finalizers"] = json!(["x"]);
    new["metadata"]["labels"] = json!({"team": "a"});
    let mut old = policy(json!({}));
    old["metadata"]["annotations"] = json!({"kubectl.kubernetes.io/last-applied-configuration": "{}"});
    assert_eq!(warnings(&world.offer(reviewed(old), new.clone())), [""; 0]);
    let mut end = policy(json!({}));
    end["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    assert_eq!(warnings(&world.offer(end.clone(), end)), [""; 0], "a finalizer may be removed from any policy");
    assert_eq!(*world.asked.lock().unwrap(), [""; 0]);
}

#[test]
fn the_author_is_asked_about_whatever_nobody_has_reviewed() {
    let world = World { denied: vec!["jane create"], ..World::new() };
    let denied = |old: Value, new: Value| {
        let response = world.offer(old, new);
        assert!(message(&response).contains("user `jane` lacks permission to create"), "{response}");
    };
    let mut labelled = policy(json!({}));
    labelled["metadata"]["labels"] = json!({"team": "a"});
    denied(policy(json!({})), labelled);
    let mut forged = policy(json!({}));
    forged["metadata"]["annotations"] = json!({"writ.dev/reviewed": "00"});
    denied(forged.clone(), forged);
    let mut changed = policy(json!({"generate": {"name": "d"}}));
    changed["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    denied(reviewed(policy(json!({}))), changed);
    let mut end = policy(json!({}));
    end["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    let mut pruning = end.clone();
    pruning["metadata"]["annotations"] = json!({"writ.dev/prune": "true"});
    denied(end, pruning);
}

#[test]
fn the_mark_is_the_one_of_the_content() {
    let world = World::new();
    let mark = |object: Value, old: Value| {
        let operation = if old.is_null() { "CREATE" } else { "UPDATE" };
        let request = json!({"operation": operation, "object": object, "oldObject": old});
        let response = world.call("/policymutate", request);
        let patch = STANDARD.decode(response["patch"].as_str().unwrap_or("W10=")).expect("base64");
        let mut marked = object;
        json_patch::patch(&mut marked, &serde_json::from_slice::<json_patch::Patch>(&patch).expect("a patch"))
            .expect("it applies");
        marked
    };
    let forged = |code: &str| {
        let mut forged = policy(json!({}));
        forged["metadata"]["annotations"] = json!({"writ.dev/reviewed": code});
        forged
    };
    assert!(is_reviewed(&key(), &mark(forged("00"), json!(null))));
    let other = forged(&code(&key(), &policy(json!({"generate": {"name": "d"}}))));
    assert!(is_reviewed(&key(), &mark(other, policy(json!({})))));
    let mut ending = reviewed(policy(json!({})));
    ending["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    let mut stripped = ending.clone();
    stripped["metadata"]["annotations"] = json!({});
    assert_eq!(mark(stripped.clone(), ending.clone()), ending, "what was reviewed stays so");
    assert_eq!(mark(ending, stripped.clone()), stripped, "and nothing else becomes so");
    let response = world.call("/policyvalidate", json!({"operation": "CREATE", "object": policy(json!({}))}));
    assert!(warnings(&response)[0].contains("does not run before its next update"), "{response}");
}

#[test]
fn without_the_key_no_policy_is_taken() {
    let world = World { key: None, ..World::new() };
    for path in ["/policymutate", "/policyvalidate"] {
        let response = world.call(path, json!({"operation": "CREATE", "object": policy(json!({}))}));
        assert_eq!((&response["allowed"], &response["status"]["code"]), (&json!(false), &json!(503)), "{path}");
    }
}

#[test]
fn the_api_server_reads_the_conditions() {
    let world = World { objection: Some("[0].expression: syntax error"), ..World::new() };
    let mut policy = policy(json!({}));
    policy["spec"]["webhookConfiguration"] = json!({"matchConditions": [{"name": "c", "expression": "]"}]});
    assert_eq!(
        message(&world.offer(json!(null), policy)),
        "spec.webhookConfiguration.matchConditions: [0].expression: syntax error"
    );
}

/// A request for a Namespace.
fn request(operation: &str, object: Value, old: Value, user: &str) -> Value {
    json!({
        "operation": operation, "object": object, "oldObject": old, "name": "a", "namespace": "a",
        "kind": {"group": "", "version": "v1", "kind": "Namespace"},
        "resource": {"group": "", "version": "v1", "resource": "namespaces"},
        "userInfo": {"username": user, "groups": ["devs"]},
    })
}

fn namespace(labels: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a", "uid": "u-ns", "labels": labels}})
}

/// A rule that reads who asked.
fn asking() -> Value {
    policy(json!({
        "match": {"any": [{"resources": {"kinds": ["Namespace"], "selector": {"matchLabels": {"team": "x"}}}}]},
        "generate": {"data": {"data": {"k": "{{request.userInfo.username}}"}}},
    }))
}

#[test]
fn what_only_admission_knows_is_stored_first() {
    let world = World::new().with(asking());
    let created = request("CREATE", namespace(json!({"team": "x"})), json!(null), "jane");
    assert_eq!(warnings(&world.call("/validate/resources", created)), [""; 0]);
    let stored = world.stored.lock().unwrap();
    let [request] = &stored[..] else { panic!("{stored:?}") };
    assert_eq!((request.policy.to_string().as_str(), request.entries.len()), ("p", 1));
    let entry = &request.entries[0];
    assert_eq!((entry.rule.as_str(), entry.trigger.uid.as_str(), entry.delete), ("r", "u-ns", false));
    let admission = request.admission.as_ref().unwrap();
    assert_eq!(admission.request["userInfo"]["username"], "jane");
    assert_eq!(admission.roles, ["a:editor".to_owned()].into());
}

#[test]
fn a_lost_trigger_is_cleaned_up_after() {
    for (operation, object) in [("DELETE", json!(null)), ("UPDATE", namespace(json!({})))] {
        let world = World::new().with(asking());
        world.call("/validate/fail", request(operation, object, namespace(json!({"team": "x"})), "jane"));
        let stored = world.stored.lock().unwrap();
        let [request] = &stored[..] else { panic!("{operation}: {stored:?}") };
        assert!(request.entries[0].delete, "{operation}");
        assert_eq!(request.entries[0].trigger.uid, "u-ns");
    }
}

#[test]
fn most_requests_leave_no_trace() {
    #[track_caller]
    fn check(world: &World, path: &str, request: Value) {
        assert_eq!(warnings(&world.call(path, request)), [""; 0]);
        assert_eq!(world.stored.lock().unwrap().len(), 0);
    }
    let create = |user: &str| request("CREATE", namespace(json!({"team": "x"})), json!(null), user);
    let path = "/validate/resources";
    check(&World::new().with(policy(json!({}))), path, create("jane"));
    check(&World::new().with(asking()), path, create(WRITER));
    check(&World::new().with(asking()), path, request("CREATE", namespace(json!({})), json!(null), "jane"));
    check(&World::new().with(asking()), "/validate/resources/policy/other", create("jane"));
    let excluded = World { settings: json!({"excludeUsernames": "j*"}), ..World::new() };
    check(&excluded.with(asking()), path, create("jane"));
    let filtered = World { settings: json!({"resourceFilters": "[Namespace,*,a]"}), ..World::new() };
    check(&filtered.with(asking()), path, create("jane"));
}

#[test]
fn a_request_that_cannot_be_stored_is_let_through() {
    let world = World { full: true, ..World::new() }.with(asking());
    let response =
        world.call("/validate/resources", request("CREATE", namespace(json!({"team": "x"})), json!(null), "jane"));
    assert_eq!(warnings(&response), ["policy p does not get to know of this request: etcd is full"]);
}

#[test]
fn a_dry_run_is_told_what_would_happen() {
    let dry = |operation: &str, object: Value, old: Value| {
        let mut request = request(operation, object, old, "jane");
        request["dryRun"] = true.into();
        request
    };
    let world = World::new().with(policy(json!({"generate": {"namespace": "b"}})));
    let response = world.call("/validate/resources", dry("CREATE", namespace(json!({})), json!(null)));
    assert_eq!(warnings(&response), ["policy p, rule r: would create v1 ConfigMap b/c"]);

    let mut world = world;
    let stored = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": "b"}, "data": {"k": "w"}});
    world.answers.insert("v1 ConfigMap b/c".into(), stored.clone());
    let response = world.call("/validate/resources", dry("CREATE", namespace(json!({})), json!(null)));
    assert_eq!(warnings(&response), ["policy p, rule r: would update v1 ConfigMap b/c"]);

    // What the API server makes of it is what counts: defaults are no difference, an addition of somebody is one.
    world.rehearsed = Some(stored.clone());
    let response = world.call("/validate/resources", dry("CREATE", namespace(json!({})), json!(null)));
    assert_eq!(warnings(&response), [""; 0]);
    world.rehearsed = Some(json!({"kind": "ConfigMap", "data": {"k": "v"}}));
    let response = world.call("/validate/resources", dry("CREATE", namespace(json!({})), json!(null)));
    assert_eq!(warnings(&response), ["policy p, rule r: would update v1 ConfigMap b/c"]);

    let mut own = dry("CREATE", namespace(json!({})), json!(null));
    own["userInfo"]["username"] = WRITER.into();
    assert_eq!(warnings(&world.call("/validate/resources", own)), [""; 0], "its own rehearsals need no preview");

    let list = "list of v1 ConfigMap by labels app.kubernetes.io/managed-by=kyverno,generate.kyverno.io/policy-name=p,\
                generate.kyverno.io/policy-namespace=,generate.kyverno.io/rule-name=r,generate.kyverno.io/trigger-uid=u-ns";
    world.answers.insert(list.into(), json!([stored]));
    let response = world.call("/validate/resources", dry("DELETE", json!(null), namespace(json!({}))));
    assert_eq!(warnings(&response), ["policy p, rule r: would delete v1 ConfigMap b/c"]);
    assert_eq!(world.stored.lock().unwrap().len(), 0);
}

#[test]
fn a_dry_run_is_told_of_the_one_rule_that_applies() {
    let mut policy = policy(json!({"generate": {"namespace": "b"}}));
    let rule = policy["spec"]["rules"][0].clone();
    let named = |name: &str, precondition: &str| {
        let mut rule = rule.clone();
        rule["name"] = name.into();
        rule["generate"]["name"] = name.into();
        rule["preconditions"] = json!({"all": [{"key": precondition, "operator": "Equals", "value": "yes"}]});
        rule
    };
    policy["spec"]["rules"] = json!([named("first", "no"), named("second", "yes"), named("third", "yes")]);
    let mut request = request("CREATE", namespace(json!({})), json!(null), "jane");
    request["dryRun"] = true.into();
    for (apply, told) in [("One", &["second"][..]), ("All", &["second", "third"])] {
        policy["spec"]["applyRules"] = apply.into();
        let response = World::new().with(policy.clone()).call("/validate/resources", request.clone());
        let lines = told.iter().map(|name| format!("policy p, rule {name}: would create v1 ConfigMap b/{name}"));
        assert_eq!(warnings(&response), lines.collect::<Vec<_>>(), "{apply}");
    }
}

/// An exception from every rule, in namespace `team`.
fn exception() -> Value {
    json!({
        "apiVersion": "kyverno.io/v2", "kind": "PolicyException", "metadata": {"name": "e", "namespace": "team"},
        "spec": {
            "exceptions": [{"policyName": "*", "ruleNames": ["*"]}],
            "match": {"any": [{"resources": {"kinds": ["Namespace"]}}]},
        },
    })
}

#[test]
fn exceptions_are_judged_where_policies_are() {
    let offer = |honoured: &str, exception: Value| {
        let world = World { honoured: Honoured::parse(honoured), ..World::new() };
        let kind = json!({"group": "kyverno.io", "version": "v2", "kind": "PolicyException"});
        let request =
            json!({"operation": "CREATE", "object": exception, "name": "e", "namespace": "team", "kind": kind});
        world.admit(request)
    };
    for honoured in ["*", "team"] {
        assert_eq!(offer(honoured, exception()), json!({"uid": "u-1", "allowed": true}));
    }
    for (honoured, told) in [("", "honours no exceptions"), ("other", "in namespace `other` only")] {
        let response = offer(honoured, exception());
        assert_eq!(response["allowed"], true);
        assert!(warnings(&response)[0].contains(told), "{response}");
    }
    let mut bad = exception();
    bad["spec"]["exceptions"][0]["ruleNames"] = json!([]);
    let response = offer("*", bad);
    assert_eq!(response["allowed"], false);
    assert_eq!(response["status"]["details"]["causes"][0]["field"], "spec.exceptions[0].ruleNames");
}

#[test]
fn what_is_excepted_is_neither_made_nor_removed() {
    for (operation, object) in [("DELETE", json!(null)), ("UPDATE", namespace(json!({})))] {
        let mut world = World::new().with(asking());
        let key = ExceptionKey { namespace: "team".into(), name: "e".into() };
        assert_eq!(world.index.except(key, &exception()).0, []);
        let mut request = request(operation, object, namespace(json!({"team": "x"})), "jane");
        world.call("/validate/resources", request.clone());
        assert_eq!(world.stored.lock().unwrap().len(), 0, "{operation}");
        request["dryRun"] = true.into();
        let response = world.call("/validate/resources", request);
        assert_eq!(warnings(&response), ["policy p, rule r: skipped: exception team/e"]);
    }
}

#[test]
fn what_is_no_review_is_refused_everywhere() {
    let world = World::new();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    for path in ["/policyvalidate", "/validate/resources"] {
        for (method, body, status) in [("GET", "", 405), ("POST", "{", 400), ("POST", "{}", 400)] {
            let request = hyper::Request::builder().method(method).uri(path).header("content-type", "application/json");
            let request = request.body(Bytes::from(body)).unwrap();
            let answer = runtime.block_on(handle_with(&world, &request));
            assert_eq!(answer.response.status().as_u16(), status, "{method} {path} {body}");
        }
    }
}

#[test]
fn a_path_that_leads_nowhere_is_told_which_do() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let request = hyper::Request::post("/mutate").body(Bytes::new()).unwrap();
    let answer = runtime.block_on(handle_with(&World::new(), &request));
    assert_eq!(answer.response.status().as_u16(), 404);
    let body: Value = serde_json::from_slice(answer.response.body()).unwrap();
    assert_eq!(
        body["message"],
        "no such path; known paths: /validate, /default, /policyvalidate, /policymutate, /validate/resources, /validate/fail, \
         /validate/ignore"
    );
}
