//! The yardstick: hyper and rustls with nothing behind them. It reads each body and answers the same bytes.

use std::convert::Infallible;
use std::net::TcpListener;
use std::sync::Arc;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use rustls::ServerConfig;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::TlsAcceptor;

/// The flag with which this program is the bare server: then the chain, the key and the port follow by position.
pub(crate) const BARE_SERVER: &str = "--bare-server";

const ANSWER: &[u8] = br#"{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","response":{"uid":"705ab4f5-6393-11e8-b7cc-42010a800002","allowed":true}}"#;

pub(crate) fn serve_bare() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().collect();
    let [chain, key, port] = &arguments[arguments.len() - 3..] else { anyhow::bail!("chain, key and port") };
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let chain = CertificateDer::pem_file_iter(chain)?.collect::<Result<Vec<_>, _>>()?;
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(chain, PrivateKeyDer::from_pem_file(key)?)?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind(format!("127.0.0.1:{port}"))?;
    listener.set_nonblocking(true)?;

    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    runtime.block_on(async {
        let listener = tokio::net::TcpListener::from_std(listener)?;
        loop {
            let (stream, _) = listener.accept().await?;
            stream.set_nodelay(true)?;
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                let Ok(stream) = acceptor.accept(stream).await else {
                    return;
                };
                let http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
                let io = TokioIo::new(stream);
                let service = service_fn(|request: Request<Incoming>| async {
                    let _ = request.into_body().collect().await;
                    let mut response = Response::new(Full::new(Bytes::from_static(ANSWER)));
                    let json = hyper::header::HeaderValue::from_static("application/json");
                    response.headers_mut().insert(hyper::header::CONTENT_TYPE, json);
                    Ok::<_, Infallible>(response)
                });
                if http2 {
                    let mut builder = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
                    let _ = builder.timer(TokioTimer::new()).serve_connection(io, service).await;
                } else {
                    let mut builder = hyper::server::conn::http1::Builder::new();
                    let _ = builder.timer(TokioTimer::new()).serve_connection(io, service).await;
                }
            });
        }
    })
}
