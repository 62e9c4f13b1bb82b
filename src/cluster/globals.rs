//! Global context entries, filled: the objects of a resource by a watch, the answer of a call by asking again and again.
//!
//! Who learns of entries hands them in and runs [`Globals::keep`] for each; rules find them through the reader. Where nothing
//! is known yet the question waits like one to an API server that is not there.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;
use tokio::sync::Notify;
use tokio::sync::mpsc::{Receiver, channel};
use tokio::time::sleep;
use tracing::warn;

use super::api::{Api, Selection};
use super::discovery::Discovery;
use super::fetch::Reader;
use super::kinds::ApiKind;
use super::status::Readiness;
use super::watch::{Event, follow, strip};
use super::{ClusterError, error::causes};
use crate::core::expr::Runtime;
use crate::core::generate::global::{GlobalEntry, GlobalPoll, GlobalResource, GlobalSource};
use crate::core::generate::{Answer, Gate, GlobalFetch, InstallBounds, Outbound, Reach};
use crate::core::resource::ObjectKey;

const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// Everything that is kept. Clones share it.
#[derive(Clone, Default)]
pub struct Globals(Arc<Inner>);

#[derive(Default)]
struct Inner {
    held: Mutex<Held>,
    changed: Notify,
}

#[derive(Default)]
struct Held {
    /// Which entries there are is known.
    listed: bool,
    shelves: BTreeMap<String, Shelf>,
}

/// One entry and its data.
struct Shelf {
    /// Nothing if the entry cannot be used.
    entry: Option<Arc<GlobalEntry>>,
    content: Content,
    /// When the data was last read as a whole.
    refreshed: Option<Timestamp>,
    /// What rules are given, by projection: the same until the content changes.
    views: BTreeMap<Option<String>, View>,
}

/// Made by the first who asks, while nobody holds the lock of all entries.
type View = Arc<OnceLock<Result<Arc<Value>, String>>>;

#[derive(Clone)]
enum Content {
    Loading,
    Failed(String),
    Objects(Objects),
    Response(Arc<Value>),
}

/// Whoever makes a view has them as they were.
type Objects = Arc<BTreeMap<ObjectKey, Arc<Value>>>;

/// How an entry stands.
pub struct Standing {
    pub name: String,
    pub readiness: Readiness,
    pub refreshed: Option<Timestamp>,
}

impl Globals {
    /// Takes an entry in, or another version of it. Its data is there once [`Self::keep`] has brought it.
    pub fn put(&self, entry: &Arc<GlobalEntry>) {
        let shelf = Shelf::new(Some(entry.clone()), Content::Loading);
        self.held().shelves.insert(entry.name.clone(), shelf);
    }

    /// Takes in an entry that cannot be used.
    pub fn put_aside(&self, name: &str, because: String) {
        self.held().shelves.insert(name.to_owned(), Shelf::new(None, Content::Failed(because)));
        self.0.changed.notify_one();
    }

    /// Nobody keeps the data of an entry any more. Why it has none, if it is known already, stays.
    pub fn give_up(&self, name: &str, because: String) {
        if let Some(shelf) = self.held().shelves.get_mut(name)
            && !matches!(shelf.content, Content::Failed(_))
        {
            shelf.content = Content::Failed(because);
            shelf.views.clear();
        }
        self.0.changed.notify_one();
    }

    pub fn remove(&self, name: &str) {
        self.held().shelves.remove(name);
    }

    /// All entries have been put in: one that is not there does not exist.
    pub fn set_listed(&self) {
        self.held().listed = true;
    }

    /// Waits until some entry stands otherwise than before.
    pub async fn changed(&self) {
        self.0.changed.notified().await;
    }

