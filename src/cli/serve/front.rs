//! What admission needs, from a live cluster: kinds, rights, policies, settings, and a place to store requests.
//!
//! Also keeps the webhook configuration for resources in step with the policies, in the replica that leads.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use jiff::Timestamp;
use serde_json::Value;
use tokio::sync::{OnceCell, watch};
use tokio::time::{Instant, sleep};
use tracing::warn;

use super::AdmissionArgs;
use crate::cluster::apply::{Basis, replacement};
use crate::cluster::bindings::Bindings;
use crate::cluster::discovery::Discovery;
use crate::cluster::keys::KeyReader;
use crate::cluster::kinds::ApiKind;
use crate::cluster::registration::{Names, Registrar};
use crate::cluster::{Api, ClusterError, Reader, Rehearsal, access};
use crate::controller::Controller;
use crate::core::access::{Access, Subject};
use crate::core::catalog::Catalog;
use crate::core::generate::registration::{Hook, hooks};
use crate::core::generate::request::UpdateRequest;
use crate::core::generate::{Answer, Facts, Fetch, Honoured, InstallBounds, Outbound, Policy};
use crate::core::integrity::MacKey;
use crate::core::matching::{Requester, UserPatterns};
use crate::core::resource::ObjectKey;
use crate::core::settings::{Settings, WebhookSettings};
use crate::index::Snapshot;
use crate::telemetry::GenerateMetrics;
use crate::webhook::{Accounts, Counter, Office, RESOURCES, Trouble, View};

/// How long an admitted policy is remembered here; by then the watch has brought it.
const FRESH: Duration = Duration::from_secs(3);
/// How often to look whether the webhook configuration is still what the policies need.
const LOOK: Duration = Duration::from_millis(200);
/// How often to write it although nothing has changed here: somebody else may have changed it.
const REWRITE: Duration = Duration::from_secs(10);
/// How long the admission of a policy waits for role bindings that it is the first to need.
const BINDINGS_TIME: Duration = Duration::from_secs(2);

/// Admission's view of the cluster.
pub(super) struct Front {
    api: Api,
    discovery: Arc<Discovery>,
    reader: Reader,
    metrics: GenerateMetrics,
    outbound: Arc<Outbound>,
    registrar: Registrar,
    bindings: Bindings,
    snapshot: Arc<ArcSwap<Snapshot>>,
    settings: Arc<ArcSwap<Settings>>,
    /// What of the settings is about webhooks, as far as the API server takes it.
    webhooks: ArcSwap<WebhookSettings>,
    leading: watch::Receiver<bool>,
    fresh: Mutex<Vec<(Instant, Arc<Policy>)>>,
    args: AdmissionArgs,
    /// Who this program is to the API server.
    own_name: OnceCell<String>,
    namespace: String,
    honoured: Honoured,
    requests: ApiKind,
    keys: KeyReader,
}

impl Front {
    /// `installed` is the webhook configuration of the install.
    pub(super) fn new(
        api: Api,
        args: AdmissionArgs,
        namespace: String,
        installed: String,
        honoured: Honoured,
        controller: &Controller,
        keys: KeyReader,
    ) -> Self {
        let names = Names {
            installed,
            configuration: args.resource_webhook_configuration.clone(),
            namespace: namespace.clone(),
            path: RESOURCES.to_owned(),
        };
        let discovery = controller.discovery();
        Self {
            reader: controller.reader(),
            metrics: controller.metrics(),
            outbound: controller.outbound(),
            registrar: Registrar::new(api.clone(), names, keys.clone()),
            bindings: Bindings::new(api.clone()),
            snapshot: controller.snapshot(),
            settings: controller.settings(),
            webhooks: ArcSwap::default(),
            leading: controller.leading(),
            fresh: Mutex::default(),
            own_name: OnceCell::new(),
            requests: ApiKind::builtin("kyverno.io/v2", "UpdateRequest"),
            keys,
            api,
            discovery,
            args,
            namespace,
            honoured,
        }
    }

    /// Works until it is dropped.
    pub(super) async fn run(&self) {
        tokio::join!(self.bindings.run(), self.keep_in_step());
    }

