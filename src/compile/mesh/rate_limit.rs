//! MeshRateLimit.

use super::caller::{self, Strictness};
use super::headers;
use super::policy::{Policy, Resource};
use crate::compile::Findings;
use crate::compile::mesh::record::{PolicyRecord, RecordSchemas, policy_kind};
use crate::compile::mesh::scalars::UINT32;
use crate::compile::mesh::target_ref::Places;
use crate::compile::mesh::target_ref::places::{GATEWAYS_AND_ROUTES, MESH, PROXIES_AND_SERVICES};
use crate::compile::reader::Node;
use crate::core::mesh::kind::PolicyKind;
use crate::core::problem::Reason;
use crate::core::scalar::duration::Duration;

pub(super) static RECORD: PolicyRecord = PolicyRecord {
    kind: PolicyKind {
        to: true,
        from: true,
        rules: true,
        from_as_rules: true,
        destinations: MESH,
        ..policy_kind(900, "MeshRateLimit", "mrl", "meshratelimits")
    },
    description: "How much a service lets in.",
    places: Places {
        top_of_system: GATEWAYS_AND_ROUTES,
        listener_tags: true,
        from: MESH,
        ..Places::at_top(PROXIES_AND_SERVICES)
    },
    spec: schema::spec,
    check,
    filled_in: &[],
    schemas: RecordSchemas::new(),
};

/// The shortest interval must be longer than this.
const TOO_SHORT: Duration = Duration::from_nanos(50_000_000);

pub(in crate::compile) fn check(resource: &Resource<'_>, findings: &mut Findings) {
    let policy = Policy::read(&RECORD, resource, findings);
    policy.rules_exclude(&["to", "from"], findings);
    let gateways = policy.top.includes_gateways();
    let [rules, from, to] = ["rules", "from", "to"].map(|list| policy.spec.get(list).path);
    let advice = "say `proxyTypes: [Sidecar]`, or select by Dataplane";
    if policy.has("rules") && gateways {
        findings.refuse(rules, Reason::Forbidden, format!("not permitted when gateways are selected: {advice}"));
    } else {
        policy.each_rule(findings, |entry, findings| {
            let matches = entry.object.get("matches");
            caller::read_list(&matches, Strictness::Strict, findings);
            let tcp = entry.conf.below("local").below("tcp");
            if tcp.is_present() && caller::any_spiffe_id(&matches) {
                findings.refuse(tcp.path, Reason::Context, "not valid in a rule that matches a SPIFFE ID");
            }
            check_conf(&entry.conf, findings);
        });
    }
    if policy.has("from") && gateways {
        findings.refuse(from, Reason::Context, format!("only valid when no gateway is selected: {advice}"));
    } else {
        policy.each_from(findings, |entry, findings| check_conf(&entry.conf, findings));
    }
    if policy.has("to") && !gateways {
        let message = "only permitted when gateways are selected: limits of sidecars go into `rules`";
        findings.refuse(to, Reason::Forbidden, message);
    } else {
        policy.each_to(findings, |entry, findings| check_conf(&entry.conf, findings));
    }
    policy.finish(findings);
}

fn check_conf(conf: &Node<'_>, findings: &mut Findings) {
    let object = conf.object(findings);
    let local = object.get("local");
    object.warn_of_unknown(findings);
    if !local.is_present() {
        findings.refuse(local.path, Reason::Required, "required");
        return;
    }
    let object = local.object(findings);
    let (http, tcp) = (object.get("http"), object.get("tcp"));
    object.warn_of_unknown(findings);
    if !http.is_present() && !tcp.is_present() {
        findings.refuse(local.path, Reason::AnyOf, "at least one of http, tcp");
    }
    if http.is_present() {
        check_http(&http, findings);
    }
    if tcp.is_present() {
        let object = tcp.object(findings);
        let (disabled, rate) = (object.get("disabled"), object.get("connectionRate"));
        object.warn_of_unknown(findings);
        if !disabled.is_present() && !rate.is_present() {
            findings.refuse(tcp.path, Reason::AnyOf, "at least one of disabled, connectionRate");
        }
        disabled.flag(findings);
        check_rate(&rate, findings);
    }
}

fn check_http(http: &Node<'_>, findings: &mut Findings) {
    let object = http.object(findings);
    let (disabled, rate, answer) = (object.get("disabled"), object.get("requestRate"), object.get("onRateLimit"));
    object.warn_of_unknown(findings);
    if ![&disabled, &rate, &answer].into_iter().any(Node::is_present) {
        findings.refuse(http.path, Reason::AnyOf, "at least one of disabled, requestRate, onRateLimit");
    }
    disabled.flag(findings);
    check_rate(&rate, findings);
    let answer = answer.object(findings);
    let status = answer.get("status");
    if let Some(code) = status.positive_integer(UINT32, findings)
        && code < 400
    {
        let message = format!("{code} does not tell a client that it was refused: it must become 400 or above");
        findings.warn(status.path, Reason::Deprecated, message);
    }
    headers::check(&answer.get("headers"), findings);
    answer.warn_of_unknown(findings);
}

