//! The gate: every look-up and every target of a rule passes here, and only here.
//!
//! The reach of the policy is an argument of the constructor, so no caller can forget it. A namespaced Policy cannot leave its
//! namespace, neither reading nor writing; a path that does not parse is refused; calls that leave the cluster are refused
//! unless an operator has named the host, to the own machine unless that is done without wildcards, and to where clouds hand
//! out credentials always; a POST to the API server may only ask a question.

use std::collections::BTreeSet;

use ::core::net::IpAddr;

use crate::core::resource::{Gvk, ObjectKey};
use crate::core::scalar::wildcard;

use super::api_path::{ApiPath, PathError};
use super::fetch::{ApiFetch, Fetch, GlobalFetch, ImageFetch, ListFetch, ObjectFetch, ServiceFetch};
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
    outbound: &'g Outbound,
}

/// Why something does not pass.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    #[error("{what} is outside namespace {namespace}, which a Policy of that namespace cannot leave")]
    OutOfReach { what: String, namespace: String },
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

impl<'g> Gate<'g> {
    pub fn new(reach: &'g Reach, outbound: &'g Outbound) -> Self {
        Self { reach, outbound }
    }

    /// Reads one object.
    pub fn object(&self, gvk: Gvk, namespace: &str, name: &str) -> Result<Fetch, Refusal> {
        let key = key(gvk, namespace, name);
        self.stay(key.namespace.as_deref(), || key.to_string())?;
        Ok(Fetch::Object(ObjectFetch(key)))
    }

    /// Reads the labels of the namespace that a trigger lives in. The Namespace object is cluster-scoped, but a policy
    /// may know its own.
    pub fn namespace(&self, name: &str) -> Result<Fetch, Refusal> {
        let key = key(Gvk::new("v1", "Namespace"), "", name);
        self.stay(Some(name), || key.to_string())?;
        Ok(Fetch::Object(ObjectFetch(key)))
    }

    /// Lists objects by label.
    pub fn list(&self, gvk: Gvk, namespace: &str, selector: String) -> Result<Fetch, Refusal> {
        let namespace = (!namespace.is_empty()).then(|| namespace.to_owned());
        self.stay(namespace.as_deref(), || format!("list of {gvk}"))?;
        Ok(Fetch::List(ListFetch { gvk, namespace, selector }))
    }

