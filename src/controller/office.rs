//! Taking over, working, remembering, handing over.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Map, Value};
use tokio::sync::mpsc::channel;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};
use tracing::{debug, info, warn};

use super::policies::{resume, visit, write_all_status};
use super::process::{Trouble, process};
use super::queue::Task;
use super::shared::Shared;
use crate::cluster::kinds::ApiKind;
use crate::cluster::memory::{Checkpoint, Memory};
use crate::cluster::watch::{Event, follow};
use crate::cluster::{ClusterError, Selection};
use crate::core::generate::progress::{Moment, Progress};
use crate::core::generate::{PolicyKey, Rule, Way};
use crate::core::resource::{Gvk, text_at};
use crate::core::settings::Settings;
use crate::index::{Indexed, RuleEntry, Snapshot};
use crate::telemetry::RuleInfo;

const REMEMBER_EVERY: Duration = Duration::from_secs(5);
/// Every so many seconds it is looked whether a comparison is whole.
const COMPARISONS_TOLD: u64 = 5;
const OUTAGE_PAUSE: Duration = Duration::from_secs(2);
pub(super) const REFUSAL_PAUSE: Duration = Duration::from_secs(120);
/// A rule that fails for a trigger is tried so often (some five seconds in all), then waits for the next event.
const ATTEMPTS: u32 = 8;
/// Attempts to write the checkpoint when another client writes it at the same time.
const CHECKPOINT_ATTEMPTS: usize = 3;
/// Clocks of API servers may differ by so many seconds.
const CLOCK_SKEW: i64 = 10;

/// Works whenever this replica holds the lease. Watches tell everything; should one not, comparing everything each
/// `interval` finds it out, unless that is zero.
pub(super) async fn serve_terms(
    shared: Arc<Shared>,
    memory: Memory,
    synced: [watch::Receiver<bool>; 3],
    interval: Duration,
) {
    let mut turns = shared.tenure.changes();
    for mut listed in synced {
        if listed.wait_for(|known| *known).await.is_err() {
            return;
        }
    }
    loop {
        if turns.wait_for(|held| *held).await.is_err() {
            return;
        }
        let recalled = loop {
            match memory.recall().await {
                Ok(recalled) => break recalled,
                Err(error) => {
                    warn!(%error, "Cannot recall how far the rules have come");
                    sleep(Duration::from_millis(500)).await;
                }
            }
        };
        let Checkpoint { progress, version } = recalled;
        info!(fresh = progress.is_none(), "Working");
        let known = progress.clone().unwrap_or_default();
        *shared.checkpoint().await = StoredCheckpoint { progress: known, is_own: false, version };
        resume(&shared, progress);
        let term = async {
            write_all_status(&shared).await;
            let mut compared = Instant::now();
            loop {
                remember(&shared, &memory).await;
                sleep(REMEMBER_EVERY).await;
                if !interval.is_zero() && compared.elapsed() >= interval {
                    compared = Instant::now();
                    let snapshot = shared.snapshot.load_full();
                    snapshot.policies().for_each(|indexed| visit(&shared, indexed));
                }
            }
        };
        tokio::select! {
            () = term => {}
            ended = turns.wait_for(|held| !*held) => {
                if ended.is_err() {
                    return;
                }
            }
        }
        shared.set_working(false);
        shared.queue.clear();
        info!("Another replica works now");
    }
}

/// Takes work from the queue until told to finish.
pub(super) async fn work(shared: Arc<Shared>, mut finishing: watch::Receiver<bool>) {
    loop {
        let task = tokio::select! {
            task = shared.queue.take() => task,
            _ = finishing.wait_for(|finish| *finish) => return,
        };
        let Task { key, mut work, failures, .. } = task;
        let started = Instant::now();
        let result = process(&shared, &key.policy, &key.rule, &work, failures > 0).await;
        shared.metrics.executed(&key.policy, &key.rule, result.is_ok(), started.elapsed());
        match result {
            Ok(report) => {
                if !report.created.is_empty() {
                    shared.metrics.latency(work.seen.elapsed());
                }
                shared.queue.done(&key);
            }
            Err(trouble) => {
                debug!(policy = %key.policy, rule = key.rule, error = %trouble, failures, "Not done");
                // An object that was fresh then may not be so any more.
                work.object = None;
                match longest_pause(&trouble, failures, shared.is_working()) {
                    Some(longest) => shared.queue.failed(&key, work, longest),
                    None => shared.queue.done(&key),
                }
            }
        }
    }
}

