//! The generated objects that are there: who made them, from what, and what they hold, as a number.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;

use super::work::{WorkKey, identity, name_identity};
use crate::core::generate::diff::fingerprint;
use crate::core::generate::progress::version_of;
use crate::core::generate::{Marks, PolicyKey, TriggerRef};
use crate::core::resource::{Gvk, ObjectKey, is_ending, text_at};

/// All of them, by what is asked for.
#[derive(Debug, Default)]
pub(super) struct Downstream {
    records: HashMap<ObjectKey, Record>,
    /// In order. Mostly one or two: a set would take ten times the memory.
    by_work: HashMap<WorkKey, Vec<ObjectKey>>,
    by_rule: HashMap<(PolicyKey, String), usize>,
    by_source: HashMap<String, BTreeSet<ObjectKey>>,
    watched: HashSet<(Gvk, Option<String>)>,
}

/// One generated object.
#[derive(Clone, Debug)]
pub(super) struct Record {
    pub(super) uid: String,
    pub(super) version: u64,
    pub(super) marks: Marks,
    /// The fingerprint of its content.
    pub(super) content: u64,
    /// The fingerprint of what was wanted when it was last written or found right, and of what came of that. The API
    /// server fills in defaults, so the two differ.
    pub(super) settled: Option<(u64, u64)>,
    /// Somebody has asked for its deletion, and finalizers hold it up.
    pub(super) ending: bool,
    claim: Claim,
    contest: Contest,
}

/// Why an object counts as generated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Claim {
    /// Its labels say so, and it was there before this replica led: objects of former leaders, and of Kyverno, look so.
    Labelled,
    /// A plan of its rule holds it.
    Planned,
    /// Another client put the labels on while this replica led. Labels prove nothing.
    Foreign,
}

/// How often somebody has changed an object after us, one change soon after the other.
#[derive(Clone, Copy, Debug, Default)]
struct Contest {
    changes: u32,
    last: Option<Instant>,
}

/// So many changes in a row are put right at once: people edit more than one field.
const PATIENT_CHANGES: u32 = 4;
const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// After so long without a change by others a contest is over.
const QUIET: Duration = Duration::from_secs(120);

impl Record {
    /// Whether nothing but labels that another client wrote makes it a generated object.
    pub(super) fn is_foreign(&self) -> bool {
        self.claim == Claim::Foreign
    }

    /// Whether it holds what came of our own last write, and can be written over without looking.
    pub(super) fn is_as_we_left_it(&self) -> bool {
        !self.ending && self.settled.is_some_and(|(_, left)| left == self.content)
    }
}

impl Contest {
    fn changed(self, now: Instant) -> Self {
        let goes_on = self.last.is_some_and(|last| now.duration_since(last) < QUIET);
        Self { changes: if goes_on { self.changes.saturating_add(1) } else { 1 }, last: Some(now) }
    }

    /// How long to wait before putting things right: whoever changes what we write as fast as we write it would keep the
    /// API server busy for ever.
    fn pause(self) -> Duration {
        match self.changes.checked_sub(PATIENT_CHANGES) {
            None | Some(0) => Duration::ZERO,
            Some(more) => FIRST_PAUSE.saturating_mul(1 << (more - 1).min(16)).min(LONGEST_PAUSE),
        }
    }
}

/// What an event is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Seen {
    /// Nothing new: our own write, or bookkeeping.
    Same,
    /// Content or owner are other than what is known. The marks are those of now and, if they are others, of before.
    /// They should look at it after this pause.
    Other(Vec<Marks>, Duration),
}

impl Downstream {
    /// Notes that a kind is watched, so that what is written of it is worth remembering.
    pub(super) fn start_watch(&mut self, gvk: &Gvk, namespace: Option<&str>) {
        self.watched.insert((gvk.clone(), namespace.map(str::to_owned)));
    }

    pub(super) fn drop_watch(&mut self, gvk: &Gvk, namespace: Option<&str>) {
        self.watched.remove(&(gvk.clone(), namespace.map(str::to_owned)));
        let keys: Vec<ObjectKey> =
            self.records.keys().filter(|key| key.gvk == *gvk && !self.is_watched(key)).cloned().collect();
        for key in keys {
            self.remove(&key);
        }
    }

