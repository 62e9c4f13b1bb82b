//! Global context entries as they come and go: into the store that rules read, and what is told about them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::future::join;
use jiff::Timestamp;
use serde_json::Value;
use tokio::sync::mpsc::{Receiver, channel};
use tokio::task::{AbortHandle, Id, JoinError, JoinSet};
use tokio::time::sleep;
use tracing::{error, warn};

use super::shared::Shared;
use crate::cluster::Selection;
use crate::cluster::globals::{Standing, Way};
use crate::cluster::kinds::ApiKind;
use crate::cluster::status::{self, entry_status};
use crate::cluster::watch::{Event, follow};
use crate::compile::generate::global_entry;
use crate::core::resource::text_at;
use crate::core::reviewed::ReviewState;

/// How often to look whether something is to be told: who begins to work tells what others have left.
const LOOK: Duration = Duration::from_secs(5);
/// The longest pause while telling fails.
const LONGEST_PAUSE: Duration = Duration::from_secs(300);

/// Follows the entries for ever.
pub(super) async fn run(shared: Arc<Shared>) {
    let kind = Arc::new(ApiKind::builtin("kyverno.io/v2alpha1", "GlobalContextEntry"));
    let (sender, events) = channel(64);
    let following = follow(shared.api.clone(), kind.clone(), Selection::default(), sender);
    let keeping = Keeping { shared, kind, known: Mutex::default() };
    tokio::select! {
        _ = join(following, keeping.take(events)) => {}
        () = keeping.tell() => {}
    }
}

struct Keeping {
    shared: Arc<Shared>,
    kind: Arc<ApiKind>,
    known: Mutex<BTreeMap<String, Known>>,
}

/// An entry as it is stored.
struct Known {
    document: Value,
    review: ReviewState,
    /// What brings the data; nothing if the entry cannot be used.
    task: Option<AbortHandle>,
}

impl Keeping {
    async fn take(&self, mut events: Receiver<Event>) {
        let mut tasks = JoinSet::new();
        let mut listed: Option<BTreeSet<String>> = None;
        let mut told_trouble = false;
        loop {
            let event = tokio::select! {
                event = events.recv() => event,
                Some(ended) = tasks.join_next_with_id() => {
                    self.mourn(ended);
                    continue;
                }
            };
            match event {
                None => return,
                Some(Event::Listing) => listed = Some(BTreeSet::new()),
                Some(Event::Listed(document)) => {
                    listed.get_or_insert_default().insert(name_of(&document).to_owned());
                    self.see(document, &mut tasks);
                }
                Some(Event::Synced { .. }) => {
                    let present = listed.take().unwrap_or_default();
                    let gone: Vec<String> =
                        self.known().keys().filter(|name| !present.contains(*name)).cloned().collect();
                    gone.iter().for_each(|name| self.lose(name));
                    self.shared.globals.set_listed();
                    told_trouble = false;
                }
                Some(Event::Changed(document)) => self.see(document, &mut tasks),
                Some(Event::Deleted(document)) => self.lose(name_of(&document)),
                Some(Event::Trouble(error)) => {
                    if !std::mem::replace(&mut told_trouble, true) {
                        warn!(%error, "Cannot watch global context entries");
                    }
                    // Where they cannot be read, there are none.
                    if !error.is_outage() {
                        self.shared.globals.set_listed();
                    }
                }
            }
            let unreviewed = self.known().values().filter(|known| known.review.is_unreviewed()).count();
            self.shared.metrics.unreviewed("GlobalContextEntry", unreviewed);
        }
    }

    fn see(&self, document: Value, tasks: &mut JoinSet<()>) {
        let name = name_of(&document).to_owned();
        let review = self.shared.review_check().state(&document);
        if let Some(known) = self.known().get_mut(&name)
            && known.document.get("spec") == document.get("spec")
            && known.review == review
        {
            known.document = document;
            return;
        }
        if let Some(notice) = review.notice() {
            warn!(entry = name, notice, "Global context entry not reviewed");
        }
        let (entry, findings) = global_entry(&document);
        let task = match entry.filter(|_| review.runs()).map(Arc::new) {
            Some(entry) => {
                let Shared { globals, api, discovery, reader, outbound, namespace, .. } = &*self.shared;
                globals.put(&entry);
                let way = Way {
                    api: api.clone(),
                    discovery: discovery.clone(),
                    reader: reader.for_globals(),
                    outbound: outbound.clone(),
                    namespace: namespace.clone(),
                };
                Some(tasks.spawn(globals.clone().keep(entry, way)))
            }
            None => {
                let problem = findings.errors.first().map(ToString::to_string);
                let problem = problem.or_else(|| review.notice().map(str::to_owned)).unwrap_or_default();
                warn!(entry = name, problem, "The global context entry is set aside");
                self.shared.globals.put_aside(&name, problem);
                None
            }
        };
        if let Some(task) = self.known().insert(name, Known { document, review, task }).and_then(|before| before.task) {
            task.abort();
        }
    }

    fn lose(&self, name: &str) {
        if let Some(task) = self.known().remove(name).and_then(|known| known.task) {
            task.abort();
        }
        self.shared.globals.remove(name);
    }

    /// Nobody brings the data any more: what there is gets old, so nobody may use it.
    fn mourn(&self, ended: Result<(Id, ()), JoinError>) {
        let (id, reason) = match ended {
            Ok((id, ())) => (id, "nobody refreshes it".to_owned()),
            Err(error) if error.is_cancelled() => return,
            Err(error) => (error.id(), error.to_string()),
        };
        let known = self.known();
        let of_task = |known: &Known| known.task.as_ref().is_some_and(|task| task.id() == id);
        if let Some((name, _)) = known.iter().find(|(_, known)| of_task(known)) {
            error!(entry = name, reason, "A global context entry is given up");
            self.shared.globals.give_up(name, reason);
        }
    }

    /// Writes the status of every entry that has not got it, for ever.
    async fn tell(&self) {
        let mut failing = BTreeSet::new();
        let mut pause = LOOK;
        loop {
            if self.shared.is_working() {
                self.tell_all(&mut failing).await;
            }
            if failing.is_empty() {
                pause = LOOK;
                tokio::select! {
                    () = self.shared.globals.changed() => {}
                    () = sleep(pause) => {}
                }
            } else {
                sleep(pause).await;
                pause = (pause * 2).min(LONGEST_PAUSE);
            }
        }
    }

    /// Leaves the names of those for which that fails, and says so when it begins.
    async fn tell_all(&self, failing: &mut BTreeSet<String>) {
        let before = std::mem::take(failing);
        for Standing { name, readiness, refreshed } in self.shared.globals.standings() {
            let wanted = self
                .known()
                .get(&name)
                .and_then(|known| entry_status(&known.document, &readiness, refreshed, Timestamp::now()));
            let Some(wanted) = wanted else { continue };
            let written = status::write(&self.shared.api, &self.kind, None, &name, wanted.clone()).await;
            match (written, self.known().get_mut(&name)) {
                (Ok(()), Some(known)) => known.document["status"] = wanted,
                (Err(error), Some(_)) => {
                    if !before.contains(&name) {
                        warn!(entry = name, %error, "Cannot write the status of a global context entry");
                    }
                    failing.insert(name);
                }
                (_, None) => {}
            }
        }
    }

    fn known(&self) -> MutexGuard<'_, BTreeMap<String, Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn name_of(document: &Value) -> &str {
    text_at(document, &["metadata", "name"])
}