/// How long the pause before the next attempt may become; nothing if there is none.
fn longest_pause(trouble: &Trouble, failures: u32, working: bool) -> Option<Duration> {
    match trouble {
        Trouble::Outage(_) => Some(OUTAGE_PAUSE),
        Trouble::Refused(_) => Some(REFUSAL_PAUSE),
        Trouble::Broken(_) => (failures + 1 < ATTEMPTS).then_some(REFUSAL_PAUSE),
        Trouble::Parked(_) => None,
        // The lease ran out and may yet be renewed. If it is not, whoever works then finds out for themselves.
        Trouble::NotOurTurn => working.then_some(OUTAGE_PAUSE),
    }
}

/// The checkpoint as this leader knows it.
#[derive(Debug, Default)]
pub(super) struct StoredCheckpoint {
    progress: Progress,
    /// Whether this leader has written it. Its first write takes the checkpoint from former leaders: they know another version.
    is_own: bool,
    version: String,
}

/// Stores how far the rules have come, if that is other than what is stored. Only the leader does, and only over the version
/// that it knows.
pub(super) async fn remember(shared: &Shared, memory: &Memory) {
    let mut stored = shared.checkpoint().await;
    for _ in 0..CHECKPOINT_ATTEMPTS {
        if !(shared.is_working() && shared.tenure.is_held()) {
            return;
        }
        let progress = advance(shared, &stored.progress);
        if stored.is_own && stored.progress == progress {
            return;
        }
        // The install ships the ConfigMap; without it there is no version to write over.
        if stored.version.is_empty() {
            match memory.recall().await {
                Ok(Checkpoint { version, .. }) => stored.version = version,
                Err(error) => return warn!(%error, "Cannot read the checkpoint"),
            }
        }
        match memory.store(&progress, &shared.identity, &stored.version).await {
            Ok(version) => {
                *stored = StoredCheckpoint { progress, is_own: true, version };
                return;
            }
            // A former leader was late, or another client wrote it: what this leader knows counts.
            Err(ClusterError::Conflict { .. }) => stored.version.clear(),
            Err(error) => return warn!(%error, "Cannot store how far the rules have come"),
        }
    }
}

/// Moves the cursors to what is done for sure.
fn advance(shared: &Shared, stored: &Progress) -> Progress {
    let newest = shared.newest().clone();
    let mut pending: BTreeMap<(PolicyKey, String), u64> = BTreeMap::new();
    let mut busy: BTreeSet<(PolicyKey, String)> = BTreeSet::new();
    shared.queue.visit(|key, work| {
        let rule = (key.policy.clone(), key.rule.clone());
        match work.map(|work| work.version) {
            Some(version @ 1..) => {
                let oldest = pending.entry(rule).or_insert(version);
                *oldest = version.min(*oldest);
            }
            _ => drop(busy.insert(rule)),
        }
    });
    let seconds = Timestamp::now().as_second() - CLOCK_SKEW;
    let mut current = shared.progress();
    for (policy, entry) in &mut current.0 {
        for (name, rule) in &mut entry.rules {
            let key = (policy.clone(), name.clone());
            // A pass that is not through may still find older triggers than those that the watch has brought.
            let busy = busy.contains(&key) || shared.has_passes(&key);
            let done = match (busy, pending.get(&key), newest.get(&key)) {
                (true, ..) | (_, _, None) => continue,
                (false, Some(oldest), Some(_)) => oldest.saturating_sub(1),
                (false, None, Some(newest)) => *newest,
            };
            if done > rule.cursor.version {
                rule.cursor = Moment { version: done, seconds };
            }
        }
    }
    let mut progress = current.clone();
    drop(current);
    // Existing triggers are gone through when the last of them is done, not when the last of them is listed.
    for (policy, entry) in &mut progress.0 {
        let before = stored.0.get(policy).filter(|before| before.uid == entry.uid);
        for (name, rule) in &mut entry.rules {
            let key = (policy.clone(), name.clone());
            if busy.contains(&key) || pending.contains_key(&key) {
                let before = before.and_then(|before| before.rules.get(name));
                rule.existing = before.map(|before| before.existing.clone()).unwrap_or_default();
            }
        }
    }
    progress
}

