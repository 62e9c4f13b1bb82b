//! What must be remembered across restarts: how far each rule has come, in one small ConfigMap that the holder of the lease
//! writes. The manifests ship it empty.

use serde_json::{Value, json};

use super::kinds::ApiKind;
use super::{Api, ClusterError};
use crate::core::generate::progress::Progress;
use crate::core::resource::text_at;

const KEY: &str = "progress";
const LEADER: &str = "leader";

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

    /// The checkpoint as it is stored.
    pub async fn recall(&self) -> Result<Checkpoint, ClusterError> {
        let found = self.api.find(&self.kind, Some(&self.namespace), &self.name).await?;
        Ok(found.as_ref().map(Checkpoint::read).unwrap_or_default())
    }

    /// Writes the checkpoint over the version that was read; a conflict if another replica has written it since. `leader`
    /// is written beside it, so that the first write of a new leader changes the version whatever the progress is.
    pub async fn store(&self, progress: &Progress, leader: &str, version: &str) -> Result<String, ClusterError> {
        let mut body = json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": self.name, "namespace": self.namespace},
            "data": {KEY: progress.to_json().to_string(), LEADER: leader},
        });
        body["metadata"]["resourceVersion"] = version.into();
        match self.api.merge(&self.kind, Some(&self.namespace), &self.name, "", &body).await {
            Err(ClusterError::Missing { resource }) => Err(ClusterError::NotInstalled { resource }),
            other => other.map(|stored| version_in(&stored)),
        }
    }
}

/// What is stored.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Checkpoint {
    /// Nothing if no leader has stored any.
    pub progress: Option<Progress>,
    /// The resource version of the ConfigMap; empty if there is none.
    pub version: String,
}

impl Checkpoint {
    fn read(map: &Value) -> Self {
        // The install ships the ConfigMap empty.
        let text = map.pointer(&format!("/data/{KEY}")).and_then(Value::as_str);
        let progress = text.map(|text| Progress::from_json(&serde_json::from_str(text).unwrap_or_default()));
        Self { progress, version: version_in(map) }
    }
}

fn version_in(map: &Value) -> String {
    text_at(map, &["metadata", "resourceVersion"]).to_owned()
}
