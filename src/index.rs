//! All policies at one moment: a state that takes documents and gives snapshots. No client, no tasks, no clock.

pub mod mesh;
mod routes;
mod snapshot;
mod state;

pub use routes::RouteIndex;
pub use snapshot::{RuleEntry, Snapshot, Wants};
pub use state::{Index, Indexed, Transition};
