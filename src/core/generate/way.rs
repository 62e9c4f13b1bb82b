//! How a rule gets to know of its triggers.

use crate::core::matching::Block;

use super::rule::Rule;

/// The two ways.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// The stored object says all that the rule asks for: a watch is enough.
    Watch,
    /// The rule asks for what only admission knows: operation, requester, old object, the payload of a subresource.
    Admission,
}

impl Rule {
    pub fn way(&self) -> Way {
        let blocks = [Some(&self.matching.matching), self.matching.exclude.as_ref()];
        if self.reads_admission || blocks.into_iter().flatten().any(Block::asks_admission) {
            Way::Admission
        } else {
            Way::Watch
        }
    }
}
