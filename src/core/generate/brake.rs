//! A brake for mass deletions that nobody asked for in so many words.
//!
//! Deleting a policy, a rule or a trigger says what is meant. A label that disappears from a thousand namespaces, or a
//! look-up that suddenly answers differently, does not: such deletions are held beyond a bound, and shown. The hold lasts as
//! long as they are tried again: it ends when their cause is undone, or when somebody changes the policy.

use std::collections::{BTreeMap, VecDeque};

use super::error::PolicyKey;

/// The bound, and what has been deleted lately.
#[derive(Clone, Debug)]
pub struct Brake {
    /// Deletions per rule and window that always pass.
    most: usize,
    /// Seconds.
    window: i64,
    rules: BTreeMap<(PolicyKey, String), Lately>,
}

/// What has happened to the objects of one rule.
#[derive(Clone, Debug, Default)]
struct Lately {
    deleted: VecDeque<i64>,
    /// When a deletion was last held.
    held: Option<i64>,
}

/// Windows without an attempt after which a hold is over: whatever is held is tried again every two minutes.
const HOLD: i64 = 5;

impl Brake {
    pub fn new(most: usize, window: i64) -> Self {
        Self { most, window, rules: BTreeMap::new() }
    }

    /// Whether one more object of a rule may be deleted now. `left` is how many objects of the rule there are. Only what
    /// passes is counted.
    pub fn passes(&mut self, policy: &PolicyKey, rule: &str, left: usize, now: i64) -> bool {
        let Lately { deleted, held } = self.rules.entry((policy.clone(), rule.to_owned())).or_default();
        while deleted.front().is_some_and(|at| now - at >= self.window) {
            deleted.pop_front();
        }
        // Below half of what there was, a deletion is housekeeping.
        let most_of_them = (deleted.len() + 1) * 2 > left + deleted.len();
        let too_many = deleted.len() >= self.most && most_of_them;
        if too_many || held.is_some_and(|held| now - held < HOLD * self.window) {
            *held = Some(now);
            return false;
        }
        *held = None;
        deleted.push_back(now);
        true
    }

    /// Somebody has changed the policy: what follows from it is meant until it is too much again.
    pub fn release(&mut self, policy: &PolicyKey) {
        self.rules.retain(|(of, _), _| of != policy);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holds_many_that_are_most() {
        let policy = PolicyKey { namespace: None, name: "p".into() };
        let mut brake = Brake::new(3, 60);
        let mut deleted = 0;
        for left in (1..=10).rev() {
            deleted += usize::from(brake.passes(&policy, "r", left, 0));
        }
        assert_eq!(deleted, 5, "half of ten pass, then the brake holds");
        assert!(brake.passes(&policy, "other", 10, 0), "rules are counted apart");
        assert!(!brake.passes(&policy, "r", 5, 59));
        assert!(!brake.passes(&policy, "r", 5, 180), "what is held is held however often it is tried");
        assert!(!brake.passes(&policy, "r", 5, 479));
        assert!(brake.passes(&policy, "r", 5, 779), "nobody has tried for a while");
    }

    #[test]
    fn a_changed_policy_ends_the_hold() {
        let policy = PolicyKey { namespace: None, name: "p".into() };
        let mut brake = Brake::new(1, 60);
        assert!(brake.passes(&policy, "r", 2, 0) && !brake.passes(&policy, "r", 1, 0));
        brake.release(&policy);
        assert!(brake.passes(&policy, "r", 1, 0));
    }

    #[test]
    fn few_always_pass() {
        let policy = PolicyKey { namespace: None, name: "p".into() };
        let mut brake = Brake::new(3, 60);
        assert!((1..=3).rev().all(|left| brake.passes(&policy, "r", left, 0)));
    }
}
