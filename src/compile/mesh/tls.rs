//! MeshTLS.

use super::policy::{Policy, Resource};
use crate::compile::Findings;
use crate::compile::mesh::record::{PolicyRecord, RecordSchemas, policy_kind};
use crate::compile::mesh::target_ref::Places;
use crate::compile::mesh::target_ref::places::{MESH, PROXIES};
use crate::compile::reader::Node;
use crate::core::mesh::kind::PolicyKind;
use crate::core::mesh::target_ref::TargetKind;
use crate::core::problem::Reason;

pub(super) static RECORD: PolicyRecord = PolicyRecord {
    kind: PolicyKind {
        from: true,
        rules: true,
        from_as_rules: true,
        ..policy_kind(300, "MeshTLS", "mtls", "meshtlses")
    },
    description: "Whether and how services insist on TLS.",
    places: Places { from: MESH, ..Places::at_top(PROXIES) },
    spec: schema::spec,
    check,
    filled_in: &[],
    schemas: RecordSchemas::new(),
};

const MODES: &[&str] = &["Permissive", "Strict"];

const CIPHERS: &[&str] = &[
    "ECDHE-ECDSA-AES128-GCM-SHA256",
    "ECDHE-ECDSA-AES256-GCM-SHA384",
    "ECDHE-ECDSA-CHACHA20-POLY1305",
    "ECDHE-RSA-AES128-GCM-SHA256",
    "ECDHE-RSA-AES256-GCM-SHA384",
    "ECDHE-RSA-CHACHA20-POLY1305",
];

/// From the oldest to the newest, after the one that leaves the choice to Envoy.
pub(super) const VERSIONS: &[&str] = &["TLSAuto", "TLS10", "TLS11", "TLS12", "TLS13"];

pub(in crate::compile) fn check(resource: &Resource<'_>, findings: &mut Findings) {
    let policy = Policy::read(&RECORD, resource, findings);
    policy.rules_exclude(&["from"], findings);
    let whole_mesh = policy.top.kind == Some(TargetKind::Mesh);
    policy.each_from(findings, |entry, findings| check_conf(&entry.conf, whole_mesh, findings));
    policy.each_rule(findings, |entry, findings| check_conf(&entry.conf, whole_mesh, findings));
    policy.finish(findings);
}

fn check_conf(conf: &Node<'_>, whole_mesh: bool, findings: &mut Findings) {
    let object = conf.object(findings);
    let (mode, ciphers, version) = (object.get("mode"), object.get("tlsCiphers"), object.get("tlsVersion"));
    object.warn_of_unknown(findings);
    if mode.is_present() {
        mode.word(MODES, findings);
    }
    if !whole_mesh {
        for (field, given) in [(&ciphers, ciphers.is_filled()), (&version, version.is_present())] {
            if given {
                let message = "only valid when the top level is the whole Mesh";
                findings.refuse(field.path, Reason::Context, message);
            }
        }
        return;
    }
    let names = ciphers.list(findings);
    if names.iter().any(|name| !CIPHERS.contains(&name.text(findings).unwrap_or_default().as_ref())) {
        let message = format!("unknown cipher suite; known: {}", CIPHERS.join(", "));
        findings.refuse(ciphers.path, Reason::Enum, message);
    }
    if version.is_present() {
        check_version(&version, findings);
    }
}

fn check_version(version: &Node<'_>, findings: &mut Findings) {
    let object = version.object(findings);
    let (min, max) = (object.get("min"), object.get("max"));
    object.warn_of_unknown(findings);
    let [lowest, highest] = [&min, &max].map(|field| {
        let word = if field.is_present() { field.word(VERSIONS, findings) } else { None };
        word.and_then(|word| VERSIONS.iter().position(|known| *known == word)).filter(|index| *index > 0)
    });
    if let (Some(lowest), Some(highest)) = (lowest, highest)
        && lowest > highest
    {
        findings.refuse(min.path, Reason::Context, "only valid when it is not above max");
    }
}

/// What the API server knows of the content.
pub(super) mod schema {
    use serde_json::Value;

    use super::{CIPHERS, MODES};
    use crate::api::schema::{closed, list, word};
    use crate::compile::mesh::forms::{Conf, from, policy, rules, tls_version};

    pub(in crate::compile::mesh) fn spec() -> Value {
        policy([from(conf(), Conf::Optional), rules(conf(), Conf::Optional)])
    }

    fn conf() -> Value {
        closed(
            "How callers are met.",
            [
                ("mode", word("Whether calls without TLS are let in.", MODES)),
                ("tlsVersion", tls_version()),
                ("tlsCiphers", list("Suites that are accepted; for the whole mesh only.", word("One suite.", CIPHERS))),
            ],
        )
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{accepts, refuses, refuses_below};

    #[track_caller]
    fn check(conf: &str, expected: &[&str]) {
        refuses_below("spec.rules[0].default", "MeshTLS", &format!("{{rules: [{{default: {conf}}}]}}"), expected);
    }

    #[test]
    fn values_are_known() {
        accepts("MeshTLS", "{rules: [{}]}", &[]);
        check("{mode: strict}", &[".mode ENUM"]);
        check("{tlsCiphers: [ECDHE-RSA-AES128-GCM-SHA256, A, B]}", &[".tlsCiphers ENUM"]);
        check("{tlsVersion: {min: TLS12, max: TLS15}}", &[".tlsVersion.max ENUM"]);
    }

    #[test]
    fn versions_are_in_order() {
        check("{tlsVersion: {min: TLS13, max: TLS12}}", &[".tlsVersion.min CTX"]);
        check("{tlsVersion: {min: TLS12, max: TLS12}}", &[]);
        check("{tlsVersion: {min: TLS13, max: TLSAuto}}", &[]);
    }

    #[test]
    fn versions_and_ciphers_are_of_the_whole_mesh() {
        refuses(
            "MeshTLS",
            "{targetRef: {kind: Dataplane}, rules: [{default: {mode: Strict, tlsCiphers: [x], tlsVersion: {min: y}}}]}",
            &["spec.rules[0].default.tlsCiphers CTX", "spec.rules[0].default.tlsVersion CTX"],
        );
        refuses("MeshTLS", "{from: [{targetRef: {kind: Mesh}}], rules: [{}]}", &["spec XOR"]);
    }
}
