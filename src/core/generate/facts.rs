//! What is known when a rule is evaluated: answers to earlier requests, the time, chance. Absence is a fact too.

use std::collections::BTreeMap;
use std::sync::Arc;

use ::core::net::IpAddr;
use jiff::Timestamp;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use crate::core::expr::Runtime;
use crate::core::limits::Limits;
use crate::core::resource::text_at;

use super::fetch::Fetch;
use super::gate::Outbound;
use super::rule::Rule;
use super::trigger::Trigger;

/// Everything an evaluation may know besides rule and trigger.
#[derive(Clone, Debug)]
pub struct Facts {
    /// The time that `time_now()` tells.
    pub now: Timestamp,
    /// The seed of `random()`: the same seed gives the same texts.
    pub seed: u64,
    pub limits: Limits,
    /// Hosts that policies may call.
    pub outbound: Outbound,
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
    pub fn new(now: Timestamp, seed: u64) -> Self {
        Self {
            now,
            seed,
            limits: Limits::default(),
            outbound: Outbound::default(),
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
        let runtime = Runtime::new(self.now, self.seed).with_limits(self.limits.expressions);
        self.answers.iter().fold(runtime, |runtime, (fetch, answer)| match fetch {
            Fetch::Host(name) => runtime.with_host(name.as_str(), addresses(answer)),
            _ => runtime,
        })
    }
}

/// The seed of a rule for a trigger. One trigger gets the same `random()` texts from one rule again and again, or a rule that
/// synchronizes would never rest; the salt is what a cluster has of its own.
pub fn seed(salt: &str, rule: &Rule, trigger: &Trigger) -> u64 {
    let mut digest = Sha256::new();
    let object = trigger.object().or_else(|| trigger.old_object());
    let uid = object.map(|object| text_at(object, &["metadata", "uid"])).unwrap_or_default();
    for text in [salt, &rule.policy.to_string(), &rule.name, uid] {
        digest.update(text.as_bytes());
        digest.update([0]);
    }
    let [a, b, c, d, e, f, g, h, ..] = <[u8; 32]>::from(digest.finalize());
    u64::from_be_bytes([a, b, c, d, e, f, g, h])
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
