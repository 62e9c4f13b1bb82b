//! Which proxies a policy reaches, as far as its own text tells, and when two policies can have none in common.
//!
//! A policy for a route does nothing on a proxy that does not have the route. Proxies themselves are not asked for: what is
//! told here holds whichever there are.

use std::collections::BTreeMap;

use super::target_ref::{DataplaneRef, Pairs, ProxyTypes, ResourceRef, TargetKind, TargetRef};

const NAMESPACE: &str = "k8s.kuma.io/namespace";
const SERVICE: &str = "kuma.io/service";
const DISPLAY_NAME: &str = "kuma.io/display-name";

/// The proxies that a policy is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reach {
    pub top: TargetRef,
    /// Of this namespace alone, as the role of the policy has it.
    pub namespace: Option<String>,
}

/// A route that there is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    pub kind: TargetKind,
    /// Empty if it is of no namespace.
    pub namespace: String,
    pub name: String,
    pub labels: Pairs,
    pub reach: Reach,
}

/// All routes at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Routes(pub Vec<Route>);

impl Routes {
    /// Those that a reference in a policy of `namespace` means.
    pub fn meant<'r>(
        &'r self,
        kind: TargetKind,
        reference: &'r ResourceRef,
        namespace: &'r str,
    ) -> impl Iterator<Item = &'r Route> {
        self.0.iter().filter(move |route| route.kind == kind && route.is_meant(reference, namespace))
    }
}

impl Route {
    fn is_meant(&self, reference: &ResourceRef, of: &str) -> bool {
        match reference {
            ResourceRef::Named { name, namespace } => {
                self.name == *name && self.namespace == namespace.as_deref().unwrap_or(of)
            }
            ResourceRef::Labelled(labels) => labels.iter().all(|(key, value)| self.label(key) == Some(value.as_str())),
        }
    }

    /// The name and the namespace count as labels, whether they are written down or not.
    fn label(&self, key: &str) -> Option<&str> {
        let implied = match key {
            DISPLAY_NAME => Some(self.name.as_str()),
            NAMESPACE => Some(self.namespace.as_str()),
            _ => None,
        };
        self.labels.get(key).map(String::as_str).or(implied)
    }
}

impl Reach {
    /// Whether no proxy can be reached by both. One that has several inbounds may carry two values of one tag, and is not
    /// thought of: this is for a warning.
    pub fn excludes(&self, other: &Self) -> bool {
        let (one, other) = (self.demands(), other.demands());
        let differ = |one: Option<&str>, other: Option<&str>| one.zip(other).is_some_and(|(one, other)| one != other);
        one.nobody
            || other.nobody
            || differ(one.dataplane, other.dataplane)
            || differ(one.gateway, other.gateway)
            || matches!(
                (one.proxies, other.proxies),
                (ProxyTypes::Sidecars, ProxyTypes::Gateways) | (ProxyTypes::Gateways, ProxyTypes::Sidecars)
            )
            || one.pairs.iter().any(|(key, value)| differ(Some(value), other.pairs.get(key).copied()))
    }

    /// What a proxy must be to be reached.
    fn demands(&self) -> Demands<'_> {
        let mut demands = Demands::default();
        match &self.top {
            TargetRef::Mesh { proxies } => demands.proxies = *proxies,
            TargetRef::Dataplane { proxies, .. } => match proxies {
                DataplaneRef::Every => {}
                DataplaneRef::Nobody => demands.nobody = true,
                DataplaneRef::Some(ResourceRef::Labelled(labels)) => demands.pairs(labels),
                DataplaneRef::Some(ResourceRef::Named { name, namespace }) => {
                    demands.dataplane = Some(name);
                    demands.pair(NAMESPACE, namespace.as_deref());
                }
            },
            TargetRef::MeshSubset { tags, labels, proxies } => {
                demands.proxies = *proxies;
                demands.pairs(tags);
                demands.pairs(labels);
            }
            TargetRef::MeshService { service: ResourceRef::Named { name, .. }, .. } => {
                demands.proxies = ProxyTypes::Sidecars;
                demands.pair(SERVICE, Some(name));
            }
            TargetRef::MeshServiceSubset { name, tags } => {
                demands.proxies = ProxyTypes::Sidecars;
                demands.pair(SERVICE, Some(name));
                demands.pairs(tags);
            }
            TargetRef::MeshGateway { name, .. } => {
                demands.proxies = ProxyTypes::Gateways;
                demands.gateway = Some(name);
            }
            // Who they reach, other objects decide.
            TargetRef::MeshService { .. }
            | TargetRef::MeshExternalService(_)
            | TargetRef::MeshMultiZoneService { .. }
            | TargetRef::MeshHttpRoute(_)
            | TargetRef::MeshTcpRoute(_) => {}
        }
        let tagged = demands.pairs.get(NAMESPACE).copied();
        demands.nobody |= tagged.zip(self.namespace.as_deref()).is_some_and(|(tagged, own)| tagged != own);
        demands.pair(NAMESPACE, self.namespace.as_deref());
        demands
    }
}

