//! Calls of services that rules name: one bounded request each, on a connection of its own.
//!
//! The host is resolved here, judged by the request's own gate, and connected to by the address that was judged, so a name
//! that changes its mind gains nothing. Redirects are not followed. Neither headers nor bodies appear in errors or logs.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::future::pending;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper::header::{
    AUTHORIZATION, CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, HOST, HeaderMap, HeaderName, HeaderValue, TE, TRAILER,
    TRANSFER_ENCODING, UPGRADE, USER_AGENT,
};
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use rustls::crypto::CryptoProvider;
use rustls::{ClientConfig, RootCertStore, version};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, ServerName};
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, lookup_host};
use tokio::sync::{OnceCell, Semaphore};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tracing::debug;

use super::error::causes;
use crate::core::generate::{Answer, ServiceFetch};

/// Calls under way at once; a loop of many elements waits its turn.
const AT_ONCE: usize = 32;
/// Of them, those to one host: one that hangs does not keep the others waiting.
const AT_ONCE_PER_HOST: usize = 8;
/// Names that a client has to get right itself, or the message would end elsewhere than it seems to.
const OURS: [HeaderName; 7] = [HOST, CONTENT_LENGTH, TRANSFER_ENCODING, TRAILER, TE, CONNECTION, UPGRADE];

/// How services are called.
#[derive(Clone, Debug)]
pub struct ServiceOptions {
    /// How long a call may take, the wait for its turn included; zero for as long as it likes.
    pub timeout: Duration,
    /// The largest response, in bytes; zero for any.
    pub response_limit: usize,
    /// Holds a token for calls over TLS without an `Authorization` header, if it is there.
    pub token_file: PathBuf,
}

/// The way to services. Clones share it.
#[derive(Clone)]
pub struct Services(Arc<Inner>);

struct Inner {
    options: ServiceOptions,
    turns: Semaphore,
    /// Of the hosts that are being called.
    turns_of_hosts: Mutex<BTreeMap<String, Weak<Semaphore>>>,
    system_roots: OnceCell<Arc<RootCertStore>>,
}

/// A call that failed, in words that may be shown.
type Called<T> = Result<T, String>;

impl Services {
    pub fn new(options: ServiceOptions) -> Self {
        Self(Arc::new(Inner {
            options,
            turns: Semaphore::new(AT_ONCE),
            turns_of_hosts: Mutex::default(),
            system_roots: OnceCell::new(),
        }))
    }

    /// The text that a service answers with.
    pub async fn answer(&self, fetch: &ServiceFetch) -> Answer {
        let limit = self.0.options.timeout;
        let called = match limit.is_zero() {
            true => self.0.call_in_turn(fetch).await,
            false => match timeout(limit, self.0.call_in_turn(fetch)).await {
                Ok(called) => called,
                Err(_) => Err(format!("no answer within {limit:?}")),
            },
        };
        debug!(service = fetch.url().authority(), good = called.is_ok(), "Called a service");
        match called {
            Ok(text) => Answer::found(Value::from(text)),
            Err(reason) => Answer::Failed(reason),
        }
    }
}

impl Inner {
    /// Whoever waits for a host holds no place that another host could have.
    async fn call_in_turn(&self, fetch: &ServiceFetch) -> Called<String> {
        let closed = |_| "no services are called any more".to_owned();
        let of_host = self.turns_of(fetch.url().host());
        let _turn_of_host = of_host.acquire().await.map_err(closed)?;
        let _turn = self.turns.acquire().await.map_err(closed)?;
        self.call(fetch).await
    }

    fn turns_of(&self, host: &str) -> Arc<Semaphore> {
        let mut hosts = self.turns_of_hosts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(turns) = hosts.get(host).and_then(Weak::upgrade) {
            return turns;
        }
        hosts.retain(|_, turns| turns.strong_count() > 0);
        let turns = Arc::new(Semaphore::new(AT_ONCE_PER_HOST));
        hosts.insert(host.to_owned(), Arc::downgrade(&turns));
        turns
    }

    async fn call(&self, fetch: &ServiceFetch) -> Called<String> {
        let request = self.request(fetch).await?;
        let stream = connect(fetch).await?;
        if !fetch.url().is_secure() {
            return self.exchange(stream, request).await;
        }
        let config = self.tls_config(fetch.ca_bundle()).await?;
        let name = ServerName::try_from(fetch.url().host().to_owned()).map_err(|error| error.to_string())?;
        let stream = TlsConnector::from(config).connect(name, stream).await;
        self.exchange(stream.map_err(|error| format!("no TLS connection: {}", causes(&error)))?, request).await
    }

