//! Paths of the API server, parsed: what an `apiCall` may name.
//!
//! A path is split into group, version, namespace, resource and name, so that a right can be asked for and a boundary be kept.
//! Whatever does not parse this way is refused, among it empty parts (a variable that was empty), `..` and escapes.

use std::fmt;

/// A path that the API server serves, with its query.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ApiPath {
    /// Objects or one object: `/api/v1/namespaces/a/pods/b`.
    Resource(ResourcePath),
    /// What there is, not objects: `/version`, `/apis/apps/v1`.
    Discovery(String),
}

#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ResourcePath {
    /// Empty for the core group.
    pub group: String,
    pub version: String,
    pub namespace: Option<String>,
    /// The plural name.
    pub resource: String,
    /// Absent for a list.
    pub name: Option<String>,
    pub subresource: Option<String>,
    /// Parameters in the order given, decoded.
    pub query: Vec<(String, String)>,
}

/// Why a path is no path. The path itself may hold values that were looked up.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the path is no path of the API server: {reason}")]
pub struct PathError {
    pub reason: &'static str,
}

const LONGEST: usize = 8192;
/// Parameters that make an answer go on for ever.
const ENDLESS: [&str; 2] = ["watch", "follow"];
/// Subresources that are connections, not answers.
const CONNECTIONS: [&str; 4] = ["attach", "exec", "portforward", "proxy"];

impl ApiPath {
    pub fn parse(text: &str) -> Result<Self, PathError> {
        parse(text).map_err(|reason| PathError { reason })
    }

    /// The path for messages: parameters may hold values that were looked up.
    pub fn without_query(&self) -> impl fmt::Display {
        fmt::from_fn(move |f| match self {
            Self::Resource(path) => path.write_path(f),
            Self::Discovery(path) => f.write_str(path),
        })
    }

    /// The namespace that the path stays in: of its objects, or the Namespace object that it names itself.
    pub fn namespace(&self) -> Option<&str> {
        match self {
            Self::Resource(path) if path.is_namespace_object() => path.name.as_deref(),
            Self::Resource(path) => path.namespace.as_deref(),
            Self::Discovery(_) => None,
        }
    }
}

impl ResourcePath {
    fn is_namespace_object(&self) -> bool {
        self.group.is_empty() && self.resource == "namespaces" && self.namespace.is_none()
    }

    fn write_path(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.group.as_str() {
            "" => write!(f, "/api/{}", self.version)?,
            group => write!(f, "/apis/{group}/{}", self.version)?,
        }
        if let Some(namespace) = &self.namespace {
            write!(f, "/namespaces/{namespace}")?;
        }
        write!(f, "/{}", self.resource)?;
        for part in [&self.name, &self.subresource].into_iter().flatten() {
            write!(f, "/{part}")?;
        }
        Ok(())
    }

    /// The value of a query parameter.
    pub fn parameter(&self, name: &str) -> Option<&str> {
        self.query.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }
}

/// What a path of a policy can become when its variables are known. The parts that are written out are fixed, and each
/// variable stands within one part: what an author is asked about is then what is called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PathPattern {
    /// Any resource at all: group, resource or the whole path is a variable.
    Open,
    /// These parts; one that [`PathPattern::is_open`] stands for any text.
    Resource(ResourcePath),
    Discovery(String),
}

impl PathPattern {
    /// Takes the place of each variable while a path is taken apart. Who writes it down gets what a variable gets.
    const VARIABLE: &str = "0-variable-0";

    pub fn of(text: &str) -> Self {
        let plain = if text.contains("$(") { None } else { replace_variables(text, Self::VARIABLE) };
        match plain.as_deref().map(ApiPath::parse) {
            Some(Ok(ApiPath::Resource(path))) if !Self::is_open(&path.group) && !Self::is_open(&path.resource) => {
                Self::Resource(path)
            }
            Some(Ok(ApiPath::Discovery(path))) if !Self::is_open(&path) => Self::Discovery(path),
            _ => Self::Open,
        }
    }

    /// Whether a part of a pattern holds a variable.
    pub fn is_open(part: &str) -> bool {
        part.contains(Self::VARIABLE)
    }

