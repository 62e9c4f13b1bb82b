//! How a rule gets to know of its triggers.

use crate::core::matching::Block;

use super::rule::Rule;

/// The two ways.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// The stored object says all that the rule asks for: a watch is enough.
    Watch,
    /// The rule asks for what only admission knows: operation, requester, old object, the payload of a subresource; or the
    /// policy has the API server choose among requests.
    Admission,
}

impl Rule {
    pub fn way(&self) -> Way {
        let asks = self.reads_admission || self.server_selects || self.blocks().any(Block::asks_admission);
        if asks { Way::Admission } else { Way::Watch }
    }

    /// Whether the rule can be applied to a stored object that no request has brought.
    pub fn runs_unasked(&self) -> bool {
        let exclude = self.matching.exclude.as_ref();
        !self.needs_request && !self.matching.matching.asks_admission() && !exclude.is_some_and(Block::asks_requester)
    }

    /// Whether the end of a trigger ends what was made for it, whoever deleted it and whether or not anybody was asked.
    pub fn follows_deletion(&self) -> bool {
        self.synchronize && !self.server_selects && !self.blocks().any(Block::asks_admission)
    }

    fn blocks(&self) -> impl Iterator<Item = &Block> {
        [Some(&self.matching.matching), self.matching.exclude.as_ref()].into_iter().flatten()
    }
}