    async fn request(&self, fetch: &ServiceFetch) -> Called<Request<Full<Bytes>>> {
        let url = fetch.url();
        let mut headers = HeaderMap::new();
        for (key, value) in fetch.headers() {
            let name =
                HeaderName::from_bytes(key.as_bytes()).map_err(|_| "a header has a malformed name".to_owned())?;
            let value = HeaderValue::from_str(value).map_err(|_| "the value of a header cannot be sent".to_owned())?;
            if !OURS.contains(&name) {
                headers.append(name, value);
            }
        }
        if url.is_secure()
            && !headers.contains_key(AUTHORIZATION)
            && let Some(token) = self.token().await
        {
            headers.insert(AUTHORIZATION, token);
        }
        let own = HeaderValue::from_static(concat!("writ/", env!("CARGO_PKG_VERSION")));
        headers.entry(USER_AGENT).or_insert(own);
        let authority = HeaderValue::from_str(&url.authority()).map_err(|error| error.to_string())?;
        headers.insert(HOST, authority);
        let method = match fetch.body() {
            Some(_) => {
                headers.entry(CONTENT_TYPE).or_insert(HeaderValue::from_static("application/json"));
                Method::POST
            }
            None => Method::GET,
        };
        let body = Full::new(Bytes::from(fetch.body().unwrap_or_default().to_owned()));
        let mut request =
            Request::builder().method(method).uri(url.target()).body(body).map_err(|error| error.to_string())?;
        *request.headers_mut() = headers;
        Ok(request)
    }

    /// Read each time: whoever projects the token renews it.
    async fn token(&self) -> Option<HeaderValue> {
        let token = tokio::fs::read_to_string(&self.options.token_file).await.ok()?;
        let mut value = HeaderValue::from_str(&format!("Bearer {}", token.trim())).ok()?;
        value.set_sensitive(true);
        (!token.trim().is_empty()).then_some(value)
    }

    async fn tls_config(&self, bundle: Option<&str>) -> Called<Arc<ClientConfig>> {
        let roots = match bundle {
            Some(pem) => Arc::new(roots_of(pem)?),
            None => self.system_roots.get_or_try_init(load_system_roots).await?.clone(),
        };
        let provider = CryptoProvider::get_default()
            .cloned()
            .unwrap_or_else(|| Arc::new(rustls::crypto::aws_lc_rs::default_provider()));
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&version::TLS13, &version::TLS12])
            .map_err(|error| error.to_string())?
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Arc::new(config))
    }

    async fn exchange(
        &self,
        stream: impl AsyncRead + AsyncWrite + Unpin,
        request: Request<Full<Bytes>>,
    ) -> Called<String> {
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(|error| causes(&error))?;
        let exchange = async {
            let response = sender.send_request(request).await.map_err(|error| causes(&error))?;
            self.read(response).await
        };
        // A connection may end before everything it brought has been read; how it ended shows there.
        let driving = async {
            let _ = connection.await;
            pending::<Infallible>().await
        };
        tokio::select! {
            text = exchange => text,
            never = driving => match never {},
        }
    }

    async fn read(&self, response: Response<Incoming>) -> Called<String> {
        let status = response.status();
        if !status.is_success() {
            let hint = if status.is_redirection() { "; redirects are not followed" } else { "" };
            return Err(format!("HTTP {status}{hint}"));
        }
        let limit = match self.options.response_limit {
            0 => usize::MAX,
            limit => limit,
        };
        let body = Limited::new(response.into_body(), limit).collect().await.map_err(|error| {
            if error.is::<LengthLimitError>() {
                format!("the response is larger than {limit} bytes")
            } else {
                format!("the response ended early: {}", causes(&*error))
            }
        })?;
        String::from_utf8(body.to_bytes().into()).map_err(|_| "the response is not UTF-8".to_owned())
    }
}

/// Connects to the first address that answers, once all of them are known to be allowed.
async fn connect(fetch: &ServiceFetch) -> Called<TcpStream> {
    let (host, port) = (fetch.url().host(), fetch.url().port());
    let found = lookup_host((host, port)).await.map_err(|error| format!("`{host}` is not found: {error}"))?;
    let addresses = found.map(|address: SocketAddr| address.ip()).collect::<Vec<IpAddr>>();
    let addresses = fetch.connectable(addresses).map_err(|refusal| refusal.to_string())?;
    let mut last = io::Error::from(io::ErrorKind::NotFound);
    for address in addresses {
        match TcpStream::connect((address, port)).await {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(format!("no connection: {last}"))
}

fn roots_of(pem: &str) -> Called<RootCertStore> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem.as_bytes()) {
        let certificate = certificate.map_err(|_| "caBundle is not PEM".to_owned())?;
        roots.add(certificate).map_err(|error| format!("caBundle holds a bad certificate: {error}"))?;
    }
    if roots.is_empty() {
        return Err("caBundle holds no certificate".to_owned());
    }
    Ok(roots)
}

async fn load_system_roots() -> Called<Arc<RootCertStore>> {
    let loaded = tokio::task::spawn_blocking(rustls_native_certs::load_native_certs).await;
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(loaded.map_err(|error| error.to_string())?.certs);
    if roots.is_empty() {
        return Err("this system trusts no authority; give `caBundle`, or name a file of authorities in SSL_CERT_FILE"
            .to_owned());
    }
    Ok(Arc::new(roots))
}
