//! One rule for one trigger: from whatever has happened to a cluster that is as the rule wants it.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde_json::Value;
use tracing::{debug, info, warn};

use super::downstream::Record;
use super::drive::{DriveError, Driven, Sources, drive};
use super::lookup::{Found, find, source_lives};
use super::provenance::is_own;
use super::settle::{Manner, Settled, settle};
use super::shared::Shared;
use super::work::{Causes, Work};
use crate::cluster::ClusterError;
use crate::cluster::apply::{Basis, Deletion, Method, WriteError};
use crate::cluster::events::Happening;
use crate::core::generate::{Apply, Evaluation, Marks, Plan, PolicyKey, Trigger, TriggerRef, Way};
use crate::core::resource::ObjectKey;
use crate::index::RuleEntry;

/// Why a piece of work is not done, sorted by what to do about it.
#[derive(Debug, thiserror::Error)]
pub(super) enum Trouble {
    /// The API server does not answer: wait for it, however long it takes.
    #[error("{0}")]
    Outage(String),
    /// Somebody has to grant a right or mend an object: try again, ever less often.
    #[error("{0}")]
    Refused(String),
    /// The rule fails for this trigger: a few attempts, then wait for the next event.
    #[error("{0}")]
    Broken(String),
    /// The rule panicked for this trigger before: nothing to do until one of them changes. It was told then.
    #[error("{0}")]
    Parked(String),
    /// Another replica works now.
    #[error("this replica does not hold the lease")]
    NotOurTurn,
}

/// What has been done.
#[derive(Debug, Default)]
pub(super) struct Report {
    pub(super) created: Vec<ObjectKey>,
    pub(super) updated: usize,
    pub(super) deleted: usize,
}

/// Why objects are deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Grounds {
    /// Somebody deleted what they were made for or from.
    Asked,
    /// It follows from something else, so the brake applies.
    Inferred,
}

/// Does one piece of work from the queue.
pub(super) async fn process(
    shared: &Shared,
    policy: &PolicyKey,
    rule: &str,
    work: &Work,
    retry: bool,
) -> Result<Report, Trouble> {
    let Some(entry) = shared.snapshot.load().rule(policy, rule) else {
        return Ok(Report::default());
    };
    let (rule, mut causes) = (&entry.rule, work.causes);
    if !rule.synchronize && !causes.meets(Causes::TRIGGER | Causes::EXISTING) {
        return Ok(Report::default());
    }
    let mut report = Report::default();
    if !work.lost_sources.is_empty() {
        let lost = |record: &Record| {
            record.marks.source.as_ref().is_some_and(|source| work.lost_sources.contains(&source.uid))
        };
        let records = shared.downstream().of(policy, &rule.name, &work.trigger);
        let records = records.into_iter().filter(|(_, record)| lost(record)).collect();
        report.deleted += delete(shared, &entry, records, Grounds::Asked).await?;
        // The others are as they were; asking the rule would only say that the source is missing.
        if causes.is_only(Causes::SOURCE) {
            return Ok(report);
        }
    }
    let object = match find(shared, work, retry).await? {
        Found::Object(object) => object,
        Found::Unfindable => return Ok(report),
        Found::NotYet => {
            return Err(Trouble::Outage(format!("the triggers of kind {} are still being listed", work.trigger.gvk)));
        }
        Found::Gone => {
            // Others make their objects because the trigger is gone, or go by who deleted it: those are told.
            if rule.follows_deletion() {
                report.deleted += clean_up(shared, &entry, &work.trigger, Grounds::Asked).await?;
            }
            return Ok(report);
        }
    };
    if rule.needs_request {
        return Ok(report);
    }
    let by_trigger = Causes::TRIGGER | Causes::EXISTING;
    if causes.meets(by_trigger) && !causes.meets(Causes::PROVEN) && is_own(shared, &object).await? {
        causes = causes.without(by_trigger | Causes::FRESH);
        if causes == Causes::default() {
            return Ok(report);
        }
    }
    let trigger = Trigger::background(Value::clone(&object));
    let reference = TriggerRef::of(&object);
    if entry.policy.apply == Apply::One && is_preceded(shared, &entry, &trigger).await? {
        return Ok(report);
    }
    let Driven { evaluation, sources } = match drive(shared, rule, &trigger).await {
        Ok(driven) => driven,
        Err(error) => return Err(tell(shared, &entry, &reference, error.into())),
    };
    match evaluation {
        Evaluation::Done(plan) => {
            let look_first = retry || !causes.meets(Causes::FRESH);
            let fulfilled = fulfil(shared, &entry, &reference, &plan, &sources, look_first, &mut report).await;
            fulfilled.map_err(|trouble| tell(shared, &entry, &reference, trouble))?;
        }
        Evaluation::Excepted { by } => {
            debug!(%policy, rule = %rule.name, trigger = %ObjectKey::of(&object), exception = %by, "Not applied");
        }
        Evaluation::OutOfReach { because } => {
            debug!(%policy, rule = %rule.name, trigger = %ObjectKey::of(&object), because, "Ignored a trigger out of reach");
        }
        Evaluation::Skipped { because } | Evaluation::NotApplicable { because } | Evaluation::Lost { because } => {
            debug!(%policy, rule = %rule.name, trigger = %ObjectKey::of(&object), because, "Not applied");
            if rule.synchronize && rule.way() == Way::Watch {
                report.deleted += clean_up(shared, &entry, &reference, Grounds::Inferred).await?;
            }
        }
        Evaluation::Needs(_) => {}
    }
    Ok(report)
}

