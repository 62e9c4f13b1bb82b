//! What must be remembered across restarts: how far each rule has come, in one small ConfigMap that the holder of the lease
//! writes. The manifests ship it empty.

use serde_json::json;

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
        Self { api, kind: ApiKind::builtin("v1", "ConfigMap"), namespace, name }
    }

    /// What was remembered; nothing if there never was anything.
    pub async fn recall(&self) -> Result<Option<Progress>, ClusterError> {
        let found = self.api.find(&self.kind, Some(&self.namespace), &self.name).await?;
        let text = found.as_ref().and_then(|map| map.pointer(&format!("/data/{KEY}"))?.as_str());
        Ok(text.map(|text| Progress::from_json(&serde_json::from_str(text).unwrap_or_default())))
    }

    pub async fn store(&self, progress: &Progress) -> Result<(), ClusterError> {
        let body = json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": self.name, "namespace": self.namespace},
            "data": {KEY: progress.to_json().to_string()},
        });
        match self.api.merge(&self.kind, Some(&self.namespace), &self.name, "", &body).await {
            Err(ClusterError::Missing { resource }) => Err(ClusterError::NotInstalled { resource }),
            other => other.map(drop),
        }
    }
}
