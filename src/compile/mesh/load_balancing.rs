//! MeshLoadBalancingStrategy.

use std::cmp::Ordering;

use super::policy::{Entry, Policy, Resource};
use crate::compile::Findings;
use crate::compile::mesh::record::{PolicyRecord, RecordSchemas, policy_kind};
use crate::compile::mesh::scalars::UINT32;
use crate::compile::mesh::target_ref::Place;
use crate::compile::mesh::target_ref::Places;
use crate::compile::mesh::target_ref::places::{GATEWAYS, PROXIES_SERVICES_GATEWAYS};
use crate::compile::reader::{Node, Object};
use crate::compile::way::Way;
use crate::core::mesh::kind::PolicyKind;
use crate::core::mesh::target_ref::TargetKind;
use crate::core::problem::Reason;

pub(super) static RECORD: PolicyRecord = PolicyRecord {
    kind: PolicyKind {
        to: true,
        destinations: &[
            TargetKind::Mesh,
            TargetKind::MeshService,
            TargetKind::MeshMultiZoneService,
            TargetKind::MeshHttpRoute,
            TargetKind::MeshTcpRoute,
        ],
        ..policy_kind(400, "MeshLoadBalancingStrategy", "mlbs", "meshloadbalancingstrategies")
    },
    description: "How a host is chosen among those of a service.",
    places: Places {
        listener_tags: true,
        to_below: Some((GATEWAYS, &[TargetKind::Mesh, TargetKind::MeshService, TargetKind::MeshMultiZoneService])),
        ..Places::at_top(PROXIES_SERVICES_GATEWAYS)
    },
    spec: schema::spec,
    check,
    filled_in: &[],
    schemas: RecordSchemas::new(),
};

const FAILOVER_TYPES: &[&str] = &["None", "Only", "Any", "AnyExcept"];

/// The types of a hash policy, and the body that each needs.
const HASHES: &[(&str, &str)] = &[
    ("Header", "header"),
    ("Cookie", "cookie"),
    ("Connection", "connection"),
    ("SourceIP", "connection"),
    ("QueryParameter", "queryParameter"),
    ("FilterState", "filterState"),
];
const HASH_TYPES: &[&str] = &["Header", "Cookie", "Connection", "SourceIP", "QueryParameter", "FilterState"];
const BALANCERS: &[&str] = &["RoundRobin", "LeastRequest", "RingHash", "Random", "Maglev"];

pub(in crate::compile) fn check(resource: &Resource<'_>, findings: &mut Findings) {
    let policy = Policy::read(&RECORD, resource, findings);
    let top = policy.top.kind;
    let narrow = |entry: &Object<'_>| {
        // A gateway has one load balancer for all destinations.
        let balances = entry.peek("default").below("loadBalancer").is_present();
        (top == Some(TargetKind::MeshGateway) && balances).then(|| Place::of(&[TargetKind::Mesh]))
    };
    policy.each_to_narrowed(narrow, findings, |entry, findings| {
        if entry.kind() == Some(TargetKind::MeshExternalService) && top != Some(TargetKind::Mesh) {
            let kind = entry.object.path.field("targetRef").field("kind");
            findings.refuse(kind, Reason::Context, "only valid when the top level is the whole Mesh");
        }
        check_conf(entry, findings);
    });
    policy.finish(findings);
}

fn check_conf(entry: &Entry<'_>, findings: &mut Findings) {
    let conf = entry.conf.object(findings);
    let (hashes, balancer, locality) =
        (conf.get("hashPolicies"), conf.get("loadBalancer"), conf.get("localityAwareness"));
    conf.warn_of_unknown(findings);
    if let Some(route) = entry.kind().filter(|kind| kind.is_route()) {
        for field in [&balancer, &locality] {
            if field.is_present() {
                let message = format!("not valid for a {}: only hashPolicies are", route.name());
                findings.refuse(field.path, Reason::Context, message);
            }
        }
        check_hashes(&hashes, findings);
        if route == TargetKind::MeshTcpRoute {
            refuse_http_hashes(&hashes, findings);
        }
        return;
    }
    check_hashes(&hashes, findings);
    if balancer.is_present() {
        check_balancer(&balancer, conf.path, hashes.is_present(), findings);
    }
    if locality.is_present() {
        check_locality(&locality, entry, findings);
    }
}

