//! What one evaluation may use: a clock that stands still, seeded chance, answers to look-ups, and budgets.
//!
//! A runtime lives for one rule evaluation and is shared by all its expressions, so the budgets bound the rule as a whole.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use ::core::net::IpAddr;
use jiff::Timestamp;
use jiff::tz::Offset;

use super::chance::{Chance, Seed};
use super::error::{Bound, EvalError, Lookup};

/// Bounds of one evaluation. Steps stand in for time: the same input ends at the same place on every machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Nodes evaluated, elements visited, characters compared.
    pub steps: u64,
    /// Bytes of all text and JSON produced.
    pub bytes: u64,
    /// Levels of nesting in a produced value.
    pub depth: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { steps: 2_000_000, bytes: 16 << 20, depth: 256 }
    }
}

#[derive(Debug)]
pub struct Runtime {
    now: Timestamp,
    offset: Offset,
    limits: Limits,
    steps: Cell<u64>,
    bytes: Cell<u64>,
    chance: RefCell<Chance>,
    hosts: BTreeMap<String, Result<Vec<IpAddr>, String>>,
    regexes: RefCell<BTreeMap<String, Rc<regex::Regex>>>,
}

impl Runtime {
    /// `seed` is the randomness of this evaluation: the same seed gives the same `random()`.
    pub fn new(now: Timestamp, seed: impl Into<Seed>) -> Self {
        let limits = Limits::default();
        Self {
            now,
            offset: Offset::UTC,
            limits,
            steps: Cell::new(limits.steps),
            bytes: Cell::new(limits.bytes),
            chance: RefCell::new(Chance::new(&seed.into())),
            hosts: BTreeMap::new(),
            regexes: RefCell::default(),
        }
    }

    #[must_use]
    pub fn with_limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self.steps.set(limits.steps);
        self.bytes.set(limits.bytes);
        self
    }

    /// The zone of `time_now()`; UTC unless said.
    #[must_use]
    pub fn with_offset(mut self, offset: Offset) -> Self {
        self.offset = offset;
        self
    }

    /// Answers a [`Lookup::Host`]: the addresses, or why there are none.
    #[must_use]
    pub fn with_host(mut self, name: impl Into<String>, addresses: Result<Vec<IpAddr>, String>) -> Self {
        self.hosts.insert(name.into(), addresses);
        self
    }

    pub fn now(&self) -> Timestamp {
        self.now
    }

    pub fn offset(&self) -> Offset {
        self.offset
    }

    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// Pays for `count` steps.
    #[inline]
    pub(super) fn step(&self, count: usize) -> Result<(), EvalError> {
        pay(&self.steps, count, Bound::Steps, self.limits.steps)
    }

    /// Pays for `count` bytes of output.
    pub(super) fn produce(&self, count: usize) -> Result<(), EvalError> {
        pay(&self.bytes, count, Bound::Bytes, self.limits.bytes)
    }

    /// Pays for reading `count` bytes of text, which is far cheaper than a step each.
    pub(super) fn read(&self, count: usize) -> Result<(), EvalError> {
        self.step(count / 16)
    }

    /// How many bytes may still be produced.
    pub(super) fn room(&self) -> usize {
        usize::try_from(self.bytes.get()).unwrap_or(usize::MAX)
    }

    /// Refuses a value nested beyond the limit.
    pub(super) fn check_depth(&self, depth: usize) -> Result<(), EvalError> {
        if depth > self.limits.depth {
            return Err(exceeded(Bound::Depth, self.limits.depth as u64));
        }
        Ok(())
    }

    pub(super) fn addresses(&self, host: &str) -> Result<&Result<Vec<IpAddr>, String>, EvalError> {
        self.hosts.get(host).ok_or_else(|| EvalError::Needs(Lookup::Host(host.to_owned())))
    }

    /// A number below `bound`, the next of the seeded sequence.
    pub(super) fn draw(&self, bound: u64) -> u64 {
        let drawn = self.chance.borrow_mut().next();
        // The high half of a product spreads over the range without a division's bias towards small numbers.
        ((u128::from(drawn) * u128::from(bound.max(1))) >> 64) as u64
    }

    /// The compiled form of a Go regular expression; each is compiled once per runtime.
    pub(super) fn regex(&self, pattern: &str) -> Result<Rc<regex::Regex>, String> {
        if let Some(known) = self.regexes.borrow().get(pattern) {
            return Ok(known.clone());
        }
        let compiled = Rc::new(super::go_regex::compile(pattern)?);
        self.regexes.borrow_mut().insert(pattern.to_owned(), compiled.clone());
        Ok(compiled)
    }
}

#[cold]
pub(super) fn exceeded(bound: Bound, limit: u64) -> EvalError {
    EvalError::Budget { expression: String::new(), bound, limit }
}

#[inline]
fn pay(left: &Cell<u64>, count: usize, bound: Bound, limit: u64) -> Result<(), EvalError> {
    match left.get().checked_sub(count as u64) {
        Some(rest) => {
            left.set(rest);
            Ok(())
        }
        None => {
            left.set(0);
            Err(exceeded(bound, limit))
        }
    }
}