    /// Writes the webhook configuration whenever policies or kinds have changed.
    async fn keep_in_step(&self) {
        let mut written: Option<(Vec<Hook>, Instant)> = None;
        let mut asked = WebhookSettings::default();
        let mut renewing = false;
        loop {
            sleep(LOOK).await;
            let wanted = self.settings.load_full();
            if wanted.webhooks != asked && self.take_over(&wanted.webhooks).await {
                asked.clone_from(&wanted.webhooks);
                renewing = true;
            }
            // Asked for until it is known: admission compares requesters with it, and does not wait.
            if let Err(error) = self.own_name().await {
                warn!(error, "The API server does not say who this program is");
                sleep(Duration::from_secs(1)).await;
            }
            if self.needs_roles() {
                self.bindings.want();
            }
            if !*self.leading.borrow() {
                written = None;
                continue;
            }
            let hooks = self.hooks();
            let stale = |(known, at): &(Vec<Hook>, Instant)| *known != hooks || at.elapsed() > REWRITE;
            if !renewing && !written.as_ref().is_none_or(stale) {
                continue;
            }
            let webhooks = self.webhooks.load_full();
            let outcome = match renewing {
                true => self.registrar.renew(&hooks, &webhooks).await,
                false => self.registrar.write(&hooks, &webhooks).await,
            };
            match outcome {
                Ok(()) => {
                    written = Some((hooks, Instant::now()));
                    renewing = false;
                }
                Err(error) => {
                    warn!(%error, "The webhook configuration for resources cannot be written");
                    sleep(Duration::from_secs(1)).await;
                }
            }
        }
    }

    /// Puts settings into use; false if the API server cannot be asked about them. Conditions that it does not take would
    /// keep every entry from being written, so they are left out.
    async fn take_over(&self, wanted: &WebhookSettings) -> bool {
        let mut webhooks = wanted.clone();
        if !webhooks.match_conditions.is_empty() {
            match self.registrar.objections(&webhooks.match_conditions).await {
                Ok(None) => {}
                Ok(Some(reason)) => {
                    warn!(problem = format!("data.matchConditions: {reason}"), "A setting cannot be read");
                    webhooks.match_conditions.clear();
                }
                Err(error) => {
                    warn!(%error, "The API server cannot be asked about data.matchConditions of the settings");
                    sleep(Duration::from_secs(1)).await;
                    return false;
                }
            }
        }
        self.webhooks.store(Arc::new(webhooks));
        true
    }

    /// What all policies need. Those admitted a moment ago count as well: others must not be the first to forget them.
    fn hooks(&self) -> Vec<Hook> {
        let snapshot = self.snapshot.load();
        let fresh = self.fresh();
        let is_fresh = |policy: &Policy| fresh.iter().any(|fresh| fresh.key == policy.key);
        let known = snapshot.policies().filter_map(|indexed| indexed.policy.as_ref());
        let known = known.filter(|policy| !is_fresh(policy));
        hooks(known.chain(&fresh), &self.known_kinds())
    }

    fn fresh(&self) -> Vec<Arc<Policy>> {
        let mut fresh = lock(&self.fresh);
        fresh.retain(|(since, _)| since.elapsed() < FRESH);
        fresh.iter().map(|(_, policy)| policy.clone()).collect()
    }

    fn needs_roles(&self) -> bool {
        let excluded = &self.settings.load().excluded_users;
        let none = UserPatterns::default();
        let policies = self.snapshot.load();
        excluded.roles != none
            || excluded.cluster_roles != none
            || policies.rules().any(|entry| asks_roles(&entry.policy))
    }

    fn known_kinds(&self) -> Arc<Catalog> {
        self.discovery.kinds().catalog()
    }

    fn bounds(&self) -> InstallBounds {
        InstallBounds::of_cluster(self.known_kinds(), &*self.namespace).with_outbound(self.outbound.clone())
    }

    async fn own_name(&self) -> Result<&String, Trouble> {
        let asked = self.own_name.get_or_try_init(|| access::own_name(&self.api));
        asked.await.map_err(|error| error.to_string())
    }
}