/// Whether an earlier rule of a policy that applies only one of its rules takes this trigger.
pub(super) async fn is_preceded(shared: &Shared, entry: &RuleEntry, trigger: &Trigger) -> Result<bool, Trouble> {
    for earlier in entry.policy.rules.iter().take_while(|rule| rule.name != entry.rule.name) {
        match drive(shared, earlier, trigger).await {
            Ok(Driven {
                evaluation:
                    Evaluation::Skipped { .. }
                    | Evaluation::Excepted { .. }
                    | Evaluation::NotApplicable { .. }
                    | Evaluation::OutOfReach { .. },
                ..
            }) => {}
            Err(DriveError::Cluster(error)) if error.is_outage() => return Err(error.into()),
            _ => return Ok(true),
        }
    }
    Ok(false)
}

/// Makes the cluster hold what a plan says.
pub(super) async fn fulfil(
    shared: &Shared,
    entry: &RuleEntry,
    trigger: &TriggerRef,
    plan: &Plan,
    sources: &Sources,
    look_first: bool,
    report: &mut Report,
) -> Result<(), Trouble> {
    let RuleEntry { policy, rule } = entry;
    let Some(_writing) = shared.write_for(entry) else {
        return Err(Trouble::Outage("the rule has changed meanwhile".to_owned()));
    };
    let method = if policy.server_side_apply { Method::Apply } else { Method::Replace };
    let manner = Manner {
        reach: &rule.reach,
        method,
        synchronize: rule.synchronize,
        look_first: look_first && !rule.synchronize,
    };
    mark_sources(shared, entry, plan, sources).await;
    let mut errors = Vec::new();
    for target in &plan.targets {
        match settle(shared, target, manner).await {
            Ok(settled) => {
                shared.metrics.written(match settled {
                    Settled::Created => "created",
                    Settled::Updated => "updated",
                    Settled::Same | Settled::Left => "unchanged",
                    Settled::Nowhere | Settled::Ending => "nowhere",
                });
                match settled {
                    Settled::Created => report.created.push(target.key.clone()),
                    Settled::Updated => report.updated += 1,
                    Settled::Nowhere => {
                        let (key, rule) = (&target.key, &rule.name);
                        info!(policy = %policy.key, rule, target = %key, "No namespace to generate into");
                        // One of many that fails is an error; a single one ends quietly, and the next event counts.
                        if target.place.entry.is_some() {
                            errors.push(Trouble::Broken(format!("the namespace of {key} does not exist")));
                        }
                    }
                    Settled::Ending | Settled::Same | Settled::Left => {}
                }
            }
            Err(error) => {
                shared.metrics.written("failed");
                errors.push(Trouble::of_write(error));
            }
        }
    }
    if !report.created.is_empty() || report.updated > 0 {
        info!(policy = %policy.key, rule = %rule.name, created = report.created.len(), updated = report.updated, "Generated");
    }
    if shared.settings.load().success_events {
        for target in &report.created {
            let (policy, rule, target) = (policy.key.clone(), rule.name.clone(), target.clone());
            shared.herald.tell(Happening::Created { policy, rule, target });
        }
    }
    report.deleted += prune(shared, entry, trigger, plan).await?;
    // A source that has changed since it was read finds the copies that are known. Those made just now were not.
    if rule.synchronize && sources.have_changed(&shared.source_versions()) {
        shared.look_again(entry, trigger);
    }
    errors.extend(plan.failures.iter().map(|failure| Trouble::Broken(failure.error.to_string())));
    worst(errors)
}

