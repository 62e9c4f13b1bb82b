//! The unit of work: one rule for one trigger.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::Value;
use tokio::time::Instant;

use super::queue::Merge;
use crate::core::generate::{PolicyKey, TriggerRef};

/// Which rule, and which trigger.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct WorkKey {
    pub(super) policy: PolicyKey,
    pub(super) rule: String,
    pub(super) trigger: String,
}

/// Why, and what is known already.
#[derive(Clone, Debug)]
pub(super) struct Work {
    pub(super) causes: Causes,
    pub(super) trigger: TriggerRef,
    /// The trigger as a watch or a list has brought it.
    pub(super) object: Option<Arc<Value>>,
    /// Sources that have been deleted, by UID.
    pub(super) lost_sources: BTreeSet<String>,
    /// The resource version of the trigger; progress does not pass it before this is done.
    pub(super) version: u64,
    /// When the cause was seen.
    pub(super) seen: Instant,
}

/// A set of causes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Causes(u8);

impl Causes {
    /// The trigger was created or changed.
    pub(super) const TRIGGER: Self = Self(1);
    /// The trigger is one of those that exist already.
    pub(super) const EXISTING: Self = Self(2);
    /// A generated object was changed or deleted.
    pub(super) const DOWNSTREAM: Self = Self(4);
    /// A source was changed or deleted.
    pub(super) const SOURCE: Self = Self(8);
    /// The policy was changed.
    pub(super) const POLICY: Self = Self(16);
    /// The trigger was deleted.
    pub(super) const GONE: Self = Self(32);
    /// The trigger has just appeared: nothing has been made for it yet.
    pub(super) const FRESH: Self = Self(64);
    /// The change of the trigger was a user's for sure, or the rule does not care.
    pub(super) const PROVEN: Self = Self(128);

    pub(super) fn meets(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    pub(super) fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    pub(super) fn is_only(self, other: Self) -> bool {
        self.0 & !other.0 == 0
    }
}

impl std::ops::BitOr for Causes {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl WorkKey {
    pub(super) fn new(policy: &PolicyKey, rule: &str, trigger: &TriggerRef) -> Self {
        Self { policy: policy.clone(), rule: rule.to_owned(), trigger: identity(trigger) }
    }
}

/// The UID of a trigger, or what else tells it from others.
pub(super) fn identity(trigger: &TriggerRef) -> String {
    if trigger.uid.is_empty() { name_identity(trigger) } else { trigger.uid.clone() }
}

/// What tells a trigger from others without its UID.
pub(super) fn name_identity(trigger: &TriggerRef) -> String {
    let namespace = trigger.namespace.as_deref().unwrap_or_default();
    format!("{}/{} {namespace}/{}", trigger.gvk.group, trigger.gvk.kind, trigger.name)
}

impl Work {
    pub(super) fn new(causes: Causes, trigger: TriggerRef) -> Self {
        Self { causes, trigger, object: None, lost_sources: BTreeSet::new(), version: 0, seen: Instant::now() }
    }
}

impl Merge for Work {
    fn merge(&mut self, newer: Self) {
        self.causes = self.causes | newer.causes;
        if self.trigger.name.is_empty() {
            self.trigger = newer.trigger;
        }
        self.lost_sources.extend(newer.lost_sources);
        if newer.causes.meets(Causes::TRIGGER | Causes::EXISTING | Causes::GONE) {
            self.object = newer.object;
            // What is pending for an older version is pending still.
            self.version = if self.version == 0 { newer.version } else { self.version };
        }
    }
}
