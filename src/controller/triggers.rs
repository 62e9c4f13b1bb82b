//! Where triggers are, and whether an event about one is news. Objects themselves are not kept.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use crate::core::generate::TriggerRef;
use crate::core::generate::diff::{fingerprint, fingerprint_with_status};
use crate::core::generate::progress::version_of;
use crate::core::resource::{Gvk, text_at};

/// All triggers, by kind and UID.
#[derive(Debug, Default)]
pub(super) struct Triggers {
    kinds: HashMap<Gvk, HashMap<Box<str>, Spot>>,
    synced: HashSet<(Gvk, Option<String>)>,
}

#[derive(Debug)]
struct Spot {
    namespace: Option<Box<str>>,
    name: Box<str>,
    version: u64,
    content: u64,
}

/// What an event is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Seen {
    New,
    Changed,
    /// Nothing that a rule could see, or something older than what is known.
    Same,
}

impl Triggers {
    /// Notes an object. Where status has a path of its own, its changes are nothing new.
    pub(super) fn see(&mut self, gvk: &Gvk, object: &Value, has_status: bool) -> Seen {
        let content = if has_status { fingerprint(object) } else { fingerprint_with_status(object) };
        let version = version_of(object);
        let text = |name: &str| text_at(object, &["metadata", name]);
        let spots = self.kinds.entry(gvk.clone()).or_default();
        match spots.get_mut(text("uid")) {
            Some(spot) if spot.version >= version => Seen::Same,
            Some(spot) => {
                spot.version = version;
                if spot.content == content {
                    Seen::Same
                } else {
                    spot.content = content;
                    Seen::Changed
                }
            }
            None => {
                let namespace = Some(text("namespace")).filter(|namespace| !namespace.is_empty()).map(Box::from);
                spots.insert(text("uid").into(), Spot { namespace, name: text("name").into(), version, content });
                Seen::New
            }
        }
    }

    pub(super) fn forget(&mut self, gvk: &Gvk, uid: &str) {
        if let Some(spots) = self.kinds.get_mut(gvk) {
            spots.remove(uid);
        }
    }

    /// After a list: what it did not name is gone, unless it is newer than the list.
    pub(super) fn settle(
        &mut self,
        gvk: &Gvk,
        namespace: Option<&str>,
        listed: &HashSet<String>,
        version: u64,
    ) -> Vec<TriggerRef> {
        self.synced.insert((gvk.clone(), namespace.map(str::to_owned)));
        let spots = self.kinds.entry(gvk.clone()).or_default();
        let gone = |uid: &str, spot: &Spot| {
            !listed.contains(uid)
                && spot.version <= version
                && namespace.is_none_or(|namespace| spot.namespace.as_deref() == Some(namespace))
        };
        let uids: Vec<Box<str>> =
            spots.iter().filter(|(uid, spot)| gone(uid, spot)).map(|(uid, _)| uid.clone()).collect();
        uids.into_iter().filter_map(|uid| spots.remove(&uid).map(|spot| reference(gvk, &uid, &spot))).collect()
    }

    /// Notes that a kind is going to be known.
    pub(super) fn start_watch(&mut self, gvk: &Gvk) {
        self.kinds.entry(gvk.clone()).or_default();
    }

    /// Forgets a kind that nobody watches any more.
    pub(super) fn drop_watch(&mut self, gvk: &Gvk, namespace: Option<&str>) {
        self.synced.remove(&(gvk.clone(), namespace.map(str::to_owned)));
        if !self.synced.iter().any(|(kind, _)| kind == gvk) {
            self.kinds.remove(gvk);
        }
    }

    /// Whether everything of a kind is known, here or everywhere.
    pub(super) fn is_synced(&self, gvk: &Gvk, namespace: Option<&str>) -> bool {
        let known = |namespace: Option<&str>| self.synced.contains(&(gvk.clone(), namespace.map(str::to_owned)));
        known(None) || namespace.is_some() && known(namespace)
    }

    pub(super) fn find(&self, gvk: &Gvk, uid: &str) -> Option<TriggerRef> {
        self.kinds.get(gvk)?.get(uid).map(|spot| reference(gvk, uid, spot))
    }

    /// Whether nothing newer is known than this state of a trigger. What a pass has listed may have waited for its turn
    /// while the watch brought changes, or the end, of the object.
    pub(super) fn is_current(&self, gvk: &Gvk, object: &Value) -> bool {
        let spot = self.kinds.get(gvk).and_then(|spots| spots.get(text_at(object, &["metadata", "uid"])));
        spot.is_some_and(|spot| spot.version <= version_of(object))
    }

    /// A kind whose version in a label is not the one that is watched is found by group and name.
    pub(super) fn watched_as(&self, gvk: &Gvk) -> Option<Gvk> {
        if self.kinds.contains_key(gvk) {
            return Some(gvk.clone());
        }
        self.kinds.keys().find(|kind| kind.group == gvk.group && kind.kind == gvk.kind).cloned()
    }
}

fn reference(gvk: &Gvk, uid: &str, spot: &Spot) -> TriggerRef {
    TriggerRef {
        uid: uid.to_owned(),
        gvk: gvk.clone(),
        namespace: spot.namespace.as_deref().map(str::to_owned),
        name: spot.name.as_ref().to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(uid: &str, version: u64, data: u8, status: u8) -> Value {
        json!({"metadata": {"uid": uid, "name": uid, "resourceVersion": version.to_string()}, "data": data, "status": status})
    }

    #[test]
    fn only_content_is_news() {
        let (gvk, mut triggers) = (Gvk::new("v1", "Namespace"), Triggers::default());
        let mut see =
            |version, data, status, has_status| triggers.see(&gvk, &object("u", version, data, status), has_status);
        assert_eq!(see(1, 1, 1, true), Seen::New);
        assert_eq!(see(1, 1, 1, true), Seen::Same);
        assert_eq!(see(2, 1, 2, true), Seen::Same, "status has a path of its own");
        assert_eq!(see(3, 2, 2, true), Seen::Changed);
        assert_eq!(see(2, 1, 2, true), Seen::Same, "older than what is known");
        assert_eq!(see(4, 2, 3, false), Seen::Changed);
    }

    #[test]
    fn a_list_says_what_is_gone() {
        let (gvk, mut triggers) = (Gvk::new("v1", "Namespace"), Triggers::default());
        for (uid, version) in [("old", 1), ("kept", 2), ("young", 9)] {
            triggers.see(&gvk, &object(uid, version, 1, 1), true);
        }
        let gone = triggers.settle(&gvk, None, &HashSet::from(["kept".to_owned()]), 5);
        assert_eq!(gone.iter().map(|gone| gone.uid.as_str()).collect::<Vec<_>>(), ["old"]);
        assert!(triggers.is_synced(&gvk, Some("a")));
        assert_eq!(triggers.find(&gvk, "young").expect("there").name, "young");
    }

    #[test]
    fn what_waited_too_long_is_not_current() {
        let (gvk, mut triggers) = (Gvk::new("v1", "Namespace"), Triggers::default());
        let (old, new) = (object("u", 1, 1, 1), object("u", 2, 2, 1));
        assert!(!triggers.is_current(&gvk, &old), "nobody has seen it yet");
        triggers.see(&gvk, &old, true);
        assert!(triggers.is_current(&gvk, &old) && triggers.is_current(&gvk, &new));
        triggers.see(&gvk, &new, true);
        assert!(!triggers.is_current(&gvk, &old) && triggers.is_current(&gvk, &new));
        triggers.forget(&gvk, "u");
        assert!(!triggers.is_current(&gvk, &new), "it is gone");
    }
}
