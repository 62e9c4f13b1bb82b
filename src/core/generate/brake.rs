//! A brake for mass deletions that nobody asked for in so many words.
//!
//! Deleting a policy, a rule or a trigger says what is meant. A label that disappears from a thousand namespaces, or a
//! look-up that suddenly answers differently, does not: such deletions are held beyond a bound, and shown.

use std::collections::{BTreeMap, VecDeque};

use super::error::PolicyKey;

/// The bound, and what has been deleted lately.
#[derive(Clone, Debug)]
pub struct Brake {
    /// Deletions per rule and window that always pass.
    most: usize,
    /// Seconds.
    window: i64,
    deleted: BTreeMap<(PolicyKey, String), VecDeque<i64>>,
}

impl Brake {
    pub fn new(most: usize, window: i64) -> Self {
        Self { most, window, deleted: BTreeMap::new() }
    }

    /// Whether one more object of a rule may be deleted now. `left` is how many objects of the rule there are. Only what
    /// passes is counted.
    pub fn passes(&mut self, policy: &PolicyKey, rule: &str, left: usize, now: i64) -> bool {
        let deleted = self.deleted.entry((policy.clone(), rule.to_owned())).or_default();
        while deleted.front().is_some_and(|at| now - at >= self.window) {
            deleted.pop_front();
        }
        // Below half of what there was, a deletion is housekeeping.
        let most_of_them = (deleted.len() + 1) * 2 > left + deleted.len();
        let passes = deleted.len() < self.most || !most_of_them;
        if passes {
            deleted.push_back(now);
        }
        passes
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
        assert!(brake.passes(&policy, "r", 5, 60), "the window moves on");
    }

    #[test]
    fn few_always_pass() {
        let policy = PolicyKey { namespace: None, name: "p".into() };
        let mut brake = Brake::new(3, 60);
        assert!((1..=3).rev().all(|left| brake.passes(&policy, "r", left, 0)));
    }
}
