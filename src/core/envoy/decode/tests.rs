use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::*;
use crate::core::envoy::schema::Scalar;

const METADATA: &str = "envoy.config.core.v3.Metadata";
const RAW_BUFFER: &str = "envoy.extensions.transport_sockets.raw_buffer.v3.RawBuffer";

#[track_caller]
fn partial(message: MessageType, document: Value) -> (Value, Vec<Note>) {
    match decode(message, &document, Strictness::Partial) {
        Ok(decoded) => (decoded.document.to_value(), decoded.notes),
        Err(error) => panic!("{document}: {error}"),
    }
}

#[track_caller]
fn check(message: MessageType, document: Value, expected: Value) {
    assert_eq!(partial(message, document), (expected, vec![]));
}

#[track_caller]
fn check_cluster(document: Value, expected: Value) {
    check(MessageType::Cluster, document, expected);
}

#[track_caller]
fn check_refused(message: MessageType, document: Value, expected: &str) {
    let error = decode(message, &document, Strictness::Partial).expect_err("malformed").to_string();
    assert_eq!(error, expected);
}

#[track_caller]
fn check_notes(message: MessageType, document: Value, expected: &[&str]) -> Value {
    let (decoded, notes) = partial(message, document);
    let notes: Vec<String> = notes.iter().map(Note::to_string).collect();
    assert_eq!(notes, expected);
    decoded
}

fn typed(url: &str) -> Value {
    json!({"name": "x", "typedConfig": {"@type": url}})
}

#[test]
fn every_message_type_is_in_the_schema() {
    use MessageType::*;
    for message in [Cluster, Listener, RouteConfiguration, VirtualHost, NetworkFilter, HttpFilter] {
        check(message, json!({"name": "x"}), json!({"name": "x"}));
    }
}

#[test]
fn both_spellings_become_camel_case() {
    check_cluster(json!({"connect_timeout": "5s"}), json!({"connectTimeout": "5s"}));
    check_cluster(json!({"connectTimeout": "5s"}), json!({"connectTimeout": "5s"}));
}

#[test]
fn of_two_spellings_camel_case_wins() {
    let noted = ["connect_timeout: ignored, because connectTimeout is set too"];
    let both = json!({"connect_timeout": "1s", "connectTimeout": "2s"});
    assert_eq!(check_notes(MessageType::Cluster, both, &noted), json!({"connectTimeout": "2s"}));
    let null = json!({"connect_timeout": "1s", "connectTimeout": null});
    assert_eq!(check_notes(MessageType::Cluster, null, &noted), json!({}));
}

#[test]
fn unknown_keys_are_ignored_and_noted() {
    let document = json!({"name": "x", "conectTimeout": "5s", "zzz": {"a": [1]}});
    let noted = ["conectTimeout: unknown key, ignored; did you mean connectTimeout?", "zzz: unknown key, ignored"];
    assert_eq!(check_notes(MessageType::Cluster, document, &noted), json!({"name": "x"}));

    let deep = json!({"loadAssignment": {"endpoints": [{"lbEndpoints": [{"endpoints": {}}]}]}});
    let noted = ["loadAssignment.endpoints[0].lbEndpoints[0].endpoints: unknown key, ignored; did you mean endpoint?"];
    check_notes(MessageType::Cluster, deep, &noted);
}

#[test]
fn enums_by_name_or_number() {
    check_cluster(json!({"lbPolicy": "RING_HASH"}), json!({"lbPolicy": "RING_HASH"}));
    check_cluster(json!({"lbPolicy": 2}), json!({"lbPolicy": "RING_HASH"}));
    check_cluster(json!({"lbPolicy": 2.0}), json!({"lbPolicy": "RING_HASH"}));
    check_cluster(json!({"lbPolicy": 99}), json!({"lbPolicy": 99}));
    check_refused(
        MessageType::Cluster,
        json!({"lbPolicy": "ring_hash"}),
        r#"lbPolicy: unknown value "ring_hash"; did you mean RING_HASH?"#,
    );
    check_refused(
        MessageType::Cluster,
        json!({"type": "BIGGEST"}),
        r#"type: unknown value "BIGGEST"; known: STATIC, STRICT_DNS, LOGICAL_DNS, EDS, ORIGINAL_DST"#,
    );
    check_refused(
        MessageType::Cluster,
        json!({"lbPolicy": true}),
        "lbPolicy: true is neither a name nor a number of an enum",
    );
}

