//! What all targetRef policies have in common: the reference at the top level, and lists of entries with a conf each.

use crate::compile::Findings;
use crate::compile::mesh::record::PolicyRecord;
use crate::compile::mesh::target_ref::{self, Place, Reference};
use crate::compile::reader::{Node, Object};
use crate::core::mesh::policy::Role;
use crate::core::mesh::target_ref::{ProxyTypes, TargetKind, TargetRef};
use crate::core::problem::Reason;

use super::kuma3;

/// A document of one of the kinds, as the checks get it.
pub(in crate::compile) struct Resource<'v> {
    /// Where the content starts: `spec`, or the document itself.
    pub(in crate::compile) content: Node<'v>,
    pub(in crate::compile) role: Role,
}

/// A policy while it is read.
pub(super) struct Policy<'v> {
    record: &'static PolicyRecord,
    pub(super) spec: Object<'v>,
    pub(super) top: Top<'v>,
}

/// The reference at the top level.
pub(super) struct Top<'v> {
    field: Node<'v>,
    /// `None` for a kind that nobody knows.
    pub(super) kind: Option<TargetKind>,
    proxies: ProxyTypes,
    pub(super) target: Option<TargetRef>,
}

/// An entry of `to`, `from` or `rules`.
pub(super) struct Entry<'v> {
    pub(super) object: Object<'v>,
    pub(super) reference: Reference,
    pub(super) conf: Node<'v>,
}

impl<'v> Policy<'v> {
    /// Reads the top level; to be ended by [`Policy::finish`].
    pub(super) fn read(record: &'static PolicyRecord, resource: &Resource<'v>, findings: &mut Findings) -> Self {
        let spec = resource.content.object(findings);
        let inbound = spec.peek("from").is_filled_list() || spec.peek("rules").is_filled_list();
        let field = spec.get("targetRef");
        let Reference { kind: top, proxies, target } = if field.is_present() {
            target_ref::read(&field, &record.places.top(resource.role, inbound), findings)
        } else {
            Reference { kind: Some(TargetKind::Mesh), target: Some(TargetRef::WHOLE_MESH), ..Reference::default() }
        };
        let top = Top { field, kind: top, proxies, target };
        Self { record, spec, top }
    }

    /// The last warnings: of the top level, of unknown fields, and of what Kuma 3 refuses.
    pub(super) fn finish(self, findings: &mut Findings) -> Option<TargetRef> {
        self.top.warn(self.record, findings);
        self.close(findings)
    }

    /// As [`Policy::finish`], for the policy that warns of its top level before anything else.
    pub(super) fn close(self, findings: &mut Findings) -> Option<TargetRef> {
        self.spec.warn_of_unknown(findings);
        kuma3::warn_of_fields(self.top.kind, &self.spec, findings);
        self.top.target
    }

    /// Reads the entries of `to`, each with its conf.
    pub(super) fn each_to(&self, findings: &mut Findings, read: impl FnMut(&Entry<'v>, &mut Findings)) {
        let place = self.destinations();
        self.each_referring("to", |_| None, &place, findings, read);
    }

    /// As [`Policy::each_to`], for a policy whose conf narrows what an entry may refer to.
    pub(super) fn each_to_narrowed(
        &self,
        narrow: impl Fn(&Object<'v>) -> Option<Place>,
        findings: &mut Findings,
        read: impl FnMut(&Entry<'v>, &mut Findings),
    ) {
        let place = self.destinations();
        self.each_referring("to", narrow, &place, findings, read);
    }

    fn destinations(&self) -> Place {
        self.record.places.to(self.record.kind.destinations, self.top.kind)
    }

    /// Reads the entries of `from`, each with its conf.
    pub(super) fn each_from(&self, findings: &mut Findings, read: impl FnMut(&Entry<'v>, &mut Findings)) {
        let place = self.record.places.from();
        self.each_referring("from", |_| None, &place, findings, read);
        kuma3::warn_of_from(&self.record.kind, &self.spec, findings);
    }

    /// Reads the entries of `rules`, each with its conf.
    pub(super) fn each_rule(&self, findings: &mut Findings, mut read: impl FnMut(&Entry<'v>, &mut Findings)) {
        for node in self.spec.get("rules").list(findings) {
            let object = node.object(findings);
            let conf = object.get("default");
            let entry = Entry { object, reference: Reference::default(), conf };
            read(&entry, findings);
            entry.object.warn_of_unknown(findings);
        }
    }

    fn each_referring(
        &self,
        list: &'static str,
        narrow: impl Fn(&Object<'v>) -> Option<Place>,
        place: &Place,
        findings: &mut Findings,
        mut read: impl FnMut(&Entry<'v>, &mut Findings),
    ) {
        for node in self.spec.get(list).list(findings) {
            let object = node.object(findings);
            let narrowed = narrow(&object);
            let reference = object.get("targetRef");
            let reference = target_ref::read(&reference, narrowed.as_ref().unwrap_or(place), findings);
            let conf = object.get("default");
            let entry = Entry { object, reference, conf };
            read(&entry, findings);
            entry.object.warn_of_unknown(findings);
        }
    }

    pub(super) fn has(&self, list: &'static str) -> bool {
        self.spec.peek(list).is_filled_list()
    }

    /// Refuses `rules` beside any of the other lists.
    pub(super) fn rules_exclude(&self, others: &[&'static str], findings: &mut Findings) {
        if self.has("rules") && others.iter().any(|other| self.has(other)) {
            let message = format!("exactly one way: `rules`, or {}", quote(others));
            findings.refuse(self.spec.path, Reason::Xor, message);
        }
    }

    /// Refuses a policy that has none of the lists.
    pub(super) fn needs_any(&self, lists: &[&'static str], findings: &mut Findings) {
        if !lists.iter().any(|list| self.has(list)) {
            findings.refuse(self.spec.path, Reason::AnyOf, format!("at least one of {}", quote(lists)));
        }
    }
}

fn quote(words: &[&str]) -> String {
    let quoted: Vec<_> = words.iter().map(|word| format!("`{word}`")).collect();
    quoted.join(", ")
}

impl Top<'_> {
    /// Whether gateways are among the selected proxies.
    pub(super) fn includes_gateways(&self) -> bool {
        match self.kind {
            Some(TargetKind::MeshGateway | TargetKind::MeshHttpRoute) => true,
            Some(TargetKind::Mesh | TargetKind::MeshSubset) => self.proxies.include_gateways(),
            _ => false,
        }
    }

    pub(super) fn warn(&self, record: &PolicyRecord, findings: &mut Findings) {
        // What is refused anyway need not be called deprecated.
        if let Some(target) = &self.target {
            kuma3::warn_of_top(&record.kind, target.kind(), &self.field, findings);
        }
    }
}

impl Entry<'_> {
    pub(super) fn kind(&self) -> Option<TargetKind> {
        self.reference.kind
    }
}