    /// How entries stand, except for those whose data is on its way.
    pub fn standings(&self) -> Vec<Standing> {
        let held = self.held();
        let known = held.shelves.iter().filter_map(|(name, shelf)| {
            let readiness = match &shelf.content {
                Content::Loading => return None,
                Content::Failed(because) => Readiness::NotReady { because: because.clone() },
                Content::Objects(_) | Content::Response(_) => Readiness::Ready,
            };
            Some(Standing { name: name.clone(), readiness, refreshed: shelf.refreshed })
        });
        known.collect()
    }

    pub(super) fn answer(&self, fetch: &GlobalFetch, bounds: &InstallBounds) -> Result<Answer, ClusterError> {
        let mut held = self.held();
        let found = fetch.readings().find(|(entry, _)| held.shelves.contains_key(*entry));
        let Some((name, projection)) = found else {
            return if held.listed { Ok(Answer::Absent) } else { Err(not_yet("the entries are still being listed")) };
        };
        let Some(shelf) = held.shelves.get_mut(name) else { return Ok(Answer::Absent) };
        if let Some(Err(refusal)) = shelf.entry.as_ref().map(|entry| entry.check_reach(fetch, bounds)) {
            return Ok(Answer::Failed(refusal.to_string()));
        }
        match &shelf.content {
            Content::Loading => return Err(not_yet("its data is not here yet")),
            Content::Failed(because) => return Ok(Answer::Failed(because.clone())),
            Content::Objects(_) | Content::Response(_) => {}
        }
        let sight = shelf.sight(projection);
        drop(held);
        Ok(match sight.view(projection) {
            Ok(view) => Answer::Found(view),
            Err(reason) => Answer::Failed(reason),
        })
    }

    /// Keeps the data of an entry current, for ever.
    pub async fn keep(self, entry: Arc<GlobalEntry>, way: Way) {
        match &entry.source {
            GlobalSource::Resource(resource) => self.follow(&entry, resource, &way).await,
            GlobalSource::Poll(poll) => self.poll(&entry, poll, &way).await,
        }
    }

    async fn follow(&self, entry: &Arc<GlobalEntry>, resource: &GlobalResource, way: &Way) {
        let kind = self.find(entry, resource, way).await;
        let bounds = way.bounds();
        if let Err(refusal) = Gate::new(&Reach::Cluster, &bounds).resource(
            &resource.group,
            &resource.resource,
            resource.namespace.as_deref(),
        ) {
            return self.fill(entry, Content::Failed(refusal.to_string()));
        }
        let selection = Selection { namespace: resource.namespace.clone(), ..Selection::default() };
        let (sender, events) = channel(64);
        tokio::join!(follow(way.api.clone(), kind, selection, sender), self.take(entry, events, &bounds));
    }

    async fn find(&self, entry: &Arc<GlobalEntry>, resource: &GlobalResource, way: &Way) -> Arc<ApiKind> {
        let GlobalResource { group, version, resource, .. } = resource;
        let mut pause = FIRST_PAUSE;
        loop {
            if let Some(kind) = way.discovery.kinds().by_plural(group, version, resource) {
                return kind.clone();
            }
            match way.discovery.refresh().await {
                Ok(true) => continue,
                Ok(false) => {
                    let reason = format!("the cluster has no resource `{resource}` in `{group}/{version}`");
                    self.fill(entry, Content::Failed(reason));
                }
                Err(error) => warn!(entry = entry.name, %error, "Cannot ask for the kinds of the cluster"),
            }
            sleep(next(&mut pause)).await;
        }
    }

