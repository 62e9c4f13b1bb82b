//! What is known when a rule is evaluated: answers to earlier requests, the time, chance. Absence is a fact too.

use std::collections::BTreeMap;
use std::sync::Arc;

use ::core::net::IpAddr;
use jiff::Timestamp;
use serde_json::{Map, Value};

use crate::core::expr::{Runtime, Seed};
use crate::core::limits::Limits;
use crate::core::resource::text_at;

use super::bounds::InstallBounds;
use super::fetch::Fetch;
use super::rule::Rule;
use super::trigger::Trigger;

/// Everything an evaluation may know besides rule and trigger.
#[derive(Clone, Debug)]
pub struct Facts {
    /// The time that `time_now()` tells.
    pub now: Timestamp,
    /// The seed of `random()`: the same seed gives the same texts.
    pub seed: Seed,
    pub limits: Limits,
    /// What limits every rule of the install.
    pub bounds: InstallBounds,
    /// There is nobody to ask beyond what was given: entries that need a service, a registry or a global entry are skipped,
    /// as if they were not written.
    pub offline: bool,
    /// Values given by name, in place of what would be fetched; a values file fills them. `variable` entries are computed
    /// all the same.
    pub given: Map<String, Value>,
    /// The same for one element of a loop each, by its index: what is given here wins over everything outside the loop.
    pub given_each: Vec<Map<String, Value>>,
    answers: BTreeMap<Fetch, Answer>,
}

/// What came of a request.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// An object, a list as JSON array, a response of the API server, the text of a service's response, or the addresses of a
    /// host as JSON array of text.
    Found(Arc<Value>),
    /// There is no such thing.
    Absent,
    /// The question could not be put or answered; trying again later may help.
    Failed(String),
}

impl Facts {
    pub fn new(now: Timestamp, seed: impl Into<Seed>, bounds: InstallBounds) -> Self {
        Self {
            now,
            seed: seed.into(),
            limits: Limits::default(),
            bounds,
            offline: false,
            given: Map::new(),
            given_each: Vec::new(),
            answers: BTreeMap::new(),
        }
    }

    pub fn insert(&mut self, fetch: Fetch, answer: Answer) {
        self.answers.insert(fetch, answer);
    }

    pub fn answer(&self, fetch: &Fetch) -> Option<&Answer> {
        self.answers.get(fetch)
    }

    /// The runtime of one evaluation, with the hosts that are known.
    pub(super) fn runtime(&self) -> Runtime {
        let runtime = Runtime::new(self.now, self.seed.clone()).with_limits(self.limits.expressions);
        self.answers.iter().fold(runtime, |runtime, (fetch, answer)| match fetch {
            Fetch::Host(host) => runtime.with_host(host.name(), addresses(answer)),
            _ => runtime,
        })
    }
}

/// The seed of a rule for a trigger. One trigger gets the same `random()` texts from one rule again and again, or a rule that
/// synchronizes would never rest; `root` is the seed of the install, which only Writ and those who may read its Secret know.
pub fn seed(root: &Seed, rule: &Rule, trigger: &Trigger) -> Seed {
    let object = trigger.object().or_else(|| trigger.old_object());
    let uid = object.map(|object| text_at(object, &["metadata", "uid"])).unwrap_or_default();
    root.derive(&[&rule.policy.to_string(), &rule.name, uid])
}

impl Answer {
    pub fn found(value: Value) -> Self {
        Self::Found(Arc::new(value))
    }
}

fn addresses(answer: &Answer) -> Result<Vec<IpAddr>, String> {
    match answer {
        Answer::Found(found) => {
            let texts = found.as_array().into_iter().flatten().filter_map(Value::as_str);
            texts
                .map(|text| {
                    text.parse().map_err(|_| "the name service gave something that is not an address".to_owned())
                })
                .collect()
        }
        Answer::Absent => Err("no such host".to_owned()),
        Answer::Failed(reason) => Err(reason.clone()),
    }
}
