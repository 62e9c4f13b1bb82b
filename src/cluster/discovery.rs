//! Which kinds the cluster has, kept current: asked again when somebody meets a kind that is not known.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use tokio::sync::Mutex;
use tokio::time::Instant;
use tracing::{debug, warn};

use super::kinds::{ApiKind, Kinds};
use super::{Api, ClusterError};
use crate::core::resource::Gvk;

/// A question that was answered this recently is not put again.
const FRESH: Duration = Duration::from_millis(500);

/// A shared view of the cluster's kinds.
pub struct Discovery {
    api: Api,
    kinds: ArcSwap<Kinds>,
    asked: Mutex<Option<Instant>>,
}

impl Discovery {
    pub fn new(api: Api) -> Self {
        Self { api, kinds: ArcSwap::default(), asked: Mutex::new(None) }
    }

    pub fn kinds(&self) -> Arc<Kinds> {
        self.kinds.load_full()
    }

    /// Asks the API server; says whether anything is other than before.
    pub async fn refresh(&self) -> Result<bool, ClusterError> {
        let asked_at = Instant::now();
        let mut asked = self.asked.lock().await;
        // Whoever waited for the lock is content with the answer that came meanwhile.
        if asked.is_some_and(|asked| asked > asked_at) {
            return Ok(false);
        }
        let (core, groups) = tokio::try_join!(self.api.discover("/api"), self.api.discover("/apis"))?;
        *asked = Some(Instant::now());
        let kinds = Kinds::read(&[core, groups]);
        if kinds == **self.kinds.load() {
            return Ok(false);
        }
        debug!("The kinds of the cluster have changed");
        self.kinds.store(Arc::new(kinds));
        Ok(true)
    }

    /// A kind, looked up once more if it is not known.
    pub async fn find(&self, gvk: &Gvk) -> Result<Arc<ApiKind>, ClusterError> {
        if let Some(kind) = self.kinds.load().find(gvk) {
            return Ok(kind.clone());
        }
        let fresh = self.asked.lock().await.is_some_and(|asked| asked.elapsed() < FRESH);
        if !fresh && let Err(error) = self.refresh().await {
            warn!(%error, "Cannot ask for the kinds of the cluster");
            return Err(error);
        }
        self.kinds.load().find(gvk).cloned().ok_or_else(|| ClusterError::UnknownKind { kind: gvk.to_string() })
    }
}