    async fn take(&self, entry: &Arc<GlobalEntry>, mut events: Receiver<Event>, bounds: &InstallBounds) {
        let mut listed: Option<BTreeMap<ObjectKey, Arc<Value>>> = None;
        while let Some(event) = events.recv().await {
            match event {
                Event::Listing => listed = Some(BTreeMap::new()),
                Event::Listed(object) | Event::Changed(object) if bounds.owns(&ObjectKey::of(&object)) => {}
                Event::Listed(mut object) => {
                    strip(&mut object);
                    listed.get_or_insert_default().insert(ObjectKey::of(&object), Arc::new(object));
                }
                Event::Synced { .. } => {
                    self.fill(entry, Content::Objects(Arc::new(listed.take().unwrap_or_default())));
                }
                Event::Changed(mut object) => {
                    strip(&mut object);
                    let (key, object) = (ObjectKey::of(&object), Arc::new(object));
                    self.edit(entry, |objects| drop(objects.insert(key, object)));
                }
                Event::Deleted(object) => self.edit(entry, |objects| {
                    objects.remove(&ObjectKey::of(&object));
                }),
                // It is listed again and again instead.
                Event::Trouble(error @ ClusterError::Refused { verb: "watch", .. }) => {
                    warn!(entry = entry.name, %error, "Cannot watch for a global context entry");
                }
                Event::Trouble(error) => {
                    warn!(entry = entry.name, %error, "Cannot fill a global context entry");
                    if !error.is_outage() {
                        self.fill(entry, Content::Failed(causes(&error)));
                    }
                }
            }
        }
    }

    async fn poll(&self, entry: &Arc<GlobalEntry>, poll: &GlobalPoll, way: &Way) {
        let (mut pause, mut left, mut outage) = (FIRST_PAUSE, poll.retries, false);
        loop {
            let wait = match ask(poll, way).await {
                Ok(data) => {
                    (pause, left, outage) = (FIRST_PAUSE, poll.retries, false);
                    self.fill(entry, Content::Response(Arc::new(data)));
                    poll.every
                }
                // Nothing is known of the data then: what there is stays, and nothing stays on its way.
                Err(Unanswered::Outage(error)) => {
                    if !std::mem::replace(&mut outage, true) {
                        warn!(entry = entry.name, %error, "Cannot refresh a global context entry");
                    }
                    next(&mut pause)
                }
                Err(Unanswered::Failed(_)) if left > 0 => {
                    left -= 1;
                    next(&mut pause)
                }
                Err(Unanswered::Failed(reason)) => {
                    (pause, left, outage) = (FIRST_PAUSE, poll.retries, false);
                    self.fill(entry, Content::Failed(reason));
                    poll.every.min(LONGEST_PAUSE)
                }
            };
            sleep(wait).await;
        }
    }

    /// Replaces the data of an entry, unless there is another version of it by now.
    fn fill(&self, entry: &Arc<GlobalEntry>, content: Content) {
        if let Some(shelf) = self.held().shelf(entry) {
            if !matches!(content, Content::Failed(_)) {
                shelf.refreshed = Some(Timestamp::now());
            }
            shelf.content = content;
            shelf.views.clear();
        }
        self.0.changed.notify_one();
    }

