//! What all parts of the controller share.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use serde_json::Value;
use tokio::sync::{Notify, mpsc};
use tokio::time::{Instant, sleep};

use super::chores::{Chore, RuleEnd};
use super::downstream::Downstream;
use super::office::StoredCheckpoint;
use super::panics::Panics;
use super::provenance::Origin;
use super::queue::{Lane, Queue};
use super::triggers::Triggers;
use super::work::{Causes, Work, WorkKey};
use crate::cluster::apply::Writer;
use crate::cluster::discovery::Discovery;
use crate::cluster::events::Herald;
use crate::cluster::globals::Globals;
use crate::cluster::keys::KeyReader;
use crate::cluster::lease::Tenure;
use crate::cluster::{Api, Reader};
use crate::core::generate::progress::{Moment, Progress, RuleProgress};
use crate::core::generate::{Brake, InstallBounds, Marks, Outbound, PolicyKey, TriggerRef, Way};
use crate::core::matching::Resource;
use crate::core::resource::{Gvk, ObjectKey};
use crate::core::reviewed::ReviewCheck;
use crate::core::settings::Settings;
use crate::index::{Index, RuleEntry, Snapshot};
use crate::telemetry::GenerateMetrics;

/// Objects that wait in the queue; beyond that a key is enough, and the object is read when its turn comes, which costs the API
/// server as much as a write.
const HELD_OBJECTS: usize = 2048;
/// For so long after taking over, watches may bring writes of the former leader.
const FORMER_WRITES: Duration = Duration::from_secs(60);
/// A generated object that somebody deletes stays away for so long. Many a client waits for the end of what it deletes by
/// asking for the name, again and again; if another were there at once, it would never see the end.
const ABSENCE: Duration = Duration::from_millis(300);

pub(super) struct Shared {
    pub(super) api: Api,
    pub(super) discovery: Arc<Discovery>,
    pub(super) reader: Reader,
    pub(super) outbound: Arc<Outbound>,
    pub(super) globals: Globals,
    pub(super) writer: Writer,
    pub(super) tenure: Tenure,
    pub(super) herald: Herald,
    pub(super) metrics: GenerateMetrics,
    pub(super) snapshot: Arc<ArcSwap<Snapshot>>,
    pub(super) settings: Arc<ArcSwap<Settings>>,
    pub(super) queue: Queue<WorkKey, Work>,
    pub(super) chores: mpsc::UnboundedSender<Chore>,
    /// Something other has to be watched.
    pub(super) rewatch: Notify,
    /// The namespace of the install.
    pub(super) namespace: String,
    /// The name of this replica.
    pub(super) identity: String,
    run_unreviewed: bool,
    /// How long the objects of an absent policy stay.
    absence_grace: Duration,
    /// The key of reviews, and what makes `random()` the same for one trigger again and again.
    pub(super) keys: KeyReader,
    /// The resource version at which the policies were first listed.
    pub(super) listed_at: AtomicU64,
    /// This replica does the work: it holds the lease and knows how far the rules have come.
    working: AtomicBool,
    leading_since: Mutex<Option<Instant>>,
    index: Mutex<Index>,
    triggers: Mutex<Triggers>,
    downstream: Mutex<Downstream>,
    progress: Mutex<Progress>,
    brake: Mutex<Brake>,
    /// The newest trigger of each one-shot rule.
    newest: Mutex<HashMap<(PolicyKey, String), u64>>,
    /// How many passes over triggers a rule has before it. Until they are through, nothing is known to be done.
    passes: Counts,
    /// How many pieces of work of a rule are being written right now.
    writing: Counts,
    /// Rules whose former targets are being let go: until then they make no others.
    releasing: Counts,
    /// The newest version of each source that a watch has brought, by UID.
    source_versions: Mutex<HashMap<String, u64>>,
    pub(super) panics: Panics,
    checkpoint: tokio::sync::Mutex<StoredCheckpoint>,
}

/// When a trigger was last changed, and by whom.
pub(super) struct Sighting {
    moment: Moment,
    origin: Origin,
}

/// How many pieces of something are under way for each rule.
type Counts = Mutex<HashMap<(PolicyKey, String), usize>>;

