//! MeshHTTPRoute, in its canonical and its older form.

mod filters;
mod matches;

use super::policy::{Entry, Policy, Resource};
use super::route_rule::RouteRule;
use super::{backend_ref, route_rule};
use crate::compile::Findings;
use crate::core::mesh::backend::BackendRef;
use crate::core::mesh::http_route::{HttpRoute, HttpRouteTo, Match, PathMatch, Rule};
use crate::core::mesh::policy::PolicyKind;
use crate::core::mesh::target_ref::TargetKind;
use crate::core::problem::Reason;

/// What surrounds a filter and decides what it may say.
#[derive(Clone, Copy)]
struct Surroundings {
    below_gateway: bool,
    /// Whether every match of the rule is by path prefix.
    by_prefix: bool,
}

/// Compiles the content; `None` if there are errors.
pub(in crate::compile) fn compile(resource: &Resource<'_>, findings: &mut Findings) -> Option<HttpRoute> {
    let before = findings.errors.len();
    let policy = Policy::read(PolicyKind::HttpRoute, resource, findings);
    let below_gateway = policy.top.kind == Some(TargetKind::MeshGateway);
    let mut to = Vec::new();
    policy.each_to(findings, |entry, findings| {
        let hostnames = read_hostnames(entry, below_gateway, findings);
        let rules = route_rule::read_list(entry, findings);
        let rules = rules
            .iter()
            .map(|rule| read_rule(rule, below_gateway, findings))
            .collect();
        to.extend(entry.reference.target.clone().map(|target| HttpRouteTo {
            target,
            hostnames,
            rules,
        }));
    });
    let target = policy.finish(findings)?;
    (findings.errors.len() == before).then_some(HttpRoute { target, to })
}

fn read_hostnames(entry: &Entry<'_>, below_gateway: bool, findings: &mut Findings) -> Vec<String> {
    let field = entry.object.get("hostnames");
    if field.is_filled_list() && !below_gateway {
        findings.refuse(
            &field.path,
            Reason::Forbidden,
            "only permitted with a MeshGateway at the top level",
        );
    }
    field
        .list(findings)
        .iter()
        .filter_map(|name| Some(name.text(findings)?.into_owned()))
        .collect()
}

fn read_rule(rule: &RouteRule<'_>, below_gateway: bool, findings: &mut Findings) -> Rule {
    let matches_field = rule.object.get("matches");
    let matches = matches::read_list(&matches_field, findings);
    let filters_field = rule.part("filters", findings);
    let backends_field = rule.part("backendRefs", findings);
    rule.finish(findings);

    let by_prefix = matches.iter().all(|one| matches!(one.path, Some(PathMatch::Prefix(_))));
    let surroundings = Surroundings {
        below_gateway,
        by_prefix,
    };
    let filters = filters_field
        .is_present()
        .then(|| filters::read_list(&filters_field, surroundings, findings));
    if below_gateway && !backends_field.is_filled() && !filters::redirects(&filters_field) {
        let message =
            "may not be empty below a gateway, which has no destination of its own, unless a filter redirects";
        findings.refuse(&backends_field.path, Reason::Empty, message);
    }
    let backends = backends_field.is_present().then(|| {
        let exempt = Some(BackendRef::UNRESOLVED);
        backend_ref::read_list(&backends_field, exempt, findings)
    });
    Rule {
        matches: if matches.is_empty() {
            vec![Match::everything()]
        } else {
            matches
        },
        filters,
        backends,
    }
}