/// Several errors as one: the one that waits longest decides, all of them are told.
fn worst(errors: Vec<Trouble>) -> Result<(), Trouble> {
    let text = errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
    let any = |test: fn(&Trouble) -> bool| errors.iter().any(test);
    if errors.is_empty() {
        Ok(())
    } else if any(|error| matches!(error, Trouble::NotOurTurn)) {
        Err(Trouble::NotOurTurn)
    } else if any(|error| matches!(error, Trouble::Outage(_))) {
        Err(Trouble::Outage(text))
    } else if any(|error| matches!(error, Trouble::Refused(_))) {
        Err(Trouble::Refused(text))
    } else {
        Err(Trouble::Broken(text))
    }
}

/// Labels the sources of clones. That it fails is no reason not to clone.
async fn mark_sources(shared: &Shared, entry: &RuleEntry, plan: &Plan, sources: &Sources) {
    let uids: BTreeSet<&str> =
        plan.targets.iter().filter_map(|target| target.source.as_ref()).map(|source| source.uid.as_str()).collect();
    for key in uids.into_iter().filter_map(|uid| sources.unmarked(uid)) {
        if let Err(error) = shared.writer.mark_source(&entry.rule.reach, key).await {
            warn!(source = %key, %error, "Cannot mark a clone source: changes of it will not be followed");
        }
    }
}

/// Deletes what the rule no longer makes for this trigger: copies whose source is gone, and the rest if the policy says so.
async fn prune(shared: &Shared, entry: &RuleEntry, trigger: &TriggerRef, plan: &Plan) -> Result<usize, Trouble> {
    let RuleEntry { policy, rule } = entry;
    if !rule.synchronize {
        return Ok(0);
    }
    let wanted: BTreeSet<&ObjectKey> = plan.targets.iter().map(|target| &target.key).collect();
    let records = shared.downstream().of(&policy.key, &rule.name, trigger);
    let mut stale: Vec<_> = records.into_iter().filter(|(key, _)| !wanted.contains(key)).collect();
    if policy.prune && plan.failures.is_empty() {
        return delete(shared, entry, stale, Grounds::Inferred).await;
    }
    let alive: BTreeSet<&str> =
        plan.targets.iter().filter_map(|target| target.source.as_ref()).map(|source| source.uid.as_str()).collect();
    // Nobody tells of sources that end while nobody works, so what is left of them is found here.
    let mut orphaned = BTreeMap::new();
    for source in stale.iter().filter_map(|(_, record)| record.marks.source.as_ref()) {
        if !orphaned.contains_key(source) {
            let lives = alive.contains(source.uid.as_str()) || source_lives(shared, source).await?;
            orphaned.insert(source.clone(), !lives);
        }
    }
    stale.retain(|(_, record)| record.marks.source.as_ref().is_some_and(|source| orphaned.get(source) == Some(&true)));
    delete(shared, entry, stale, Grounds::Asked).await
}

