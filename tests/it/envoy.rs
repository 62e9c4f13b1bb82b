//! What the engine says of an Envoy document, against what a real Envoy says of it.
//!
//! Envoy comes from `tests/envoy/install`; WRIT_ENVOY names another binary, WRIT_SKIP_ENVOY=1 does without.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

use serde_json::{Value, json};
use writ::core::envoy::{DecodeError, MessageType, Strictness, decode};

use MessageType::{Cluster, HttpFilter, Listener, NetworkFilter, RouteConfiguration, VirtualHost};

const HCM: &str =
    "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager";

type Case = (&'static str, MessageType, Value);

#[test]
fn envoy_takes_what_is_accepted() {
    let Some(envoy) = find_envoy() else { return };
    side_by_side(&accepted(), |(name, message, document)| {
        let decoded = decode(*message, document, Strictness::Whole).map_err(|error| format!("{name}: {error}"))?;
        if !decoded.notes.is_empty() {
            return Err(format!("{name}: {:?}", decoded.notes));
        }
        validate(&envoy, *message, &decoded.document.to_value())
            .map_err(|refusal| format!("{name}: Envoy refuses it: {refusal}"))
    });
}

#[test]
fn envoy_refuses_what_is_refused() {
    let Some(envoy) = find_envoy() else { return };
    side_by_side(&refused(), |(name, message, document)| {
        if decode(*message, document, Strictness::Whole).is_ok() {
            return Err(format!("{name}: accepted"));
        }
        match validate(&envoy, *message, document) {
            Ok(()) => Err(format!("{name}: Envoy accepts it")),
            Err(_) => Ok(()),
        }
    });
}

/// The refused documents are near misses: it is the one fault that makes them bad.
#[test]
fn a_part_only_has_to_decode() {
    let broken = refused().into_iter().filter(|(name, message, document)| {
        let whole = decode(*message, document, Strictness::Whole).expect_err(name);
        let partial = decode(*message, document, Strictness::Partial);
        assert_eq!(matches!(whole, DecodeError::Constraint { .. }), partial.is_ok(), "{name}: {whole}");
        partial.is_ok()
    });
    assert!(broken.count() >= 8);
}

#[test]
fn the_schema_is_that_of_the_binary() {
    let Some(envoy) = find_envoy() else { return };
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let written = Command::new(root.join("tests/envoy/schema")).arg(&envoy).output().expect("python3 runs the program");
    assert!(written.status.success(), "{}", String::from_utf8_lossy(&written.stderr));
    let committed = std::fs::read(root.join("src/core/envoy/schema.txt")).expect("the schema is there");
    assert!(
        written.stdout == committed,
        "src/core/envoy/schema.txt is not what {} contains; write it anew: tests/envoy/schema > src/core/envoy/schema.txt",
        envoy.display()
    );
}

fn find_envoy() -> Option<PathBuf> {
    // As the Makefile has it, which then fetches none.
    if std::env::var_os("WRIT_SKIP_ENVOY").is_some_and(|skip| !skip.is_empty()) {
        let thread = std::thread::current();
        let line = format!("\nSKIPPED {}: WRIT_SKIP_ENVOY is set\n", thread.name().unwrap_or("a test"));
        // In one piece and past the capture of the harness: a skipped test must not look like one that passed.
        let _ = std::io::stderr().write_all(line.as_bytes());
        return None;
    }
    let cached = || {
        let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
        let cache = cache.or_else(|| std::env::home_dir().map(|home| home.join(".cache")));
        cache.unwrap_or_default().join("writ/envoy-1.40.0/envoy/_bin/envoy")
    };
    let envoy = std::env::var_os("WRIT_ENVOY").map_or_else(cached, PathBuf::from);
    assert!(
        envoy.is_file(),
        "no Envoy at {}: run tests/envoy/install, or set WRIT_ENVOY to a binary, or WRIT_SKIP_ENVOY=1 to do without",
        envoy.display()
    );
    Some(envoy)
}

/// Runs all cases, a few at a time, and fails with all that went wrong.
fn side_by_side(cases: &[Case], check: impl Fn(&Case) -> Result<(), String> + Sync) {
    let queue = Mutex::new(cases.iter());
    let failures = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                loop {
                    let next = queue.lock().expect("no check panics while it holds the queue").next();
                    let Some(case) = next else { break };
                    if let Err(failure) = check(case) {
                        failures.lock().expect("nor while it holds the failures").push(failure);
                    }
                }
            });
        }
    });
    let failures = failures.into_inner().expect("all threads are done");
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// Fails unless Envoy takes a bootstrap.
#[track_caller]
pub(crate) fn takes_bootstrap(bootstrap: &Value) {
    let Some(envoy) = find_envoy() else { return };
    if let Err(refusal) = ask(&envoy, bootstrap) {
        panic!("Envoy refuses {bootstrap}: {refusal}");
    }
}

