//! MeshTrafficPermission.

use super::caller::{self, Strictness};
use super::policy::{Policy, Resource};
use crate::compile::Findings;
use crate::compile::mesh::record::{PolicyRecord, RecordSchemas, policy_kind};
use crate::compile::mesh::target_ref::Places;
use crate::compile::mesh::target_ref::places::{PROXIES_AND_SERVICES, SOURCES};
use crate::compile::reader::Node;
use crate::core::mesh::kind::PolicyKind;
use crate::core::mesh::target_ref::TargetKind;
use crate::core::problem::Reason;

pub(super) static RECORD: PolicyRecord = PolicyRecord {
    kind: PolicyKind {
        from: true,
        rules: true,
        ..policy_kind(1100, "MeshTrafficPermission", "mtp", "meshtrafficpermissions")
    },
    description: "Who may call whom.",
    places: Places { from: SOURCES, ..Places::at_top(PROXIES_AND_SERVICES) },
    spec: schema::spec,
    check,
    filled_in: &[],
    schemas: RecordSchemas::new(),
};

const ACTIONS: &[&str] = &["Allow", "Deny", "AllowWithShadowDeny"];

pub(in crate::compile) fn check(resource: &Resource<'_>, findings: &mut Findings) {
    let policy = Policy::read(&RECORD, resource, findings);
    policy.rules_exclude(&["from"], findings);
    policy.needs_any(&["from", "rules"], findings);
    let mut services = Vec::new();
    policy.each_from(findings, |entry, findings| {
        let conf = entry.conf.object(findings);
        let action = conf.get("action");
        conf.warn_of_unknown(findings);
        if action.is_filled() {
            action.schema_word(ACTIONS, findings);
        } else {
            findings.refuse(action.path, Reason::Required, "required; one of Allow, Deny, AllowWithShadowDeny");
        }
        if entry.kind() == Some(TargetKind::MeshService) {
            services.push(entry.object.path.field("targetRef").field("kind"));
        }
    });
    for service in services {
        let message = "MeshService as a source is deprecated: use MeshSubset with the tag kuma.io/service";
        findings.warn(service, Reason::Deprecated, message);
    }
    policy.each_rule(findings, |entry, findings| {
        let conf = entry.conf.object(findings);
        let lists = ["allow", "allowWithShadowDeny", "deny"].map(|list| conf.get(list));
        conf.warn_of_unknown(findings);
        if !lists.iter().any(Node::is_filled_list) {
            findings.refuse(entry.object.path, Reason::AnyOf, "at least one of allow, allowWithShadowDeny, deny");
        }
        for list in lists {
            caller::read_list(&list, Strictness::Lenient, findings);
        }
    });
    policy.finish(findings);
}

/// What the API server knows of the content.
pub(super) mod schema {
    use serde_json::Value;

    use super::ACTIONS;
    use crate::api::schema::{closed, word};
    use crate::compile::mesh::forms::{Conf, callers, from, policy, rules};

    pub(in crate::compile::mesh) fn spec() -> Value {
        let action = word("What becomes of their requests.", ACTIONS);
        let lists = closed(
            "Who may call: deny beats allow.",
            [
                ("deny", callers("Who may not.")),
                ("allowWithShadowDeny", callers("Who may, with a note in the log as if not.")),
                ("allow", callers("Who may.")),
            ],
        );
        policy([
            from(closed("Whether they may call.", [("action", action)]), Conf::Optional),
            rules(lists, Conf::Required),
        ])
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{accepts, refuses};

    const KIND: &str = "MeshTrafficPermission";

    #[test]
    fn from_or_rules() {
        refuses(KIND, "{}", &["spec ANYOF"]);
        refuses(KIND, "{from: [{targetRef: {kind: Mesh}, default: {}}]}", &["spec.from[0].default.action REQ"]);
        refuses(
            KIND,
            "{from: [{targetRef: {kind: Mesh}, default: {action: Allow}}], rules: [{default: {}}]}",
            &["spec XOR", "spec.rules[0] ANYOF"],
        );
        accepts(
            KIND,
            "{from: [{targetRef: {kind: MeshService, name: web}, default: {action: Deny}}]}",
            &["spec.from REMOVED", "spec.from[0].targetRef.kind DEPRECATED"],
        );
    }

    #[test]
    fn callers() {
        accepts(KIND, "{rules: [{default: {allow: [{}], deny: [{sni: {type: Exact, value: a.b}}]}}]}", &[]);
        refuses(
            KIND,
            "{rules: [{default: {allow: [{spiffeID: {type: Exact, value: x}}], deny: [{sni: {value: A}}, {sni: {type: Prefix}}]}}]}",
            &[
                "spec.rules[0].default.allow[0].spiffeID FORMAT",
                "spec.rules[0].default.deny[0].sni.type REQ",
                "spec.rules[0].default.deny[0].sni.value FORMAT",
                "spec.rules[0].default.deny[1].sni.type ENUM",
                "spec.rules[0].default.deny[1].sni.value REQ",
            ],
        );
    }
}
