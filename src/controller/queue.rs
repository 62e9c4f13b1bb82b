//! A queue in which equal keys collapse: however often something happens to one thing, it waits once.
//!
//! A key is handed to one worker at a time. What arrives for it meanwhile waits for its return. Failures come back after a
//! pause that grows; nothing is dropped, because the number of keys is bounded by the number of things there are.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::hash::Hash;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, sleep, sleep_until};

/// What can be put together with a later piece of work for the same key.
pub(super) trait Merge {
    fn merge(&mut self, newer: Self);
}

/// Which of the two lines a key waits in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lane {
    /// Something has just happened.
    Live,
    /// One of many, from going through everything.
    Bulk,
}

/// Work that a worker has taken.
#[derive(Debug)]
pub(super) struct Task<K, W> {
    pub(super) key: K,
    pub(super) work: W,
    /// How often it has failed so far.
    pub(super) failures: u32,
    /// Since when the key has been waiting.
    pub(super) since: Instant,
}

pub(super) struct Queue<K, W> {
    state: Mutex<State<K, W>>,
    arrived: Notify,
}

struct State<K, W> {
    slots: HashMap<K, Slot<W>>,
    live: VecDeque<K>,
    bulk: VecDeque<K>,
    /// Keys that pause; the number keeps equal times apart.
    paused: BTreeMap<(Instant, u64), K>,
    counter: u64,
}

struct Slot<W> {
    place: Place,
    /// Absent only while a worker has it and nothing has arrived since.
    work: Option<W>,
    lane: Lane,
    failures: u32,
    since: Instant,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Waiting,
    Paused((Instant, u64)),
    Taken,
}

/// Of so many keys one comes from the bulk lane, even if the live one is never empty.
const BULK_SHARE: u64 = 4;
const FIRST_PAUSE: Duration = Duration::from_millis(20);

/// The pause after so many failures before this one.
pub(super) fn pause_after(failures: u32, longest: Duration) -> Duration {
    FIRST_PAUSE.saturating_mul(1 << failures.min(20)).min(longest)
}

impl<K: Clone + Eq + Hash, W: Merge> Default for Queue<K, W> {
    fn default() -> Self {
        let state = State {
            slots: HashMap::new(),
            live: VecDeque::new(),
            bulk: VecDeque::new(),
            paused: BTreeMap::new(),
            counter: 0,
        };
        Self { state: Mutex::new(state), arrived: Notify::new() }
    }
}

impl<K: Clone + Eq + Hash, W: Merge> Queue<K, W> {
    /// Adds work. A key that pauses after a failure is tried again at once: something has changed.
    pub(super) fn add(&self, lane: Lane, key: K, work: W) {
        let mut state = self.lock();
        let state = &mut *state;
        let Some(slot) = state.slots.get_mut(&key) else {
            let slot = Slot { place: Place::Waiting, work: Some(work), lane, failures: 0, since: Instant::now() };
            state.slots.insert(key.clone(), slot);
            state.line(lane).push_back(key);
            self.arrived.notify_one();
            return;
        };
        match &mut slot.work {
            Some(waiting) => waiting.merge(work),
            None => slot.work = Some(work),
        }
        if let Place::Paused(at) = slot.place {
            slot.place = Place::Waiting;
            let lane = slot.lane;
            state.paused.remove(&at);
            state.line(lane).push_back(key);
            self.arrived.notify_one();
        }
    }

    /// Adds work that begins after a pause, unless something else sets the key off before.
    pub(super) fn add_later(&self, lane: Lane, key: K, work: W, pause: Duration) {
        let mut state = self.lock();
        let state = &mut *state;
        state.counter += 1;
        let at = (Instant::now() + pause, state.counter);
        let slot = state.slots.entry(key.clone()).or_insert_with(|| Slot {
            place: Place::Paused(at),
            work: None,
            lane,
            failures: 0,
            since: Instant::now(),
        });
        match &mut slot.work {
            Some(waiting) => waiting.merge(work),
            None => slot.work = Some(work),
        }
        if let Place::Paused(before) = slot.place {
            let at = at.min(before);
            slot.place = Place::Paused(at);
            state.paused.remove(&before);
            state.paused.insert(at, key);
            self.arrived.notify_one();
        }
    }

