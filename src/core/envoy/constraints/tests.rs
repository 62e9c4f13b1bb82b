use serde_json::{Value, json};

use super::*;
use crate::core::envoy::{MessageType, Strictness, decode, decode_as};
use crate::core::json::Document;

#[track_caller]
fn check(name: &str, document: Value, expected: Option<&str>) {
    let result = decode_as(name, &document, Strictness::Whole).expect("a known message");
    assert_eq!(result.err().map(|error| error.to_string()).as_deref(), expected, "{name} {document}");
    assert!(decode_as(name, &document, Strictness::Partial).is_some_and(|partial| partial.is_ok()));
}

#[track_caller]
fn check_cluster(document: Value, expected: Option<&str>) {
    check("envoy.config.cluster.v3.Cluster", document, expected);
}

#[test]
fn names_may_not_be_empty() {
    check_cluster(json!({}), Some("name: may not be empty"));
    check_cluster(json!({"name": "x"}), None);
}

#[test]
fn durations_have_bounds() {
    check_cluster(
        json!({"name": "x", "connectTimeout": "0s"}),
        Some(r#"connectTimeout: is "0s" and must be greater than 0s"#),
    );
    check_cluster(
        json!({"name": "x", "dnsRefreshRate": "1ms"}),
        Some(r#"dnsRefreshRate: is "0.001s" and must be greater than 0.001s"#),
    );
    check_cluster(json!({"name": "x", "dnsJitter": "0s", "connectTimeout": "1ns"}), None);
}

#[test]
fn enums_are_defined() {
    check_cluster(json!({"name": "x", "lbPolicy": 99}), Some("lbPolicy: 99 is no value of this enum"));
    check_cluster(json!({"name": "x", "type": 99}), Some("type: 99 is no value of this enum"));
    check_cluster(json!({"name": "x", "protocolSelection": 99}), None);
}

#[test]
fn rules_reach_through_messages() {
    let endpoint = |address: Value| {
        json!({"name": "x", "loadAssignment": {
            "clusterName": "x",
            "endpoints": [{"lbEndpoints": [{"endpoint": {"address": {"socketAddress": address}}}]}],
        }})
    };
    let at = "loadAssignment.endpoints[0].lbEndpoints[0].endpoint.address.socketAddress";
    check_cluster(endpoint(json!({"address": "::", "portValue": 65535})), None);
    let expected = format!("{at}.portValue: is 65536 and must be at most 65535");
    check_cluster(endpoint(json!({"address": "::", "portValue": 65536})), Some(&expected));
    let expected = format!("{at}.address: may not be empty");
    check_cluster(endpoint(json!({"portValue": 1})), Some(&expected));
    let expected = format!("{at}: needs one of portValue, namedPort (port_specifier)");
    check_cluster(endpoint(json!({"address": "::"})), Some(&expected));
}

#[test]
fn rules_do_not_reach_into_an_any() {
    let proxy = "type.googleapis.com/envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy";
    let filter = json!({"name": "x", "typedConfig": {"@type": proxy}});
    assert!(decode(MessageType::NetworkFilter, &filter, Strictness::Whole).is_ok());
    let unnamed = json!({"typedConfig": {"@type": proxy}});
    let error = decode(MessageType::NetworkFilter, &unnamed, Strictness::Whole).unwrap_err();
    assert_eq!(error.to_string(), "name: may not be empty");
    check(
        "envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy",
        json!({"statPrefix": "s"}),
        Some("needs one of cluster, weightedClusters (cluster_specifier)"),
    );
}

#[test]
fn lists_have_sizes_and_elements() {
    let host = "envoy.config.route.v3.VirtualHost";
    check(host, json!({"name": "x"}), Some("domains: may not be empty"));
    check(
        host,
        json!({"name": "x", "domains": ["a\nb"]}),
        Some(r#"domains[0]: "a\nb" is not a header value; control characters are not permitted"#),
    );
    check(
        "envoy.config.cluster.v3.Cluster",
        json!({"name": "x", "healthChecks": vec![json!({}); 9]}),
        Some("healthChecks: has 9 entries and may have at most 8"),
    );
}

#[test]
fn required_messages_are_present() {
    let check_health =
        |document: Value, expected: Option<&str>| check("envoy.config.core.v3.HealthCheck", document, expected);
    check_health(json!({}), Some("timeout: is required"));
    check_health(json!({"timeout": "0s"}), Some(r#"timeout: is "0s" and must be greater than 0s"#));
    let health = json!({
        "timeout": "1s", "interval": "1s", "unhealthyThreshold": 1, "healthyThreshold": 1,
        "tcpHealthCheck": {},
    });
    check_health(health, None);
}

#[test]
fn wrappers_are_held_to_the_rules_of_their_value() {
    let chance = "envoy.config.core.v3.CidrRange";
    check(chance, json!({"addressPrefix": "::", "prefixLen": 129}), Some("prefixLen: is 129 and must be at most 128"));
    check(chance, json!({"addressPrefix": "::", "prefixLen": 128}), None);
    check(chance, json!({"addressPrefix": "::"}), None);
}

#[test]
fn a_constant_holds_only_where_it_is_chosen() {
    let principal = "envoy.config.rbac.v3.Principal";
    check(principal, json!({"any": true}), None);
    check(principal, json!({"any": false}), Some("any: is false and must be true"));
    check(principal, json!({"header": {"name": "x", "presentMatch": true}}), None);
}

#[test]
fn header_grammars() {
    for (text, strict, loose) in [
        ("x-a", true, true),
        (":path", true, true),
        (":", false, true),
        ("", false, true),
        ("a b", false, true),
        ("é", false, true),
        ("a\rb", false, false),
    ] {
        assert_eq!(is_header_name(text, Grammar::Strict), strict, "{text:?}");
        assert_eq!(is_header_name(text, Grammar::Loose), loose, "{text:?}");
    }
    for (text, strict, loose) in [
        ("", true, true),
        ("a\tb é", true, true),
        ("a\u{7f}", false, true),
        ("a\nb", false, false),
        ("\0", false, false),
    ] {
        assert_eq!(is_header_value(text, Grammar::Strict), strict, "{text:?}");
        assert_eq!(is_header_value(text, Grammar::Loose), loose, "{text:?}");
    }
}

#[test]
fn patterns_prefixes_and_choices() {
    let path = "envoy.config.route.v3.RouteMatch";
    check(path, json!({"pathSeparatedPrefix": "/a"}), None);
    check(
        path,
        json!({"pathSeparatedPrefix": "/a/"}),
        Some(r#"pathSeparatedPrefix: "/a/" does not match ^[^?#]+[^?#/]$"#),
    );
    check(
        path,
        json!({}),
        Some(
            "needs one of prefix, path, safeRegex, connectMatcher, pathSeparatedPrefix, pathMatchPolicy (path_specifier)",
        ),
    );

    let method = |method: &str| {
        json!({"timeout": "1s", "interval": "1s", "unhealthyThreshold": 1, "healthyThreshold": 1,
        "httpHealthCheck": {"path": "/", "method": method}})
    };
    check(
        "envoy.config.core.v3.HealthCheck",
        method("CONNECT"),
        Some(r#"httpHealthCheck.method: "CONNECT" is not permitted"#),
    );
    check("envoy.config.core.v3.HealthCheck", method("GET"), None);
}

#[test]
fn ignored_when_empty() {
    let name = "envoy.config.core.v3.HeaderValueOption";
    let field = Schema::get().messages().flat_map(|message| message.fields.iter().map(move |field| (message, field)));
    let prefixed = field
        .filter(|(_, field)| ignores_empty(&field.rules))
        .find(|(_, field)| field.rules.iter().any(|rule| matches!(rule, Rule::Prefix(_))));
    let (_, field) = prefixed.expect("a field with such rules");
    let place = Place::Field(&Place::Root, field.json);
    assert!(check_field(field, None, &place).is_ok());
    assert!(check_field(field, Some(Document::from(&json!("%A%")).root()), &place).is_ok());
    assert!(check_field(field, Some(Document::from(&json!("A%")).root()), &place).is_err());
    check(name, json!({}), Some("header: is required"));
}
