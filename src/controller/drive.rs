//! Evaluation with a cluster at hand: what a rule has to know is fetched, and the rule asked again.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use futures::future::try_join_all;
use jiff::Timestamp;
use serde_json::Value;
use tokio::time::{Instant, timeout_at};

use super::policies::{kind_of_policy, write_status};
use super::shared::Shared;
use crate::cluster::ClusterError;
use crate::core::generate::progress::version_of;
use crate::core::generate::{Answer, Evaluation, Facts, Fetch, Rule, RuleError, Trigger, evaluate, labels, seed};
use crate::core::resource::{ObjectKey, text_at};

/// How long all look-ups of one evaluation may take: whoever evaluates has other rules to look after.
const LONGEST: Duration = Duration::from_secs(60);

/// A rule's result, and which of the objects that it read are marked as sources.
pub(super) struct Driven {
    pub(super) evaluation: Evaluation,
    pub(super) sources: Sources,
}

/// Objects that were read, by UID.
#[derive(Debug, Default)]
pub(super) struct Sources(BTreeMap<String, SourceRead>);

#[derive(Debug)]
struct SourceRead {
    key: ObjectKey,
    marked: bool,
    version: u64,
}

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
    /// The same question has led to a panic before.
    #[error("policy {policy}, rule {rule}: not evaluated, because it panicked for this trigger before")]
    Panicked { policy: String, rule: String },
    #[error("policy {policy}, rule {rule}: the look-ups took longer than {LONGEST:?}")]
    Slow { policy: String, rule: String },
}

pub(super) async fn drive(shared: &Shared, rule: &Rule, trigger: &Trigger) -> Result<Driven, DriveError> {
    let seed = seed(&shared.keys.ready().await.random, rule, trigger);
    let mut facts = Facts::new(Timestamp::now(), seed, shared.bounds());
    facts.limits.context_bytes = shared.settings.load().context_bytes;
    if shared.panics.contain(&shared.snapshot.load(), rule, trigger) {
        return Err(DriveError::Panicked { policy: rule.policy.to_string(), rule: rule.name.clone() });
    }
    let mut sources = Sources::default();
    let end = Instant::now() + LONGEST;
    for _ in 0..facts.limits.rounds {
        let evaluated = evaluate(rule, trigger, &facts);
        if evaluated.as_ref().is_err_and(RuleError::is_panic) {
            mark(shared, rule, trigger).await;
        }
        match evaluated? {
            Evaluation::Needs(needs) => {
                let fetched = timeout_at(end, fetch_all(shared, needs)).await;
                let slow = |_| DriveError::Slow { policy: rule.policy.to_string(), rule: rule.name.clone() };
                for (fetch, answer) in fetched.map_err(slow)?? {
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

/// Makes a panic known: in the metrics and in the status of the policy. The event comes from whoever asked.
async fn mark(shared: &Shared, rule: &Rule, trigger: &Trigger) {
    let snapshot = shared.snapshot.load_full();
    shared.metrics.panicked();
    shared.panics.add(&snapshot, rule, trigger);
    if let Some(indexed) = snapshot.policy(&rule.policy) {
        write_status(shared, &kind_of_policy(&rule.policy), indexed).await;
    }
}

async fn fetch_all(shared: &Shared, needs: BTreeSet<Fetch>) -> Result<Vec<(Fetch, Answer)>, ClusterError> {
    let answers = needs.into_iter().map(|fetch| async {
        let answer = shared.reader.answer(&fetch).await?;
        Ok((fetch, answer))
    });
    try_join_all(answers).await
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
        let read =
            SourceRead { key: ObjectKey::of(object), marked: labels::is_source(object), version: version_of(object) };
        self.0.insert(text_at(object, &["metadata", "uid"]).to_owned(), read);
    }

    /// The object with this UID, unless it carries the mark already.
    pub(super) fn unmarked(&self, uid: &str) -> Option<&ObjectKey> {
        self.0.get(uid).filter(|read| !read.marked).map(|read| &read.key)
    }

    /// Whether one of them was seen in a newer version than the one that was read.
    pub(super) fn have_changed(&self, seen: &HashMap<String, u64>) -> bool {
        self.0.iter().any(|(uid, read)| seen.get(uid).is_some_and(|seen| *seen > read.version))
    }
}
