//! Which stored objects are this replica's own writes, by facts: the UID and the resource version that the API server answered.
//!
//! Field managers, labels and annotations prove nothing, because clients choose them.

use std::collections::{HashMap, HashSet, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::Value;
use tokio::sync::Notify;

use crate::core::generate::progress::version_of;
use crate::core::resource::{ObjectKey, text_at};

/// Writes that are remembered. A watch that lags behind by more sees its labels checked instead.
const REMEMBERED: usize = 65_536;

/// The writes of this replica.
#[derive(Debug, Default)]
pub struct OwnWrites {
    state: Mutex<State>,
    /// A random key: clients cannot choose a UID and version that hash to the same number.
    hasher: RandomState,
    ended: Notify,
}

#[derive(Debug, Default)]
struct State {
    under_way: HashMap<Place, usize>,
    recent: HashSet<u64>,
    order: VecDeque<u64>,
}

/// An object, in whatever version of its API.
type Place = (String, String, Option<String>, String);

/// A write whose answer has not come yet: the watch may be faster.
pub struct OwnWrite<'w> {
    writes: &'w OwnWrites,
    place: Place,
}

impl OwnWrites {
    /// Notes that an object is about to be written.
    pub fn begin(&self, key: &ObjectKey) -> OwnWrite<'_> {
        let place = place(key);
        *self.state().under_way.entry(place.clone()).or_default() += 1;
        OwnWrite { writes: self, place }
    }

    /// Whether an object is stored as this replica wrote it.
    pub fn holds(&self, object: &Value) -> bool {
        self.state().recent.contains(&self.number(object))
    }

    /// Whether the answer to a write of this object has yet to come.
    pub fn is_under_way(&self, key: &ObjectKey) -> bool {
        let state = self.state();
        !state.under_way.is_empty() && state.under_way.contains_key(&place(key))
    }

    /// Waits until no write of this object is under way.
    pub async fn settled(&self, key: &ObjectKey) {
        loop {
            let ended = self.ended.notified();
            tokio::pin!(ended);
            ended.as_mut().enable();
            if !self.is_under_way(key) {
                return;
            }
            ended.await;
        }
    }

    fn number(&self, object: &Value) -> u64 {
        self.hasher.hash_one((text_at(object, &["metadata", "uid"]), version_of(object)))
    }

    /// A panic elsewhere leaves the state usable: every change of it is one call.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl OwnWrite<'_> {
    /// Notes what the API server stored.
    pub fn stored(&self, object: &Value) {
        let number = self.writes.number(object);
        let mut state = self.writes.state();
        if state.recent.insert(number) {
            state.order.push_back(number);
        }
        if state.order.len() > REMEMBERED
            && let Some(oldest) = state.order.pop_front()
        {
            state.recent.remove(&oldest);
        }
    }
}

impl Drop for OwnWrite<'_> {
    fn drop(&mut self) {
        let mut state = self.writes.state();
        if let Some(count) = state.under_way.get_mut(&self.place) {
            *count -= 1;
            if *count == 0 {
                state.under_way.remove(&self.place);
            }
        }
        drop(state);
        self.writes.ended.notify_waiters();
    }
}

fn place(key: &ObjectKey) -> Place {
    (key.gvk.group.clone(), key.gvk.kind.clone(), key.namespace.clone(), key.name.clone())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;
    use tokio::time::timeout;

    use super::*;

    fn object(uid: &str, version: u64) -> Value {
        json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "c", "namespace": "a", "uid": uid, "resourceVersion": version.to_string()},
        })
    }

    #[test]
    fn a_write_is_known_by_what_the_api_server_answered() {
        let writes = OwnWrites::default();
        let write = writes.begin(&ObjectKey::of(&object("u", 0)));
        write.stored(&object("u", 7));
        drop(write);
        assert!(writes.holds(&object("u", 7)));
        assert!(!writes.holds(&object("u", 8)), "somebody has changed it since");
        assert!(!writes.holds(&object("v", 7)), "another object");
        for version in 8..8 + REMEMBERED as u64 {
            writes.begin(&ObjectKey::of(&object("u", 0))).stored(&object("u", version));
        }
        assert!(!writes.holds(&object("u", 7)), "bounded");
        assert!(writes.holds(&object("u", 8)));
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_asks_too_early_waits_for_the_answer() {
        let writes = OwnWrites::default();
        let key = ObjectKey::of(&object("u", 1));
        writes.settled(&key).await;
        let write = writes.begin(&key);
        assert!(writes.is_under_way(&key));
        let mut other = key.clone();
        other.name = "d".to_owned();
        assert!(!writes.is_under_way(&other));
        assert!(timeout(Duration::from_secs(1), writes.settled(&key)).await.is_err());
        drop(write);
        writes.settled(&key).await;
    }
}
