//! What limits every rule of an install, whoever wrote it: the kinds that the cluster serves and where they live, the install's own
//! namespace, and the hosts that may be called.

use std::sync::Arc;

use serde_json::Value;

use crate::core::catalog::Catalog;
use crate::core::kinds::{self, Scope};
use crate::core::resource::{Gvk, ObjectKey, text_at};

use super::gate::Outbound;

/// The facts that a gate decides by. Clones are cheap.
#[derive(Clone, Debug)]
pub struct InstallBounds {
    catalog: Arc<Catalog>,
    unknown: UnknownKinds,
    /// Empty outside a cluster.
    namespace: Arc<str>,
    outbound: Arc<Outbound>,
}

/// What is assumed about a kind that discovery does not report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum UnknownKinds {
    /// Nothing: a Policy must wait until the kind is known.
    Refused,
    /// It lives in namespaces, as most custom resources do. Only where there is no cluster to harm.
    Namespaced,
}

impl InstallBounds {
    /// Those of a cluster: `catalog` comes from its discovery, `namespace` is where Writ is installed.
    pub fn of_cluster(catalog: Arc<Catalog>, namespace: impl Into<Arc<str>>) -> Self {
        let (unknown, outbound) = (UnknownKinds::Refused, Arc::default());
        Self { catalog, unknown, namespace: namespace.into(), outbound }
    }

    /// Those without a cluster: the built-in kinds are known, and any other is taken to live in namespaces.
    pub fn offline() -> Self {
        let (catalog, unknown) = (Arc::default(), UnknownKinds::Namespaced);
        Self { catalog, unknown, namespace: "".into(), outbound: Arc::default() }
    }

    /// The same, with hosts that policies may call.
    pub fn with_outbound(self, outbound: impl Into<Arc<Outbound>>) -> Self {
        Self { outbound: outbound.into(), ..self }
    }

    pub fn outbound(&self) -> &Outbound {
        &self.outbound
    }

    /// Where objects of a kind live.
    pub fn scope(&self, gvk: &Gvk) -> Option<Scope> {
        self.catalog.scope(gvk).or(self.assumed())
    }

    /// Where objects of a resource live.
    pub fn scope_of_resource(&self, group: &str, plural: &str) -> Option<Scope> {
        let served = self
            .catalog
            .all()
            .find(|resource| resource.plural == plural && resource.group == group && resource.subresource.is_empty());
        let known = served.map(|resource| resource.scope);
        known.or_else(|| kinds::by_plural(group, plural).map(|row| row.scope)).or(self.assumed())
    }

    fn assumed(&self) -> Option<Scope> {
        (self.unknown == UnknownKinds::Namespaced).then_some(Scope::Namespaced)
    }

    /// Whether a namespace is the install's own.
    pub fn is_own(&self, namespace: &str) -> bool {
        !namespace.is_empty() && *namespace == *self.namespace
    }

    /// Whether an object belongs to the install: it is in its namespace, or is that namespace.
    pub fn owns(&self, key: &ObjectKey) -> bool {
        let is_namespace = key.gvk.group.is_empty() && key.gvk.kind == "Namespace";
        key.namespace.as_deref().is_some_and(|namespace| self.is_own(namespace))
            || (is_namespace && self.is_own(&key.name))
    }

    /// Drops what belongs to the install from objects that were listed across namespaces: from an array, or from the `items`
    /// of a list. Items of a list do not say their kind, so `of_namespaces` says whether they are Namespaces.
    pub fn withhold(&self, listed: &mut Value, of_namespaces: bool) {
        let items = match listed {
            Value::Array(items) => Some(items),
            other => other.get_mut("items").and_then(Value::as_array_mut),
        };
        if let Some(items) = items {
            let is_own = |item: &Value, field: &str| self.is_own(text_at(item, &["metadata", field]));
            items.retain(|item| !is_own(item, "namespace") && (!of_namespaces || !is_own(item, "name")));
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::core::catalog::ApiResource;

    #[test]
    fn discovery_decides_about_scope() {
        let widget = ApiResource {
            group: "example.org".into(),
            version: "v1".into(),
            kind: "Widget".into(),
            plural: "widgets".into(),
            subresource: String::new(),
            scope: Scope::Cluster,
        };
        let bounds = InstallBounds::of_cluster(Arc::new(Catalog::new([widget])), "writ-system");
        assert_eq!(bounds.scope(&Gvk::new("example.org/v1", "Widget")), Some(Scope::Cluster));
        assert_eq!(bounds.scope_of_resource("example.org", "widgets"), Some(Scope::Cluster));
        assert_eq!(bounds.scope(&Gvk::new("v1", "Secret")), Some(Scope::Namespaced));
        assert_eq!(bounds.scope(&Gvk::new("example.org/v1", "Gadget")), None);
        assert_eq!(bounds.scope_of_resource("example.org", "gadgets"), None);
        assert_eq!(InstallBounds::offline().scope(&Gvk::new("example.org/v1", "Gadget")), Some(Scope::Namespaced));
        assert_eq!(InstallBounds::offline().scope(&Gvk::new("v1", "Node")), Some(Scope::Cluster));
    }

    #[test]
    fn what_belongs_to_the_install_is_dropped_from_lists() {
        let bounds = InstallBounds::of_cluster(Arc::default(), "writ-system");
        let secret = |namespace: &str| json!({"metadata": {"name": "s", "namespace": namespace}});
        let mut list = json!({"kind": "SecretList", "items": [secret("a"), secret("writ-system")]});
        bounds.withhold(&mut list, false);
        assert_eq!(list["items"], json!([secret("a")]));
        let mut list = json!([secret("writ-system"), secret("a")]);
        bounds.withhold(&mut list, false);
        assert_eq!(list, json!([secret("a")]));
        let named = json!({"items": [{"metadata": {"name": "writ-system"}}, {"metadata": {"name": "a"}}]});
        let mut namespaces = named.clone();
        bounds.withhold(&mut namespaces, true);
        assert_eq!(namespaces["items"], json!([{"metadata": {"name": "a"}}]));
        let mut others = named.clone();
        bounds.withhold(&mut others, false);
        assert_eq!(others, named, "another kind may well have the name of the namespace");
        let mut single = json!({"metadata": {"name": "x"}});
        bounds.withhold(&mut single, false);
        assert_eq!(single, json!({"metadata": {"name": "x"}}));
    }
}
