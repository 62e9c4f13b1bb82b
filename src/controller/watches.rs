//! Which watches run, and what their events mean.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::sync::mpsc::{Receiver, channel};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::sleep;
use tracing::{debug, info, warn};

use super::chores::Chore;
use super::downstream::Seen as DownstreamSeen;
use super::policies;
use super::queue::Lane;
use super::shared::Shared;
use super::triggers::Seen;
use super::work::{Causes, Work, WorkKey};
use crate::cluster::Selection;
use crate::cluster::kinds::ApiKind;
use crate::cluster::watch::{Event, follow, strip};
use crate::core::generate::progress::version_of;
use crate::core::generate::{TriggerRef, labels};
use crate::core::matching::Resource;
use crate::core::resource::{Gvk, ObjectKey, text_at};

/// What a watch is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Purpose {
    Triggers,
    Downstream,
    Sources,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct WatchKey {
    purpose: Purpose,
    gvk: Gvk,
    namespace: Option<String>,
}

/// Starts and stops watches as the policies ask for. Ends only if one of them dies of its own.
pub(super) async fn run(shared: Arc<Shared>) {
    let mut running: BTreeMap<WatchKey, AbortHandle> = BTreeMap::new();
    let mut tasks = JoinSet::new();
    loop {
        let wanted = wanted(&shared);
        for (key, kind) in &wanted {
            if !running.contains_key(key) {
                debug!(purpose = ?key.purpose, kind = %key.gvk, "Watching");
                let handle = tasks.spawn(one(shared.clone(), key.clone(), kind.clone()));
                running.insert(key.clone(), handle);
            }
        }
        running.retain(|key, handle| {
            let keep = wanted.contains_key(key);
            if !keep {
                handle.abort();
                stop(&shared, key);
            }
            keep
        });
        tokio::select! {
            () = shared.rewatch.notified() => {}
            Some(ended) = tasks.join_next() => {
                if !ended.is_err_and(|error| error.is_cancelled()) {
                    return;
                }
            }
        }
    }
}

/// The watches that the policies ask for, as far as the cluster has their kinds. One of a whole cluster covers those of
/// single namespaces.
fn wanted(shared: &Shared) -> BTreeMap<WatchKey, Arc<ApiKind>> {
    let (kinds, wants) = (shared.discovery.kinds(), shared.snapshot.load().wants());
    let mut found: Vec<(Purpose, Arc<ApiKind>, Option<String>)> = Vec::new();
    for (selector, namespace) in wants.triggers {
        found.extend(kinds.select(&selector).into_iter().map(|kind| (Purpose::Triggers, kind, namespace.clone())));
    }
    for (purpose, list) in [(Purpose::Downstream, wants.downstream), (Purpose::Sources, wants.sources)] {
        for (gvk, namespace) in list {
            found.extend(kinds.find(&gvk).map(|kind| (purpose, kind.clone(), namespace)));
        }
    }
    let mut wanted = BTreeMap::new();
    for (purpose, kind, namespace) in found {
        let namespace = namespace.filter(|_| kind.is_namespaced());
        wanted.insert(WatchKey { purpose, gvk: kind.gvk.clone(), namespace }, kind);
    }
    let whole: BTreeSet<(Purpose, Gvk)> =
        wanted.keys().filter(|key| key.namespace.is_none()).map(|key| (key.purpose, key.gvk.clone())).collect();
    wanted.retain(|key, _| key.namespace.is_none() || !whole.contains(&(key.purpose, key.gvk.clone())));
    wanted
}

fn stop(shared: &Shared, key: &WatchKey) {
    match key.purpose {
        Purpose::Triggers => shared.triggers().drop_watch(&key.gvk, key.namespace.as_deref()),
        Purpose::Downstream => shared.downstream().drop_watch(&key.gvk, key.namespace.as_deref()),
        Purpose::Sources => {}
    }
}

async fn one(shared: Arc<Shared>, key: WatchKey, kind: Arc<ApiKind>) {
    let labels = match key.purpose {
        Purpose::Triggers => String::new(),
        Purpose::Downstream => format!("{}={}", labels::MANAGED_BY, labels::MANAGER),
        // A source that is itself generated is seen by the watch of generated objects.
        Purpose::Sources => format!("{},{}!={}", labels::CLONE_SOURCE, labels::MANAGED_BY, labels::MANAGER),
    };
    let selection = Selection {
        namespace: key.namespace.clone(),
        labels,
        metadata_only: key.purpose == Purpose::Sources,
        ..Selection::default()
    };
    let (sender, events) = channel(64);
    let following = follow(shared.api.clone(), kind.clone(), selection, sender);
    match key.purpose {
        Purpose::Triggers => tokio::join!(following, triggers(shared, key, kind, events)),
        Purpose::Downstream => tokio::join!(following, downstream(shared, key, events)),
        Purpose::Sources => tokio::join!(following, sources(shared, kind, events)),
    };
}

