//! Writ's own certificates: made, stored, renewed and trusted without anybody's help.
//!
//! A [`Keeper`] runs in every replica and needs no leader: the state is one Secret, each step is a write that only one
//! replica can win, and `rotation` decides the next step from what is stored. What it serves and whether API servers
//! trust that is published as a [`Report`].

mod issue;
mod rotation;
mod stored;

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube::api::PostParams;
use kube::{Api, Client};
use tokio::sync::watch;
use tokio::time::sleep;
use tracing::{debug, info, warn};

pub use issue::Unit;

use super::ClusterError;
use super::configurations::{self, Change, Target, Wanted};
use super::upkeep::{Changes, RESYNC, SETTLE, call, configuration_changes, drain, retry_pause, secret_changes};
use issue::UnitError;
use rotation::{Step, next_step};
use stored::{Renewal, Stored};

/// What the keeper must know.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where the Secret and the Service are.
    pub namespace: String,
    pub secret: String,
    /// The Service that webhook configurations call.
    pub service: String,
    /// The names of the webhook configurations to keep, validating and mutating ones.
    pub configurations: Vec<String>,
    pub lifetime: Duration,
    /// How long API servers and replicas get to see a change before the next one relies on it.
    pub grace: Duration,
}

/// Where things stand.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// The pair to serve.
    pub unit: Option<Arc<Unit>>,
    /// The authorities to put into new webhook configurations.
    pub bundle: String,
    /// Why API servers would not trust the pair, or why there is none yet.
    pub trouble: Option<String>,
    /// Attempts that failed so far.
    pub failures: u64,
}

