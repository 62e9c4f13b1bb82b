//! The kinds that a cluster serves, and the paths of their objects.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;

use super::ClusterError;
use crate::core::catalog::{ApiResource, Catalog};
use crate::core::kinds::{self as builtin, Scope};
use crate::core::matching::{KindSelector, Resource};
use crate::core::resource::{Gvk, text_at};

/// One kind in one version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiKind {
    pub gvk: Gvk,
    pub plural: String,
    pub scope: Scope,
    pub verbs: BTreeSet<String>,
    pub subresources: BTreeSet<String>,
}

/// All of them, in the order of the API server, which names the preferred version of a group first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Kinds {
    all: Vec<Arc<ApiKind>>,
    by_gvk: BTreeMap<Gvk, usize>,
    catalog: Arc<Catalog>,
}

impl ApiKind {
    /// One of the kinds that every cluster has, or that Writ installs: no need to ask.
    pub fn builtin(api_version: &str, kind: &str) -> Self {
        let gvk = Gvk::new(api_version, kind);
        let row = builtin::find(&gvk.group, kind);
        Self {
            plural: row.map_or_else(|| builtin::guess_plural(kind), |row| row.plural.to_owned()),
            scope: row.map_or(Scope::Namespaced, |row| row.scope),
            gvk,
            verbs: BTreeSet::new(),
            subresources: BTreeSet::new(),
        }
    }

    /// The path of one object, or of all of them. What is no name of an object is refused, so a path cannot lead elsewhere.
    pub fn path(&self, namespace: Option<&str>, name: Option<&str>) -> Result<String, ClusterError> {
        let Gvk { group, version, .. } = &self.gvk;
        let mut path = match group.as_str() {
            "" => format!("/api/{version}"),
            group => format!("/apis/{group}/{version}"),
        };
        if let Some(namespace) = namespace.filter(|_| self.scope == Scope::Namespaced) {
            path = format!("{path}/namespaces/{}", self.part(namespace)?);
        }
        path = format!("{path}/{}", self.plural);
        if let Some(name) = name {
            if self.scope == Scope::Namespaced && namespace.is_none() {
                return Err(self.refuse(name, "it needs a namespace"));
            }
            path = format!("{path}/{}", self.part(name)?);
        }
        Ok(path)
    }

    fn part<'n>(&self, name: &'n str) -> Result<&'n str, ClusterError> {
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~:@+=,!$&'()*;".contains(&byte);
        if name.is_empty() || name == "." || name == ".." || !name.bytes().all(fits) {
            return Err(self.refuse(name, "that is no name of an object"));
        }
        Ok(name)
    }

    fn refuse(&self, name: &str, reason: &str) -> ClusterError {
        let resource = format!("{} `{name}`", self.plural_name());
        ClusterError::Rejected { verb: "address", resource, reason: reason.to_owned() }
    }

    /// `deployments.apps`, as it is written in rules of roles.
    pub fn plural_name(&self) -> String {
        match self.gvk.group.as_str() {
            "" => self.plural.clone(),
            group => format!("{}.{group}", self.plural),
        }
    }

    /// `deployments.apps a/web`
    pub fn name(&self, namespace: Option<&str>, name: &str) -> String {
        let separator = if namespace.is_some() { "/" } else { "" };
        format!("{} {}{separator}{name}", self.plural_name(), namespace.unwrap_or_default())
    }

    /// Items of lists do not say what they are.
    pub fn named(&self, mut object: Value) -> Value {
        object["apiVersion"] = Value::from(self.gvk.api_version());
        object["kind"] = Value::from(self.gvk.kind.as_str());
        object
    }

    /// Whether changes of its status come through a path of their own.
    pub fn has_status(&self) -> bool {
        self.subresources.contains("status")
    }

    pub fn is_namespaced(&self) -> bool {
        self.scope == Scope::Namespaced
    }
}

impl Kinds {
    /// Reads documents of aggregated discovery (`/api` and `/apis`).
    pub fn read(documents: &[Value]) -> Self {
        let mut kinds = Self::default();
        let groups = documents.iter().filter_map(|document| document["items"].as_array()).flatten();
        for group in groups {
            let name = text_at(group, &["metadata", "name"]);
            for version in group["versions"].as_array().into_iter().flatten() {
                let resources = version["resources"].as_array().into_iter().flatten();
                resources
                    .filter_map(|resource| read(name, text_at(version, &["version"]), resource))
                    .for_each(|kind| kinds.add(kind));
            }
        }
        kinds.catalog = Arc::new(catalog(&kinds.all));
        kinds
    }

    fn add(&mut self, kind: ApiKind) {
        self.by_gvk.entry(kind.gvk.clone()).or_insert(self.all.len());
        self.all.push(Arc::new(kind));
    }

    pub fn find(&self, gvk: &Gvk) -> Option<&Arc<ApiKind>> {
        self.by_gvk.get(gvk).map(|index| &self.all[*index])
    }

    pub fn by_plural(&self, group: &str, version: &str, plural: &str) -> Option<&Arc<ApiKind>> {
        self.all.iter().find(|kind| kind.plural == plural && kind.gvk.group == group && kind.gvk.version == version)
    }

