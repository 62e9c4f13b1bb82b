//! Where the serving certificate comes from: files, or the keeper in the cluster. Either way it ends in the resolver, in a
//! metric and in a readiness condition.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use kube::Client;
use tokio::sync::watch;
use tokio::time::sleep;
use tracing::{error, info, warn};

use super::CertificateArgs;
use crate::cluster::certificates::{FixedBundle, Keeper, Report, Settings};
use crate::server::{Certificates, Pair, PairFiles};
use crate::telemetry::{Condition, Metrics};

/// The ways to a certificate.
pub(super) enum Source {
    Files { files: PairFiles, interval: Duration, authority: Option<Box<Authority>> },
    Keeper { keeper: Box<Keeper>, reports: watch::Receiver<Report> },
}

/// Where Writ is installed.
pub(super) struct Place {
    pub namespace: String,
    pub service: String,
    pub webhook_configuration: Vec<String>,
}

/// The file of the authority behind the pair's files, and who writes it into the webhook configurations.
pub(super) struct Authority {
    file: PathBuf,
    bundle: watch::Sender<String>,
    keeper: FixedBundle,
}

/// Where a new certificate is put to use.
#[derive(Clone)]
pub(super) struct Sink {
    pub certificates: Arc<Certificates>,
    pub metrics: Metrics,
    pub condition: Condition,
    /// Turns true with the first certificate.
    pub serving: watch::Sender<bool>,
}

impl Sink {
    fn serve(&self, pair: &Pair) {
        self.certificates.serve(pair);
        self.metrics.certificate(pair.expires());
        self.serving.send_replace(true);
    }

    fn settle(&self, trouble: Option<String>) {
        match trouble {
            None => self.condition.holds(),
            Some(trouble) => self.condition.fails(trouble),
        }
    }
}

impl Source {
    /// Reads files and configuration; what is wrong with them shows here, before anything runs.
    pub(super) async fn open(
        args: CertificateArgs,
        place: Place,
        client: Option<Client>,
        sink: &Sink,
    ) -> anyhow::Result<Self> {
        let Place { namespace, service, webhook_configuration } = place;
        let default_grace = (args.cert_lifetime / 24).min(Duration::from_secs(60 * 60));
        let settings = Settings {
            namespace,
            service,
            configurations: webhook_configuration,
            secret: args.cert_secret,
            lifetime: args.cert_lifetime,
            grace: args.cert_grace.unwrap_or(default_grace),
        };
        match (args.tls_cert_file.zip(args.tls_key_file), client) {
            (Some((chain, key)), client) => {
                let (files, pair) = PairFiles::open(chain, key).await?;
                sink.serve(&pair);
                let mut authority = None;
                if let (Some(file), Some(client)) = (args.tls_ca_file, client) {
                    let text = tokio::fs::read_to_string(&file).await;
                    let text = text.with_context(|| format!("reading {}", file.display()))?;
                    let (bundle, wanted) = watch::channel(text);
                    let keeper = FixedBundle::new(client, settings, wanted);
                    authority = Some(Box::new(Authority { file, bundle, keeper }));
                }
                let interval = args.tls_reload_interval;
                Ok(Self::Files { files, interval, authority })
            }
            (None, Some(client)) => {
                let (keeper, reports) = Keeper::new(client, settings);
                let keeper = Box::new(keeper);
                Ok(Self::Keeper { keeper, reports })
            }
            (None, None) => anyhow::bail!("--offline needs --tls-cert-file and --tls-key-file"),
        }
    }

    /// Follows the source for ever.
    pub(super) async fn follow(self, sink: Sink) {
        match self {
            Self::Files { files, interval, authority: None } => {
                sink.settle(None);
                files.follow(interval, |pair| sink.serve(&pair)).await;
            }
            Self::Files { files, interval, authority: Some(authority) } => {
                let Authority { file, bundle, keeper } = *authority;
                let told = |trouble: Option<String>| {
                    if trouble.is_some() {
                        sink.metrics.certificate_error();
                    }
                    sink.settle(trouble);
                };
                tokio::join!(
                    files.follow(interval, |pair| sink.serve(&pair)),
                    follow_authority(file, interval, bundle),
                    keeper.run(told),
                );
            }
            Self::Keeper { keeper, reports } => {
                tokio::join!(keeper.run(), follow_reports(reports, sink));
            }
        }
    }
}

/// Reads the authority's file again and again. One that is gone or empty changes nothing.
async fn follow_authority(file: PathBuf, interval: Duration, bundle: watch::Sender<String>) {
    loop {
        sleep(interval).await;
        match tokio::fs::read_to_string(&file).await {
            Ok(text) if text.trim().is_empty() => warn!(file = %file.display(), "The authority's file is empty"),
            Ok(text) => {
                bundle.send_if_modified(|known| {
                    let changed = *known != text;
                    *known = text;
                    changed
                });
            }
            Err(error) => warn!(file = %file.display(), %error, "The authority's file cannot be read"),
        }
    }
}

async fn follow_reports(mut reports: watch::Receiver<Report>, sink: Sink) {
    let mut served = None;
    let mut counted = 0;
    loop {
        let Report { unit, mut trouble, failures, .. } = reports.borrow_and_update().clone();
        (counted..failures).for_each(|_| sink.metrics.certificate_error());
        counted = failures;
        if let Some(unit) = unit.filter(|unit| served.as_ref() != Some(unit)) {
            match Pair::from_pem(unit.chain.as_bytes(), unit.key.as_bytes()) {
                Ok(pair) => {
                    info!(expires = pair.expires(), "Serving another certificate");
                    sink.serve(&pair);
                    served = Some(unit);
                }
                Err(error) => {
                    error!(%error, "The stored certificate cannot be served");
                    trouble = Some(error.to_string());
                }
            }
        }
        sink.settle(trouble);
        if reports.changed().await.is_err() {
            return;
        }
    }
}