/// Asks Envoy about a document in a bootstrap of its own.
fn validate(envoy: &Path, message: MessageType, document: &Value) -> Result<(), String> {
    ask(envoy, &bootstrap(message, document))
}

fn ask(envoy: &Path, bootstrap: &Value) -> Result<(), String> {
    let output = Command::new(envoy)
        .args(["--mode", "validate", "--disable-hot-restart", "--log-level", "error", "--config-yaml"])
        .arg(bootstrap.to_string())
        .output()
        .map_err(|error| error.to_string())?;
    if output.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&output.stderr).into_owned()) }
}

fn bootstrap(message: MessageType, document: &Value) -> Value {
    let backend = json!({"name": "backend", "type": "STATIC", "connectTimeout": "1s"});
    let router = json!({
        "name": "envoy.filters.http.router",
        "typedConfig": {"@type": "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router"},
    });
    let hcm = |filters: Vec<Value>, routes: Value| {
        listener(&json!({
            "name": "envoy.filters.network.http_connection_manager",
            "typedConfig": {"@type": HCM, "statPrefix": "s", "httpFilters": filters, "routeConfig": routes},
        }))
    };
    let (clusters, listeners) = match message {
        Cluster => (vec![document.clone()], vec![]),
        Listener => (vec![backend], vec![document.clone()]),
        NetworkFilter => (vec![backend], vec![listener(document)]),
        HttpFilter => (vec![backend], vec![hcm(vec![document.clone(), router], json!({}))]),
        RouteConfiguration => (vec![backend], vec![hcm(vec![router], document.clone())]),
        VirtualHost => (vec![backend], vec![hcm(vec![router], json!({"virtualHosts": [document]}))]),
    };
    json!({"staticResources": {"clusters": clusters, "listeners": listeners}})
}

fn listener(filter: &Value) -> Value {
    json!({"name": "l", "address": socket("127.0.0.1", 0), "filterChains": [{"filters": [filter]}]})
}

fn socket(address: &str, port: u32) -> Value {
    json!({"socketAddress": {"address": address, "portValue": port}})
}

