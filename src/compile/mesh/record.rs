//! One record for each kind of group `kuma.io`: whatever CRDs, checks, the rule engine and the Inspect API must know of a
//! kind is read from here, so that adding a kind is adding its file and one line in [`POLICIES`].

use std::sync::{LazyLock, OnceLock};

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::{Value, json};

use super::policy::Resource;
use super::target_ref::Places;
use super::{
    access_log, circuit_breaker, fault_injection, health_check, http_route, load_balancing, metric, passthrough,
    proxy_patch, proxy_template, rate_limit, resources, retry, tcp_route, timeout, tls, trace, traffic_permission,
};
use crate::api::definition::{Column, Definition, Scope};
use crate::api::schema::{open_object, text};
use crate::compile::Findings;
use crate::core::mesh::kind::{KindTable, MergeRule, PolicyKind, ResourceType};
use crate::core::structural::Schema;

const GROUP: &str = "kuma.io";
const VERSIONS: &[&str] = &["v1alpha1"];
const CATEGORIES: &[&str] = &["kuma"];
const TARGET_COLUMNS: &[Column] =
    &[Column::text("TargetRef Kind", ".spec.targetRef.kind"), Column::text("TargetRef Name", ".spec.targetRef.name")];
const HOSTNAME_COLUMN: &[Column] = &[Column::text("Hostname", ".status.addresses[0].hostname")];

/// A kind of targetRef policy.
pub(super) struct PolicyRecord {
    /// What the rule engine reads: names, order, lists, destinations, how confs are merged.
    pub(super) kind: PolicyKind,
    /// What such a policy is for.
    pub(super) description: &'static str,
    /// The kinds that its references may name, besides the destinations of `to`.
    pub(super) places: Places,
    /// The schema of `spec`.
    pub(super) spec: fn() -> Value,
    /// What is checked beyond the schema.
    pub(super) check: fn(&Resource<'_>, &mut Findings),
    /// What a control plane fills into a conf and no schema tells, by the path below the conf; `*` is every element.
    pub(super) filled_in: &'static [(&'static str, FilledValue)],
    pub(super) schemas: RecordSchemas,
}

/// A value that is filled in where there is none.
#[derive(Clone, Copy)]
pub(super) enum FilledValue {
    Flag(bool),
    EmptyText,
}

/// A kind that is not a targetRef policy.
pub(super) struct ResourceRecord {
    pub(super) kind: &'static str,
    pub(super) plural: &'static str,
    /// As `kubectl` knows it.
    pub(super) short_names: &'static [&'static str],
    pub(super) description: &'static str,
    pub(super) content: RecordContent,
    /// `None` where nothing is checked beyond the schema.
    pub(super) check: Option<fn(&Resource<'_>, &mut Findings)>,
    /// Whether documents of the kind are checked at all, or only have a CRD.
    pub(super) is_checked: bool,
    pub(super) schemas: RecordSchemas,
}

