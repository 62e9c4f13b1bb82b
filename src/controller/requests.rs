//! UpdateRequests: work that the webhook has stored in the cluster, because a rule asks for what only admission knows.
//! Requests of anybody else are ignored, and so are requests that were changed after they were stored.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::Value;
use tokio::sync::mpsc::channel;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};
use tracing::{debug, warn};

use super::drive::{Driven, drive};
use super::lookup::{Found, live, look_up};
use super::office::REFUSAL_PAUSE;
use super::policies::kind_of_policy;
use super::process::{Grounds, Report, Trouble, clean_up, fulfil, is_preceded, tell};
use super::queue::{Lane, Merge, Queue, Task};
use super::shared::Shared;
use crate::cluster::apply::Basis;
use crate::cluster::kinds::ApiKind;
use crate::cluster::status::{self, pending_request};
use crate::cluster::watch::{Event, follow};
use crate::cluster::{ClusterError, Selection};
use crate::core::generate::request::{Admission, Entry, UpdateRequest};
use crate::core::generate::{Apply, Evaluation, PolicyKey, Trigger, TriggerRef};
use crate::core::matching::Operation;
use crate::core::resource::{is_ending, text_at};
use crate::index::RuleEntry;

const WORKERS: usize = 4;
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// How long the object of a request may take to be stored, or a failing rule to work.
const PATIENCE: Duration = Duration::from_millis(3500);

/// A stored request; the newest is the one that counts.
struct Stored(Value);

impl Merge for Stored {
    fn merge(&mut self, newer: Self) {
        *self = newer;
    }
}

/// Why an entry is not done.
enum Undone {
    /// What the request was about is not stored yet.
    NotYet(String),
    Trouble(Trouble),
}

/// What is to become of what the rule has made for a trigger.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Aim {
    Make,
    /// The trigger was said to be lost. If the rule still applies, the change was refused after all, or undone: nothing is
    /// taken away.
    MakeOrRemove,
    Remove,
}

/// Stored requests that keep being rejected, by policy. Each stays in the cluster until it succeeds, so their number has a bound: a
/// tenant whose objects are always rejected must not fill the storage of the cluster.
#[derive(Default)]
struct Failing(Mutex<BTreeMap<PolicyKey, BTreeSet<String>>>);

/// How many of one policy are kept.
const MOST_FAILING: usize = 1000;

impl Failing {
    /// Notes a request; false if its policy has too many already.
    fn admit(&self, policy: &PolicyKey, name: &str) -> bool {
        let mut failing = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let of_policy = failing.entry(policy.clone()).or_default();
        of_policy.contains(name) || (of_policy.len() < MOST_FAILING && of_policy.insert(name.to_owned()))
    }

    fn remove(&self, name: &str) {
        let mut failing = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        failing.retain(|_, of_policy| {
            of_policy.remove(name);
            !of_policy.is_empty()
        });
    }
}

type Requests = Queue<String, Stored>;

/// Follows the requests in the namespace of the install. Ends only if a worker dies of its own.
pub(super) async fn run(shared: Arc<Shared>) {
    let kind = Arc::new(ApiKind::builtin("kyverno.io/v2", "UpdateRequest"));
    let (queue, failing) = (Arc::new(Requests::default()), Arc::new(Failing::default()));
    let mut workers = JoinSet::new();
    for _ in 0..WORKERS {
        workers.spawn(work(shared.clone(), kind.clone(), queue.clone(), failing.clone()));
    }
    let (sender, mut events) = channel(64);
    let selection = Selection { namespace: Some(shared.namespace.clone()), ..Selection::default() };
    let following = follow(shared.api.clone(), kind, selection, sender);
    let receiving = async {
        let mut known = BTreeSet::new();
        let mut ignored = BTreeSet::new();
        while let Some(event) = events.recv().await {
            match event {
                Event::Listed(object) | Event::Changed(object) => {
                    let name = text_at(&object, &["metadata", "name"]).to_owned();
                    if !UpdateRequest::is_authentic(&object, &shared.keys.ready().await.mac) {
                        ignore(&shared, name, &mut ignored);
                        continue;
                    }
                    known.insert(name.clone());
                    queue.add(Lane::Live, name, Stored(object));
                }
                Event::Deleted(object) => {
                    let name = text_at(&object, &["metadata", "name"]);
                    known.remove(name);
                    ignored.remove(name);
                    failing.remove(name);
                }
                Event::Listing => known.clear(),
                Event::Synced { .. } => {}
                Event::Trouble(error) => warn!(%error, "Cannot watch stored requests"),
            }
            shared.metrics.requests(&shared.namespace, known.len());
        }
    };
    tokio::select! {
        _ = workers.join_next() => {}
        ((), ()) = async { tokio::join!(following, receiving) } => {}
    }
}