fn accepted() -> Vec<Case> {
    vec![
        (
            "a static cluster",
            Cluster,
            json!({
                "connectTimeout": "5s",
                "name": "localhost:9901",
                "loadAssignment": {
                    "clusterName": "localhost:9901",
                    "endpoints": [{"lbEndpoints": [{"endpoint": {"address": socket("127.0.0.1", 9901)}}]}],
                },
                "type": "STATIC",
            }),
        ),
        (
            "lenient spellings",
            Cluster,
            json!({
                "name": "x",
                "type": 0,
                "connect_timeout": "1m30s",
                "lbPolicy": "ROUND_ROBIN",
                "per_connection_buffer_limit_bytes": "1024",
                "max_requests_per_connection": 1e3,
                "respectDnsTtl": null,
                "metadata": {"filter_metadata": {"io.kuma.tags": {"kuma.io/service": "backend", "weight": 7.0}}},
            }),
        ),
        (
            "checks, breakers and outliers",
            Cluster,
            json!({
                "name": "x",
                "type": "STRICT_DNS",
                "connectTimeout": "250ms",
                "dnsLookupFamily": "V4_ONLY",
                "healthChecks": [{
                    "timeout": "100ms",
                    "interval": "1s",
                    "unhealthyThreshold": 3,
                    "healthyThreshold": 1,
                    "httpHealthCheck": {"path": "/ready", "expectedStatuses": [{"start": 200, "end": "300"}]},
                }],
                "circuitBreakers": {"thresholds": [{"priority": "HIGH", "maxConnections": 10, "trackRemaining": true}]},
                "outlierDetection": {"consecutive5xx": 5, "interval": "10s", "maxEjectionPercent": 50},
            }),
        ),
        (
            "TLS and HTTP/2 upstream, types without a host",
            Cluster,
            json!({
                "name": "x",
                "type": "LOGICAL_DNS",
                "connectTimeout": "1s",
                "loadAssignment": {
                    "clusterName": "x",
                    "endpoints": [{"lbEndpoints": [{"endpoint": {"address": socket("example.com", 443)}}]}],
                },
                "transportSocket": {
                    "name": "envoy.transport_sockets.tls",
                    "typedConfig": {
                        "@type": "envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext",
                        "sni": "example.com",
                    },
                },
                "typedExtensionProtocolOptions": {
                    "envoy.extensions.upstreams.http.v3.HttpProtocolOptions": {
                        "@type": "/envoy.extensions.upstreams.http.v3.HttpProtocolOptions",
                        "commonHttpProtocolOptions": {"idleTimeout": "1h"},
                        "explicitHttpConfig": {"http2ProtocolOptions": {"maxConcurrentStreams": 100}},
                    },
                },
            }),
        ),
        (
            "the last member of a oneof",
            Cluster,
            json!({
                "name": "x",
                "type": "STATIC",
                "connectTimeout": "1s",
                "lbPolicy": "LEAST_REQUEST",
                "leastRequestLbConfig": {"choiceCount": 3},
                "commonLbConfig": {"healthyPanicThreshold": {"value": 0.5}, "updateMergeWindow": "0"},
            }),
        ),
        (
            "a listener with HTTP",
            Listener,
            json!({
                "name": "inbound:127.0.0.1:8080",
                "address": socket("127.0.0.1", 8080),
                "trafficDirection": "INBOUND",
                "filterChains": [{"filters": [{
                    "name": "envoy.filters.network.http_connection_manager",
                    "typedConfig": {
                        "@type": HCM,
                        "statPrefix": "inbound",
                        "codecType": "AUTO",
                        "streamIdleTimeout": "1m",
                        "httpFilters": [{
                            "name": "envoy.filters.http.router",
                            "typedConfig": {"@type": "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router"},
                        }],
                        "routeConfig": {
                            "name": "inbound",
                            "virtualHosts": [{
                                "name": "all",
                                "domains": ["*"],
                                "routes": [{"match": {"prefix": "/"}, "route": {"cluster": "backend", "timeout": "0s"}}],
                            }],
                        },
                    },
                }]}],
            }),
        ),
        (
            "a listener with TCP",
            Listener,
            json!({
                "name": "tcp",
                "address": {"socketAddress": {"protocol": "TCP", "address": "::1", "portValue": 1}},
                "listenerFilters": [{
                    "name": "envoy.filters.listener.tls_inspector",
                    "typedConfig": {
                        "@type": "type.googleapis.com/envoy.extensions.filters.listener.tls_inspector.v3.TlsInspector",
                    },
                }],
                "filterChains": [{
                    "filterChainMatch": {"serverNames": ["a.example"], "prefixRanges": [{"addressPrefix": "::1", "prefixLen": 128}]},
                    "filters": [{
                        "name": "envoy.filters.network.tcp_proxy",
                        "typedConfig": {
                            "@type": "type.googleapis.com/envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy",
                            "statPrefix": "tcp",
                            "weightedClusters": {"clusters": [{"name": "backend", "weight": 1}]},
                            "maxConnectAttempts": 3,
                        },
                    }],
                }],
            }),
        ),
        (
            "a virtual host",
            VirtualHost,
            json!({
                "name": "backend",
                "domains": ["backend.mesh", "*.example.com"],
                "requireTls": "NONE",
                "routes": [
                    {
                        "match": {
                            "safeRegex": {"regex": "/v[0-9]+/.*"},
                            "headers": [{"name": "x-debug", "stringMatch": {"exact": "1"}, "invertMatch": true}],
                            "queryParameters": [{"name": "q", "presentMatch": true}],
                        },
                        "route": {
                            "weightedClusters": {"clusters": [{"name": "backend", "weight": 100}]},
                            "timeout": "1m30s",
                            "retryPolicy": {"retryOn": "5xx", "numRetries": 3, "retryBackOff": {"baseInterval": "25ms"}},
                        },
                        "requestHeadersToAdd": [
                            {"header": {"key": "x-mesh", "value": "default"}, "appendAction": "OVERWRITE_IF_EXISTS_OR_ADD"},
                        ],
                    },
                    {"match": {"pathSeparatedPrefix": "/old"}, "redirect": {"pathRedirect": "/new", "responseCode": "FOUND"}},
                ],
            }),
        ),
        (
            "a route configuration",
            RouteConfiguration,
            json!({
                "name": "outbound",
                "virtual_hosts": [{
                    "name": "v",
                    "domains": ["*"],
                    "routes": [{
                        "match": {"path": "/", "runtimeFraction": {"defaultValue": {"numerator": 1, "denominator": "MILLION"}}},
                        "directResponse": {"status": 503, "body": {"inlineString": "later"}},
                    }],
                }],
                "requestHeadersToRemove": ["x-kuma-tags"],
                "validateClusters": false,
            }),
        ),
        (
            "JWT",
            HttpFilter,
            json!({
                "name": "envoy.filters.http.jwt_authn",
                "typedConfig": {
                    "@type": "type.googleapis.com/envoy.extensions.filters.http.jwt_authn.v3.JwtAuthentication",
                    "providers": {
                        "example": {
                            "issuer": "https://example.com",
                            "audiences": ["a", "b"],
                            "remoteJwks": {
                                "httpUri": {"uri": "https://example.com/jwks.json", "cluster": "backend", "timeout": "5s"},
                                "cacheDuration": "5m",
                            },
                        },
                    },
                    "rules": [{"match": {"prefix": "/"}, "requires": {"providerName": "example"}}],
                },
            }),
        ),
        (
            "rate limit of requests",
            HttpFilter,
            json!({
                "name": "envoy.filters.http.local_ratelimit",
                "typedConfig": {
                    "@type": "type.googleapis.com/envoy.extensions.filters.http.local_ratelimit.v3.LocalRateLimit",
                    "statPrefix": "limit",
                    "tokenBucket": {"maxTokens": 3, "tokensPerFill": 1, "fillInterval": "100ms"},
                    "filterEnabled": {"defaultValue": {"numerator": 100, "denominator": 0}},
                },
            }),
        ),
        (
            "access rules",
            HttpFilter,
            json!({
                "name": "envoy.filters.http.rbac",
                "typedConfig": {
                    "@type": "type.googleapis.com/envoy.extensions.filters.http.rbac.v3.RBAC",
                    "rules": {
                        "action": "DENY",
                        "policies": {"p": {
                            "permissions": [{"andRules": {"rules": [{"destinationPort": 80}, {"notRule": {"any": true}}]}}],
                            "principals": [{"directRemoteIp": {"addressPrefix": "10.0.0.0", "prefixLen": 8}}],
                        }},
                    },
                },
            }),
        ),
        (
            "a type beside its configuration",
            NetworkFilter,
            json!({
                "name": "envoy.filters.network.tcp_proxy",
                "typedConfig": "type.googleapis.com/envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy",
                "stat_prefix": "s",
                "cluster": "backend",
                "idleTimeout": "1h",
            }),
        ),
        (
            "untyped configuration",
            NetworkFilter,
            json!({
                "name": "envoy.filters.network.tcp_proxy",
                "typedConfig": {
                    "@type": "type.googleapis.com/xds.type.v3.TypedStruct",
                    "typeUrl": "type.googleapis.com/envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy",
                    "value": {"stat_prefix": "s", "cluster": "backend"},
                },
            }),
        ),
    ]
}

