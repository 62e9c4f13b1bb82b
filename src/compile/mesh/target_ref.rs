//! Target references: which kinds each place of each policy takes, and which fields each kind takes.
//!
//! Both are tables: [`places`] and [`fields`]. What a policy demands beyond them stands in the policy's own file.

mod fields;
pub(super) mod places;

use std::borrow::Cow;

use serde_json::Value;

use super::format::is_resource_name;
use super::tags::{self, Values};
use crate::compile::Findings;
use crate::compile::reader::{Node, Object};
use crate::compile::way::Ways;
use crate::core::json::Document;
use crate::core::mesh::target_ref::TargetKind::{
    self, Dataplane, Mesh, MeshExternalService, MeshGateway, MeshHttpRoute, MeshMultiZoneService, MeshService,
    MeshServiceSubset, MeshSubset, MeshTcpRoute,
};
use crate::core::mesh::target_ref::{DataplaneRef, Pairs, ProxyTypes, ResourceRef, TargetRef};
use crate::core::problem::Reason;
use fields::{Fields, Name, Rule, Section, Selects, Tags};

pub(super) use places::{BACKENDS, MIRRORS, Places};

/// The conditions at one place of a document.
pub(super) struct Place {
    pub(super) kinds: Cow<'static, [TargetKind]>,
    pub(super) listener_tags: bool,
    /// Whether the policy is for incoming traffic.
    pub(super) inbound: bool,
    /// A name that passes although it is malformed.
    pub(super) exempt: Option<&'static str>,
    /// Whether a MeshService with tags is read as the MeshServiceSubset that it once was.
    pub(super) service_tags: bool,
    /// What to do about a kind that is known but not taken here.
    pub(super) hint: fn(TargetKind) -> Option<&'static str>,
}

/// A reference as far as it could be read.
#[derive(Clone, Debug, Default)]
pub(super) struct Reference {
    /// The kind, whether or not it is taken here.
    pub(super) kind: Option<TargetKind>,
    /// Which proxies a reference to the mesh covers; all of them for other kinds.
    pub(super) proxies: ProxyTypes,
    /// `None` if there were findings.
    pub(super) target: Option<TargetRef>,
}

impl Place {
    pub(super) fn of(kinds: &'static [TargetKind]) -> Self {
        Self {
            kinds: kinds.into(),
            listener_tags: false,
            inbound: false,
            exempt: None,
            service_tags: false,
            hint: |_| None,
        }
    }
}

/// Reads a reference that stands by itself.
pub(super) fn read(node: &Node<'_>, place: &Place, findings: &mut Findings) -> Reference {
    let object = node.object(findings);
    let reference = read_fields(&object, place, findings);
    object.warn_of_unknown(findings);
    reference
}

/// Reads a reference of something stored, which has been admitted: a field that is wrong all the same is ignored.
pub(super) fn read_stored(reference: &Value) -> Option<TargetRef> {
    let (document, ways, silent) = (Document::from(reference), Ways::default(), &mut Findings::default());
    let object = Node::new(Some(document.root()), ways.root()).object(silent);
    let kind = TargetKind::parse(object.peek("kind").as_text()?)?;
    let place = Place { listener_tags: true, inbound: true, ..Place::of(&TargetKind::ALL) };
    Some(Parts::read(&object, Fields::of(kind), &place, silent).assemble(kind))
}

