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
use super::go_regex::{GoRegex, ParsedRegex};

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
    regexes: RefCell<RegexCache>,
}

/// Regular expressions compiled in this evaluation. The cache is emptied when it is full: each expression may hold a megabyte
/// while it searches.
#[derive(Debug, Default)]
struct RegexCache {
    compiled: BTreeMap<String, Rc<GoRegex>>,
    weight: usize,
}

/// Regular expressions that are kept at a time.
const CACHED_REGEXES: usize = 32;
/// The states of all that are kept; one takes about 50 bytes.
const CACHED_WEIGHT: usize = 100_000;
/// What one byte of a regular expression costs before its size is known.
const PARSE_STEPS: usize = 8;
/// What one state of a regular expression costs.
const STATE_STEPS: usize = 2;

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

    /// Pays for work outside of expressions that belongs to the same evaluation; `what` names it if the budget is spent.
    pub(crate) fn pay(&self, what: &str, steps: usize) -> Result<(), EvalError> {
        self.step(steps).map_err(|error| error.in_expression(what))
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
        if bound <= 1 {
            return 0;
        }
        let drawn = self.chance.borrow_mut().next();
        // The high half of a product spreads over the range without a division's bias towards small numbers.
        ((u128::from(drawn) * u128::from(bound)) >> 64) as u64
    }

    /// The compiled form of a Go regular expression. Compiling is paid for by size, before it is done.
    pub(super) fn regex(&self, pattern: &str) -> Result<Result<Rc<GoRegex>, &'static str>, EvalError> {
        if let Some(known) = self.regexes.borrow().compiled.get(pattern) {
            return Ok(Ok(known.clone()));
        }
        self.step(pattern.len().saturating_mul(PARSE_STEPS))?;
        let parsed = match ParsedRegex::read(pattern) {
            Ok(parsed) => parsed,
            Err(fault) => return Ok(Err(fault.words)),
        };
        let weight = parsed.weight();
        self.step(weight.saturating_mul(STATE_STEPS))?;
        let compiled = match parsed.build() {
            Ok(compiled) => Rc::new(compiled),
            Err(fault) => return Ok(Err(fault.words)),
        };
        let mut cache = self.regexes.borrow_mut();
        if cache.compiled.len() == CACHED_REGEXES || cache.weight.saturating_add(weight) > CACHED_WEIGHT {
            *cache = RegexCache::default();
        }
        cache.weight = cache.weight.saturating_add(weight);
        cache.compiled.insert(pattern.to_owned(), compiled.clone());
        Ok(Ok(compiled))
    }

    /// Pays for a search through `count` bytes. If the fast path of the automaton fails, each byte visits many states.
    pub(super) fn search(&self, regex: &GoRegex, count: usize) -> Result<(), EvalError> {
        self.read(count.saturating_mul(1 + regex.weight() / 16))
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