/// What a kind has besides the usual, with the schema of its `spec`.
#[derive(Clone, Copy)]
pub(super) enum RecordContent {
    Service(fn() -> Value),
    /// An older kind, with a field for its mesh; a universal document has its content beside `type` and `name`.
    Older(Scope, &'static [Column], fn() -> Value),
}

/// The schema of a kind in the forms that are read again and again; each is made when it is first asked for.
pub(super) struct RecordSchemas {
    object: OnceLock<Schema>,
    spec: OnceLock<Value>,
}

/// A kind of either sort.
#[derive(Clone, Copy)]
pub(super) enum MeshRecord {
    Policy(&'static PolicyRecord),
    Resource(&'static ResourceRecord),
}

/// Every kind of targetRef policy, in the order in which they are applied to a proxy.
pub(super) static POLICIES: &[&PolicyRecord] = &[
    &http_route::RECORD,
    &tcp_route::RECORD,
    &tls::RECORD,
    &load_balancing::RECORD,
    &passthrough::RECORD,
    &access_log::RECORD,
    &trace::RECORD,
    &fault_injection::RECORD,
    &rate_limit::RECORD,
    &timeout::RECORD,
    &traffic_permission::RECORD,
    &health_check::RECORD,
    &circuit_breaker::RECORD,
    &retry::RECORD,
    &metric::RECORD,
    &proxy_patch::RECORD,
];

/// Every other kind.
static RESOURCES: &[&ResourceRecord] = &[
    &proxy_template::RECORD,
    &resources::SERVICE,
    &resources::EXTERNAL_SERVICE,
    &resources::MULTI_ZONE_SERVICE,
    &resources::MESH,
    &resources::DATAPLANE,
    &resources::GATEWAY,
];

/// The kinds as the rule engine knows them.
pub fn kinds() -> &'static KindTable {
    static TABLE: LazyLock<KindTable> = LazyLock::new(|| KindTable::new(POLICIES.iter().map(|record| &record.kind)));
    &TABLE
}

/// The CRDs of all kinds, in the order of their names.
pub fn definitions() -> Vec<CustomResourceDefinition> {
    let mut all: Vec<_> = MeshRecord::all().collect();
    all.sort_by_key(|record| record.plural());
    all.into_iter().map(MeshRecord::define).collect()
}

/// A kind of policy that has nothing yet but its names and its place in the order.
pub(super) const fn policy_kind(order: u16, kind: &'static str, short: &'static str, path: &'static str) -> PolicyKind {
    PolicyKind {
        resource: ResourceType { kind, short, path },
        order,
        to: false,
        from: false,
        rules: false,
        single: false,
        from_as_rules: false,
        destinations: &[],
        merge: MergeRule::Fields,
    }
}

impl PolicyRecord {
    pub(super) fn find(kind: &str) -> Option<&'static Self> {
        POLICIES.iter().find(|record| record.name() == kind).copied()
    }

    pub(super) fn name(&self) -> &'static str {
        self.kind.resource.kind
    }

    /// The schema of `spec`.
    pub(super) fn spec_schema(&self) -> &Value {
        self.schemas.spec.get_or_init(self.spec)
    }
}

impl RecordSchemas {
    pub(super) const fn new() -> Self {
        Self { object: OnceLock::new(), spec: OnceLock::new() }
    }
}

impl MeshRecord {
    pub(super) fn all() -> impl Iterator<Item = Self> {
        let policies = POLICIES.iter().map(|record| Self::Policy(record));
        policies.chain(RESOURCES.iter().map(|record| Self::Resource(record)))
    }

    /// The record of a kind whose documents are checked.
    pub(super) fn of_checked(kind: &str) -> Option<Self> {
        let is_checked = |record: &Self| match record {
            Self::Policy(_) => true,
            Self::Resource(record) => record.is_checked,
        };
        Self::all().find(|record| record.kind() == kind && is_checked(record))
    }