    /// Calls the API server.
    pub fn call(&self, path: &str, body: Option<String>) -> Result<Fetch, Refusal> {
        let path = ApiPath::parse(path)?;
        self.stay(path.namespace(), || path.without_query().to_string())?;
        if body.is_some() && !is_review(&path) {
            return Err(Refusal::Post { path: path.without_query().to_string() });
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
        self.stay(None, || format!("service {}", shown(url)))?;
        let url = ServiceUrl::parse(url).map_err(|reason| Refusal::Url { url: shown(url), reason })?;
        self.leave(url.host())?;
        let named = self.outbound.names(url.host());
        if let Ok(address) = url.host().parse() {
            check_address(address, named)?;
        }
        Ok(Fetch::Service(ServiceFetch { url, headers, ca_bundle, body, named }))
    }

    /// Reads manifest and configuration of an image from its registry.
    pub fn image(&self, registry: &str, reference: &str) -> Result<Fetch, Refusal> {
        self.leave(registry.split(':').next().unwrap_or(registry))?;
        Ok(Fetch::Image(ImageFetch(reference.to_owned())))
    }

    /// Asks for what is kept under a name. Where that lies is known to whoever keeps it: [`GlobalEntry::check_reach`] decides.
    ///
    /// [`GlobalEntry::check_reach`]: super::global::GlobalEntry::check_reach
    pub fn global(&self, name: &str) -> Fetch {
        Fetch::Global(GlobalFetch { name: name.to_owned(), reach: self.reach.clone() })
    }

    /// Lets a finished target pass, judged by what will be written.
    pub fn target(&self, target: &ObjectKey) -> Result<(), Refusal> {
        self.stay(target.namespace.as_deref(), || target.to_string())
    }

    fn stay(&self, namespace: Option<&str>, what: impl FnOnce() -> String) -> Result<(), Refusal> {
        match self.reach {
            Reach::Cluster => Ok(()),
            Reach::Namespace(own) if namespace == Some(own) => Ok(()),
            Reach::Namespace(own) => Err(Refusal::OutOfReach { what: what(), namespace: own.clone() }),
        }
    }

    fn leave(&self, host: &str) -> Result<(), Refusal> {
        if self.outbound.permits(host) { Ok(()) } else { Err(Refusal::Outbound { host: host.to_owned() }) }
    }
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
mod tests {
    use super::*;

    fn secret() -> Gvk {
        Gvk::new("v1", "Secret")
    }

    #[test]
    fn a_namespaced_policy_stays_at_home() {
        let (reach, outbound) = (Reach::Namespace("a".into()), Outbound::new(["*".to_owned()]));
        let gate = Gate::new(&reach, &outbound);
        assert!(gate.object(secret(), "a", "s").is_ok());
        assert!(gate.namespace("a").is_ok());
        assert!(gate.list(secret(), "a", String::new()).is_ok());
        assert!(gate.call("/api/v1/namespaces/a/pods", None).is_ok());
        assert!(gate.call("/api/v1/namespaces/a", None).is_ok());
        for refused in [
            gate.object(secret(), "b", "s"),
            gate.object(Gvk::new("v1", "Node"), "", "n"),
            gate.namespace("b"),
            gate.list(secret(), "", String::new()),
            gate.call("/api/v1/namespaces/b/pods", None),
            gate.call("/api/v1/namespaces", None),
            gate.call("/version", None),
            gate.service("https://a.example", Vec::new(), None, None),
        ] {
            assert!(matches!(refused, Err(Refusal::OutOfReach { .. })), "{refused:?}");
        }
        let elsewhere = ObjectKey { gvk: secret(), namespace: Some("b".into()), name: "s".into() };
        assert!(gate.target(&elsewhere).is_err());
        assert!(gate.target(&ObjectKey { namespace: None, ..elsewhere }).is_err());
    }

    #[test]
    fn a_name_may_not_stand_for_any_address() {
        let fetch = |outbound: &Outbound| match Gate::new(&Reach::Cluster, outbound).service(
            "http://a.svc",
            Vec::new(),
            None,
            None,
        ) {
            Ok(Fetch::Service(fetch)) => fetch,
            other => panic!("{other:?}"),
        };
        let (fetch, named) = (fetch(&Outbound::any()), fetch(&Outbound::new(["A.svc".to_owned()])));
        let addresses = |texts: &[&str]| texts.iter().map(|text| text.parse().expect("an address")).collect();
        assert!(fetch.connectable(addresses(&["10.0.0.1", "fd00::1"])).is_ok());
        // One bad address among good ones is how a check is outwitted.
        let refused = fetch.connectable(addresses(&["10.0.0.1", "169.254.169.254"]));
        assert!(matches!(refused, Err(Refusal::LinkLocal { .. })), "{refused:?}");
        assert!(named.connectable(addresses(&["fd00:ec2::254"])).is_err(), "by whatever name");
        let refused = fetch.connectable(addresses(&["127.0.0.1"]));
        assert!(matches!(refused, Err(Refusal::OwnMachine { .. })), "{refused:?}");
        assert!(named.connectable(addresses(&["127.0.0.1"])).is_ok());
    }

    #[test]
    fn secrets_of_a_call_are_not_shown() {
        let outbound = Outbound::any();
        let headers = vec![("Authorization".to_owned(), "Basic hidden".to_owned())];
        let body = Some("hidden".to_owned());
        let fetch = Gate::new(&Reach::Cluster, &outbound).service("http://a.svc/x?key=hidden", headers, None, body);
        let fetch = fetch.expect("a request");
        assert_eq!(fetch.to_string(), "service http://a.svc");
        assert!(!format!("{fetch:?}").contains("hidden"), "{fetch:?}");
        let reach = Reach::Namespace("a".into());
        for (url, shown) in [
            ("https://user:hidden@a.svc/x", "`https://a.svc`"),
            ("https://user:hid/hidden@a.svc/x", "`https://…`"),
            ("https://a.svc:hidden/hidden?hidden#hidden", "`https://a.svc`"),
            ("https://[::1]hidden/", "`https://[::1]`"),
            ("user:hidden@a.svc", "`…`"),
        ] {
            let call = |reach| Gate::new(reach, &outbound).service(url, Vec::new(), None, None);
            let refusal = call(&Reach::Cluster).expect_err(url).to_string();
            assert!(refusal.starts_with(shown) && !refusal.contains("hid"), "{refusal}");
            let refusal = call(&reach).expect_err(url).to_string();
            assert!(refusal.contains(shown.trim_matches('`')) && !refusal.contains("hid"), "{refusal}");
        }
    }

    #[test]
    fn a_post_only_asks() {
        let outbound = Outbound::default();
        let gate = Gate::new(&Reach::Cluster, &outbound);
        let body = Some("{}".to_owned());
        assert!(gate.call("/apis/authorization.k8s.io/v1/subjectaccessreviews", body.clone()).is_ok());
        let refused = gate.call("/api/v1/namespaces/a/secrets", body);
        assert!(matches!(refused, Err(Refusal::Post { .. })), "{refused:?}");
    }

    #[test]
    fn the_way_out_is_shut_unless_named() {
        let outbound = Outbound::new(["*.svc".to_owned(), "::1".to_owned()]);
        let gate = Gate::new(&Reach::Cluster, &outbound);
        let call = |url: &str| gate.service(url, Vec::new(), None, None);
        assert!(call("http://sample.default.svc/labels").is_ok());
        assert!(call("https://[::1]:8443/x").is_ok());
        assert!(matches!(call("https://example.com"), Err(Refusal::Outbound { .. })));
        let nowhere = Outbound::new([String::new()]);
        let refused = Gate::new(&Reach::Cluster, &nowhere).service("http://a.svc", Vec::new(), None, None);
        assert!(matches!(refused, Err(Refusal::Outbound { .. })));
        for url in ["http://169.254.169.254/latest", "http://[fe80::1]/", "http://[::ffff:a9fe:a9fe]/"] {
            let refused = Gate::new(&Reach::Cluster, &Outbound::any()).service(url, Vec::new(), None, None);
            assert!(matches!(refused, Err(Refusal::LinkLocal { .. })), "{url}");
        }
        for url in ["http://127.0.0.1", "http://[::1]:8443/x", "http://0.0.0.0/"] {
            let refused = Gate::new(&Reach::Cluster, &Outbound::any()).service(url, Vec::new(), None, None);
            assert!(matches!(refused, Err(Refusal::OwnMachine { .. })), "{url}");
        }
        for url in ["ftp://a.svc", "https://a.svc@example.com/", "https://", "a.svc", "https://x.svc\\@example.com"] {
            assert!(matches!(call(url), Err(Refusal::Url { .. })), "{url}");
        }
        assert!(matches!(gate.image("docker.io", "docker.io/nginx"), Err(Refusal::Outbound { .. })));
    }
}