/// Nothing is done with a request that Writ did not write. It is counted and logged once, and it stays: it is not Writ's.
fn ignore(shared: &Shared, name: String, ignored: &mut BTreeSet<String>) {
    if ignored.insert(name.clone()) {
        shared.metrics.ignored_request();
        warn!(request = name, "Ignored an UpdateRequest that Writ did not write, or that was changed since");
    }
}

async fn work(shared: Arc<Shared>, kind: Arc<ApiKind>, queue: Arc<Requests>, failing: Arc<Failing>) {
    let mut turns = shared.tenure.changes();
    loop {
        let Task { key, work, since, .. } = queue.take().await;
        // Whoever works next finds them in the cluster; until then they wait here.
        while !shared.is_working() {
            tokio::select! {
                _ = turns.changed() => {}
                () = sleep(Duration::from_millis(200)) => {}
            }
        }
        match handle(&shared, &kind, &failing, &key, &work.0, since.elapsed()).await {
            Ok(()) => queue.done(&key),
            Err(error) => {
                debug!(request = key, %error, "A stored request is not done yet");
                queue.failed(&key, work, longest_pause(&error, since.elapsed()));
            }
        }
    }
}

/// How long the pause before the next attempt may become. What was rejected stays rejected until an operator grants a permission
/// or changes an object, so it is tried ever less often, without end.
fn longest_pause(trouble: &Trouble, waited: Duration) -> Duration {
    match trouble {
        Trouble::Outage(_) | Trouble::NotOurTurn => LONGEST_PAUSE,
        Trouble::Refused(_) | Trouble::Broken(_) | Trouble::Parked(_) if waited < PATIENCE => LONGEST_PAUSE,
        Trouble::Refused(_) | Trouble::Broken(_) | Trouble::Parked(_) => REFUSAL_PAUSE,
    }
}

/// Works on a request. An error means: again, after a pause.
async fn handle(
    shared: &Shared,
    kind: &ApiKind,
    failing: &Failing,
    name: &str,
    object: &Value,
    waited: Duration,
) -> Result<(), Trouble> {
    let Some(request) = UpdateRequest::read(object) else {
        return Ok(());
    };
    let seen = Basis::of(object);
    let (mut errors, mut rejected) = (Vec::new(), false);
    for entry in &request.entries {
        match perform(shared, &request, entry, waited).await {
            Ok(()) => {}
            Err(Undone::Trouble(trouble @ (Trouble::Outage(_) | Trouble::NotOurTurn))) => return Err(trouble),
            Err(Undone::Trouble(trouble)) => {
                // A rule that fails for its trigger has been told by an event, and would fail again.
                rejected |= matches!(trouble, Trouble::Refused(_));
                errors.push(trouble.to_string());
            }
            Err(Undone::NotYet(reason)) => errors.push(reason),
        }
    }
    if errors.is_empty() {
        return remove(shared, kind, name, seen).await;
    }
    let message = errors.join("; ");
    if waited < PATIENCE {
        return Err(Trouble::Refused(message));
    }
    if rejected && failing.admit(&request.policy, name) {
        return Err(keep(shared, kind, name, object, &request, message).await);
    }
    warn!(request = name, policy = %request.policy, error = message, "Dropped a stored request");
    if rejected {
        shared.metrics.request_dropped();
    }
    remove(shared, kind, name, seen).await
}

/// Keeps a request that fails, with what is wrong in its status.
async fn keep(
    shared: &Shared,
    kind: &ApiKind,
    name: &str,
    object: &Value,
    request: &UpdateRequest,
    message: String,
) -> Trouble {
    // Written only when it says something new: each write comes back as an event, and that is a reason to try again.
    if text_at(object, &["status", "message"]) == message {
        return Trouble::Refused(message);
    }
    warn!(request = name, policy = %request.policy, error = message, "A stored request keeps failing");
    let written = status::write(&shared.api, kind, Some(&shared.namespace), name, pending_request(&message)).await;
    match written {
        Ok(()) | Err(ClusterError::Missing { .. }) => Trouble::Refused(message),
        Err(error) => error.into(),
    }
}

