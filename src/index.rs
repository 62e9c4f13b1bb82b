//! All policies at one moment: a state that takes documents and gives snapshots. No client, no tasks, no clock.

mod snapshot;
mod state;

pub use snapshot::{RuleEntry, Snapshot, Wants};
pub use state::{Index, Indexed, Transition};