    fn is_watched(&self, key: &ObjectKey) -> bool {
        let watched = |namespace: Option<String>| self.watched.contains(&(key.gvk.clone(), namespace));
        watched(None) || key.namespace.is_some() && watched(key.namespace.clone())
    }

    /// Notes an object that the watch has brought. `leading`: this replica makes all generated objects, so it has noted
    /// those already, or does so when the API server answers.
    pub(super) fn see(&mut self, object: &Value, leading: bool) -> Seen {
        let key = ObjectKey::of(object);
        let old = self.records.get(&key);
        let version = version_of(object);
        if old.is_some_and(|old| old.version >= version) {
            return Seen::Same;
        }
        let (marks, content) = (Marks::read(object), fingerprint(object));
        let same = old.is_some_and(|old| Some(&old.marks) == marks.as_ref() && old.content == content);
        let before = old.map(|old| old.marks.clone());
        let settled = old.and_then(|old| old.settled);
        let claim = match old {
            // Who owns it is part of the claim.
            Some(old) if Some(&old.marks) == marks.as_ref() => old.claim,
            _ if leading => Claim::Foreign,
            _ => Claim::Labelled,
        };
        let contest = old.map(|old| old.contest).unwrap_or_default();
        let contest = if same || settled.is_none() { contest } else { contest.changed(Instant::now()) };
        match &marks {
            Some(marks) => self.put(key, Record { contest, claim, ..record(object, marks.clone(), settled) }),
            None => drop(self.remove(&key)),
        }
        if same {
            return Seen::Same;
        }
        let mut owners: Vec<Marks> = marks.into_iter().chain(before).collect();
        owners.dedup();
        Seen::Other(owners, contest.pause())
    }

    /// Notes what came of a write, or an object that was read and found right.
    pub(super) fn settled(&mut self, object: &Value, wanted: u64) {
        let key = ObjectKey::of(object);
        let Some(marks) = Marks::read(object).filter(|_| self.is_watched(&key)) else {
            return;
        };
        let old = self.records.get(&key);
        if old.is_none_or(|old| old.version <= version_of(object)) {
            let settled = Some((wanted, fingerprint(object)));
            let contest = old.map(|old| old.contest).unwrap_or_default();
            self.put(key, Record { contest, ..record(object, marks, settled) });
        }
    }

    /// Notes an object again that was forgotten too early, unless more is known of it by now.
    pub(super) fn put_back(&mut self, key: ObjectKey, record: Record) {
        if !self.records.contains_key(&key) {
            self.put(key, record);
        }
    }

    fn put(&mut self, key: ObjectKey, record: Record) {
        self.remove(&key);
        let work = WorkKey::new(&record.marks.policy, &record.marks.rule, &record.marks.trigger);
        *self.by_rule.entry((work.policy.clone(), work.rule.clone())).or_default() += 1;
        let made = self.by_work.entry(work).or_default();
        if let Err(position) = made.binary_search(&key) {
            made.insert(position, key.clone());
        }
        if let Some(source) = &record.marks.source {
            self.by_source.entry(source.uid.clone()).or_default().insert(key.clone());
        }
        self.records.insert(key, record);
    }

    /// Forgets an object; an event about its end that comes later is no news.
    pub(super) fn remove(&mut self, key: &ObjectKey) -> Option<Record> {
        let record = self.records.remove(key)?;
        let work = WorkKey::new(&record.marks.policy, &record.marks.rule, &record.marks.trigger);
        if let Some(count) = self.by_rule.get_mut(&(work.policy.clone(), work.rule.clone())) {
            *count -= 1;
        }
        if let Some(made) = self.by_work.get_mut(&work) {
            made.retain(|made| made != key);
            if made.is_empty() {
                self.by_work.remove(&work);
            }
        }
        if let Some(source) = &record.marks.source
            && let Some(copies) = self.by_source.get_mut(&source.uid)
        {
            copies.remove(key);
            if copies.is_empty() {
                self.by_source.remove(&source.uid);
            }
        }
        Some(record)
    }

