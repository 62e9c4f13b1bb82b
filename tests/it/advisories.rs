//! Published advisories of the field, and the tests that fail if Writ had the fault.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use writ::compile;
use writ::core::generate::{Answer, Evaluation, Facts, Fetch, InstallBounds, Policy, Trigger, drive, evaluate};
use writ::telemetry::{Health, Metrics, answer};

/// One advisory, or several with the same cause.
struct Advisory {
    ids: &'static [&'static str],
    fault: &'static str,
    tests: &'static [&'static str],
}

const KYVERNO: &[Advisory] = &[
    Advisory {
        ids: &["CVE-2023-34091"],
        fault: "objects with a deletion timestamp skipped policies",
        tests: &[
            "an_object_that_is_being_deleted_is_matched_like_others",
            "a_policy_that_is_being_deleted_is_checked_like_any_other",
            "a_trigger_that_is_being_deleted_keeps_its_downstream",
        ],
    },
    Advisory {
        ids: &["GHSA-hgv6-w7r3-w4qw"],
        fault: "a weak cipher was offered",
        tests: &["refuses_tls_1_1", "tls_begins_at_1_2"],
    },
    Advisory {
        ids: &["CVE-2023-42813", "CVE-2023-42814", "CVE-2023-42815", "CVE-2023-42816"],
        fault: "a hostile reply of a registry exhausted the memory",
        tests: &["an_answer_over_the_budget_of_the_context_is_not_read", "only_a_good_answer_counts"],
    },
    Advisory {
        ids: &["CVE-2023-47630"],
        fault: "a digest was swapped between check and use",
        tests: &["a_name_may_not_stand_for_any_address", "link_local_addresses_are_refused_by_whatever_name"],
    },
    Advisory {
        ids: &["CVE-2024-48921"],
        fault: "exceptions counted from any namespace",
        tests: &["exceptions_elsewhere_do_not_count_and_bad_ones_are_refused"],
    },
    Advisory {
        ids: &["CVE-2025-29778"],
        fault: "two fields of a matcher were ignored",
        tests: &["every_attribute_is_checked", "attributes_are_tested_and_the_first_failure_is_named"],
    },
    Advisory {
        ids: &["GHSA-459x-q9hg-4gpq"],
        fault: "calls of services reached any URL",
        tests: &["the_way_out_is_shut_unless_named", "a_call_of_a_service_passes_the_operators_list"],
    },
    Advisory {
        ids: &["CVE-2025-46342"],
        fault: "an error while reading namespace labels counted as no match",
        tests: &["an_error_while_reading_namespace_labels_is_an_error"],
    },
    Advisory {
        ids: &["CVE-2025-47281"],
        fault: "an unknown function crashed the controller again and again",
        tests: &["hostile_expressions_end_in_an_error", "a_panic_ends_one_evaluation_and_is_not_repeated"],
    },
    Advisory {
        ids: &["GHSA-gg4x-fgg2-h9w9", "CVE-2026-84200"],
        fault: "of two exceptions the looser one won",
        tests: &["two_exceptions_do_not_add_up_to_a_third"],
    },
    Advisory {
        ids: &["CVE-2026-22039"],
        fault: "the path of a namespaced policy ran with the engine's permissions",
        tests: &[
            "a_policy_of_a_namespace_reads_and_writes_only_there",
            "authors_cannot_do_by_policy_what_they_may_not_do",
            "a_namespaced_policy_reads_nothing_outside",
        ],
    },
    Advisory {
        ids: &["GHSA-fmqp-4wfc-w3v7", "CVE-2026-84199"],
        fault: "a service URL reached metadata addresses and the body was shown",
        tests: &["link_local_addresses_are_refused_by_whatever_name", "secrets_of_a_call_are_not_shown"],
    },
    Advisory {
        ids: &["CVE-2026-41068"],
        fault: "one loader was confined, another was not",
        tests: &["every_way_to_read_passes_the_gate", "a_namespaced_policy_reads_nothing_outside"],
    },
    Advisory {
        ids: &["GHSA-8wfp-579w-6r25", "CVE-2026-40868", "CVE-2026-41323"],
        fault: "the own token went along with any outbound call",
        tests: &["a_projected_token_is_sent_over_tls_unless_the_rule_has_its_own", "a_get_carries_headers_and_no_data"],
    },
    Advisory {
        ids: &["GHSA-qr4g-8hrp-c4rw", "CVE-2026-4789"],
        fault: "a new language had HTTP functions without the old checks",
        tests: &["the_table_is_whole", "every_look_up_is_built_by_the_gate"],
    },
    Advisory {
        ids: &["CVE-2026-23881"],
        fault: "variables that double filled the memory",
        tests: &["variables_that_double", "expressions_that_grow", "text_that_includes_itself"],
    },
    Advisory {
        ids: &["CVE-2026-41485"],
        fault: "a panic in a loop crashed the controller again and again",
        tests: &["a_panic_ends_one_evaluation_and_is_not_repeated"],
    },
    Advisory {
        ids: &["CVE-2026-54523"],
        fault: "a namespaced policy wrote into any namespace",
        tests: &["a_namespaced_policy_stays_at_home", "a_namespaced_policy_writes_nothing_cluster_scoped"],
    },
    Advisory {
        ids: &["CVE-2026-100706"],
        fault: "an encoded `..` passed the check of a path",
        tests: &["what_does_not_parse_is_refused"],
    },
    Advisory {
        ids: &["CVE-2026-122302"],
        fault: "the permissions of the controller were asked for, not those of the author",
        tests: &[
            "an_author_copies_no_secret_that_he_may_not_read",
            "what_a_variable_may_become_is_asked_as_everything",
            "everything_that_a_rule_reads_is_asked_of_its_author",
            "what_is_written_is_asked_of_its_author",
            "no_policy_does_more_than_its_author",
        ],
    },
    Advisory {
        ids: &["CVE-2026-122303", "CVE-2026-122313"],
        fault: "the result of an expression forged the namespace of the target",
        tests: &["the_target_decides_who_it_is", "a_namespaced_policy_writes_nothing_cluster_scoped"],
    },
    Advisory {
        ids: &["CVE-2026-122304"],
        fault: "a loader was built without a policy and so without confinement",
        tests: &["every_look_up_is_built_by_the_gate"],
    },
    Advisory {
        ids: &["CVE-2026-122310"],
        fault: "one path was checked and another one called",
        tests: &["what_does_not_parse_is_refused", "what_parses_is_written_back_the_same"],
    },
    Advisory {
        ids: &["CVE-2026-122311"],
        fault: "a `..` stood inside the name of a resource",
        tests: &["what_does_not_parse_is_refused"],
    },
    Advisory {
        ids: &["CVE-2026-124440"],
        fault: "a malformed escape made the check fall through",
        tests: &["what_does_not_parse_is_refused"],
    },
];

