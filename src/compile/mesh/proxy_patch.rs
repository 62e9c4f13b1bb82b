//! MeshProxyPatch: modifications of the finished Envoy configuration.

use super::policy::{Policy, Resource};
use crate::compile::Findings;
use crate::compile::modification::{self, Dialect};
use crate::core::envoy::modification::Modification;
use crate::core::mesh::policy::PolicyKind;
use crate::core::problem::Reason;

/// Compiles the content, leaving out modifications with findings.
pub(in crate::compile) fn compile(resource: &Resource<'_>, findings: &mut Findings) -> Vec<Modification> {
    let policy = Policy::read(PolicyKind::ProxyPatch, resource, findings);
    let conf = policy.spec.get("default").object(findings);
    let list = conf.get("appendModifications");
    conf.warn_of_unknown(findings);
    if !list.is_filled() {
        findings.refuse(&list.path, Reason::Empty, "may not be empty");
    }
    let modifications = modification::read_list(&list, Dialect::MeshProxyPatch, findings);
    policy.finish(findings);
    modifications
}