    /// After a list: what it did not name is gone, unless it is newer than the list.
    pub(super) fn settle(
        &mut self,
        gvk: &Gvk,
        namespace: Option<&str>,
        listed: &HashSet<ObjectKey>,
        version: u64,
    ) -> Vec<(ObjectKey, Record)> {
        let gone = |(key, record): &(&ObjectKey, &Record)| {
            key.gvk == *gvk
                && !listed.contains(key)
                && record.version <= version
                && namespace.is_none_or(|namespace| key.namespace.as_deref() == Some(namespace))
        };
        let keys: Vec<ObjectKey> = self.records.iter().filter(gone).map(|(key, _)| key.clone()).collect();
        keys.into_iter().filter_map(|key| self.remove(&key).map(|record| (key, record))).collect()
    }

    pub(super) fn get(&self, key: &ObjectKey) -> Option<&Record> {
        self.records.get(key)
    }

    /// What a rule has made for a trigger.
    pub(super) fn of(&self, policy: &PolicyKey, rule: &str, trigger: &TriggerRef) -> Vec<(ObjectKey, Record)> {
        let mut identities = BTreeSet::from([identity(trigger)]);
        if !trigger.name.is_empty() {
            identities.insert(name_identity(trigger));
        }
        let keys = identities.into_iter().filter_map(|trigger| {
            self.by_work.get(&WorkKey { policy: policy.clone(), rule: rule.to_owned(), trigger })
        });
        let found = keys.flatten().filter_map(|key| Some((key.clone(), self.records.get(key)?.clone())));
        found.collect()
    }

    /// How many objects a rule has made.
    pub(super) fn count(&self, policy: &PolicyKey, rule: &str) -> usize {
        self.by_rule.get(&(policy.clone(), rule.to_owned())).copied().unwrap_or_default()
    }

    /// Who copied a source.
    pub(super) fn copies_of(&self, source: &str) -> Vec<Marks> {
        let keys = self.by_source.get(source).into_iter().flatten();
        keys.filter_map(|key| self.records.get(key)).map(|record| record.marks.clone()).collect()
    }

    /// Who made what, for one rule or for all.
    pub(super) fn marks(&self, of: impl Fn(&Marks) -> bool) -> Vec<Marks> {
        self.records.values().map(|record| &record.marks).filter(|marks| of(marks)).cloned().collect()
    }
}

