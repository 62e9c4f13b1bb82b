//! MeshHTTPRoute in its one normal form: whatever way the document was written in, rules have a list of matches, a filter
//! has the body of its type, and a path change says what it replaces.

use super::backend::BackendRef;
use super::target_ref::TargetRef;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpRoute {
    pub target: TargetRef,
    pub to: Vec<HttpRouteTo>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpRouteTo {
    pub target: TargetRef,
    /// Only below a gateway.
    pub hostnames: Vec<String>,
    pub rules: Vec<Rule>,
}

/// Rules of several policies are merged when their `matches` are equal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// A request fits if it fits any of them; never empty.
    pub matches: Vec<Match>,
    /// `None` inherits from a weaker policy, an empty list does not.
    pub filters: Option<Vec<Filter>>,
    pub backends: Option<Vec<BackendRef>>,
}

/// All parts must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Match {
    pub path: Option<PathMatch>,
    pub method: Option<Method>,
    pub query: Vec<QueryMatch>,
    pub headers: Vec<HeaderMatch>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PathMatch {
    Exact(String),
    /// Whole segments: `/a` covers `/a` and `/a/b`, not `/ab`.
    Prefix(String),
    Regex(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    Connect,
    Delete,
    Get,
    Head,
    Options,
    Patch,
    Post,
    Put,
    Trace,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueryMatch {
    pub name: String,
    pub test: QueryTest,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum QueryTest {
    Exact(String),
    Regex(String),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeaderMatch {
    pub name: String,
    pub test: HeaderTest,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HeaderTest {
    Exact(String),
    Prefix(String),
    Regex(String),
    Present,
    Absent,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Filter {
    RequestHeaders(HeaderChange),
    ResponseHeaders(HeaderChange),
    Redirect(Redirect),
    Rewrite(Rewrite),
    Mirror(Mirror),
}

/// A header is named at most once in all three lists.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeaderChange {
    pub set: Vec<(String, String)>,
    pub add: Vec<(String, String)>,
    pub remove: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Redirect {
    pub scheme: Option<String>,
    pub hostname: Option<String>,
    pub path: Option<PathChange>,
    pub port: Option<u16>,
    pub status: RedirectStatus,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RedirectStatus {
    MovedPermanently,
    #[default]
    Found,
    SeeOther,
    TemporaryRedirect,
    PermanentRedirect,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rewrite {
    pub host: Option<HostChange>,
    pub path: Option<PathChange>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostChange {
    To(String),
    /// The name of the chosen backend; only below a gateway.
    ToBackend,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PathChange {
    Full(String),
    Prefix(String),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mirror {
    /// The service that gets the copies.
    pub target: TargetRef,
    /// The decimal between 0 and 100 as it was written; absent means every request.
    pub percentage: Option<String>,
}

impl Match {
    /// What a rule without matches matches.
    pub fn everything() -> Self {
        Self { path: Some(PathMatch::Prefix("/".to_owned())), ..Self::default() }
    }
}

impl Method {
    pub const ALL: [Self; 9] = [
        Self::Connect,
        Self::Delete,
        Self::Get,
        Self::Head,
        Self::Options,
        Self::Patch,
        Self::Post,
        Self::Put,
        Self::Trace,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::Connect => "CONNECT",
            Self::Delete => "DELETE",
            Self::Get => "GET",
            Self::Head => "HEAD",
            Self::Options => "OPTIONS",
            Self::Patch => "PATCH",
            Self::Post => "POST",
            Self::Put => "PUT",
            Self::Trace => "TRACE",
        }
    }
}

impl RedirectStatus {
    pub const ALL: [Self; 5] =
        [Self::MovedPermanently, Self::Found, Self::SeeOther, Self::TemporaryRedirect, Self::PermanentRedirect];

    pub fn code(self) -> u16 {
        match self {
            Self::MovedPermanently => 301,
            Self::Found => 302,
            Self::SeeOther => 303,
            Self::TemporaryRedirect => 307,
            Self::PermanentRedirect => 308,
        }
    }
}