async fn remove(shared: &Shared, kind: &ApiKind, name: &str, seen: Basis<'_>) -> Result<(), Trouble> {
    match shared.api.delete(kind, Some(&shared.namespace), name, seen).await {
        // After a conflict the watch brings the request as it is now, and that one is worked on.
        Ok(()) | Err(ClusterError::Missing { .. } | ClusterError::Conflict { .. }) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Does one entry: one rule for one trigger.
async fn perform(shared: &Shared, request: &UpdateRequest, entry: &Entry, waited: Duration) -> Result<(), Undone> {
    let snapshot = shared.snapshot.load_full();
    let Some(found) = snapshot.rule(&request.policy, &entry.rule) else {
        let set_aside = snapshot.policy(&request.policy).is_some_and(|indexed| indexed.policy.is_none());
        if !set_aside && is_stored(shared, &request.policy, &entry.rule).await? {
            let reason = format!("the watch has yet to bring rule {} of policy {}", entry.rule, request.policy);
            return Err(Undone::Trouble(Trouble::Outage(reason)));
        }
        // A policy or rule that is gone has been cleaned up after already.
        return Ok(());
    };
    let trigger = match &request.admission {
        None => background(shared, entry).await?,
        Some(admission) => of_admission(shared, admission, entry, waited).await?,
    };
    let reference = match (trigger.object().or_else(|| trigger.old_object()), entry.trigger.is_findable()) {
        (_, true) => entry.trigger.clone(),
        (Some(object), false) => TriggerRef::of(object),
        (None, false) => TriggerRef::default(),
    };
    let aim = match entry.delete && found.rule.synchronize {
        false => Aim::Make,
        true if is_alive(&trigger, request) => Aim::MakeOrRemove,
        true => Aim::Remove,
    };
    if aim == Aim::Remove && is_held(shared, &reference).await.map_err(Undone::Trouble)? {
        // The watch tells of the end of a trigger that finalizers hold up. For other rules this request is all there is.
        return match found.rule.follows_deletion() {
            true => Ok(()),
            false => Err(Undone::Trouble(Trouble::Outage(format!("{} is being deleted", reference.gvk)))),
        };
    }
    let (started, mut report) = (Instant::now(), Report::default());
    let applied = apply(shared, &found, &trigger, &reference, aim, &mut report).await;
    shared.metrics.executed(&request.policy, &entry.rule, applied.is_ok(), started.elapsed());
    if applied.is_ok() && !report.created.is_empty() {
        shared.metrics.latency(waited + started.elapsed());
    }
    applied.map_err(|trouble| Undone::Trouble(tell(shared, &found, &reference, trouble)))
}

/// Whether the cluster has a rule. Whoever stored the request may have seen the policy before the watch has brought it.
async fn is_stored(shared: &Shared, policy: &PolicyKey, rule: &str) -> Result<bool, Undone> {
    let found = shared.api.find(&kind_of_policy(policy), policy.namespace.as_deref(), &policy.name).await;
    let found = found.map_err(|error| Undone::Trouble(error.into()))?;
    let rules = found.as_ref().and_then(|found| found.pointer("/spec/rules")?.as_array());
    Ok(rules.is_some_and(|rules| rules.iter().any(|found| text_at(found, &["name"]) == rule)))
}

async fn apply(
    shared: &Shared,
    found: &RuleEntry,
    trigger: &Trigger,
    reference: &TriggerRef,
    aim: Aim,
    report: &mut Report,
) -> Result<(), Trouble> {
    match evaluate(shared, found, trigger).await? {
        Some(Driven { evaluation: Evaluation::Done(plan), sources }) if aim != Aim::Remove => {
            let look_first = trigger.operation() != Some(Operation::Create);
            fulfil(shared, found, reference, &plan, &sources, look_first, report).await?;
            // Its deletion may have been worked on meanwhile, and found nothing to remove.
            if found.rule.follows_deletion() && is_gone(shared, reference).await? {
                clean_up(shared, found, reference, Grounds::Asked).await?;
            }
            Ok(())
        }
        Some(Driven { evaluation: Evaluation::Excepted { .. } | Evaluation::OutOfReach { .. }, .. }) => Ok(()),
        // What the webhook could not tell without looking things up.
        Some(Driven { evaluation: Evaluation::Lost { .. }, .. }) if found.rule.synchronize => {
            clean_up(shared, found, reference, Grounds::Asked).await.map(drop)
        }
        _ if aim != Aim::Make => clean_up(shared, found, reference, Grounds::Asked).await.map(drop),
        _ => Ok(()),
    }
}

/// Whether a trigger is being deleted and still there: what was made for it stays as long.
async fn is_held(shared: &Shared, trigger: &TriggerRef) -> Result<bool, Trouble> {
    Ok(trigger.is_findable() && live(shared, trigger).await?.is_some_and(|object| is_ending(&object)))
}

async fn is_gone(shared: &Shared, trigger: &TriggerRef) -> Result<bool, Trouble> {
    // A kind that is not served any more says nothing about its objects.
    Ok(trigger.is_findable() && matches!(look_up(shared, trigger).await?, Found::Gone))
}

fn is_alive(trigger: &Trigger, request: &UpdateRequest) -> bool {
    let operation = request.admission.as_ref().and_then(Admission::operation);
    trigger.object().is_some() && operation == Some(Operation::Update)
}

/// The result of the rule; nothing if an earlier rule of the policy takes the trigger.
async fn evaluate(shared: &Shared, entry: &RuleEntry, trigger: &Trigger) -> Result<Option<Driven>, Trouble> {
    if entry.policy.apply == Apply::One && is_preceded(shared, entry, trigger).await? {
        return Ok(None);
    }
    Ok(Some(drive(shared, &entry.rule, trigger).await?))
}

/// The trigger of a request that no admission request caused.
async fn background(shared: &Shared, entry: &Entry) -> Result<Trigger, Undone> {
    match stored(shared, entry).await? {
        Some(object) => Ok(Trigger::background(object)),
        // What is to be deleted is deleted whether the trigger lives or not.
        None if entry.delete => Ok(Trigger::background(Value::Null)),
        None => Err(Undone::NotYet(format!("trigger {} {} does not exist", entry.trigger.gvk, entry.trigger.name))),
    }
}

/// The trigger of an admission request. The webhook is asked before anything is stored, so this waits until it is: what was
/// refused after all must leave no traces.
async fn of_admission(
    shared: &Shared,
    admission: &Admission,
    entry: &Entry,
    waited: Duration,
) -> Result<Trigger, Undone> {
    let (group, version, plural, subresource) = admission.resource();
    let kinds = shared.discovery.kinds();
    let parent =
        kinds.by_plural(group, version, plural).map_or_else(|| entry.trigger.gvk.clone(), |kind| kind.gvk.clone());
    let (roles, cluster_roles) = (admission.roles.clone(), admission.cluster_roles.clone());
    let trigger = Trigger::admission(admission.request.clone(), parent, roles, cluster_roles);
    let not_yet = |what: &str| Undone::NotYet(format!("{what} {} {}", entry.trigger.gvk, entry.trigger.name));
    match admission.operation() {
        Some(Operation::Create) => match stored(shared, entry).await? {
            Some(object) => Ok(trigger.with_object(object)),
            None if !subresource.is_empty() => Ok(trigger),
            None => Err(not_yet("not stored:")),
        },
        Some(Operation::Update) => {
            let object = stored(shared, entry).await?.ok_or_else(|| not_yet("not there:"))?;
            let before = admission.old_object().map(|old| text_at(old, &["metadata", "resourceVersion"]));
            let stored = before != Some(text_at(&object, &["metadata", "resourceVersion"]));
            if stored || admission.changes_nothing() || waited >= PATIENCE {
                Ok(trigger.with_object(object))
            } else {
                Err(not_yet("not changed yet:"))
            }
        }
        Some(Operation::Delete) => match stored(shared, entry).await? {
            Some(object) if !is_ending(&object) => Err(not_yet("not deleted:")),
            _ => Ok(trigger),
        },
        Some(Operation::Connect) | None => Ok(trigger),
    }
}

async fn stored(shared: &Shared, entry: &Entry) -> Result<Option<Value>, Undone> {
    live(shared, &entry.trigger).await.map_err(|error| Undone::Trouble(error.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_rejected_is_tried_without_end() {
        let text = String::new;
        assert_eq!(longest_pause(&Trouble::Refused(text()), Duration::ZERO), LONGEST_PAUSE);
        assert_eq!(longest_pause(&Trouble::Refused(text()), PATIENCE), REFUSAL_PAUSE);
        assert_eq!(longest_pause(&Trouble::Outage(text()), PATIENCE * 1000), LONGEST_PAUSE);
    }

    #[test]
    fn one_policy_keeps_a_bounded_number_of_failing_requests() {
        let failing = Failing::default();
        let policy = |name: &str| PolicyKey { namespace: None, name: name.to_owned() };
        for number in 0..MOST_FAILING {
            assert!(failing.admit(&policy("p"), &format!("ur-{number}")));
        }
        assert!(!failing.admit(&policy("p"), "ur-more"));
        assert!(failing.admit(&policy("p"), "ur-0"), "it is known");
        assert!(failing.admit(&policy("q"), "ur-other"), "another policy");
        failing.remove("ur-0");
        assert!(failing.admit(&policy("p"), "ur-more"));
    }
}
