//! MeshProxyPatch: modifications of the finished Envoy configuration.

use super::policy::{Policy, Resource};
use crate::compile::Findings;
use crate::compile::modification::{self, Dialect};
use crate::core::mesh::policy::PolicyKind;
use crate::core::mesh::proxy_patch::ProxyPatch;
use crate::core::problem::Reason;

/// Compiles the content; `None` if there are errors.
pub(in crate::compile) fn compile(resource: &Resource<'_>, findings: &mut Findings) -> Option<ProxyPatch> {
    let before = findings.errors.len();
    let policy = Policy::read(PolicyKind::ProxyPatch, resource, findings);
    let conf = policy.spec.get("default").object(findings);
    let list = conf.get("appendModifications");
    conf.warn_of_unknown(findings);
    if !list.is_filled() {
        findings.refuse(&list.path, Reason::Empty, "may not be empty");
    }
    let modifications = modification::read_list(&list, Dialect::MeshProxyPatch, findings);
    let target = policy.finish(findings)?;
    (findings.errors.len() == before).then_some(ProxyPatch { target, modifications })
}
