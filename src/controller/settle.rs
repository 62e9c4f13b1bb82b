//! One target: make the cluster hold it, with as few requests as can be, and with none if it does already.

use serde_json::Value;

use super::shared::Shared;
use crate::cluster::apply::{Method, WriteError, replacement};
use crate::cluster::{ClusterError, Rehearsal};
use crate::core::generate::diff::{Comparison, compare, fingerprint};
use crate::core::generate::{Reach, Target};
use crate::core::resource::text_at;

/// What became of a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Settled {
    Created,
    Updated,
    Same,
    /// It is there, and not ours to change.
    Left,
    /// There is no namespace to put it in.
    Nowhere,
    /// The namespace that it belongs in is being deleted.
    Ending,
}

/// How to go about it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Manner<'m> {
    pub(super) reach: &'m Reach,
    pub(super) method: Method,
    /// Whether what is there is overwritten.
    pub(super) synchronize: bool,
    /// The target is probably there: look before writing.
    pub(super) look_first: bool,
}

/// How often a write is repeated because somebody else was faster.
const ATTEMPTS: usize = 4;

pub(super) async fn settle(shared: &Shared, target: &Target, manner: Manner<'_>) -> Result<Settled, WriteError> {
    let wanted = fingerprint(&target.body);
    let record = shared.downstream().get(&target.key).map(|record| (record.content, record.settled));
    if let Some((content, settled)) = record
        && (content == wanted || settled == Some((wanted, content)))
    {
        return Ok(Settled::Same);
    }
    let mut known = record.is_some() || manner.look_first;
    for _ in 0..ATTEMPTS {
        if !known {
            match create(shared, target, wanted, manner).await? {
                Some(settled) => return Ok(settled),
                None => known = true,
            }
        }
        if !manner.synchronize {
            let absent = manner.look_first && shared.writer.read(&target.key).await?.is_none();
            let created = if absent { create(shared, target, wanted, manner).await? } else { None };
            return Ok(created.unwrap_or(Settled::Left));
        }
        let Some(stored) = shared.writer.read(&target.key).await? else {
            known = false;
            continue;
        };
        match overwrite(shared, target, &stored, wanted, manner).await {
            Err(WriteError::Cluster(ClusterError::Conflict { .. })) => {}
            Err(WriteError::Cluster(ClusterError::Missing { .. })) => known = false,
            other => return other,
        }
    }
    Err(ClusterError::Conflict { resource: target.key.to_string() }.into())
}

/// Creates the target; nothing if it is there already.
async fn create(
    shared: &Shared,
    target: &Target,
    wanted: u64,
    manner: Manner<'_>,
) -> Result<Option<Settled>, WriteError> {
    let created = match manner.method {
        // An apply would overwrite what is there.
        Method::Apply if manner.synchronize => {
            let send = shared.writer.overwrite(manner.reach, &target.body, Method::Apply, Rehearsal::No);
            send.await
        }
        _ => shared.writer.create(manner.reach, &target.body).await,
    };
    match created {
        Ok(object) => {
            shared.downstream().settled(&object, wanted);
            Ok(Some(Settled::Created))
        }
        Err(WriteError::Cluster(ClusterError::Exists { .. })) => Ok(None),
        Err(WriteError::Cluster(ClusterError::NoNamespace { .. })) => Ok(Some(Settled::Nowhere)),
        Err(WriteError::Cluster(ClusterError::Ending { .. })) => Ok(Some(Settled::Ending)),
        Err(error) => Err(error),
    }
}

async fn overwrite(
    shared: &Shared,
    target: &Target,
    stored: &Value,
    wanted: u64,
    manner: Manner<'_>,
) -> Result<Settled, WriteError> {
    // An object that is on its way out comes back as an event when it is gone.
    if !text_at(stored, &["metadata", "deletionTimestamp"]).is_empty() {
        return Ok(Settled::Left);
    }
    let body = match manner.method {
        Method::Replace => replacement(&target.body, stored),
        Method::Apply => target.body.clone(),
    };
    let send = |rehearsal| shared.writer.overwrite(manner.reach, &body, manner.method, rehearsal);
    let same = match compare(&target.body, stored) {
        Comparison::Same => true,
        // Defaults of the API server, or somebody's addition? It knows its defaults.
        Comparison::MoreThanWanted => fingerprint(&send(Rehearsal::Yes).await?) == fingerprint(stored),
        Comparison::Differs => false,
    };
    if same {
        shared.downstream().settled(stored, wanted);
        return Ok(Settled::Same);
    }
    let written = send(Rehearsal::No).await?;
    shared.downstream().settled(&written, wanted);
    // The API server does not store what changes nothing.
    let moved =
        text_at(&written, &["metadata", "resourceVersion"]) != text_at(stored, &["metadata", "resourceVersion"]);
    if moved {
        // It may be a source itself, and to the watch our own write is no news.
        shared.enqueue_copies(text_at(&written, &["metadata", "uid"]), false);
    }
    Ok(if moved { Settled::Updated } else { Settled::Same })
}
