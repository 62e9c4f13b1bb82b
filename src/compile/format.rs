//! Small grammars of texts in mesh policies: names, hosts, paths, addresses, identities.

use std::net::IpAddr;

use crate::core::expr::go_regex;

/// Resource names: digits, lower-case letters, `.`, `-` and `_`; the empty name passes.
pub(super) fn is_resource_name(name: &str) -> bool {
    name.bytes().all(|c| c.is_ascii_digit() || c.is_ascii_lowercase() || matches!(c, b'.' | b'-' | b'_'))
}

/// An absolute path of a Unix or Windows file system.
pub(super) fn is_file_path(path: &str) -> bool {
    is_windows_path(path) || (path.starts_with('/') && !path.contains('\0'))
}

fn is_windows_path(path: &str) -> bool {
    let mut characters = path.chars();
    let drive = characters.next().is_some_and(|c| c.is_ascii_alphabetic());
    let rooted = characters.next() == Some(':') && characters.next() == Some('\\');
    drive && rooted && characters.all(|c| !matches!(c, '/' | ':' | '*' | '?' | '"' | '<' | '>' | '|' | '\r' | '\n'))
}

/// A lower-case host name in labels of letters, digits and inner hyphens. Labels may be of any length.
pub(super) fn is_dns_subdomain(name: &str) -> bool {
    name.split('.').all(|label| {
        let inner = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit();
        let bytes = label.as_bytes();
        bytes.first().is_some_and(|c| inner(*c))
            && bytes.last().is_some_and(|c| inner(*c))
            && bytes.iter().all(|c| inner(*c) || *c == b'-')
    })
}

/// A name that a passthrough match may give: labels of letters, digits, `_` and `-`, perhaps with a dot at the end.
pub(super) fn is_domain(name: &str) -> bool {
    if name.is_empty() || is_ip(name) {
        return false;
    }
    name.strip_suffix('.').unwrap_or(name).split('.').all(|label| {
        let first = |c: u8| c.is_ascii_alphanumeric() || c == b'_';
        let bytes = label.as_bytes();
        bytes.len() <= 63 && bytes.first().is_some_and(|c| first(*c)) && bytes.iter().all(|c| first(*c) || *c == b'-')
    })
}

pub(super) fn is_ip(text: &str) -> bool {
    text.parse::<IpAddr>().is_ok()
}

pub(super) fn is_cidr(text: &str) -> bool {
    text.split_once('/').is_some_and(|(address, length)| {
        let bits = match address.parse::<IpAddr>() {
            Ok(IpAddr::V4(_)) => 32,
            Ok(IpAddr::V6(_)) => 128,
            Err(_) => return false,
        };
        let is_number = !length.is_empty() && length.len() <= 3 && length.bytes().all(|c| c.is_ascii_digit());
        is_number && length.parse::<u16>().is_ok_and(|length| length <= bits)
    })
}

/// `spiffe://trust.domain/path/to/workload`, the path optional.
pub(super) fn is_spiffe_id(text: &str) -> bool {
    let Some(rest) = text.strip_prefix("spiffe://") else {
        return false;
    };
    let mut parts = rest.split('/');
    let domain = parts.next().unwrap_or_default();
    let in_domain = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, b'.' | b'_' | b'-');
    let in_segment = |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'.' | b'_' | b'-');
    !domain.is_empty()
        && domain.bytes().all(in_domain)
        && parts.all(|segment| !matches!(segment, "" | "." | "..") && segment.bytes().all(in_segment))
}

/// A host and a port that can be told apart; either may be empty.
pub(super) fn is_host_and_port(text: &str) -> bool {
    match text.strip_prefix('[') {
        Some(rest) => rest.split_once(']').is_some_and(|(host, port)| {
            !host.contains('[') && port.strip_prefix(':').is_some_and(|port| !port.contains([':', '[', ']']))
        }),
        None => text
            .split_once(':')
            .is_some_and(|(host, port)| !host.contains(['[', ']']) && !port.contains([':', '[', ']'])),
    }
}

/// A key of an OpenTelemetry attribute: lower case, dots and underscores inside, not in the reserved `otel.` space.
pub(super) fn is_attribute_key(key: &str) -> bool {
    let bytes = key.as_bytes();
    let alphanumeric = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit();
    bytes.first().is_some_and(u8::is_ascii_lowercase)
        && bytes.last().is_some_and(|c| alphanumeric(*c))
        && bytes.iter().all(|c| alphanumeric(*c) || matches!(c, b'.' | b'_'))
        && !key.starts_with("otel.")
}

/// An address of a collector: a host with a port or a scheme, or a host of several labels; perhaps with a path.
pub(super) fn is_url(text: &str) -> bool {
    if text.len() <= 3 || text.starts_with('.') || text.chars().any(char::is_whitespace) {
        return false;
    }
    let (scheme, rest) = match text.split_once("://") {
        Some((scheme, rest)) => (Some(scheme), rest),
        None => (None, text),
    };
    if scheme.is_some_and(|scheme| !["ftp", "tcp", "udp", "ws", "wss", "http", "https"].contains(&scheme)) {
        return false;
    }
    let authority = rest.find(['/', '?', '#']).map_or(rest, |end| &rest[..end]);
    let host_and_port = match authority.rsplit_once('@') {
        Some(("", _)) => return false,
        Some((_, rest)) => rest,
        None => authority,
    };
    let (host, port) = split_port(host_and_port);
    let is_port = |port: &str| (1..=5).contains(&port.len()) && port.bytes().all(|c| c.is_ascii_digit());
    if port.is_some_and(|port| !is_port(port)) {
        return false;
    }
    if let Some(address) = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
        return is_ip(address);
    }
    let host = host.strip_suffix('.').unwrap_or(host);
    let single = !host.contains('.');
    is_url_host(host) && (!single || port.is_some() || scheme.is_some())
}