    /// The next key that is due; waits until there is one.
    pub(super) async fn take(&self) -> Task<K, W> {
        loop {
            let arrived = self.arrived.notified();
            let next = {
                let mut state = self.lock();
                let now = Instant::now();
                state.wake(now);
                if let Some(task) = state.take() {
                    // One signal may stand for several arrivals.
                    if !state.live.is_empty() || !state.bulk.is_empty() {
                        self.arrived.notify_one();
                    }
                    return task;
                }
                state.paused.first_key_value().map(|((at, _), _)| *at)
            };
            match next {
                None => arrived.await,
                Some(at) => tokio::select! {
                    () = arrived => {}
                    () = sleep_until(at) => {}
                },
            }
        }
    }

    /// Gives a key back that is done.
    pub(super) fn done(&self, key: &K) {
        let mut state = self.lock();
        let state = &mut *state;
        let Some(slot) = state.slots.get_mut(key) else { return };
        if slot.work.is_none() {
            state.slots.remove(key);
            return;
        }
        slot.place = Place::Waiting;
        slot.failures = 0;
        slot.since = Instant::now();
        let lane = slot.lane;
        state.line(lane).push_back(key.clone());
        self.arrived.notify_one();
    }

    /// Gives a key back that has failed. It comes again after a pause, or at once if something new has arrived.
    pub(super) fn failed(&self, key: &K, mut work: W, longest: Duration) {
        let mut state = self.lock();
        let state = &mut *state;
        state.counter += 1;
        let counter = state.counter;
        let Some(slot) = state.slots.get_mut(key) else { return };
        let pause = pause_after(slot.failures, longest);
        slot.failures += 1;
        match slot.work.take() {
            Some(newer) => {
                work.merge(newer);
                slot.work = Some(work);
                slot.place = Place::Waiting;
                let lane = slot.lane;
                state.line(lane).push_back(key.clone());
            }
            None => {
                let at = (Instant::now() + pause, counter);
                slot.work = Some(work);
                slot.place = Place::Paused(at);
                state.paused.insert(at, key.clone());
            }
        }
        self.arrived.notify_one();
    }

    /// Waits until fewer than so many keys are due or being worked on. Those that pause after a failure do not count: the
    /// rejected work of one rule must not keep the others from going on.
    pub(super) async fn room(&self, most: usize) {
        while self.due() >= most {
            sleep(Duration::from_millis(5)).await;
        }
    }

    fn due(&self) -> usize {
        let state = self.lock();
        state.slots.len() - state.paused.len()
    }

    /// How many keys there are, in whatever state.
    pub(super) fn depth(&self) -> usize {
        self.lock().slots.len()
    }

    /// How long the oldest key has been there.
    pub(super) fn oldest(&self) -> Duration {
        self.lock().slots.values().map(|slot| slot.since.elapsed()).max().unwrap_or_default()
    }

    /// Forgets everything that no worker has.
    pub(super) fn clear(&self) {
        let mut state = self.lock();
        state.live.clear();
        state.bulk.clear();
        state.paused.clear();
        state.slots.retain(|_, slot| slot.place == Place::Taken);
        state.slots.values_mut().for_each(|slot| slot.work = None);
    }

    /// Looks at every key that is waiting or being worked on.
    pub(super) fn visit(&self, mut visit: impl FnMut(&K, Option<&W>)) {
        self.lock().slots.iter().for_each(|(key, slot)| visit(key, slot.work.as_ref()));
    }

    fn lock(&self) -> MutexGuard<'_, State<K, W>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Clone + Eq + Hash, W> State<K, W> {
    fn line(&mut self, lane: Lane) -> &mut VecDeque<K> {
        match lane {
            Lane::Live => &mut self.live,
            Lane::Bulk => &mut self.bulk,
        }
    }

    fn wake(&mut self, now: Instant) {
        while let Some(entry) = self.paused.first_entry() {
            if entry.key().0 > now {
                return;
            }
            let key = entry.remove();
            if let Some(slot) = self.slots.get_mut(&key) {
                slot.place = Place::Waiting;
                let lane = slot.lane;
                self.line(lane).push_back(key);
            }
        }
    }

