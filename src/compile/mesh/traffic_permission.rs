//! MeshTrafficPermission.

use super::caller::{self, Strictness};
use super::policy::{Policy, Resource};
use crate::compile::Findings;
use crate::compile::reader::Node;
use crate::core::mesh::policy::PolicyKind;
use crate::core::mesh::target_ref::TargetKind;
use crate::core::problem::Reason;

pub(in crate::compile) fn check(resource: &Resource<'_>, findings: &mut Findings) {
    let policy = Policy::read(PolicyKind::TrafficPermission, resource, findings);
    policy.rules_exclude(&["from"], findings);
    policy.needs_any(&["from", "rules"], findings);
    let mut services = Vec::new();
    policy.each_from(findings, |entry, findings| {
        let conf = entry.conf.object(findings);
        let action = conf.get("action");
        conf.warn_of_unknown(findings);
        if action.is_filled() {
            action.schema_word(&["Allow", "Deny", "AllowWithShadowDeny"], findings);
        } else {
            findings.refuse(
                &action.path,
                Reason::Required,
                "required; one of Allow, Deny, AllowWithShadowDeny",
            );
        }
        if entry.kind() == Some(TargetKind::MeshService) {
            services.push(entry.object.path.field("targetRef").field("kind"));
        }
    });
    for service in services {
        let message = "MeshService as a source is deprecated: use MeshSubset with the tag kuma.io/service";
        findings.warn(&service, Reason::Deprecated, message);
    }
    policy.each_rule(findings, |entry, findings| {
        let conf = entry.conf.object(findings);
        let lists = ["allow", "allowWithShadowDeny", "deny"].map(|list| conf.get(list));
        conf.warn_of_unknown(findings);
        if !lists.iter().any(Node::is_filled_list) {
            findings.refuse(
                &entry.object.path,
                Reason::AnyOf,
                "at least one of allow, allowWithShadowDeny, deny",
            );
        }
        for list in lists {
            caller::read_list(&list, Strictness::Lenient, findings);
        }
    });
    policy.finish(findings);
}
