//! MeshTimeout.

use super::caller::{self, Strictness};
use super::policy::{Policy, Resource};
use crate::compile::Findings;
use crate::compile::reader::{Node, Object};
use crate::core::mesh::policy::PolicyKind;
use crate::core::mesh::target_ref::TargetKind;
use crate::core::mesh::timeout::{HttpTimeouts, TimeoutPolicy, TimeoutRule, Timeouts};
use crate::core::problem::Reason;

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
const NOT_PER_ROUTE: &[&str] = &[
    "connectionTimeout",
    "idleTimeout",
    "http.maxStreamDuration",
    "http.maxConnectionDuration",
];

/// Compiles the content; `None` if there are errors.
pub(in crate::compile) fn compile(resource: &Resource<'_>, findings: &mut Findings) -> Option<TimeoutPolicy> {
    let before = findings.errors.len();
    let policy = Policy::read(PolicyKind::Timeout, resource, findings);
    policy.rules_exclude(&["to", "from"], findings);
    policy.needs_any(&["to", "from", "rules"], findings);

    let below_route = matches!(policy.top.kind, Some(TargetKind::MeshHttpRoute));
    let (mut to, mut from, mut rules) = (Vec::new(), Vec::new(), Vec::new());
    if policy.has("from")
        && matches!(
            policy.top.kind,
            Some(TargetKind::MeshHttpRoute | TargetKind::MeshGateway)
        )
    {
        let message =
            "not permitted with a route or a gateway at the top level: neither has inbound traffic of its own";
        findings.refuse(&policy.spec.get("from").path, Reason::Forbidden, message);
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
        if !entry.conf.is_present() && entry.kind().is_some_and(TargetKind::is_route) {
            findings.warn(
                &entry.conf.path,
                Reason::Suspicious,
                "no timeouts are given, so the entry changes nothing",
            );
            to.extend(
                entry
                    .reference
                    .target
                    .clone()
                    .map(|target| (target, Timeouts::default())),
            );
            return;
        }
        let timeouts = read_conf(&entry.conf, scope, findings);
        to.extend(entry.reference.target.clone().zip(timeouts));
    });
    policy.each_rule(findings, |entry, findings| {
        let field = entry.object.get("matches");
        let matches = caller::read_list(&field, Strictness::Strict, findings);
        let scope = if caller::any_spiffe_id(&field) {
            Scope::Callers
        } else {
            Scope::Connections
        };
        let timeouts = read_conf(&entry.conf, scope, findings);
        rules.extend(timeouts.map(|timeouts| TimeoutRule { matches, timeouts }));
    });
    let target = policy.finish(findings)?;
    (findings.errors.len() == before).then_some(TimeoutPolicy {
        target,
        to,
        from,
        rules,
    })
}

fn read_conf(conf: &Node<'_>, scope: Scope, findings: &mut Findings) -> Option<Timeouts> {
    let before = findings.errors.len();
    let object = conf.object(findings);
    let (connection, idle, http) = (
        object.get("connectionTimeout"),
        object.get("idleTimeout"),
        object.get("http"),
    );
    object.warn_of_unknown(findings);
    if scope == Scope::Callers {
        refuse_all(
            conf,
            NOT_PER_CALLER,
            "not valid in a rule that matches a SPIFFE ID",
            findings,
        );
    }
    if ![&connection, &idle, &http].into_iter().any(Node::is_present) {
        findings.refuse(
            &conf.path,
            Reason::AnyOf,
            "at least one of connectionTimeout, idleTimeout, http",
        );
        return None;
    }
    match scope {
        Scope::HttpRoute => {
            refuse_all(
                conf,
                NOT_PER_ROUTE,
                "not valid for a MeshHTTPRoute: set it on the service",
                findings,
            );
        }
        Scope::TcpRoute => refuse_all(conf, &["http"], "not valid for a MeshTCPRoute", findings),
        Scope::Connections | Scope::Callers => {}
    }
    let timeouts = Timeouts {
        connection: connection.positive_duration(findings),
        idle: idle.natural_duration(findings),
        http: if http.is_present() {
            read_http(&http.object(findings), findings)
        } else {
            HttpTimeouts::default()
        },
    };
    (findings.errors.len() == before).then_some(timeouts)
}

fn read_http(http: &Object<'_>, findings: &mut Findings) -> HttpTimeouts {
    let fields = [
        "requestTimeout",
        "streamIdleTimeout",
        "maxStreamDuration",
        "maxConnectionDuration",
    ];
    let nodes = fields.map(|name| http.get(name));
    let headers = http.get("requestHeadersTimeout");
    http.warn_of_unknown(findings);
    let any = nodes.iter().any(Node::is_present);
    let [request, stream_idle, max_stream_duration, max_connection_duration] =
        nodes.map(|node| node.natural_duration(findings));
    let request_headers = headers.natural_duration(findings);
    if !any {
        findings.refuse(
            &http.path,
            Reason::AnyOf,
            format!("at least one of {}", fields.join(", ")),
        );
    }
    HttpTimeouts {
        request,
        stream_idle,
        max_stream_duration,
        max_connection_duration,
        request_headers,
    }
}

/// Refuses the fields, of the conf itself or one level down, that are there.
fn refuse_all(conf: &Node<'_>, fields: &[&'static str], message: &str, findings: &mut Findings) {
    for field in fields {
        let node = match field.split_once('.') {
            Some((parent, child)) => conf.below(parent).below(child),
            None => conf.below(field),
        };
        if node.is_present() {
            findings.refuse(&node.path, Reason::Context, message);
        }
    }
}
