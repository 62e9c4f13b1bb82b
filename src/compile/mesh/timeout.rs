//! MeshTimeout.

use super::caller::{self, Strictness};
use super::policy::{Policy, Resource};
use crate::compile::Findings;
use crate::compile::mesh::record::{PolicyRecord, RecordSchemas, policy_kind};
use crate::compile::mesh::target_ref::Places;
use crate::compile::mesh::target_ref::places::{
    DESTINATIONS_AND_ROUTES, GATEWAYS_AND_ROUTES, MESH, PROXIES_AND_SERVICES,
};
use crate::compile::reader::{Node, Object};
use crate::core::mesh::kind::PolicyKind;
use crate::core::mesh::target_ref::TargetKind;
use crate::core::mesh::timeout::{HttpTimeouts, TimeoutPolicy, TimeoutRule, Timeouts};
use crate::core::problem::Reason;

pub(super) static RECORD: PolicyRecord = PolicyRecord {
    kind: PolicyKind {
        to: true,
        from: true,
        rules: true,
        from_as_rules: true,
        destinations: DESTINATIONS_AND_ROUTES,
        ..policy_kind(1000, "MeshTimeout", "mt", "meshtimeouts")
    },
    description: "How long connections and requests may take.",
    places: Places {
        top_of_system: GATEWAYS_AND_ROUTES,
        listener_tags: true,
        to_below: Some((GATEWAYS_AND_ROUTES, &[TargetKind::Mesh, TargetKind::MeshExternalService])),
        from: MESH,
        ..Places::at_top(PROXIES_AND_SERVICES)
    },
    spec: schema::spec,
    check: |resource, findings| drop(compile(resource, findings)),
    filled_in: &[],
    schemas: RecordSchemas::new(),
};

/// What a conf stands for, which limits what it may say.
#[derive(Clone, Copy, PartialEq)]
enum Scope {
    Connections,
    HttpRoute,
    TcpRoute,
    /// Requests of callers that are told apart by their identity, on connections that are open by then.
    Callers,
}

/// What is settled before a request is matched with its caller.
const NOT_PER_CALLER: &[&str] = &[
    "connectionTimeout",
    "idleTimeout",
    "http.requestHeadersTimeout",
    "http.maxStreamDuration",
    "http.maxConnectionDuration",
];
/// What belongs to the connections below a route.
const NOT_PER_ROUTE: &[&str] =
    &["connectionTimeout", "idleTimeout", "http.maxStreamDuration", "http.maxConnectionDuration"];

/// Compiles the content; `None` if there are errors.
pub(in crate::compile) fn compile(resource: &Resource<'_>, findings: &mut Findings) -> Option<TimeoutPolicy> {
    let before = findings.errors.len();
    let policy = Policy::read(&RECORD, resource, findings);
    policy.rules_exclude(&["to", "from"], findings);
    policy.needs_any(&["to", "from", "rules"], findings);

    let below_route = matches!(policy.top.kind, Some(TargetKind::MeshHttpRoute));
    let (mut to, mut from, mut rules) = (Vec::new(), Vec::new(), Vec::new());
    if policy.has("from") && matches!(policy.top.kind, Some(TargetKind::MeshHttpRoute | TargetKind::MeshGateway)) {
        let message =
            "not permitted with a route or a gateway at the top level: neither has inbound traffic of its own";
        findings.refuse(policy.spec.get("from").path, Reason::Forbidden, message);
    } else {
        policy.each_from(findings, |entry, findings| {
            let timeouts = read_conf(&entry.conf, Scope::Connections, findings);
            from.extend(entry.reference.target.clone().zip(timeouts));
        });
    }
    policy.each_to(findings, |entry, findings| {
        let scope = match entry.kind() {
            Some(TargetKind::MeshTcpRoute) => Scope::TcpRoute,
            Some(TargetKind::MeshHttpRoute) => Scope::HttpRoute,
            _ if below_route => Scope::HttpRoute,
            _ => Scope::Connections,
        };
        let timeouts = read_conf(&entry.conf, scope, findings);
        to.extend(entry.reference.target.clone().zip(timeouts));
    });
    policy.each_rule(findings, |entry, findings| {
        let field = entry.object.get("matches");
        let matches = caller::read_list(&field, Strictness::Strict, findings);
        let scope = match caller::any_spiffe_id(&field) {
            true => Scope::Callers,
            false if below_route => Scope::HttpRoute,
            false => Scope::Connections,
        };
        let timeouts = read_conf(&entry.conf, scope, findings);
        rules.extend(timeouts.map(|timeouts| TimeoutRule { matches, timeouts }));
    });
    let target = policy.finish(findings)?;
    (findings.errors.len() == before).then_some(TimeoutPolicy { target, to, from, rules })
}