const NEIGHBOURS: &[Advisory] = &[
    Advisory {
        ids: &["CVE-2026-45021"],
        fault: "Kuma: any web page could ask the API of the own machine",
        tests: &["no_web_page_may_read_the_admin_port"],
    },
    Advisory {
        ids: &["CVE-2026-50166", "CVE-2026-52724"],
        fault: "Kuma: without a CA the certificate was not checked",
        tests: &["authorities_are_those_of_the_bundle"],
    },
    Advisory {
        ids: &["CVE-2025-24784", "CVE-2026-29773", "CVE-2026-42541"],
        fault: "Kubewarden: policies of tenants read the cluster through host calls",
        tests: &["what_is_kept_for_rules_the_author_must_be_allowed_to_see", "a_post_only_asks"],
    },
    Advisory {
        ids: &["CVE-2025-24376"],
        fault: "Kubewarden: a namespaced policy could change reports",
        tests: &[
            "own_kinds_are_internal",
            "a_forged_update_request_is_ignored_and_counted_once",
            "an_update_request_that_was_changed_after_it_was_stored_is_ignored",
        ],
    },
    Advisory {
        ids: &["CVE-2026-39350"],
        fault: "Istio: unescaped dots in a generated regular expression widened a match",
        tests: &["names_become_no_regular_expressions"],
    },
    Advisory {
        ids: &["CVE-2026-41413"],
        fault: "Istio: a URL in a policy reached internal services",
        tests: &["the_way_out_is_shut_unless_named"],
    },
    Advisory {
        ids: &["CVE-2023-27483"],
        fault: "Crossplane: an index in a field path filled the memory",
        tests: &["an_index_beyond_the_end_is_refused"],
    },
    Advisory {
        ids: &["CVE-2025-43915"],
        fault: "Linkerd: labels of metrics grew without end",
        tests: &["series_of_rules_that_are_gone_go_too"],
    },
];

/// All sources of the package.
fn sources() -> Vec<(String, String)> {
    fn visit(folder: &Path, found: &mut Vec<(String, String)>) {
        for entry in fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                visit(&path, found);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                found.push((path.display().to_string(), fs::read_to_string(&path).expect("a source")));
            }
        }
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut found = Vec::new();
    for folder in ["src", "tests"] {
        visit(&root.join(folder), &mut found);
    }
    found
}

#[test]
fn every_advisory_has_a_test_that_would_fail() {
    assert_eq!(KYVERNO.len(), 25);
    let sources = sources();
    let exists = |name: &str| {
        let function = format!("fn {name}(");
        sources.iter().any(|(_, text)| text.contains(&function))
    };
    for Advisory { ids, fault, tests } in KYVERNO.iter().chain(NEIGHBOURS) {
        assert!(!tests.is_empty(), "{ids:?}, {fault}: no test");
        for test in *tests {
            assert!(exists(test), "{ids:?}, {fault}: there is no test {test}");
        }
    }
}

