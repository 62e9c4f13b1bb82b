//! TLS: the server's configuration, and a certificate that can be exchanged while connections are open.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::{ArcSwap, ArcSwapOption};
use rustls::client::danger::HandshakeSignatureValid;
use rustls::client::verify_server_cert_signed_by_trust_anchor;
use rustls::crypto::CryptoProvider;
use rustls::server::ParsedCertificate;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{ClientHello, NoServerSessionStorage, ResolvesServerCert, WebPkiClientVerifier};
use rustls::sign::CertifiedKey;
use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, RootCertStore, ServerConfig, SignatureScheme, version,
};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use tokio_rustls::TlsAcceptor;
use x509_parser::prelude::{FromDer, GeneralName, X509Certificate};

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
    #[error("the authorities cannot be read: {0}")]
    Authorities(String),
    #[error("the certificate is not one of these authorities: {0}")]
    Untrusted(rustls::Error),
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

    /// Whether a client that trusts these authorities (PEM) would trust the pair in use at that time (seconds since 1970). By
    /// which name it calls is its own affair.
    pub fn vouched_for(&self, authorities: &[u8], now: i64) -> Result<(), TlsError> {
        let unreadable = |error: &dyn std::fmt::Display| TlsError::Authorities(error.to_string());
        let mut roots = RootCertStore::empty();
        let authorities = CertificateDer::pem_slice_iter(authorities)
            .collect::<Result<Vec<_>, _>>()
            .map_err(|error| unreadable(&error))?;
        for authority in &authorities {
            roots.add(authority.clone()).map_err(|error| unreadable(&error))?;
        }
        if roots.is_empty() {
            return Err(unreadable(&"there is no certificate"));
        }
        let pair = self.0.load();
        let (leaf, rest) = pair.as_ref().and_then(|pair| pair.cert.split_first()).ok_or(TlsError::NoCertificate)?;
        let time = UnixTime::since_unix_epoch(Duration::from_secs(u64::try_from(now).unwrap_or_default()));
        let parsed = ParsedCertificate::try_from(leaf).map_err(TlsError::Untrusted)?;
        let algorithms = provider().signature_verification_algorithms.all;
        match verify_server_cert_signed_by_trust_anchor(&parsed, &roots, rest, time, algorithms) {
            // API servers trust a certificate that is its own authority, whatever else it may sign.
            Err(_) if authorities.contains(leaf) => in_time(leaf, now),
            other => other.map_err(TlsError::Untrusted),
        }
    }
}

fn in_time(leaf: &CertificateDer<'_>, now: i64) -> Result<(), TlsError> {
    let (_, parsed) = X509Certificate::from_der(leaf).map_err(|error| TlsError::Leaf(error.to_string()))?;
    let validity = parsed.validity();
    let error = match now {
        now if now < validity.not_before.timestamp() => CertificateError::NotValidYet,
        now if now > validity.not_after.timestamp() => CertificateError::Expired,
        _ => return Ok(()),
    };
    Err(TlsError::Untrusted(error.into()))
}

impl ResolvesServerCert for Certificates {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.0.load_full()
    }
}

/// Which client certificates are accepted.
#[derive(Clone, Copy, Debug)]
pub struct ClientRule<'a> {
    /// The CAs that sign them (PEM).
    pub roots: &'a [u8],
    /// One of these must be a name of the certificate; none means any name.
    pub names: &'a [String],
}

/// Checks the names of a client certificate after everything else about it.
#[derive(Debug)]
struct NamedClients {
    inner: Arc<dyn ClientCertVerifier>,
    names: Arc<[String]>,
}

