//! Evaluation with a cluster at hand: what a rule has to know is fetched, and the rule asked again.

use std::collections::{BTreeMap, BTreeSet};

use futures::future::try_join_all;
use jiff::Timestamp;
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::shared::Shared;
use crate::cluster::ClusterError;
use crate::core::generate::{Answer, Evaluation, Facts, Fetch, Rule, RuleError, Trigger, evaluate, labels};
use crate::core::resource::{ObjectKey, text_at};

/// A rule's result, and which of the objects that it read are marked as sources.
pub(super) struct Driven {
    pub(super) evaluation: Evaluation,
    pub(super) sources: Sources,
}

/// Objects that were read, by UID.
#[derive(Debug, Default)]
pub(super) struct Sources(BTreeMap<String, (ObjectKey, bool)>);

/// Why there is no result.
#[derive(Debug, thiserror::Error)]
pub(super) enum DriveError {
    #[error(transparent)]
    Rule(#[from] RuleError),
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    #[error(
        "policy {policy}, rule {rule}: more than {rounds} rounds of look-ups; the rule asks for more than its budget"
    )]
    Rounds { policy: String, rule: String, rounds: usize },
}

pub(super) async fn drive(shared: &Shared, rule: &Rule, trigger: &Trigger) -> Result<Driven, DriveError> {
    let mut facts = Facts::new(Timestamp::now(), seed(&shared.salt.load(), rule, trigger));
    facts.outbound = shared.outbound.clone();
    facts.limits.context_bytes = shared.settings.load().context_bytes;
    let mut sources = Sources::default();
    for _ in 0..facts.limits.rounds {
        match evaluate(rule, trigger, &facts)? {
            Evaluation::Needs(needs) => {
                for (fetch, answer) in fetch_all(shared, needs).await? {
                    sources.note(&fetch, &answer);
                    facts.insert(fetch, answer);
                }
            }
            evaluation => return Ok(Driven { evaluation, sources }),
        }
    }
    let (policy, rounds) = (rule.policy.to_string(), facts.limits.rounds);
    Err(DriveError::Rounds { policy, rule: rule.name.clone(), rounds })
}

async fn fetch_all(shared: &Shared, needs: BTreeSet<Fetch>) -> Result<Vec<(Fetch, Answer)>, ClusterError> {
    let answers = needs.into_iter().map(|fetch| async {
        let answer = shared.reader.answer(&fetch).await?;
        Ok((fetch, answer))
    });
    try_join_all(answers).await
}

/// One trigger gets the same `random()` texts from one rule again and again, or a rule that synchronizes would never rest.
fn seed(salt: &str, rule: &Rule, trigger: &Trigger) -> u64 {
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

impl Sources {
    fn note(&mut self, fetch: &Fetch, answer: &Answer) {
        let Answer::Found(found) = answer else { return };
        match fetch {
            Fetch::Object(_) => self.add(found),
            Fetch::List(_) => found.as_array().into_iter().flatten().for_each(|object| self.add(object)),
            _ => {}
        }
    }

    fn add(&mut self, object: &Value) {
        let marked =
            object.pointer("/metadata/labels").is_some_and(|labels| labels.get(labels::CLONE_SOURCE).is_some());
        self.0.insert(text_at(object, &["metadata", "uid"]).to_owned(), (ObjectKey::of(object), marked));
    }

    /// The object with this UID, unless it carries the mark already.
    pub(super) fn unmarked(&self, uid: &str) -> Option<&ObjectKey> {
        self.0.get(uid).filter(|(_, marked)| !marked).map(|(key, _)| key)
    }
}
