//! Addresses of services outside the API server, parsed: what an `apiCall` may name.
//!
//! An address is split into scheme, host, port and target, so that a boundary can be kept: what is compared with the
//! operators' list is what is connected to. Whatever does not parse is refused, among it a user part and a backslash, by which
//! one host is made to look like another.

use std::fmt;

use ::core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// An http or https address.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ServiceUrl {
    secure: bool,
    host: String,
    port: u16,
    /// Path and query, as they are sent.
    target: String,
}

const LONGEST: usize = 8192;

impl ServiceUrl {
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        if text.len() > LONGEST {
            return Err("it is too long");
        }
        if text.chars().any(char::is_control) || text.contains('\\') {
            return Err("it contains a character that no address has");
        }
        let (scheme, rest) = text.split_once("://").ok_or("it must start with http:// or https://")?;
        let secure = match scheme.to_ascii_lowercase().as_str() {
            "https" => true,
            "http" => false,
            _ => return Err("it must start with http:// or https://"),
        };
        let rest = rest.split('#').next().unwrap_or_default();
        let (authority, target) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
        let (host, port) = split_authority(authority)?;
        let port = match port {
            None | Some("") => [80, 443][usize::from(secure)],
            Some(port) => match port.parse() {
                Ok(port) if port > 0 => port,
                _ => return Err("its port is no number from 1 to 65535"),
            },
        };
        let slash = if target.starts_with('/') { "" } else { "/" };
        Ok(Self { secure, host, port, target: format!("{slash}{}", escape(target)) })
    }

    pub fn is_secure(&self) -> bool {
        self.secure
    }

    /// A name or an address, without brackets, in lower case.
    pub fn host(&self) -> &str {
        &self.host
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// Path and query.
    pub fn target(&self) -> &str {
        &self.target
    }

    /// The `Host` header.
    pub fn authority(&self) -> String {
        let host = if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        match (self.secure, self.port) {
            (true, 443) | (false, 80) => host,
            (_, port) => format!("{host}:{port}"),
        }
    }
}

/// Without path and query, which may hold what others should not read.
impl fmt::Display for ServiceUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.secure { "https" } else { "http" };
        write!(f, "{scheme}://{}", self.authority())
    }
}

fn split_authority(authority: &str) -> Result<(String, Option<&str>), &'static str> {
    if authority.contains('@') {
        return Err("it must not name a user");
    }
    if let Some(literal) = authority.strip_prefix('[') {
        let (host, rest) = literal.split_once(']').ok_or("a bracket is missing")?;
        let address: Ipv6Addr = host.parse().map_err(|_| "what is in brackets is no IPv6 address")?;
        return match rest.strip_prefix(':') {
            Some(port) => Ok((address.to_string(), Some(port))),
            None if rest.is_empty() => Ok((address.to_string(), None)),
            None => Err("only a port may follow the bracket"),
        };
    }
    let (host, port) = match authority.split_once(':') {
        Some((host, port)) => (host, Some(port)),
        None => (authority, None),
    };
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_');
    if host.is_empty() || host.len() > 253 || !host.bytes().all(is_plain) {
        return Err("it has no proper host");
    }
    Ok((host.to_ascii_lowercase(), port))
}

/// What cannot be sent as it is becomes `%XX`; escapes that are there stay.
fn escape(target: &str) -> String {
    let mut escaped = String::with_capacity(target.len());
    for byte in target.bytes() {
        match byte {
            b'"' | b'<' | b'>' | b'^' | b'`' | b'{' | b'|' | b'}' => escaped.push_str(&format!("%{byte:02X}")),
            0x21..0x7f => escaped.push(char::from(byte)),
            _ => escaped.push_str(&format!("%{byte:02X}")),
        }
    }
    escaped
}

/// What an address is, where that decides whether services there may be called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sort {
    /// Only the own link has it: there most clouds hand out credentials to whoever asks.
    LinkLocal,
    /// Some cloud hands out credentials there.
    Metadata,
    /// The own machine: loopback, or no address at all, which connects to the same.
    Own,
    Other,
}

const METADATA_V4: [Ipv4Addr; 2] = [Ipv4Addr::new(100, 100, 100, 200), Ipv4Addr::new(168, 63, 129, 16)];
const METADATA_V6: [Ipv6Addr; 2] =
    [Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254), Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254)];

/// Sorts an address, whatever its guise.
pub(super) fn sort(address: IpAddr) -> Sort {
    match address.to_canonical() {
        IpAddr::V4(address) if address.octets()[0] == 0 => Sort::Own,
        IpAddr::V4(address) => sort_v4(address),
        IpAddr::V6(address) if address.is_unicast_link_local() => Sort::LinkLocal,
        IpAddr::V6(address) if METADATA_V6.contains(&address) => Sort::Metadata,
        IpAddr::V6(address) if address.is_loopback() || address.is_unspecified() => Sort::Own,
        IpAddr::V6(address) => {
            embedded(address).into_iter().map(sort_v4).find(|sort| *sort != Sort::Other).unwrap_or(Sort::Other)
        }
    }
}

