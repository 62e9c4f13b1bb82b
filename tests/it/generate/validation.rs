//! What is refused at admission, by field and class.

use serde_json::{Value, json};
use writ::compile;
use writ::core::problem::{Problem, Reason};

/// A ClusterPolicy with one rule: Namespaces in, a ConfigMap out.
fn sample() -> Value {
    json!({
        "apiVersion": "kyverno.io/v1",
        "kind": "ClusterPolicy",
        "metadata": {"name": "p"},
        "spec": {"rules": [{
            "name": "r",
            "match": {"any": [{"resources": {"kinds": ["Namespace"]}}]},
            "generate": {
                "apiVersion": "v1", "kind": "ConfigMap", "name": "made", "namespace": "{{ request.object.metadata.name }}",
                "data": {"data": {"k": "v"}},
            },
        }]},
    })
}

fn found(problems: &[Problem]) -> Vec<(String, Reason)> {
    problems.iter().map(|problem| (problem.field.to_string(), problem.reason)).collect()
}

/// Sets a field by JSON pointer, then compares the errors.
#[track_caller]
fn check(changes: &[(&str, Value)], expected: &[(&str, Reason)]) {
    let mut document = sample();
    for (pointer, value) in changes {
        let (parent, field) = pointer.rsplit_once('/').expect("a pointer");
        document.pointer_mut(parent).expect("a parent")[field] = value.clone();
    }
    let findings = compile::check(&document).expect("a kind that is served");
    let expected: Vec<_> = expected.iter().map(|(field, reason)| ((*field).to_owned(), *reason)).collect();
    assert_eq!(found(&findings.errors), expected, "{:#?}", findings.errors);
}

#[track_caller]
fn warns(changes: &[(&str, Value)], field: &str, part: &str) {
    let mut document = sample();
    for (pointer, value) in changes {
        let (parent, field) = pointer.rsplit_once('/').expect("a pointer");
        document.pointer_mut(parent).expect("a parent")[field] = value.clone();
    }
    let findings = compile::check(&document).expect("a kind that is served");
    assert_eq!(found(&findings.errors), [], "{:#?}", findings.errors);
    let told =
        findings.warnings.iter().any(|warning| warning.field.to_string() == field && warning.message.contains(part));
    assert!(told, "{:#?}", findings.warnings);
}

const GENERATE: &str = "/spec/rules/0/generate";

#[test]
fn the_sample_is_fine() {
    check(&[], &[]);
    check(&[("/apiVersion", json!("kyverno.io/v2beta1"))], &[]);
}

#[test]
fn metadata_and_spec() {
    check(&[("/metadata/namespace", json!("a"))], &[("metadata.namespace", Reason::Forbidden)]);
    check(&[("/metadata/name", json!("x".repeat(64)))], &[("metadata.name", Reason::Range)]);
    check(&[("/spec/rulez", json!([]))], &[("spec.rulez", Reason::Unknown)]);
    check(&[("/spec/rules", json!([]))], &[("spec.rules", Reason::Required)]);
    check(&[("/spec/admission", json!(false))], &[("spec.admission", Reason::Forbidden)]);
    check(
        &[("/spec/admission", json!(false)), ("/spec/background", json!(false))],
        &[("spec.admission", Reason::Forbidden), ("spec.background", Reason::Context)],
    );
    check(&[("/spec/background", json!("yes"))], &[("spec.background", Reason::Format)]);
    check(&[("/spec/applyRules", json!("Some"))], &[("spec.applyRules", Reason::Enum)]);
    check(
        &[("/spec/generateExistingOnPolicyUpdate", json!(false))],
        &[("spec.generateExistingOnPolicyUpdate", Reason::Forbidden)],
    );
    check(&[("/spec/webhookTimeoutSeconds", json!(31))], &[("spec.webhookTimeoutSeconds", Reason::Range)]);
    check(
        &[("/spec/failurePolicy", json!("Fail")), ("/spec/webhookConfiguration", json!({"failurePolicy": "Ignore"}))],
        &[("spec.failurePolicy", Reason::Context)],
    );
    check(
        &[("/metadata/annotations", json!({"writ.dev/prune": "maybe"}))],
        &[("metadata.annotations[\"writ.dev/prune\"]", Reason::Enum)],
    );
    check(
        &[("/metadata/annotations", json!({"pod-policies.kyverno.io/autogen-controllers": "all"}))],
        &[("metadata.annotations[\"pod-policies.kyverno.io/autogen-controllers\"]", Reason::Enum)],
    );
}

