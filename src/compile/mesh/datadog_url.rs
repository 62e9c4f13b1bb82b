//! The URL of a Datadog agent: plain HTTP, a host and a port, nothing else.
//!
//! It is read as the target of a request, so there are no fragments: a `#` belongs to what stands before it.

use crate::core::problem::Reason;

/// What is wrong with the URL, in the order of its parts.
pub(super) fn faults(text: &str) -> Vec<(Reason, &'static str)> {
    let Some(url) = Url::read(text) else {
        return vec![(Reason::Format, "malformed")];
    };
    let mut faults = Vec::new();
    if !url.scheme.eq_ignore_ascii_case("http") {
        faults.push((Reason::Format, "malformed: the scheme must be http"));
    }
    match url.port {
        "" => faults.push((Reason::Required, "the port is required")),
        port if !port.parse::<u32>().is_ok_and(|port| (1..=65535).contains(&port)) => {
            faults.push((Reason::Range, "the port is outside [1,65535]"));
        }
        _ => {}
    }
    for (part, message) in [
        (url.opaque, "nothing may stand in the place of the host"),
        (url.user, "a user is not permitted"),
        (url.path, "a path is not permitted"),
        (url.query, "a query is not permitted"),
    ] {
        if !part.is_empty() {
            faults.push((Reason::Forbidden, message));
        }
    }
    faults
}

/// The parts of a request target; absent ones are empty.
#[derive(Debug, Default, PartialEq)]
struct Url<'t> {
    scheme: &'t str,
    opaque: &'t str,
    user: &'t str,
    port: &'t str,
    path: &'t str,
    query: &'t str,
}

impl<'t> Url<'t> {
    /// `None` for what is neither an absolute URL nor an absolute path.
    fn read(text: &'t str) -> Option<Self> {
        if text.is_empty() || text.chars().any(|c| c.is_ascii_control()) {
            return None;
        }
        let (scheme, rest) = split_scheme(text)?;
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        if !rest.starts_with('/') {
            let is_opaque = !scheme.is_empty();
            return is_opaque.then(|| Self { scheme, opaque: rest, query, ..Self::default() });
        }
        let Some(after) = rest.strip_prefix("//").filter(|_| !scheme.is_empty()) else {
            return Some(Self { scheme, path: rest, query, ..Self::default() });
        };
        let (authority, path) = after.split_at(after.find('/').unwrap_or(after.len()));
        let (user, host) = authority.rsplit_once('@').unwrap_or(("", authority));
        let port = read_port(host)?;
        has_sound_escapes(path).then_some(Self { scheme, user, port, path, query, ..Self::default() })
    }
}

fn split_scheme(text: &str) -> Option<(&str, &str)> {
    let end = text.find(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'))).unwrap_or(text.len());
    if !text[end..].starts_with(':') {
        return Some(("", text));
    }
    // A colon with nothing, or no letter, before it.
    text.starts_with(|c: char| c.is_ascii_alphabetic()).then(|| (&text[..end], &text[end + 1..]))
}

/// The port of a host; `None` if the host is malformed.
fn read_port(host: &str) -> Option<&str> {
    let port_at = match host.strip_prefix('[') {
        Some(_) => host.rfind(']')? + 1,
        None => host.find(':').unwrap_or(host.len()),
    };
    let (name, port) = host.split_at(port_at);
    let in_name = |c: char| !c.is_ascii() || c.is_ascii_alphanumeric() || "-_.~!$&'()*+,;=:[]<>\"%".contains(c);
    if !name.chars().all(in_name) || !has_sound_escapes(name) {
        return None;
    }
    match port.strip_prefix(':') {
        Some(port) => port.bytes().all(|c| c.is_ascii_digit()).then_some(port),
        None => port.is_empty().then_some(""),
    }
}

/// Whether every `%` is followed by two hexadecimal digits.
fn has_sound_escapes(text: &str) -> bool {
    let mut parts = text.split('%');
    parts.next();
    parts.all(|part| part.len() >= 2 && part.bytes().take(2).all(|c| c.is_ascii_hexdigit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &[Reason]) {
        let reasons: Vec<_> = faults(text).into_iter().map(|(reason, _)| reason).collect();
        assert_eq!(reasons, expected, "{text}");
    }

    #[test]
    fn a_host_and_a_port_are_all_there_is() {
        check("http://intake.example:8126", &[]);
        check("HTTP://dd:1", &[]);
        check("http://[::1]:8126", &[]);
        check("http://dd", &[Reason::Required]);
        check("http://dd:0", &[Reason::Range]);
        check("http://dd:999999", &[Reason::Range]);
        check("https://dd:1", &[Reason::Format]);
        check("http://u:p@dd:1", &[Reason::Forbidden]);
        check("http://dd:1/", &[Reason::Forbidden]);
        check("http://dd:1/a?b", &[Reason::Forbidden, Reason::Forbidden]);
        check("http:dd", &[Reason::Required, Reason::Forbidden]);
        check("/a", &[Reason::Format, Reason::Required, Reason::Forbidden]);
    }

    #[test]
    fn what_is_no_request_target_is_malformed() {
        for text in [
            "",
            "not_valid_url",
            "http://dd:8126#x",
            ":1",
            "http://d d:1",
            "http://dd:1/%zz",
            "http://[::1:1",
            "1http://a:1",
        ] {
            check(text, &[Reason::Format]);
        }
    }
}