async fn triggers(shared: Arc<Shared>, key: WatchKey, kind: Arc<ApiKind>, mut events: Receiver<Event>) {
    let WatchKey { gvk, namespace, .. } = key;
    shared.triggers().start_watch(&gvk);
    let (mut listed, mut synced) = (HashSet::new(), false);
    while let Some(event) = events.recv().await {
        match event {
            Event::Listing => listed.clear(),
            Event::Listed(object) => {
                listed.insert(text_at(&object, &["metadata", "uid"]).to_owned());
                see_trigger(&shared, &kind, object, synced, false);
            }
            Event::Synced { version } => {
                let first = !std::mem::replace(&mut synced, true);
                // Asked for before the kind counts as known: at no moment does a rule seem to be through with it.
                let asked = first && shared.is_working();
                if asked {
                    shared.pass_over(&gvk);
                }
                let gone = shared.triggers().settle(&gvk, namespace.as_deref(), &listed, version);
                listed = HashSet::new();
                gone.into_iter().for_each(|trigger| lose_trigger(&shared, trigger));
                // Whoever began to work just then did not know the kind yet.
                if first && !asked && shared.is_working() {
                    shared.pass_over(&gvk);
                }
            }
            Event::Changed(object) => see_trigger(&shared, &kind, object, true, true),
            Event::Deleted(object) => {
                let trigger = TriggerRef::of(&object);
                shared.triggers().forget(&gvk, &trigger.uid);
                lose_trigger(&shared, trigger);
            }
            Event::Trouble(error) => warn!(kind = %gvk, %error, "Cannot watch triggers"),
        }
    }
}

/// What is there when a watch begins is gone through by the passes of the rules; what comes later is news. `live`: an event of
/// the watch, not the outcome of a list.
fn see_trigger(shared: &Shared, kind: &ApiKind, mut object: Value, news: bool, live: bool) {
    let sighting = shared.sight(&object, live);
    strip(&mut object);
    // One that is being deleted is a trigger until it is gone: a finalizer must not end what was made for it.
    let seen = shared.triggers().see(&kind.gvk, &object, kind.has_status());
    let causes = match seen {
        Seen::New => Causes::TRIGGER | Causes::FRESH,
        Seen::Changed => Causes::TRIGGER,
        Seen::Same => return,
    };
    if news && shared.is_working() {
        shared.offer(&kind.gvk, object, &sighting, causes);
    }
}

fn lose_trigger(shared: &Shared, trigger: TriggerRef) {
    if !shared.is_working() {
        return;
    }
    let snapshot = shared.snapshot.load();
    let Gvk { group, version, kind } = &trigger.gvk;
    let resource = Resource { group, version, kind, subresource: "" };
    for entry in snapshot.candidates(&resource) {
        if entry.rule.follows_deletion() {
            let key = WorkKey::new(&entry.policy.key, &entry.rule.name, &trigger);
            shared.queue.add(Lane::Live, key, Work::new(Causes::GONE, trigger.clone()));
        }
    }
}

async fn downstream(shared: Arc<Shared>, key: WatchKey, mut events: Receiver<Event>) {
    let WatchKey { gvk, namespace, .. } = key;
    shared.downstream().start_watch(&gvk, namespace.as_deref());
    let mut listed = HashSet::new();
    while let Some(event) = events.recv().await {
        match event {
            Event::Listing => listed.clear(),
            Event::Listed(object) => {
                listed.insert(ObjectKey::of(&object));
                see_downstream(&shared, &object, Lane::Bulk, false);
            }
            Event::Synced { version } => {
                let gone = shared.downstream().settle(&gvk, namespace.as_deref(), &listed, version);
                listed = HashSet::new();
                for (_, record) in gone {
                    shared.enqueue_owner(Lane::Live, &record.marks, Causes::DOWNSTREAM, None);
                    shared.enqueue_copies(&record.uid, true);
                }
            }
            Event::Changed(object) => see_downstream(&shared, &object, Lane::Live, shared.is_working()),
            Event::Deleted(object) => {
                let record = shared.downstream().remove(&ObjectKey::of(&object));
                if let Some(record) = record {
                    shared.source_versions().remove(&record.uid);
                    shared.restore(&record.marks);
                    shared.enqueue_copies(&record.uid, true);
                }
            }
            Event::Trouble(error) => warn!(kind = %gvk, %error, "Cannot watch generated objects"),
        }
    }
}

