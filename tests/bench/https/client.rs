//! The load: kept-alive connections that ask as fast as they are answered, or at a given pace.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::Request;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, ServerName};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::process::TestFiles;

const CONNECTIONS: u32 = 16;
const STREAMS_PER_CONNECTION: u32 = 4;

#[derive(Clone, Copy)]
pub(super) enum Protocol {
    Http1,
    Http2,
}

pub(super) struct Load<'a> {
    pub(super) port: u16,
    pub(super) protocol: Protocol,
    pub(super) body: &'a [u8],
    pub(super) files: &'a TestFiles,
}

/// What one round gave.
pub(super) struct Sample {
    pub(super) requests: u32,
    pub(super) per_second: f64,
    pub(super) p50_ms: f64,
    pub(super) p99_ms: f64,
}

impl Protocol {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Http1 => "http/1.1",
            Self::Http2 => "h2",
        }
    }
}

impl Load<'_> {
    /// As much as the server takes.
    pub(super) async fn saturate(&self, time: Duration) -> anyhow::Result<Sample> {
        self.run(None, time).await
    }

    /// So many requests per second, whatever the answers take.
    pub(super) async fn pace(&self, per_second: u32, time: Duration) -> anyhow::Result<Sample> {
        self.run(Some(Duration::from_secs(1) * CONNECTIONS / per_second), time).await
    }

    async fn run(&self, pause: Option<Duration>, time: Duration) -> anyhow::Result<Sample> {
        let mut callers = JoinSet::new();
        let body = Bytes::copy_from_slice(self.body);
        let mut streams = Vec::new();
        for _ in
            0..if matches!(self.protocol, Protocol::Http1) { CONNECTIONS } else { CONNECTIONS / STREAMS_PER_CONNECTION }
        {
            streams.push(self.connect().await?);
        }
        // A client that sleeps must be woken, and the kernel charges that to whoever answers: the faster server finds it awake,
        // the slower one pays. So it never sleeps.
        let awake = tokio::spawn(async {
            loop {
                tokio::task::yield_now().await;
            }
        });
        let (started, until) = (Instant::now(), Instant::now() + time);
        for stream in streams {
            match self.protocol {
                Protocol::Http1 => {
                    let text = request_text(&body);
                    callers.spawn(async move { call_http1(stream, &text, pause, until).await });
                }
                Protocol::Http2 => {
                    let (sender, connection) =
                        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await?;
                    callers.spawn(async move { connection.await.map(|()| Vec::new()).map_err(Into::into) });
                    for _ in 0..STREAMS_PER_CONNECTION {
                        let (sender, body) = (sender.clone(), body.clone());
                        callers.spawn(async move { call_http2(sender, body, until).await });
                    }
                }
            }
        }
        let mut times = Vec::new();
        while let Some(caller) = callers.join_next().await {
            times.extend(caller??);
        }
        let elapsed = started.elapsed().as_secs_f64();
        awake.abort();
        times.sort_unstable();
        let at = |share: f64| times.get((times.len() as f64 * share) as usize).map_or(0.0, |it| it.as_secs_f64() * 1e3);
        Ok(Sample {
            requests: u32::try_from(times.len())?,
            per_second: times.len() as f64 / elapsed,
            p50_ms: at(0.5),
            p99_ms: at(0.99),
        })
    }

    async fn connect(&self) -> anyhow::Result<TlsStream<TcpStream>> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(self.files.authority.as_bytes())?)?;
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = vec![self.protocol.name().as_bytes().to_vec()];
        let stream = TcpStream::connect(("127.0.0.1", self.port)).await?;
        stream.set_nodelay(true)?;
        let connector = TlsConnector::from(Arc::new(config));
        connector.connect(ServerName::try_from("localhost")?, stream).await.context("connecting")
    }
}

fn request_text(body: &[u8]) -> Vec<u8> {
    let head = format!(
        "POST /validate?timeout=5s HTTP/1.1\r\nhost: localhost\r\nuser-agent: bench\r\naccept: application/json\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    [head.as_bytes(), body].concat()
}

async fn call_http1(
    mut stream: TlsStream<TcpStream>,
    text: &[u8],
    pause: Option<Duration>,
    until: Instant,
) -> anyhow::Result<Vec<Duration>> {
    let mut ticks = pause.map(interval);
    if let Some(ticks) = &mut ticks {
        ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
    }
    let mut times = Vec::new();
    let mut answer = vec![0; 16 << 10];
    while Instant::now() < until {
        // In a paced run the time counts from when the request was due.
        let due = match &mut ticks {
            Some(ticks) => ticks.tick().await.into_std(),
            None => Instant::now(),
        };
        stream.write_all(text).await?;
        stream.flush().await?;
        read_answer(&mut stream, &mut answer).await?;
        times.push(due.elapsed());
    }
    Ok(times)
}

/// Reads until the content length is there. The answers of both servers are one small record.
async fn read_answer(stream: &mut TlsStream<TcpStream>, buffer: &mut [u8]) -> anyhow::Result<()> {
    let mut filled = 0;
    loop {
        let read = stream.read(&mut buffer[filled..]).await?;
        if read == 0 {
            bail!("the server closed the connection");
        }
        filled += read;
        let Some(head) = buffer[..filled].windows(4).position(|window| window == b"\r\n\r\n") else {
            continue;
        };
        let text = std::str::from_utf8(&buffer[..head])?;
        if !text.starts_with("HTTP/1.1 200") {
            bail!("{text}");
        }
        let length = text.lines().find_map(|line| line.strip_prefix("content-length: ")).context("no length")?;
        let whole = head + 4 + length.parse::<usize>()?;
        if filled >= whole {
            return Ok(());
        }
    }
}

async fn call_http2(
    mut sender: hyper::client::conn::http2::SendRequest<Full<Bytes>>,
    body: Bytes,
    until: Instant,
) -> anyhow::Result<Vec<Duration>> {
    let mut times = Vec::new();
    while Instant::now() < until {
        let started = Instant::now();
        let request = Request::post("https://localhost/validate?timeout=5s")
            .header("content-type", "application/json")
            .body(Full::new(body.clone()))?;
        let response = sender.send_request(request).await?;
        if response.status() != 200 {
            bail!("{}", response.status());
        }
        response.into_body().collect().await?;
        times.push(started.elapsed());
    }
    Ok(times)
}
