//! MeshLoadBalancingStrategy.

use std::cmp::Ordering;

use super::policy::{Entry, Policy, Resource};
use crate::compile::Findings;
use crate::compile::reader::{Node, Object};
use crate::compile::scalars::UINT32;
use crate::compile::target_ref::Place;
use crate::core::mesh::policy::PolicyKind;
use crate::core::mesh::target_ref::{ResourceRef, TargetKind, TargetRef};
use crate::core::problem::{FieldPath, Reason};

/// The types of a hash policy, and the body that each needs.
const HASHES: &[(&str, &str)] = &[
    ("Header", "header"),
    ("Cookie", "cookie"),
    ("Connection", "connection"),
    ("SourceIP", "connection"),
    ("QueryParameter", "queryParameter"),
    ("FilterState", "filterState"),
];
const HASH_TYPES: &[&str] = &[
    "Header",
    "Cookie",
    "Connection",
    "SourceIP",
    "QueryParameter",
    "FilterState",
];
const BALANCERS: &[&str] = &["RoundRobin", "LeastRequest", "RingHash", "Random", "Maglev"];

pub(in crate::compile) fn check(resource: &Resource<'_>, findings: &mut Findings) {
    let policy = Policy::read(PolicyKind::LoadBalancingStrategy, resource, findings);
    let top = policy.top.kind;
    let narrow = |entry: &Object<'_>| {
        // A gateway has one load balancer for all destinations.
        let balances = entry.peek("default").below("loadBalancer").is_present();
        (top == Some(TargetKind::MeshGateway) && balances).then(|| Place::of(&[TargetKind::Mesh]))
    };
    policy.each_to_narrowed(narrow, findings, |entry, findings| {
        if entry.kind() == Some(TargetKind::MeshExternalService) && top != Some(TargetKind::Mesh) {
            let kind = entry.object.path.field("targetRef").field("kind");
            findings.refuse(
                &kind,
                Reason::Context,
                "only valid when the top level is the whole Mesh",
            );
        }
        check_conf(entry, findings);
    });
    policy.finish(findings);
}

