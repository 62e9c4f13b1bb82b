//! Accepting connections, from the first to the last drained one.
//!
//! Whoever reached the listener gets an answer: connections above the limit wait and are then told so, and a stop
//! finishes what has begun.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use tokio::net::TcpListener;
use tokio::task::{JoinError, JoinSet};
use tokio::time::{sleep, timeout};
use tracing::{error, warn};

use super::connection::Shared;
use super::peers::Peers;
use super::tls::Tls;
use super::{Drain, Handler, Limits, Observer};

/// A listener that has its port and waits to be told what to do with it.
#[derive(Debug)]
pub struct Bound {
    listener: TcpListener,
    address: SocketAddr,
}

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServerError {
    #[error("cannot listen on {address}: {source}")]
    Bind { address: SocketAddr, source: std::io::Error },
}

impl Bound {
    pub async fn bind(address: SocketAddr) -> Result<Self, ServerError> {
        let listening = async {
            let listener = match TcpListener::bind(address).await {
                // `[::]` means every address; a host without IPv6 has only the others.
                Err(_) if address.ip() == Ipv6Addr::UNSPECIFIED => {
                    TcpListener::bind((Ipv4Addr::UNSPECIFIED, address.port())).await
                }
                other => other,
            }?;
            let address = listener.local_addr()?;
            Ok(Self { listener, address })
        };
        listening.await.map_err(|source| ServerError::Bind { address, source })
    }

    /// The address in use, with the port that the system chose if it was asked to.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until `drain` says stop, then finishes what is in flight, within the limits. Without `tls` it speaks plain
    /// HTTP/1.1.
    pub async fn serve<H: Handler, O: Observer>(
        self,
        tls: Option<Arc<Tls>>,
        handler: H,
        limits: Limits,
        observer: O,
        mut drain: Drain,
    ) {
        let drain_time = limits.drain_time;
        // Those above the limit of connections come in too, but only to be told that the server is busy.
        let peers = Arc::new(Peers::new(&limits));
        let acceptor = || tls.as_deref().map(Tls::acceptor);
        let shared = Arc::new(Shared::new(handler, limits, observer, drain.clone()));
        let mut connections = JoinSet::new();
        let mut stopping = pin!(drain.stopping());
        loop {
            let arrival = async {
                peers.vacancy().await;
                self.listener.accept().await
            };
            let accepted = tokio::select! {
                biased;
                () = &mut stopping => break,
                Some(ended) = connections.join_next(), if !connections.is_empty() => {
                    report_end(ended);
                    continue;
                }
                arrival = arrival => arrival,
            };
            match accepted {
                Ok((stream, address)) => match peers.admit(address.ip()) {
                    Some(peer) => drop(connections.spawn(shared.clone().converse(stream, acceptor(), peer))),
                    None => shared.drop_connection(stream),
                },
                Err(error) => {
                    // Out of file descriptors, most likely. Those who wait outside are served when some are free again.
                    warn!(%error, "Accepting a connection failed");
                    sleep(Duration::from_millis(50)).await;
                }
            }
        }
        // A client whose connection the kernel has completed believes itself accepted.
        while let Some(Ok((stream, address))) = self.listener.accept().now_or_never() {
            if let Some(peer) = peers.admit(address.ip()) {
                connections.spawn(shared.clone().converse(stream, acceptor(), peer));
            }
        }
        drop(self.listener);
        finish(connections, drain_time).await;
    }
}

async fn finish(mut connections: JoinSet<()>, time: Duration) {
    let all = async {
        while let Some(ended) = connections.join_next().await {
            report_end(ended);
        }
    };
    if timeout(time, all).await.is_err() {
        let connections_left = connections.len();
        warn!(connections_left, "Connections were still busy at the end of the drain");
        connections.shutdown().await;
    }
}

fn report_end(ended: Result<(), JoinError>) {
    if let Err(error) = ended
        && error.is_panic()
    {
        error!(%error, "A connection task panicked");
    }
}
