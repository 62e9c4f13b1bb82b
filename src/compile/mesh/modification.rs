//! Lists of modifications, as ProxyTemplate and MeshProxyPatch write them.
//!
//! Both dialects have the same six targets and the same operations; they differ in a few habits that [`Dialect`] names.
//! Two spellings of a criterion exist (`side` or `origin`, and `type` or `name` for filters); both are understood.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde_json::Value;
use smallvec::SmallVec;

use super::{json_patch, tags};
use crate::compile::Findings;
use crate::compile::reader::{Node, Object};
use crate::compile::way::Way;
use crate::core::envoy::modification::{
    Criteria, Dialect, FilterChange, FilterKind, FilterPatch, Modification, Patch, Position, ResourceChange,
    ResourceKind,
};
use crate::core::envoy::{self, DecodeError, Decoded, MessageType, Remark, Strictness, is_opaque_type};
use crate::core::json::{Document, Json, Tree};
use crate::core::problem::Reason;
use crate::core::yaml;

impl Dialect {
    /// The canonical spelling of an operation.
    fn spell(self, operation: &'static str) -> Cow<'static, str> {
        let mut letters = operation.chars();
        match (self, letters.next()) {
            (Self::MeshProxyPatch, Some(first)) => first.to_uppercase().chain(letters).collect::<String>().into(),
            _ => operation.into(),
        }
    }
}

/// What an entry may modify, and the type of its documents.
struct Target {
    kind: Kind,
    message: MessageType,
}

#[derive(Clone, Copy)]
enum Kind {
    Resource(ResourceKind),
    Filter(FilterKind),
}

impl Target {
    fn key(&self) -> &'static str {
        match self.kind {
            Kind::Resource(kind) => kind.key(),
            Kind::Filter(kind) => kind.key(),
        }
    }
}

const TARGETS: &[Target] = &[
    Target { kind: Kind::Resource(ResourceKind::Cluster), message: MessageType::Cluster },
    Target { kind: Kind::Resource(ResourceKind::Listener), message: MessageType::Listener },
    Target { kind: Kind::Resource(ResourceKind::Route), message: MessageType::RouteConfiguration },
    Target { kind: Kind::Resource(ResourceKind::VirtualHost), message: MessageType::VirtualHost },
    Target { kind: Kind::Filter(FilterKind::Http), message: MessageType::HttpFilter },
    Target { kind: Kind::Filter(FilterKind::Network), message: MessageType::NetworkFilter },
];

#[derive(Clone, Copy, PartialEq)]
enum Operation {
    Add,
    Insert(Position),
    Remove,
    Patch,
}

const RESOURCE_OPERATIONS: &[(&str, Operation)] =
    &[("add", Operation::Add), ("remove", Operation::Remove), ("patch", Operation::Patch)];

const FILTER_OPERATIONS: &[(&str, Operation)] = &[
    ("addFirst", Operation::Insert(Position::First)),
    ("addLast", Operation::Insert(Position::Last)),
    ("addBefore", Operation::Insert(Position::Before)),
    ("addAfter", Operation::Insert(Position::After)),
    ("remove", Operation::Remove),
    ("patch", Operation::Patch),
];

/// Reads a list of modifications; entries with findings are left out of the result.
pub(super) fn read_list<D: Keep>(list: &Node<'_>, dialect: Dialect, findings: &mut Findings) -> Vec<Modification<D>> {
    let entries = list.list(findings);
    let spelling = Spelling::of(&entries);
    entries.iter().filter_map(|entry| read_entry(entry, dialect, spelling, findings)).collect()
}

/// What becomes of the documents in a policy.
pub(super) trait Keep {
    fn keep(document: Json<'_>) -> Self;
}

impl Keep for Value {
    fn keep(document: Json<'_>) -> Self {
        document.to_value()
    }
}

/// They are checked, and nobody wants them after that.
impl Keep for () {
    fn keep(_: Json<'_>) {}
}

/// An embedded Envoy document.
pub(super) enum Embedded<'v> {
    Inline(Json<'v>),
    /// It was YAML text.
    Text(Document<'static>),
}

impl Embedded<'_> {
    pub(super) fn root(&self) -> Json<'_> {
        match self {
            Self::Inline(document) => *document,
            Self::Text(document) => document.root(),
        }
    }
}

/// An embedded Envoy document: YAML text, or an inline mapping. `None` if there is none, or none that can be read.
pub(super) fn read_document<'v>(value: &Node<'v>, findings: &mut Findings) -> Option<Embedded<'v>> {
    let inline = value.value()?;
    match inline.as_text() {
        Some(text) if text.trim().is_empty() => None,
        Some(text) => match yaml::read_value(text) {
            Ok(document) => Some(Embedded::Text(Document::from(&document).into_owned())),
            Err(error) => {
                findings.refuse(value.path, Reason::Envoy, format!("not YAML: {error}"));
                None
            }
        },
        None => Some(Embedded::Inline(inline)),
    }
}