    pub(super) fn kind(self) -> &'static str {
        match self {
            Self::Policy(record) => record.name(),
            Self::Resource(record) => record.kind,
        }
    }

    fn plural(self) -> &'static str {
        match self {
            Self::Policy(record) => record.kind.resource.path,
            Self::Resource(record) => record.plural,
        }
    }

    pub(super) fn check(self) -> Option<fn(&Resource<'_>, &mut Findings)> {
        match self {
            Self::Policy(record) => Some(record.check),
            Self::Resource(record) => record.check,
        }
    }

    /// Whether a universal document has its content beside `type` and `name`.
    pub(super) fn is_older(self) -> bool {
        matches!(self, Self::Resource(ResourceRecord { content: RecordContent::Older(..), .. }))
    }

    /// The schema of a whole object, ready to be walked.
    pub(super) fn object_schema(self) -> &'static Schema {
        let schemas = match self {
            Self::Policy(record) => &record.schemas,
            Self::Resource(record) => &record.schemas,
        };
        schemas.object.get_or_init(|| Schema::read(&self.schema()).expect("a schema that a test has read"))
    }

    /// The schema of a whole object, as its CRD has it.
    fn schema(self) -> Value {
        let mut fields =
            json!({"apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": {"type": "object"}});
        let description = match self {
            Self::Policy(record) => {
                fields["spec"] = record.spec_schema().clone();
                record.description
            }
            Self::Resource(record) => {
                match record.content {
                    RecordContent::Service(spec) => {
                        fields["spec"] = spec();
                        fields["status"] =
                            open_object("What the control plane has found out: addresses, and how it fares.");
                    }
                    RecordContent::Older(_, _, spec) => {
                        fields["spec"] = spec();
                        fields["mesh"] = text("The mesh that the object belongs to.");
                    }
                }
                record.description
            }
        };
        json!({"type": "object", "description": description, "properties": fields})
    }

    fn define(self) -> CustomResourceDefinition {
        let (scope, columns) = match self {
            Self::Policy(_) => (Scope::Namespaced, TARGET_COLUMNS),
            Self::Resource(ResourceRecord { content: RecordContent::Service(_), .. }) => {
                (Scope::Namespaced, HOSTNAME_COLUMN)
            }
            Self::Resource(ResourceRecord { content: RecordContent::Older(scope, columns, _), .. }) => {
                (*scope, *columns)
            }
        };
        let short_names: &[&str] = match &self {
            Self::Policy(record) => std::slice::from_ref(&record.kind.resource.short),
            Self::Resource(record) => record.short_names,
        };
        Definition {
            group: GROUP,
            versions: VERSIONS,
            kind: self.kind(),
            plural: self.plural(),
            short_names,
            categories: CATEGORIES,
            scope,
            status: false,
            columns,
            schema: self.schema(),
        }
        .build()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::mesh::policy::Role;
    use crate::core::mesh::target_ref::TargetKind::{
        self, Mesh, MeshExternalService, MeshGateway, MeshHttpRoute, MeshService, MeshTcpRoute,
    };

    #[test]
    fn kinds_are_listed_once_and_in_their_order() {
        assert!(POLICIES.is_sorted_by(|one, next| one.kind.order < next.kind.order));
        let mut kinds: Vec<_> = MeshRecord::all().map(MeshRecord::kind).collect();
        kinds.sort_unstable();
        assert!(kinds.is_sorted_by(|one, next| one < next), "{kinds:?}");
        assert_eq!(POLICIES.first().map(|record| record.name()), Some("MeshHTTPRoute"));
        assert_eq!(
            POLICIES.last().map(|record| record.name()),
            Some("MeshProxyPatch"),
            "patches see the finished result"
        );
    }

    #[test]
    fn records_say_the_same_as_their_schemas() {
        for record in POLICIES {
            let has = |field: &str| record.spec_schema().pointer(&format!("/properties/{field}")).is_some();
            let PolicyKind { to, from, rules, single, from_as_rules, destinations, .. } = record.kind;
            assert_eq!((to, from, rules), (has("to"), has("from"), has("rules")), "{}", record.name());
            assert_eq!(single, has("default"), "{}", record.name());
            assert_eq!(to, !destinations.is_empty(), "{}", record.name());
            assert_eq!(from, !record.places.from.is_empty(), "{}", record.name());
            assert_eq!(from_as_rules, record.places.from == [Mesh], "{}", record.name());
        }
    }

    fn top(kind: &str, role: Role) -> Vec<TargetKind> {
        PolicyRecord::find(kind).expect(kind).places.top(role, false).kinds.into_owned()
    }

    #[test]
    fn roles_limit_the_top_level() {
        assert!(top("MeshTimeout", Role::System).contains(&MeshHttpRoute));
        for role in [Role::Producer, Role::Consumer, Role::WorkloadOwner] {
            assert!(!top("MeshTimeout", role).contains(&MeshHttpRoute));
            assert!(!top("MeshTimeout", role).contains(&MeshGateway));
            assert!(top("MeshTimeout", role).contains(&MeshService));
            assert!(top("MeshHealthCheck", role).contains(&MeshGateway));
        }
        for record in POLICIES {
            assert!(!top(record.name(), Role::System).contains(&MeshTcpRoute), "{}", record.name());
        }
    }

    #[test]
    fn the_top_level_limits_to() {
        let to = |kind: &str, top| {
            let record = PolicyRecord::find(kind).expect(kind);
            record.places.to(record.kind.destinations, Some(top)).kinds.into_owned()
        };
        assert_eq!(to("MeshHTTPRoute", MeshGateway), [Mesh]);
        assert_eq!(to("MeshTimeout", MeshHttpRoute), [Mesh, MeshExternalService]);
        for record in POLICIES {
            let to = to(record.name(), Mesh);
            assert_eq!(to.contains(&MeshTcpRoute), to.contains(&MeshHttpRoute), "{}", record.name());
        }
    }
}
