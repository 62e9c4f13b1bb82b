//! The one gate for writes: everything that generate rules change in the cluster passes here, with the reach of its policy.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::ClusterError;
use super::api::{Api, Rehearsal};
use super::discovery::Discovery;
use super::kinds::ApiKind;
use super::lease::Tenure;
use super::own_writes::OwnWrites;
use crate::core::generate::{Gate, InstallBounds, Reach, WriteTarget, labels};
use crate::core::resource::{ObjectKey, text_at};

/// How an object is overwritten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// The whole object; what is not in it disappears.
    Replace,
    /// Server-side apply; fields of others stay.
    Apply,
}

/// What became of an object that was to be deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deletion {
    Done,
    /// It was gone already.
    Gone,
    /// It has changed, and there is no reason any more to delete it.
    Kept,
}

/// How often a deletion is repeated because the object has changed.
const DELETE_ATTEMPTS: usize = 4;

/// Writes with the rights of the service account, as long as this replica is the one that writes.
#[derive(Clone)]
pub struct Writer {
    api: Api,
    discovery: Arc<Discovery>,
    tenure: Tenure,
    own_writes: Arc<OwnWrites>,
    /// The namespace of the install, where no rule writes.
    namespace: Arc<str>,
}

/// Why a write was not even sent.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    #[error("{0}")]
    OutOfReach(String),
    /// Another replica writes now.
    #[error("this replica does not hold the lease")]
    NotOurTurn,
    /// Too many objects would be deleted because a policy is absent.
    #[error(
        "policy {policy} is absent, and the deletion of its {left} objects of a kind is held; if it is meant, create the policy again and delete it, or allow more with --delete-brake"
    )]
    Held { policy: String, left: usize },
}

impl WriteError {
    /// Whether the same write may well succeed later, without anybody's doing.
    pub fn is_passing(&self) -> bool {
        match self {
            Self::Cluster(error) => error.is_outage(),
            Self::OutOfReach(_) | Self::Held { .. } => false,
            Self::NotOurTurn => true,
        }
    }
}

impl Writer {
    pub fn new(api: Api, discovery: Arc<Discovery>, tenure: Tenure, namespace: &str) -> Self {
        Self { api, discovery, tenure, own_writes: Arc::default(), namespace: namespace.into() }
    }

    pub fn own_writes(&self) -> &OwnWrites {
        &self.own_writes
    }

    pub async fn read(&self, key: &ObjectKey) -> Result<Option<Value>, WriteError> {
        let kind = self.discovery.find(&key.gvk).await?;
        let found = self.api.find(&kind, key.namespace.as_deref(), &key.name).await?;
        Ok(found.map(|object| kind.named(object)))
    }

    pub async fn create(&self, reach: &Reach, body: &Value) -> Result<Value, WriteError> {
        let (kind, target) = self.pass(reach, body).await?;
        let write = self.own_writes.begin(target.key());
        let stored = self.api.create(&kind, address(&target).namespace, body).await?;
        write.stored(&stored);
        Ok(stored)
    }

    /// Overwrites an object. For a replacement the body names the version that it replaces.
    pub async fn overwrite(
        &self,
        reach: &Reach,
        body: &Value,
        method: Method,
        rehearsal: Rehearsal,
    ) -> Result<Value, WriteError> {
        let (kind, target) = self.pass(reach, body).await?;
        let WriteAddress { namespace, name } = address(&target);
        let write = self.own_writes.begin(target.key());
        let stored = match method {
            Method::Replace => self.api.replace(&kind, namespace, name, body, rehearsal).await?,
            Method::Apply => self.api.apply(&kind, namespace, name, body, rehearsal).await?,
        };
        if rehearsal == Rehearsal::No {
            write.stored(&stored);
        }
        Ok(stored)
    }

    /// Deletes an object in the version in which it was seen. If it has changed since, `still` decides on the object as it
    /// is stored now. Nothing is deleted if it is gone, or if another object has its name by now.
    pub async fn delete(
        &self,
        reach: &Reach,
        key: &ObjectKey,
        seen: Basis<'_>,
        still: impl Fn(&Value) -> bool,
    ) -> Result<Deletion, WriteError> {
        let uid = seen.uid.to_owned();
        let mut version = seen.version.to_owned();
        for _ in 0..DELETE_ATTEMPTS {
            let (kind, target) = self.check(reach, key.clone()).await?;
            let WriteAddress { namespace, name } = address(&target);
            let basis = Basis { uid: &uid, version: &version };
            match self.api.delete(&kind, namespace, name, basis).await {
                Ok(()) => return Ok(Deletion::Done),
                Err(ClusterError::Missing { .. }) => return Ok(Deletion::Gone),
                Err(ClusterError::Conflict { .. }) => {}
                Err(error) => return Err(error.into()),
            }
            match self.api.find(&kind, namespace, name).await?.map(|object| kind.named(object)) {
                Some(stored) if Basis::of(&stored).uid != uid => return Ok(Deletion::Gone),
                Some(stored) if !still(&stored) => return Ok(Deletion::Kept),
                Some(stored) => Basis::of(&stored).version.clone_into(&mut version),
                None => return Ok(Deletion::Gone),
            }
        }
        Err(ClusterError::Conflict { resource: key.to_string() }.into())
    }