/// Reads the fields of a reference out of an object that may have others.
pub(super) fn read_fields(object: &Object<'_>, place: &Place, findings: &mut Findings) -> Reference {
    object.knows(&["name", "namespace", "labels", "tags", "mesh", "sectionName", "proxyTypes"]);
    let kind_field = object.get("kind");
    let text = kind_field.text(findings).unwrap_or_default();
    if text.is_empty() {
        let message = format!("required; one of {}", names(&place.kinds));
        findings.refuse(kind_field.path, Reason::Required, message);
        return Reference::default();
    }
    let mut kind = TargetKind::parse(&text);
    let tags = object.peek("tags");
    if place.service_tags && kind == Some(MeshService) && tags.is_filled() {
        let message = "a MeshService has no tags; it is read as a MeshServiceSubset, so better write that kind";
        findings.warn(tags.path, Reason::Suspicious, message);
        kind = Some(MeshServiceSubset);
    }
    let Some(known) = kind.filter(|kind| place.kinds.contains(kind)) else {
        let hint = kind.and_then(place.hint).map(|hint| format!(" ({hint})")).unwrap_or_default();
        let message = format!("kind {text} not accepted here; use one of {}{hint}", names(&place.kinds));
        findings.refuse(kind_field.path, Reason::Kind, message);
        return Reference { kind, ..Reference::default() };
    };
    let before = findings.errors.len();
    let fields = Fields::of(known);
    let parts = Parts::read(object, fields, place, findings);
    let proxies = parts.proxies;
    let target = (findings.errors.len() == before).then(|| parts.assemble(known));
    Reference { kind, proxies, target }
}

fn names(kinds: &[TargetKind]) -> String {
    let names: Vec<_> = kinds.iter().map(|kind| kind.name()).collect();
    names.join(", ")
}

/// The fields of a reference, each checked against the row of its kind.
struct Parts {
    name: Option<String>,
    namespace: Option<String>,
    labels: Option<Pairs>,
    tags: Pairs,
    section: Option<String>,
    proxies: ProxyTypes,
}

impl Parts {
    fn read(object: &Object<'_>, fields: &Fields, place: &Place, findings: &mut Findings) -> Self {
        let name = read_name(&object.peek("name"), fields, place, findings);
        forbid(&object.peek("mesh"), Rule::Forbidden, fields.kind, findings);
        let tags = read_tags(&object.peek("tags"), fields, place, findings);
        let labels_field = object.peek("labels");
        forbid(&labels_field, fields.labels, fields.kind, findings);
        let labels = labels_field.is_present().then(|| tags::read_labels(&labels_field, findings));
        let namespace_field = object.peek("namespace");
        forbid(&namespace_field, fields.namespace, fields.kind, findings);
        let namespace = filled(&namespace_field, findings);
        let section = read_section(&object.peek("sectionName"), fields, place, findings);
        let proxies = read_proxy_types(&object.peek("proxyTypes"), fields, findings);
        let parts = Self { name, namespace, labels, tags, section, proxies };
        parts.check_selection(object, fields.selects, findings);
        parts
    }

    fn check_selection(&self, object: &Object<'_>, selects: Selects, findings: &mut Findings) {
        let has_labels = self.labels.as_ref().is_some_and(|labels| !labels.is_empty());
        if selects == Selects::Otherwise {
            return;
        }
        if selects == Selects::NameOrLabels && self.name.is_none() && !has_labels {
            findings.refuse(object.path, Reason::NameOrLabels, "set exactly one of name or labels");
        }
        if has_labels && (self.name.is_some() || self.namespace.is_some()) {
            let message = "set exactly one of name or labels; a namespace goes with a name only";
            findings.refuse(object.path.field("labels"), Reason::NameOrLabels, message);
        }
    }

    fn assemble(self, kind: TargetKind) -> TargetRef {
        let Self { name, namespace, labels, tags, section, proxies } = self;
        let resource = |name: Option<String>, labels: Option<Pairs>| match (name, labels) {
            (_, Some(labels)) if !labels.is_empty() => ResourceRef::Labelled(labels),
            (None, Some(labels)) => ResourceRef::Labelled(labels),
            (name, _) => ResourceRef::Named { name: name.unwrap_or_default(), namespace: namespace.clone() },
        };
        match kind {
            Mesh => TargetRef::Mesh { proxies },
            MeshSubset => TargetRef::MeshSubset { tags, labels: labels.unwrap_or_default(), proxies },
            Dataplane => {
                let proxies = match (&name, &namespace, &labels) {
                    (None, None, None) => DataplaneRef::Every,
                    (None, Some(_), _) => DataplaneRef::Nobody,
                    _ => DataplaneRef::Some(resource(name, labels)),
                };
                TargetRef::Dataplane { proxies, section }
            }
            MeshGateway => TargetRef::MeshGateway { name: name.unwrap_or_default(), tags },
            MeshServiceSubset => TargetRef::MeshServiceSubset { name: name.unwrap_or_default(), tags },
            MeshService => TargetRef::MeshService { service: resource(name, labels), section },
            MeshMultiZoneService => TargetRef::MeshMultiZoneService { service: resource(name, labels), section },
            MeshExternalService => TargetRef::MeshExternalService(resource(name, labels)),
            MeshHttpRoute => TargetRef::MeshHttpRoute(resource(name, labels)),
            MeshTcpRoute => TargetRef::MeshTcpRoute(resource(name, labels)),
        }
    }
}

