//! Longer pieces of work beside the queue: going through existing triggers, and what follows from the end of a rule.
//!
//! A chore is repeated until it succeeds, or until this replica is not the one that works any more.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;
use sha2::{Digest, Sha256};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until};
use tracing::{info, warn};

use super::downstream::Record;
use super::office::comparison;
use super::policies::{kind_of_policy, visit};
use super::queue::{Lane, pause_after};
use super::shared::Shared;
use crate::cluster::apply::{Basis, Deletion, WriteError};
use crate::cluster::kinds::ApiKind;
use crate::cluster::watch::strip;
use crate::cluster::{ClusterError, Selection};
use crate::core::generate::downstream::selector;
use crate::core::generate::retention::Legacy;
use crate::core::generate::{Marks, PolicyKey, TriggerRef};
use crate::core::resource::{Gvk, ObjectKey, text_at};
use crate::index::{Indexed, RuleEntry};

/// What there is to do.
#[derive(Clone, Debug)]
pub(super) enum Chore {
    /// Go through the triggers of one kind for one rule.
    Pass { policy: PolicyKey, rule: String, gvk: Gvk },
    /// A rule is gone: delete what goes with it.
    Bury { policy: PolicyKey, rule: String, legacy: Vec<Legacy>, end: RuleEnd },
    /// A rule makes other targets now: the old ones are no longer followed.
    Release { policy: PolicyKey, rule: String, kinds: Vec<Gvk> },
    /// A source seems to be gone.
    CheckSource { kind: Arc<ApiKind>, key: ObjectKey, uid: String },
}

/// How it is known that a rule is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RuleEnd {
    /// It was deleted, or its policy was.
    Deleted,
    /// Its policy is not there. It may come back until then.
    Absent { until: Instant },
}

const LONGEST_PAUSE: Duration = Duration::from_secs(10);
/// Passes wait while so many keys are in the queue: memory stays flat however many triggers there are.
const ROOM: usize = 256;
const PAGE: u32 = 100;

/// Does chores as they come, several at a time. Ends only if one of them dies of its own.
pub(super) async fn run(shared: Arc<Shared>, mut chores: UnboundedReceiver<Chore>) {
    let mut tasks = JoinSet::new();
    loop {
        tokio::select! {
            chore = chores.recv() => match chore {
                None => return,
                Some(chore) => drop(tasks.spawn(persist(shared.clone(), chore))),
            },
            Some(ended) = tasks.join_next() => {
                if ended.is_err() {
                    return;
                }
            }
        }
    }
}

async fn persist(shared: Arc<Shared>, chore: Chore) {
    let _underway = shared.underway(&chore);
    for failures in 0.. {
        let Err(error) = perform(&shared, &chore).await else {
            return;
        };
        if !shared.is_working() {
            return;
        }
        if failures == 0 {
            warn!(%error, ?chore, "Cannot finish a chore, trying again");
        }
        sleep(pause_after(failures, LONGEST_PAUSE)).await;
    }
}

async fn perform(shared: &Shared, chore: &Chore) -> Result<(), WriteError> {
    match chore {
        Chore::Pass { policy, rule, gvk } => pass(shared, policy, rule, gvk).await?,
        Chore::Bury { policy, rule, legacy, end } => {
            if is_ended(shared, policy, rule, *end).await? {
                bury(shared, policy, rule, legacy, *end).await?;
            }
        }
        Chore::Release { policy, rule, kinds } => release(shared, policy, rule, kinds).await?,
        Chore::CheckSource { kind, key, uid } => {
            let found = shared.api.find(kind, key.namespace.as_deref(), &key.name).await?;
            let lives = found.is_some_and(|found| text_at(&found, &["metadata", "uid"]) == uid);
            shared.enqueue_copies(uid, !lives);
        }
    }
    Ok(())
}

/// Puts every trigger of a kind that counts for the rule into the queue.
async fn pass(shared: &Shared, policy: &PolicyKey, rule: &str, gvk: &Gvk) -> Result<(), ClusterError> {
    let snapshot = shared.snapshot.load_full();
    let Some(entry) = snapshot.rule(policy, rule) else {
        return Ok(());
    };
    let Some(progress) = shared.rule_progress(policy, rule) else {
        return Ok(());
    };
    let state = snapshot.policy(policy).map(|indexed| content_hash(indexed)).unwrap_or_default();
    // What a one-shot rule has been through is past, even if the user has deleted what it made.
    let existing = entry.rule.generate_existing && (entry.rule.synchronize || progress.existing != state);
    let started = Timestamp::now().as_second();
    let kind = shared.discovery.find(gvk).await?;
    let selection =
        Selection { namespace: policy.namespace.clone().filter(|_| kind.is_namespaced()), ..Selection::default() };
    let mut from = String::new();
    loop {
        let page = shared.api.list(&kind, &selection, PAGE, &from).await?;
        for mut object in page.items {
            let sighting = shared.sight(&object, false);
            strip(&mut object);
            if let Some(causes) = shared.counts(&entry, &progress, existing, &object, &sighting) {
                shared.queue.room(ROOM).await;
                let trigger = TriggerRef::of(&object);
                shared.enqueue_trigger(Lane::Bulk, &entry, causes, trigger, &Arc::new(object), &sighting);
            }
        }
        if page.next.is_empty() || !shared.is_working() {
            break;
        }
        from = page.next;
    }
    shared.metrics.compared(comparison(policy, rule, gvk), started);
    if existing && progress.existing != state {
        finish_existing(shared, &entry, state);
    }
    Ok(())
}