#[test]
fn zero_is_absence_unless_the_field_has_presence() {
    check_cluster(json!({"lbPolicy": "ROUND_ROBIN", "name": "", "respectDnsTtl": false, "filters": []}), json!({}));
    check_cluster(json!({"metadata": {"filterMetadata": {}}}), json!({"metadata": {}}));
    check_cluster(json!({"type": "STATIC"}), json!({"type": "STATIC"}));
    check_cluster(json!({"connectTimeout": "0"}), json!({"connectTimeout": "0s"}));
    check_cluster(json!({"perConnectionBufferLimitBytes": 0}), json!({"perConnectionBufferLimitBytes": 0}));
    let address = |port: Value| json!({"address": {"socketAddress": {"address": "::", "portValue": port}}});
    check(MessageType::Listener, address(json!(0)), address(json!(0)));
}

#[test]
fn zeros_stay_in_lists() {
    let document = json!({"lbSubsetConfig": {"subsetSelectors": [{"keys": ["", "a"]}]}});
    check_cluster(document.clone(), document);
    let codes = json!({"healthChecks": [{"httpHealthCheck": {"path": "/", "expectedStatuses": [{}, {"start": "0"}]}}]});
    let canonical = json!({"healthChecks": [{"httpHealthCheck": {"path": "/", "expectedStatuses": [{}, {}]}}]});
    check_cluster(codes, canonical);
}

#[test]
fn durations() {
    for (written, canonical) in [("5s", "5s"), ("100ms", "0.100s"), ("1m30s", "90s"), ("1.5s", "1.500s"), ("0", "0s")] {
        check_cluster(json!({"connectTimeout": written}), json!({"connectTimeout": canonical}));
    }
    for bad in [json!("abc"), json!(5), json!({"seconds": 5}), json!("5"), json!(true)] {
        let error = decode(MessageType::Cluster, &json!({"connectTimeout": bad}), Strictness::Partial).unwrap_err();
        assert_eq!(error.path().to_string(), "connectTimeout", "{bad}");
    }
    check_refused(
        MessageType::Cluster,
        json!({"connectTimeout": "abc"}),
        r#"connectTimeout: "abc" is not a duration; write 5s"#,
    );
}

#[test]
fn null_is_absence() {
    check_cluster(json!({"name": null, "type": null, "filters": null, "metadata": null}), json!({}));
    check_cluster(Value::Null, json!({}));
    check_cluster(
        json!({"lbSubsetConfig": {"subsetSelectors": [null]}}),
        json!({"lbSubsetConfig": {"subsetSelectors": [{}]}}),
    );
}

#[test]
fn in_a_oneof_the_member_declared_last_wins() {
    let document = json!({"type": "EDS", "clusterType": {"name": "x"}});
    let noted = ["type: ignored, because clusterType is set too"];
    assert_eq!(check_notes(MessageType::Cluster, document, &noted), json!({"clusterType": {"name": "x"}}));

    // roundRobin is declared after maglev, which is declared after ringHash.
    let three = json!({"maglevLbConfig": {}, "ringHashLbConfig": {}, "roundRobinLbConfig": {}});
    assert_eq!(partial(MessageType::Cluster, three).0, json!({"roundRobinLbConfig": {}}));
    check_cluster(json!({"type": "EDS", "clusterType": null}), json!({"type": "EDS"}));
}

#[test]
fn a_member_that_loses_must_still_be_well_formed() {
    check_refused(
        MessageType::Cluster,
        json!({"type": "EDS", "clusterType": {"name": 1}}),
        "clusterType.name: 1 is not text; put it in quotes",
    );
}

#[test]
fn wrappers_are_their_value() {
    let document = json!({"perConnectionBufferLimitBytes": "1024", "waitForWarmOnInit": true});
    check_cluster(document, json!({"perConnectionBufferLimitBytes": 1024, "waitForWarmOnInit": true}));
    check_refused(
        MessageType::Cluster,
        json!({"waitForWarmOnInit": {"value": true}}),
        "waitForWarmOnInit: an object is not a boolean; write true or false, without quotes",
    );
}