fn read_name(field: &Node<'_>, fields: &Fields, place: &Place, findings: &mut Findings) -> Option<String> {
    let name = filled(field, findings);
    match (fields.name, &name) {
        (Name::OwnMesh, Some(_)) => {
            findings.refuse(field.path, Reason::Context, "not valid with kind Mesh: the mesh is the policy's own");
        }
        (Name::Forbidden, Some(_)) => forbid(field, Rule::Forbidden, fields.kind, findings),
        (Name::Required, None) => findings.refuse(field.path, Reason::Required, "required"),
        (Name::Checked | Name::Required, Some(name)) if !is_resource_name(name) && place.exempt != Some(name) => {
            let message = "malformed: only digits, lower-case letters and `.-_` may stand in a name";
            findings.refuse(field.path, Reason::Format, message);
        }
        _ => {}
    }
    name
}

fn read_tags(field: &Node<'_>, fields: &Fields, place: &Place, findings: &mut Findings) -> Pairs {
    match fields.tags {
        Tags::Forbidden => {
            forbid(field, Rule::Forbidden, fields.kind, findings);
            Pairs::new()
        }
        Tags::Of(values) => tags::read(field, values, findings),
        Tags::OfListeners => {
            if !place.listener_tags {
                forbid(field, Rule::Forbidden, fields.kind, findings);
            }
            tags::read(field, Values::Selector, findings)
        }
    }
}

fn read_section(field: &Node<'_>, fields: &Fields, place: &Place, findings: &mut Findings) -> Option<String> {
    let section = filled(field, findings)?;
    match fields.section {
        Section::Forbidden => forbid(field, Rule::Forbidden, fields.kind, findings),
        Section::OfInbound if !place.inbound => {
            let message =
                "only valid when the policy has `from` or `rules`: a section of a proxy is one of its inbounds";
            findings.refuse(field.path, Reason::Context, message);
        }
        Section::Free | Section::OfInbound => {}
    }
    Some(section)
}

pub(super) const PROXY_TYPES: &[&str] = &["Sidecar", "Gateway"];

fn read_proxy_types(field: &Node<'_>, fields: &Fields, findings: &mut Findings) -> ProxyTypes {
    if fields.proxy_types == Rule::Forbidden {
        forbid(field, Rule::Forbidden, fields.kind, findings);
        return ProxyTypes::All;
    }
    let types = field.list(findings);
    if types.is_empty() && field.is_present() {
        findings.refuse(field.path, Reason::Empty, "may not be empty; leave it out to mean both Sidecar and Gateway");
        return ProxyTypes::All;
    }
    let types: Vec<_> = types.iter().map(|node| node.schema_word(PROXY_TYPES, findings)).collect();
    match (types.contains(&Some("Sidecar")), types.contains(&Some("Gateway"))) {
        (true, false) => ProxyTypes::Sidecars,
        (false, true) => ProxyTypes::Gateways,
        _ => ProxyTypes::All,
    }
}

/// Text that is there; the empty one counts as absent.
fn filled(field: &Node<'_>, findings: &mut Findings) -> Option<String> {
    field.text(findings).filter(|text| !text.is_empty()).map(Cow::into_owned)
}

