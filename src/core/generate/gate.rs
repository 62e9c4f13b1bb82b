//! The gate: every look-up and every target of a rule passes here, and only here.
//!
//! The reach of the policy and the bounds of the install are arguments of the constructor, so no caller can forget them. A
//! namespaced Policy cannot leave its namespace, neither reading nor writing, and the scope of a kind is what discovery
//! reports: the API server drops the namespace of a cluster-scoped object, so `metadata.namespace` proves nothing. The
//! install's own namespace is out of reach for every policy. A path that does not parse is refused; calls that leave the
//! cluster are refused unless an operator has named the host, to the own machine unless that is done without wildcards, and
//! to where clouds hand out credentials always; a POST to the API server may only ask a question.

use std::collections::BTreeSet;

use ::core::net::IpAddr;

use crate::core::kinds::Scope;
use crate::core::resource::{Gvk, ObjectKey};
use crate::core::scalar::wildcard;

use super::api_path::{ApiPath, PathError, PathPattern};
use super::bounds::InstallBounds;
use super::fetch::{ApiFetch, Fetch, GlobalFetch, HostFetch, ImageFetch, ListFetch, ObjectFetch, ServiceFetch};
use super::service_url::{ServiceUrl, Sort, sort};

/// How far a policy reaches.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reach {
    /// A ClusterPolicy.
    Cluster,
    /// A Policy: this namespace and nothing else.
    Namespace(String),
}

/// Hosts outside the API server that policies may call: none unless named, `*` and `?` as wildcards.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outbound(BTreeSet<String>);

/// Builds requests for one policy.
#[derive(Clone, Copy, Debug)]
pub struct Gate<'g> {
    reach: &'g Reach,
    bounds: &'g InstallBounds,
}

/// An object that may be written. Only a gate makes one, so nothing is written that did not pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WriteTarget(ObjectKey);

/// How a policy names a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KindText {
    /// Written out, so that the author was asked about this very kind.
    Literal,
    /// By a variable: the author was asked about every kind of the namespace that the policy names.
    Variable,
}

/// Why something does not pass.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    #[error("{what} is outside namespace {namespace}, which a Policy of that namespace cannot leave")]
    OutOfReach { what: String, namespace: String },
    #[error("{what} is cluster-scoped, and a Policy of namespace {namespace} reaches only what lives in its namespace")]
    ClusterScoped { what: String, namespace: String },
    #[error("the cluster does not serve {what}; a Policy waits until its scope is known")]
    UnknownScope { what: String },
    #[error("{what} is cluster-scoped, but namespace `{namespace}` is named for it")]
    Misplaced { what: String, namespace: String },
    #[error("{what} is out of reach: no rule reads or writes the namespace that Writ is installed in")]
    OwnNamespace { what: String },
    #[error("{what} is a policy; its kind must be written out, because its author is asked for what it may do")]
    GeneratedPolicy { what: String },
    #[error("`{path}` is not what its author was asked about; a variable may only stand for one part of a path")]
    OtherPath { path: String },
    #[error(transparent)]
    Path(#[from] PathError),
    #[error("a POST to `{path}` could change the cluster; only access and token reviews may be posted")]
    Post { path: String },
    #[error("calls of `{host}` are switched off; an operator has to name the host (`writ serve --service-hosts`)")]
    Outbound { host: String },
    #[error("`{url}` is no address of a service: {reason}")]
    Url { url: String, reason: &'static str },
    #[error("{address} is a link-local address; services there are never called")]
    LinkLocal { address: IpAddr },
    #[error("{address} is an address where a cloud hands out credentials; services there are never called")]
    Metadata { address: IpAddr },
    #[error(
        "{address} is on the own machine; an operator has to name the host without wildcards (`writ serve --service-hosts`)"
    )]
    OwnMachine { address: IpAddr },
}

impl Outbound {
    pub fn new(hosts: impl IntoIterator<Item = String>) -> Self {
        Self(hosts.into_iter().map(|host| host.trim().to_ascii_lowercase()).collect())
    }