fn check_hashes(list: &Node<'_>, findings: &mut Findings) {
    for hash in list.list(findings) {
        let hash = hash.object(findings);
        let kind_field = hash.get("type");
        let kind = kind_field.schema_word(HASH_TYPES, findings);
        hash.get("terminal").flag(findings);
        hash.knows(&["header", "cookie", "connection", "queryParameter", "filterState"]);
        hash.warn_of_unknown(findings);
        let Some((kind, body)) = kind.and_then(|kind| HASHES.iter().find(|(known, _)| *known == kind)) else {
            continue;
        };
        let body = hash.peek(body);
        if !body.is_present() {
            findings.refuse(body.path, Reason::Required, format!("required with type {kind}"));
        }
        if *kind == "SourceIP" {
            findings.warn(kind_field.path, Reason::Deprecated, "type SourceIP is deprecated: use Connection instead");
        }
        if *kind == "Cookie" {
            let cookie = body.object(findings);
            cookie.get("name").text(findings);
            cookie.get("ttl").duration(findings);
            let path = cookie.get("path");
            cookie.warn_of_unknown(findings);
            if path.text(findings).is_some_and(|path| !path.starts_with('/')) {
                findings.refuse(path.path, Reason::Format, "malformed: an absolute path");
            }
        }
    }
}

/// A connection is all that a TCP route knows of its caller.
fn refuse_http_hashes(list: &Node<'_>, findings: &mut Findings) {
    for hash in list.list(&mut Findings::default()) {
        let kind = hash.below("type");
        if kind.as_text().is_some_and(|kind| !matches!(kind, "Connection" | "SourceIP")) {
            findings.refuse(kind.path, Reason::Context, "not valid for a MeshTCPRoute: only Connection is");
        }
    }
}

fn check_balancer(field: &Node<'_>, conf: Way<'_>, has_hashes: bool, findings: &mut Findings) {
    let balancer = field.object(findings);
    let kind = balancer.get("type").schema_word(BALANCERS, findings);
    let (least, ring, maglev) = (balancer.get("leastRequest"), balancer.get("ringHash"), balancer.get("maglev"));
    balancer.warn_of_unknown(findings);
    for (of, body) in [("LeastRequest", &least), ("RingHash", &ring), ("Maglev", &maglev)] {
        if let Some(kind) = kind.filter(|kind| *kind != of && body.is_present()) {
            findings.warn(body.path, Reason::Suspicious, format!("has no effect with type {kind}"));
        }
    }

    // The body of another type has no effect, so its values are not judged.
    if kind.is_none_or(|kind| kind == "LeastRequest") {
        let least = least.object(findings);
        least.get("activeRequestBias").decimal_above(&[Ordering::Greater, Ordering::Equal], findings);
        least.get("choiceCount").integer(UINT32, findings);
        least.warn_of_unknown(findings);
    }
    let rings = [("RingHash", ring, &["minRingSize", "maxRingSize"][..]), ("Maglev", maglev, &["tableSize"])];
    for (of, body, sizes) in rings {
        let is_chosen = kind.is_none_or(|kind| kind == of);
        let body = body.object(findings);
        body.knows(&["hashFunction"]);
        for size in sizes.iter().map(|size| body.get(size)).filter(|_| is_chosen) {
            size.integer(UINT32, findings);
        }
        let hashes = body.get("hashPolicies");
        body.warn_of_unknown(findings);
        if !hashes.is_present() {
            continue;
        }
        let better = conf.field("hashPolicies");
        if has_hashes {
            findings.refuse(hashes.path, Reason::Xor, format!("exactly one place: keep {better}"));
        }
        findings.warn(hashes.path, Reason::Deprecated, format!("deprecated: use {better} instead"));
        if is_chosen {
            check_hashes(&hashes, findings);
        }
    }
}

