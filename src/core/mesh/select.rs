//! Which proxies a policy selects, and which of their inbounds and listeners.

use super::mesh_policy::MeshPolicy;
use super::meta::{ORIGIN, ResourceMeta, ResourceOrigin, ZONE};
use super::policy::Role;
use super::resources::{Dataplane, GatewayListener, InboundKind, InboundListener, MeshGateway, tags_match};
use super::target_ref::{DataplaneRef, Pairs, ProxyTypes, ResourceRef, TargetRef};

const SERVICE_TAG: &str = "kuma.io/service";

/// A proxy, with the MeshGateway that configures it if it is a builtin gateway.
#[derive(Clone, Copy, Debug)]
pub struct Proxy<'m> {
    pub dataplane: &'m Dataplane,
    pub gateway: Option<&'m MeshGateway>,
}

/// What of a proxy a policy selects; nothing if all is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    pub inbounds: Vec<InboundListener>,
    /// Listeners of the gateway, by their position in it.
    pub listeners: Vec<usize>,
    /// The whole proxy, as it is a delegated gateway.
    pub delegated: bool,
}

/// Why the reference at the top of a policy selects no proxy whatsoever.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SelectError {
    #[error("couldn't resolve MeshHTTPRoute targetRef with name '{0}'")]
    MissingRoute(String),
    #[error("targetRef of kind {0} selects no proxies")]
    Kind(&'static str),
}

/// Finds the routes that a reference at the top of a policy may name.
pub trait RouteLookup {
    /// The MeshHTTPRoute with this display name.
    fn http_route(&self, name: &str) -> Option<&MeshPolicy>;
}

impl Selection {
    pub fn is_empty(&self) -> bool {
        self.inbounds.is_empty() && self.listeners.is_empty() && !self.delegated
    }
}

impl<'m> Proxy<'m> {
    /// Finds the gateway of a proxy: the one with the most specific selector, of equals the younger.
    pub fn new(dataplane: &'m Dataplane, gateways: impl IntoIterator<Item = &'m MeshGateway>) -> Self {
        let Some(part) = dataplane.gateway.as_ref().filter(|gateway| gateway.builtin) else {
            return Self { dataplane, gateway: None };
        };
        let zone = dataplane.meta.label(ZONE);
        let mut best = None;
        for gateway in gateways {
            let local = gateway.meta.origin() != ResourceOrigin::Zone
                || zone.is_none_or(|zone| gateway.meta.label(ZONE).is_none_or(|own| own == zone));
            let selectors = gateway.selectors.iter().filter(|selector| local && tags_match(selector, &part.tags));
            let exact = |selector: &Pairs| selector.values().filter(|value| *value != "*").count();
            let Some((tags, exact)) = selectors.map(|selector| (selector.len(), exact(selector))).max() else {
                continue;
            };
            let rank = (tags, exact, gateway.meta.created);
            if best.is_none_or(|(held, _)| rank > held) {
                best = Some((rank, gateway));
            }
        }
        Self { dataplane, gateway: best.map(|(_, gateway)| gateway) }
    }

    /// What a policy with this meta data and this reference selects.
    pub fn select(
        &self,
        policy: &ResourceMeta,
        top: &TargetRef,
        routes: &impl RouteLookup,
    ) -> Result<Selection, SelectError> {
        if let TargetRef::MeshHttpRoute(reference) = top {
            // A reference that leads nowhere is reported whichever proxy is asked about.
            let name = match reference {
                ResourceRef::Named { name, .. } => name.as_str(),
                ResourceRef::Labelled(_) => "",
            };
            let route = routes.http_route(name).ok_or_else(|| SelectError::MissingRoute(name.to_owned()))?;
            if !self.is_in_scope(policy) || matches!(route.top, TargetRef::MeshHttpRoute(_)) {
                return Ok(Selection::default());
            }
            return self.select(&route.meta, &route.top, routes);
        }
        if !self.is_in_scope(policy) {
            return Ok(Selection::default());
        }
        match top {
            TargetRef::Mesh { proxies } => Ok(self.whole(*proxies)),
            TargetRef::MeshSubset { tags, labels, proxies } => {
                let labelled = labels.iter().all(|(key, value)| self.dataplane.meta.labels.get(key) == Some(value));
                Ok(if labelled { self.subset(*proxies, tags) } else { Selection::default() })
            }
            TargetRef::MeshService { service, .. } => {
                let name = match service {
                    ResourceRef::Named { name, .. } => name.as_str(),
                    ResourceRef::Labelled(_) => "",
                };
                Ok(self.subset(ProxyTypes::All, &service_tags(name, &Pairs::new())))
            }
            TargetRef::MeshServiceSubset { name, tags } => Ok(self.subset(ProxyTypes::All, &service_tags(name, tags))),
            TargetRef::MeshGateway { name, tags } => {
                let gateway = self.gateway.filter(|gateway| gateway.meta.display_name() == name);
                let listeners = gateway.map(|_| self.listeners(Some(tags))).unwrap_or_default();
                Ok(Selection { listeners, ..Selection::default() })
            }
            TargetRef::Dataplane { proxies, section } => {
                Ok(self.named(policy, proxies, section.as_deref()).unwrap_or_default())
            }
            other => Err(SelectError::Kind(other.kind().name())),
        }
    }

    /// Whether the policy applies in the zone and the namespace of this proxy.
    fn is_in_scope(&self, policy: &ResourceMeta) -> bool {
        self.is_in_zone_of(policy) && self.is_in_namespace_of(policy)
    }

