//! MeshTCPRoute.

use super::policy::{Policy, Resource};
use super::{backend_ref, route_rule};
use crate::compile::Findings;
use crate::core::mesh::policy::PolicyKind;
use crate::core::mesh::tcp_route::{TcpRoute, TcpRouteTo};
use crate::core::problem::Reason;

/// Compiles the content; `None` if there are errors.
pub(in crate::compile) fn compile(resource: &Resource<'_>, findings: &mut Findings) -> Option<TcpRoute> {
    let before = findings.errors.len();
    let policy = Policy::read(PolicyKind::TcpRoute, resource, findings);
    let mut to = Vec::new();
    policy.each_to(findings, |entry, findings| {
        let rules = route_rule::read_list(entry, findings);
        if rules.len() > 1 {
            let message = "at most one rule: connections all look alike";
            findings.refuse_by_schema(&entry.object.path.field("rules"), Reason::Range, message);
        }
        let mut backends = Vec::new();
        for rule in rules {
            let list = rule.part("backendRefs", findings);
            rule.finish(findings);
            if !list.is_filled() {
                findings.refuse(&list.path, Reason::Required, "required: where the connections go");
            }
            let read = backend_ref::read_list(&list, None, findings);
            if backends.is_empty() {
                backends = read;
            }
        }
        to.extend(
            entry
                .reference
                .target
                .clone()
                .map(|target| TcpRouteTo { target, backends }),
        );
    });
    let target = policy.finish(findings)?;
    (findings.errors.len() == before).then_some(TcpRoute { target, to })
}
