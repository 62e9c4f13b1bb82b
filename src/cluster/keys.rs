//! The keys of the install, in one Secret that all replicas share: the token in the path of webhook calls, the key of message
//! authentication codes, and the seed of `random()`.
//!
//! A [`KeyStore`] runs in every replica and needs no leader: the manifests ship the Secret empty, the first replica fills it
//! with a write that only one can win, and the others adopt what they find. It also rotates the token and writes the path
//! into the webhook configurations. Everything else reads the keys through a [`KeyReader`].

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

use super::ClusterError;
use super::configurations::{self, Change, Target, TokenPath, Wanted};
use super::kinds::ApiKind;
use super::upkeep::{Changes, RESYNC, SETTLE, call, configuration_changes, drain, retry_pause, secret_changes};
use crate::core::expr::Seed;
use crate::core::integrity::MacKey;
use crate::core::webhook_token::{EntryPath, TokenStep, WebhookToken, WebhookTokens};
use stored::{Fresh, StoredKeys};

/// What the store must know.
#[derive(Clone, Debug)]
pub struct KeySettings {
    /// The namespace of the install.
    pub namespace: String,
    pub secret: String,
    /// The Service that webhook configurations call.
    pub service: String,
    /// The webhook configurations whose paths to write, of either type.
    pub configurations: Vec<String>,
    /// Which path an entry calls.
    pub entries: &'static [EntryPath],
    /// How long a token lives; it is replaced at two thirds of that.
    pub lifetime: Duration,
    /// How long API servers and replicas get to see a change before the next one relies on it.
    pub grace: Duration,
}

/// The keys at one moment. None of them is ever shown.
#[derive(Clone, Debug)]
pub struct Keys {
    pub tokens: WebhookTokens,
    /// The token that webhook configurations carry.
    pub called: WebhookToken,
    pub mac: MacKey,
    pub random: Seed,
}

/// The keys as they are now, for those who use them.
#[derive(Clone, Debug)]
pub struct KeyReader(watch::Receiver<Option<Arc<Keys>>>);

/// Fills, rotates and publishes the keys of one install.
pub struct KeyStore {
    client: Client,
    settings: KeySettings,
    target: Target,
    /// The last state that was read, in case the Secret is deleted and shipped anew.
    known: Option<StoredKeys>,
    published: watch::Sender<Option<Arc<Keys>>>,
}

impl KeyReader {
    /// Keys that never change: for tests and for tools without a cluster.
    pub fn fixed(keys: Keys) -> Self {
        Self(watch::channel(Some(Arc::new(keys))).1)
    }

    /// Nothing before the Secret was read for the first time.
    pub fn current(&self) -> Option<Arc<Keys>> {
        self.0.borrow().clone()
    }

    /// Waits until the Secret was read. Never returns if the store is gone before: its end ends the process.
    pub async fn ready(&self) -> Arc<Keys> {
        if let Some(keys) = self.current() {
            return keys;
        }
        let mut receiver = self.0.clone();
        let known = receiver.wait_for(Option::is_some).await.ok().and_then(|keys| keys.clone());
        match known {
            Some(keys) => keys,
            None => std::future::pending().await,
        }
    }
}

impl KeyStore {
    pub fn new(client: Client, settings: KeySettings) -> (Self, KeyReader) {
        let KeySettings { namespace, service, configurations, .. } = &settings;
        let target =
            Target { configurations: configurations.clone(), namespace: namespace.clone(), service: service.clone() };
        let (published, receiver) = watch::channel(None);
        (Self { client, settings, target, known: None, published }, KeyReader(receiver))
    }

