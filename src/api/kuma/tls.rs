//! MeshTLS.

use serde_json::Value;

use super::forms::{Conf, from, policy, rules, tls_version};
use crate::api::schema::{closed, list, word};

pub(super) fn spec() -> Value {
    policy([from(conf(), Conf::Optional), rules(conf(), Conf::Optional)])
}

fn conf() -> Value {
    let suites = [
        "ECDHE-ECDSA-AES128-GCM-SHA256",
        "ECDHE-ECDSA-AES256-GCM-SHA384",
        "ECDHE-ECDSA-CHACHA20-POLY1305",
        "ECDHE-RSA-AES128-GCM-SHA256",
        "ECDHE-RSA-AES256-GCM-SHA384",
        "ECDHE-RSA-CHACHA20-POLY1305",
    ];
    closed(
        "How callers are met.",
        [
            ("mode", word("Whether calls without TLS are let in.", &["Permissive", "Strict"])),
            ("tlsVersion", tls_version()),
            ("tlsCiphers", list("Suites that are accepted; for the whole mesh only.", word("One suite.", &suites))),
        ],
    )
}