    fn take(&mut self) -> Option<Task<K, W>> {
        self.counter += 1;
        let bulk_first = self.counter.is_multiple_of(BULK_SHARE);
        let key = if bulk_first {
            self.bulk.pop_front().or_else(|| self.live.pop_front())
        } else {
            self.live.pop_front().or_else(|| self.bulk.pop_front())
        }?;
        let slot = self.slots.get_mut(&key)?;
        slot.place = Place::Taken;
        let work = slot.work.take()?;
        Some(Task { key, work, failures: slot.failures, since: slot.since })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONGEST: Duration = Duration::from_secs(60);

    #[derive(Debug, PartialEq)]
    struct Words(Vec<&'static str>);

    impl Merge for Words {
        fn merge(&mut self, newer: Self) {
            self.0.extend(newer.0);
        }
    }

    fn words(word: &'static str) -> Words {
        Words(vec![word])
    }

    #[tokio::test(start_paused = true)]
    async fn equal_keys_collapse() {
        let queue = Queue::default();
        queue.add(Lane::Live, 1, words("a"));
        queue.add(Lane::Live, 2, words("b"));
        queue.add(Lane::Live, 1, words("c"));
        let first = queue.take().await;
        assert_eq!((first.key, first.work), (1, Words(vec!["a", "c"])));
        queue.add(Lane::Live, 1, words("d"));
        assert_eq!(queue.take().await.key, 2, "a key that is being worked on is not handed out again");
        queue.done(&1);
        assert_eq!(queue.take().await.work, words("d"));
        queue.done(&1);
        queue.done(&2);
        assert_eq!(queue.depth(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn failures_pause_ever_longer_and_news_ends_the_pause() {
        let queue = Queue::default();
        queue.add(Lane::Live, 1, words("a"));
        let mut pauses = Vec::new();
        for _ in 0..3 {
            let task = queue.take().await;
            let start = Instant::now();
            queue.failed(&task.key, task.work, LONGEST);
            let task = queue.take().await;
            pauses.push(start.elapsed().as_millis() / 10 * 10);
            queue.failed(&task.key, task.work, LONGEST);
        }
        assert_eq!(pauses, [20, 80, 320]);
        let start = Instant::now();
        queue.add(Lane::Live, 1, words("b"));
        let task = queue.take().await;
        assert_eq!(task.work, Words(vec!["a", "b"]));
        assert!(start.elapsed() < Duration::from_millis(1));
        assert_eq!(task.failures, 6);
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_for_later_waits_unless_something_else_comes() {
        let pause = Duration::from_millis(300);
        let queue = Queue::default();
        let start = Instant::now();
        queue.add_later(Lane::Live, 1, words("a"), pause);
        queue.add_later(Lane::Live, 1, words("b"), pause * 2);
        queue.add_later(Lane::Live, 2, words("c"), pause);
        queue.add(Lane::Live, 2, words("d"));
        let task = queue.take().await;
        assert_eq!((task.key, task.work), (2, Words(vec!["c", "d"])));
        assert!(start.elapsed() < Duration::from_millis(1));
        let task = queue.take().await;
        assert_eq!((task.key, task.work), (1, Words(vec!["a", "b"])));
        assert_eq!(start.elapsed().as_millis() / 10 * 10, 300);
        queue.add_later(Lane::Live, 1, words("e"), pause);
        queue.done(&1);
        assert_eq!(queue.take().await.work, words("e"), "nothing is lost that comes while the key is worked on");
    }

    #[tokio::test(start_paused = true)]
    async fn what_pauses_takes_no_room() {
        let queue = Queue::default();
        for key in 0..8 {
            queue.add(Lane::Bulk, key, words("rejected"));
        }
        for _ in 0..8 {
            let task = queue.take().await;
            queue.failed(&task.key, task.work, LONGEST);
        }
        let start = Instant::now();
        queue.room(4).await;
        assert!(start.elapsed() < Duration::from_millis(1), "rejected work holds up the rest");
        assert_eq!(queue.depth(), 8);
    }

    #[tokio::test(start_paused = true)]
    async fn the_bulk_does_not_hold_up_what_is_live() {
        let queue = Queue::default();
        for key in 0..100 {
            queue.add(Lane::Bulk, key, words("bulk"));
        }
        queue.add(Lane::Live, 100, words("live"));
        let mut taken = Vec::new();
        for _ in 0..3 {
            taken.push(queue.take().await.key);
        }
        assert!(taken.contains(&100), "{taken:?}");
    }

    #[test]
    fn pauses_are_bounded() {
        assert_eq!(pause_after(0, LONGEST), Duration::from_millis(20));
        assert_eq!(pause_after(40, LONGEST), LONGEST);
    }
}