    /// Whether a path is what the pattern can become. Parameters do not matter: they choose among what may be read.
    pub fn covers(&self, path: &ApiPath) -> bool {
        let fits = |pattern: &str, part: &str| pattern == part || Self::is_open(pattern);
        let both = |pattern: &Option<String>, part: &Option<String>| match (pattern, part) {
            (Some(pattern), Some(part)) => fits(pattern, part),
            (None, None) => true,
            _ => false,
        };
        match (self, path) {
            (Self::Open, path) => matches!(path, ApiPath::Resource(_)),
            (Self::Resource(pattern), ApiPath::Resource(path)) => {
                pattern.group == path.group
                    && pattern.resource == path.resource
                    && fits(&pattern.version, &path.version)
                    && both(&pattern.namespace, &path.namespace)
                    && both(&pattern.name, &path.name)
                    && both(&pattern.subresource, &path.subresource)
            }
            (Self::Discovery(pattern), ApiPath::Discovery(path)) => pattern == path,
            _ => false,
        }
    }
}

/// Nothing if braces do not pair up.
fn replace_variables(text: &str, by: &str) -> Option<String> {
    let mut plain = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("{{") {
        plain += before;
        plain += by;
        // Expressions may hold braces of their own; those come in pairs.
        let mut depth = 0_usize;
        let end = after.char_indices().find(|(index, char)| match char {
            '{' => {
                depth += 1;
                false
            }
            '}' if depth > 0 => {
                depth -= 1;
                false
            }
            '}' => after[*index..].starts_with("}}"),
            _ => false,
        })?;
        rest = &after[end.0 + 2..];
    }
    plain += rest;
    Some(plain)
}

fn parse(text: &str) -> Result<ApiPath, &'static str> {
    if text.len() > LONGEST {
        return Err("it is too long");
    }
    let (path, query) = text.split_once('?').unwrap_or((text, ""));
    if query.contains('?') {
        return Err("it has a second `?`; parameters are separated by `&`");
    }
    let path = path.strip_suffix('/').unwrap_or(path);
    let path = path.strip_prefix('/').ok_or("it must start with `/`")?;
    let parts: Vec<&str> = path.split('/').collect();
    for part in &parts {
        check_part(part)?;
    }
    let query = parse_query(query)?;
    if query.iter().any(|(key, value)| ENDLESS.contains(&key.as_str()) && !matches!(value.as_str(), "false" | "0")) {
        return Err("`watch` and `follow` give answers without end");
    }
    let (group, version, rest) = match parts.as_slice() {
        ["api", version, rest @ ..] if !rest.is_empty() => ("", *version, rest),
        ["apis", group, version, rest @ ..] if !rest.is_empty() => (*group, *version, rest),
        ["version" | "api" | "apis"] | ["api", _] | ["apis", _] | ["apis", _, _] => {
            return if query.is_empty() {
                Ok(ApiPath::Discovery(format!("/{path}")))
            } else {
                Err("discovery takes no parameters")
            };
        }
        _ => return Err("it must be `/api/VERSION/…`, `/apis/GROUP/VERSION/…` or `/version`"),
    };
    // Older spellings: of a watch, which has no end, and of a connection.
    if let ["watch" | "proxy", ..] = rest {
        return Err("`watch`, `follow` and `proxy` give answers without end");
    }
    let (namespace, rest) = match rest {
        // `status` and `finalize` are parts of the Namespace itself.
        ["namespaces", namespace, rest @ ..] if !rest.is_empty() && !matches!(rest, ["status" | "finalize"]) => {
            (Some(*namespace), rest)
        }
        rest => (None, rest),
    };
    let (resource, name, subresource) = match rest {
        [resource] => (*resource, None, None),
        [resource, name] => (*resource, Some(*name), None),
        [resource, name, subresource] => (*resource, Some(*name), Some(*subresource)),
        _ => return Err("it has more parts than namespace, resource, name and subresource"),
    };
    if subresource.is_some_and(|subresource| CONNECTIONS.contains(&subresource)) {
        return Err("`exec`, `attach`, `portforward` and `proxy` open connections");
    }
    Ok(ApiPath::Resource(ResourcePath {
        group: group.to_owned(),
        version: version.to_owned(),
        namespace: namespace.map(str::to_owned),
        resource: resource.to_owned(),
        name: name.map(str::to_owned),
        subresource: subresource.map(str::to_owned),
        query,
    }))
}