fn see_downstream(shared: &Shared, object: &Value, lane: Lane, leading: bool) {
    let seen = shared.downstream().see(object, leading);
    if let DownstreamSeen::Other(owners, pause) = seen {
        for marks in owners {
            shared.enqueue_owner_later(lane, &marks, pause);
        }
        let uid = text_at(object, &["metadata", "uid"]);
        if labels::is_source(object) {
            shared.see_source(uid, version_of(object));
        }
        shared.enqueue_copies(uid, false);
    }
}

async fn sources(shared: Arc<Shared>, kind: Arc<ApiKind>, mut events: Receiver<Event>) {
    let mut known: HashMap<String, (ObjectKey, u64)> = HashMap::new();
    let mut listed = HashSet::new();
    while let Some(event) = events.recv().await {
        match event {
            Event::Listing => listed.clear(),
            Event::Listed(object) => {
                listed.insert(text_at(&object, &["metadata", "uid"]).to_owned());
                see_source(&shared, &mut known, &object);
            }
            Event::Changed(object) => see_source(&shared, &mut known, &object),
            Event::Synced { .. } => {
                let gone: Vec<String> = known.keys().filter(|uid| !listed.contains(*uid)).cloned().collect();
                listed = HashSet::new();
                for uid in gone {
                    if let Some((key, _)) = known.remove(&uid) {
                        shared.source_versions().remove(&uid);
                        shared.chore(Chore::CheckSource { kind: kind.clone(), key, uid });
                    }
                }
            }
            // It may only have lost the mark.
            Event::Deleted(object) => {
                let uid = text_at(&object, &["metadata", "uid"]).to_owned();
                known.remove(&uid);
                shared.source_versions().remove(&uid);
                shared.chore(Chore::CheckSource { kind: kind.clone(), key: ObjectKey::of(&object), uid });
            }
            Event::Trouble(error) => warn!(kind = %kind.gvk, %error, "Cannot watch sources"),
        }
    }
}

fn see_source(shared: &Shared, known: &mut HashMap<String, (ObjectKey, u64)>, object: &Value) {
    let uid = text_at(object, &["metadata", "uid"]);
    let version = version_of(object);
    let before = known.insert(uid.to_owned(), (ObjectKey::of(object), version));
    shared.see_source(uid, version);
    if before.is_none_or(|(_, before)| before != version) {
        shared.enqueue_copies(uid, false);
    }
}

/// Keeps the view of the cluster's kinds current: at once when definitions change, and now and then in any case.
pub(super) async fn follow_kinds(shared: Arc<Shared>) {
    const NOW_AND_THEN: Duration = Duration::from_secs(60);
    const TOGETHER: Duration = Duration::from_millis(100);
    let kind = Arc::new(ApiKind::builtin("apiextensions.k8s.io/v1", "CustomResourceDefinition"));
    let selection = Selection { metadata_only: true, ..Selection::default() };
    let (sender, mut events) = channel(64);
    let following = follow(shared.api.clone(), kind, selection, sender);
    let mut known = shared.discovery.kinds();
    let refreshing = async {
        loop {
            tokio::select! {
                event = events.recv() => match event {
                    None => return,
                    Some(Event::Trouble(error)) => {
                        warn!(%error, "Cannot watch definitions of kinds");
                        continue;
                    }
                    Some(Event::Listing | Event::Listed(_)) => continue,
                    Some(_) => {}
                },
                () = sleep(NOW_AND_THEN) => {}
            }
            // Definitions come in bunches, and the API server needs a moment to serve a new one.
            sleep(TOGETHER).await;
            while let Ok(event) = events.try_recv() {
                drop(event);
            }
            if let Err(error) = shared.discovery.refresh().await {
                warn!(%error, "Cannot ask for the kinds of the cluster");
                continue;
            }
            // Others ask too, when they meet a kind that is not known, and may have been first to hear of it.
            let kinds = shared.discovery.kinds();
            if !Arc::ptr_eq(&kinds, &known) {
                info!("The kinds of the cluster have changed");
                policies::meet_kinds(&shared, &known, &kinds).await;
                known = kinds;
            }
        }
    };
    tokio::join!(following, refreshing);
}
