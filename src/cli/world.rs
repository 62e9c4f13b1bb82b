//! A cluster made of files: answers what rules ask for from the resources and values that were given.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::clock;
use crate::core::generate::api_path::{ApiPath, ResourcePath};
use crate::core::generate::{Answer, ApiFetch, Fetch, ListFetch};
use crate::core::kinds;
use crate::core::resource::{Gvk, ObjectKey, text_at};
use crate::core::selector::LabelSelector;

/// Objects by group and kind, then namespace and name. Versions do not matter: every version shows the same object.
#[derive(Clone, Debug, Default)]
pub(super) struct World {
    objects: BTreeMap<(String, String), BTreeMap<(String, String), Value>>,
    /// Labels of namespaces that are known without their object.
    namespaces: BTreeMap<String, Map<String, Value>>,
}

const NAME_LABEL: &str = "kubernetes.io/metadata.name";

impl World {
    pub(super) fn new(namespaces: BTreeMap<String, Map<String, Value>>) -> Self {
        Self { objects: BTreeMap::new(), namespaces }
    }

    pub(super) fn add(&mut self, object: Value) {
        let ObjectKey { gvk, namespace, name } = ObjectKey::of(&object);
        let kind = self.objects.entry((gvk.group, gvk.kind)).or_default();
        kind.insert((namespace.unwrap_or_default(), name), object);
    }

    pub(super) fn answer(&self, fetch: &Fetch) -> Answer {
        match fetch {
            Fetch::Object(object) => self.object(object.key()),
            Fetch::List(list) => self.list(list),
            Fetch::Call(call) => self.call(call),
            Fetch::Host(host) => match clock::addresses(host.name()) {
                Ok(addresses) => Answer::found(addresses.iter().map(ToString::to_string).collect()),
                Err(reason) => Answer::Failed(reason),
            },
            other => offline(&format!("{other} is not known offline")),
        }
    }

    fn object(&self, key: &ObjectKey) -> Answer {
        let ObjectKey { gvk, namespace, name } = key;
        let found = self.of_kind(gvk).get(&(namespace.clone().unwrap_or_default(), name.clone()));
        if (gvk.group.as_str(), gvk.kind.as_str()) == ("", "Namespace") {
            return self.namespace(name, found);
        }
        found.map_or(Answer::Absent, |found| Answer::found(found.clone()))
    }

    /// Every namespace has the label that the API server gives it, and what the values file says of it.
    fn namespace(&self, name: &str, found: Option<&Value>) -> Answer {
        let given = self.namespaces.get(name);
        if found.is_none() && given.is_none() {
            return Answer::Absent;
        }
        let mut namespace = found
            .cloned()
            .unwrap_or_else(|| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}));
        let mut labels = namespace.pointer("/metadata/labels").and_then(Value::as_object).cloned().unwrap_or_default();
        labels.extend(given.cloned().unwrap_or_default());
        labels.insert(NAME_LABEL.to_owned(), name.into());
        namespace["metadata"]["labels"] = labels.into();
        Answer::found(namespace)
    }

    fn list(&self, list: &ListFetch) -> Answer {
        let Some(selector) = LabelSelector::from_query(list.selector()) else {
            return Answer::Failed(format!("`{}` is no label selector", list.selector()));
        };
        Answer::found(self.select(list.gvk(), list.namespace(), &selector).cloned().collect())
    }

    fn call(&self, call: &ApiFetch) -> Answer {
        let path = match (call.path(), call.body()) {
            (ApiPath::Resource(path), None) if path.subresource.is_none() => path,
            (path, _) => return offline(&format!("{path} is not known offline")),
        };
        let Some(kind) = self.kind_of(path) else {
            return offline(&format!("no {} are given", path.resource));
        };
        let gvk = Gvk { group: path.group.clone(), version: path.version.clone(), kind };
        if let Some(name) = &path.name {
            let key = ObjectKey { gvk, namespace: path.namespace.clone(), name: name.clone() };
            return self.object(&key);
        }
        let query = path.parameter("labelSelector").unwrap_or_default();
        let Some(selector) = LabelSelector::from_query(query) else {
            return Answer::Failed(format!("`{query}` is no label selector"));
        };
        let fields = path.parameter("fieldSelector").unwrap_or_default();
        let items = self.select(&gvk, path.namespace.as_deref(), &selector).filter(|object| has_fields(object, fields));
        let items: Vec<&Value> = items.collect();
        Answer::found(json!({
            "apiVersion": gvk.api_version(), "kind": format!("{}List", gvk.kind), "metadata": {}, "items": items,
        }))
    }

    /// The kind behind a plural. Unless it is a built-in one, some object of it must be given.
    fn kind_of(&self, path: &ResourcePath) -> Option<String> {
        let given = self.objects.keys().find(|(group, kind)| {
            *group == path.group
                && match kinds::find(group, kind) {
                    Some(row) => row.plural == path.resource,
                    None => kinds::guess_plural(kind) == path.resource,
                }
        });
        given.map(|(_, kind)| kind.clone())
    }

    fn select<'w>(
        &'w self,
        gvk: &Gvk,
        namespace: Option<&'w str>,
        selector: &'w LabelSelector,
    ) -> impl Iterator<Item = &'w Value> {
        self.of_kind(gvk).iter().filter_map(move |((object_namespace, _), object)| {
            let labels = object.pointer("/metadata/labels").and_then(Value::as_object);
            let selected = namespace.is_none_or(|namespace| namespace == object_namespace) && selector.matches(&labels);
            selected.then_some(object)
        })
    }

    fn of_kind(&self, gvk: &Gvk) -> &BTreeMap<(String, String), Value> {
        static NONE: BTreeMap<(String, String), Value> = BTreeMap::new();
        self.objects.get(&(gvk.group.clone(), gvk.kind.clone())).unwrap_or(&NONE)
    }
}