    /// Every host.
    pub fn any() -> Self {
        Self::new(["*".to_owned()])
    }

    fn permits(&self, host: &str) -> bool {
        self.0.iter().any(|pattern| wildcard::matches(pattern, host))
    }

    /// Whether a host is named, and not only met by a pattern.
    fn names(&self, host: &str) -> bool {
        self.0.contains(host)
    }
}

impl WriteTarget {
    pub fn key(&self) -> &ObjectKey {
        &self.0
    }
}

impl<'g> Gate<'g> {
    pub fn new(reach: &'g Reach, bounds: &'g InstallBounds) -> Self {
        Self { reach, bounds }
    }

    /// Whether an object may set a rule off. That a Policy is about objects of its namespace is for match blocks to see; a
    /// pattern of kinds may select the Namespace object itself, which is cluster-scoped.
    pub fn trigger(&self, key: &ObjectKey) -> Result<(), Refusal> {
        self.spare_install(key)?;
        match self.reach {
            Reach::Namespace(own) if self.bounds.scope(&key.gvk) == Some(Scope::Cluster) => {
                Err(Refusal::ClusterScoped { what: key.to_string(), namespace: own.clone() })
            }
            _ => Ok(()),
        }
    }

    /// Reads one object.
    pub fn object(&self, gvk: Gvk, namespace: &str, name: &str) -> Result<Fetch, Refusal> {
        Ok(Fetch::Object(ObjectFetch(self.place(key(gvk, namespace, name))?)))
    }

    /// Reads the labels of the namespace that a trigger lives in. The Namespace object is cluster-scoped, but match blocks of
    /// a policy may select by the labels of its own; expressions never see it.
    pub fn namespace(&self, name: &str) -> Result<Fetch, Refusal> {
        let key = key(Gvk::new("v1", "Namespace"), "", name);
        self.spare_install(&key)?;
        match self.reach {
            Reach::Namespace(own) if own != name => {
                Err(Refusal::OutOfReach { what: key.to_string(), namespace: own.clone() })
            }
            _ => Ok(Fetch::Object(ObjectFetch(key))),
        }
    }

    /// Lists objects by label.
    pub fn list(&self, gvk: Gvk, namespace: &str, selector: String) -> Result<Fetch, Refusal> {
        let namespace = Some(namespace).filter(|namespace| !namespace.is_empty());
        if namespace.is_some_and(|namespace| self.bounds.is_own(namespace)) {
            return Err(Refusal::OwnNamespace { what: format!("list of {gvk}") });
        }
        self.stay(self.bounds.scope(&gvk), namespace, || format!("list of {gvk}"))?;
        Ok(Fetch::List(ListFetch { namespace: namespace.map(str::to_owned), gvk, selector }))
    }

    /// Calls the API server. `asked` is what the policy writes down, and what its author was asked about.
    pub fn call(&self, path: &str, body: Option<String>, asked: &PathPattern) -> Result<Fetch, Refusal> {
        let path = ApiPath::parse(path)?;
        let what = || path.without_query().to_string();
        if path.namespace().is_some_and(|namespace| self.bounds.is_own(namespace)) {
            return Err(Refusal::OwnNamespace { what: what() });
        }
        match &path {
            ApiPath::Resource(resource) => {
                let scope = || self.bounds.scope_of_resource(&resource.group, &resource.resource);
                // Only a Policy needs to know: a path that names a namespace for a cluster-scoped resource is not served.
                let scope = if *self.reach == Reach::Cluster { None } else { scope() };
                self.stay(scope, resource.namespace.as_deref(), what)?;
            }
            ApiPath::Discovery(_) => self.stay(Some(Scope::Cluster), None, what)?,
        }
        if body.is_some() && !is_review(&path) {
            return Err(Refusal::Post { path: what() });
        }
        if !asked.covers(&path) {
            return Err(Refusal::OtherPath { path: what() });
        }
        Ok(Fetch::Call(ApiFetch { path, body }))
    }

