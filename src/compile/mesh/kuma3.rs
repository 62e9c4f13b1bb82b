//! What Kuma 2 and Writ accept and Kuma 3 refuses: every such warning comes from here and has reason
//! [`Reason::Removed`], so that a check for Kuma 3 can turn them into errors. Each names the rewrite.

use crate::compile::Findings;
use crate::compile::reader::{Node, Object};
use crate::core::mesh::kind::PolicyKind;
use crate::core::mesh::target_ref::TargetKind;
use crate::core::problem::{FieldPath, Reason};

/// Warns of a ProxyTemplate, which goes as a whole.
pub(in crate::compile) fn warn_of_template(findings: &mut Findings) {
    findings.warn(FieldPath::root(), Reason::Removed, "ProxyTemplate is gone in Kuma 3; use MeshProxyPatch instead");
}

/// Warns of a kind at the top level that is not Mesh or Dataplane.
pub(super) fn warn_of_top(policy: &PolicyKind, kind: TargetKind, reference: &Node<'_>, findings: &mut Findings) {
    let rewrite = match kind {
        TargetKind::Mesh | TargetKind::Dataplane => return,
        TargetKind::MeshHttpRoute | TargetKind::MeshTcpRoute => "name the route in `spec.to[].targetRef` instead",
        TargetKind::MeshGateway => "Kuma 3 has no MeshGateway; use the Gateway API and kind Dataplane with labels",
        _ => "use kind Dataplane with labels instead",
    };
    let message = format!("{} at the top level of {} is deprecated: {rewrite}", kind.name(), policy.resource.kind);
    findings.warn(reference.path.field("kind"), Reason::Removed, message);
}

/// Warns of a `from` with something in it.
pub(super) fn warn_of_from(policy: &PolicyKind, spec: &Object<'_>, findings: &mut Findings) {
    let from = spec.peek("from");
    if !from.is_filled_list() {
        return;
    }
    let rewrite = match policy.from_as_rules {
        true => "use `rules` instead",
        false => "use `rules` with SPIFFE ID matches instead",
    };
    findings.warn(from.path, Reason::Removed, format!("deprecated: {rewrite}"));
}

/// Warns of the fields of references that went away: all but kind, labels and sectionName. A reference that has to go as
/// a whole (any other kind at the top level, any in `from`) is not looked into.
pub(super) fn warn_of_fields(top: Option<TargetKind>, spec: &Object<'_>, findings: &mut Findings) {
    if matches!(top, Some(TargetKind::Mesh | TargetKind::Dataplane)) {
        warn_of_reference(&spec.peek("targetRef"), findings);
    }
    for entry in elements(&spec.peek("to")) {
        warn_of_reference(&entry.below("targetRef"), findings);
        warn_of_rules(&entry, findings);
    }
}

/// The parts of routes.
fn warn_of_rules(entry: &Node<'_>, findings: &mut Findings) {
    let hostnames = entry.below("hostnames");
    if hostnames.is_filled_list() {
        findings.warn(
            hostnames.path,
            Reason::Removed,
            "Kuma 3 refuses hostnames here: use an HTTPRoute of the Gateway API",
        );
    }
    for rules in [entry.below("rules"), entry.below("default").below("rules")] {
        for rule in elements(&rules) {
            for holder in [rule.below("default"), rule] {
                elements(&holder.below("backendRefs")).iter().for_each(|backend| warn_of_reference(backend, findings));
                for filter in elements(&holder.below("filters")) {
                    warn_of_reference(&filter.below("requestMirror").below("backendRef"), findings);
                    let rewrite = filter.below("urlRewrite").below("hostToBackendHostname");
                    if rewrite.is_present() {
                        let message = "Kuma 3 refuses hostToBackendHostname: give the host name in `hostname`";
                        findings.warn(rewrite.path, Reason::Removed, message);
                    }
                }
            }
        }
    }
}

