//! Exceptions as they come and go: into the index, and the rules that they are for look at their triggers again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;
use tokio::sync::mpsc::{Receiver, channel};
use tracing::{info, warn};

use super::policies::{Listed, look_at_downstream, look_at_triggers};
use super::shared::Shared;
use crate::cluster::kinds::ApiKind;
use crate::cluster::watch::{Event, follow};
use crate::cluster::{ClusterError, Selection};
use crate::core::generate::ExceptionKey;
use crate::core::problem::Problem;
use crate::core::resource::text_at;
use crate::index::RuleEntry;

/// Follows the exceptions of a namespace, or of all of them, for ever.
pub(super) async fn run(shared: Arc<Shared>, namespace: Option<String>, listed: Listed) {
    let kind = Arc::new(ApiKind::builtin("kyverno.io/v2", "PolicyException"));
    let (sender, events) = channel(64);
    let selection = Selection { namespace, ..Selection::default() };
    let following = follow(shared.api.clone(), kind, selection, sender);
    tokio::join!(following, take(shared, events, listed));
}

async fn take(shared: Arc<Shared>, mut events: Receiver<Event>, told: Listed) {
    let mut listed = BTreeMap::new();
    let mut unreviewed = BTreeSet::new();
    while let Some(event) = events.recv().await {
        match event {
            Event::Listing => {
                listed.clear();
                unreviewed.clear();
            }
            Event::Listed(document) => {
                if counts(&shared, &document, &mut unreviewed) {
                    listed.insert(key_of(&document), document);
                }
            }
            Event::Synced { .. } => {
                let (problems, touched) = shared.index().except_only(&std::mem::take(&mut listed));
                problems.iter().for_each(|(key, problem)| set_aside(key, problem));
                reconsider(&shared, &touched);
                told.holds();
            }
            Event::Changed(document) if counts(&shared, &document, &mut unreviewed) => apply(&shared, &document),
            Event::Changed(document) => {
                let touched = shared.index().unexcept(&key_of(&document));
                reconsider(&shared, &touched);
            }
            Event::Deleted(document) => {
                let key = key_of(&document);
                unreviewed.remove(&key);
                info!(exception = %key, "The exception is gone");
                let touched = shared.index().unexcept(&key);
                reconsider(&shared, &touched);
            }
            Event::Trouble(error) => {
                warn!(%error, "Cannot watch exceptions");
                match error {
                    // A cluster without this kind has no exceptions.
                    ClusterError::UnknownKind { .. } => told.holds(),
                    error if !error.is_outage() => told.condition.fails(error.to_string()),
                    _ => {}
                }
            }
        }
        shared.metrics.unreviewed("PolicyException", unreviewed.len());
    }
}

/// Whether an exception counts: one that admission has not reviewed does only if operators say so.
fn counts(shared: &Shared, document: &Value, unreviewed: &mut BTreeSet<ExceptionKey>) -> bool {
    let (key, state) = (key_of(document), shared.review_check().state(document));
    if !state.is_unreviewed() {
        unreviewed.remove(&key);
    } else if unreviewed.insert(key.clone())
        && let Some(notice) = state.notice()
    {
        warn!(exception = %key, notice, "Exception not reviewed");
    }
    state.runs()
}

fn apply(shared: &Shared, document: &Value) {
    let key = key_of(document);
    let (problems, touched) = shared.index().except(key.clone(), document);
    problems.iter().for_each(|problem| set_aside(&key, problem));
    reconsider(shared, &touched);
}

fn set_aside(exception: &ExceptionKey, problem: &Problem) {
    warn!(%exception, %problem, "The exception is set aside");
}

/// Lets everybody see the rules under their new exceptions, and has those that synchronize look at what they are for once more.
fn reconsider(shared: &Shared, touched: &[RuleEntry]) {
    if touched.is_empty() {
        return;
    }
    shared.publish();
    if shared.is_working() {
        for RuleEntry { policy, rule } in touched {
            look_at_downstream(shared, &policy.key, rule);
            // What another rule has passed over is past. Its cursor may be behind what it has done: going through the triggers
            // would make again what users have deleted since.
            if rule.synchronize {
                look_at_triggers(shared, &policy.key, rule);
            }
        }
    }
}

fn key_of(document: &Value) -> ExceptionKey {
    let text = |name: &str| text_at(document, &["metadata", name]).to_owned();
    ExceptionKey { namespace: text("namespace"), name: text("name") }
}