fn read_conf(conf: &Node<'_>, scope: Scope, findings: &mut Findings) -> Option<Timeouts> {
    let before = findings.errors.len();
    let object = conf.object(findings);
    let (connection, idle, http) = (object.get("connectionTimeout"), object.get("idleTimeout"), object.get("http"));
    object.warn_of_unknown(findings);
    if scope == Scope::Callers {
        refuse_all(conf, NOT_PER_CALLER, "not valid in a rule that matches a SPIFFE ID", findings);
    }
    if ![&connection, &idle, &http].into_iter().any(Node::is_present) {
        findings.refuse(conf.path, Reason::AnyOf, "at least one of connectionTimeout, idleTimeout, http");
        return None;
    }
    match scope {
        Scope::HttpRoute => {
            refuse_all(conf, NOT_PER_ROUTE, "not valid for a MeshHTTPRoute: set it on the service", findings);
        }
        Scope::TcpRoute => refuse_all(conf, &["http"], "not valid for a MeshTCPRoute", findings),
        Scope::Connections | Scope::Callers => {}
    }
    let timeouts = Timeouts {
        connection: connection.positive_duration(findings),
        idle: idle.natural_duration(findings),
        http: if http.is_present() { read_http(&http.object(findings), findings) } else { HttpTimeouts::default() },
    };
    (findings.errors.len() == before).then_some(timeouts)
}

fn read_http(http: &Object<'_>, findings: &mut Findings) -> HttpTimeouts {
    let fields = ["requestTimeout", "streamIdleTimeout", "maxStreamDuration", "maxConnectionDuration"];
    let nodes = fields.map(|name| http.get(name));
    let headers = http.get("requestHeadersTimeout");
    http.warn_of_unknown(findings);
    let any = nodes.iter().any(Node::is_present);
    let [request, stream_idle, max_stream_duration, max_connection_duration] =
        nodes.map(|node| node.natural_duration(findings));
    let request_headers = headers.natural_duration(findings);
    if !any {
        findings.refuse(http.path, Reason::AnyOf, format!("at least one of {}", fields.join(", ")));
    }
    HttpTimeouts { request, stream_idle, max_stream_duration, max_connection_duration, request_headers }
}

/// Refuses the fields, of the conf itself or one level down, that are there.
fn refuse_all(conf: &Node<'_>, fields: &[&'static str], message: &str, findings: &mut Findings) {
    for field in fields {
        let node = match field.split_once('.') {
            Some((parent, child)) => conf.below(parent).below(child),
            None => conf.below(field),
        };
        if node.is_present() {
            findings.refuse(node.path, Reason::Context, message);
        }
    }
}

/// What the API server knows of the content.
pub(super) mod schema {
    use serde_json::Value;

    use crate::api::schema::{closed, duration};
    use crate::compile::mesh::forms::{Conf, from, matching_rules, policy, to};

    pub(in crate::compile::mesh) fn spec() -> Value {
        policy([to(conf(), Conf::Optional), from(conf(), Conf::Optional), matching_rules(conf(), Conf::Optional)])
    }

