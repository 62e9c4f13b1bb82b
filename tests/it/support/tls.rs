//! TLS on loopback: pairs made on the spot, and clients that trust them.

use std::net::SocketAddr;
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use rustls::{ClientConfig, RootCertStore, SupportedProtocolVersion, version};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// An authority and a leaf for `localhost`, all PEM.
pub(crate) struct TestPair {
    pub(crate) authority: String,
    pub(crate) chain: String,
    pub(crate) key: String,
}

impl TestPair {
    pub(crate) fn make() -> Self {
        let authority_key = KeyPair::generate().unwrap();
        let mut authority = CertificateParams::new(Vec::<String>::new()).unwrap();
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        authority.distinguished_name.push(DnType::CommonName, "test authority");
        let authority_pem = authority.self_signed(&authority_key).unwrap().pem();
        let key = KeyPair::generate().unwrap();
        let leaf = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        let leaf = leaf.signed_by(&key, &Issuer::new(authority, authority_key)).unwrap();
        Self { authority: authority_pem, chain: leaf.pem(), key: key.serialize_pem() }
    }
}

/// How a client behaves.
pub(crate) struct Client {
    pub(crate) trusts: String,
    pub(crate) shows: Option<(String, String)>,
    pub(crate) alpn: &'static [&'static str],
    pub(crate) versions: Vec<&'static SupportedProtocolVersion>,
}

impl Client {
    pub(crate) fn trusting(pair: &TestPair) -> Self {
        Self { trusts: pair.authority.clone(), shows: None, alpn: &["http/1.1"], versions: vec![&version::TLS13] }
    }

    pub(crate) async fn connect(&self, address: SocketAddr) -> std::io::Result<TlsStream<TcpStream>> {
        let mut roots = RootCertStore::empty();
        for root in CertificateDer::pem_slice_iter(self.trusts.as_bytes()) {
            roots.add(root.unwrap()).unwrap();
        }
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&self.versions)
            .unwrap()
            .with_root_certificates(roots);
        let mut config = match &self.shows {
            None => builder.with_no_client_auth(),
            Some((chain, key)) => {
                let chain = CertificateDer::pem_slice_iter(chain.as_bytes()).map(Result::unwrap).collect();
                builder.with_client_auth_cert(chain, PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap()).unwrap()
            }
        };
        config.alpn_protocols = self.alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
        let stream = TcpStream::connect(address).await?;
        let name = ServerName::try_from("localhost").unwrap();
        TlsConnector::from(Arc::new(config)).connect(name, stream).await
    }
}

/// An HTTP/1.1 answer, read as text from a connection that may stay open.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// Lower case, as they came.
    pub(crate) head: String,
    pub(crate) body: String,
}

/// Reads one answer with a content length; `None` if the connection ends before its first byte.
pub(crate) async fn read_answer(stream: &mut (impl tokio::io::AsyncRead + Unpin)) -> Option<Answer> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        match stream.read_u8().await {
            Ok(byte) => head.push(byte),
            Err(_) if head.is_empty() => return None,
            Err(error) => panic!("{error} after {:?}", String::from_utf8_lossy(&head)),
        }
    }
    let head = String::from_utf8(head).unwrap().to_ascii_lowercase();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    let length =
        head.lines().find_map(|line| line.strip_prefix("content-length: ")).map_or(0, |it| it.parse().unwrap());
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await.unwrap();
    Some(Answer { status, head, body: String::from_utf8(body).unwrap() })
}

/// Sends text and reads the answer to it.
pub(crate) async fn ask(
    stream: &mut (impl tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin),
    text: &str,
) -> Option<Answer> {
    stream.write_all(text.as_bytes()).await.ok()?;
    stream.flush().await.ok()?;
    read_answer(stream).await
}

/// A POST with a body, as text.
pub(crate) fn post(path: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
    )
}