    fn is_in_zone_of(&self, policy: &ResourceMeta) -> bool {
        if policy.role() == Role::Producer {
            return true;
        }
        let own = self.gateway.map_or(&self.dataplane.meta, |gateway| &gateway.meta);
        if own.label(ORIGIN).is_none_or(|origin| origin == "global") {
            return true;
        }
        match (policy.origin(), policy.label(ZONE)) {
            (ResourceOrigin::Zone, Some(zone)) => {
                own.origin() == ResourceOrigin::Zone && own.label(ZONE).is_none_or(|own| own == zone)
            }
            _ => true,
        }
    }

    fn is_in_namespace_of(&self, policy: &ResourceMeta) -> bool {
        match policy.role() {
            Role::Consumer | Role::WorkloadOwner => {
                !policy.namespace().is_empty() && policy.namespace() == self.dataplane.meta.namespace()
            }
            Role::System | Role::Producer => true,
        }
    }

    fn is_of(&self, types: ProxyTypes) -> bool {
        match types {
            ProxyTypes::All => true,
            ProxyTypes::Sidecars => self.dataplane.gateway.is_none(),
            ProxyTypes::Gateways => self.dataplane.gateway.is_some(),
        }
    }

    fn whole(&self, types: ProxyTypes) -> Selection {
        if !self.is_of(types) {
            return Selection::default();
        }
        Selection {
            inbounds: self.dataplane.inbounds.iter().map(|inbound| inbound.listener.clone()).collect(),
            listeners: self.listeners(None),
            delegated: self.dataplane.is_delegated_gateway(),
        }
    }

    /// Tags of one inbound must match, never those of several together.
    fn subset(&self, types: ProxyTypes, tags: &Pairs) -> Selection {
        if !self.is_of(types) {
            return Selection::default();
        }
        let inbounds = self.dataplane.inbounds.iter().filter(|inbound| inbound.kind == InboundKind::Workload);
        let gateway = self.dataplane.gateway.as_ref().filter(|gateway| !gateway.builtin);
        Selection {
            inbounds: inbounds
                .filter(|inbound| tags_match(tags, &inbound.tags))
                .map(|inbound| inbound.listener.clone())
                .collect(),
            listeners: self.listeners(Some(tags)),
            delegated: gateway.is_some_and(|gateway| tags_match(tags, &gateway.tags)),
        }
    }

    fn named(&self, policy: &ResourceMeta, proxies: &DataplaneRef, section: Option<&str>) -> Option<Selection> {
        if self.gateway.is_some() {
            return None;
        }
        let own = &self.dataplane.meta;
        let selected = match proxies {
            DataplaneRef::Every => true,
            DataplaneRef::Nobody => false,
            DataplaneRef::Some(ResourceRef::Labelled(labels)) => {
                labels.iter().all(|(key, value)| own.labels.get(key) == Some(value))
            }
            DataplaneRef::Some(ResourceRef::Named { name, namespace }) => {
                own.display_name() == name
                    && own.mesh == policy.mesh
                    && own.zone() == policy.zone()
                    && own.namespace() == namespace.as_deref().unwrap_or(policy.namespace())
            }
        };
        let inbounds =
            self.dataplane.inbounds.iter().filter(|inbound| section.is_none_or(|section| inbound.section() == section));
        selected.then(|| Selection {
            inbounds: inbounds.map(|inbound| inbound.listener.clone()).collect(),
            listeners: Vec::new(),
            delegated: self.dataplane.is_delegated_gateway(),
        })
    }

    /// The listeners of the gateway whose merged tags match.
    fn listeners(&self, selector: Option<&Pairs>) -> Vec<usize> {
        let Some(gateway) = self.gateway else { return Vec::new() };
        let listeners = gateway.listeners.iter().enumerate();
        let meant = listeners.filter(|(_, listener)| {
            selector.is_none_or(|selector| tags_match(selector, &self.listener_tags(gateway, listener)))
        });
        meant.map(|(index, _)| index).collect()
    }

    fn listener_tags(&self, gateway: &MeshGateway, listener: &GatewayListener) -> Pairs {
        let proxy = self.dataplane.gateway.iter().flat_map(|gateway| &gateway.tags);
        let all = proxy.chain(&gateway.tags).chain(&listener.tags);
        all.map(|(key, value)| (key.clone(), value.clone())).collect()
    }

    /// The address and port of a listener of the gateway.
    pub fn listener(&self, index: usize) -> Option<InboundListener> {
        let listener = self.gateway?.listeners.get(index)?;
        Some(InboundListener { port: listener.port, address: self.dataplane.address.clone() })
    }

    /// What answers tell of an inbound: its name, and its tags if it has any of its own.
    pub fn inbound(&self, listener: &InboundListener) -> (&'m str, Option<&'m Pairs>) {
        let dataplane: &'m Dataplane = self.dataplane;
        if let Some(gateway) = dataplane.gateway.as_ref() {
            return ("", Some(&gateway.tags));
        }
        let found = dataplane.inbounds.iter().find(|inbound| inbound.listener == *listener);
        let Some(inbound) = found else { return ("", None) };
        let tags = (inbound.kind == InboundKind::Workload).then_some(&inbound.tags);
        (&inbound.name, tags)
    }
}

fn service_tags(name: &str, tags: &Pairs) -> Pairs {
    let mut all = tags.clone();
    all.insert(SERVICE_TAG.to_owned(), name.to_owned());
    all
}