    fn conf() -> Value {
        let http = closed(
            "Timeouts of HTTP.",
            [
                (
                    "requestTimeout",
                    duration("How long a request may take as a whole; 0s is without end, 15s is usual."),
                ),
                ("streamIdleTimeout", duration("How long a stream may be silent; 0s is without end, 30m is usual.")),
                ("maxStreamDuration", duration("How long a stream may live; 0s is without end.")),
                ("maxConnectionDuration", duration("How long a connection may live; 0s is without end.")),
                ("requestHeadersTimeout", duration("How long the headers of a request may take; 0s is without end.")),
            ],
        );
        closed(
            "Timeouts.",
            [
                ("connectionTimeout", duration("How long a connection may take to come about; above 0s, 5s is usual.")),
                ("idleTimeout", duration("How long a connection may be silent; 0s is without end, 1h is usual.")),
                ("http", http),
            ],
        )
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{accepts, document, refuses};
    use crate::compile::mesh;
    use crate::core::mesh::target_ref::{ResourceRef, TargetRef};
    use crate::core::scalar::duration::Duration;

    /// Wraps a conf in a policy for all outgoing traffic.
    #[track_caller]
    fn refuses_conf(conf: &str, expected: &[&str]) {
        refuses("MeshTimeout", &format!("{{to: [{{targetRef: {{kind: Mesh}}, default: {conf}}}]}}"), expected);
    }

    #[test]
    fn below_a_route_rules_say_nothing_of_connections() {
        refuses(
            "MeshTimeout",
            "{targetRef: {kind: MeshHTTPRoute, name: r}, \
             rules: [{default: {idleTimeout: 1s, http: {requestTimeout: 1s, maxStreamDuration: 1s}}}]}",
            &["spec.rules[0].default.idleTimeout CTX", "spec.rules[0].default.http.maxStreamDuration CTX"],
        );
    }

    #[test]
    fn an_entry_for_a_route_needs_a_timeout() {
        refuses(
            "MeshTimeout",
            "{to: [{targetRef: {kind: MeshHTTPRoute, name: r}}, {targetRef: {kind: MeshTCPRoute, name: r}}]}",
            &["spec.to[0].default ANYOF", "spec.to[1].default ANYOF"],
        );
    }

    #[test]
    fn a_server_name_has_a_limit() {
        let rule = |name: &str| {
            format!("{{rules: [{{matches: [{{sni: {{type: Exact, value: {name}}}}}], default: {{idleTimeout: 1s}}}}]}}")
        };
        refuses("MeshTimeout", &rule("a.".repeat(126).trim_end_matches('.')), &[]);
        refuses(
            "MeshTimeout",
            &rule(&format!("{}a", "a.".repeat(127))),
            &["spec.rules[0].matches[0].sni.value FORMAT"],
        );
    }

    #[test]
    fn bounds() {
        refuses_conf("{connectionTimeout: 0s}", &["spec.to[0].default.connectionTimeout POS"]);
        refuses_conf("{connectionTimeout: -1s}", &["spec.to[0].default.connectionTimeout POS"]);
        refuses_conf("{connectionTimeout: .5s, idleTimeout: 0, http: {requestTimeout: 0s}}", &[]);
        refuses_conf("{idleTimeout: -1s}", &["spec.to[0].default.idleTimeout NEG"]);
        refuses_conf("{idleTimeout: 1d}", &["spec.to[0].default.idleTimeout FORMAT"]);
        refuses_conf("{idleTimeout: 5}", &["spec.to[0].default.idleTimeout FORMAT"]);
        refuses_conf(
            "{http: {requestTimeout: -1s, maxStreamDuration: -1s, requestHeadersTimeout: -1s}}",
            &[
                "spec.to[0].default.http.requestTimeout NEG",
                "spec.to[0].default.http.maxStreamDuration NEG",
                "spec.to[0].default.http.requestHeadersTimeout NEG",
            ],
        );
    }

    #[test]
    fn something_must_be_said() {
        refuses("MeshTimeout", "{}", &["spec ANYOF"]);
        refuses_conf("{}", &["spec.to[0].default ANYOF"]);
        refuses_conf("{http: {}}", &["spec.to[0].default.http ANYOF"]);
        refuses_conf("{http: {requestHeadersTimeout: 1s}}", &["spec.to[0].default.http ANYOF"]);
        refuses("MeshTimeout", "{rules: [{}]}", &["spec.rules[0].default ANYOF"]);
        refuses("MeshTimeout", "{to: [{default: {idleTimeout: 1s}}]}", &["spec.to[0].targetRef.kind REQ"]);
    }

    #[test]
    fn rules_stand_alone() {
        let rules = "rules: [{default: {idleTimeout: 1s}}]";
        let entry = "[{targetRef: {kind: Mesh}, default: {idleTimeout: 1s}}]";
        accepts("MeshTimeout", &format!("{{{rules}}}"), &[]);
        refuses("MeshTimeout", &format!("{{{rules}, to: {entry}}}"), &["spec XOR"]);
        refuses("MeshTimeout", &format!("{{{rules}, from: {entry}}}"), &["spec XOR"]);
        accepts("MeshTimeout", &format!("{{to: {entry}, from: {entry}}}"), &["spec.from REMOVED"]);
    }

    #[test]
    fn a_route_takes_what_belongs_to_requests() {
        let all = "{connectionTimeout: 1s, idleTimeout: 1s, http: {requestTimeout: 1s, maxStreamDuration: 1s, \
                   maxConnectionDuration: 1s}}";
        let four = [
            "spec.to[0].default.connectionTimeout CTX",
            "spec.to[0].default.idleTimeout CTX",
            "spec.to[0].default.http.maxStreamDuration CTX",
            "spec.to[0].default.http.maxConnectionDuration CTX",
        ];
        let in_to = format!("{{to: [{{targetRef: {{kind: MeshHTTPRoute, labels: {{a: b}}}}, default: {all}}}]}}");
        refuses("MeshTimeout", &in_to, &four);
        let at_top = format!(
            "{{targetRef: {{kind: MeshHTTPRoute, labels: {{a: b}}}}, to: [{{targetRef: {{kind: Mesh}}, default: {all}}}]}}"
        );
        refuses("MeshTimeout", &at_top, &four);
        let tcp = format!("{{to: [{{targetRef: {{kind: MeshTCPRoute, labels: {{a: b}}}}, default: {all}}}]}}");
        refuses("MeshTimeout", &tcp, &["spec.to[0].default.http CTX"]);
    }

    #[test]
    fn a_caller_takes_what_belongs_to_requests() {
        let rule = |conf: &str, id: &str| format!("{{rules: [{{matches: [{{{id}}}], default: {conf}}}]}}");
        let id = "spiffeID: {type: Prefix, value: 'spiffe://default'}";
        accepts("MeshTimeout", &rule("{http: {requestTimeout: 1s, streamIdleTimeout: 1s}}", id), &[]);
        refuses(
            "MeshTimeout",
            &rule(
                "{connectionTimeout: 1s, idleTimeout: 0s, http: {requestHeadersTimeout: 1s, requestTimeout: 1s}}",
                id,
            ),
            &[
                "spec.rules[0].default.connectionTimeout CTX",
                "spec.rules[0].default.idleTimeout CTX",
                "spec.rules[0].default.http.requestHeadersTimeout CTX",
            ],
        );
        accepts("MeshTimeout", &rule("{idleTimeout: 1s}", "sni: {type: Exact, value: backend.mesh}"), &[]);
        refuses(
            "MeshTimeout",
            &rule("{http: {requestTimeout: 1s}}", "spiffeID: {type: Regex, value: x}"),
            &["spec.rules[0].matches[0].spiffeID.type ENUM", "spec.rules[0].matches[0].spiffeID FORMAT"],
        );
        refuses("MeshTimeout", &rule("{idleTimeout: 1s}", ""), &["spec.rules[0].matches[0] ANYOF"]);
    }

    #[test]
    fn from_needs_inbound_traffic() {
        let from = "from: [{targetRef: {kind: Mesh}, default: {}}]";
        refuses(
            "MeshTimeout",
            &format!("{{targetRef: {{kind: MeshGateway, name: edge}}, {from}}}"),
            &["spec.from FORBID"],
        );
    }

    #[test]
    fn the_engine_gets_durations() {
        let spec = "{to: [{targetRef: {kind: MeshService, name: backend, sectionName: http}, default: \
                    {connectionTimeout: 1500ms, http: {requestTimeout: 2s}}}]}";
        let (policy, _) = mesh::timeout(&document("MeshTimeout", spec));
        let policy = policy.expect("nothing is wrong");
        assert_eq!(policy.target, TargetRef::WHOLE_MESH);
        let [(target, timeouts)] = policy.to.as_slice() else { panic!("one entry") };
        let service = ResourceRef::Named { name: "backend".to_owned(), namespace: None };
        assert_eq!(*target, TargetRef::MeshService { service, section: Some("http".to_owned()) });
        assert_eq!(timeouts.connection, Some(Duration::from_nanos(1_500_000_000)));
        assert_eq!(timeouts.http.request, Duration::from_secs(2));
        assert_eq!(timeouts.idle, None);
    }
}
