//! What must be remembered across restarts: how far each rule has come. One small ConfigMap, written by the holder of the lease.

use serde_json::{Value, json};

use super::kinds::ApiKind;
use super::{Api, ClusterError};
use crate::core::generate::progress::Progress;

const KEY: &str = "progress";

/// The ConfigMap.
#[derive(Clone)]
pub struct Memory {
    api: Api,
    kind: ApiKind,
    namespace: String,
    name: String,
}

impl Memory {
    pub fn new(api: Api, namespace: String, name: String) -> Self {
        let kind = ApiKind::builtin("v1", "ConfigMap");
        Self { api, kind, namespace, name }
    }

    /// What was remembered; nothing if there never was anything.
    pub async fn recall(&self) -> Result<Option<Progress>, ClusterError> {
        let found = self.api.find(&self.kind, Some(&self.namespace), &self.name).await?;
        Ok(found.map(|map| {
            let text = map.pointer(&format!("/data/{KEY}")).and_then(Value::as_str).unwrap_or("null");
            Progress::from_json(&serde_json::from_str(text).unwrap_or_default())
        }))
    }

    pub async fn store(&self, progress: &Progress) -> Result<(), ClusterError> {
        let body = json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": self.name, "namespace": self.namespace},
            "data": {KEY: progress.to_json().to_string()},
        });
        match self.api.merge(&self.kind, Some(&self.namespace), &self.name, "", &body).await {
            Err(ClusterError::Missing { .. }) => {
                self.api.create(&self.kind, Some(&self.namespace), &body).await.map(drop)
            }
            other => other.map(drop),
        }
    }
}