fn check_locality(field: &Node<'_>, entry: &Entry<'_>, findings: &mut Findings) {
    let locality = field.object(findings);
    locality.get("disabled").flag(findings);
    let (local, cross) = (locality.get("localZone"), locality.get("crossZone"));
    locality.warn_of_unknown(findings);

    let local = local.object(findings);
    check_affinity(&local.get("affinityTags"), findings);
    local.warn_of_unknown(findings);

    if !cross.is_present() {
        return;
    }
    // Looked at as written: a reference with a name and labels is invalid by itself, and this is said besides.
    let reference = entry.object.peek("targetRef");
    let is_narrow = reference.below("sectionName").is_filled() || reference.below("labels").is_filled();
    if entry.kind() == Some(TargetKind::MeshService) && is_narrow {
        let message = "not valid for one zone's service (sectionName or labels): use MeshMultiZoneService";
        findings.refuse(cross.path, Reason::Context, message);
    }
    let cross = cross.object(findings);
    for rule in cross.get("failover").list(findings) {
        check_failover(&rule, findings);
    }
    let threshold = cross.get("failoverThreshold");
    cross.warn_of_unknown(findings);
    if threshold.is_present() {
        check_threshold(&threshold, findings);
    }
}

fn check_affinity(list: &Node<'_>, findings: &mut Findings) {
    let mut weighted = Vec::new();
    for tag in list.list(findings) {
        let tag = tag.object(findings);
        let (key, weight) = (tag.get("key"), tag.get("weight"));
        tag.warn_of_unknown(findings);
        if !key.is_filled() {
            findings.refuse(key.path, Reason::Empty, "may not be empty");
        }
        weight.positive_integer(UINT32, findings);
        weighted.push(weight.is_present());
    }
    if weighted.contains(&true) && weighted.contains(&false) {
        findings.refuse(list.path, Reason::Context, "only valid when all entries have a weight, or none");
    }
}

fn check_failover(rule: &Node<'_>, findings: &mut Findings) {
    let rule = rule.object(findings);
    let (from, to) = (rule.get("from"), rule.get("to"));
    rule.warn_of_unknown(findings);
    if from.is_present() {
        let from = from.object(findings);
        for zone in check_zones(&from.get("zones"), findings).iter().filter(|zone| !zone.is_filled()) {
            findings.refuse(zone.path, Reason::Empty, "may not be empty");
        }
        from.warn_of_unknown(findings);
    }
    let to = to.object(findings);
    let (kind, zones) = (to.get("type"), to.get("zones"));
    to.warn_of_unknown(findings);
    match kind.word(FAILOVER_TYPES, findings) {
        Some(word @ ("Any" | "None")) if zones.is_filled() => {
            findings.refuse(zones.path, Reason::Context, format!("not valid with type {word}"));
        }
        Some("Only" | "AnyExcept") => {
            for zone in check_zones(&zones, findings).iter().filter(|zone| !zone.is_filled()) {
                findings.warn(zone.path, Reason::Suspicious, "names no zone, so it has no effect");
            }
        }
        _ => {}
    }
}

/// The zones of a list that must have some.
fn check_zones<'v>(zones: &Node<'v>, findings: &mut Findings) -> Vec<Node<'v>> {
    let names = zones.list(findings);
    if names.is_empty() {
        findings.refuse(zones.path, Reason::Empty, "may not be empty");
    }
    names
}

fn check_threshold(threshold: &Node<'_>, findings: &mut Findings) {
    let object = threshold.object(findings);
    let percentage = object.get("percentage");
    object.warn_of_unknown(findings);
    let Some(share) = percentage.decimal(findings) else {
        if !percentage.is_present() {
            findings.refuse(percentage.path, Reason::NotPositive, "a percentage above 0 is needed");
        }
        return;
    };
    if share.compare(0).is_eq() {
        findings.refuse(percentage.path, Reason::NotPositive, "not above 0");
    } else if !share.is_within(0, 100) {
        findings.refuse(percentage.path, Reason::Range, "outside (0,100]");
    }
}

/// What the API server knows of the content.
pub(super) mod schema {
    use serde_json::Value;

    use super::{BALANCERS, FAILOVER_TYPES, HASH_TYPES};
    use crate::api::schema::{closed, duration, flag, int32, list, number_or_text, requiring, text, texts, with, word};
    use crate::compile::mesh::forms::{Conf, policy, to};

