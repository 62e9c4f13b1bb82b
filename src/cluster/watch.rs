//! Lists and watches: every object of a selection first, then its changes, for ever.
//!
//! Errors of one watch are its own: they are told, and it tries again with growing pauses. An account that may list but not
//! watch is served by listing again and again.

use std::sync::Arc;
use std::time::Duration;

use futures::{TryStream, TryStreamExt};
use kube::core::WatchEvent;
use serde_json::Value;
use tokio::sync::mpsc::Sender;
use tokio::time::{sleep, timeout};
use tracing::debug;

use super::api::{Api, Selection};
use super::kinds::ApiKind;
use super::lean::Lean;
use super::{ClusterError, Page};

/// What a watch tells.
#[derive(Debug)]
pub enum Event {
    /// A list begins; what it does not name by its end is gone.
    Listing,
    Listed(Value),
    /// The list has ended. It was true at this resource version.
    Synced {
        version: u64,
    },
    Changed(Value),
    Deleted(Value),
    /// It cannot go on for now.
    Trouble(ClusterError),
}

/// Small pages: several watches may be listing at once.
const PAGE: u32 = 100;
/// How long one watch request lasts; then it goes on where it was.
const WATCH_SECONDS: u64 = 290;
/// The API server says something every minute, and be it a bookmark. After so long a silence nobody is there: a connection
/// can die without anyone being told.
const SILENCE: Duration = Duration::from_secs(100);
const LONGEST_OPENING: Duration = Duration::from_secs(30);
/// How often to list where watching is not allowed.
const POLL: Duration = Duration::from_secs(2);
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// The receiver has gone: nobody wants to know any more.
struct Unwanted;

/// How one round ended.
enum Ended {
    /// The history is too short: list again at once.
    Expired,
    /// Watching is not allowed: list again after a while.
    Poll,
    Failed(ClusterError),
    Unwanted,
}

/// Follows a selection until the receiver is dropped.
pub async fn follow(api: Api, kind: Arc<ApiKind>, selection: Selection, events: Sender<Event>) {
    let mut pause = FIRST_PAUSE;
    let mut told_poll = false;
    loop {
        match round(&api, &kind, &selection, &events, &mut pause).await {
            Ended::Unwanted => return,
            Ended::Expired => debug!(kind = %kind.gvk, "Listing again"),
            Ended::Poll => {
                if !told_poll {
                    told_poll = true;
                    let resource = kind.plural_name();
                    let reason = "listing every two seconds instead".to_owned();
                    let trouble = ClusterError::Refused { verb: "watch", resource, reason };
                    if events.send(Event::Trouble(trouble)).await.is_err() {
                        return;
                    }
                }
                sleep(POLL).await;
            }
            Ended::Failed(error) => {
                if events.send(Event::Trouble(error)).await.is_err() {
                    return;
                }
                sleep(pause).await;
                pause = (pause * 2).min(LONGEST_PAUSE);
            }
        }
    }
}

/// One list and the watches after it.
async fn round(
    api: &Api,
    kind: &ApiKind,
    selection: &Selection,
    events: &Sender<Event>,
    pause: &mut Duration,
) -> Ended {
    let mut version = match list(api, kind, selection, events).await {
        Ok(Ok(version)) => version,
        Ok(Err(Unwanted)) => return Ended::Unwanted,
        Err(ClusterError::Expired { .. }) => return Ended::Expired,
        Err(error) => return Ended::Failed(error),
    };
    *pause = FIRST_PAUSE;
    loop {
        match watch(api, kind, selection, &mut version, events).await {
            Ok(Ok(())) => *pause = FIRST_PAUSE,
            Ok(Err(Unwanted)) => return Ended::Unwanted,
            Err(ClusterError::Expired { .. }) => return Ended::Expired,
            Err(ClusterError::Refused { .. }) => return Ended::Poll,
            // The connection broke; the history is still there, so the watch goes on where it was.
            Err(error) if error.is_outage() => {
                if events.send(Event::Trouble(error)).await.is_err() {
                    return Ended::Unwanted;
                }
                sleep(*pause).await;
                *pause = (*pause * 2).min(LONGEST_PAUSE);
            }
            Err(error) => return Ended::Failed(error),
        }
    }
}

async fn list(
    api: &Api,
    kind: &ApiKind,
    selection: &Selection,
    events: &Sender<Event>,
) -> Result<Result<String, Unwanted>, ClusterError> {
    if events.send(Event::Listing).await.is_err() {
        return Ok(Err(Unwanted));
    }
    let mut from = String::new();
    loop {
        let Page { items, version, next, .. } = api.list(kind, selection, PAGE, &from).await?;
        for item in items {
            if events.send(Event::Listed(item)).await.is_err() {
                return Ok(Err(Unwanted));
            }
        }
        if next.is_empty() {
            let synced = Event::Synced { version: version.parse().unwrap_or_default() };
            return Ok(events.send(synced).await.map(|()| version).map_err(|_| Unwanted));
        }
        from = next;
    }
}

async fn watch(
    api: &Api,
    kind: &ApiKind,
    selection: &Selection,
    version: &mut String,
    events: &Sender<Event>,
) -> Result<Result<(), Unwanted>, ClusterError> {
    let what = kind.plural_name();
    let failed = |error: kube::Error| ClusterError::of("watch", &what, &error);
    let request = api.watch_request(kind, selection, version, WATCH_SECONDS)?;
    let opening = timeout(LONGEST_OPENING, api.client().request_events::<Lean>(request)).await;
    let stream = opening.map_err(|_| ClusterError::too_slow("watch", &what))?.map_err(failed)?;
    futures::pin_mut!(stream);
    while let Some(event) = next(&mut stream).await.map_err(failed)? {
        let (Lean(object), event): (Lean, fn(Value) -> Event) = match event {
            WatchEvent::Added(object) | WatchEvent::Modified(object) => (object, Event::Changed),
            WatchEvent::Deleted(object) => (object, Event::Deleted),
            WatchEvent::Bookmark(bookmark) => {
                *version = bookmark.metadata.resource_version;
                continue;
            }
            WatchEvent::Error(status) => return Err(failed(kube::Error::Api(status))),
        };
        if let Some(at) = object.pointer("/metadata/resourceVersion").and_then(Value::as_str) {
            at.clone_into(version);
        }
        if events.send(event(kind.named(object))).await.is_err() {
            return Ok(Err(Unwanted));
        }
    }
    Ok(Ok(()))
}

/// What comes next; nothing if that was all, or if nobody is there any more.
async fn next<S: TryStream + Unpin>(stream: &mut S) -> Result<Option<S::Ok>, S::Error> {
    timeout(SILENCE, stream.try_next()).await.unwrap_or(Ok(None))
}

/// Nobody looks at managed fields after this, and they are most of what small objects weigh.
pub fn strip(object: &mut Value) {
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
    }
}

#[cfg(test)]
mod tests {
    use futures::stream::{StreamExt, iter, pending};
    use tokio::time::Instant;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_silent_watch_has_ended() {
        let mut stream = iter([Ok::<u8, ()>(1)]).chain(pending());
        let start = Instant::now();
        assert_eq!(next(&mut stream).await, Ok(Some(1)));
        assert_eq!(next(&mut stream).await, Ok(None));
        assert!(start.elapsed() >= SILENCE);
    }
}
