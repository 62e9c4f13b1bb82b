//! MeshHTTPRoute, in its canonical and its older form.

mod filters;
mod matches;
pub(super) mod schema;

use super::policy::{Entry, Policy, Resource};
use super::route_rule::RouteRule;
use super::{backend_ref, route_rule};
use crate::compile::Findings;
use crate::compile::mesh::record::{PolicyRecord, RecordSchemas, policy_kind};
use crate::compile::mesh::target_ref::Places;
use crate::compile::mesh::target_ref::places::{GATEWAYS, MESH, PROXIES_AND_SERVICES, SERVICES};
use crate::core::mesh::backend::BackendRef;
use crate::core::mesh::http_route::{HttpRoute, HttpRouteTo, Match, PathMatch, Rule};
use crate::core::mesh::kind::{MergeRule, PolicyKind};
use crate::core::mesh::target_ref::TargetKind;
use crate::core::problem::Reason;

pub(super) static RECORD: PolicyRecord = PolicyRecord {
    kind: PolicyKind {
        to: true,
        destinations: SERVICES,
        merge: MergeRule::HttpRoutes,
        ..policy_kind(100, "MeshHTTPRoute", "mhttpr", "meshhttproutes")
    },
    description: "Where HTTP requests go, and how.",
    places: Places {
        top_of_system: GATEWAYS,
        listener_tags: true,
        to_below: Some((GATEWAYS, MESH)),
        ..Places::at_top(PROXIES_AND_SERVICES)
    },
    spec: schema::spec,
    check: |resource, findings| drop(compile(resource, findings)),
    filled_in: &[],
    schemas: RecordSchemas::new(),
};

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
    let policy = Policy::read(&RECORD, resource, findings);
    let below_gateway = policy.top.kind == Some(TargetKind::MeshGateway);
    let mut to = Vec::new();
    policy.each_to(findings, |entry, findings| {
        let hostnames = read_hostnames(entry, below_gateway, findings);
        let rules = route_rule::read_list(entry, findings);
        let rules = rules.iter().map(|rule| read_rule(rule, below_gateway, findings)).collect();
        to.extend(entry.reference.target.clone().map(|target| HttpRouteTo { target, hostnames, rules }));
    });
    let target = policy.finish(findings)?;
    (findings.errors.len() == before).then_some(HttpRoute { target, to })
}

fn read_hostnames(entry: &Entry<'_>, below_gateway: bool, findings: &mut Findings) -> Vec<String> {
    let field = entry.object.get("hostnames");
    if field.is_filled_list() && !below_gateway {
        findings.refuse(field.path, Reason::Forbidden, "only permitted with a MeshGateway at the top level");
    }
    field.list(findings).iter().filter_map(|name| Some(name.text(findings)?.into_owned())).collect()
}