fn check_part(part: &str) -> Result<(), &'static str> {
    match part {
        "" => Err("it has an empty part; is a variable empty?"),
        "." | ".." => Err("`.` and `..` are not followed"),
        part if part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._:~".contains(&byte)) => Ok(()),
        _ => Err("a part may hold only letters, digits and `-._:~`"),
    }
}

fn parse_query(query: &str) -> Result<Vec<(String, String)>, &'static str> {
    if query.contains('#') {
        return Err("it has a `#`");
    }
    let parameters = query.split('&').filter(|parameter| !parameter.is_empty());
    parameters
        .map(|parameter| {
            let (key, value) = parameter.split_once('=').unwrap_or((parameter, ""));
            Ok((decode(key)?, decode(value)?))
        })
        .collect()
}

/// Undoes percent escapes; `+` is kept, as it is a legal character of a selector that people write down unescaped.
fn decode(text: &str) -> Result<String, &'static str> {
    const BROKEN: &str = "it has a broken `%` escape";
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let mut digit = || rest.next().and_then(|digit| char::from(digit).to_digit(16)).ok_or(BROKEN);
        bytes.push((digit()? * 16 + digit()?) as u8);
    }
    String::from_utf8(bytes).map_err(|_| BROKEN)
}

fn encode(text: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            write!(f, "{}", char::from(byte))?;
        } else {
            write!(f, "%{byte:02X}")?;
        }
    }
    Ok(())
}

/// The path as it goes on the wire.
impl fmt::Display for ApiPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Resource(path) => path.fmt(f),
            Self::Discovery(path) => f.write_str(path),
        }
    }
}