/// The canonical document of a decoding that worked, its notes as warnings; a failed one becomes a finding.
pub(super) fn accept<'v>(
    decoded: Result<Decoded<'v>, DecodeError>,
    what: &str,
    path: Way<'_>,
    findings: &mut Findings,
) -> Option<Document<'v>> {
    match decoded {
        Ok(decoded) => {
            let before = findings.errors.len();
            for note in decoded.notes {
                match &note.remark {
                    Remark::OpaqueType { url } if !is_opaque_type(url) => {
                        let message = format!("not a valid Envoy {what}: {}: unknown type {url}", note.path);
                        findings.refuse(path, Reason::Envoy, message);
                    }
                    _ => findings.warn(path, Reason::Suspicious, note.to_string()),
                }
            }
            (findings.errors.len() == before).then_some(decoded.document)
        }
        Err(error) => {
            findings.refuse(path, Reason::Envoy, format!("not a valid Envoy {what}: {error}"));
            None
        }
    }
}

/// Which of the two spellings a document uses; a missing filter name is reported under the one its author knows.
#[derive(Clone, Copy, PartialEq)]
enum Spelling {
    SideAndType,
    OriginAndName,
}

impl Spelling {
    fn of(entries: &[Node<'_>]) -> Self {
        let has_alias = |entry: &Node<'_>| {
            let targets = entry.value().into_iter().flat_map(Tree::fields).map(|(_, target)| target);
            targets
                .filter_map(|target| target.get("match"))
                .any(|criteria| criteria.get("side").is_some() || criteria.get("type").is_some())
        };
        if entries.iter().any(has_alias) { Self::SideAndType } else { Self::OriginAndName }
    }
}