/// One piece that is under way for a rule, until this is dropped.
pub(super) struct Underway<'s> {
    counts: &'s Counts,
    rule: (PolicyKey, String),
}

impl Drop for Underway<'_> {
    fn drop(&mut self) {
        let mut counts = lock(self.counts);
        if let Some(count) = counts.get_mut(&self.rule) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.rule);
            }
        }
    }
}

/// Everything that is made elsewhere.
pub(super) struct Parts {
    pub(super) api: Api,
    pub(super) discovery: Arc<Discovery>,
    pub(super) reader: Reader,
    pub(super) outbound: Arc<Outbound>,
    pub(super) globals: Globals,
    pub(super) writer: Writer,
    pub(super) tenure: Tenure,
    pub(super) herald: Herald,
    pub(super) metrics: GenerateMetrics,
    pub(super) snapshot: Arc<ArcSwap<Snapshot>>,
    pub(super) settings: Arc<ArcSwap<Settings>>,
    pub(super) chores: mpsc::UnboundedSender<Chore>,
    pub(super) namespace: String,
    pub(super) keys: KeyReader,
    pub(super) identity: String,
    pub(super) run_unreviewed: bool,
    pub(super) absence_grace: Duration,
    pub(super) brake: Brake,
}

impl Shared {
    pub(super) fn new(parts: Parts) -> Self {
        let Parts {
            api,
            discovery,
            reader,
            outbound,
            globals,
            writer,
            tenure,
            herald,
            metrics,
            snapshot,
            settings,
            chores,
            namespace,
            keys,
            identity,
            run_unreviewed,
            absence_grace,
            brake,
        } = parts;
        Self {
            api,
            discovery,
            reader,
            outbound,
            globals,
            writer,
            tenure,
            herald,
            metrics,
            snapshot,
            settings,
            queue: Queue::default(),
            chores,
            rewatch: Notify::new(),
            namespace,
            keys,
            identity,
            run_unreviewed,
            absence_grace,
            listed_at: AtomicU64::new(0),
            panics: Panics::default(),
            working: AtomicBool::new(false),
            leading_since: Mutex::default(),
            index: Mutex::default(),
            triggers: Mutex::default(),
            downstream: Mutex::default(),
            progress: Mutex::default(),
            brake: Mutex::new(brake),
            newest: Mutex::default(),
            passes: Mutex::default(),
            writing: Mutex::default(),
            releasing: Mutex::default(),
            source_versions: Mutex::default(),
            checkpoint: tokio::sync::Mutex::default(),
        }
    }

    /// Decides which stored policies run, with the key that is in force now.
    pub(super) fn review_check(&self) -> ReviewCheck {
        ReviewCheck {
            key: self.keys.current().map(|keys| keys.mac.clone()),
            run_unreviewed: self.run_unreviewed,
            namespace: self.namespace.clone(),
        }
    }

    /// The end of a rule whose policy is absent.
    pub(super) fn absence(&self) -> RuleEnd {
        RuleEnd::Absent { until: Instant::now() + self.absence_grace }
    }

    /// What limits every rule at this moment.
    pub(super) fn bounds(&self) -> InstallBounds {
        let catalog = self.discovery.kinds().catalog();
        InstallBounds::of_cluster(catalog, &*self.namespace).with_outbound(self.outbound.clone())
    }

