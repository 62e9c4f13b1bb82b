//! Who writes: one of several replicas, by a Lease of the cluster.
//!
//! The holder renews well before its time is over and stops believing in itself when it could not; the others take over only
//! after that. Clocks are compared by how long a lease has not moved, as seen here, never by what another clock says.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::{Instant, sleep};
use tracing::{debug, info, warn};

use super::ClusterError;
use super::api::{Api, Rehearsal};
use super::kinds::ApiKind;
use crate::core::resource::text_at;

/// How long a lease lasts without renewal.
const DURATION: Duration = Duration::from_secs(8);
const RENEW: Duration = Duration::from_secs(2);
const LOOK: Duration = Duration::from_millis(1000);
/// The holder gives up this long before others may take over.
const MARGIN: Duration = Duration::from_secs(2);

/// Whether this replica is the one that writes.
#[derive(Clone)]
pub struct Tenure {
    began: Instant,
    /// Milliseconds since `began` until which the lease is ours; 0 if it is not.
    until: Arc<AtomicU64>,
    changes: watch::Receiver<bool>,
}

/// Gets and keeps a lease.
pub struct Lease {
    api: Api,
    kind: ApiKind,
    namespace: String,
    name: String,
    identity: String,
    tenure: Tenure,
    sender: watch::Sender<bool>,
    /// The holder and renewal that were last seen, and when they were first seen.
    seen: Option<(String, Instant)>,
}

impl Tenure {
    pub fn is_held(&self) -> bool {
        self.until.load(Ordering::Acquire) > self.now()
    }

    /// Turns true with each term of office and false at its end.
    pub fn changes(&self) -> watch::Receiver<bool> {
        self.changes.clone()
    }

    fn now(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}

impl Lease {
    pub fn new(api: Api, namespace: String, name: String, identity: String) -> (Self, Tenure) {
        let (sender, changes) = watch::channel(false);
        let tenure = Tenure { began: Instant::now(), until: Arc::default(), changes };
        let kind = ApiKind::builtin("coordination.k8s.io/v1", "Lease");
        let lease = Self { api, kind, namespace, name, identity, tenure: tenure.clone(), sender, seen: None };
        (lease, tenure)
    }

    /// Tries for ever. Ends only when it is dropped.
    pub async fn keep(&mut self) {
        let mut troubled = false;
        loop {
            let asked = self.tenure.now();
            match self.attempt().await {
                Ok(held) => {
                    troubled = false;
                    let lasts = u64::try_from((DURATION - MARGIN).as_millis()).unwrap_or_default();
                    self.set(if held { asked + lasts } else { 0 });
                }
                Err(error) => {
                    if !std::mem::replace(&mut troubled, true) {
                        warn!(%error, "Cannot get or renew the lease");
                    }
                    self.set(self.tenure.until.load(Ordering::Acquire));
                }
            }
            sleep(if troubled || !self.tenure.is_held() { LOOK } else { RENEW }).await;
        }
    }

    /// Gives the lease back, so that nobody has to wait for its end.
    pub async fn release(&mut self) {
        if !self.tenure.is_held() {
            return;
        }
        self.set(0);
        let Ok(Some(mut lease)) = self.api.find(&self.kind, Some(&self.namespace), &self.name).await else {
            return;
        };
        if text_at(&lease, &["spec", "holderIdentity"]) == self.identity {
            lease["spec"]["holderIdentity"] = "".into();
            lease["spec"]["leaseDurationSeconds"] = 1.into();
            let _ = self.write(&lease).await;
        }
    }

    fn set(&mut self, until: u64) {
        self.tenure.until.store(until, Ordering::Release);
        let held = self.tenure.is_held();
        let changed = self.sender.send_if_modified(|was| std::mem::replace(was, held) != held);
        if changed {
            info!(held, lease = %self.name, "The lease changed hands");
        }
    }

    /// Whether the lease is ours after one look at it.
    async fn attempt(&mut self) -> Result<bool, ClusterError> {
        let now = Timestamp::now().to_string();
        let Some(mut lease) = self.api.find(&self.kind, Some(&self.namespace), &self.name).await? else {
            return Err(ClusterError::NotInstalled { resource: self.kind.name(Some(&self.namespace), &self.name) });
        };
        let holder = text_at(&lease, &["spec", "holderIdentity"]);
        let ours = holder == self.identity;
        if !ours && !holder.is_empty() && !self.is_stale(&lease) {
            return Ok(false);
        }
        let acquired = if ours { text_at(&lease, &["spec", "acquireTime"]).to_owned() } else { now.clone() };
        let transitions = lease["spec"]["leaseTransitions"].as_u64().unwrap_or_default() + u64::from(!ours);
        lease["spec"] = self.spec(&acquired, &now, transitions);
        match self.write(&lease).await {
            Ok(()) => Ok(true),
            Err(ClusterError::Conflict { .. }) => {
                debug!("Another replica was faster");
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    async fn write(&self, lease: &Value) -> Result<(), ClusterError> {
        let written = self.api.replace(&self.kind, Some(&self.namespace), &self.name, lease, Rehearsal::No).await;
        written.map(drop)
    }

    fn spec(&self, acquired: &str, renewed: &str, transitions: u64) -> Value {
        json!({
            "holderIdentity": self.identity,
            "leaseDurationSeconds": DURATION.as_secs(),
            "acquireTime": micros(acquired),
            "renewTime": micros(renewed),
            "leaseTransitions": transitions,
        })
    }

    /// Whether the lease has not moved for as long as it lasts.
    fn is_stale(&mut self, lease: &Value) -> bool {
        let mark =
            format!("{} {}", text_at(lease, &["spec", "holderIdentity"]), text_at(lease, &["spec", "renewTime"]));
        let lasts = Duration::from_secs(lease["spec"]["leaseDurationSeconds"].as_u64().unwrap_or(DURATION.as_secs()));
        match &self.seen {
            Some((seen, since)) if *seen == mark => since.elapsed() >= lasts,
            _ => {
                self.seen = Some((mark, Instant::now()));
                false
            }
        }
    }
}

/// The API server wants exactly six digits after the second.
fn micros(time: &str) -> String {
    match time.parse::<Timestamp>() {
        Ok(time) => format!("{time:.6}"),
        Err(_) => time.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_six_digits() {
        assert_eq!(micros("2026-01-02T03:04:05.123456789Z"), "2026-01-02T03:04:05.123456Z");
        assert_eq!(micros("2026-01-02T03:04:05Z"), "2026-01-02T03:04:05.000000Z");
    }
}