/// Requests of rules have private fields, so the compiler keeps them from being made outside of their module; within it, only
/// the gate makes them.
#[test]
fn every_look_up_is_built_by_the_gate() {
    let made = ["ObjectFetch(", "ListFetch {", "ApiFetch {", "ServiceFetch {", "ImageFetch(", "GlobalFetch {"];
    for (file, text) in sources() {
        let declares =
            ["generate/gate.rs", "generate/fetch.rs", "it/advisories.rs"].iter().any(|name| file.ends_with(name));
        for (number, line) in text.lines().enumerate().filter(|(_, line)| !declares && !line.contains(" -> ")) {
            assert!(!made.iter().any(|made| line.contains(made)), "{file}:{}: {line}", number + 1);
        }
    }
}

/// Matchers are written by their authors; none is made of the name of a service or a host, in which a dot would mean any
/// character.
#[test]
fn names_become_no_regular_expressions() {
    for (file, text) in sources() {
        let renders = ["/src/core/envoy/", "/src/core/mesh/"].iter().any(|folder| file.contains(folder));
        assert!(!renders || !text.contains("safe_regex") || text.contains("regex::escape("), "{file}");
    }
}

fn policy(text: &str) -> Policy {
    let document = writ::core::yaml::read_value(text).expect("YAML");
    let (policy, findings) = compile::generate::policy(&document);
    policy.unwrap_or_else(|| panic!("{:?}", findings.errors))
}

fn pod(namespace: &str, name: &str, labels: Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "uid": "u", "labels": labels},
    })
}

fn facts() -> Facts {
    Facts::new(jiff::Timestamp::UNIX_EPOCH, 0, InstallBounds::offline())
}

const POLICY: &str = "
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: p}
spec:
  rules:
  - name: r
    match: {any: [{resources: {kinds: [Pod], namespaceSelector: {matchLabels: {team: a}}}}]}
    generate: {apiVersion: v1, kind: ConfigMap, name: made, namespace: x, data: {}}
";

#[test]
fn an_error_while_reading_namespace_labels_is_an_error() {
    let policy = policy(POLICY);
    let trigger = Trigger::background(pod("a", "web", json!({})));
    let asked = drive(&policy.rules[0], &trigger, &mut facts(), |fetch| {
        assert!(matches!(fetch, Fetch::Object(_)), "{fetch:?}");
        Answer::Failed("the API server is busy".to_owned())
    });
    let error = asked.expect_err("not a rule that does not match").to_string();
    assert!(error.contains("v1 Namespace a could not be read: the API server is busy"), "{error}");
}

#[test]
fn an_object_that_is_being_deleted_is_matched_like_others() {
    let policy = policy(&POLICY.replace(", namespaceSelector: {matchLabels: {team: a}}", ""));
    let mut object = pod("a", "web", json!({}));
    object["metadata"]["deletionTimestamp"] = json!("2024-01-01T00:00:00Z");
    object["metadata"]["finalizers"] = json!(["example.com/wait"]);
    let found = evaluate(&policy.rules[0], &Trigger::background(object), &facts());
    assert!(matches!(found, Ok(Evaluation::Done(_))), "{found:?}");
}

#[test]
fn two_exceptions_do_not_add_up_to_a_third() {
    let exception = |name: &str, resources: Value| {
        let document = json!({
            "apiVersion": "kyverno.io/v2", "kind": "PolicyException", "metadata": {"name": name, "namespace": "team"},
            "spec": {
                "exceptions": [{"policyName": "p", "ruleNames": ["r"]}],
                "match": {"any": [{"resources": resources}]},
            },
        });
        compile::generate::exception(&document).0.expect("an exception")
    };
    // Only web in a, and only b: neither means web in c, nor another Pod of a.
    let strict = exception("strict", json!({"kinds": ["Pod"], "names": ["web"], "namespaces": ["a"]}));
    let other = exception("other", json!({"kinds": ["Pod"], "namespaces": ["b"]}));
    let policy = policy(&POLICY.replace(", namespaceSelector: {matchLabels: {team: a}}", ""));
    let mut rule = writ::core::generate::Rule::clone(&policy.rules[0]);
    rule.exceptions = vec![strict.into(), other.into()];
    for (namespace, name, excepted) in
        [("a", "web", true), ("b", "any", true), ("a", "any", false), ("c", "web", false), ("c", "any", false)]
    {
        let found = evaluate(&rule, &Trigger::background(pod(namespace, name, json!({}))), &facts());
        let is_excepted = matches!(found, Ok(Evaluation::Excepted { .. }));
        assert_eq!(is_excepted, excepted, "{namespace}/{name}: {found:?}");
    }
}

#[test]
fn no_web_page_may_read_the_admin_port() {
    for path in ["/healthz", "/readyz", "/metrics", "/other"] {
        let request = hyper::Request::get(path).header("origin", "https://example.com").body(bytes::Bytes::new());
        let response = answer(&request.expect("a request"), &Health::default(), &Metrics::default());
        let allows = response.headers().keys().any(|name| name.as_str().starts_with("access-control-"));
        assert!(!allows, "{path}: {:?}", response.headers());
    }
}
