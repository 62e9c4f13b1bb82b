//! Bounds of one rule evaluation. What goes beyond them ends in an error that names the rule and the expression, never in a
//! process that is slow or gone.

use crate::core::expr;

/// What one rule may use for one trigger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Steps, bytes and depth of all expressions together. Steps stand in for time.
    pub expressions: expr::Limits,
    /// JSON bytes of all context entries loaded, reloads counted again. 0 switches the bound off.
    pub context_bytes: usize,
    /// Context entries that load one another; bounds the stack.
    pub context_depth: usize,
    /// Elements of all `foreach` lists together.
    pub elements: usize,
    /// Objects in one plan.
    pub objects: usize,
    /// JSON bytes of all objects in one plan.
    pub plan_bytes: usize,
    /// How often a driver may fetch and evaluate again.
    pub rounds: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            expressions: expr::Limits::default(),
            context_bytes: 2 << 20,
            context_depth: 32,
            elements: 10_000,
            objects: 10_000,
            plan_bytes: 64 << 20,
            rounds: 64,
        }
    }
}
