//! Global context entries as they come and go: into the store that rules read, and what is told about them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;
use tokio::sync::mpsc::{Receiver, channel};
use tokio::task::JoinSet;
use tokio::time::sleep;
use tracing::warn;

use super::shared::Shared;
use crate::cluster::Selection;
use crate::cluster::globals::{Standing, Way};
use crate::cluster::kinds::ApiKind;
use crate::cluster::status::{self, entry_status};
use crate::cluster::watch::{Event, follow};
use crate::compile::generate::global_entry;
use crate::core::resource::text_at;

/// How often to look whether something is to be told: who begins to work tells what others have left.
const LOOK: Duration = Duration::from_secs(5);

/// Follows the entries for ever.
pub(super) async fn run(shared: Arc<Shared>) {
    let kind = Arc::new(ApiKind::builtin("kyverno.io/v2alpha1", "GlobalContextEntry"));
    let (sender, events) = channel(64);
    let following = follow(shared.api.clone(), kind.clone(), Selection::default(), sender);
    let mut keeping = Keeping { shared, kind, known: BTreeMap::new(), told_trouble: false };
    tokio::join!(following, keeping.take(events));
}

struct Keeping {
    shared: Arc<Shared>,
    kind: Arc<ApiKind>,
    known: BTreeMap<String, Known>,
    told_trouble: bool,
}

/// An entry as it is stored.
struct Known {
    document: Value,
    /// Brings the data, and ends with the entry.
    _task: JoinSet<()>,
}

impl Keeping {
    async fn take(&mut self, mut events: Receiver<Event>) {
        let mut listed: Option<BTreeSet<String>> = None;
        loop {
            tokio::select! {
                event = events.recv() => match event {
                    None => return,
                    Some(Event::Listing) => listed = Some(BTreeSet::new()),
                    Some(Event::Listed(document)) => {
                        listed.get_or_insert_default().insert(name_of(&document).to_owned());
                        self.see(document);
                    }
                    Some(Event::Synced { .. }) => {
                        let present = listed.take().unwrap_or_default();
                        let gone: Vec<String> = self.known.keys().filter(|name| !present.contains(*name)).cloned().collect();
                        gone.iter().for_each(|name| self.lose(name));
                        self.shared.globals.set_listed();
                        self.told_trouble = false;
                    }
                    Some(Event::Changed(document)) => self.see(document),
                    Some(Event::Deleted(document)) => self.lose(name_of(&document)),
                    Some(Event::Trouble(error)) => {
                        if !std::mem::replace(&mut self.told_trouble, true) {
                            warn!(%error, "Cannot watch global context entries");
                        }
                        // Where they cannot be read, there are none.
                        if !error.is_outage() {
                            self.shared.globals.set_listed();
                        }
                    }
                },
                () = self.shared.globals.changed() => {}
                () = sleep(LOOK) => {}
            }
            self.tell().await;
        }
    }

    fn see(&mut self, document: Value) {
        let name = name_of(&document).to_owned();
        if let Some(known) = self.known.get_mut(&name)
            && known.document.get("spec") == document.get("spec")
        {
            known.document = document;
            return;
        }
        let mut task = JoinSet::new();
        let (entry, findings) = global_entry(&document);
        match entry.map(Arc::new) {
            Some(entry) => {
                let Shared { globals, api, discovery, reader, outbound, .. } = &*self.shared;
                globals.put(&entry);
                let way = Way {
                    api: api.clone(),
                    discovery: discovery.clone(),
                    reader: reader.clone(),
                    outbound: outbound.clone(),
                };
                task.spawn(globals.clone().keep(entry, way));
            }
            None => {
                let problem = findings.errors.first().map(ToString::to_string).unwrap_or_default();
                warn!(entry = name, problem, "The global context entry is set aside");
                self.shared.globals.put_aside(&name, problem);
            }
        }
        self.known.insert(name, Known { document, _task: task });
    }

    fn lose(&mut self, name: &str) {
        self.known.remove(name);
        self.shared.globals.remove(name);
    }

    /// Writes the status of every entry that has not got it.
    async fn tell(&mut self) {
        if !self.shared.is_working() {
            return;
        }
        for Standing { name, readiness, refreshed } in self.shared.globals.standings() {
            let Some(known) = self.known.get_mut(&name) else { continue };
            let Some(wanted) = entry_status(&known.document, &readiness, refreshed, Timestamp::now()) else {
                continue;
            };
            match status::write(&self.shared.api, &self.kind, None, &name, wanted.clone()).await {
                Ok(()) => known.document["status"] = wanted,
                Err(error) => warn!(entry = name, %error, "Cannot write the status of a global context entry"),
            }
        }
    }
}

fn name_of(document: &Value) -> &str {
    text_at(document, &["metadata", "name"])
}
