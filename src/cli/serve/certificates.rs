//! Where the serving certificate comes from: files, or the keeper in the cluster. Either way it ends in the resolver, in a
//! metric and in a readiness condition.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use kube::Client;
use tokio::sync::watch;
use tracing::{error, info};

use super::{CertificateArgs, ClusterArgs};
use crate::cluster::certificates::{FixedBundle, Keeper, Report, Settings};
use crate::cluster::connect;
use crate::server::{Certificates, Pair, PairFiles};
use crate::telemetry::{Condition, Metrics};

/// The ways to a certificate.
pub(super) enum Source {
    Files {
        files: PairFiles,
        interval: Duration,
        bundle: Option<FixedBundle>,
    },
    Keeper {
        keeper: Box<Keeper>,
        reports: watch::Receiver<Report>,
    },
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
}

impl Source {
    /// Reads files and configuration; what is wrong with them shows here, before anything runs.
    pub(super) async fn open(args: CertificateArgs, cluster: ClusterArgs, sink: &Sink) -> anyhow::Result<Self> {
        let ClusterArgs {
            offline,
            kubeconfig,
            context,
            namespace,
            service,
            webhook_configuration,
        } = cluster;
        let client = match offline {
            true => None,
            false => Some(connect(kubeconfig.as_deref(), context.as_deref()).await?),
        };
        let settings = Settings {
            namespace,
            service,
            configurations: webhook_configuration,
            secret: args.cert_secret,
            lifetime: args.cert_lifetime,
            grace: args
                .cert_grace
                .unwrap_or_else(|| (args.cert_lifetime / 24).min(Duration::from_secs(60 * 60))),
        };
        match (args.tls_cert_file.zip(args.tls_key_file), client) {
            (Some((chain, key)), client) => {
                let (files, pair) = PairFiles::open(chain, key).await?;
                sink.serve(&pair);
                let bundle = fixed_bundle(args.tls_ca_file, client, settings).await?;
                Ok(Self::Files {
                    files,
                    interval: args.tls_reload_interval,
                    bundle,
                })
            }
            (None, Some(client)) => {
                let (keeper, reports) = Keeper::new(client, settings);
                Ok(Self::Keeper {
                    keeper: Box::new(keeper),
                    reports,
                })
            }
            (None, None) => anyhow::bail!("--offline needs --tls-cert-file and --tls-key-file"),
        }
    }

    /// Follows the source for ever.
    pub(super) async fn follow(self, sink: Sink) {
        match self {
            Self::Files {
                files,
                interval,
                bundle,
            } => {
                let following = files.follow(interval, |pair| sink.serve(&pair));
                match bundle {
                    None => {
                        sink.condition.holds();
                        following.await;
                    }
                    Some(bundle) => {
                        let told = |trouble: Option<String>| match trouble {
                            None => sink.condition.holds(),
                            Some(trouble) => {
                                sink.metrics.certificate_error();
                                sink.condition.fails(trouble);
                            }
                        };
                        tokio::join!(following, bundle.run(told));
                    }
                }
            }
            Self::Keeper { keeper, reports } => {
                tokio::join!(keeper.run(), follow_reports(reports, sink));
            }
        }
    }
}

async fn fixed_bundle(
    file: Option<PathBuf>,
    client: Option<Client>,
    settings: Settings,
) -> anyhow::Result<Option<FixedBundle>> {
    let (Some(file), Some(client)) = (file, client) else {
        return Ok(None);
    };
    let bundle = tokio::fs::read_to_string(&file)
        .await
        .with_context(|| format!("reading {}", file.display()))?;
    Ok(Some(FixedBundle::new(client, settings, bundle)))
}

async fn follow_reports(mut reports: watch::Receiver<Report>, sink: Sink) {
    let mut served = None;
    let mut failures = 0;
    loop {
        let Report {
            unit,
            trouble,
            failures: failed,
            ..
        } = reports.borrow_and_update().clone();
        (failures..failed).for_each(|_| sink.metrics.certificate_error());
        failures = failed;
        let mut trouble = trouble;
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
        match trouble {
            None => sink.condition.holds(),
            Some(trouble) => sink.condition.fails(trouble),
        }
        if reports.changed().await.is_err() {
            return;
        }
    }
}