fn forbid(field: &Node<'_>, rule: Rule, kind: TargetKind, findings: &mut Findings) {
    if !field.is_filled() {
        return;
    }
    match rule {
        Rule::Free => {}
        Rule::Forbidden => {
            findings.refuse(field.path, Reason::Forbidden, format!("not permitted with kind {}", kind.name()));
        }
        Rule::Discouraged => {
            let message = "labels select on the proxy's labels here; kind Dataplane with labels says the same";
            findings.warn(field.path, Reason::Suspicious, message);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::yaml;

    #[track_caller]
    fn read_at(reference: &str, place: &Place) -> (Option<TargetRef>, Vec<String>) {
        let value = yaml::read_value(reference).expect("a test writes YAML");
        let mut findings = Findings::default();
        let (document, ways) = (Document::from(&value), Ways::default());
        let node = Node::new(Some(document.root()), ways.root().field("ref"));
        let read = read(&node, place, &mut findings);
        let errors = findings.errors.iter().map(|problem| format!("{} {}", problem.field, problem.reason.as_str()));
        (read.target, errors.collect())
    }

    /// At a place that takes every kind, and nothing special.
    #[track_caller]
    fn check(reference: &str, expected: &[&str]) {
        let (target, errors) = read_at(reference, &Place::of(&TargetKind::ALL));
        assert_eq!(errors, expected, "{reference}");
        assert_eq!(target.is_some(), expected.is_empty(), "{reference}");
    }

    #[test]
    fn fields_of_each_kind() {
        let all =
            "name: x, namespace: ns, labels: {a: b}, tags: {a: b}, mesh: m, sectionName: s, proxyTypes: [Sidecar]";
        for (kind, expected) in [
            ("Mesh", "name CTX, mesh FORBID, tags FORBID, labels FORBID, namespace FORBID, sectionName FORBID"),
            ("MeshSubset", "name FORBID, mesh FORBID, namespace FORBID, sectionName FORBID"),
            ("Dataplane", "mesh FORBID, tags FORBID, sectionName CTX, proxyTypes FORBID, labels NAMEORLABELS"),
            ("MeshService", "mesh FORBID, tags FORBID, proxyTypes FORBID, labels NAMEORLABELS"),
            ("MeshMultiZoneService", "mesh FORBID, tags FORBID, proxyTypes FORBID, labels NAMEORLABELS"),
            (
                "MeshExternalService",
                "mesh FORBID, tags FORBID, sectionName FORBID, proxyTypes FORBID, labels NAMEORLABELS",
            ),
            ("MeshHTTPRoute", "mesh FORBID, tags FORBID, sectionName FORBID, proxyTypes FORBID, labels NAMEORLABELS"),
            ("MeshTCPRoute", "mesh FORBID, tags FORBID, sectionName FORBID, proxyTypes FORBID, labels NAMEORLABELS"),
            (
                "MeshServiceSubset",
                "mesh FORBID, labels FORBID, namespace FORBID, sectionName FORBID, proxyTypes FORBID",
            ),
            (
                "MeshGateway",
                "mesh FORBID, tags FORBID, labels FORBID, namespace FORBID, sectionName FORBID, proxyTypes FORBID",
            ),
        ] {
            let expected: Vec<_> = expected.split(", ").map(|finding| format!("ref.{finding}")).collect();
            check(&format!("{{kind: {kind}, {all}}}"), &expected.iter().map(String::as_str).collect::<Vec<_>>());
        }
    }

    #[test]
    fn empty_fields_are_unset() {
        let empty = "namespace: '', labels: {}, tags: {}, mesh: '', sectionName: ''";
        check(&format!("{{kind: Mesh, name: '', {empty}}}"), &[]);
        check(&format!("{{kind: MeshService, name: a, {empty}, proxyTypes: []}}"), &[]);
        check("{kind: Mesh, proxyTypes: []}", &["ref.proxyTypes EMPTY"]);
        check("{kind: ''}", &["ref.kind REQ"]);
    }

    #[test]
    fn name_or_labels() {
        for kind in ["MeshService", "MeshExternalService", "MeshMultiZoneService", "MeshHTTPRoute", "MeshTCPRoute"] {
            check(&format!("{{kind: {kind}}}"), &["ref NAMEORLABELS"]);
            check(&format!("{{kind: {kind}, namespace: ns}}"), &["ref NAMEORLABELS"]);
            check(&format!("{{kind: {kind}, namespace: ns, labels: {{a: b}}}}"), &["ref.labels NAMEORLABELS"]);
            check(&format!("{{kind: {kind}, labels: {{a: b}}}}"), &[]);
            check(&format!("{{kind: {kind}, name: A}}"), &["ref.name FORMAT"]);
        }
        check("{kind: Dataplane}", &[]);
        check("{kind: Dataplane, name: 'Any Thing'}", &[]);
        check("{kind: Dataplane, namespace: ns, labels: {a: b}}", &["ref.labels NAMEORLABELS"]);
        check("{kind: MeshServiceSubset}", &["ref.name REQ"]);
        check("{kind: MeshGateway, name: '*'}", &["ref.name FORMAT"]);
    }

    #[test]
    fn tag_values() {
        check(
            "{kind: MeshSubset, tags: {'': x, 'b*': y, c: '', d: a/b, e: '*', f: 'x:1_2-3.4'}}",
            &[
                "ref.tags EMPTY",
                "ref.tags[\"b*\"] FORMAT",
                "ref.tags[\"c\"] EMPTY",
                "ref.tags[\"d\"] FORMAT",
                "ref.tags[\"e\"] FORMAT",
            ],
        );
        check("{kind: MeshServiceSubset, name: a, tags: {d: a/b, e: '*', f: '**'}}", &["ref.tags[\"f\"] FORMAT"]);
    }

    #[test]
    fn places_differ() {
        let listeners = Place { listener_tags: true, ..Place::of(&TargetKind::ALL) };
        let inbound = Place { inbound: true, ..Place::of(&TargetKind::ALL) };
        assert_eq!(read_at("{kind: MeshGateway, name: a, tags: {port: http/1}}", &listeners).1, Vec::<String>::new());
        assert_eq!(read_at("{kind: Dataplane, sectionName: http}", &inbound).1, Vec::<String>::new());
        assert_eq!(read_at("{kind: MeshService, name: a}", &Place::of(&[Mesh])).1, ["ref.kind KIND"]);
        assert_eq!(read_at("{kind: Anything}", &Place::of(&[Mesh])).1, ["ref.kind KIND"]);
    }

    #[test]
    fn a_stored_reference_is_read_whatever_is_wrong_with_it() {
        let read = |reference: &str| read_stored(&yaml::read_value(reference).expect("a test writes YAML"));
        let named = |name: &str| ResourceRef::Named { name: name.to_owned(), namespace: None };
        let service = |service| Some(TargetRef::MeshService { service, section: None });
        assert_eq!(read("{kind: MeshService, name: 'A b', tags: {x: y}}"), service(named("A b")));
        assert_eq!(read("{kind: MeshService}"), service(named("")), "and that resolves to nothing");
        let labels = Pairs::from([("a".to_owned(), "b".to_owned())]);
        assert_eq!(read("{kind: MeshService, name: x, labels: {a: b}}"), service(ResourceRef::Labelled(labels)));
        assert_eq!(read("{kind: Other}"), None);
        assert_eq!(read("{}"), None);
    }

    #[test]
    fn dataplanes() {
        let proxies = |reference: &str| match read_at(reference, &Place::of(&TargetKind::ALL)).0 {
            Some(TargetRef::Dataplane { proxies, .. }) => proxies,
            other => panic!("{other:?}"),
        };
        assert_eq!(proxies("{kind: Dataplane}"), DataplaneRef::Every);
        assert_eq!(proxies("{kind: Dataplane, namespace: ns}"), DataplaneRef::Nobody);
        let named = ResourceRef::Named { name: "a".to_owned(), namespace: Some("ns".to_owned()) };
        assert_eq!(proxies("{kind: Dataplane, name: a, namespace: ns}"), DataplaneRef::Some(named));
        let everything = ResourceRef::Labelled(Pairs::new());
        assert_eq!(proxies("{kind: Dataplane, labels: {}}"), DataplaneRef::Some(everything));
    }
}