/// From now on a restart need not go through existing triggers again for this state of the policy.
fn finish_existing(shared: &Shared, entry: &RuleEntry, state: String) {
    let mut progress = shared.progress();
    let policy = progress.0.get_mut(&entry.policy.key);
    if let Some(rule) = policy.and_then(|policy| policy.rules.get_mut(&entry.rule.name)) {
        rule.existing = state;
    }
}

/// The content of a policy as a short text.
fn content_hash(indexed: &Indexed) -> String {
    let spec = indexed.document.get("spec").map(ToString::to_string).unwrap_or_default();
    hex::encode(&Sha256::digest(spec.as_bytes())[..8])
}

/// Whether a rule has really ended. A policy that is absent gets time to come back: it may be restored together with its
/// CRD, and a kind that is not served says nothing about its objects.
async fn is_ended(shared: &Shared, policy: &PolicyKey, rule: &str, end: RuleEnd) -> Result<bool, ClusterError> {
    let RuleEnd::Absent { until } = end else { return Ok(true) };
    sleep_until(until).await;
    if !shared.is_working() {
        return Ok(false);
    }
    let kind = kind_of_policy(policy);
    let selection = Selection { namespace: policy.namespace.clone(), ..Selection::default() };
    shared.api.list(&kind, &selection, 1, "").await?;
    let is_absent = shared.api.find(&kind, policy.namespace.as_deref(), &policy.name).await?.is_none();
    // It may have come back without the rule. One that does not run yet says nothing about its rules.
    let snapshot = shared.snapshot.load();
    let present = snapshot.policy(policy).and_then(|indexed| indexed.policy.as_ref());
    Ok(is_absent || present.is_some_and(|policy| policy.rules.iter().all(|found| found.name != rule)))
}

async fn bury(
    shared: &Shared,
    policy: &PolicyKey,
    rule: &str,
    legacy: &[Legacy],
    end: RuleEnd,
) -> Result<(), WriteError> {
    let reach = policy.reach();
    let (mut deleted, mut failed) = (0, None);
    shared.written(policy, rule).await;
    for part in legacy {
        let gvk = Gvk::new(&part.api_version, part.kind.as_str());
        let objects = labelled(shared, policy, rule, &gvk).await?;
        let is_part = |object: &Value| {
            let marks = Marks::read(object);
            marks.is_some_and(|marks| {
                marks.policy == *policy && marks.rule == rule && part.includes(marks.source.is_some())
            })
        };
        let mut left = objects.len();
        for object in objects.iter().filter(|object| is_part(object)) {
            let key = ObjectKey::of(object);
            if shared.downstream().get(&key).is_some_and(Record::is_foreign) {
                continue;
            }
            let now = Timestamp::now().as_second();
            if end != RuleEnd::Deleted && !shared.brake().passes(policy, rule, left, now) {
                shared.metrics.held();
                return Err(WriteError::Held { policy: policy.to_string(), left });
            }
            shared.downstream().remove(&key);
            left -= 1;
            match shared.writer.delete(&reach, &key, Basis::of(object), is_part).await {
                Ok(Deletion::Done | Deletion::Gone) => {
                    shared.metrics.written("deleted");
                    deleted += 1;
                }
                Ok(Deletion::Kept) => {}
                // One that somebody protects does not keep the others alive.
                Err(error) => failed = Some(error),
            }
        }
    }
    info!(%policy, rule, deleted, "The rule is gone, and what goes with it");
    if let Some(error) = failed {
        return Err(error);
    }
    let snapshot = shared.snapshot.load_full();
    if snapshot.rule(policy, rule).is_some() {
        // It came back meanwhile, and may have lost what it had just made.
        snapshot.policy(policy).into_iter().for_each(|indexed| visit(shared, indexed));
        return Ok(());
    }
    let mut progress = shared.progress();
    if let Some(entry) = progress.0.get_mut(policy) {
        entry.rules.remove(rule);
        if entry.rules.is_empty() {
            progress.0.remove(policy);
        }
    }
    Ok(())
}

async fn release(shared: &Shared, policy: &PolicyKey, rule: &str, kinds: &[Gvk]) -> Result<(), WriteError> {
    shared.written(policy, rule).await;
    for gvk in kinds {
        for object in labelled(shared, policy, rule, gvk).await? {
            let key = ObjectKey::of(&object);
            shared.downstream().remove(&key);
            match shared.writer.release(&policy.reach(), &key).await {
                // The rule waits for this to end, and one object that somebody protects must not hold it up for ever.
                Err(error) if !error.is_passing() => warn!(target = %key, %error, "Cannot let go of a former target"),
                other => other?,
            }
        }
    }
    Ok(())
}

/// What a rule has made of a kind; nothing if the cluster does not have that kind.
async fn labelled(shared: &Shared, policy: &PolicyKey, rule: &str, gvk: &Gvk) -> Result<Vec<Value>, ClusterError> {
    let kind = match shared.discovery.find(gvk).await {
        Ok(kind) => kind,
        Err(ClusterError::UnknownKind { .. }) => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let namespace = policy.namespace.clone().filter(|_| kind.is_namespaced());
    let selection =
        Selection { namespace, labels: selector(policy, Some(rule)), metadata_only: true, ..Selection::default() };
    shared.api.list_all(&kind, &selection).await
}