fn split_port(text: &str) -> (&str, Option<&str>) {
    let after_brackets = text.rfind(']').map_or(0, |at| at + 1);
    match text[after_brackets..].find(':') {
        Some(at) => (&text[..after_brackets + at], Some(&text[after_brackets + at + 1..])),
        None => (text, None),
    }
}

/// Underscores may stand inside every label but the last.
fn is_url_host(host: &str) -> bool {
    let last = host.rsplit('.').next().map_or(0, |last| host.len() - last.len());
    let mut start = 0;
    host.split('.').all(|label| {
        let is_last = start == last;
        start += label.len() + 1;
        let ends = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
        ends(label.chars().next())
            && ends(label.chars().next_back())
            && label.chars().all(|c| c.is_alphanumeric() || c == '-' || (c == '_' && !is_last))
    })
}

/// A status code that has a registered meaning.
pub(super) fn is_http_status(text: &str) -> bool {
    let code = if text.bytes().all(|c| c.is_ascii_digit()) { text.parse::<u16>().ok() } else { None };
    code.is_some_and(|code| {
        matches!(code, 100..=103 | 200..=208 | 226 | 300..=305 | 307 | 308 | 400..=418 | 421..=426 | 428 | 429 | 431 | 451
            | 500..=508 | 510 | 511)
    })
}

/// What is wrong with a regular expression (RE2).
pub(super) fn regex_error(pattern: &str) -> Option<String> {
    go_regex::check(pattern).err().map(|fault| fault.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(is: fn(&str) -> bool, accepted: &[&str], refused: &[&str]) {
        for text in accepted {
            assert!(is(text), "`{text}` should pass");
        }
        for text in refused {
            assert!(!is(text), "`{text}` should not pass");
        }
    }

    #[test]
    fn names() {
        check(is_resource_name, &["", "a", "web_1.ns-2"], &["Web", "a b", "*", "a/b", "é"]);
        check(
            is_dns_subdomain,
            &["a", "1.2", "sni.extsvc.default.zone-1.aws-aurora.8443"],
            &["", "A", "a_b", "-a", "a-", "a..b"],
        );
        check(is_dns_subdomain, &[&"a".repeat(100)], &["*.a"]);
        check(is_domain, &["a", "_x.example.com", "a.b.", "a_"], &["", "1.2.3.4", "a..b", "-a", "hello@world", "*.a"]);
        check(is_domain, &[&"a".repeat(63)], &[&"a".repeat(64)]);
    }

    #[test]
    fn file_paths() {
        check(is_file_path, &["/", "//x", "/tmp/a.log", "C:\\x"], &["", "tmp/a", "#not_valid", "C:/x", "/a\0b"]);
    }

    #[test]
    fn addresses() {
        check(is_ip, &["1.2.3.4", "::1", "2001:db8::1"], &["", "1.2.3", "01.2.3.4", "example.com", "1.2.3.4/8"]);
        check(
            is_cidr,
            &["1.2.3.4/24", "::/0", "10.0.0.0/32"],
            &["1.2.3.4", "1.2.3.4/33", "1.2.3.4/+1", "x/8", "::/129", "1.2.3.4/"],
        );
        check(is_host_and_port, &[":1", "a:", "[::1]:1", "a:1"], &["a", "a:b:c", "[::1]", "::1", "[a]b:1", ""]);
    }

    #[test]
    fn spiffe_ids() {
        check(
            is_spiffe_id,
            &["spiffe://trust.domain", "spiffe://default/ns/a/sa/B_1.x", "spiffe://a-b_c/x"],
            &[
                "",
                "x",
                "SPIFFE://a",
                "spiffe://",
                "spiffe://A",
                "spiffe://a/",
                "spiffe://a//b",
                "spiffe://a/../b",
                "spiffe://a/b?c",
            ],
        );
    }

    #[test]
    fn urls() {
        check(
            is_url,
            &[
                "svc:5000",
                "http://svc",
                "logs.com",
                "my_logs.example:1",
                "[::1]:80",
                "http://u:p@a.b/x?y",
                "10.1.2.3:99999",
                "a.b.",
            ],
            &[
                "svc",
                "a.c_m:1",
                "not_valid_url",
                ".a.b",
                "a:b",
                "gopher://a.b",
                "a b.c",
                "http://",
                "a.b:123456",
                "a..b",
                "@a.b",
            ],
        );
    }

    #[test]
    fn attribute_keys() {
        check(is_attribute_key, &["a", "service.version", "a_1"], &["", "1a", "A", "a.", "a b", "otel.x", "%a"]);
    }

    #[test]
    fn http_statuses() {
        check(
            is_http_status,
            &["103", "226", "425", "511", "500"],
            &["306", "419", "499", "5xx", "", "99999999", "+500"],
        );
    }

    #[test]
    fn regular_expressions() {
        assert_eq!(regex_error("my_match.*"), None);
        assert_eq!(regex_error("/users/{id}"), None);
        assert!(regex_error("())(!(").is_some());
    }
}