#[test]
fn structs_hold_anything_with_numbers_as_doubles() {
    let inside = json!({"a": null, "b": [1.0, "x", {"c": true}], "d": 9_007_199_254_740_993_u64});
    let canonical = json!({"a": null, "b": [1, "x", {"c": true}], "d": 9_007_199_254_740_992_u64});
    check_cluster(
        json!({"metadata": {"filter_metadata": {"io.kuma.tags": inside}}}),
        json!({"metadata": {"filterMetadata": {"io.kuma.tags": canonical}}}),
    );
    check_refused(
        MessageType::Cluster,
        json!({"metadata": {"filterMetadata": {"io.kuma.tags": "x"}}}),
        r#"metadata.filterMetadata["io.kuma.tags"]: "x" where an object is wanted"#,
    );
}

#[test]
fn lists_and_objects_are_not_exchangeable() {
    check_refused(MessageType::Cluster, json!({"filters": {}}), "filters: an object where a list is wanted");
    check_refused(MessageType::Cluster, json!({"name": ["x"]}), "name: a list is not text");
    check_refused(
        MessageType::Cluster,
        json!({"metadata": {"filterMetadata": []}}),
        "metadata.filterMetadata: a list where a map is wanted",
    );
    check_refused(MessageType::Cluster, json!("x"), r#""x" where an object is wanted (Cluster)"#);
    check_refused(MessageType::Listener, json!([]), "a list where an object is wanted (Listener)");
    check_refused(MessageType::Listener, json!({"address": 1}), "address: 1 where an object is wanted (Address)");
}

#[test]
fn sixty_four_bits_are_text() {
    let range = |start: Value| json!({"healthChecks": [{"httpHealthCheck": {"expectedStatuses": [{"start": start}]}}]});
    check_cluster(range(json!(200)), range(json!("200")));
    check_cluster(range(json!("200")), range(json!("200")));
}

#[test]
fn bytes_are_base64() {
    let send = |binary: &str| json!({"healthChecks": [{"tcpHealthCheck": {"send": {"binary": binary}}}]});
    check_cluster(send("-_8"), send("+/8="));
    check_refused(
        MessageType::Cluster,
        send("***"),
        r#"healthChecks[0].tcpHealthCheck.send.binary: "***" is not base64 text"#,
    );
}

#[test]
fn an_any_holds_the_fields_of_its_message() {
    let filter = |body: Value| json!({"name": "x", "typedConfig": body});
    let url = "type.googleapis.com/envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy";
    check(
        MessageType::NetworkFilter,
        filter(json!({"@type": url, "stat_prefix": "s", "idle_timeout": "1m", "cluster": ""})),
        filter(json!({"@type": url, "statPrefix": "s", "idleTimeout": "60s", "cluster": ""})),
    );
    check_refused(
        MessageType::NetworkFilter,
        filter(json!({"@type": url, "idleTimeout": 5})),
        "typedConfig.idleTimeout: 5 is not a duration; write 5s",
    );
    check_refused(
        MessageType::NetworkFilter,
        filter(json!({})),
        "typedConfig: has no @type; name the message it holds",
    );
    check_refused(
        MessageType::NetworkFilter,
        filter(json!({"@type": ""})),
        r#"typedConfig.@type: "" is not a type URL"#,
    );
    check_refused(MessageType::NetworkFilter, filter(json!({"@type": 1})), "typedConfig.@type: 1 is not a type URL");
    check_refused(
        MessageType::NetworkFilter,
        filter(json!([])),
        "typedConfig: a list where an object with @type is wanted",
    );
}

#[test]
fn type_urls_may_have_any_host_or_none() {
    let socket = |url: &str| json!({"transportSocket": typed(url)});
    let canonical = format!("type.googleapis.com/{RAW_BUFFER}");
    for url in [RAW_BUFFER.to_owned(), format!("/{RAW_BUFFER}"), canonical.clone()] {
        check_cluster(socket(&url), socket(&canonical));
    }
    let other = format!("example.org/{RAW_BUFFER}");
    check_cluster(socket(&other), socket(&other));
}

#[test]
fn an_unknown_type_is_kept_unread() {
    let filter = json!({"name": "x", "typedConfig": {"@type": "t/no.Such", "some_key": [1.0, null], "u": u64::MAX}});
    let noted = ["typedConfig.@type: unknown type t/no.Such, kept unread"];
    assert_eq!(check_notes(MessageType::HttpFilter, filter.clone(), &noted), filter);
}

#[test]
fn well_known_messages_in_an_any_stand_under_value() {
    let duration = |value: &str| json!({"@type": "t/google.protobuf.Duration", "value": value});
    check(MessageType::NetworkFilter, json!({"typedConfig": duration("1m")}), json!({"typedConfig": duration("60s")}));
    check(
        MessageType::NetworkFilter,
        json!({"typedConfig": {"@type": "t/google.protobuf.Empty"}}),
        json!({"typedConfig": {"@type": "t/google.protobuf.Empty", "value": {}}}),
    );
    check_refused(
        MessageType::NetworkFilter,
        json!({"typedConfig": {"@type": "t/google.protobuf.Duration", "seconds": 1}}),
        "typedConfig: has no value, as google.protobuf.Duration needs it",
    );
}

#[test]
fn typed_struct_is_known() {
    let filter = json!({
        "name": "x",
        "typedConfig": {"@type": "type.googleapis.com/xds.type.v3.TypedStruct", "typeUrl": "t/x", "value": {"a": 1}},
    });
    check(MessageType::HttpFilter, filter.clone(), filter);
}

#[test]
fn a_filter_may_name_its_type_beside_its_configuration() {
    let written = json!({
        "name": "envoy.filters.network.local_ratelimit",
        "typedConfig": "type.googleapis.com/envoy.extensions.filters.network.local_ratelimit.v3.LocalRateLimit",
        "stat_prefix": "limit",
        "tokenBucket": {"maxTokens": 3, "tokensPerFill": 1, "fillInterval": "3s"},
    });
    let meant = json!({
        "name": "envoy.filters.network.local_ratelimit",
        "typedConfig": {
            "@type": "type.googleapis.com/envoy.extensions.filters.network.local_ratelimit.v3.LocalRateLimit",
            "statPrefix": "limit",
            "tokenBucket": {"maxTokens": 3, "tokensPerFill": 1, "fillInterval": "3s"},
        },
    });
    check(MessageType::NetworkFilter, written, meant);
    check_refused(
        MessageType::NetworkFilter,
        json!({"typed_config": "t/envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy", "idleTimeout": 1}),
        "idleTimeout: 1 is not a duration; write 5s",
    );
    check_refused(
        MessageType::HttpFilter,
        json!({"typedConfig": ""}),
        "typedConfig: is empty; write the type URL of the configuration",
    );
    check_refused(
        MessageType::HttpFilter,
        json!({"typedConfig": "/", "type": null}),
        "typedConfig: \"/\" is not a type URL",
    );
}

#[test]
fn the_types_of_old_versions_are_kept_unread() {
    let url = "type.googleapis.com/envoy.config.filter.http.jwt_authn.v2alpha.JwtProvider";
    let written = json!({
        "name": "envoy.filters.http.jwt_authn",
        "typedConfig": url,
        "isOptional": true,
        "issuer": "https://example.com",
        "remote_jwks": {"cache_duration": {"seconds": 300}},
    });
    let meant = json!({
        "name": "envoy.filters.http.jwt_authn",
        "isOptional": true,
        "typedConfig": {
            "@type": url,
            "issuer": "https://example.com",
            "remote_jwks": {"cache_duration": {"seconds": 300}},
        },
    });
    let noted = [format!("@type: unknown type {url}, kept unread")];
    assert_eq!(check_notes(MessageType::HttpFilter, written, &[&noted[0]]), meant);
}

#[test]
fn maps_with_numbers_for_keys() {
    let message = Schema::get()
        .messages()
        .find(|message| message.fields.iter().any(|field| field.label == Label::Map(Scalar::Uint32)))
        .expect("a message with such a map");
    let field = message.fields.iter().find(|field| matches!(field.label, Label::Map(_))).expect("the map");
    let error = decode_as(message.name, &json!({field.json: {"-1": {}}}), Strictness::Partial).unwrap().unwrap_err();
    assert_eq!(error.to_string(), format!(r#"{}["-1"]: -1 is outside 0 to 4294967295"#, field.json));
}

#[test]
fn guesses_at_unknown_keys_are_bounded() {
    let document: Map<String, Value> = (0..100).map(|index| (format!("name{index}"), Value::Null)).collect();
    let notes = partial(MessageType::Cluster, document.into()).1;
    let guessed = |note: &&Note| note.remark == Remark::UnknownKey { nearest: Some("name") };
    assert_eq!((notes.len(), notes.iter().filter(guessed).count()), (100, MOST_GUESSES));
}

#[test]
fn depth_is_bounded() {
    let nested = |levels: usize| (0..levels).fold(json!({}), |inner, _| json!({"a": inner}));
    let document = |levels| json!({"filterMetadata": {"x": nested(levels)}});
    assert!(decode_as(METADATA, &document(100), Strictness::Whole).unwrap().is_ok());
    let error = decode_as(METADATA, &document(200), Strictness::Whole).unwrap().unwrap_err();
    assert!(error.to_string().ends_with("nested deeper than 128 levels"), "{error}");

    let opaque = json!({"typedConfig": {"@type": "t/no.Such", "x": nested(200)}});
    assert!(decode(MessageType::HttpFilter, &opaque, Strictness::Partial).is_err());
    let and_rules = (0..200).fold(json!({"any": true}), |inner, _| json!({"notRule": inner}));
    assert!(decode_as("envoy.config.rbac.v3.Permission", &and_rules, Strictness::Whole).unwrap().is_err());
}

/// Keys and values that lead deep into real messages, beside arbitrary ones.
fn documents() -> impl Strategy<Value = Value> {
    let key = prop_oneof![
        4 => prop::sample::select(vec![
            "name", "type", "clusterType", "cluster_type", "connectTimeout", "connect_timeout", "loadAssignment",
            "endpoints", "lbEndpoints", "endpoint", "address", "socketAddress", "portValue", "filters", "filterChains",
            "typedConfig", "typed_config", "@type", "value", "metadata", "filterMetadata", "virtualHosts", "domains",
            "routes", "match", "route", "prefix", "cluster", "weight", "lbPolicy", "healthChecks", "expectedStatuses",
            "start", "transportSocket", "perConnectionBufferLimitBytes", "httpFilters", "typedExtensionProtocolOptions",
        ]).prop_map(str::to_owned),
        1 => "[a-z_]{0,8}",
    ];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (0..5_i64).prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        ".{0,12}".prop_map(Value::from),
        "[0-9]{0,4}(\\.[0-9]{0,3})?(s|ms|h|m)?".prop_map(Value::from),
        prop::sample::select(vec![
            "STATIC",
            "EDS",
            "RING_HASH",
            "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
            "envoy.config.cluster.v3.Cluster",
            "t/google.protobuf.Duration",
            "t/google.protobuf.Struct",
            "t/google.protobuf.Any",
            "t/no.Such",
        ])
        .prop_map(Value::from),
    ];
    leaf.prop_recursive(6, 48, 5, move |inner| {
        prop_oneof![
            1 => prop::collection::vec(inner.clone(), 0..4).prop_map(Value::Array),
            3 => prop::collection::btree_map(key.clone(), inner, 0..6)
                .prop_map(|entries| Value::Object(entries.into_iter().collect())),
        ]
    })
}

proptest! {
    /// No document panics; what decodes is canonical, so it decodes to itself, without a note about a key.
    #[test]
    fn canonical_values_decode_to_themselves(document in documents()) {
        use MessageType::*;
        for message in [Cluster, Listener, RouteConfiguration, VirtualHost, NetworkFilter, HttpFilter] {
            for strictness in [Strictness::Whole, Strictness::Partial] {
                let Ok(first) = decode(message, &document, strictness) else { continue };
                let first = first.document.to_value();
                let again = decode(message, &first, strictness);
                let again = again.map_err(|error| TestCaseError::fail(format!("{first}: {error}")))?;
                prop_assert_eq!(&again.document.to_value(), &first);
                let opaque = |note: &Note| matches!(note.remark, Remark::OpaqueType { .. });
                prop_assert!(again.notes.iter().all(opaque), "{:?}", again.notes);
            }
        }
    }

    /// The same with each field of each message in its turn.
    #[test]
    fn every_field_takes_or_refuses_any_value(seed in any::<prop::sample::Index>(), value in documents()) {
        let messages: Vec<&Message> = Schema::get().messages().filter(|message| !message.fields.is_empty()).collect();
        let message = seed.get(&messages);
        for field in &message.fields {
            let document = json!({field.json: value});
            if let Some(Ok(first)) = decode_as(message.name, &document, Strictness::Partial) {
                let first = first.document.to_value();
                let again = decode_as(message.name, &first, Strictness::Whole).expect("the message is known");
                if let Ok(again) = again {
                    prop_assert_eq!(again.document.to_value(), first);
                }
            }
        }
    }
}