fn refused() -> Vec<Case> {
    let cluster = |more: Value| {
        let mut cluster = json!({"name": "x", "type": "STATIC", "connectTimeout": "1s"});
        for (key, value) in more.as_object().expect("an object") {
            cluster[key] = value.clone();
        }
        cluster
    };
    let endpoint = |address: Value| {
        let endpoints = json!([{"lbEndpoints": [{"endpoint": {"address": address}}]}]);
        cluster(json!({"loadAssignment": {"clusterName": "x", "endpoints": endpoints}}))
    };
    let host = |routes: Value| json!({"name": "x", "domains": ["*"], "routes": routes});
    vec![
        ("no name", Cluster, json!({"type": "STATIC"})),
        ("no duration", Cluster, cluster(json!({"connectTimeout": "abc"}))),
        ("a duration without a unit", Cluster, cluster(json!({"connectTimeout": 5}))),
        ("a duration of zero", Cluster, cluster(json!({"connectTimeout": "0s"}))),
        ("an enum number nobody declared", Cluster, cluster(json!({"lbPolicy": 99}))),
        ("an enum name nobody declared", Cluster, cluster(json!({"type": "BIGGEST"}))),
        ("a negative size", Cluster, cluster(json!({"perConnectionBufferLimitBytes": -1}))),
        ("half a byte", Cluster, cluster(json!({"perConnectionBufferLimitBytes": 0.5}))),
        ("a size as a fraction in text", Cluster, cluster(json!({"perConnectionBufferLimitBytes": "1.5"}))),
        ("a list as text", Cluster, cluster(json!({"name": ["x"]}))),
        ("an object as a list", Cluster, cluster(json!({"filters": {}}))),
        ("text as an object", Cluster, cluster(json!({"metadata": "x"}))),
        ("a port too high", Cluster, endpoint(socket("127.0.0.1", 65536))),
        ("an address without a port", Cluster, endpoint(json!({"socketAddress": {"address": "127.0.0.1"}}))),
        ("an address of no kind", Cluster, endpoint(json!({}))),
        ("a health check without a timeout", Cluster, cluster(json!({"healthChecks": [{"tcpHealthCheck": {}}]}))),
        ("a virtual host without domains", VirtualHost, json!({"name": "x"})),
        ("a domain of two lines", VirtualHost, json!({"name": "x", "domains": ["a\nb"]})),
        ("a route without a match", VirtualHost, host(json!([{"route": {"cluster": "backend"}}]))),
        ("a match of nothing", VirtualHost, host(json!([{"match": {}, "route": {"cluster": "backend"}}]))),
        (
            "a status below 200",
            VirtualHost,
            host(json!([{"match": {"prefix": "/"}, "directResponse": {"status": 99}}])),
        ),
        ("a header without a name", RouteConfiguration, json!({"requestHeadersToAdd": [{"header": {"value": "x"}}]})),
        ("a header name of two lines", RouteConfiguration, json!({"requestHeadersToRemove": ["a\nb"]})),
        ("a filter without a name", HttpFilter, json!({"typedConfig": {"@type": HCM}})),
        ("a configuration without a type", NetworkFilter, json!({"name": "x", "typedConfig": {}})),
        ("a listener's address as text", Listener, json!({"name": "x", "address": "127.0.0.1:80"})),
    ]
}