    pub(super) fn index(&self) -> MutexGuard<'_, Index> {
        lock(&self.index)
    }

    pub(super) fn triggers(&self) -> MutexGuard<'_, Triggers> {
        lock(&self.triggers)
    }

    pub(super) fn downstream(&self) -> MutexGuard<'_, Downstream> {
        lock(&self.downstream)
    }

    pub(super) fn progress(&self) -> MutexGuard<'_, Progress> {
        lock(&self.progress)
    }

    /// The checkpoint as it was last read or written here; held while it is written.
    pub(super) async fn checkpoint(&self) -> tokio::sync::MutexGuard<'_, StoredCheckpoint> {
        self.checkpoint.lock().await
    }

    pub(super) fn brake(&self) -> MutexGuard<'_, Brake> {
        lock(&self.brake)
    }

    pub(super) fn newest(&self) -> MutexGuard<'_, HashMap<(PolicyKey, String), u64>> {
        lock(&self.newest)
    }

    /// Leave to write for a rule, as long as it is still the rule that was evaluated. Whoever cleans up after a rule waits
    /// for these to end, so nothing is made behind their back.
    pub(super) fn write_for(&self, entry: &RuleEntry) -> Option<Underway<'_>> {
        let rule = (entry.policy.key.clone(), entry.rule.name.clone());
        if lock(&self.releasing).contains_key(&rule) {
            return None;
        }
        *lock(&self.writing).entry(rule.clone()).or_default() += 1;
        let writing = Underway { counts: &self.writing, rule };
        let current = self.snapshot.load().rule(&entry.policy.key, &entry.rule.name);
        current.filter(|current| Arc::ptr_eq(&current.rule, &entry.rule)).map(|_| writing)
    }

    /// Waits until nothing is being written for a rule that has ended or changed.
    pub(super) async fn written(&self, policy: &PolicyKey, rule: &str) {
        let rule = (policy.clone(), rule.to_owned());
        while lock(&self.writing).contains_key(&rule) {
            sleep(Duration::from_millis(5)).await;
        }
    }

    pub(super) fn is_working(&self) -> bool {
        self.working.load(Ordering::Acquire)
    }

    pub(super) fn set_working(&self, working: bool) {
        *lock(&self.leading_since) = working.then(Instant::now);
        self.working.store(working, Ordering::Release);
    }

    /// Lets readers see what the index holds.
    pub(super) fn publish(&self) {
        let snapshot = self.index().snapshot();
        self.snapshot.store(snapshot);
        self.rewatch.notify_one();
    }

    pub(super) fn chore(&self, chore: Chore) {
        if let Some((counts, rule)) = self.counted(&chore) {
            *lock(counts).entry(rule).or_default() += 1;
        }
        // The receiver lives as long as the controller; at its end chores are not missed.
        let _ = self.chores.send(chore);
    }

    /// The end of this ends a chore that others wait for.
    pub(super) fn underway(&self, chore: &Chore) -> Option<Underway<'_>> {
        self.counted(chore).map(|(counts, rule)| Underway { counts, rule })
    }

    fn counted(&self, chore: &Chore) -> Option<(&Counts, (PolicyKey, String))> {
        match chore {
            Chore::Pass { policy, rule, .. } => Some((&self.passes, (policy.clone(), rule.clone()))),
            Chore::Release { policy, rule, .. } => Some((&self.releasing, (policy.clone(), rule.clone()))),
            Chore::Bury { .. } | Chore::CheckSource { .. } => None,
        }
    }

    /// Whether a rule has yet to go through some of its triggers.
    pub(super) fn has_passes(&self, rule: &(PolicyKey, String)) -> bool {
        if lock(&self.passes).contains_key(rule) {
            return true;
        }
        let snapshot = self.snapshot.load();
        let Some(entry) = snapshot.rule(&rule.0, &rule.1) else { return false };
        // Kinds whose watch has not begun are gone through when it does.
        let kinds = self.discovery.kinds();
        let triggers = self.triggers();
        let mut selected = entry.rule.matching.matching.kinds().flat_map(|selector| kinds.select(selector));
        selected.any(|kind| !triggers.is_synced(&kind.gvk, rule.0.namespace.as_deref()))
    }

    pub(super) fn rule_progress(&self, policy: &PolicyKey, rule: &str) -> Option<RuleProgress> {
        self.progress().0.get(policy)?.rules.get(rule).cloned()
    }

    /// When an object with its managed fields was last changed, and by whom. `live`: an event of the watch has brought it.
    pub(super) fn sight(&self, object: &Value, live: bool) -> Sighting {
        let writes = self.writer.own_writes();
        // This replica remembers its own writes. Those of a former leader may still come in for a while.
        let remembers = live && lock(&self.leading_since).is_some_and(|since| since.elapsed() > FORMER_WRITES);
        let origin = if writes.holds(object) {
            Origin::Own
        } else if writes.is_under_way(&ObjectKey::of(object)) || !remembers && Marks::read(object).is_some() {
            Origin::Unproven
        } else {
            Origin::User
        };
        Sighting { moment: Moment::of(object), origin }
    }

    /// Puts a trigger that the watch has brought before every rule that it may concern.
    pub(super) fn offer(&self, gvk: &Gvk, object: Value, sighting: &Sighting, causes: Causes) {
        let snapshot = self.snapshot.load();
        let key = ObjectKey::of(&object);
        if self.is_filtered(&key) {
            return;
        }
        let resource = Resource { group: &gvk.group, version: &gvk.version, kind: &gvk.kind, subresource: "" };
        let object = Arc::new(object);
        for entry in snapshot.candidates(&resource) {
            let Some(proof) = self.concerns(entry, sighting) else { continue };
            let (causes, trigger) = (causes | proof, TriggerRef::of(&object));
            let is_news = self
                .rule_progress(&entry.policy.key, &entry.rule.name)
                .is_some_and(|progress| sighting.moment.version > progress.start.version);
            if is_news || self.has_downstream(entry, &trigger) {
                self.enqueue_trigger(Lane::Live, entry, causes, trigger, &object, sighting);
            }
        }
    }

    /// Has every rule that a kind may concern go through what there is of it.
    pub(super) fn pass_over(&self, gvk: &Gvk) {
        let snapshot = self.snapshot.load();
        let resource = Resource { group: &gvk.group, version: &gvk.version, kind: &gvk.kind, subresource: "" };
        for entry in snapshot.candidates(&resource).filter(|entry| entry.rule.way() == Way::Watch) {
            let (policy, rule) = (entry.policy.key.clone(), entry.rule.name.clone());
            self.chore(Chore::Pass { policy, rule, gvk: gvk.clone() });
        }
    }

    /// Whether a rule listens to watched triggers at all, and to changes of this author: what is known of that.
    fn concerns(&self, entry: &RuleEntry, sighting: &Sighting) -> Option<Causes> {
        if entry.rule.way() != Way::Watch {
            return None;
        }
        match (entry.rule.skip_background_requests, sighting.origin) {
            (false, _) | (true, Origin::User) => Some(Causes::PROVEN),
            (true, Origin::Unproven) => Some(Causes::default()),
            (true, Origin::Own) => {
                // After a restart the write is not remembered, but the checkpoint has it.
                self.note_newest(entry, sighting.moment.version);
                None
            }
        }
    }

    /// Notes that a one-shot rule has come to a trigger.
    fn note_newest(&self, entry: &RuleEntry, version: u64) {
        if !entry.rule.synchronize {
            let mut newest = self.newest();
            let newest = newest.entry((entry.policy.key.clone(), entry.rule.name.clone())).or_default();
            *newest = version.max(*newest);
        }
    }

    /// Whether a trigger that is there already counts for a rule, and why. `existing`: every trigger that there is does.
    pub(super) fn counts(
        &self,
        entry: &RuleEntry,
        progress: &RuleProgress,
        existing: bool,
        object: &Value,
        sighting: &Sighting,
    ) -> Option<Causes> {
        let cause = if existing { Causes::EXISTING } else { Causes::TRIGGER };
        if entry.rule.way() == Way::Watch && self.has_downstream(entry, &TriggerRef::of(object)) {
            return Some(cause | Causes::PROVEN);
        }
        if existing {
            // What exists was brought by no request, so it matters not by whose. But no rule feeds on itself.
            let claims = |marks: Marks| marks.policy == entry.policy.key && marks.rule == entry.rule.name;
            let is_claimed = entry.rule.skip_background_requests && Marks::read(object).is_some_and(claims);
            return Some(if is_claimed { cause } else { cause | Causes::PROVEN });
        }
        let proof = self.concerns(entry, sighting)?;
        let is_news = progress.is_news(entry.rule.synchronize, sighting.moment);
        (is_news && !self.is_filtered(&ObjectKey::of(object))).then_some(cause | proof)
    }

    fn has_downstream(&self, entry: &RuleEntry, trigger: &TriggerRef) -> bool {
        let mut made = self.downstream().of(&entry.policy.key, &entry.rule.name, trigger).into_iter();
        entry.rule.synchronize && made.any(|(_, record)| !record.is_foreign())
    }

    pub(super) fn is_filtered(&self, key: &ObjectKey) -> bool {
        let Gvk { group, version, kind } = &key.gvk;
        let resource = Resource { group, version, kind, subresource: "" };
        let namespace = key.namespace.as_deref().unwrap_or_default();
        self.settings.load().resource_filters.matches(&resource, namespace, &key.name)
    }

    pub(super) fn enqueue_trigger(
        &self,
        lane: Lane,
        entry: &RuleEntry,
        causes: Causes,
        trigger: TriggerRef,
        object: &Arc<Value>,
        sighting: &Sighting,
    ) {
        let key = WorkKey::new(&entry.policy.key, &entry.rule.name, &trigger);
        let mut work = Work::new(causes, trigger);
        work.version = sighting.moment.version;
        self.note_newest(entry, work.version);
        if self.queue.depth() < HELD_OBJECTS {
            work.object = Some(object.clone());
        }
        self.queue.add(lane, key, work);
    }

    /// Has the rule that made an object look at it again, if it keeps its objects in step.
    pub(super) fn enqueue_owner(&self, lane: Lane, marks: &Marks, causes: Causes, lost_source: Option<&str>) {
        if let Some((key, work)) = self.owners_work(marks, causes, lost_source) {
            self.queue.add(lane, key, work);
        }
    }

    /// The same after a pause, for an object that somebody has changed.
    pub(super) fn enqueue_owner_later(&self, lane: Lane, marks: &Marks, pause: Duration) {
        if pause.is_zero() {
            return self.enqueue_owner(lane, marks, Causes::DOWNSTREAM, None);
        }
        if let Some((key, work)) = self.owners_work(marks, Causes::DOWNSTREAM, None) {
            self.queue.add_later(lane, key, work, pause);
        }
    }

    /// Has the rule that made an object which somebody has just deleted make it again, after a moment.
    pub(super) fn restore(&self, marks: &Marks) {
        self.enqueue_owner_later(Lane::Live, marks, ABSENCE);
    }

    fn owners_work(&self, marks: &Marks, causes: Causes, lost_source: Option<&str>) -> Option<(WorkKey, Work)> {
        let snapshot = self.snapshot.load();
        let entry = snapshot.rule(&marks.policy, &marks.rule)?;
        // What was made for a request cannot be made again without it; but the end of a trigger or a source is plain enough.
        let can_tell = marks.trigger.is_findable() || lost_source.is_some();
        if !self.is_working() || !entry.rule.synchronize || !can_tell {
            return None;
        }
        let mut work = Work::new(causes, marks.trigger.clone());
        work.lost_sources.extend(lost_source.map(str::to_owned));
        Some((WorkKey::new(&marks.policy, &marks.rule, &marks.trigger), work))
    }

    /// Has a rule that synchronizes look at a trigger once more.
    pub(super) fn look_again(&self, entry: &RuleEntry, trigger: &TriggerRef) {
        let key = WorkKey::new(&entry.policy.key, &entry.rule.name, trigger);
        self.queue.add(Lane::Live, key, Work::new(Causes::SOURCE, trigger.clone()));
    }

    pub(super) fn source_versions(&self) -> MutexGuard<'_, HashMap<String, u64>> {
        lock(&self.source_versions)
    }

    /// Notes a source that a watch has brought.
    pub(super) fn see_source(&self, uid: &str, version: u64) {
        let mut versions = self.source_versions();
        let newest = versions.entry(uid.to_owned()).or_default();
        *newest = version.max(*newest);
    }

    /// Has everybody who copied a source look at it again.
    pub(super) fn enqueue_copies(&self, source: &str, lost: bool) {
        let copies = self.downstream().copies_of(source);
        for marks in copies {
            self.enqueue_owner(Lane::Live, &marks, Causes::SOURCE, lost.then_some(source));
        }
    }
}

/// A panic elsewhere leaves the state usable: every change of it is one call.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
