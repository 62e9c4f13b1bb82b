//! Which fields a reference of each kind takes.

use crate::compile::mesh::tags::Values;
use crate::core::mesh::target_ref::TargetKind::{
    self, Dataplane, Mesh, MeshExternalService, MeshGateway, MeshHttpRoute, MeshMultiZoneService, MeshService,
    MeshServiceSubset, MeshSubset, MeshTcpRoute,
};

/// Which fields a reference of one kind takes. No kind takes `mesh`.
pub(super) struct Fields {
    pub(super) kind: TargetKind,
    pub(super) name: Name,
    pub(super) namespace: Rule,
    pub(super) labels: Rule,
    pub(super) tags: Tags,
    pub(super) section: Section,
    pub(super) proxy_types: Rule,
    /// How name and labels go together.
    pub(super) selects: Selects,
}

#[derive(Clone, Copy, PartialEq)]
pub(super) enum Rule {
    Free,
    /// Accepted, but there is a better way to say it.
    Discouraged,
    Forbidden,
}

#[derive(Clone, Copy, PartialEq)]
pub(super) enum Name {
    /// The mesh of a policy is the policy's own.
    OwnMesh,
    Forbidden,
    Unchecked,
    Checked,
    Required,
}

#[derive(Clone, Copy, PartialEq)]
pub(super) enum Tags {
    Forbidden,
    Of(Values),
    /// The listeners of a gateway, where the place allows it.
    OfListeners,
}

#[derive(Clone, Copy, PartialEq)]
pub(super) enum Section {
    Forbidden,
    Free,
    /// Sections of a proxy are its inbounds, so only policies for incoming traffic may name one.
    OfInbound,
}

#[derive(Clone, Copy, PartialEq)]
pub(super) enum Selects {
    Otherwise,
    NameOrLabels,
    /// As before, or neither: then all are meant.
    NameOrLabelsOrAll,
}

const BY_NAME_OR_LABELS: Fields = Fields {
    kind: MeshService,
    name: Name::Checked,
    namespace: Rule::Free,
    labels: Rule::Free,
    tags: Tags::Forbidden,
    section: Section::Forbidden,
    proxy_types: Rule::Forbidden,
    selects: Selects::NameOrLabels,
};

const BY_TAGS: Fields = Fields {
    kind: MeshServiceSubset,
    name: Name::Required,
    namespace: Rule::Forbidden,
    labels: Rule::Forbidden,
    tags: Tags::Of(Values::Selector),
    section: Section::Forbidden,
    proxy_types: Rule::Forbidden,
    selects: Selects::Otherwise,
};

const FIELDS: &[Fields] = &[
    Fields { kind: Mesh, name: Name::OwnMesh, tags: Tags::Forbidden, proxy_types: Rule::Free, ..BY_TAGS },
    Fields {
        kind: MeshSubset,
        name: Name::Forbidden,
        labels: Rule::Discouraged,
        tags: Tags::Of(Values::Plain),
        proxy_types: Rule::Free,
        ..BY_TAGS
    },
    Fields {
        kind: Dataplane,
        name: Name::Unchecked,
        section: Section::OfInbound,
        selects: Selects::NameOrLabelsOrAll,
        ..BY_NAME_OR_LABELS
    },
    Fields { kind: MeshService, section: Section::Free, ..BY_NAME_OR_LABELS },
    Fields { kind: MeshExternalService, ..BY_NAME_OR_LABELS },
    Fields { kind: MeshMultiZoneService, section: Section::Free, ..BY_NAME_OR_LABELS },
    Fields { kind: MeshHttpRoute, ..BY_NAME_OR_LABELS },
    Fields { kind: MeshTcpRoute, ..BY_NAME_OR_LABELS },
    Fields { kind: MeshServiceSubset, ..BY_TAGS },
    Fields { kind: MeshGateway, tags: Tags::OfListeners, ..BY_TAGS },
];

impl Fields {
    pub(super) fn of(kind: TargetKind) -> &'static Self {
        FIELDS.iter().find(|fields| fields.kind == kind).expect("the table has a row for every kind")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_its_row() {
        for kind in TargetKind::ALL {
            assert_eq!(FIELDS.iter().filter(|fields| fields.kind == kind).count(), 1, "{kind:?}");
        }
    }
}