    /// Works until it is dropped; tells after each look what is wrong, if anything.
    pub async fn run(mut self, told: impl Fn(Option<String>)) {
        let KeySettings { namespace, secret, configurations, .. } = &self.settings;
        let mut changes: Changes = configuration_changes(&self.client, configurations);
        changes.push(secret_changes(&self.client, namespace, secret));
        let (mut failures, mut settled) = (0_u32, false);
        loop {
            let pause = match self.reconcile(settled).await {
                Ok(pause) => {
                    (failures, settled) = (0, true);
                    told(None);
                    pause
                }
                Err(error) => {
                    let pause = retry_pause(failures);
                    failures += 1;
                    warn!(%error, retry_in_ms = pause.as_millis(), "Keys not in sync");
                    // Once keys are in use and API servers call with them, an outage takes nothing from that.
                    if !settled {
                        told(Some(error.to_string()));
                    }
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

    /// Goes as many steps as can be gone now; gives how long there is nothing to do.
    async fn reconcile(&mut self, settled: bool) -> Result<Duration, ClusterError> {
        loop {
            let found = self.load().await?;
            let KeySettings { entries, lifetime, grace, .. } = &self.settings;
            let (now, mut stored) = (Timestamp::now(), StoredKeys::read(&found));
            let Some(keys) = stored.keys(now, *grace) else {
                let filled = stored.filled(self.known.clone(), fresh()?, now);
                info!(secret = self.settings.secret, "Missing keys made");
                self.store(found, &filled).await?;
                continue;
            };
            self.publish(&stored, &keys);
            self.known = Some(stored.clone());
            let path = TokenPath { tokens: &keys.tokens, called: keys.called.reveal(), entries };
            let written = configurations::ensure(&self.client, &self.target, Wanted::Path(path)).await;
            if !settled && matches!(written, Ok(Change::Written)) {
                sleep(SETTLE).await;
            }
            match keys.tokens.next_step(written.is_ok(), now, *lifetime, *grace) {
                TokenStep::Wait { until } => {
                    written?;
                    let pause = Duration::try_from(until.duration_since(now)).unwrap_or_default();
                    return Ok(pause.min(RESYNC));
                }
                step => {
                    info!(?step, "Webhook token rotation advanced");
                    let [_, _, token] = fresh()?;
                    stored.tokens = Some(keys.tokens.after(step, now, WebhookToken::new(&token)));
                    self.store(found, &stored).await?;
                }
            }
        }
    }

    async fn load(&self) -> Result<Secret, ClusterError> {
        let KeySettings { namespace, secret, .. } = &self.settings;
        let api = Api::<Secret>::namespaced(self.client.clone(), namespace);
        let resource = format!("secrets/{namespace}/{secret}");
        let found = call("get", &resource, api.get_opt(secret)).await?;
        found.ok_or(ClusterError::NotInstalled { resource })
    }

    /// The resource version in what was found makes this a write that only one replica can win.
    async fn store(&self, mut found: Secret, stored: &StoredKeys) -> Result<(), ClusterError> {
        let KeySettings { namespace, secret, .. } = &self.settings;
        let api = Api::<Secret>::namespaced(self.client.clone(), namespace);
        let resource = format!("secrets/{namespace}/{secret}");
        stored.write(&mut found);
        let params = PostParams { field_manager: Some("writ".to_owned()), ..PostParams::default() };
        match call("update", &resource, api.replace(secret, &params, &found)).await {
            Err(error) if error.is_lost_race() => debug!("Another replica wrote the keys first"),
            other => drop(other?),
        }
        Ok(())
    }

    fn publish(&self, stored: &StoredKeys, keys: &Keys) {
        let called =
            |published: &Option<Arc<Keys>>| published.as_ref().is_some_and(|known| known.called == keys.called);
        if self.known.as_ref() != Some(stored) || !called(&self.published.borrow()) {
            self.published.send_replace(Some(Arc::new(keys.clone())));
        }
    }
}

/// The seed of `random()` in an install, if it is stored and may be read here.
pub async fn stored_seed(api: &super::Api, namespace: &str, secret: &str) -> Result<Option<Seed>, ClusterError> {
    let kind = ApiKind::builtin("v1", "Secret");
    let found = api.find(&kind, Some(namespace), secret).await?;
    let found = found.and_then(|found| serde_json::from_value::<Secret>(found).ok());
    Ok(found.and_then(|found| StoredKeys::read(&found).seed()))
}

/// Bytes of the cryptographic generator of the TLS library.
fn fresh() -> Result<Fresh, ClusterError> {
    let generator = rustls::crypto::aws_lc_rs::default_provider().secure_random;
    let mut bytes = Fresh::default();
    for bytes in &mut bytes {
        let reason = "the system has no randomness".to_owned();
        generator.fill(bytes).map_err(|_| ClusterError::Config { reason })?;
    }
    Ok(bytes)
}
