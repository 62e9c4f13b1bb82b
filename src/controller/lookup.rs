//! Finding a trigger again: by what the watch has brought, by name, or by UID alone.

use std::sync::Arc;

use serde_json::Value;

use super::shared::Shared;
use super::work::Work;
use crate::cluster::kinds::ApiKind;
use crate::cluster::watch::strip;
use crate::cluster::{ClusterError, Selection};
use crate::core::generate::{SourceRef, TriggerRef};
use crate::core::resource::{Gvk, ObjectKey, text_at};

/// Where a trigger is.
pub(super) enum Found {
    Object(Arc<Value>),
    Gone,
    /// Nothing like it can be looked up: the payload of a subresource, a kind that is no more.
    Unfindable,
    /// Its kind is being listed right now; then it will be known.
    NotYet,
}

/// The trigger of a piece of work as it is stored now. What came with the work is as good as that, if nothing newer is known.
pub(super) async fn find(shared: &Shared, work: &Work, retry: bool) -> Result<Found, ClusterError> {
    match &work.object {
        Some(object) if !retry && shared.triggers().is_current(&Gvk::of(object), object) => {
            Ok(Found::Object(object.clone()))
        }
        _ => look_up(shared, &work.trigger).await,
    }
}

/// A trigger as it is stored now.
pub(super) async fn look_up(shared: &Shared, trigger: &TriggerRef) -> Result<Found, ClusterError> {
    let mut gvk = trigger.gvk.clone();
    let mut place = Some((trigger.name.clone(), trigger.namespace.clone())).filter(|(name, _)| !name.is_empty());
    {
        let triggers = shared.triggers();
        if let Some(watched) = triggers.watched_as(&gvk) {
            match triggers.find(&watched, &trigger.uid) {
                Some(known) => place = Some((known.name, known.namespace)),
                None if place.is_some() => {}
                None if triggers.is_synced(&watched, trigger.namespace.as_deref()) => return Ok(Found::Gone),
                None => return Ok(Found::NotYet),
            }
            gvk = watched;
        }
    }
    match stored(shared, &gvk, place, trigger).await {
        Ok(Some(object)) => Ok(Found::Object(Arc::new(object))),
        Ok(None) => Ok(Found::Gone),
        Err(ClusterError::UnknownKind { .. }) => Ok(Found::Unfindable),
        Err(error) => Err(error),
    }
}

/// A trigger as it is stored, if it is, by UID where that is known.
pub(super) async fn live(shared: &Shared, trigger: &TriggerRef) -> Result<Option<Value>, ClusterError> {
    let place = Some((trigger.name.clone(), trigger.namespace.clone())).filter(|(name, _)| !name.is_empty());
    match stored(shared, &trigger.gvk, place, trigger).await {
        Err(ClusterError::UnknownKind { .. }) => Ok(None),
        other => other,
    }
}

async fn stored(
    shared: &Shared,
    gvk: &Gvk,
    place: Option<(String, Option<String>)>,
    trigger: &TriggerRef,
) -> Result<Option<Value>, ClusterError> {
    let kind = shared.discovery.find(gvk).await?;
    let place = match place {
        Some(place) => Some(place),
        None => by_uid(shared, &kind, &trigger.uid, trigger.namespace.as_deref()).await?,
    };
    let Some((name, namespace)) = place else {
        return Ok(None);
    };
    let found = shared.api.find(&kind, namespace.as_deref(), &name).await?;
    let same = |object: &Value| trigger.uid.is_empty() || text_at(object, &["metadata", "uid"]) == trigger.uid;
    Ok(found.map(|object| kind.named(object)).filter(same).map(|mut object| {
        strip(&mut object);
        object
    }))
}

/// Whether the source of a copy is still there. Of a kind that the cluster does not have nothing is known.
pub(super) async fn source_lives(shared: &Shared, source: &SourceRef) -> Result<bool, ClusterError> {
    match shared.discovery.find(&source.gvk).await {
        Ok(kind) => Ok(by_uid(shared, &kind, &source.uid, source.namespace.as_deref()).await?.is_some()),
        Err(ClusterError::UnknownKind { .. }) => Ok(true),
        Err(error) => Err(error),
    }
}

/// Name and namespace of an object of which only the UID is known, of a kind that nobody watches.
async fn by_uid(
    shared: &Shared,
    kind: &ApiKind,
    uid: &str,
    namespace: Option<&str>,
) -> Result<Option<(String, Option<String>)>, ClusterError> {
    if uid.is_empty() {
        return Ok(None);
    }
    let namespace = namespace.map(str::to_owned);
    let selection = Selection { namespace, metadata_only: true, ..Selection::default() };
    let objects = shared.api.list_all(kind, &selection).await?;
    let found = objects.iter().find(|object| text_at(object, &["metadata", "uid"]) == uid);
    Ok(found.map(|object| {
        let key = ObjectKey::of(object);
        (key.name, key.namespace)
    }))
}
