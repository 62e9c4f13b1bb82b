//! Where the serving certificate comes from: files, or the keeper in the cluster. Either way it ends in the resolver, in a
//! metric and in a readiness condition.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use jiff::Timestamp;
use kube::Client;
use tokio::sync::watch;
use tokio::time::sleep;
use tracing::{error, info, warn};

use super::CertificateArgs;
use crate::cluster::certificates::{FixedBundle, Keeper, Report, Settings};
use crate::server::{Certificates, Pair, PairFiles};
use crate::telemetry::{Condition, Health, Metrics};

/// The ways to a certificate.
pub(super) enum Source {
    Files { files: PairFiles, interval: Duration, authority: Option<Box<Authority>> },
    Keeper { keeper: Box<Keeper>, reports: watch::Receiver<Report> },
}

/// Where Writ is installed.
#[derive(Clone)]
pub(super) struct Place {
    pub namespace: String,
    pub service: String,
    pub webhook_configuration: Vec<String>,
}

/// The file of the authority behind the pair's files, and who writes it into the webhook configurations, if there is a
/// cluster.
pub(super) struct Authority {
    file: PathBuf,
    condition: Condition,
    /// The last one that vouched for the pair.
    bundle: watch::Sender<Option<String>>,
    keeper: Option<FixedBundle>,
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
        health: &Health,
    ) -> anyhow::Result<Self> {
        let grace = args.grace()?;
        let Place { namespace, service, webhook_configuration } = place;
        let settings = Settings {
            namespace,
            service,
            configurations: webhook_configuration,
            secret: args.cert_secret,
            lifetime: args.cert_lifetime,
            grace,
        };
        match (args.tls_cert_file.zip(args.tls_key_file), client) {
            (Some((chain, key)), client) => {
                let (files, pair) = PairFiles::open(chain, key).await?;
                sink.serve(&pair);
                if let Some(file) = &args.tls_ca_file {
                    tokio::fs::read(file).await.with_context(|| format!("reading {}", file.display()))?;
                }
                let authority = args.tls_ca_file.map(|file| {
                    let condition = health.condition("authority", "not read yet");
                    let (bundle, wanted) = watch::channel(None);
                    let keeper = client.map(|client| FixedBundle::new(client, settings, wanted));
                    Box::new(Authority { file, condition, bundle, keeper })
                });
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
                let Authority { file, condition, bundle, keeper } = *authority;
                let told = |trouble: Option<String>| {
                    if trouble.is_some() {
                        sink.metrics.certificate_error();
                    }
                    sink.settle(trouble);
                };
                let keeping = async {
                    match keeper {
                        Some(keeper) => keeper.run(told).await,
                        None => sink.settle(None),
                    }
                };
                tokio::join!(
                    files.follow(interval, |pair| sink.serve(&pair)),
                    follow_authority(&file, interval, &bundle, &sink, &condition),
                    keeping,
                );
            }
            Self::Keeper { keeper, reports } => {
                tokio::join!(keeper.run(), follow_reports(reports, sink));
            }
        }
    }
}

/// Looks again and again whether the authority's file vouches for the pair in use, and hands it on if it does. One that is
/// gone, spoiled or a stranger's changes nothing as long as the last good one will do.
async fn follow_authority(
    file: &Path,
    interval: Duration,
    bundle: &watch::Sender<Option<String>>,
    sink: &Sink,
    condition: &Condition,
) {
    let vouches = |text: &str| {
        let judged = sink.certificates.vouched_for(text.as_bytes(), Timestamp::now().as_second());
        judged.map_err(|error| format!("{}: {error}", file.display()))
    };
    let mut told = None;
    loop {
        let found = tokio::fs::read_to_string(file).await.map_err(|error| format!("{}: {error}", file.display()));
        let trouble = match found.and_then(|text| vouches(&text).map(|()| text)) {
            Ok(text) => {
                bundle.send_if_modified(|known| known.replace(text).as_ref() != known.as_ref());
                None
            }
            Err(trouble) => Some(trouble),
        };
        match &trouble {
            Some(trouble) if bundle.borrow().as_deref().is_none_or(|known| vouches(known).is_err()) => {
                condition.fails(trouble);
            }
            _ => condition.holds(),
        }
        if trouble != told {
            if let Some(error) = &trouble {
                warn!(error, "The authority's file does not vouch for the certificate");
                sink.metrics.certificate_error();
            }
            told = trouble;
        }
        sleep(interval).await;
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
