//! Writ's own certificates: made, stored, renewed and trusted without anybody's help.
//!
//! A [`Keeper`] runs in every replica and needs no leader: the state is one Secret, each step is a write that only one
//! replica can win, and `rotation` decides the next step from what is stored. What it serves and whether API servers
//! trust that is published as a [`Report`].

mod bundle;
mod issue;
mod rotation;
mod stored;

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::stream::{self, StreamExt};
use jiff::Timestamp;
use k8s_openapi::api::admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration};
use k8s_openapi::api::core::v1::Secret;
use kube::api::PostParams;
use kube::core::PartialObjectMeta;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use tracing::{debug, info, warn};

pub use issue::Unit;

use super::ClusterError;
use bundle::{Change, Configuration, Target};
use issue::UnitError;
use rotation::{Step, next_step};
use stored::{Renewal, Stored};

/// No single call may hold up the others for longer.
const CALL_TIME: Duration = Duration::from_secs(15);
/// Everything is compared anew at least this often, whatever the watches say.
const RESYNC: Duration = Duration::from_secs(300);
/// What an API server takes to notice a changed webhook configuration: ready means that the first call succeeds.
const SETTLE: Duration = Duration::from_millis(500);
const FIRST_RETRY: Duration = Duration::from_millis(250);
const LAST_RETRY: Duration = Duration::from_secs(30);

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

/// Says when something may have changed.
type Changes = stream::SelectAll<stream::BoxStream<'static, ()>>;

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
        let secrets = Api::namespaced(self.client.clone(), namespace);
        let mut changes = self.configuration_changes();
        changes.push(touches::<Secret>("secrets", secret, secrets));
        changes
    }

    fn configuration_changes(&self) -> Changes {
        let names = &self.settings.configurations;
        let validating = names.iter().map(|name| self.touches::<ValidatingWebhookConfiguration>(name));
        let mutating = names.iter().map(|name| self.touches::<MutatingWebhookConfiguration>(name));
        stream::select_all(validating.chain(mutating))
    }

    fn touches<C: Configuration + 'static>(&self, name: &str) -> stream::BoxStream<'static, ()> {
        touches::<C>(C::PLURAL, name, Api::all(self.client.clone()))
    }

    /// Goes as many steps as can be gone now; gives how long there is nothing to do.
    async fn reconcile(&mut self) -> Result<Duration, KeeperError> {
        loop {
            let (found, stored) = self.load().await?;
            let trust = match &stored {
                Some(stored) => bundle::ensure(&self.client, &self.target, &stored.bundle()).await,
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
            match self.store(found, &changed).await {
                // Another replica was faster: what it wrote is read next.
                Err(error) if error.is_lost_race() => debug!("Another replica moved on first"),
                other => other?,
            }
        }
    }

    /// The Secret as it is, and what it says if that can be used.
    async fn load(&mut self) -> Result<(Option<Secret>, Option<Stored>), KeeperError> {
        let Settings { namespace, secret, .. } = &self.settings;
        let api = Api::<Secret>::namespaced(self.client.clone(), namespace);
        let resource = format!("secrets/{namespace}/{secret}");
        let mut found = call("get", &resource, api.get_opt(secret)).await?;
        let now = Timestamp::now();
        if found.is_none()
            && let Some(known) = self.known.as_ref().filter(|known| known.current.validity.until > now)
        {
            // Deleted under us: what is served and trusted is written back rather than exchanged in a hurry. Until that has
            // succeeded it is known here alone.
            warn!(%resource, "Secret is gone, writing it back");
            match self.store(None, known).await {
                Err(error) if error.is_lost_race() => debug!("Another replica wrote it back first"),
                other => other?,
            }
            found = call("get", &resource, api.get_opt(secret)).await?;
            if found.is_none() {
                return Err(ClusterError::Conflict { resource }.into());
            }
        }
        let Some(found) = found else { return Ok((None, None)) };
        match Stored::read(&found, &self.names) {
            Ok(stored) => {
                self.known = Some(stored.clone());
                Ok((Some(found), Some(stored)))
            }
            Err(error) => {
                warn!(%resource, %error, "Secret cannot be used, making new certificates");
                Ok((Some(found), None))
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

    async fn store(&self, found: Option<Secret>, stored: &Stored) -> Result<(), ClusterError> {
        let Settings { namespace, secret, .. } = &self.settings;
        let api = Api::<Secret>::namespaced(self.client.clone(), namespace);
        let resource = format!("secrets/{namespace}/{secret}");
        let params = PostParams { field_manager: Some("writ".to_owned()), ..PostParams::default() };
        match found {
            None => {
                call("create", &resource, api.create(&params, &stored.to_secret(secret))).await?;
            }
            // The resource version in what was found makes this a write that only one replica can win.
            Some(mut found) => {
                stored.write(&mut found);
                call("update", &resource, api.replace(secret, &params, &found)).await?;
            }
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
            let pause = match bundle::ensure(&keeper.client, &keeper.target, &wanted).await {
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

/// Several changes that are known already are one.
fn drain(changes: &mut Changes) {
    while changes.next().now_or_never().flatten().is_some() {}
}

fn retry_pause(failures: u32) -> Duration {
    (FIRST_RETRY * (1 << failures.min(7))).min(LAST_RETRY)
}

/// A stream that says when an object may have changed; failures are told and retried for ever.
fn touches<K>(resource: &'static str, name: &str, api: Api<PartialObjectMeta<K>>) -> stream::BoxStream<'static, ()>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + std::fmt::Debug + Send + Sync + 'static,
{
    let resource = format!("{resource}/{name}");
    watcher(api, watcher::Config::default().fields(&format!("metadata.name={name}")))
        .default_backoff()
        .filter_map(move |event| {
            let told = event.map(|_| ()).map_err(|error| ClusterError::of_watch(&resource, &error));
            if let Err(error) = &told {
                warn!(%error, "Watch interrupted");
            }
            std::future::ready(told.ok())
        })
        .boxed()
}

/// One call with its time limit and its errors sorted.
async fn call<T>(
    verb: &'static str,
    resource: &str,
    call: impl Future<Output = kube::Result<T>>,
) -> Result<T, ClusterError> {
    match timeout(CALL_TIME, call).await {
        Ok(result) => result.map_err(|error| ClusterError::of(verb, resource, &error)),
        Err(_elapsed) => Err(ClusterError::too_slow(verb, resource)),
    }
}
