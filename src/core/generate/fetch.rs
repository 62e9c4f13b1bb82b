//! What an evaluation may ask for: typed requests, never paths or clients.
//!
//! The fields are private, so a request exists only if the [`Gate`](super::gate::Gate) has let it pass. Requests are
//! comparable: they are the keys under which answers become facts.

use std::fmt;

use ::core::net::IpAddr;

use crate::core::resource::{Gvk, ObjectKey};

use super::api_path::ApiPath;
use super::gate::{Reach, Refusal, check_address};
use super::service_url::ServiceUrl;

/// A fact that is missing.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Fetch {
    /// One object, by its key.
    Object(ObjectFetch),
    /// All objects of a kind in a namespace that carry some labels.
    List(ListFetch),
    /// A raw call of the API server.
    Call(ApiFetch),
    /// A call of a service outside the API server.
    Service(ServiceFetch),
    /// Manifest and configuration of an image.
    Image(ImageFetch),
    /// The data of a global context entry, or of one of its projections.
    Global(GlobalFetch),
    /// The addresses of a host name.
    Host(HostFetch),
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ObjectFetch(pub(super) ObjectKey);

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ListFetch {
    pub(super) gvk: Gvk,
    pub(super) namespace: Option<String>,
    /// In the query form that the API server takes; empty for all.
    pub(super) selector: String,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ApiFetch {
    pub(super) path: ApiPath,
    /// The JSON body of a POST; a GET has none.
    pub(super) body: Option<String>,
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ServiceFetch {
    pub(super) url: ServiceUrl,
    pub(super) headers: Vec<(String, String)>,
    pub(super) ca_bundle: Option<String>,
    pub(super) body: Option<String>,
    /// Operators name the host without wildcards.
    pub(super) named: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ImageFetch(pub(super) String);

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct HostFetch(pub(super) String);

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct GlobalFetch {
    /// Of an entry, or of an entry and one of its projections with a dot between them.
    pub(super) name: String,
    pub(super) reach: Reach,
}

impl ObjectFetch {
    pub fn key(&self) -> &ObjectKey {
        &self.0
    }
}

impl ListFetch {
    pub fn gvk(&self) -> &Gvk {
        &self.gvk
    }

    pub fn namespace(&self) -> Option<&str> {
        self.namespace.as_deref()
    }

    /// The `labelSelector` parameter; empty for all objects.
    pub fn selector(&self) -> &str {
        &self.selector
    }
}

impl ApiFetch {
    pub fn path(&self) -> &ApiPath {
        &self.path
    }

    /// The body of a POST; `None` means GET.
    pub fn body(&self) -> Option<&str> {
        self.body.as_deref()
    }
}

impl ServiceFetch {
    pub fn url(&self) -> &ServiceUrl {
        &self.url
    }

    /// The addresses of the host, if all of them may be connected to.
    pub fn connectable(&self, resolved: Vec<IpAddr>) -> Result<Vec<IpAddr>, Refusal> {
        resolved.iter().try_for_each(|address| check_address(*address, self.named))?;
        Ok(resolved)
    }

    pub fn headers(&self) -> &[(String, String)] {
        &self.headers
    }

    /// PEM roots that replace those of the system.
    pub fn ca_bundle(&self) -> Option<&str> {
        self.ca_bundle.as_deref()
    }

    /// The body of a POST; `None` means GET.
    pub fn body(&self) -> Option<&str> {
        self.body.as_deref()
    }
}

impl GlobalFetch {
    /// How the name can be read: as an entry, or as an entry and a projection. Either may have dots of its own.
    pub fn readings(&self) -> impl Iterator<Item = (&str, Option<&str>)> {
        readings(&self.name)
    }
}

/// How the name of a `globalReference` can be read; see [`GlobalFetch::readings`].
pub fn readings(name: &str) -> impl Iterator<Item = (&str, Option<&str>)> {
    let split = name.rmatch_indices('.').map(|(at, _)| (&name[..at], Some(&name[at + 1..])));
    std::iter::once((name, None)).chain(split)
}

impl HostFetch {
    pub fn name(&self) -> &str {
        &self.0
    }
}

impl ImageFetch {
    pub fn reference(&self) -> &str {
        &self.0
    }
}

/// Headers and body may hold secrets.
impl fmt::Debug for ServiceFetch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ServiceFetch({})", self.url)
    }
}

/// Who is asked for what. Parameters, selectors, hosts to resolve and image references may hold values that were looked up, so
/// they are not shown.
impl fmt::Display for Fetch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Object(object) => object.0.fmt(f),
            Self::List(list) => {
                write!(f, "list of {}", list.gvk)?;
                if let Some(namespace) = &list.namespace {
                    write!(f, " in namespace {namespace}")?;
                }
                if list.selector.is_empty() { Ok(()) } else { f.write_str(" by labels") }
            }
            Self::Call(call) => {
                let verb = if call.body.is_some() { "POST" } else { "GET" };
                write!(f, "{verb} {}", call.path.without_query())
            }
            Self::Service(service) => write!(f, "service {}", service.url),
            Self::Image(_) => f.write_str("an image"),
            Self::Global(global) => write!(f, "global context entry {}", global.name),
            Self::Host(_) => f.write_str("addresses of a host"),
        }
    }
}