    /// Calls a service. Which addresses a name stands for is known only when it is called: [`ServiceFetch::connectable`]
    /// decides about them.
    pub fn service(
        &self,
        url: &str,
        headers: Vec<(String, String)>,
        ca_bundle: Option<String>,
        body: Option<String>,
    ) -> Result<Fetch, Refusal> {
        self.leave_cluster(|| format!("service {}", shown(url)))?;
        let url = ServiceUrl::parse(url).map_err(|reason| Refusal::Url { url: shown(url), reason })?;
        self.call_host(url.host())?;
        let named = self.bounds.outbound().names(url.host());
        if let Ok(address) = url.host().parse() {
            check_address(address, named)?;
        }
        Ok(Fetch::Service(ServiceFetch { url, headers, ca_bundle, body, named }))
    }

    /// Reads manifest and configuration of an image from its registry.
    pub fn image(&self, registry: &str, reference: &str) -> Result<Fetch, Refusal> {
        self.leave_cluster(|| format!("registry {registry}"))?;
        self.call_host(registry.split(':').next().unwrap_or(registry))?;
        Ok(Fetch::Image(ImageFetch(reference.to_owned())))
    }

    /// Looks up the addresses of a host.
    pub fn host(&self, name: &str) -> Result<Fetch, Refusal> {
        self.leave_cluster(|| format!("host {name}"))?;
        Ok(Fetch::Host(HostFetch(name.to_owned())))
    }

    /// Asks for what is kept under a name. Where that lies is known to whoever keeps it: [`GlobalEntry::check_reach`] decides.
    ///
    /// [`GlobalEntry::check_reach`]: super::global::GlobalEntry::check_reach
    pub fn global(&self, name: &str) -> Fetch {
        Fetch::Global(GlobalFetch { name: name.to_owned(), reach: self.reach.clone() })
    }

    /// Whether the objects of a resource may be read, in one namespace or in all.
    pub fn resource(&self, group: &str, resource: &str, namespace: Option<&str>) -> Result<(), Refusal> {
        if namespace.is_some_and(|namespace| self.bounds.is_own(namespace)) {
            return Err(Refusal::OwnNamespace { what: format!("list of {resource}") });
        }
        self.stay(self.bounds.scope_of_resource(group, resource), namespace, || format!("list of {resource}"))
    }

    /// Lets a finished target pass: the key under which it will be written.
    pub fn target(&self, target: ObjectKey, kind: KindText) -> Result<ObjectKey, Refusal> {
        if kind == KindText::Variable && is_policy_group(&target.gvk.group) {
            return Err(Refusal::GeneratedPolicy { what: target.to_string() });
        }
        self.place(target)
    }

    /// Lets a write pass, judged by the object as it is sent and the scope of the resource that it is sent to.
    pub fn write(&self, object: ObjectKey, scope: Scope) -> Result<WriteTarget, Refusal> {
        self.place_in(object, Some(scope)).map(WriteTarget)
    }

    fn place(&self, key: ObjectKey) -> Result<ObjectKey, Refusal> {
        let scope = self.bounds.scope(&key.gvk);
        self.place_in(key, scope)
    }

    /// Where an object really is. One that names no namespace although its kind lives in them is in `default`: of a kind that
    /// is known only when the rule runs, no check at admission could demand one.
    fn place_in(&self, mut key: ObjectKey, scope: Option<Scope>) -> Result<ObjectKey, Refusal> {
        if scope == Some(Scope::Namespaced) && key.namespace.is_none() {
            key.namespace = Some("default".to_owned());
        }
        self.spare_install(&key)?;
        self.stay(scope, key.namespace.as_deref(), || key.to_string())?;
        Ok(key)
    }

    fn spare_install(&self, key: &ObjectKey) -> Result<(), Refusal> {
        if self.bounds.owns(key) { Err(Refusal::OwnNamespace { what: key.to_string() }) } else { Ok(()) }
    }