/// Follows the ConfigMap of the operators' settings.
pub(super) async fn follow_settings(shared: Arc<Shared>, name: String) {
    let kind = Arc::new(ApiKind::builtin("v1", "ConfigMap"));
    let selection = Selection { namespace: Some(shared.namespace.clone()), name: name.clone(), ..Selection::default() };
    let (sender, mut events) = channel(16);
    let following = follow(shared.api.clone(), kind, selection, sender);
    let reading = async {
        let empty = Map::new();
        while let Some(event) = events.recv().await {
            let data = match &event {
                Event::Listed(map) | Event::Changed(map) if text_at(map, &["metadata", "name"]) == name => {
                    map.get("data").and_then(Value::as_object).unwrap_or(&empty)
                }
                Event::Deleted(map) if text_at(map, &["metadata", "name"]) == name => &empty,
                Event::Trouble(error) => {
                    warn!(%error, "Cannot watch the settings");
                    continue;
                }
                _ => continue,
            };
            let mut problems = Vec::new();
            let settings = Settings::read(data, &shared.namespace, &mut problems);
            problems.iter().for_each(|problem| warn!(%problem, "A setting cannot be read"));
            shared.settings.store(Arc::new(settings));
        }
    };
    tokio::join!(following, reading);
}

/// Keeps the gauges current.
pub(super) async fn report(shared: Arc<Shared>) {
    let mut told = Arc::default();
    for second in 0_u64.. {
        let snapshot = shared.snapshot.load_full();
        if !Arc::ptr_eq(&told, &snapshot) {
            shared.metrics.rules(snapshot.policies().flat_map(|indexed| rules_of(indexed)));
            for (kind, namespaced) in [("ClusterPolicy", false), ("Policy", true)] {
                let of_kind = snapshot.policies().filter(|indexed| indexed.key.namespace.is_some() == namespaced);
                let count = of_kind.filter(|indexed| indexed.review.is_unreviewed()).count();
                shared.metrics.unreviewed(kind, count);
            }
            told = snapshot;
        }
        if second % COMPARISONS_TOLD == 0 && shared.is_working() {
            shared.metrics.comparisons(&comparisons(&shared, &told));
        }
        shared.metrics.backlog(shared.queue.depth(), shared.queue.oldest());
        shared.metrics.events_dropped(shared.herald.dropped());
        shared.metrics.leading(shared.is_working());
        sleep(Duration::from_secs(1)).await;
    }
}

fn rules_of(indexed: &Indexed) -> Vec<RuleInfo> {
    let PolicyKey { namespace, name } = &indexed.key;
    let rules = indexed.policy.iter().flat_map(|policy| &policy.rules);
    let info = |rule: &Arc<Rule>| RuleInfo {
        namespace: namespace.clone(),
        policy: name.clone(),
        rule: rule.name.clone(),
        ready: indexed.problems.is_empty(),
    };
    rules.map(info).collect()
}

/// What has to be gone through for a whole comparison: the triggers of every rule that synchronizes, kind by kind.
fn comparisons(shared: &Shared, snapshot: &Snapshot) -> BTreeSet<String> {
    let kinds = shared.discovery.kinds();
    let entries = snapshot.rules().filter(|entry| entry.rule.synchronize && entry.rule.way() == Way::Watch);
    let of_rule = |entry: RuleEntry| -> Vec<String> {
        let selected = entry.rule.matching.matching.kinds().flat_map(|selector| kinds.select(selector));
        selected.map(|kind| comparison(&entry.policy.key, &entry.rule.name, &kind.gvk)).collect()
    };
    entries.flat_map(of_rule).collect()
}

/// One rule and one kind of its triggers, as a text.
pub(super) fn comparison(policy: &PolicyKey, rule: &str, gvk: &Gvk) -> String {
    format!("{policy} {rule} {gvk}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::ClusterError;

    #[test]
    fn what_is_tried_again() {
        let text = String::new;
        assert_eq!(longest_pause(&Trouble::Outage(text()), 1000, true), Some(OUTAGE_PAUSE));
        assert_eq!(longest_pause(&Trouble::Refused(text()), 1000, true), Some(REFUSAL_PAUSE));
        assert_eq!(longest_pause(&Trouble::Broken(text()), ATTEMPTS - 2, true), Some(REFUSAL_PAUSE));
        assert_eq!(longest_pause(&Trouble::Broken(text()), ATTEMPTS - 1, true), None);
        assert_eq!(longest_pause(&Trouble::NotOurTurn, 0, true), Some(OUTAGE_PAUSE), "the term has not ended");
        assert_eq!(longest_pause(&Trouble::NotOurTurn, 0, false), None);
        assert_eq!(longest_pause(&Trouble::Parked(text()), 0, true), None, "only a change helps");
        let rejected = ClusterError::Rejected { verb: "create", resource: text(), reason: text() };
        assert_eq!(longest_pause(&rejected.into(), 1000, true), Some(REFUSAL_PAUSE), "without end");
    }
}
