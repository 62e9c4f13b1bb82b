//! The same resources on another control plane: other names, other labels.

use serde_json::{Value, json};

const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";

/// Rewrites a universal document.
pub(super) type Rewrite = Box<dyn Fn(&Value) -> Value>;

/// Reads `zone-k8s`, `global-uni-2-zone-k8s` and so on.
pub(super) fn variant(name: &str) -> Rewrite {
    let (base, synced) = match name.split_once("-2-") {
        Some((base, to)) => (base, Some(to.ends_with("-k8s"))),
        None => (name, None),
    };
    let base = base.to_owned();
    Box::new(move |document| {
        let local = on(&base, document);
        match synced {
            None => local,
            Some(kubernetes) => synchronised(&local, kubernetes),
        }
    })
}

/// The two rewrites of a case for proxies by name: of the proxy, and of the policies.
pub(super) fn proxy_variant(name: &str) -> Option<(Rewrite, Rewrite)> {
    let (proxy, policy, role) = match name {
        "uni-zone" => ("zone-uni", "zone-uni", ""),
        "k8s-zone" => ("zone-k8s", "zone-k8s", ""),
        "policy-from-global-uni-zone-uni-on-global" => ("zone-uni-2-global-uni", "global-uni", "system"),
        "policy-from-global-uni-zone-uni-on-zone" => ("zone-uni", "global-uni-2-zone-uni", "system"),
        "policy-from-global-uni-zone-k8s-on-zone" => ("zone-k8s", "global-uni-2-zone-k8s", "system"),
        "policy-from-global-uni-zone-k8s-on-global" => ("zone-k8s-2-global-uni", "global-uni", "system"),
        "policy-from-global-k8s-zone-uni-on-zone" => ("zone-uni", "global-k8s-2-zone-uni", "system"),
        "policy-from-global-k8s-zone-uni-on-global" => ("zone-uni-2-global-k8s", "global-k8s", "system"),
        "policy-from-global-k8s-zone-k8s-on-zone" => ("zone-k8s", "global-k8s-2-zone-k8s", "system"),
        "policy-from-global-k8s-zone-k8s-on-global" => ("zone-k8s-2-global-k8s", "global-k8s", "system"),
        "policy-global-uni-dpp-k8s-on-zone" => ("zone-uni", "global-uni-2-zone-uni", "system"),
        "policy-global-uni-dpp-k8s-on-global" => ("zone-uni-2-global-uni", "global-uni", "system"),
        "policy-from-k8s-to-uni" => ("zone-uni", "zone-k8s-2-zone-uni", "producer"),
        "policy-from-k8s-to-k8s" => ("zone-k8s", "zone-k8s-2-zone-k8s", "producer"),
        _ => return None,
    };
    let policy = variant(policy);
    let rewrite: Rewrite = Box::new(move |document| {
        let mut policy = policy(document);
        if !role.is_empty() {
            policy["labels"]["kuma.io/policy-role"] = role.into();
        }
        if role == "system" {
            policy["labels"]["k8s.kuma.io/namespace"] = "kuma-system".into();
        }
        policy
    });
    Some((variant(proxy), rewrite))
}

fn on(base: &str, document: &Value) -> Value {
    let (name, mesh) = (text(document, "name"), text(document, "mesh"));
    let mut labels = json!({"kuma.io/display-name": name, "kuma.io/origin": base.split('-').next()});
    if base.starts_with("zone") {
        labels["kuma.io/zone"] = base.into();
    }
    let kubernetes = base.ends_with("-k8s");
    if kubernetes {
        labels["k8s.kuma.io/namespace"] = "ns-k8s".into();
        labels["kuma.io/mesh"] = mesh.into();
    }
    for (key, value) in document["labels"].as_object().into_iter().flatten() {
        labels[key] = value.clone();
    }
    let mut local = document.clone();
    local["labels"] = labels;
    if kubernetes {
        local["name"] = format!("{name}.ns-k8s").into();
    }
    local
}

/// The copy on another control plane. A copy of a copy has the same name.
fn synchronised(document: &Value, kubernetes: bool) -> Value {
    let labels = &document["labels"];
    let name = text(labels, "kuma.io/display-name");
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for part in [text(document, "mesh"), name, text(labels, "kuma.io/zone"), text(labels, "k8s.kuma.io/namespace")] {
        for byte in part.bytes() {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }
    let letters = format!("{hash:016x}").bytes().map(|digit| char::from(ALPHABET[usize::from(digit) % 27])).collect();
    let letters: String = letters;
    let suffix = if kubernetes { ".kuma-system" } else { "" };
    let mut copy = document.clone();
    copy["name"] = format!("{name}-{letters}{suffix}").into();
    copy
}

fn text<'v>(document: &'v Value, field: &str) -> &'v str {
    document[field].as_str().unwrap_or_default()
}