/// Deletes everything that a rule has made for a trigger.
pub(super) async fn clean_up(
    shared: &Shared,
    entry: &RuleEntry,
    trigger: &TriggerRef,
    grounds: Grounds,
) -> Result<usize, Trouble> {
    let records = shared.downstream().of(&entry.policy.key, &entry.rule.name, trigger);
    delete(shared, entry, records, grounds).await
}

async fn delete(
    shared: &Shared,
    entry: &RuleEntry,
    records: Vec<(ObjectKey, Record)>,
    grounds: Grounds,
) -> Result<usize, Trouble> {
    let RuleEntry { policy, rule } = entry;
    let (mut deleted, mut errors) = (0, Vec::new());
    // What another client labelled while this replica led, and no plan has ever held, is not the rule's to delete.
    for (key, record) in records.into_iter().filter(|(_, record)| !record.is_foreign()) {
        let left = shared.downstream().count(&policy.key, &rule.name);
        let now = Timestamp::now().as_second();
        if grounds == Grounds::Inferred && !shared.brake().passes(&policy.key, &rule.name, left, now) {
            shared.metrics.held();
            return Err(Trouble::Refused(format!(
                "deletion of {key} is held: the rule would lose most of its {left} objects at once, and nobody deleted a trigger, rule or policy; if it is meant, change the policy (an annotation will do) or allow more with --delete-brake"
            )));
        }
        // Forgotten first: the event about its end must not bring it back.
        shared.downstream().remove(&key);
        let version = record.version.to_string();
        let seen = Basis { uid: &record.uid, version: &version };
        let still = |stored: &Value| Marks::read(stored).as_ref() == Some(&record.marks);
        match shared.writer.delete(&rule.reach, &key, seen, still).await {
            Ok(Deletion::Done | Deletion::Gone) => {
                shared.metrics.written("deleted");
                deleted += 1;
            }
            Ok(Deletion::Kept) => shared.downstream().put_back(key, record),
            Err(error) => {
                // It may well be there still: the next attempt must find it. The others can go all the same.
                shared.downstream().put_back(key, record);
                errors.push(Trouble::of_write(error));
            }
        }
    }
    if deleted > 0 {
        info!(policy = %policy.key, rule = %rule.name, deleted, "Cleaned up");
    }
    worst(errors).map(|()| deleted)
}

/// Makes an event of an error that is worth one.
pub(super) fn tell(shared: &Shared, entry: &RuleEntry, trigger: &TriggerRef, trouble: Trouble) -> Trouble {
    if let Trouble::Refused(error) | Trouble::Broken(error) = &trouble {
        let TriggerRef { gvk, namespace, name, .. } = trigger.clone();
        warn!(policy = %entry.policy.key, rule = %entry.rule.name, error, "The rule failed");
        shared.herald.tell(Happening::Failed {
            policy: entry.policy.key.clone(),
            rule: entry.rule.name.clone(),
            trigger: ObjectKey { gvk, namespace, name },
            error: error.clone(),
        });
    }
    trouble
}

impl Trouble {
    pub(super) fn of_write(error: WriteError) -> Self {
        match error {
            WriteError::Cluster(error) => error.into(),
            WriteError::NotOurTurn => Self::NotOurTurn,
            other => Self::Broken(other.to_string()),
        }
    }
}

impl From<ClusterError> for Trouble {
    fn from(error: ClusterError) -> Self {
        match error {
            error if error.is_outage() => Self::Outage(error.to_string()),
            ClusterError::Refused { .. } | ClusterError::Conflict { .. } | ClusterError::Rejected { .. } => {
                Self::Refused(error.to_string())
            }
            error => Self::Broken(error.to_string()),
        }
    }
}

impl From<DriveError> for Trouble {
    fn from(error: DriveError) -> Self {
        match error {
            DriveError::Cluster(error) => error.into(),
            error @ DriveError::Panicked { .. } => Self::Parked(error.to_string()),
            other => Self::Broken(other.to_string()),
        }
    }
}