    /// The kinds of a selector that can be watched; of several versions of a kind the first that the API server names.
    pub fn select(&self, selector: &KindSelector) -> Vec<Arc<ApiKind>> {
        let mut taken = BTreeSet::new();
        let fits = |kind: &&Arc<ApiKind>| {
            let Gvk { group, version, kind: name } = &kind.gvk;
            selector.matches(&Resource { group, version, kind: name, subresource: "" }) && kind.verbs.contains("list")
        };
        let fitting = self.all.iter().filter(fits);
        fitting.filter(|kind| taken.insert((&kind.gvk.group, &kind.gvk.kind))).cloned().collect()
    }

    /// Where objects of a kind live, whichever version is asked about. Of well-known kinds that is known even while the
    /// cluster does not serve them.
    pub fn scope(&self, gvk: &Gvk) -> Option<Scope> {
        let same = |kind: &&Arc<ApiKind>| kind.gvk.group == gvk.group && kind.gvk.kind == gvk.kind;
        let served = self.find(gvk).or_else(|| self.all.iter().find(same)).map(|kind| kind.scope);
        served.or_else(|| builtin::find(&gvk.group, &gvk.kind).map(|row| row.scope))
    }

    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// The same as a value of the engine, with one entry for each subresource.
    pub fn catalog(&self) -> Arc<Catalog> {
        self.catalog.clone()
    }
}

fn catalog(kinds: &[Arc<ApiKind>]) -> Catalog {
    Catalog::new(kinds.iter().flat_map(|kind| {
        let ApiKind { gvk, plural, scope, subresources, .. } = &**kind;
        std::iter::once("").chain(subresources.iter().map(String::as_str)).map(move |subresource| ApiResource {
            group: gvk.group.clone(),
            version: gvk.version.clone(),
            kind: gvk.kind.clone(),
            plural: plural.clone(),
            subresource: subresource.to_owned(),
            scope: *scope,
        })
    }))
}

fn read(group: &str, version: &str, resource: &Value) -> Option<ApiKind> {
    let texts = |value: &Value| -> BTreeSet<String> {
        value.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let subresources = resource["subresources"].as_array().into_iter().flatten();
    let kind = text_at(resource, &["responseKind", "kind"]);
    Some(ApiKind {
        gvk: Gvk { group: group.to_owned(), version: version.to_owned(), kind: kind.to_owned() },
        plural: Some(text_at(resource, &["resource"])).filter(|name| !name.is_empty() && !kind.is_empty())?.to_owned(),
        scope: if text_at(resource, &["scope"]) == "Cluster" { Scope::Cluster } else { Scope::Namespaced },
        verbs: texts(&resource["verbs"]),
        subresources: subresources.map(|each| text_at(each, &["subresource"]).to_owned()).collect(),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn kinds() -> Kinds {
        let resource = |plural: &str, kind: &str, scope: &str| {
            json!({"resource": plural, "responseKind": {"kind": kind}, "scope": scope, "verbs": ["list", "watch"],
                   "subresources": [{"subresource": "status"}]})
        };
        let version = |name: &str, resources: Vec<Value>| json!({"version": name, "resources": resources});
        let autoscaler = || vec![resource("horizontalpodautoscalers", "HorizontalPodAutoscaler", "Namespaced")];
        Kinds::read(&[
            json!({"items": [{"metadata": {"name": ""}, "versions": [version("v1", vec![
                resource("namespaces", "Namespace", "Cluster"), resource("pods", "Pod", "Namespaced"),
            ])]}]}),
            json!({"items": [{"metadata": {"name": "autoscaling"}, "versions": [
                version("v2", autoscaler()), version("v1", autoscaler()),
            ]}]}),
        ])
    }

    #[test]
    fn the_preferred_version_comes_first() {
        let select = |text: &str| {
            let selector = KindSelector::parse(text).expect("a selector");
            kinds().select(&selector).iter().map(|kind| kind.gvk.to_string()).collect::<Vec<_>>()
        };
        assert_eq!(select("HorizontalPodAutoscaler"), ["autoscaling/v2 HorizontalPodAutoscaler"]);
        assert_eq!(select("autoscaling/v1/HorizontalPodAutoscaler"), ["autoscaling/v1 HorizontalPodAutoscaler"]);
        assert_eq!(select("P*"), ["v1 Pod"]);
        assert_eq!(select("Unknown"), [""; 0]);
    }

    #[test]
    fn paths_lead_nowhere_else() {
        let kinds = kinds();
        let pod = kinds.find(&Gvk::new("v1", "Pod")).expect("known");
        assert_eq!(pod.path(Some("a"), Some("b")).expect("a path"), "/api/v1/namespaces/a/pods/b");
        assert_eq!(pod.path(None, None).expect("a path"), "/api/v1/pods");
        for (namespace, name) in
            [(None, "b"), (Some("a"), ".."), (Some("a/../b"), "c"), (Some("a"), "b?c"), (Some("a"), "")]
        {
            assert!(pod.path(namespace, Some(name)).is_err(), "{namespace:?} {name}");
        }
        let namespace = kinds.find(&Gvk::new("v1", "Namespace")).expect("known");
        assert_eq!(namespace.path(None, Some("a")).expect("a path"), "/api/v1/namespaces/a");
        assert!(namespace.has_status() && !namespace.is_namespaced());
    }

    #[test]
    fn scope_is_known_across_versions() {
        assert_eq!(kinds().scope(&Gvk::new("autoscaling/v2beta2", "HorizontalPodAutoscaler")), Some(Scope::Namespaced));
        assert_eq!(kinds().scope(&Gvk::new("v1", "Unknown")), None);
    }
}