    fn edit(&self, entry: &Arc<GlobalEntry>, change: impl FnOnce(&mut BTreeMap<ObjectKey, Arc<Value>>)) {
        if let Some(shelf) = self.held().shelf(entry)
            && let Content::Objects(objects) = &mut shelf.content
        {
            change(Arc::make_mut(objects));
            shelf.views.clear();
        }
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.0.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What data is brought by.
#[derive(Clone)]
pub struct Way {
    pub api: Api,
    pub discovery: Arc<Discovery>,
    pub reader: Reader,
    pub outbound: Arc<Outbound>,
    /// The namespace of the install.
    pub namespace: String,
}

impl Way {
    fn bounds(&self) -> InstallBounds {
        let catalog = self.discovery.kinds().catalog();
        InstallBounds::of_cluster(catalog, &*self.namespace).with_outbound(self.outbound.clone())
    }
}

impl Held {
    fn shelf(&mut self, entry: &Arc<GlobalEntry>) -> Option<&mut Shelf> {
        let shelf = self.shelves.get_mut(&entry.name)?;
        shelf.entry.as_ref().is_some_and(|known| Arc::ptr_eq(known, entry)).then_some(shelf)
    }
}

impl Shelf {
    fn new(entry: Option<Arc<GlobalEntry>>, content: Content) -> Self {
        Self { entry, content, refreshed: None, views: BTreeMap::new() }
    }

    fn sight(&mut self, projection: Option<&str>) -> Sight {
        let views = &mut self.views;
        let mut view = |projection: Option<&str>| views.entry(projection.map(str::to_owned)).or_default().clone();
        Sight { entry: self.entry.clone(), content: self.content.clone(), whole: view(None), wanted: view(projection) }
    }
}

/// The content of an entry at one moment, and where what is made of it is kept.
struct Sight {
    entry: Option<Arc<GlobalEntry>>,
    content: Content,
    whole: View,
    wanted: View,
}

impl Sight {
    fn view(&self, projection: Option<&str>) -> Result<Arc<Value>, String> {
        let project = || {
            let entry = self.entry.as_ref().ok_or("it cannot be used")?;
            let whole = self.whole()?;
            entry.view(&whole, projection, &Runtime::new(Timestamp::now(), 0)).map(Arc::new)
        };
        if projection.is_none() { self.whole() } else { self.wanted.get_or_init(project).clone() }
    }

    fn whole(&self) -> Result<Arc<Value>, String> {
        let gather = || match &self.content {
            Content::Objects(objects) => Ok(Arc::new(objects.values().map(|object| Value::clone(object)).collect())),
            Content::Response(response) => Ok(response.clone()),
            Content::Loading | Content::Failed(_) => Err("it has no data".to_owned()),
        };
        self.whole.get_or_init(gather).clone()
    }
}

/// Why a call brought no data.
enum Unanswered {
    /// The API server is not there.
    Outage(ClusterError),
    Failed(String),
}

async fn ask(poll: &GlobalPoll, way: &Way) -> Result<Value, Unanswered> {
    let fetch = poll.fetch(&way.bounds()).map_err(|refusal| Unanswered::Failed(refusal.to_string()))?;
    let answer = way.reader.answer(&fetch).await.map_err(|error| match error {
        outage if outage.is_outage() => Unanswered::Outage(outage),
        other => Unanswered::Failed(other.to_string()),
    })?;
    GlobalPoll::data(&fetch, &answer).map_err(Unanswered::Failed)
}

/// How long to wait now; twice as long the next time.
fn next(pause: &mut Duration) -> Duration {
    let now = *pause;
    *pause = (now * 2).min(LONGEST_PAUSE);
    now
}

fn not_yet(reason: &str) -> ClusterError {
    let resource = "global context entries".to_owned();
    ClusterError::Unreachable { verb: "read", resource, reason: reason.to_owned() }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::core::expr::Expression;

    #[test]
    fn a_view_is_of_one_moment() {
        let (group, version, resource) = (String::new(), "v1".to_owned(), "pods".to_owned());
        let source = GlobalSource::Resource(GlobalResource { group, version, resource, namespace: None });
        let projections = vec![("names".to_owned(), Expression::compile("[].metadata.name").expect("an expression"))];
        let entry = Arc::new(GlobalEntry { name: "e".to_owned(), source, projections });
        let globals = Globals::default();
        globals.put(&entry);
        globals.fill(&entry, Content::Objects(Objects::default()));
        let sight = || globals.held().shelf(&entry).map(|shelf| shelf.sight(Some("names"))).expect("a shelf");
        let before = sight();
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}});
        globals.edit(&entry, |objects| drop(objects.insert(ObjectKey::of(&pod), Arc::new(pod))));
        assert_eq!(before.view(Some("names")), Ok(Arc::new(json!([]))), "made late, and still of its moment");
        let made = sight().view(Some("names")).expect("a view");
        assert_eq!(*made, json!(["a"]));
        assert!(Arc::ptr_eq(&made, &sight().view(Some("names")).expect("a view")), "made once");

        globals.give_up("e", "its keeper has ended".to_owned());
        globals.give_up("e", "later".to_owned());
        let standings = globals.standings();
        assert_eq!(standings[0].readiness, Readiness::NotReady { because: "its keeper has ended".to_owned() });
    }
}