fn sort_v4(address: Ipv4Addr) -> Sort {
    match address {
        address if address.is_link_local() => Sort::LinkLocal,
        address if METADATA_V4.contains(&address) => Sort::Metadata,
        address if address.is_loopback() => Sort::Own,
        _ => Sort::Other,
    }
}

/// The IPv4 addresses that may be behind one that is translated (`64:ff9b::/96`, or with any length of prefix within
/// `64:ff9b:1::/48`), tunnelled (`2002::/16`) or compatible (`::/96`).
fn embedded(address: Ipv6Addr) -> Vec<Ipv4Addr> {
    let bytes = address.octets();
    let at = |places: [usize; 4]| Ipv4Addr::from(places.map(|place| bytes[place]));
    match address.segments() {
        // The byte at 8 is none of the address (RFC 6052).
        [0x64, 0xff9b, 1, ..] => [[6, 7, 9, 10], [7, 9, 10, 11], [9, 10, 11, 12], [12, 13, 14, 15]].map(at).to_vec(),
        [0x64, 0xff9b, 0, 0, 0, 0, ..] | [0, 0, 0, 0, 0, 0, ..] => vec![at([12, 13, 14, 15])],
        [0x2002, ..] => vec![at([2, 3, 4, 5])],
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: (bool, &str, u16, &str)) {
        let url = ServiceUrl::parse(text).expect(text);
        assert_eq!((url.is_secure(), url.host(), url.port(), url.target()), expected, "{text}");
    }

    #[test]
    fn addresses_fall_into_parts() {
        check("http://sample.default.svc/labels", (false, "sample.default.svc", 80, "/labels"));
        check("HTTPS://Example.COM", (true, "example.com", 443, "/"));
        check("https://a:8443?x=1#part", (true, "a", 8443, "/?x=1"));
        check("https://[::1]:8443/x", (true, "::1", 8443, "/x"));
        check("http://a/b c/ü?q={\"k\": 1}", (false, "a", 80, "/b%20c/%C3%BC?q=%7B%22k%22:%201%7D"));
        check("http://a/b%20c", (false, "a", 80, "/b%20c"));
    }

    #[test]
    fn what_is_no_address_is_refused() {
        for text in [
            "a.svc",
            "ftp://a.svc",
            "https://",
            "https:///x",
            "https://a.svc@example.com/",
            "https://x.svc\\@example.com",
            "http://a:0/",
            "http://a:65536/",
            "http://a:80:80/",
            "http://[::1",
            "http://[::1]x",
            "http://[fe80::1%25eth0]/",
            "http://a b/",
            "http://a/\r\nX: y",
            "http://ä/",
        ] {
            assert!(ServiceUrl::parse(text).is_err(), "{text}");
        }
        assert!(ServiceUrl::parse(&format!("http://a/{}", "x".repeat(LONGEST))).is_err());
    }

    #[test]
    fn path_and_query_are_not_shown() {
        let shown = |text: &str| ServiceUrl::parse(text).expect(text).to_string();
        assert_eq!(shown("https://a:443/b?token=secret"), "https://a");
        assert_eq!(shown("http://[::1]:8080/b"), "http://[::1]:8080");
    }

    #[track_caller]
    fn check_sort(expected: Sort, texts: &[&str]) {
        for text in texts {
            assert_eq!(sort(text.parse().expect(text)), expected, "{text}");
        }
    }

    #[test]
    fn addresses_are_known_in_every_guise() {
        check_sort(
            Sort::LinkLocal,
            &[
                "169.254.169.254",
                "fe80::1",
                "::ffff:169.254.169.254",
                "64:ff9b::a9fe:a9fe",
                "::169.254.0.1",
                "2002:a9fe:a9fe::1",
                "64:ff9b:1::a9fe:a9fe",
                "64:ff9b:1:a9fe:a9:fe00::",
                "64:ff9b:1:a9:fe:a9fe::",
                "64:ff9b:1:0:a9:fea9:fe00::",
            ],
        );
        check_sort(
            Sort::Metadata,
            &[
                "100.100.100.200",
                "168.63.129.16",
                "fd00:ec2::254",
                "fd20:ce::254",
                "::ffff:100.100.100.200",
                "64:ff9b::a83f:8110",
                "2002:6464:64c8::",
            ],
        );
        check_sort(
            Sort::Own,
            &["127.0.0.1", "127.9.9.9", "::1", "::", "0.0.0.0", "0.1.2.3", "::ffff:127.0.0.1", "64:ff9b::7f00:1"],
        );
        check_sort(
            Sort::Other,
            &[
                "169.253.0.1",
                "10.0.0.1",
                "100.100.100.201",
                "fd00::1",
                "fd00:ec2::253",
                "64:ff9b::a00:1",
                "64:ff9b:1::a00:1",
                "2002:a00:1::1",
            ],
        );
    }
}