/// The fields of references that went away.
const FIELDS: &[&str] = &["name", "namespace", "tags", "mesh", "proxyTypes"];

fn warn_of_reference(reference: &Node<'_>, findings: &mut Findings) {
    if !reference.is_present() {
        return;
    }
    let kind_field = reference.below("kind");
    let kind = text(&kind_field);
    if matches!(kind, "MeshSubset" | "MeshServiceSubset" | "MeshGateway") {
        let message = format!("Kuma 3 has no {kind}: refer to a MeshService by labels");
        findings.warn(kind_field.path, Reason::Removed, message);
        return;
    }
    for name in FIELDS {
        let field = reference.below(name);
        if !field.is_filled() {
            continue;
        }
        let rewrite = match *name {
            "name" => format!("select by `labels: {{kuma.io/display-name: {}}}`", text(&field)),
            "namespace" => format!("select by `labels: {{k8s.kuma.io/namespace: {}}}`", text(&field)),
            "tags" => "select by `labels`".to_owned(),
            "mesh" => "leave it out".to_owned(),
            _ => "select proxies by kind Dataplane with labels".to_owned(),
        };
        let message = format!("Kuma 3 refuses this field of a {kind} reference: {rewrite}");
        findings.warn(field.path, Reason::Removed, message);
    }
}

fn text<'v>(field: &Node<'v>) -> &'v str {
    field.as_text().unwrap_or("…")
}

fn elements<'v>(list: &Node<'v>) -> Vec<Node<'v>> {
    list.list(&mut Findings::default())
}

#[cfg(test)]
mod tests {
    use super::super::testing::accepts;

    #[test]
    fn labels_go_through_unchanged() {
        accepts(
            "MeshTimeout",
            "{targetRef: {kind: Dataplane, labels: {app: web}}, to: [{targetRef: {kind: MeshService, \
             labels: {kuma.io/display-name: backend}}, default: {idleTimeout: 1s}}]}",
            &[],
        );
    }

    #[test]
    fn each_field_that_goes_is_named() {
        let to = "to: [{targetRef: {kind: MeshService, name: a, namespace: ns, sectionName: s}, default: {idleTimeout: 1s}}]";
        accepts(
            "MeshTimeout",
            &format!("{{{to}}}"),
            &["spec.to[0].targetRef.name REMOVED", "spec.to[0].targetRef.namespace REMOVED"],
        );
        accepts(
            "MeshTimeout",
            "{targetRef: {kind: Mesh, proxyTypes: [Gateway]}, rules: [{default: {idleTimeout: 1s}}]}",
            &["spec.targetRef.proxyTypes REMOVED"],
        );
    }

    #[test]
    fn a_reference_that_goes_as_a_whole_is_named_once() {
        let rules = "rules: [{default: {idleTimeout: 1s}}]";
        for top in
            ["{kind: MeshSubset, tags: {a: b}}", "{kind: MeshServiceSubset, name: a}", "{kind: MeshGateway, name: a}"]
        {
            accepts("MeshTimeout", &format!("{{targetRef: {top}, {rules}}}"), &["spec.targetRef.kind REMOVED"]);
        }
    }

    #[test]
    fn routes() {
        accepts(
            "MeshHTTPRoute",
            "{targetRef: {kind: MeshGateway, name: edge}, to: [{targetRef: {kind: Mesh}, hostnames: [a.b], rules: [{default: \
             {filters: [{type: URLRewrite, urlRewrite: {hostToBackendHostname: true}}], \
             backendRefs: [{kind: MeshServiceSubset, name: b, tags: {v: '1'}}]}}]}]}",
            &[
                "spec.targetRef.kind REMOVED",
                "spec.to[0].hostnames REMOVED",
                "spec.to[0].rules[0].default.backendRefs[0].kind REMOVED",
                "spec.to[0].rules[0].default.filters[0].urlRewrite.hostToBackendHostname REMOVED",
            ],
        );
    }
}
