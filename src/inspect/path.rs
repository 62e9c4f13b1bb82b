//! What a path asks for.

use crate::core::mesh::kind::{KindTable, PolicyKind};

/// One endpoint of the API, with what its path names.
#[derive(Clone, Debug)]
pub(super) enum Endpoint {
    Resources,
    Kri(String),
    ProxyRules { mesh: String, name: String },
    GatewayRules { mesh: String, name: String },
    PolicyProxies { mesh: String, kind: &'static PolicyKind, name: String },
    ServiceProxies { mesh: String, name: String },
    ProxyPolicies { mesh: String, name: String },
    InboundPolicies { mesh: String, name: String, inbound: String },
    OutboundPolicies { mesh: String, name: String, outbound: String },
    Routes { mesh: String, name: String, outbound: String },
    RoutePolicies { mesh: String, name: String, outbound: String, route: String },
    Layout { mesh: String, name: String },
}

/// Reads a path; `None` for one that the API does not have.
pub(super) fn parse(path: &str, kinds: &KindTable) -> Option<Endpoint> {
    let segments: Vec<String> = path.trim_matches('/').split('/').map(decode).collect();
    let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
    let owned = |text: &str| text.to_owned();
    let (mesh, collection, name, rest) = match segments.as_slice() {
        ["_resources"] => return Some(Endpoint::Resources),
        ["_kri", kri] => return Some(Endpoint::Kri(owned(kri))),
        ["meshes", mesh, collection, name, rest @ ..] => (owned(mesh), *collection, owned(name), rest),
        _ => return None,
    };
    Some(match (collection, rest) {
        ("dataplanes", ["_rules"]) => Endpoint::ProxyRules { mesh, name },
        ("meshgateways", ["_rules"]) => Endpoint::GatewayRules { mesh, name },
        ("dataplanes", ["_policies"]) => Endpoint::ProxyPolicies { mesh, name },
        ("dataplanes", ["_layout"]) => Endpoint::Layout { mesh, name },
        ("dataplanes", ["_inbounds", inbound, "_policies"]) => {
            Endpoint::InboundPolicies { mesh, name, inbound: owned(inbound) }
        }
        ("dataplanes", ["_outbounds", outbound, "_policies"]) => {
            Endpoint::OutboundPolicies { mesh, name, outbound: owned(outbound) }
        }
        ("dataplanes", ["_outbounds", outbound, "_routes"]) => {
            Endpoint::Routes { mesh, name, outbound: owned(outbound) }
        }
        ("dataplanes", ["_outbounds", outbound, "_routes", route, "_policies"]) => {
            Endpoint::RoutePolicies { mesh, name, outbound: owned(outbound), route: owned(route) }
        }
        ("meshservices", ["_dataplanes"] | ["_resources", "dataplanes"]) => Endpoint::ServiceProxies { mesh, name },
        (path, ["_resources", "dataplanes"]) => {
            Endpoint::PolicyProxies { mesh, kind: kinds.policy_by_path(path)?, name }
        }
        _ => return None,
    })
}

/// The last value of a parameter; `None` if it is not given.
pub(super) fn parameter(query: &str, name: &str) -> Option<String> {
    let mut pairs = query.rsplit('&').map(|pair| pair.split_once('=').unwrap_or((pair, "")));
    let (_, value) = pairs.find(|(key, _)| decode(key) == name)?;
    Some(decode(&value.replace('+', " ")))
}

/// Resolves percent-encoding; what is not well encoded stays as it is.
fn decode(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        let code = text.get(at + 1..at + 3).filter(|_| *byte == b'%').and_then(|hex| u8::from_str_radix(hex, 16).ok());
        match code {
            Some(code) => {
                decoded.push(code);
                at += 3;
            }
            None => {
                decoded.push(*byte);
                at += 1;
            }
        }
    }
    String::from_utf8(decoded).unwrap_or_else(|_| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_decoded() {
        assert_eq!(parameter("name=a%2Fb&size=1", "name").as_deref(), Some("a/b"));
        assert_eq!(parameter("name=a&name=b+c", "name").as_deref(), Some("b c"));
        assert_eq!(parameter("view", "view").as_deref(), Some(""));
        assert_eq!(parameter("size=1", "name"), None);
        assert_eq!(decode("100%"), "100%");
        assert_eq!(decode("%zz%41"), "%zzA");
    }
}
