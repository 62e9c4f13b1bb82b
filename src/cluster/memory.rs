//! What must be remembered across restarts: how far each rule has come, in one small ConfigMap that the holder of the lease
//! writes, and what `random()` starts from, in a Secret of the same name that is written once.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::kinds::ApiKind;
use super::{Api, ClusterError};
use crate::core::generate::progress::Progress;
use crate::core::resource::text_at;

const KEY: &str = "progress";
const LEADER: &str = "leader";
const SALT: &str = "salt";

/// The ConfigMap and the Secret.
#[derive(Clone)]
pub struct Memory {
    api: Api,
    kind: ApiKind,
    secret: ApiKind,
    namespace: String,
    name: String,
}

impl Memory {
    pub fn new(api: Api, namespace: String, name: String) -> Self {
        let [kind, secret] = ["ConfigMap", "Secret"].map(|kind| ApiKind::builtin("v1", kind));
        Self { api, kind, secret, namespace, name }
    }

    /// What `random()` starts from in this cluster: what is stored, or else `proposal`, which is stored then. Nobody without
    /// the right to read Secrets can guess what rules make of it.
    pub async fn salt(&self, proposal: &str) -> Result<String, ClusterError> {
        let body = json!({
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": self.name, "namespace": self.namespace},
            "stringData": {SALT: proposal},
        });
        let stored = match self.api.create(&self.secret, Some(&self.namespace), &body).await {
            Err(ClusterError::Exists { .. }) => {
                self.api.find(&self.secret, Some(&self.namespace), &self.name).await?.unwrap_or_default()
            }
            other => other?,
        };
        Ok(salt_in(&stored).unwrap_or_else(|| proposal.to_owned()))
    }

    /// What `random()` starts from, if that is stored.
    pub async fn stored_salt(&self) -> Result<Option<String>, ClusterError> {
        let stored = self.api.find(&self.secret, Some(&self.namespace), &self.name).await?;
        Ok(stored.as_ref().and_then(salt_in))
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
        let stored = match version {
            "" => self.api.create(&self.kind, Some(&self.namespace), &body).await,
            version => {
                body["metadata"]["resourceVersion"] = version.into();
                self.api.merge(&self.kind, Some(&self.namespace), &self.name, "", &body).await
            }
        };
        stored.map(|stored| version_in(&stored))
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

fn salt_in(secret: &Value) -> Option<String> {
    let salt = secret.pointer(&format!("/data/{SALT}")).and_then(Value::as_str)?;
    let salt = String::from_utf8(STANDARD.decode(salt).ok()?).ok()?;
    (!salt.is_empty()).then_some(salt)
}
