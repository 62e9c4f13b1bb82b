//! Small grammars of texts in mesh policies: names, hosts, paths, addresses, identities.

use std::net::IpAddr;
use std::sync::LazyLock;

use regex::Regex;

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
///
/// The peer's rule is a regular expression with corners of its own (`a.bc:1` passes, `a.1:1` does not); files that it
/// accepts must pass here, so the corners are kept.
pub(super) fn is_url(text: &str) -> bool {
    if text.len() <= 3 || text.chars().count() >= LONGEST_URL || text.starts_with('.') {
        return false;
    }
    let before_query = text.split(['?', '#']).next().unwrap_or_default();
    if text.chars().any(|c| c.is_ascii_control()) || !has_sound_escapes(before_query) {
        return false;
    }
    // Without a colon the text has neither scheme nor port, and a single word could be anything.
    if !text.contains(':') && !before_query.contains('.') {
        return false;
    }
    let Some(parts) = URL.captures(text) else { return false };
    parts.name("ip").is_none_or(|address| is_ip(address.as_str()))
}

const LONGEST_URL: usize = 2083;

static URL: LazyLock<Regex> = LazyLock::new(|| {
    const ASCII: &str = "[a-zA-Z0-9]";
    const LETTER: &str = r"[a-zA-Z\x{a1}-\x{ffff}]";
    const FIRST_OCTET: &str = "(?:[1-9][0-9]?|1[0-9]{2}|2[01][0-9]|22[0-3]|24[0-9]|25[0-5])";
    const OCTET: &str = "(?:[0-9]{1,2}|1[0-9]{2}|2[0-4][0-9]|25[0-5])";
    const NO_SPACE: &str = r"[^\t\n\f\r ]";
    let character = r"[a-zA-Z0-9\x{a1}-\x{ffff}]";
    let word = format!("{character}+(?:-{{1,2}}{character}+)*");
    // What may stand before the last word; underscores only here.
    let with_inner_marks = format!(r"{ASCII}[a-zA-Z0-9_-]*{ASCII}(?:[-.]{ASCII}+)*");
    let with_subdomain = format!(r"{ASCII}+(?:[-_.]?{ASCII})*{ASCII}\.{ASCII}+");
    let name = format!(r"(?:{with_inner_marks}|www\.|{with_subdomain})?{word}(?:\.{LETTER}+)?");
    let scheme = "(?:(?:ftp|tcp|udp|wss?|https?)://)?";
    let host = format!(r"(?:{FIRST_OCTET}(?:\.{OCTET}){{3}}|\[(?<ip>[^\]]*)\]|{name})\.?");
    let pattern = format!("^{scheme}(?:{NO_SPACE}+@)?{host}(?::[0-9]{{1,5}})?(?:[/?#]{NO_SPACE}*)?$");
    Regex::new(&pattern).expect("a pattern that a test has read")
});

/// Whether every `%` is followed by two hexadecimal digits.
fn has_sound_escapes(text: &str) -> bool {
    text.split('%').skip(1).all(|rest| rest.len() >= 2 && rest.bytes().take(2).all(|c| c.is_ascii_hexdigit()))
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
                "my_logs:5000",
                "kuma-3_mal-matches_tcp-sink:9999",
                "a.bc:1",
                "svc/x.y",
                "[::1]:80",
                "http://u:p@a.b/x?y",
                "10.1.2.3:99999",
                "a.b.",
            ],
            &[
                "svc",
                "a.c_m:1",
                "256.1.1.1:1",
                "1.2:1",
                "a.b-c:1",
                "a.1:1",
                "a.b_c.d:1",
                "a_b.c_d.e:1",
                "http://a.b/%zz",
                "[::x]:80",
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