    pub(in crate::compile::mesh) fn spec() -> Value {
        let conf = closed(
            "How hosts are chosen.",
            [
                ("hashPolicies", hash_policies("What requests are told apart by, for balancers that hash.")),
                ("loadBalancer", load_balancer()),
                ("localityAwareness", locality_awareness()),
            ],
        );
        policy([to(conf, Conf::Optional)])
    }

    fn hash_policies(description: &str) -> Value {
        let filled = |description: &str| with(text(description), [("minLength", 1.into())]);
        let named = |description: &str, field: &'static str, what: &str| {
            requiring(closed(description, [(field, filled(what))]), &[field])
        };
        let cookie = closed(
            "A cookie.",
            [
                ("name", filled("Its name.")),
                ("ttl", duration("How long it lives when the proxy makes one.")),
                ("path", text("The path that it is for.")),
            ],
        );
        let policy = closed(
            "One thing that requests are told apart by.",
            [
                ("type", word("Which of the others counts; SourceIP is an older name of Connection.", HASH_TYPES)),
                ("terminal", flag("Whether the rest of the list is left out when this gave something.")),
                ("header", named("A header.", "name", "Its name.")),
                ("cookie", requiring(cookie, &["name"])),
                ("connection", closed("The connection.", [("sourceIP", flag("Whether by the caller's address."))])),
                ("queryParameter", named("A parameter of the query.", "name", "Its name.")),
                ("filterState", named("A value in Envoy's filter state.", "key", "Its key.")),
            ],
        );
        list(description, requiring(policy, &["type"]))
    }

    fn load_balancer() -> Value {
        let size =
            |description: &str, most: u32| with(int32(description), [("minimum", 1.into()), ("maximum", most.into())]);
        let older = "Deprecated: use hashPolicies beside loadBalancer.";
        let least_request = closed(
            "Of some hosts at random the one with the fewest requests.",
            [
                ("choiceCount", with(int32("Of how many; 2 is usual."), [("minimum", 2.into())])),
                ("activeRequestBias", number_or_text("How much requests under way weigh; at least 0.")),
            ],
        );
        let ring_hash = closed(
            "By a ring of hashes.",
            [
                ("hashFunction", word("The function.", &["XXHash", "MurmurHash2"])),
                ("minRingSize", size("The smallest ring.", 8_000_000)),
                ("maxRingSize", size("The largest ring.", 8_000_000)),
                ("hashPolicies", hash_policies(older)),
            ],
        );
        let maglev = closed(
            "By a table of hashes.",
            [
                ("tableSize", size("The size of the table, a prime number.", 5_000_011)),
                ("hashPolicies", hash_policies(older)),
            ],
        );
        let balancer = closed(
            "The balancer.",
            [
                ("type", word("Which of the others counts.", BALANCERS)),
                ("roundRobin", closed("One after the other.", [])),
                ("leastRequest", least_request),
                ("ringHash", ring_hash),
                ("random", closed("At random.", [])),
                ("maglev", maglev),
            ],
        );
        requiring(balancer, &["type"])
    }

    fn locality_awareness() -> Value {
        let tag = closed(
            "One tag.",
            [
                ("key", text("Hosts whose value is that of the caller are preferred.")),
                ("weight", int32("How much; above 0, for all tags or for none.")),
            ],
        );
        let local = closed(
            "Inside the zone.",
            [("affinityTags", list("Tags that make a host near.", requiring(tag, &["key"])))],
        );
        closed(
            "Near hosts before far ones.",
            [("disabled", flag("Whether all hosts are alike.")), ("localZone", local), ("crossZone", cross_zone())],
        )
    }

    fn cross_zone() -> Value {
        let from = closed("The zones that the rule is for.", [("zones", texts("Their names."))]);
        let to = closed(
            "The zones that traffic goes to.",
            [
                ("type", word("How they are chosen.", FAILOVER_TYPES)),
                ("zones", texts("Their names, with Only and AnyExcept.")),
            ],
        );
        let rule = closed("One rule.", [("from", requiring(from, &["zones"])), ("to", requiring(to, &["type"]))]);
        let threshold = closed(
            "When to go on to the next rule.",
            [("percentage", number_or_text("Below how many percent of live hosts; above 0, at most 100."))],
        );
        closed(
            "Between zones, when the own one has too few hosts.",
            [
                ("failover", list("Rules in the order in which they are tried.", requiring(rule, &["to"]))),
                ("failoverThreshold", requiring(threshold, &["percentage"])),
            ],
        )
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{accepts, refuses, refuses_below};

    const KIND: &str = "MeshLoadBalancingStrategy";

    #[track_caller]
    fn check(conf: &str, expected: &[&str]) {
        let spec = format!("{{to: [{{targetRef: {{kind: Mesh}}, default: {conf}}}]}}");
        refuses_below("spec.to[0].default.", KIND, &spec, expected);
    }

    #[test]
    fn a_body_of_another_type_has_no_effect() {
        let spec = |conf: &str| format!("{{to: [{{targetRef: {{kind: Mesh}}, default: {{loadBalancer: {conf}}}}}]}}");
        let warned = |body: &str| format!("spec.to[0].default.loadBalancer.{body} SUSPICIOUS");
        accepts(KIND, &spec("{type: RoundRobin, leastRequest: {activeRequestBias: '-1'}}"), &[&warned("leastRequest")]);
        accepts(KIND, &spec("{type: Maglev, maglev: {}, ringHash: {minRingSize: 5}}"), &[&warned("ringHash")]);
        accepts(KIND, &spec("{type: RingHash, ringHash: {minRingSize: 5}}"), &[]);
        check(
            "{loadBalancer: {type: LeastRequest, leastRequest: {activeRequestBias: '-1'}}}",
            &["loadBalancer.leastRequest.activeRequestBias POS"],
        );
    }

    #[test]
    fn zones_without_a_name() {
        let spec = |rule: &str| {
            format!(
                "{{to: [{{targetRef: {{kind: Mesh}}, default: {{localityAwareness: {{crossZone: {{failover: [{rule}]}}}}}}}}]}}"
            )
        };
        let field = "spec.to[0].default.localityAwareness.crossZone.failover[0]";
        accepts(KIND, &spec("{to: {type: Only, zones: ['']}}"), &[&format!("{field}.to.zones[0] SUSPICIOUS")]);
        refuses(KIND, &spec("{from: {zones: ['']}, to: {type: Any}}"), &[&format!("{field}.from.zones[0] EMPTY")]);
    }

    #[test]
    fn cross_zone_is_judged_even_if_the_reference_is_invalid() {
        refuses(
            KIND,
            "{to: [{targetRef: {kind: MeshService, name: a, labels: {b: c}}, \
             default: {localityAwareness: {crossZone: {failover: [{to: {type: Any}}]}}}}]}",
            &["spec.to[0].targetRef.labels NAMEORLABELS", "spec.to[0].default.localityAwareness.crossZone CTX"],
        );
    }

    #[test]
    fn hash_policies() {
        accepts(KIND, "{to: [{targetRef: {kind: Mesh}}]}", &[]);
        check(
            "{hashPolicies: [{type: Header}, {type: SourceIP}, {type: Connection, connection: {}}]}",
            &["hashPolicies[0].header REQ", "hashPolicies[1].connection REQ"],
        );
        check("{hashPolicies: [{type: Cookie, cookie: {name: c, path: x}}]}", &["hashPolicies[0].cookie.path FORMAT"]);
        check(
            "{hashPolicies: [], loadBalancer: {type: Random, ringHash: {hashPolicies: []}}}",
            &["loadBalancer.ringHash.hashPolicies XOR"],
        );
        accepts(
            KIND,
            "{to: [{targetRef: {kind: Mesh}, default: {loadBalancer: {type: Maglev, maglev: {hashPolicies: [{type: SourceIP, connection: {}}]}}}}]}",
            &[
                "spec.to[0].default.loadBalancer.maglev.hashPolicies DEPRECATED",
                "spec.to[0].default.loadBalancer.maglev.hashPolicies[0].type DEPRECATED",
            ],
        );
    }

    #[test]
    fn balancers() {
        let bias = |bias: &str| {
            format!("{{loadBalancer: {{type: LeastRequest, leastRequest: {{activeRequestBias: {bias}}}}}}}")
        };
        check(&bias("'0.5'"), &[]);
        check(&bias("0"), &[]);
        check(&bias("-1"), &["loadBalancer.leastRequest.activeRequestBias POS"]);
        check(&bias("x"), &["loadBalancer.leastRequest.activeRequestBias FORMAT"]);
    }

    #[test]
    fn affinity() {
        let tags = |tags: &str| format!("{{localityAwareness: {{localZone: {{affinityTags: [{tags}]}}}}}}");
        check(&tags("{key: a}, {key: b}"), &[]);
        check(
            &tags("{key: '', weight: 0}"),
            &[
                "localityAwareness.localZone.affinityTags[0].key EMPTY",
                "localityAwareness.localZone.affinityTags[0].weight POS",
            ],
        );
        check(&tags("{key: a, weight: 1}, {key: b}"), &["localityAwareness.localZone.affinityTags CTX"]);
    }

    #[test]
    fn failover() {
        let rule = |rule: &str| format!("{{localityAwareness: {{crossZone: {{failover: [{rule}]}}}}}}");
        let below = "localityAwareness.crossZone.failover[0]";
        let check_rule = |text: &str, expected: &[&str]| {
            let expected: Vec<_> = expected.iter().map(|finding| format!("{below}{finding}")).collect();
            check(&rule(text), &expected.iter().map(String::as_str).collect::<Vec<_>>());
        };
        check_rule("{to: {type: Any}}", &[]);
        check_rule("{from: {}, to: {type: None}}", &[".from.zones EMPTY"]);
        check_rule("{from: {zones: ['']}, to: {type: None}}", &[".from.zones[0] EMPTY"]);
        check_rule("{to: {type: Any, zones: [a]}}", &[".to.zones CTX"]);
        check_rule("{to: {type: AnyExcept}}", &[".to.zones EMPTY"]);
        check_rule("{to: {type: All}}", &[".to.type ENUM"]);
    }

    #[test]
    fn thresholds() {
        for (share, class) in [("0", "POS"), ("101", "RANGE"), ("-1", "RANGE"), ("x", "FORMAT")] {
            let conf = format!("{{localityAwareness: {{crossZone: {{failoverThreshold: {{percentage: {share}}}}}}}}}");
            check(&conf, &[&format!("localityAwareness.crossZone.failoverThreshold.percentage {class}")]);
        }
        check("{localityAwareness: {crossZone: {failoverThreshold: {percentage: '99.9'}}}}", &[]);
    }

    #[test]
    fn destinations_limit_the_conf() {
        let spec = |reference: &str, conf: &str| format!("{{to: [{{targetRef: {reference}, default: {conf}}}]}}");
        let cross = "{localityAwareness: {crossZone: {}}}";
        refuses(
            KIND,
            &spec("{kind: MeshService, labels: {a: b}}", cross),
            &["spec.to[0].default.localityAwareness.crossZone CTX"],
        );
        refuses(KIND, &spec("{kind: MeshService, name: a}", cross), &[]);
        refuses(
            KIND,
            &spec("{kind: MeshHTTPRoute, name: a}", "{loadBalancer: {type: Random}, localityAwareness: {}}"),
            &["spec.to[0].default.loadBalancer CTX", "spec.to[0].default.localityAwareness CTX"],
        );
        refuses(
            KIND,
            &spec("{kind: MeshTCPRoute, name: a}", "{hashPolicies: [{type: Header, header: {name: a}}]}"),
            &["spec.to[0].default.hashPolicies[0].type CTX"],
        );
        refuses(KIND, &spec("{kind: MeshExternalService, name: a}", "{}"), &["spec.to[0].targetRef.kind KIND"]);
        let gateway = "targetRef: {kind: MeshGateway, name: edge}";
        let to =
            |conf: &str| format!("{{{gateway}, to: [{{targetRef: {{kind: MeshService, name: a}}, default: {conf}}}]}}");
        refuses(KIND, &to("{loadBalancer: {type: Random}}"), &["spec.to[0].targetRef.kind KIND"]);
        refuses(KIND, &to("{localityAwareness: {disabled: true}}"), &[]);
        refuses(
            KIND,
            "{targetRef: {kind: Dataplane}, to: [{targetRef: {kind: MeshExternalService, name: a}}]}",
            &["spec.to[0].targetRef.kind KIND", "spec.to[0].targetRef.kind CTX"],
        );
    }
}