fn check_rate(rate: &Node<'_>, findings: &mut Findings) {
    if !rate.is_present() {
        return;
    }
    let object = rate.object(findings);
    let (num, interval) = (object.get("num"), object.get("interval"));
    object.warn_of_unknown(findings);
    if num.is_present() {
        num.positive_integer(UINT32, findings);
    } else {
        findings.refuse(num.path, Reason::NotPositive, "a number above 0 is needed");
    }
    let too_short = match interval.is_present() {
        true => interval.duration(findings).is_some_and(|interval| interval <= TOO_SHORT),
        false => true,
    };
    if too_short {
        findings.refuse(interval.path, Reason::NotPositive, format!("an interval above {TOO_SHORT} is needed"));
    }
}

/// What the API server knows of the content.
pub(super) mod schema {
    use serde_json::Value;

    use crate::api::schema::{closed, duration, flag, int32, requiring};
    use crate::compile::mesh::forms::{Conf, from, header_changes, matching_rules, policy, to};

    pub(in crate::compile::mesh) fn spec() -> Value {
        policy([to(conf(), Conf::Optional), from(conf(), Conf::Optional), matching_rules(conf(), Conf::Optional)])
    }

    fn conf() -> Value {
        let answer = closed(
            "What is answered beyond the limit.",
            [
                ("status", int32("The status; 429 is usual.")),
                ("headers", closed("Headers of the answer.", header_changes())),
            ],
        );
        let http = closed(
            "A limit of requests.",
            [
                ("disabled", flag("Whether this is off.")),
                ("requestRate", rate("How many requests pass.")),
                ("onRateLimit", answer),
            ],
        );
        let tcp = closed(
            "A limit of connections.",
            [("disabled", flag("Whether this is off.")), ("connectionRate", rate("How many connections pass."))],
        );
        let local = closed("Limits that every proxy counts by itself.", [("http", http), ("tcp", tcp)]);
        closed("Limits.", [("local", local)])
    }

    fn rate(description: &str) -> Value {
        let rate = closed(
            description,
            [("num", int32("How many; above 0.")), ("interval", duration("In how much time; above 50ms."))],
        );
        requiring(rate, &["num", "interval"])
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{accepts, refuses, refuses_below};

    #[track_caller]
    fn check(conf: &str, expected: &[&str]) {
        let spec = format!("{{targetRef: {{kind: Dataplane}}, rules: [{{default: {conf}}}]}}");
        refuses_below("spec.rules[0].default", "MeshRateLimit", &spec, expected);
    }

    #[test]
    fn something_is_limited() {
        accepts("MeshRateLimit", "{}", &[]);
        check("{}", &[".local REQ"]);
        check("{local: {}}", &[".local ANYOF"]);
        check("{local: {http: {}, tcp: {}}}", &[".local.http ANYOF", ".local.tcp ANYOF"]);
        check("{local: {http: {disabled: true}}}", &[]);
    }

    #[test]
    fn rates() {
        check(
            "{local: {tcp: {connectionRate: {num: 0, interval: 50ms}}, http: {requestRate: {}}}}",
            &[
                ".local.http.requestRate.num POS",
                ".local.http.requestRate.interval POS",
                ".local.tcp.connectionRate.num POS",
                ".local.tcp.connectionRate.interval POS",
            ],
        );
        check("{local: {tcp: {connectionRate: {num: 1, interval: 51ms}}}}", &[]);
        check("{local: {http: {onRateLimit: {status: 0}}}}", &[".local.http.onRateLimit.status POS"]);
        accepts(
            "MeshRateLimit",
            "{to: [{targetRef: {kind: Mesh}, default: {local: {http: {onRateLimit: {status: 201}}}}}]}",
            &["spec.to[0].default.local.http.onRateLimit.status DEPRECATED"],
        );
    }

    #[test]
    fn gateways_take_to_and_sidecars_take_the_rest() {
        let conf = "default: {local: {http: {disabled: true}}}";
        let (entry, rule) = (format!("[{{targetRef: {{kind: Mesh}}, {conf}}}]"), format!("[{{{conf}}}]"));
        refuses("MeshRateLimit", &format!("{{rules: {rule}}}"), &["spec.rules FORBID"]);
        refuses("MeshRateLimit", &format!("{{from: {entry}}}"), &["spec.from CTX"]);
        refuses("MeshRateLimit", &format!("{{to: {entry}}}"), &[]);
        let unsound = "targetRef: {kind: Mesh, name: x, proxyTypes: [Sidecar]}";
        let wrong_name = ["spec.targetRef.name CTX"];
        refuses("MeshRateLimit", &format!("{{{unsound}, rules: {rule}}}"), &wrong_name);
        let sidecars = "targetRef: {kind: MeshSubset, proxyTypes: [Sidecar]}";
        refuses("MeshRateLimit", &format!("{{{sidecars}, to: {entry}}}"), &["spec.to FORBID"]);
        refuses("MeshRateLimit", &format!("{{{sidecars}, rules: {rule}}}"), &[]);
        refuses("MeshRateLimit", &format!("{{{sidecars}, rules: {rule}, from: {entry}}}"), &["spec XOR"]);
    }

    #[test]
    fn callers_make_requests() {
        refuses(
            "MeshRateLimit",
            "{targetRef: {kind: Dataplane}, rules: [{matches: [{spiffeID: {type: Exact, value: 'spiffe://a/b'}}], \
             default: {local: {tcp: {disabled: true}}}}]}",
            &["spec.rules[0].default.local.tcp CTX"],
        );
    }
}
