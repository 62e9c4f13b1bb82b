//! The resources that a cluster serves, as a value: kinds with their plural names, scopes and subresources.
//!
//! Discovery fills it from an API server; without one the built-in kinds stand in. Nobody below asks the cluster what a kind
//! is called.

use std::collections::HashMap;

use super::kinds::{self, Scope};
use super::matching::{KindSelector, Resource};
use super::resource::Gvk;

/// One resource or subresource in one version.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ApiResource {
    pub group: String,
    pub version: String,
    /// For a subresource, the kind that it belongs to.
    pub kind: String,
    pub plural: String,
    /// Empty for the resource itself.
    pub subresource: String,
    pub scope: Scope,
}

/// What a cluster serves. In each group the preferred version comes first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Catalog {
    resources: Vec<ApiResource>,
    by_kind: HashMap<String, Vec<usize>>,
}

/// Subresources of built-in kinds that rules may be about.
const BUILTIN_SUBRESOURCES: &[(&str, &[&str])] = &[
    (
        "Pod",
        &[
            "attach",
            "binding",
            "ephemeralcontainers",
            "eviction",
            "exec",
            "log",
            "portforward",
            "proxy",
            "resize",
            "status",
        ],
    ),
    ("Deployment", &["scale", "status"]),
    ("StatefulSet", &["scale", "status"]),
    ("ReplicaSet", &["scale", "status"]),
    ("ReplicationController", &["scale", "status"]),
    ("Namespace", &["finalize", "status"]),
    ("Node", &["proxy", "status"]),
    ("Service", &["proxy", "status"]),
    ("ServiceAccount", &["token"]),
];

impl Catalog {
    /// The order is kept: of two versions of a kind, the one that comes first is preferred.
    pub fn new(resources: impl IntoIterator<Item = ApiResource>) -> Self {
        let resources: Vec<ApiResource> = resources.into_iter().collect();
        let mut by_kind: HashMap<String, Vec<usize>> = HashMap::new();
        for (index, resource) in resources.iter().enumerate() {
            by_kind.entry(resource.kind.clone()).or_default().push(index);
        }
        Self { resources, by_kind }
    }

    /// What every cluster serves.
    pub fn builtin() -> Self {
        Self::new(kinds::all().flat_map(|row| {
            let subresources =
                BUILTIN_SUBRESOURCES.iter().find(|(kind, _)| *kind == row.kind).map_or(&[][..], |(_, names)| names);
            row.versions.iter().flat_map(move |version| {
                std::iter::once(&"").chain(subresources).map(move |subresource| ApiResource {
                    group: row.group.to_owned(),
                    version: (*version).to_owned(),
                    kind: row.kind.to_owned(),
                    plural: row.plural.to_owned(),
                    subresource: (*subresource).to_owned(),
                    scope: row.scope,
                })
            })
        }))
    }

    pub fn all(&self) -> impl Iterator<Item = &ApiResource> {
        self.resources.iter()
    }

    /// Everything that a selector of a rule is about.
    pub fn select<'c>(&'c self, selector: &'c KindSelector) -> impl Iterator<Item = &'c ApiResource> {
        self.resources.iter().filter(|resource| selector.matches(&resource.as_resource()))
    }

    /// The resource of a kind, in exactly that version.
    pub fn get(&self, gvk: &Gvk) -> Option<&ApiResource> {
        self.of_kind(&gvk.kind).find(|resource| resource.group == gvk.group && resource.version == gvk.version)
    }

    /// The resource of a kind, in the preferred version of its group.
    pub fn preferred(&self, group: &str, kind: &str) -> Option<&ApiResource> {
        self.of_kind(kind).find(|resource| resource.group == group)
    }

    /// The resources of every kind of that name, whatever its group and version.
    pub fn of_kind<'c>(&'c self, kind: &str) -> impl Iterator<Item = &'c ApiResource> {
        let found = self.by_kind.get(kind).map(Vec::as_slice).unwrap_or_default();
        found.iter().map(|index| &self.resources[*index]).filter(|resource| resource.subresource.is_empty())
    }

    /// The resource behind a plural name as requests carry it.
    pub fn by_plural(&self, group: &str, version: &str, plural: &str) -> Option<&ApiResource> {
        self.resources.iter().find(|resource| {
            resource.plural == plural
                && resource.group == group
                && resource.version == version
                && resource.subresource.is_empty()
        })
    }

    /// Where objects of a kind live, in whatever version. Of well-known kinds that is known even while the cluster does not
    /// serve them.
    pub fn scope(&self, gvk: &Gvk) -> Option<Scope> {
        let served = self.preferred(&gvk.group, &gvk.kind).map(|resource| resource.scope);
        served.or_else(|| kinds::find(&gvk.group, &gvk.kind).map(|row| row.scope))
    }
}

impl ApiResource {
    pub fn gvk(&self) -> Gvk {
        Gvk { group: self.group.clone(), version: self.version.clone(), kind: self.kind.clone() }
    }

    /// What matching looks at.
    pub fn as_resource(&self) -> Resource<'_> {
        Resource { group: &self.group, version: &self.version, kind: &self.kind, subresource: &self.subresource }
    }

    /// `pods` or `pods/exec`, as webhook rules and roles name it.
    pub fn path(&self) -> String {
        match self.subresource.as_str() {
            "" => self.plural.clone(),
            subresource => format!("{}/{subresource}", self.plural),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(selector: &str) -> Vec<String> {
        let selector = KindSelector::parse(selector).expect(selector);
        let catalog = Catalog::builtin();
        let mut found: Vec<String> = catalog
            .select(&selector)
            .map(|resource| format!("{}/{}/{}", resource.group, resource.version, resource.path()))
            .collect();
        found.sort();
        found
    }

    #[test]
    fn selectors_become_resources() {
        assert_eq!(paths("Namespace"), ["/v1/namespaces"]);
        assert_eq!(paths("Pod"), ["/v1/pods", "/v1/pods/ephemeralcontainers"]);
        assert_eq!(paths("Pod/exec"), ["/v1/pods/exec"]);
        assert_eq!(paths("batch/*/CronJob"), ["batch/v1/cronjobs", "batch/v1beta1/cronjobs"]);
        assert_eq!(paths("Nothing"), [""; 0]);
        assert_eq!(paths("Event"), ["/v1/events", "events.k8s.io/v1/events"]);
    }

    #[test]
    fn scopes_go_by_group_and_kind() {
        let catalog = Catalog::builtin();
        assert_eq!(catalog.scope(&Gvk::new("v2beta1", "ConfigMap")), Some(Scope::Namespaced));
        assert_eq!(catalog.scope(&Gvk::new("x.io/v1", "ConfigMap")), None);
        assert_eq!(catalog.get(&Gvk::new("v2beta1", "ConfigMap")), None);
        assert_eq!(
            Catalog::default().scope(&Gvk::new("v1", "Namespace")),
            Some(Scope::Cluster),
            "known without being served"
        );
        assert_eq!(catalog.by_plural("", "v1", "endpoints").map(|resource| &*resource.kind), Some("Endpoints"));
    }
}