fn read_rule(rule: &RouteRule<'_>, below_gateway: bool, findings: &mut Findings) -> Rule {
    let matches_field = rule.object.get("matches");
    let matches = matches::read_list(&matches_field, findings);
    if rule.object.is_null("matches") {
        // The matches were meant, one level too shallow; without this the rule would match everything.
        let is_outside = |name: &&&'static str| rule.object.peek(name).is_present();
        if let Some(outside) = ["path", "method", "queryParams", "headers"].iter().find(is_outside) {
            let message = format!("required: `{outside}` stands beside `matches`; indent it as an entry of `matches`");
            findings.refuse(matches_field.path, Reason::Required, message);
        }
    }
    let filters_field = rule.part("filters", findings);
    let backends_field = rule.part("backendRefs", findings);
    rule.finish(findings);

    let by_prefix = matches.iter().all(|one| matches!(one.path, Some(PathMatch::Prefix(_))));
    let surroundings = Surroundings { below_gateway, by_prefix };
    let filters = filters_field.is_present().then(|| filters::read_list(&filters_field, surroundings, findings));
    if below_gateway && !backends_field.is_filled() && !filters::redirects(&filters_field) {
        let message =
            "may not be empty below a gateway, which has no destination of its own, unless a filter redirects";
        findings.refuse(backends_field.path, Reason::Empty, message);
    }
    let backends = backends_field.is_present().then(|| {
        let exempt = Some(BackendRef::UNRESOLVED);
        backend_ref::read_list(&backends_field, exempt, findings)
    });
    Rule { matches: if matches.is_empty() { vec![Match::everything()] } else { matches }, filters, backends }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{accepts, document, findings, refuses};
    use crate::compile::mesh;
    use crate::core::mesh::http_route::{Match, Method, PathMatch, Rule};

    fn rules(spec: &str) -> Vec<Rule> {
        let (route, findings) = mesh::http_route(&document("MeshHTTPRoute", spec));
        route.unwrap_or_else(|| panic!("{spec}: {:?}", findings.errors)).to.remove(0).rules
    }

    fn with_rules(rules: &str) -> String {
        format!("{{to: [{{targetRef: {{kind: MeshService, labels: {{a: b}}}}, rules: {rules}}}]}}")
    }

    #[test]
    fn nothing_but_a_destination_and_rules_is_needed() {
        accepts("MeshHTTPRoute", "{}", &[]);
        accepts("MeshHTTPRoute", &with_rules("[]"), &[]);
        accepts("MeshHTTPRoute", &with_rules("[{default: {backendRefs: []}}]"), &[]);
    }

    #[test]
    fn gateways_have_no_destination_of_their_own() {
        let gateway = |to: &str| {
            format!("{{targetRef: {{kind: MeshGateway, name: edge}}, to: [{{targetRef: {{kind: Mesh}}, {to}}}]}}")
        };
        refuses("MeshHTTPRoute", &gateway("rules: [{}]"), &["spec.to[0].rules[0].default.backendRefs EMPTY"]);
        let redirect = "rules: [{default: {filters: [{type: RequestRedirect, requestRedirect: {port: 443}}]}}]";
        refuses("MeshHTTPRoute", &gateway(redirect), &[]);
        refuses("MeshHTTPRoute", &gateway("hostnames: [a.b], rules: []"), &[]);
        refuses(
            "MeshHTTPRoute",
            "{to: [{targetRef: {kind: MeshService, name: a}, hostnames: [a.b]}]}",
            &["spec.to[0].hostnames FORBID"],
        );
    }

    #[test]
    fn the_unresolved_backend_passes() {
        let rule =
            |name: &str| with_rules(&format!("[{{default: {{backendRefs: [{{kind: MeshService, name: {name}}}]}}}}]"));
        refuses("MeshHTTPRoute", &rule("kuma.io/unresolved-backend"), &[]);
        refuses("MeshHTTPRoute", &rule("kuma.io/other"), &["spec.to[0].rules[0].default.backendRefs[0].name FORMAT"]);
    }

    #[test]
    fn both_forms_give_the_same_rules() {
        let canonical = rules(&with_rules(
            "[{matches: [{path: {type: PathPrefix, value: /v1}, method: GET}, {path: {type: PathPrefix, value: /v1}, method: POST}], \
             default: {filters: [{type: RequestHeaderModifier, requestHeaderModifier: {remove: [x]}}], \
             backendRefs: [{kind: MeshServiceSubset, name: b, tags: {version: v1}}]}}]",
        ));
        let older = rules(
            "{to: [{targetRef: {kind: MeshService, labels: {a: b}}, default: {rules: [{matches: {path: {prefix: /v1}, \
             methods: [GET, POST]}, filters: [{requestHeader: {remove: [x]}}], \
             backendRefs: [{kind: MeshService, name: b, tags: {version: v1}}]}]}}]}",
        );
        assert_eq!(canonical, older);
        let prefix = Some(PathMatch::Prefix("/v1".to_owned()));
        let expected = [Method::Get, Method::Post].map(|method| Match {
            path: prefix.clone(),
            method: Some(method),
            ..Match::default()
        });
        assert_eq!(canonical[0].matches, expected);
    }

    #[test]
    fn older_forms_are_warned_of() {
        accepts(
            "MeshHTTPRoute",
            "{to: [{targetRef: {kind: MeshService, labels: {a: b}}, default: {rules: [{matches: {path: {prefix: /}}, \
             filters: [{responseHeader: {remove: [x]}}]}]}}]}",
            &[
                "spec.to[0].default.rules DEPRECATED",
                "spec.to[0].default.rules[0].matches DEPRECATED",
                "spec.to[0].default.rules[0].matches.path.prefix DEPRECATED",
                "spec.to[0].default.rules[0].filters DEPRECATED",
                "spec.to[0].default.rules[0].filters[0].responseHeader DEPRECATED",
                "spec.to[0].default.rules[0].filters[0].type DEPRECATED",
            ],
        );
    }

    #[test]
    fn one_form_at_a_time() {
        refuses(
            "MeshHTTPRoute",
            "{to: [{targetRef: {kind: MeshService, name: a}, rules: [], default: {rules: []}}]}",
            &["spec.to[0] XOR"],
        );
        refuses("MeshHTTPRoute", &with_rules("[{filters: [], default: {filters: []}}]"), &["spec.to[0].rules[0] XOR"]);
        refuses("MeshHTTPRoute", &with_rules("[{filters: [], default: {backendRefs: []}}]"), &[]);
    }

    #[test]
    fn matches_that_stand_one_level_too_high() {
        let wrong = "[{matches: null, path: {type: PathPrefix, value: /a}, default: {}}]";
        refuses("MeshHTTPRoute", &with_rules(wrong), &["spec.to[0].rules[0].matches REQ"]);
        refuses("MeshHTTPRoute", &with_rules("[{matches: null, default: {}}]"), &[]);
    }

    #[test]
    fn names_of_headers_are_in_lower_case() {
        let rule = |list: &str| {
            with_rules(&format!(
                "[{{default: {{filters: [{{type: RequestHeaderModifier, requestHeaderModifier: {{{list}}}}}]}}}}]"
            ))
        };
        let schema = |spec: &str| {
            let found = findings("MeshHTTPRoute", spec).schema;
            found.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
        };
        let set = schema(&rule("set: [{name: X-A, value: b}]"));
        assert!(set.contains("requestHeaderModifier.set[0].name") && set.ends_with("write it in lower case"), "{set}");
        assert_eq!(schema(&rule("remove: [X-A]")), "");
    }

    #[test]
    fn a_rule_without_matches_matches_everything() {
        for rule in ["{}", "{matches: []}", "{matches: [{path: {type: PathPrefix, value: /}}]}"] {
            assert_eq!(rules(&with_rules(&format!("[{rule}]")))[0].matches, [Match::everything()], "{rule}");
        }
    }
}