fn check_conf(entry: &Entry<'_>, findings: &mut Findings) {
    let conf = entry.conf.object(findings);
    let (hashes, balancer, locality) = (
        conf.get("hashPolicies"),
        conf.get("loadBalancer"),
        conf.get("localityAwareness"),
    );
    conf.warn_of_unknown(findings);
    if let Some(route) = entry.kind().filter(|kind| kind.is_route()) {
        for field in [&balancer, &locality] {
            if field.is_present() {
                let message = format!("not valid for a {}: only hashPolicies are", route.name());
                findings.refuse(&field.path, Reason::Context, message);
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
        check_balancer(&balancer, &conf.path, hashes.is_present(), findings);
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
            findings.refuse(&body.path, Reason::Required, format!("required with type {kind}"));
        }
        if *kind == "SourceIP" {
            findings.warn(
                &kind_field.path,
                Reason::Deprecated,
                "type SourceIP is deprecated: use Connection instead",
            );
        }
        if *kind == "Cookie" {
            let cookie = body.object(findings);
            cookie.get("name").text(findings);
            cookie.get("ttl").duration(findings);
            let path = cookie.get("path");
            cookie.warn_of_unknown(findings);
            if path.text(findings).is_some_and(|path| !path.starts_with('/')) {
                findings.refuse(&path.path, Reason::Format, "malformed: an absolute path");
            }
        }
    }
}

/// A connection is all that a TCP route knows of its caller.
fn refuse_http_hashes(list: &Node<'_>, findings: &mut Findings) {
    for hash in list.list(&mut Findings::default()) {
        let kind = hash.below("type");
        if kind
            .value()
            .and_then(|kind| kind.as_str())
            .is_some_and(|kind| !matches!(kind, "Connection" | "SourceIP"))
        {
            findings.refuse(
                &kind.path,
                Reason::Context,
                "not valid for a MeshTCPRoute: only Connection is",
            );
        }
    }
}

fn check_balancer(field: &Node<'_>, conf: &FieldPath, has_hashes: bool, findings: &mut Findings) {
    let balancer = field.object(findings);
    balancer.get("type").schema_word(BALANCERS, findings);
    let (least, ring, maglev) = (
        balancer.get("leastRequest"),
        balancer.get("ringHash"),
        balancer.get("maglev"),
    );
    balancer.warn_of_unknown(findings);

    let least = least.object(findings);
    least
        .get("activeRequestBias")
        .decimal_above(&[Ordering::Greater, Ordering::Equal], findings);
    least.get("choiceCount").integer(UINT32, findings);
    least.warn_of_unknown(findings);

    for (body, sizes) in [(ring, &["minRingSize", "maxRingSize"][..]), (maglev, &["tableSize"])] {
        let body = body.object(findings);
        body.knows(&["hashFunction"]);
        for size in sizes {
            body.get(size).integer(UINT32, findings);
        }
        let hashes = body.get("hashPolicies");
        body.warn_of_unknown(findings);
        if !hashes.is_present() {
            continue;
        }
        let better = conf.field("hashPolicies");
        if has_hashes {
            findings.refuse(&hashes.path, Reason::Xor, format!("exactly one place: keep {better}"));
        }
        findings.warn(
            &hashes.path,
            Reason::Deprecated,
            format!("deprecated: use {better} instead"),
        );
        check_hashes(&hashes, findings);
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
    if let Some(TargetRef::MeshService { service, section }) = &entry.reference.target
        && (section.is_some() || matches!(service, ResourceRef::Labelled(_)))
    {
        let message = "not valid for one zone's service (sectionName or labels): use MeshMultiZoneService";
        findings.refuse(&cross.path, Reason::Context, message);
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
            findings.refuse(&key.path, Reason::Empty, "may not be empty");
        }
        weight.positive_integer(UINT32, findings);
        weighted.push(weight.is_present());
    }
    if weighted.contains(&true) && weighted.contains(&false) {
        findings.refuse(
            &list.path,
            Reason::Context,
            "only valid when all entries have a weight, or none",
        );
    }
}

fn check_failover(rule: &Node<'_>, findings: &mut Findings) {
    let rule = rule.object(findings);
    let (from, to) = (rule.get("from"), rule.get("to"));
    rule.warn_of_unknown(findings);
    if from.is_present() {
        let from = from.object(findings);
        check_zones(&from.get("zones"), findings);
        from.warn_of_unknown(findings);
    }
    let to = to.object(findings);
    let (kind, zones) = (to.get("type"), to.get("zones"));
    to.warn_of_unknown(findings);
    match kind.word(&["Any", "None", "Only", "AnyExcept"], findings) {
        Some(word @ ("Any" | "None")) if zones.is_filled() => {
            findings.refuse(&zones.path, Reason::Context, format!("not valid with type {word}"));
        }
        Some("Only" | "AnyExcept") => check_zones(&zones, findings),
        _ => {}
    }
}

fn check_zones(zones: &Node<'_>, findings: &mut Findings) {
    let names = zones.list(findings);
    if names.is_empty() {
        findings.refuse(&zones.path, Reason::Empty, "may not be empty");
    }
    for name in names {
        if !name.is_filled() {
            findings.refuse(&name.path, Reason::Empty, "may not be empty");
        }
    }
}

fn check_threshold(threshold: &Node<'_>, findings: &mut Findings) {
    let object = threshold.object(findings);
    let percentage = object.get("percentage");
    object.warn_of_unknown(findings);
    let Some(share) = percentage.decimal(findings) else {
        if !percentage.is_present() {
            findings.refuse(&percentage.path, Reason::NotPositive, "a percentage above 0 is needed");
        }
        return;
    };
    if share.compare(0).is_eq() {
        findings.refuse(&percentage.path, Reason::NotPositive, "not above 0");
    } else if !share.is_within(0, 100) {
        findings.refuse(&percentage.path, Reason::Range, "outside (0,100]");
    }
}