/// Keeps the certificates of one install.
pub struct Keeper {
    client: Client,
    settings: Settings,
    names: Vec<String>,
    target: Target,
    /// The last state that was read, in case somebody deletes the Secret.
    known: Option<Stored>,
    report: watch::Sender<Report>,
}

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeeperError {
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    #[error(transparent)]
    Unit(#[from] UnitError),
}

impl Keeper {
    pub fn new(client: Client, settings: Settings) -> (Self, watch::Receiver<Report>) {
        let Settings { namespace, service, configurations, .. } = &settings;
        let names = vec![
            format!("{service}.{namespace}.svc"),
            format!("{service}.{namespace}.svc.cluster.local"),
            "localhost".to_owned(),
        ];
        let target =
            Target { configurations: configurations.clone(), namespace: namespace.clone(), service: service.clone() };
        let starting = Report { trouble: Some("no certificate yet".to_owned()), ..Report::default() };
        let (report, receiver) = watch::channel(starting);
        (Self { client, settings, names, target, known: None, report }, receiver)
    }

    /// Works until it is dropped.
    pub async fn run(mut self) {
        let mut changes = self.changes();
        let mut failures = 0_u32;
        loop {
            let pause = match self.reconcile().await {
                Ok(pause) => {
                    failures = 0;
                    pause
                }
                Err(error) => {
                    let pause = retry_pause(failures);
                    failures += 1;
                    self.complain(&error, pause);
                    pause
                }
            };
            tokio::select! {
                () = sleep(pause) => {}
                // The streams retry for ever; should they end nevertheless, the pause still wakes us.
                Some(()) = changes.next(), if failures == 0 => drain(&mut changes),
            }
        }
    }

    /// Whatever may have changed what this keeper looks at.
    fn changes(&self) -> Changes {
        let Settings { namespace, secret, .. } = &self.settings;
        let mut changes = self.configuration_changes();
        changes.push(secret_changes(&self.client, namespace, secret));
        changes
    }

    fn configuration_changes(&self) -> Changes {
        configuration_changes(&self.client, &self.settings.configurations)
    }

    /// Goes as many steps as can be gone now; gives how long there is nothing to do.
    async fn reconcile(&mut self) -> Result<Duration, KeeperError> {
        loop {
            let (found, stored) = self.load().await?;
            let trust = match &stored {
                Some(stored) => {
                    configurations::ensure(&self.client, &self.target, Wanted::Bundle(&stored.bundle())).await
                }
                None => Ok(Change::None),
            };
            if let Some(stored) = &stored {
                let settling = matches!(trust, Ok(Change::Written)) && self.report.borrow().trouble.is_some();
                if settling {
                    self.publish(stored, Some("API servers have yet to see the new CA bundle".to_owned()));
                    sleep(SETTLE).await;
                }
                self.publish(stored, trust.as_ref().err().map(distrust));
            }
            let now = Timestamp::now();
            let progress = stored.as_ref().map(Stored::progress);
            let step = next_step(progress, trust.is_ok(), now, self.settings.grace);
            let changed = match (step, stored) {
                (Step::Wait { until }, _) => {
                    trust?;
                    let pause = Duration::try_from(until.duration_since(now)).unwrap_or_default();
                    return Ok(pause.min(RESYNC));
                }
                (step, stored) => self.advance(step, stored, now)?,
            };
            info!(?step, "Certificates move on");
            self.store(found, &changed).await?;
        }
    }

    /// The Secret as it is, and what it says if that can be used.
    async fn load(&mut self) -> Result<(Secret, Option<Stored>), KeeperError> {
        let Settings { namespace, secret, .. } = &self.settings;
        let api = Api::<Secret>::namespaced(self.client.clone(), namespace);
        let resource = format!("secrets/{namespace}/{secret}");
        loop {
            let found = call("get", &resource, api.get_opt(secret)).await?;
            let found = found.ok_or_else(|| ClusterError::NotInstalled { resource: resource.clone() })?;
            let empty = found.data.as_ref().is_none_or(|data| data.is_empty());
            let known = self.known.as_ref().filter(|known| known.current.validity.until > Timestamp::now());
            match (Stored::read(&found, &self.names), known) {
                (Ok(stored), _) => {
                    self.known = Some(stored.clone());
                    return Ok((found, Some(stored)));
                }
                // Deleted and shipped anew: what is served and trusted is written back rather than exchanged in a hurry. Until
                // that has succeeded it is known here alone.
                (Err(_), Some(known)) if empty => {
                    warn!(%resource, "Secret was emptied, writing it back");
                    self.store(found, known).await?;
                }
                (Err(_), None) if empty => return Ok((found, None)),
                (Err(error), _) => {
                    warn!(%resource, %error, "Secret cannot be used, making new certificates");
                    return Ok((found, None));
                }
            }
        }
    }

    /// The state after a step.
    fn advance(&self, step: Step, stored: Option<Stored>, now: Timestamp) -> Result<Stored, KeeperError> {
        let issue = || Unit::issue(&self.names, now, self.settings.lifetime);
        let next = match (step, stored) {
            (Step::Announce, Some(Stored { current, .. })) => {
                Stored { current, renewal: Renewal::Announced { next: issue()?, trusted_since: None } }
            }
            (Step::MarkTrusted, Some(Stored { current, renewal: Renewal::Announced { next, .. } })) => {
                Stored { current, renewal: Renewal::Announced { next, trusted_since: Some(now) } }
            }
            (Step::Switch, Some(Stored { current, renewal: Renewal::Announced { next, .. } })) => {
                Stored { current: next, renewal: Renewal::Switched { previous: current.authority, since: now } }
            }
            (Step::Retire, Some(Stored { current, .. })) => Stored { current, renewal: Renewal::None },
            _ => Stored { current: issue()?, renewal: Renewal::None },
        };
        Ok(next)
    }

    /// The resource version in what was found makes this a write that only one replica can win.
    async fn store(&self, mut found: Secret, stored: &Stored) -> Result<(), ClusterError> {
        let Settings { namespace, secret, .. } = &self.settings;
        let api = Api::<Secret>::namespaced(self.client.clone(), namespace);
        let resource = format!("secrets/{namespace}/{secret}");
        let params = PostParams { field_manager: Some("writ".to_owned()), ..PostParams::default() };
        stored.write(&mut found);
        match call("update", &resource, api.replace(secret, &params, &found)).await {
            // Another replica was faster: what it wrote is read next.
            Err(error) if error.is_lost_race() => debug!("Another replica wrote the certificates first"),
            other => drop(other?),
        }
        Ok(())
    }

    fn publish(&self, stored: &Stored, trouble: Option<String>) {
        self.report.send_if_modified(|report| {
            let bundle = stored.bundle();
            let same =
                report.unit.as_deref() == Some(&stored.current) && report.bundle == bundle && report.trouble == trouble;
            if report.unit.as_deref() != Some(&stored.current) {
                report.unit = Some(Arc::new(stored.current.clone()));
            }
            report.bundle = bundle;
            report.trouble = trouble;
            !same
        });
    }

    fn complain(&self, error: &KeeperError, pause: Duration) {
        if let KeeperError::Cluster(lost) = error
            && lost.is_lost_race()
        {
            debug!(%error, "Trying again");
            return;
        }
        warn!(%error, retry_in_ms = pause.as_millis(), "Certificates not settled");
        self.report.send_modify(|report| {
            report.failures += 1;
            // Once a pair is served and trusted, an API server that is away for a while takes nothing from that.
            if report.unit.is_none() {
                report.trouble = Some(error.to_string());
            }
        });
    }
}

/// Keeps somebody else's authority in the webhook configurations: the pair comes from files.
pub struct FixedBundle {
    keeper: Keeper,
    bundle: watch::Receiver<Option<String>>,
}

impl FixedBundle {
    /// Nothing is written while there is no bundle.
    pub fn new(client: Client, settings: Settings, bundle: watch::Receiver<Option<String>>) -> Self {
        let keeper = Keeper::new(client, settings).0;
        Self { keeper, bundle }
    }

    /// Works until it is dropped; tells after each look why API servers would not know the bundle.
    pub async fn run(self, told: impl Fn(Option<String>)) {
        let Self { keeper, mut bundle } = self;
        let mut changes = keeper.configuration_changes();
        let mut failures = 0_u32;
        loop {
            let Some(wanted) = bundle.borrow_and_update().clone() else {
                if bundle.changed().await.is_err() {
                    return;
                }
                continue;
            };
            let pause = match configurations::ensure(&keeper.client, &keeper.target, Wanted::Bundle(&wanted)).await {
                Ok(_) => {
                    failures = 0;
                    told(None);
                    RESYNC
                }
                Err(error) => {
                    let pause = retry_pause(failures);
                    failures += 1;
                    warn!(%error, retry_in_ms = pause.as_millis(), "CA bundle not settled");
                    told(Some(distrust(&error)));
                    pause
                }
            };
            tokio::select! {
                () = sleep(pause) => {}
                Ok(()) = bundle.changed() => {}
                Some(()) = changes.next(), if failures == 0 => drain(&mut changes),
            }
        }
    }
}

fn distrust(error: &ClusterError) -> String {
    format!("API servers may not trust the certificate: {error}")
}
