//! What a rule wants to exist for one trigger: the targets, finished down to the last label, and what failed on the way.

use std::fmt;

use serde_json::Value;

use crate::core::resource::{Gvk, ObjectKey};

use super::error::RuleError;

/// The result of a rule that applies. A failed item does not take the others with it, so both lists may hold something.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    pub synchronize: bool,
    /// Targets stay when the policy or the rule is deleted.
    pub orphan_on_policy_delete: bool,
    /// In the order of the rule: entry, element, item, source.
    pub targets: Vec<Target>,
    pub failures: Vec<Failure>,
    /// Elements and sources that were left out on purpose.
    pub notes: Vec<String>,
}

/// One object that is to exist.
#[derive(Clone, Debug, PartialEq)]
pub struct Target {
    pub key: ObjectKey,
    /// The whole object as it is to be written, labels included.
    pub body: Value,
    pub mode: Mode,
    pub source: Option<Source>,
    pub place: Place,
}

/// How a target came about; decides what becomes of it when its policy goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mode {
    /// `data` and `dataList`.
    Data,
    /// `clone`.
    Clone,
    /// `cloneList`, by kinds or by list.
    CloneList,
}

/// The object that a clone was copied from.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Source {
    pub gvk: Gvk,
    pub namespace: Option<String>,
    pub name: String,
    pub uid: String,
}

/// Which part of the rule made something.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// Index in `foreach`.
    pub entry: Option<usize>,
    /// Index in the list of that entry.
    pub element: Option<usize>,
    /// Index in `dataList` or `cloneList.list`.
    pub item: Option<usize>,
}

/// A part of the rule that gave an error instead of a target.
#[derive(Clone, Debug, PartialEq)]
pub struct Failure {
    pub place: Place,
    pub error: RuleError,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = [("foreach entry", self.entry), ("element", self.element), ("item", self.item)];
        let mut separator = "";
        for (what, index) in parts {
            if let Some(index) = index {
                write!(f, "{separator}{what} {index}")?;
                separator = ", ";
            }
        }
        Ok(())
    }
}
