//! URLs. A host name is looked up by the caller: evaluation asks for its addresses and is run again with them.

use ::core::net::IpAddr;

use super::{Arguments, Function, Outcome};
use crate::core::expr::datum::Datum;

pub(super) const FUNCTIONS: &[Function] = &[Function {
    name: "is_external_url",
    takes: &["string"],
    gives: "boolean",
    note: "Tells whether the URL's host lies outside loopback and private networks; a name is looked up.",
    examples: &[
        ("is_external_url('http://localhost')", "false"),
        ("is_external_url('http://127.0.0.1')", "false"),
        ("is_external_url('http://172.16.1.1')", "false"),
        ("is_external_url('http://[::1]')", "false"),
        ("is_external_url('http://[fd12:3456:789a:1::1]')", "false"),
        ("is_external_url('http://www.google.com@192.168.1.3')", "false"),
        ("is_external_url('http://8.8.8.8')", "true"),
        ("is_external_url('http://245.48.83.160')", "true"),
        ("is_external_url('http://[2001:db8::ff00:42:8329]')", "true"),
    ],
    call: is_external_url,
}];

fn is_external_url<'a>(arguments: &Arguments<'_, 'a>) -> Outcome<'a> {
    let url = arguments.text(0)?;
    let host = host(&url).map_err(|words| arguments.fail_on(0, words))?;
    if host.eq_ignore_ascii_case("localhost") {
        return Ok(Datum::Bool(false));
    }
    if let Ok(address) = host.parse() {
        return Ok(Datum::Bool(!is_internal(address)));
    }
    match arguments.runtime.addresses(host)? {
        Ok(addresses) => Ok(Datum::Bool(!addresses.iter().any(|address| is_internal(*address)))),
        Err(_) => Err(arguments.fail_on(0, "is a URL whose host could not be resolved")),
    }
}

fn is_internal(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(address) => address.is_loopback() || address.is_private(),
        IpAddr::V6(address) => address.is_loopback() || address.is_unique_local(),
    }
}

/// The host of a URL, without brackets, zone, user and port.
fn host(url: &str) -> Result<&str, &'static str> {
    if url.contains(|character: char| character.is_control()) {
        return Err("is not a URL: it has a control character");
    }
    let Some((scheme, rest)) = url.split_once("://") else {
        return Err("is not a URL: it has no scheme");
    };
    if !scheme.starts_with(|first: char| first.is_ascii_alphabetic())
        || !scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.'))
    {
        return Err("is not a URL: its scheme is malformed");
    }
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    let (host, port) = match host.strip_prefix('[') {
        Some(bracketed) => bracketed.split_once(']').ok_or("is not a URL: a bracket is not closed")?,
        None => host.split_at(host.find(':').unwrap_or(host.len())),
    };
    let digits = if port.is_empty() { Some("") } else { port.strip_prefix(':') };
    if !digits.is_some_and(|digits| digits.bytes().all(|byte| byte.is_ascii_digit())) {
        return Err("is not a URL: its port is not a number");
    }
    let host = host.split_once("%25").map_or(host, |(host, _)| host);
    if host.is_empty() {
        return Err("is not a URL: its host is empty");
    }
    if host.contains([' ', '"', '<', '>', '\\', '^', '`', '{', '|', '}']) {
        return Err("is not a URL: its host is malformed");
    }
    Ok(host)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::host;
    use crate::core::expr::{EvalError, Expression, Lookup, Runtime};

    #[test]
    fn names_are_looked_up_by_the_caller() {
        let external = |runtime: Runtime| {
            let expression =
                Expression::compile("is_external_url('https://example.test:8443/x')").expect("an expression");
            expression.search_json(&Value::Null, &runtime)
        };
        let runtime = || Runtime::new(jiff::Timestamp::UNIX_EPOCH, 0);
        let name = "example.test";
        assert_eq!(external(runtime()), Err(EvalError::Needs(Lookup::Host(name.to_owned()))));
        let (public, private) = ("8.8.8.8".parse().unwrap(), "10.0.0.1".parse().unwrap());
        assert_eq!(external(runtime().with_host(name, Ok(vec![public]))), Ok(json!(true)));
        assert_eq!(external(runtime().with_host(name, Ok(vec![public, private]))), Ok(json!(false)));
        assert!(external(runtime().with_host(name, Err("no such host".to_owned()))).is_err());
    }

    #[test]
    fn hosts_of_urls() {
        for (url, expected) in [
            ("http://a.b/c?d#e", Some("a.b")),
            ("http://user:word@a.b:80", Some("a.b")),
            ("http://[fe80::1%25eth0]:80/", Some("fe80::1")),
            ("a.b", None),
            ("http://", None),
            ("http://[::1", None),
            ("http://a:b", None),
            ("http://a b", None),
            ("1http://a", None),
        ] {
            assert_eq!(host(url).ok(), expected, "{url}");
        }
    }
}