#[test]
fn rules() {
    check(&[("/spec/rules/0/name", json!(""))], &[("spec.rules[0].name", Reason::Required)]);
    check(&[("/spec/rules/0/validate", json!({}))], &[("spec.rules[0]", Reason::Xor)]);
    check(&[("/spec/rules/0/generate", json!(null))], &[("spec.rules[0]", Reason::Xor)]);
    check(&[("/spec/rules/0/preconditons", json!([]))], &[("spec.rules[0].preconditons", Reason::Unknown)]);
    check(&[("/spec/rules/0/celPreconditions", json!([{}]))], &[("spec.rules[0].celPreconditions", Reason::Forbidden)]);
    let twice = json!([sample()["spec"]["rules"][0], sample()["spec"]["rules"][0]]);
    check(&[("/spec/rules", twice)], &[("spec.rules[1].name", Reason::Duplicate)]);
    let other = json!([{"name": "v", "validate": {"anything": 1}, "match": 5}]);
    warns(&[("/spec/rules", other)], "spec.rules", "Writ does nothing with this policy");
}

#[test]
fn matching() {
    let kinds = |kinds: Value| [("/spec/rules/0/match", json!({"resources": {"kinds": kinds}}))];
    check(&kinds(json!(["*"])), &[("spec.rules[0].match.resources.kinds[0]", Reason::Forbidden)]);
    check(&kinds(json!(["ConfigMap"])), &[("spec.rules[0].match.resources.kinds[0]", Reason::Context)]);
    check(&[("/spec/rules/0/match", json!({"any": [{"resources": {"kinds": ["ConfigMap"]}}]}))], &[]);
    let by_user = json!({"any": [{"resources": {"kinds": ["Namespace"]}, "clusterRoles": ["admin"]}]});
    check(&[("/spec/rules/0/match", by_user.clone())], &[("spec.rules[0].match", Reason::Context)]);
    check(&[("/spec/rules/0/match", by_user), ("/spec/background", json!(false))], &[]);
    warns(&kinds(json!(["Namespaec"])), "spec.rules[0].match", "did you mean `Namespace`?");
}

#[test]
fn one_form_per_rule_and_per_loop() {
    let item = json!({"apiVersion": "v1", "kind": "Secret", "name": "s", "namespace": "a"});
    check(&[("/spec/rules/0/generate/dataList", json!([item]))], &[("spec.rules[0].generate", Reason::Xor)]);
    let mut entry = item.clone();
    entry["list"] = json!("request.object.spec.items");
    entry["data"] = json!({});
    let foreach = |entry: &Value| [(GENERATE, json!({"foreach": [entry]}))];
    check(&foreach(&entry), &[]);
    entry["clone"] = json!({"name": "s", "namespace": "a"});
    check(&foreach(&entry), &[("spec.rules[0].generate.foreach[0]", Reason::Xor)]);
    check(
        &[("/spec/rules/0/generate/foreach", json!([{"list": "a"}]))],
        &[
            ("spec.rules[0].generate.data", Reason::Xor),
            ("spec.rules[0].generate.foreach[0].apiVersion", Reason::Required),
            ("spec.rules[0].generate.foreach[0].kind", Reason::Required),
            ("spec.rules[0].generate.foreach[0].name", Reason::Required),
            ("spec.rules[0].generate.foreach[0].list", Reason::Unknown),
        ],
    );
    let list = json!({"list": [{"source": item, "target": {"name": "t", "namespace": "b"}}], "kinds": ["v1/Secret"]});
    check(&[(GENERATE, json!({"cloneList": list}))], &[("spec.rules[0].generate.cloneList.kinds", Reason::Xor)]);
}

#[test]
fn targets_stand_where_their_kind_lives() {
    check(
        &[("/spec/rules/0/generate/namespace", json!(null))],
        &[("spec.rules[0].generate.namespace", Reason::Required)],
    );
    check(
        &[("/spec/rules/0/generate/kind", json!("Namespace"))],
        &[("spec.rules[0].generate.namespace", Reason::Forbidden)],
    );
    check(&[("/spec/rules/0/generate/kind", json!("ConfigMpa"))], &[("spec.rules[0].generate.kind", Reason::Kind)]);
    check(&[("/spec/rules/0/generate/name", json!(null))], &[("spec.rules[0].generate.name", Reason::Required)]);
    let mixed = json!({"namespace": "a", "cloneList": {"namespace": "b", "kinds": ["v1/Secret", "v1/Namespace"]}});
    check(&[(GENERATE, mixed)], &[("spec.rules[0].generate.cloneList.kinds", Reason::Context)]);
    let wild = json!({"namespace": "a", "cloneList": {"namespace": "b", "kinds": ["v1/Secret"], "selector": {"matchLabels": {"a": "*"}}}});
    check(&[(GENERATE, wild)], &[("spec.rules[0].generate.cloneList.selector.matchLabels[\"a\"]", Reason::Format)]);
    let nameless =
        json!({"apiVersion": "v1", "kind": "Secret", "name": "s", "namespace": "a", "clone": {"namespace": "b"}});
    check(&[(GENERATE, nameless)], &[("spec.rules[0].generate.clone.name", Reason::Required)]);
    warns(
        &[("/spec/rules/0/generate/kind", json!("{{ request.object.metadata.labels.kind }}"))],
        "spec.rules[0].generate.kind",
        "variable",
    );
}