/// `metadata.name=x,metadata.namespace!=y`; other fields are the API server's business.
fn has_fields(object: &Value, selector: &str) -> bool {
    selector.split(',').filter(|part| !part.is_empty()).all(|part| {
        let (path, value, wanted) = match part.split_once("!=") {
            Some((path, value)) => (path, value, false),
            None => part
                .split_once('=')
                .map_or((part, "", true), |(path, value)| (path, value.trim_start_matches('='), true)),
        };
        let path: Vec<&str> = path.split('.').collect();
        (text_at(object, &path) == value) == wanted
    })
}

fn offline(what: &str) -> Answer {
    Answer::Failed(format!(
        "{what}; give it with -r, name its value in the values file (-f), or ask a cluster (--cluster)"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::generate::api_path::PathPattern;
    use crate::core::generate::{Gate, InstallBounds, Reach};

    fn world() -> World {
        let mut world =
            World::new(BTreeMap::from([("b".to_owned(), json!({"team": "x"}).as_object().unwrap().clone())]));
        world.add(
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a", "labels": {"sync": "yes"}}}),
        );
        world.add(json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": "a"}}));
        world.add(json!({"apiVersion": "x.dev/v1", "kind": "Gateway", "metadata": {"name": "g", "namespace": "a"}}));
        world
    }

    #[track_caller]
    fn call(path: &str) -> Answer {
        let bounds = InstallBounds::offline();
        let fetch = Gate::new(&Reach::Cluster, &bounds).call(path, None, &PathPattern::of(path));
        world().answer(&fetch.expect("a good path"))
    }

    #[test]
    fn paths_find_what_was_given() {
        let names = |path: &str| match call(path) {
            Answer::Found(list) => list["items"].as_array().expect("a list").len(),
            other => panic!("{other:?}"),
        };
        assert_eq!(names("/api/v1/namespaces?labelSelector=sync=yes"), 1);
        assert_eq!(names("/api/v1/namespaces?labelSelector=sync=no"), 0);
        assert_eq!(names("/api/v1/secrets"), 1);
        assert_eq!(names("/api/v1/namespaces/b/secrets"), 0);
        assert_eq!(names("/apis/x.dev/v1/gateways?fieldSelector=metadata.name=g"), 1);
        assert_eq!(names("/apis/x.dev/v1/gateways?fieldSelector=metadata.name!=g"), 0);
        assert!(matches!(call("/api/v1/namespaces/a/secrets/s"), Answer::Found(_)));
        assert_eq!(call("/api/v1/namespaces/a/secrets/t"), Answer::Absent);
        // Nothing is known of pods, which is not the same as that there are none.
        assert!(matches!(call("/api/v1/pods"), Answer::Failed(_)));
        assert!(matches!(call("/version"), Answer::Failed(_)));
    }

    #[test]
    fn namespaces_have_the_labels_of_the_values_file_too() {
        let bounds = InstallBounds::offline();
        let labels = |name: &str| {
            let fetch = Gate::new(&Reach::Cluster, &bounds).namespace(name).expect("a good name");
            match world().answer(&fetch) {
                Answer::Found(namespace) => namespace["metadata"]["labels"].clone(),
                _ => Value::Null,
            }
        };
        assert_eq!(labels("a"), json!({"sync": "yes", "kubernetes.io/metadata.name": "a"}));
        assert_eq!(labels("b"), json!({"team": "x", "kubernetes.io/metadata.name": "b"}));
        assert_eq!(labels("c"), Value::Null);
    }
}