fn read_entry<D: Keep>(
    entry: &Node<'_>,
    dialect: Dialect,
    spelling: Spelling,
    findings: &mut Findings,
) -> Option<Modification<D>> {
    let before = findings.errors.len();
    let object = entry.object(findings);
    let given: SmallVec<[(&Target, Node<'_>); 2]> = TARGETS
        .iter()
        .map(|target| (target, object.get(target.key())))
        .filter(|(_, field)| field.is_present())
        .collect();
    object.warn_of_unknown(findings);
    let [(target, field)] = given.as_slice() else {
        if findings.errors.len() == before {
            let known: Vec<_> = TARGETS.iter().map(Target::key).collect();
            let message = match given.as_slice() {
                [] => format!("exactly one of {} is needed", known.join(", ")),
                several => {
                    let keys: Vec<_> = several.iter().map(|(target, _)| target.key()).collect();
                    format!("exactly one target in an entry, not {}; make an entry of each", keys.join(" and "))
                }
            };
            findings.refuse(entry.path, Reason::Xor, message);
        }
        return None;
    };
    let modification = Reading { target, dialect, spelling, findings }.read(field)?;
    (findings.errors.len() == before).then_some(modification)
}

/// The reading of one entry.
struct Reading<'f> {
    target: &'static Target,
    dialect: Dialect,
    spelling: Spelling,
    findings: &'f mut Findings,
}

impl Reading<'_> {
    fn read<D: Keep>(mut self, field: &Node<'_>) -> Option<Modification<D>> {
        let object = field.object(self.findings);
        let (operation, criteria, value, patches) =
            (object.get("operation"), object.get("match"), object.get("value"), object.get("jsonPatches"));
        object.warn_of_unknown(self.findings);

        let operation = self.read_operation(&operation)?;
        let criteria = self.read_criteria(&criteria, operation);
        match self.target.kind {
            Kind::Resource(kind) => {
                let change = match operation {
                    Operation::Remove => self.read_removal(&value, &patches, ResourceChange::Remove),
                    Operation::Patch => self.read_patch(&object, &value, &patches).map(ResourceChange::Patch),
                    Operation::Add | Operation::Insert(_) => self.read_whole(&value, &patches).map(ResourceChange::Add),
                };
                Some(Modification::Resource { kind, criteria, change: change? })
            }
            Kind::Filter(kind) => {
                let change = match operation {
                    Operation::Remove => self.read_removal(&value, &patches, FilterChange::Remove),
                    Operation::Patch => self.read_filter_patch(&object, &value, &patches).map(FilterChange::Patch),
                    Operation::Insert(position) => {
                        self.read_whole(&value, &patches).map(|filter| FilterChange::Insert(position, filter))
                    }
                    Operation::Add => None,
                };
                Some(Modification::Filter { kind, criteria, change: change? })
            }
        }
    }

    fn operations(&self) -> &'static [(&'static str, Operation)] {
        match self.target.kind {
            Kind::Resource(_) => RESOURCE_OPERATIONS,
            Kind::Filter(_) => FILTER_OPERATIONS,
        }
    }

    /// The first letter may be of either case: the two dialects write `add` and `Add`.
    fn read_operation(&mut self, field: &Node<'_>) -> Option<Operation> {
        let given = field.text(self.findings).unwrap_or_default();
        let is_given = |name: &str| {
            given
                .split_at_checked(1)
                .zip(name.split_at_checked(1))
                .is_some_and(|(given, name)| given.0.eq_ignore_ascii_case(name.0) && given.1 == name.1)
        };
        let operation = self.operations().iter().find(|(name, _)| is_given(name));
        if operation.is_none() {
            let known: Vec<_> = self.operations().iter().map(|(name, _)| self.dialect.spell(name)).collect();
            let what = if given.is_empty() { "missing".to_owned() } else { format!("unknown value `{given}`") };
            self.findings.refuse(field.path, Reason::Enum, format!("{what}; known: {}", known.join(", ")));
        }
        operation.map(|(_, operation)| *operation)
    }

    fn read_criteria(&mut self, field: &Node<'_>, operation: Operation) -> Criteria {
        let is_filter = matches!(self.target.kind, Kind::Filter(_));
        let criteria = field.object(self.findings);
        let name = criteria.get("name");
        let kind = is_filter.then(|| criteria.get("type"));
        let (side, origin) = (criteria.get("side"), criteria.get("origin"));
        let mut read = Criteria {
            name: self.either(&name, kind.as_ref(), field.path),
            origin: self.either(&origin, Some(&side), field.path),
            ..Criteria::default()
        };
        match self.target.kind {
            Kind::Resource(ResourceKind::Listener) => read.tags = self.tags(&criteria.get("tags")),
            Kind::Resource(ResourceKind::VirtualHost) => {
                read.route_configuration_name = self.criterion(&criteria.get("routeConfigurationName"));
            }
            Kind::Resource(ResourceKind::Cluster | ResourceKind::Route) => {}
            Kind::Filter(_) => {
                read.listener_name = self.criterion(&criteria.get("listenerName"));
                read.listener_tags = self.tags(&criteria.get("listenerTags"));
            }
        }
        criteria.warn_of_unknown(self.findings);
        self.check_criteria(field, operation, &name, kind.as_ref(), &read);
        read
    }

    fn check_criteria(
        &mut self,
        field: &Node<'_>,
        operation: Operation,
        name: &Node<'_>,
        kind: Option<&Node<'_>>,
        read: &Criteria,
    ) {
        let written = if kind.is_some_and(Node::is_present) { kind.unwrap_or(name) } else { name };
        match (self.target.kind, operation) {
            (Kind::Resource(ResourceKind::Cluster | ResourceKind::Listener | ResourceKind::Route), Operation::Add)
                if field.is_present() =>
            {
                let message = "not permitted with operation add: the new resource's own name says where it goes";
                self.findings.refuse(field.path, Reason::Forbidden, message);
            }
            (Kind::Resource(ResourceKind::VirtualHost), Operation::Add) if read.name.is_some() => {
                let message = "not permitted with operation add: the new virtual host has its own name";
                self.findings.refuse(name.path, Reason::Forbidden, message);
            }
            (Kind::Filter(_), Operation::Insert(Position::First | Position::Last)) if read.name.is_some() => {
                let message = "not permitted with addFirst and addLast: there is no neighbour to name";
                self.findings.refuse(written.path, Reason::Forbidden, message);
            }
            (Kind::Filter(_), Operation::Insert(Position::Before | Position::After) | Operation::Patch)
                if read.name.is_none() =>
            {
                let expected = match self.spelling {
                    Spelling::SideAndType => field.path.field("type"),
                    Spelling::OriginAndName => field.path.field("name"),
                };
                let message = "may not be empty: the filter that the operation refers to";
                self.findings.refuse(expected, self.absent_name(), message);
            }
            _ => {}
        }
    }

    fn absent_name(&self) -> Reason {
        match self.dialect {
            Dialect::ProxyTemplate => Reason::Empty,
            Dialect::MeshProxyPatch => Reason::Required,
        }
    }

    /// A criterion that may be spelled in two ways; both at once must agree.
    fn either(&mut self, field: &Node<'_>, alias: Option<&Node<'_>>, criteria: Way<'_>) -> Option<String> {
        let value = self.criterion(field);
        let Some(alias) = alias else { return value };
        match (value, self.criterion(alias)) {
            (Some(value), Some(other)) if value != other => {
                let message = format!("`{}` and `{}` mean the same and say different things", field.path, alias.path);
                self.findings.refuse(criteria, Reason::Xor, message);
                Some(value)
            }
            (value, other) => value.or(other),
        }
    }

    /// In a ProxyTemplate an empty criterion holds for everything, as an absent one does; a MeshProxyPatch compares it.
    fn criterion(&mut self, field: &Node<'_>) -> Option<String> {
        self.refuse_scalar(field);
        let text = field.text(self.findings)?;
        (self.dialect == Dialect::MeshProxyPatch || !text.is_empty()).then(|| text.into_owned())
    }

    fn tags(&mut self, field: &Node<'_>) -> BTreeMap<String, String> {
        for (_, value) in field.entries(&mut Findings::default()) {
            self.refuse_scalar(&value);
        }
        let tags = tags::read_labels(field, self.findings);
        if tags.contains_key("") {
            self.findings.refuse(field.path, Reason::Empty, "a tag name may not be empty");
        }
        tags
    }

    /// A MeshProxyPatch has a schema that says so.
    fn refuse_scalar(&mut self, field: &Node<'_>) {
        if self.dialect == Dialect::ProxyTemplate {
            field.refuse_scalar(self.findings);
        }
    }

    fn read_removal<C>(&mut self, value: &Node<'_>, patches: &Node<'_>, change: C) -> Option<C> {
        if value.is_present() {
            self.findings.refuse(value.path, Reason::Forbidden, "not permitted with operation remove");
        }
        self.forbid_patches(patches);
        Some(change)
    }

    /// A new object, which must be complete in itself.
    fn read_whole<D: Keep>(&mut self, value: &Node<'_>, patches: &Node<'_>) -> Option<D> {
        self.forbid_patches(patches);
        let before = self.findings.errors.len();
        let Some(document) = read_document(value, self.findings) else {
            if self.findings.errors.len() == before {
                let message = format!("required: the {} to add, as YAML", self.target.message.name());
                self.findings.refuse(value.path, Reason::Required, message);
            }
            return None;
        };
        self.decode(document.root(), Strictness::Whole, value.path)
    }

    fn read_patch<D: Keep>(&mut self, object: &Object<'_>, value: &Node<'_>, patches: &Node<'_>) -> Option<Patch<D>> {
        match self.one_patch(object, value, patches)? {
            Patch::Json(patches) => Some(Patch::Json(patches)),
            Patch::Merge(document) => self.decode(document.root(), Strictness::Partial, value.path).map(Patch::Merge),
        }
    }

    fn read_filter_patch<D: Keep>(
        &mut self,
        object: &Object<'_>,
        value: &Node<'_>,
        patches: &Node<'_>,
    ) -> Option<Patch<FilterPatch<D>>> {
        match self.one_patch(object, value, patches)? {
            Patch::Json(patches) => Some(Patch::Json(patches)),
            Patch::Merge(document) if is_bare_body(document.root()) => {
                Some(Patch::Merge(FilterPatch::Body(D::keep(document.root()))))
            }
            Patch::Merge(document) => {
                let filter = self.decode(document.root(), Strictness::Partial, value.path)?;
                Some(Patch::Merge(FilterPatch::Filter(filter)))
            }
        }
    }

    /// A patch is either a document or a list of operations.
    fn one_patch<'v>(
        &mut self,
        object: &Object<'_>,
        value: &Node<'v>,
        patches: &Node<'_>,
    ) -> Option<Patch<Embedded<'v>>> {
        let has_patches = patches.value().is_some_and(|patches| !patches.is_list() || patches.count() > 0);
        if value.is_present() == has_patches {
            let message = "exactly one of value and jsonPatches with operation patch";
            self.findings.refuse(object.path, Reason::Xor, message);
            return None;
        }
        if has_patches {
            return Some(Patch::Json(json_patch::read(patches, self.findings)));
        }
        let before = self.findings.errors.len();
        let document = read_document(value, self.findings);
        if document.is_none() && self.findings.errors.len() > before {
            return None;
        }
        Some(Patch::Merge(document.unwrap_or_else(|| Embedded::Text(Document::empty_object()))))
    }

    fn forbid_patches(&mut self, patches: &Node<'_>) {
        if patches.is_present() {
            self.findings.refuse(patches.path, Reason::Forbidden, "only permitted with operation patch");
        }
    }

    fn decode<D: Keep>(&mut self, document: Json<'_>, strictness: Strictness, path: Way<'_>) -> Option<D> {
        let decoded = envoy::decode(self.target.message, document, strictness);
        let accepted = accept(decoded, self.target.message.name(), path, self.findings);
        accepted.map(|document| D::keep(document.root()))
    }
}

/// Whether the document is the body of a filter's config rather than a filter: it has none of a filter's keys.
fn is_bare_body(document: Json<'_>) -> bool {
    let of_filter = ["name", "typedConfig", "typed_config", "@type"];
    document.is_object() && document.count() > 0 && !of_filter.iter().any(|key| document.get(key).is_some())
}
