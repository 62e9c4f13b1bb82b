//! TLS: the server's configuration, and a certificate that can be exchanged while connections are open.

use std::sync::Arc;

use arc_swap::{ArcSwap, ArcSwapOption};
use rustls::crypto::CryptoProvider;
use rustls::server::{ClientHello, NoServerSessionStorage, ResolvesServerCert, WebPkiClientVerifier};
use rustls::sign::CertifiedKey;
use rustls::{RootCertStore, ServerConfig, version};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::TlsAcceptor;
use x509_parser::prelude::{FromDer, X509Certificate};

/// A certificate chain with its private key, known to fit together.
#[derive(Clone, Debug)]
pub struct Pair {
    key: Arc<CertifiedKey>,
    expires: i64,
}

/// The pair in use. Each handshake takes the one that is current then; open connections keep theirs.
#[derive(Debug, Default)]
pub struct Certificates(ArcSwapOption<CertifiedKey>);

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    #[error("the certificate chain is not PEM: {0}")]
    Chain(rustls_pki_types::pem::Error),
    #[error("the certificate chain is empty")]
    NoCertificate,
    #[error("the leaf certificate cannot be read: {0}")]
    Leaf(String),
    #[error("the private key is not PEM: {0}")]
    Key(rustls_pki_types::pem::Error),
    #[error("certificate and key do not fit together: {0}")]
    Mismatch(rustls::Error),
    #[error("the bundle for client certificates cannot be used: {0}")]
    ClientRoots(String),
    #[error("the crypto provider cannot serve TLS 1.2 and 1.3: {0}")]
    Provider(rustls::Error),
}

impl Pair {
    /// Reads and checks a pair. Expiry is not checked here: whoever decides knows the time.
    pub fn from_pem(chain: &[u8], key: &[u8]) -> Result<Self, TlsError> {
        let chain = CertificateDer::pem_slice_iter(chain).collect::<Result<Vec<_>, _>>().map_err(TlsError::Chain)?;
        let leaf = chain.first().ok_or(TlsError::NoCertificate)?;
        let (_, parsed) = X509Certificate::from_der(leaf).map_err(|error| TlsError::Leaf(error.to_string()))?;
        let expires = parsed.validity().not_after.timestamp();
        let key = PrivateKeyDer::from_pem_slice(key).map_err(TlsError::Key)?;
        let key = CertifiedKey::from_der(chain, key, &provider()).map_err(TlsError::Mismatch)?;
        Ok(Self { key: Arc::new(key), expires })
    }

    /// When the leaf expires, in seconds since 1970.
    pub fn expires(&self) -> i64 {
        self.expires
    }
}

impl Certificates {
    /// Serves this pair from the next handshake on.
    pub fn serve(&self, pair: &Pair) {
        self.0.store(Some(pair.key.clone()));
    }
}

impl ResolvesServerCert for Certificates {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.0.load_full()
    }
}

/// How the server speaks TLS: 1.3 with 1.2 as the floor, HTTP/2 and HTTP/1.1. Each handshake takes what is current then.
#[derive(Debug)]
pub struct Tls {
    certificates: Arc<Certificates>,
    config: ArcSwap<ServerConfig>,
}

impl Tls {
    /// With `client_roots` (PEM), a client must show a certificate of one of those authorities.
    pub fn new(certificates: Arc<Certificates>, client_roots: Option<&[u8]>) -> Result<Self, TlsError> {
        let config = ArcSwap::new(config(certificates.clone(), client_roots)?);
        Ok(Self { certificates, config })
    }

    /// Asks clients for certificates of these authorities from the next handshake on.
    pub fn trust(&self, client_roots: &[u8]) -> Result<(), TlsError> {
        self.config.store(config(self.certificates.clone(), Some(client_roots))?);
        Ok(())
    }

    pub(super) fn acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::from(self.config.load_full())
    }
}

fn config(certificates: Arc<Certificates>, client_roots: Option<&[u8]>) -> Result<Arc<ServerConfig>, TlsError> {
    let provider = provider();
    let builder = ServerConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(&[&version::TLS13, &version::TLS12])
        .map_err(TlsError::Provider)?;
    let builder = match client_roots {
        None => builder.with_no_client_auth(),
        Some(pem) => {
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots(pem)?), provider)
                .build()
                .map_err(|error| TlsError::ClientRoots(error.to_string()))?;
            builder.with_client_cert_verifier(verifier)
        }
    };
    let mut config = builder.with_cert_resolver(certificates);
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    // API servers keep connections open and do not resume sessions: tickets would be made for nobody, and a resumed
    // session would outlive the certificate that vouched for it.
    config.send_tls13_tickets = 0;
    config.session_storage = Arc::new(NoServerSessionStorage {});
    Ok(Arc::new(config))
}

fn roots(pem: &[u8]) -> Result<RootCertStore, TlsError> {
    let mut store = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem) {
        let certificate = certificate.map_err(|error| TlsError::ClientRoots(error.to_string()))?;
        store.add(certificate).map_err(|error| TlsError::ClientRoots(error.to_string()))?;
    }
    Ok(store)
}

/// The provider that `main` installed; without one (a test that forgot), the same one made anew.
fn provider() -> Arc<CryptoProvider> {
    CryptoProvider::get_default().cloned().unwrap_or_else(|| Arc::new(rustls::crypto::aws_lc_rs::default_provider()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pem_pair() -> (String, String) {
        let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
        (made.cert.pem(), made.signing_key.serialize_pem())
    }

    #[test]
    fn a_pair_must_fit_together() {
        let (chain, key) = pem_pair();
        let (_, other) = pem_pair();
        assert!(Pair::from_pem(chain.as_bytes(), key.as_bytes()).is_ok());
        let error = |chain: &str, key: &str| Pair::from_pem(chain.as_bytes(), key.as_bytes()).unwrap_err().to_string();
        assert!(error(&chain, &other).starts_with("certificate and key do not fit together"));
        assert_eq!(error("", &key), "the certificate chain is empty");
        assert!(error(&chain, "").starts_with("the private key is not PEM"));
        assert!(error(&chain.replace("MII", "MIX"), &key).starts_with("the leaf certificate cannot be read"));
    }
}