#[derive(Default)]
struct Demands<'r> {
    /// They contradict each other.
    nobody: bool,
    proxies: ProxyTypes,
    dataplane: Option<&'r str>,
    gateway: Option<&'r str>,
    /// Tags and labels.
    pairs: BTreeMap<&'r str, &'r str>,
}

impl<'r> Demands<'r> {
    fn pair(&mut self, key: &'r str, value: Option<&'r str>) {
        if let Some(value) = value.filter(|value| *value != "*") {
            self.pairs.insert(key, value);
        }
    }

    fn pairs(&mut self, pairs: &'r Pairs) {
        pairs.iter().for_each(|(key, value)| self.pair(key, Some(value)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(list: &[(&str, &str)]) -> Pairs {
        list.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    fn subset(tags: &[(&str, &str)]) -> Reach {
        let top = TargetRef::MeshSubset { tags: pairs(tags), labels: Pairs::new(), proxies: ProxyTypes::All };
        Reach { top, namespace: None }
    }

    fn of_namespace(namespace: &str) -> Reach {
        Reach { top: TargetRef::WHOLE_MESH, namespace: Some(namespace.to_owned()) }
    }

    fn service(name: &str) -> Reach {
        let service = ResourceRef::Named { name: name.to_owned(), namespace: None };
        Reach { top: TargetRef::MeshService { service, section: None }, namespace: None }
    }

    #[track_caller]
    fn check(one: &Reach, other: &Reach, excludes: bool) {
        assert_eq!((one.excludes(other), other.excludes(one)), (excludes, excludes));
    }

    #[test]
    fn two_values_of_one_tag_exclude_each_other() {
        check(&subset(&[("app", "a")]), &subset(&[("app", "b")]), true);
        check(&subset(&[("app", "a")]), &subset(&[("app", "a"), ("version", "2")]), false);
        check(&subset(&[("app", "a")]), &subset(&[("team", "b")]), false);
        check(&subset(&[("app", "*")]), &subset(&[("app", "b")]), false);
        check(&subset(&[("kuma.io/service", "a")]), &service("b"), true);
        check(&service("a"), &service("a"), false);
    }

    #[test]
    fn namespaces_count_however_they_are_given() {
        check(&of_namespace("a"), &of_namespace("b"), true);
        check(&of_namespace("a"), &subset(&[(NAMESPACE, "b")]), true);
        check(&of_namespace("a"), &subset(&[(NAMESPACE, "a")]), false);
        check(&of_namespace("a"), &service("x"), false);
        let nobody = Reach { namespace: Some("a".to_owned()), ..subset(&[(NAMESPACE, "b")]) };
        check(&nobody, &service("x"), true);
    }

    #[test]
    fn gateways_are_no_sidecars() {
        let gateway = |name: &str| Reach {
            top: TargetRef::MeshGateway { name: name.to_owned(), tags: Pairs::new() },
            namespace: None,
        };
        let whole = Reach { top: TargetRef::WHOLE_MESH, namespace: None };
        check(&gateway("a"), &service("a"), true);
        check(&gateway("a"), &gateway("b"), true);
        check(&gateway("a"), &whole, false);
        check(&service("a"), &whole, false);
    }

    #[test]
    fn references_find_routes_by_name_or_labels() {
        let route = |name: &str, namespace: &str| Route {
            kind: TargetKind::MeshHttpRoute,
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            labels: pairs(&[("team", "x")]),
            reach: service("a"),
        };
        let routes = Routes(vec![route("r", "one"), route("r", "two"), route("s", "two")]);
        let found = |reference: &ResourceRef| -> Vec<String> {
            let meant = routes.meant(TargetKind::MeshHttpRoute, reference, "one");
            meant.map(|route| format!("{}/{}", route.namespace, route.name)).collect()
        };
        let named = |namespace: Option<&str>| ResourceRef::Named {
            name: "r".to_owned(),
            namespace: namespace.map(str::to_owned),
        };
        assert_eq!(found(&named(None)), ["one/r"]);
        assert_eq!(found(&named(Some("two"))), ["two/r"]);
        assert_eq!(found(&ResourceRef::Labelled(pairs(&[("team", "x"), (NAMESPACE, "two")]))), ["two/r", "two/s"]);
        assert_eq!(found(&ResourceRef::Labelled(pairs(&[(DISPLAY_NAME, "s")]))), ["two/s"]);
        assert_eq!(routes.meant(TargetKind::MeshTcpRoute, &named(None), "one").count(), 0);
    }
}
