//! One target: make the cluster hold it, with as few requests as can be, and with none if it does already.

use serde_json::Value;

use super::downstream::Record;
use super::shared::Shared;
use crate::cluster::apply::{Basis, Method, WriteError, replacement};
use crate::cluster::{ClusterError, Rehearsal};
use crate::core::generate::diff::{Comparison, compare, fingerprint};
use crate::core::generate::{Reach, Target};
use crate::core::resource::is_ending;

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
    let record = shared.downstream().get(&target.key).cloned();
    if record
        .as_ref()
        .is_some_and(|record| record.content == wanted || record.settled == Some((wanted, record.content)))
    {
        return Ok(Settled::Same);
    }
    let mut known = record.is_some() || manner.look_first;
    if manner.synchronize
        && manner.method == Method::Replace
        && let Some(record) = record.filter(Record::is_as_we_left_it)
    {
        // Nobody has touched it since our last write, and that was another content: no need to look at it again. If
        // somebody was faster than the watch, the version tells; an apply has none.
        let basis = Basis { uid: &record.uid, version: &record.version.to_string() };
        match write(shared, target, basis, wanted, manner).await {
            Err(WriteError::Cluster(ClusterError::Conflict { .. } | ClusterError::Missing { .. })) => {}
            other => return other,
        }
    }
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
    if is_ending(stored) {
        return Ok(Settled::Left);
    }
    let basis = Basis::of(stored);
    let same = match compare(&target.body, stored) {
        Comparison::Same => true,
        // Defaults of the API server, or somebody's addition? It knows its defaults.
        Comparison::MoreThanWanted => {
            let rehearsed = send(shared, target, basis, manner, Rehearsal::Yes).await?;
            fingerprint(&rehearsed) == fingerprint(stored)
        }
        Comparison::Differs => false,
    };
    if same {
        shared.downstream().settled(stored, wanted);
        return Ok(Settled::Same);
    }
    write(shared, target, basis, wanted, manner).await
}

async fn write(
    shared: &Shared,
    target: &Target,
    basis: Basis<'_>,
    wanted: u64,
    manner: Manner<'_>,
) -> Result<Settled, WriteError> {
    let written = send(shared, target, basis, manner, Rehearsal::No).await?;
    shared.downstream().settled(&written, wanted);
    // The API server does not store what changes nothing.
    let moved = Basis::of(&written).version != basis.version;
    if moved {
        // It may be a source itself, and to the watch our own write is no news.
        shared.enqueue_copies(Basis::of(&written).uid, false);
    }
    Ok(if moved { Settled::Updated } else { Settled::Same })
}

async fn send(
    shared: &Shared,
    target: &Target,
    basis: Basis<'_>,
    manner: Manner<'_>,
    rehearsal: Rehearsal,
) -> Result<Value, WriteError> {
    let body = match manner.method {
        Method::Replace => &replacement(&target.body, basis),
        Method::Apply => &target.body,
    };
    shared.writer.overwrite(manner.reach, body, manner.method, rehearsal).await
}