/// Whether a rule of a policy may look at the roles of the requester.
fn asks_roles(policy: &Policy) -> bool {
    policy.rules.iter().any(|rule| {
        let blocks = [Some(&rule.matching.matching), rule.matching.exclude.as_ref()].into_iter().flatten();
        let blocks = blocks.chain(rule.exceptions.iter().map(|exception| &exception.matching));
        let mut filters = blocks.flat_map(|block| block.filters());
        rule.reads_admission || filters.any(|filter| !filter.roles.is_empty() || !filter.cluster_roles.is_empty())
    })
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Office for Front {
    fn catalog(&self) -> Arc<Catalog> {
        self.known_kinds()
    }

    async fn refreshed(&self) -> Result<Arc<Catalog>, Trouble> {
        self.discovery.refresh().await.map_err(|error| error.to_string())?;
        Ok(self.known_kinds())
    }

    async fn allows(&self, who: &Subject, access: &Access) -> Result<bool, Trouble> {
        access::allows(&self.api, who, access).await.map_err(|error| error.to_string())
    }

    async fn objections(&self, conditions: &[(String, String)]) -> Result<Option<String>, Trouble> {
        self.registrar.objections(conditions).await.map_err(|error| error.to_string())
    }

    async fn register(&self, policy: Arc<Policy>) -> Result<(), Trouble> {
        if asks_roles(&policy) {
            self.bindings.want();
            self.bindings.ready(BINDINGS_TIME).await;
        }
        let hooks = hooks([&policy], &self.known_kinds());
        {
            let mut fresh = lock(&self.fresh);
            fresh.retain(|(_, other)| other.key != policy.key);
            fresh.push((Instant::now(), policy));
        }
        self.registrar.extend(&hooks, &self.webhooks.load()).await.map_err(|error| error.to_string())
    }

    async fn accounts(&self) -> Result<Accounts, Trouble> {
        let AdmissionArgs { admission_account, background_account, reports_account, author_check, .. } = &self.args;
        let own = if admission_account.is_none() || background_account.is_none() {
            self.own_name().await?.clone()
        } else {
            String::new()
        };
        let account = |given: &Option<String>| Subject::account(given.as_ref().unwrap_or(&own));
        Ok(Accounts {
            admission: account(admission_account),
            background: account(background_account),
            reports: reports_account.as_ref().map(Subject::account),
            check_author: *author_check,
        })
    }

    async fn global_entry(&self, name: &str) -> Result<Option<Value>, Trouble> {
        let kind = ApiKind::builtin("kyverno.io/v2alpha1", "GlobalContextEntry");
        self.api.find(&kind, None, name).await.map_err(|error| error.to_string())
    }

    fn mac_key(&self) -> Option<MacKey> {
        self.keys.current().map(|keys| keys.mac.clone())
    }

    fn honoured(&self) -> &Honoured {
        &self.honoured
    }

    fn install_namespace(&self) -> &str {
        &self.namespace
    }
}

impl Counter for Front {
    fn view(&self) -> View {
        let own = self.own_name.get().cloned().unwrap_or_default();
        View {
            policies: self.snapshot.load_full(),
            fresh: self.fresh(),
            catalog: self.known_kinds(),
            settings: self.settings.load_full(),
            background: self.args.background_account.clone().unwrap_or(own),
        }
    }

    fn roles(&self, requester: &mut Requester, namespace: &str) {
        self.bindings.collect(requester, namespace);
    }

    async fn store(&self, request: &UpdateRequest) -> Result<(), Trouble> {
        let body = request.write_signed(&self.namespace, &self.keys.ready().await.mac);
        let stored = self.api.create(&self.requests, Some(&self.namespace), &body).await;
        stored.map(drop).map_err(|error| error.to_string())
    }

    fn facts(&self) -> Facts {
        let now = Timestamp::now();
        let mut facts = Facts::new(now, now.as_nanosecond() as u64, self.bounds());
        facts.limits.context_bytes = self.settings.load().context_bytes;
        facts
    }

    fn panicked(&self) {
        self.metrics.panicked();
    }

    async fn answer(&self, fetch: &Fetch) -> Answer {
        // Only the service knows what a POST does there, and a dry run must do nothing.
        if let Fetch::Service(service) = fetch
            && service.body().is_some()
        {
            return Answer::Failed("nothing is posted for a preview".to_owned());
        }
        self.reader.answer(fetch).await.unwrap_or_else(|error| Answer::Failed(error.to_string()))
    }

    async fn rehearse(&self, policy: &Policy, wanted: &Value, stored: &Value) -> Result<Value, Trouble> {
        let ObjectKey { gvk, namespace, name } = ObjectKey::of(stored);
        let tried = async {
            let kind = self.discovery.find(&gvk).await?;
            let namespace = namespace.as_deref();
            match policy.server_side_apply {
                true => self.api.apply(&kind, namespace, &name, wanted, Rehearsal::Yes).await,
                false => {
                    let body = replacement(wanted, Basis::of(stored));
                    self.api.replace(&kind, namespace, &name, &body, Rehearsal::Yes).await
                }
            }
        };
        tried.await.map_err(|error: ClusterError| error.to_string())
    }
}