impl fmt::Display for ResourcePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write_path(f)?;
        for (position, (key, value)) in self.query.iter().enumerate() {
            f.write_str(if position == 0 { "?" } else { "&" })?;
            encode(key, f)?;
            f.write_str("=")?;
            encode(value, f)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn resource(text: &str) -> ResourcePath {
        match ApiPath::parse(text) {
            Ok(ApiPath::Resource(path)) => path,
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn parts_are_told_apart() {
        let path = resource("/apis/apps/v1/namespaces/a/deployments/web/scale");
        assert_eq!(path.group, "apps");
        assert_eq!(path.namespace.as_deref(), Some("a"));
        assert_eq!((path.resource.as_str(), path.name.as_deref()), ("deployments", Some("web")));
        assert_eq!(path.subresource.as_deref(), Some("scale"));

        let path = resource("/api/v1/namespaces/a");
        assert_eq!((path.namespace.as_deref(), path.resource.as_str()), (None, "namespaces"));
        assert_eq!(ApiPath::Resource(path).namespace(), Some("a"));
        assert_eq!(resource("/api/v1/namespaces/a/finalize").subresource.as_deref(), Some("finalize"));
        assert_eq!(resource("/api/v1/namespaces/a/pods/").name, None);
        assert_eq!(resource("/api/v1/pods").namespace, None);
    }

    #[test]
    fn parameters_are_escaped_on_the_wire() {
        let path = resource("/api/v1/pods?labelSelector=app=web,tier in (a, b)&limit=5");
        assert_eq!(path.parameter("labelSelector"), Some("app=web,tier in (a, b)"));
        assert_eq!(path.to_string(), "/api/v1/pods?labelSelector=app%3Dweb%2Ctier%20in%20%28a%2C%20b%29&limit=5");
        assert_eq!(resource(&path.to_string()), path);
    }

    #[test]
    fn what_does_not_parse_is_refused() {
        for text in [
            "",
            "api/v1/pods",
            "/",
            "/api/v1/namespaces//pods",
            "/api/v1/namespaces/a/../b/pods",
            "/api/v1/namespaces/a%2F..%2Fb/pods",
            "/api/v1/namespaces/{{ x }}/pods",
            "/api/v1/namespaces/a/pods/b/log/c",
            "/metrics",
            "/logs/x",
            "/api/v1/namespaces?labelSelector=a=b?limit=5",
            "/api/v1/pods?x=%zz",
            "/version?x=1",
            "/api/v1/watch/secrets",
            "/api/v1/watch/namespaces/a",
            "/api/v1/proxy/nodes/n",
            "/api/v1/namespaces/a/%2e%2e/b/pods",
            "/api/v1/namespaces/a/pods#x",
            "/api/v1/namespaces/a/pods?x=1#y",
        ] {
            assert!(ApiPath::parse(text).is_err(), "{text}");
        }
        assert_eq!(ApiPath::parse("/version"), Ok(ApiPath::Discovery("/version".into())));
        assert_eq!(ApiPath::parse("/apis/apps/v1/"), Ok(ApiPath::Discovery("/apis/apps/v1".into())));
    }

    #[test]
    fn a_variable_stays_within_its_part() {
        #[track_caller]
        fn check(pattern: &str, path: &str, expected: bool) {
            let covered = PathPattern::of(pattern).covers(&ApiPath::parse(path).expect(path));
            assert_eq!(covered, expected, "{pattern} {path}");
        }
        let named = "/api/v1/namespaces/{{ns}}/configmaps/{{ request.object.{a: {b: c}}.a }}";
        check(named, "/api/v1/namespaces/a/configmaps/b", true);
        check(named, "/api/v1/namespaces/a/configmaps/b?limit=5", true);
        check(named, "/api/v1/namespaces/a/configmaps", false);
        check(named, "/api/v1/namespaces/a/configmaps/b/status", false);
        // Namespace `a/secrets/b?x=`.
        check(named, "/api/v1/namespaces/a/secrets/b?x=/configmaps/c", false);
        check("/api/{{v}}/pods", "/api/v1/pods", true);
        // Version `v1/namespaces/a`.
        check("/api/{{v}}/pods", "/api/v1/namespaces/a/pods", false);
        check("/api/v1/namespaces/{{x}}", "/api/v1/namespaces/a/secrets", false);
        check("/api/v1/namespaces/a/pods/b/{{sub}}", "/api/v1/namespaces/a/pods/b/log", true);
        check("/version", "/version", true);
        check("/version", "/api/v1/secrets", false);
        for open in ["{{x}}", "/api/v1/{{x}}", "/apis/{{x}}/pods", "/api/{{x}}", "/api/v1/{{ x", "/api/v1/$(./../x)/y"]
        {
            assert_eq!(PathPattern::of(open), PathPattern::Open, "{open}");
            check(open, "/api/v1/secrets", true);
            check(open, "/version", false);
        }
    }

    #[test]
    fn what_has_no_end_is_refused() {
        for text in [
            "/api/v1/namespaces/a/pods?watch=true",
            "/api/v1/namespaces/a/pods?limit=1&watch=1",
            "/api/v1/namespaces/a/pods?watch",
            "/api/v1/namespaces/a/pods?w%61tch=true",
            "/api/v1/namespaces/a/pods/b/log?follow=true",
            "/api/v1/namespaces/a/pods/b/exec",
            "/api/v1/namespaces/a/pods/b/attach",
            "/api/v1/namespaces/a/pods/b/portforward",
            "/api/v1/namespaces/a/pods/b/proxy",
            "/api/v1/nodes/n/proxy",
            "/api/v1/watch/pods",
            "/apis/apps/v1/watch/namespaces/a/deployments",
        ] {
            assert!(ApiPath::parse(text).is_err(), "{text}");
        }
        for text in ["/api/v1/namespaces/a/pods?watch=false", "/api/v1/namespaces/a/pods/b/log?tailLines=5"] {
            assert!(ApiPath::parse(text).is_ok(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn what_parses_is_written_back_the_same(text in "/(api|apis)/[a-z%.?&=/ ]{0,40}") {
            if let Ok(path) = ApiPath::parse(&text) {
                prop_assert_eq!(ApiPath::parse(&path.to_string()), Ok(path));
            }
        }
    }
}