fn record(object: &Value, marks: Marks, settled: Option<(u64, u64)>) -> Record {
    Record {
        uid: text_at(object, &["metadata", "uid"]).to_owned(),
        version: version_of(object),
        marks,
        content: fingerprint(object),
        settled,
        ending: is_ending(object),
        claim: Claim::Planned,
        contest: Contest::default(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(name: &str, version: u64, rule: &str, data: u8) -> Value {
        json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {
                "name": name, "namespace": "a", "uid": name, "resourceVersion": version.to_string(),
                "labels": {
                    "app.kubernetes.io/managed-by": "kyverno",
                    "generate.kyverno.io/policy-name": "p",
                    "generate.kyverno.io/rule-name": rule,
                    "generate.kyverno.io/trigger-uid": "t",
                    "generate.kyverno.io/source-uid": "s",
                },
            },
            "data": data,
        })
    }

    fn policy() -> PolicyKey {
        PolicyKey { namespace: None, name: "p".into() }
    }

    fn trigger() -> TriggerRef {
        TriggerRef { uid: "t".into(), ..TriggerRef::default() }
    }

    #[test]
    fn our_own_write_is_no_news() {
        let mut downstream = Downstream::default();
        let written = object("c", 5, "r", 1);
        downstream.settled(&written, 7);
        assert!(downstream.get(&ObjectKey::of(&written)).is_none(), "nobody watches that kind");
        downstream.start_watch(&Gvk::new("v1", "ConfigMap"), None);
        downstream.settled(&written, 7);
        assert_eq!(downstream.see(&written, true), Seen::Same);
        let Seen::Other(marks, _) = downstream.see(&object("c", 6, "r", 2), true) else { panic!("somebody's edit") };
        assert_eq!(marks.len(), 1);
        assert_eq!(downstream.get(&ObjectKey::of(&written)).expect("there").settled.expect("kept").0, 7);
    }

    #[test]
    fn what_is_on_its_way_out_is_looked_at_first() {
        let mut downstream = Downstream::default();
        downstream.start_watch(&Gvk::new("v1", "ConfigMap"), None);
        let mut stored = object("c", 5, "r", 1);
        downstream.settled(&stored, 7);
        assert!(downstream.get(&ObjectKey::of(&stored)).expect("there").is_as_we_left_it());
        stored["metadata"]["resourceVersion"] = json!("6");
        stored["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        assert_eq!(downstream.see(&stored, true), Seen::Same);
        assert!(!downstream.get(&ObjectKey::of(&stored)).expect("there").is_as_we_left_it());
    }

    #[tokio::test(start_paused = true)]
    async fn a_contest_slows_down_and_ends() {
        let mut downstream = Downstream::default();
        downstream.start_watch(&Gvk::new("v1", "ConfigMap"), None);
        let mut version = 0;
        let mut pauses = Vec::new();
        let mut rounds = |downstream: &mut Downstream, count: usize| {
            pauses.clear();
            for _ in 0..count {
                downstream.settled(&object("c", version + 1, "r", 1), 7);
                let Seen::Other(_, pause) = downstream.see(&object("c", version + 2, "r", 2), true) else {
                    panic!("an edit")
                };
                version += 2;
                pauses.push(pause.as_millis());
            }
            pauses.clone()
        };
        assert_eq!(rounds(&mut downstream, 7), [0, 0, 0, 0, 200, 400, 800]);
        assert_eq!(rounds(&mut downstream, 10)[9], LONGEST_PAUSE.as_millis());
        tokio::time::advance(QUIET).await;
        assert_eq!(rounds(&mut downstream, 1), [0]);
    }

    #[test]
    fn labels_that_others_write_prove_nothing() {
        let mut downstream = Downstream::default();
        downstream.start_watch(&Gvk::new("v1", "ConfigMap"), None);
        let is_foreign = |downstream: &Downstream, name: &str| {
            downstream.get(&ObjectKey::of(&object(name, 1, "r", 1))).expect("known").is_foreign()
        };
        downstream.see(&object("old", 1, "r", 1), false);
        assert!(!is_foreign(&downstream, "old"), "made before this replica led");
        downstream.see(&object("old", 2, "r", 2), true);
        assert!(!is_foreign(&downstream, "old"), "an edit of the content changes no owner");
        downstream.see(&object("old", 3, "other", 2), true);
        assert!(is_foreign(&downstream, "old"), "the new owner did not make it");
        downstream.see(&object("new", 4, "r", 1), true);
        assert!(is_foreign(&downstream, "new"));
        downstream.settled(&object("new", 4, "r", 1), 7);
        assert!(!is_foreign(&downstream, "new"), "the watch was faster than the answer");
    }

    #[test]
    fn both_owners_hear_of_a_change_of_hands() {
        let mut downstream = Downstream::default();
        downstream.see(&object("c", 1, "r", 1), true);
        let Seen::Other(marks, _) = downstream.see(&object("c", 2, "other", 1), true) else { panic!("another owner") };
        assert_eq!(marks.iter().map(|marks| marks.rule.as_str()).collect::<Vec<_>>(), ["other", "r"]);
        assert_eq!(downstream.of(&policy(), "r", &trigger()).len(), 0);
        assert_eq!((downstream.count(&policy(), "r"), downstream.count(&policy(), "other")), (0, 1));
    }

    #[test]
    fn objects_are_found_by_work_and_by_source() {
        let mut downstream = Downstream::default();
        downstream.see(&object("c", 1, "r", 1), true);
        downstream.see(&object("d", 2, "r", 1), true);
        assert_eq!(downstream.of(&policy(), "r", &trigger()).len(), 2);
        assert_eq!(downstream.copies_of("s").len(), 2);
        let gone = downstream.settle(&Gvk::new("v1", "ConfigMap"), Some("a"), &HashSet::new(), 1);
        assert_eq!(gone.len(), 1, "the other one is newer than the list");
        assert_eq!(downstream.copies_of("s").len(), 1);
    }

    #[test]
    fn what_could_not_be_deleted_is_found_again() {
        let mut downstream = Downstream::default();
        let key = ObjectKey::of(&object("c", 1, "r", 1));
        downstream.see(&object("c", 1, "r", 1), true);
        let record = downstream.remove(&key).expect("known");
        downstream.put_back(key.clone(), record.clone());
        assert_eq!(downstream.of(&policy(), "r", &trigger()).len(), 1);
        // What the watch has brought meanwhile is newer.
        downstream.see(&object("c", 2, "other", 1), true);
        downstream.put_back(key.clone(), record);
        assert_eq!(downstream.get(&key).expect("known").marks.rule, "other");
    }
}