    /// Takes the labels of policy and rule off an object that is no longer followed.
    pub async fn release(&self, reach: &Reach, key: &ObjectKey) -> Result<(), WriteError> {
        let (kind, target) = self.check(reach, key.clone()).await?;
        self.relabel(&kind, &target, |labels| {
            for label in [labels::POLICY_NAME, labels::POLICY_NAMESPACE, labels::RULE_NAME] {
                labels.remove(label);
            }
        })
        .await
    }

    /// Marks an object as a source of clones.
    pub async fn mark_source(&self, reach: &Reach, key: &ObjectKey) -> Result<(), WriteError> {
        let (kind, target) = self.check(reach, key.clone()).await?;
        self.relabel(&kind, &target, |labels| {
            labels.insert(labels::CLONE_SOURCE.to_owned(), "".into());
        })
        .await
    }

    /// Changes labels by an ordinary update: roles that were made for generate rules grant that, and often no patch.
    async fn relabel(
        &self,
        kind: &ApiKind,
        target: &WriteTarget,
        change: impl Fn(&mut Map<String, Value>),
    ) -> Result<(), WriteError> {
        let WriteAddress { namespace, name } = address(target);
        for last in [false, false, true] {
            let Some(mut object) = self.api.find(kind, namespace, name).await? else {
                return Ok(());
            };
            let labels = &mut object["metadata"]["labels"];
            let mut changed = labels.as_object().cloned().unwrap_or_default();
            change(&mut changed);
            if labels.as_object() == Some(&changed) {
                return Ok(());
            }
            *labels = Value::Object(changed);
            let write = self.own_writes.begin(target.key());
            match self.api.replace(kind, namespace, name, &object, Rehearsal::No).await {
                Ok(stored) => {
                    write.stored(&stored);
                    return Ok(());
                }
                Err(ClusterError::Missing { .. }) => return Ok(()),
                Err(ClusterError::Conflict { .. }) if !last => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Judges the object as it will be written, whatever was planned.
    async fn pass(&self, reach: &Reach, body: &Value) -> Result<(Arc<ApiKind>, WriteTarget), WriteError> {
        self.check(reach, ObjectKey::of(body)).await
    }

    /// Asks the gate about the very resource that the write goes to.
    async fn check(&self, reach: &Reach, key: ObjectKey) -> Result<(Arc<ApiKind>, WriteTarget), WriteError> {
        if !self.tenure.is_held() {
            return Err(WriteError::NotOurTurn);
        }
        let kind = self.discovery.find(&key.gvk).await?;
        let bounds = InstallBounds::of_cluster(self.discovery.kinds().catalog(), self.namespace.clone());
        let target = Gate::new(reach, &bounds).write(key, kind.scope);
        Ok((kind, target.map_err(|refusal| WriteError::OutOfReach(refusal.to_string()))?))
    }
}

/// Where a write goes.
struct WriteAddress<'t> {
    namespace: Option<&'t str>,
    name: &'t str,
}

fn address(target: &WriteTarget) -> WriteAddress<'_> {
    WriteAddress { namespace: target.key().namespace.as_deref(), name: &target.key().name }
}

/// The object that is written over, in one version of it.
#[derive(Clone, Copy, Debug)]
pub struct Basis<'b> {
    pub uid: &'b str,
    pub version: &'b str,
}

impl<'b> Basis<'b> {
    pub fn of(stored: &'b Value) -> Self {
        let text = |field| text_at(stored, &["metadata", field]);
        Self { uid: text("uid"), version: text("resourceVersion") }
    }
}

/// The body of a replacement: the wanted one, in place of exactly that version of exactly that object.
pub fn replacement(wanted: &Value, basis: Basis<'_>) -> Value {
    let mut body = wanted.clone();
    body["metadata"]["resourceVersion"] = basis.version.into();
    body["metadata"]["uid"] = basis.uid.into();
    body
}
