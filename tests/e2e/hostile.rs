//! Bad input, by way of a real API server and straight to the port: each gets its answer, and Writ goes on serving.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;

use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, ServerName};
use serde_json::{Value, json};

use crate::certificates::{ca_bundle, ports, webhook_token};
use crate::support::{self, Cluster, unique};

/// Where reviews go: what needs no cluster, and what does.
const PATHS: [&str; 4] = ["/validate", "/default", "/policyvalidate", "/validate/resources"];
const JSON: &str = "application/json";

fn template(name: &str, conf: &Value) -> Value {
    json!({
        "apiVersion": "kuma.io/v1alpha1", "kind": "ProxyTemplate", "metadata": {"name": name}, "mesh": "default",
        "spec": {"selectors": [{"match": {"kuma.io/service": "backend"}}], "conf": conf},
    })
}

fn nested(depth: usize) -> String {
    format!("{}{}", "[".repeat(depth), "]".repeat(depth))
}

/// Applies without keeping a copy of the object in an annotation, which has a limit of its own.
#[track_caller]
fn refused(cluster: &Cluster, object: &str, because: &str) {
    let answer = cluster.kubectl(["create", "--validate=false", "-f", "-"]).stdin(object).run();
    assert!(!answer.success, "stored: {}", answer.stdout);
    let told: String = answer.stderr.chars().take(2000).collect();
    assert!(told.contains(because), "not because of `{because}`: {told}");
}

#[test]
fn what_an_api_server_passes_on_is_answered_and_the_next_one_too() {
    let Some(cluster) = support::with_writ() else { return };
    let ns = cluster.namespace("hostile");
    let name = unique("hostile");
    ns.owns("proxytemplates.kuma.io", &name);
    let good = template(&name, &json!({"imports": ["default-proxy"]})).to_string();

    // As much as an API server takes, with one fault at its end.
    let removal = json!({"cluster": {"operation": "remove"}});
    let mut modifications = vec![removal; 60_000];
    modifications.push(json!({"cluster": {"operation": "addFirst"}}));
    let large = template(&name, &json!({"imports": ["default-proxy"], "modifications": modifications})).to_string();
    assert!(large.len() > 2_000_000, "{}", large.len());
    refused(cluster, &large, "spec.conf.modifications[60000].cluster.operation: ");
    // More than that is refused by the API server itself.
    let huge = template(&name, &json!({"imports": ["x".repeat(4 << 20)]})).to_string();
    refused(cluster, &huge, "too large");

    let deep = template(&name, &json!({"imports": ["default-proxy"], "deep": "HERE"})).to_string();
    refused(cluster, &deep.replace("\"HERE\"", &nested(1000)), "nested deeper");

    ns.accepts(&good);
}

#[test]
fn what_comes_straight_to_the_port_is_answered_and_the_next_one_too() {
    let Some(cluster) = support::with_writ() else { return };
    let Some(wire) = Wire::of(cluster) else { return };
    let token = webhook_token(cluster);
    for path in PATHS.map(|path| format!("{path}/{token}")) {
        let path = path.as_str();
        wire.check(&Call { method: "GET", path, kind: JSON, body: "" }, 405, "POST an AdmissionReview");
        wire.check(&Call { method: "DELETE", path, kind: JSON, body: "{}" }, 405, "POST an AdmissionReview");
        for kind in ["text/yaml", "application/x-protobuf"] {
            wire.check(&Call { method: "POST", path, kind, body: "{}" }, 415, "content type application/json");
        }
        let post =
            |body: &str, status, because| wire.check(&Call { method: "POST", path, kind: JSON, body }, status, because);
        post("", 400, "cannot be read");
        post("{", 400, "cannot be read");
        post("{}", 400, "\"reason\":\"BadRequest\"");
        post(&nested(1_000_000), 400, "");
        let review = |rest: &str| {
            format!(
                r#"{{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{{"uid":"u-1"{rest}}}}}"#
            )
        };
        let answer = post(&review(&format!(r#","object":{{"spec":{}}}"#, nested(1_000_000))), 200, "nested deeper");
        let answer: Value = serde_json::from_str(&answer).expect("a review");
        assert_eq!((&answer["response"]["uid"], &answer["response"]["allowed"]), (&json!("u-1"), &json!(false)));
        assert_eq!(answer["response"]["status"]["code"], 400);
        post(
            &review(&format!(r#","padding":"{}""#, "x".repeat(9 << 20))),
            413,
            "larger than the limit of 8388608 bytes",
        );
    }
    let nowhere = Call { method: "POST", path: &format!("/mutate/{token}"), kind: JSON, body: "{}" };
    let told = wire.check(&nowhere, 404, "known paths: ");
    for path in PATHS {
        assert!(told.contains(path), "{told}");
    }
    let log = cluster.folder().map(|folder| std::fs::read_to_string(folder.join("logs/writ.log")).expect("a log"));
    assert!(!log.expect("a local control plane").contains("panicked"));
    let (ns, name) = (cluster.namespace("hostile"), unique("hostile"));
    ns.owns("proxytemplates.kuma.io", &name);
    ns.accepts(&template(&name, &json!({"imports": ["default-proxy"]})).to_string());
}

/// The port that API servers call, for somebody who trusts whom they trust.
pub(crate) struct Wire {
    port: String,
    config: Arc<ClientConfig>,
}

pub(crate) struct Call<'a> {
    pub(crate) method: &'a str,
    pub(crate) path: &'a str,
    pub(crate) kind: &'a str,
    pub(crate) body: &'a str,
}

impl Wire {
    /// Nothing for a cluster whose port is out of reach from here.
    pub(crate) fn of(cluster: &Cluster) -> Option<Self> {
        cluster.folder()?;
        let mut roots = RootCertStore::empty();
        for root in CertificateDer::pem_slice_iter(ca_bundle(cluster).as_bytes()) {
            roots.add(root.expect("PEM")).expect("an authority");
        }
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let config = builder.expect("versions").with_root_certificates(roots).with_no_client_auth();
        Some(Self { port: ports(cluster)["webhook"].clone(), config: Arc::new(config) })
    }

    /// Fails unless the answer has this status and says why; gives the answer.
    #[track_caller]
    pub(crate) fn check(&self, call: &Call<'_>, status: u16, because: &str) -> String {
        let Call { method, path, kind, body } = call;
        let name = ServerName::try_from("writ.writ-system.svc").expect("a name");
        let connection = ClientConnection::new(self.config.clone(), name).expect("a client");
        let socket = TcpStream::connect(format!("127.0.0.1:{}", self.port)).expect("the port");
        socket.set_read_timeout(Some(std::time::Duration::from_secs(30))).expect("a time-out");
        let mut stream = StreamOwned::new(connection, socket);
        let head = format!("{method} {path} HTTP/1.1\r\nhost: writ\r\nconnection: close\r\ncontent-type: {kind}\r\n");
        let length = body.len();
        stream.write_all(format!("{head}content-length: {length}\r\n\r\n{body}").as_bytes()).expect("it is read");
        let mut answer = Vec::new();
        // What has come before the end of the connection counts, however it ended.
        let _ = stream.read_to_end(&mut answer);
        let answer = String::from_utf8(answer).expect("text");
        let (head, said) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
        let found = head.split(' ').nth(1).and_then(|status| status.parse::<u16>().ok());
        assert_eq!(found, Some(status), "{method} {path} as {kind}, {length} bytes: {answer}");
        assert!(said.contains(because), "{method} {path} as {kind}, {length} bytes: {answer}");
        said.to_owned()
    }
}