    /// Keeps a Policy in its namespace, and everybody from naming a namespace where there is none: the author was asked about
    /// that namespace, and the object would be written for the whole cluster.
    fn stay(
        &self,
        scope: Option<Scope>,
        namespace: Option<&str>,
        what: impl FnOnce() -> String,
    ) -> Result<(), Refusal> {
        match (self.reach, scope, namespace) {
            (Reach::Namespace(own), Some(Scope::Cluster), _) => {
                Err(Refusal::ClusterScoped { what: what(), namespace: own.clone() })
            }
            (Reach::Namespace(own), _, namespace) if namespace != Some(own) => {
                Err(Refusal::OutOfReach { what: what(), namespace: own.clone() })
            }
            (Reach::Namespace(_), None, _) => Err(Refusal::UnknownScope { what: what() }),
            (Reach::Cluster, Some(Scope::Cluster), Some(namespace)) => {
                Err(Refusal::Misplaced { what: what(), namespace: namespace.to_owned() })
            }
            _ => Ok(()),
        }
    }

    /// Nothing outside the cluster is in a namespace.
    fn leave_cluster(&self, what: impl FnOnce() -> String) -> Result<(), Refusal> {
        match self.reach {
            Reach::Cluster => Ok(()),
            Reach::Namespace(own) => Err(Refusal::OutOfReach { what: what(), namespace: own.clone() }),
        }
    }

    fn call_host(&self, host: &str) -> Result<(), Refusal> {
        if self.bounds.outbound().permits(host) { Ok(()) } else { Err(Refusal::Outbound { host: host.to_owned() }) }
    }
}

/// Groups whose objects make an engine act: whoever writes one acts with the permissions of that engine.
pub fn is_policy_group(group: &str) -> bool {
    matches!(group, "kyverno.io" | "policies.kyverno.io")
}

fn key(gvk: Gvk, namespace: &str, name: &str) -> ObjectKey {
    ObjectKey { gvk, namespace: (!namespace.is_empty()).then(|| namespace.to_owned()), name: name.to_owned() }
}

/// Scheme and host of what may be no address at all: everything else in it may be secret.
fn shown(url: &str) -> String {
    const UNTOLD: &str = "…";
    let Some((scheme, rest)) = url.split_once("://") else { return UNTOLD.to_owned() };
    let scheme =
        Some(scheme).filter(|scheme| scheme.len() < 16 && scheme.bytes().all(|byte| byte.is_ascii_alphabetic()));
    let authority = rest.split(['/', '?', '#', '\\']).next().unwrap_or_default();
    let host = match authority.rsplit_once('@') {
        Some((_, host)) => host,
        // A password may have any of the characters that end a host.
        None if rest.contains('@') => UNTOLD,
        None => authority,
    };
    let end = if host.starts_with('[') { host.find(']').map(|at| at + 1) } else { host.find(':') };
    let host: String = host[..end.unwrap_or(host.len())].chars().take(253).collect();
    format!("{}://{host}", scheme.unwrap_or(UNTOLD))
}

/// Reviews are posted to ask, and store nothing.
fn is_review(path: &ApiPath) -> bool {
    match path {
        ApiPath::Resource(path) => {
            matches!(path.group.as_str(), "authorization.k8s.io" | "authentication.k8s.io")
                && path.resource.ends_with("reviews")
                && path.name.is_none()
        }
        ApiPath::Discovery(_) => false,
    }
}

/// Whether an address of a host may be called; `named` says that operators mean this very host.
pub(super) fn check_address(address: IpAddr, named: bool) -> Result<(), Refusal> {
    match sort(address) {
        Sort::LinkLocal => Err(Refusal::LinkLocal { address }),
        Sort::Metadata => Err(Refusal::Metadata { address }),
        Sort::Own if !named => Err(Refusal::OwnMachine { address }),
        Sort::Own | Sort::Other => Ok(()),
    }
}

#[cfg(test)]
mod tests;