impl ClientCertVerifier for NamedClients {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.inner.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        leaf: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        let verified = self.inner.verify_client_cert(leaf, intermediates, now)?;
        if self.names.is_empty() || names_of(leaf).iter().any(|name| self.names.contains(name)) {
            return Ok(verified);
        }
        Err(CertificateError::ApplicationVerificationFailure.into())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        leaf: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.inner.verify_tls12_signature(message, leaf, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        leaf: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.inner.verify_tls13_signature(message, leaf, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.inner.supported_verify_schemes()
    }
}

/// The common names of a certificate, and its alternative names that are text.
fn names_of(leaf: &CertificateDer<'_>) -> Vec<String> {
    let Ok((_, parsed)) = X509Certificate::from_der(leaf) else {
        return Vec::new();
    };
    let common = parsed.subject().iter_common_name().filter_map(|name| name.as_str().ok());
    let mut names: Vec<String> = common.map(str::to_owned).collect();
    if let Ok(Some(alternatives)) = parsed.subject_alternative_name() {
        names.extend(alternatives.value.general_names.iter().filter_map(|name| match name {
            GeneralName::DNSName(name) | GeneralName::RFC822Name(name) | GeneralName::URI(name) => {
                Some((*name).to_owned())
            }
            _ => None,
        }));
    }
    names
}

/// How the server speaks TLS: 1.3 with 1.2 as the floor, HTTP/2 and HTTP/1.1. Each handshake takes what is current then.
#[derive(Debug)]
pub struct Tls {
    certificates: Arc<Certificates>,
    client_names: Arc<[String]>,
    config: ArcSwap<ServerConfig>,
}

impl Tls {
    /// With `clients`, a client must show a certificate that the rule accepts.
    pub fn new(certificates: Arc<Certificates>, clients: Option<ClientRule<'_>>) -> Result<Self, TlsError> {
        let client_names: Arc<[String]> = clients.map_or(&[][..], |clients| clients.names).into();
        let roots = clients.map(|clients| clients.roots);
        let config = ArcSwap::new(config(certificates.clone(), roots, client_names.clone())?);
        Ok(Self { certificates, client_names, config })
    }

    /// Asks clients for certificates of these authorities from the next handshake on.
    pub fn trust(&self, client_roots: &[u8]) -> Result<(), TlsError> {
        self.config.store(config(self.certificates.clone(), Some(client_roots), self.client_names.clone())?);
        Ok(())
    }

    pub(super) fn acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::from(self.config.load_full())
    }
}

fn config(
    certificates: Arc<Certificates>,
    client_roots: Option<&[u8]>,
    names: Arc<[String]>,
) -> Result<Arc<ServerConfig>, TlsError> {
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
            builder.with_client_cert_verifier(Arc::new(NamedClients { inner: verifier, names }))
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

    /// An authority, and a pair that it signed for the 1000 seconds from 1970 on.
    fn signed() -> (String, Pair) {
        let second = |it| time::OffsetDateTime::from_unix_timestamp(it).unwrap();
        let [authority_key, key] = [(); 2].map(|()| rcgen::KeyPair::generate().unwrap());
        let mut authority = rcgen::CertificateParams::new(Vec::<String>::new()).unwrap();
        authority.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        authority.not_before = second(0);
        let authority_pem = authority.self_signed(&authority_key).unwrap().pem();
        let mut leaf = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        (leaf.not_before, leaf.not_after) = (second(0), second(1000));
        let leaf = leaf.signed_by(&key, &rcgen::Issuer::new(authority, authority_key)).unwrap();
        let pair = Pair::from_pem(leaf.pem().as_bytes(), key.serialize_pem().as_bytes()).unwrap();
        (authority_pem, pair)
    }

    #[test]
    fn only_its_authority_vouches_for_a_pair_and_only_in_its_time() {
        let ((authority, pair), (stranger, _)) = (signed(), signed());
        let certificates = Certificates::default();
        let told = |bundle: &str, now| match certificates.vouched_for(bundle.as_bytes(), now) {
            Ok(()) => String::new(),
            Err(error) => error.to_string(),
        };
        assert_eq!(told(&authority, 500), "the certificate chain is empty");
        certificates.serve(&pair);
        assert_eq!(told(&authority, 500), "");
        assert_eq!(told(&format!("{stranger}{authority}"), 500), "");
        assert!(told(&stranger, 500).starts_with("the certificate is not one of these authorities: "));
        assert!(told(&authority, 2000).contains("expired"), "{}", told(&authority, 2000));
        assert!(told("nonsense", 500).starts_with("the authorities cannot be read: "));
        let broken = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        assert!(told(broken, 500).starts_with("the authorities cannot be read: "));
    }

    #[test]
    fn a_pair_may_be_its_own_authority() {
        let key = rcgen::KeyPair::generate().unwrap();
        let mut params = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        for is_ca in [rcgen::IsCa::NoCa, rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained)] {
            params.is_ca = is_ca;
            let pem = params.self_signed(&key).unwrap().pem();
            let certificates = Certificates::default();
            certificates.serve(&Pair::from_pem(pem.as_bytes(), key.serialize_pem().as_bytes()).unwrap());
            assert!(certificates.vouched_for(pem.as_bytes(), 1_800_000_000).is_ok());
            assert!(certificates.vouched_for(pem.as_bytes(), 0).is_err());
        }
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