#[test]
fn a_policy_stays_in_its_namespace() {
    let base = [
        ("/kind", json!("Policy")),
        ("/metadata/namespace", json!("team")),
        ("/spec/rules/0/match", json!({"any": [{"resources": {"kinds": ["Pod"]}}]})),
    ];
    let with = |changes: &[(&'static str, Value)]| [&base[..], changes].concat();
    check(&with(&[("/spec/rules/0/generate/namespace", json!("team"))]), &[]);
    check(&with(&[]), &[("spec.rules[0].generate.namespace", Reason::Forbidden)]);
    check(
        &with(&[
            ("/spec/rules/0/generate/namespace", json!("team")),
            ("/spec/rules/0/match", json!({"any": [{"resources": {"kinds": ["Node"]}}]})),
        ]),
        &[("spec.rules[0].match.any[0].resources.kinds[0]", Reason::Forbidden)],
    );
    let cluster_scoped = json!({"apiVersion": "v1", "kind": "Namespace", "name": "x"});
    check(&with(&[(GENERATE, cluster_scoped)]), &[("spec.rules[0].generate.namespace", Reason::Forbidden)]);
    let foreign = json!({"apiVersion": "v1", "kind": "Secret", "name": "x", "namespace": "team", "clone": {"name": "s", "namespace": "other"}});
    check(&with(&[(GENERATE, foreign)]), &[("spec.rules[0].generate.clone.namespace", Reason::Forbidden)]);
    let call = |path: &str| {
        with(&[
            ("/spec/rules/0/generate/namespace", json!("team")),
            ("/spec/rules/0/context", json!([{"name": "c", "apiCall": {"urlPath": path}}])),
        ])
    };
    check(&call("/api/v1/namespaces/team/pods"), &[]);
    check(&call("/api/v1/pods"), &[("spec.rules[0].context[0].apiCall.urlPath", Reason::Forbidden)]);
}

#[test]
fn variables() {
    let value = |text: &str| [("/spec/rules/0/generate/data", json!({"data": {"k": text}}))];
    let field = "spec.rules[0].generate.data.data.k";
    check(&value("{{ request.object.metadata.name }}"), &[]);
    check(&value("{{ unknown.x }}"), &[(field, Reason::Unknown)]);
    check(&value("{{ element.x }}"), &[(field, Reason::Context)]);
    check(&value("{{ request.userInfo.username }}"), &[(field, Reason::Context)]);
    check(&value("{{ serviceAccountName }}"), &[(field, Reason::Context)]);
    check(&value("{{ a.[ }}"), &[(field, Reason::Format)]);
    check(&value("$(NOT_ESCAPED)"), &[(field, Reason::Format)]);
    check(&value("\\$(ESCAPED)"), &[]);
    warns(&value("{{ to_string(unknown) }}"), field, "variable `unknown` is not declared");
    check(
        &[("/spec/rules/0/match", json!({"any": [{"resources": {"kinds": ["Pod"], "names": ["{{ x }}"]}}]}))],
        &[("spec.rules[0].match.any[0].resources.names[0]", Reason::Forbidden)],
    );
    check(
        &[("/spec/rules/0/generate/data", json!({"spec": {"=(x)": 1}}))],
        &[("spec.rules[0].generate.data.spec.=(x)", Reason::Forbidden)],
    );
}

#[test]
fn preconditions_and_context() {
    let condition = |condition: Value| [("/spec/rules/0/preconditions", json!({"all": [condition]}))];
    let at = "spec.rules[0].preconditions.all[0]";
    check(&condition(json!({"key": "a", "operator": "Equals", "value": "b"})), &[]);
    check(
        &condition(json!({"key": "a", "operator": "Is", "value": "b"})),
        &[(&format!("{at}.operator"), Reason::Enum)],
    );
    check(
        &condition(json!({"key": "{{ a. }}", "operator": "Equals", "value": "b"})),
        &[(&format!("{at}.key"), Reason::Format)],
    );
    check(
        &condition(json!({"key": "{{ request.operation }}", "operator": "Equals", "value": "BOOT"})),
        &[(&format!("{at}.value"), Reason::Enum)],
    );
    let list = ("/spec/rules/0/preconditions", json!([{"key": "a", "operator": "Equals", "value": "b"}]));
    check(std::slice::from_ref(&list), &[]);
    check(&[list, ("/apiVersion", json!("kyverno.io/v2beta1"))], &[("spec.rules[0].preconditions", Reason::Format)]);

    let entry = |entry: Value| [("/spec/rules/0/context", json!([entry]))];
    let at = "spec.rules[0].context[0]";
    check(&entry(json!({"name": "x", "variable": {"value": 1}})), &[]);
    check(&entry(json!({"variable": {"value": 1}})), &[(&format!("{at}.name"), Reason::Required)]);
    check(&entry(json!({"name": "request", "variable": {"value": 1}})), &[(&format!("{at}.name"), Reason::Forbidden)]);
    check(&entry(json!({"name": "x"})), &[(at, Reason::Xor)]);
    check(&entry(json!({"name": "x", "variable": {"default": 1}})), &[(&format!("{at}.variable"), Reason::AnyOf)]);
    check(
        &entry(json!({"name": "x", "variable": {"jmesPath": "a.["}})),
        &[(&format!("{at}.variable.jmesPath"), Reason::Format)],
    );
    check(
        &entry(json!({"name": "x", "configMap": {"name": "c"}})),
        &[(&format!("{at}.configMap.namespace"), Reason::Required)],
    );
    let data = "/spec/rules/0/generate/data";
    for (expression, expected) in [
        ("c.data.env", None),
        ("c.metadata.name", None),
        ("c.immutable", Some(Reason::Unknown)),
        ("c", Some(Reason::Unknown)),
        // A function may make something of anything.
        ("to_string(c)", None),
    ] {
        let context = json!([{"name": "c", "configMap": {"name": "c", "namespace": "n"}}]);
        let expected = expected.map(|reason| ("spec.rules[0].generate.data.data.x", reason));
        check(
            &[("/spec/rules/0/context", context), (data, json!({"data": {"x": format!("{{{{ {expression} }}}}")}}))],
            expected.as_slice(),
        );
    }
    check(
        &entry(json!({"name": "x", "apiCall": {"urlPath": "/metrics"}})),
        &[(&format!("{at}.apiCall.urlPath"), Reason::Format)],
    );
    check(
        &entry(json!({"name": "x", "apiCall": {"urlPath": "/api/v1/pods", "method": "POST"}})),
        &[(&format!("{at}.apiCall.urlPath"), Reason::Forbidden)],
    );
    check(
        &entry(json!({"name": "x", "apiCall": {"url": "/api/v1/pods"}})),
        &[(&format!("{at}.apiCall.url"), Reason::Unknown), (&format!("{at}.apiCall"), Reason::Xor)],
    );
}

#[test]
fn a_service_is_checked_field_by_field() {
    let field = |rest: &str| format!("spec.rules[0].context[0].apiCall.service{rest}");
    let service = |service: Value| [("/spec/rules/0/context", json!([{"name": "c", "apiCall": {"service": service}}]))];
    let pem = rcgen::generate_simple_self_signed(vec!["a".to_owned()]).expect("a certificate").cert.pem();
    check(&service(json!({"url": "https://a.svc/{{ request.object.metadata.name }}", "caBundle": pem})), &[]);
    check(
        &service(
            json!({"url": "{{ request.object.metadata.name }}", "caBundle": "{{ request.object.metadata.annotations.bundle }}"}),
        ),
        &[],
    );
    check(&service(json!({})), &[(&field(".url"), Reason::Required)]);
    check(&service(json!({"url": "a.svc/x"})), &[(&field(".url"), Reason::Format)]);
    check(&service(json!({"url": "http://169.254.169.254/latest"})), &[(&field(".url"), Reason::Forbidden)]);
    let headers = json!([{"value": "v"}]);
    check(&service(json!({"url": "http://a", "headers": headers})), &[(&field(".headers[0].key"), Reason::Required)]);
    for bundle in ["no PEM", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"] {
        check(&service(json!({"url": "https://a", "caBundle": bundle})), &[(&field(".caBundle"), Reason::Format)]);
    }
}
