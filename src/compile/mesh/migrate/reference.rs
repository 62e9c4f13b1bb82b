//! References by name: Kuma 3 knows services and routes by their labels alone.

use serde_json::{Map, Value};

use super::subject::{Field, Subject};
use super::{Attempt, Obstacle, Rewrite, selection};
use crate::compile::Form;
use crate::core::yaml::edit::Edit;

pub(super) const NAME_LABEL: &str = "kuma.io/display-name";
pub(super) const NAMESPACE_LABEL: &str = "k8s.kuma.io/namespace";
/// Stands for a backend that the translation of a Gateway API route could not find.
const PLACEHOLDER: &str = "kuma.io/unresolved-backend";

/// Rewrites all references of `to`, and of the routes below it.
pub(super) fn rewrite(subject: &Subject<'_>) -> Vec<Attempt> {
    let mut attempts = Vec::new();
    for entry in subject.spec().below("to").elements() {
        attempts.extend(destination(subject, &entry.below("targetRef")));
        let hostnames = entry.below("hostnames");
        if hostnames.is_filled() {
            let message = "Kuma 3 takes no hostnames here: use an HTTPRoute of the Gateway API";
            attempts.push(Err(Obstacle::new(&hostnames.path, &hostnames.path, message)));
        }
        for rules in [entry.below("rules"), entry.below("default").below("rules")] {
            for rule in rules.elements() {
                for holder in [rule.below("default"), rule] {
                    attempts.extend(route_parts(subject, &holder));
                }
            }
        }
    }
    attempts
}

fn route_parts(subject: &Subject<'_>, holder: &Field<'_>) -> Vec<Attempt> {
    let backends = holder.below("backendRefs").elements();
    let mut attempts: Vec<_> = backends.iter().filter_map(|backend| self::backend(subject, backend)).collect();
    for filter in holder.below("filters").elements() {
        attempts.extend(backend(subject, &filter.below("requestMirror").below("backendRef")));
        attempts.extend(host_rewrite(&filter.below("urlRewrite").below("hostToBackendHostname")));
    }
    attempts
}

fn host_rewrite(field: &Field<'_>) -> Option<Attempt> {
    match field.value.as_bool()? {
        true => {
            let message = "Kuma 3 takes this no more: give the host name in `hostname`";
            Some(Err(Obstacle::new(&field.path, &field.path, message)))
        }
        false => Some(Ok(Rewrite {
            field: field.path.clone(),
            message: "left out: false is what its absence means".to_owned(),
            edits: vec![Edit::Remove { at: field.path.clone() }],
        })),
    }
}

fn destination(subject: &Subject<'_>, reference: &Field<'_>) -> Option<Attempt> {
    let proxies = reference.below("proxyTypes");
    if proxies.is_present() {
        let message = "left out: it names all sorts of proxies".to_owned();
        let rewrite = |edit| Rewrite { field: proxies.path.clone(), message, edits: vec![edit] };
        return Some(selection::drop_proxy_types(reference).map(rewrite));
    }
    let name = reference.below("name");
    if !name.is_filled() {
        return None;
    }
    let kubernetes = is_service(reference) && !reference.below("sectionName").is_filled();
    match KubernetesName::parse(name.text()).filter(|_| kubernetes) {
        Some(KubernetesName { port: Some(port), .. }) => {
            let message = format!(
                "the name has port {port} in it, and a port that has a name of its own is not found by its number: set \
                 `sectionName` to the name of the port, and `name` to that of the service"
            );
            Some(Err(Obstacle::new(&reference.path, &name.path, message)))
        }
        known => Some(by_labels(subject, reference, known.as_ref())),
    }
}

fn backend(subject: &Subject<'_>, reference: &Field<'_>) -> Option<Attempt> {
    let (kind, name, tags) = (reference.below("kind"), reference.below("name"), reference.below("tags"));
    let obstacle = |field: &Field<'_>, message: &str| Some(Err(Obstacle::new(&reference.path, &field.path, message)));
    if kind.text() == "MeshServiceSubset" || tags.is_filled() {
        return obstacle(
            if tags.is_filled() { &tags } else { &kind },
            "Kuma 3 does not choose among the endpoints of a service by tags: make a MeshService of these endpoints and refer \
             to it by labels",
        );
    }
    if !name.is_filled() {
        return None;
    }
    if name.text() == PLACEHOLDER {
        return obstacle(&name, "a placeholder: translate the route of the Gateway API anew");
    }
    if !is_service(reference) || reference.below("port").is_present() || reference.below("sectionName").is_filled() {
        return Some(by_labels(subject, reference, None));
    }
    match KubernetesName::parse(name.text()) {
        Some(known) if known.port.is_some() => Some(by_labels(subject, reference, Some(&known))),
        _ => obstacle(
            &name,
            "without `port` this is the tag kuma.io/service, which Kuma 3 has no more: add the `port` of the MeshService and \
             migrate again",
        ),
    }
}

fn is_service(reference: &Field<'_>) -> bool {
    reference.below("kind").text() == "MeshService"
}

/// Name and namespace become labels; a name that Kuma made for a service of Kubernetes is taken apart.
pub(super) fn by_labels(subject: &Subject<'_>, reference: &Field<'_>, known: Option<&KubernetesName<'_>>) -> Attempt {
    let (name, namespace) = (reference.below("name"), reference.below("namespace"));
    let mut selected = Map::new();
    match known {
        Some(known) => {
            selected.insert(NAME_LABEL.to_owned(), Value::from(known.name));
            selected.insert(NAMESPACE_LABEL.to_owned(), Value::from(known.namespace));
        }
        None => {
            selected.insert(NAME_LABEL.to_owned(), name.value.clone());
            let given = Some(namespace.text()).filter(|namespace| !namespace.is_empty());
            match given.or_else(|| subject.namespace()) {
                Some(namespace) => drop(selected.insert(NAMESPACE_LABEL.to_owned(), Value::from(namespace))),
                None if subject.form == Form::Universal => {}
                None => {
                    let message = "the name is one of the policy's own namespace, which the document does not say: set \
                                   `metadata.namespace` and migrate again";
                    return Err(Obstacle::new(&reference.path, &name.path, message));
                }
            }
        }
    }
    let mut edits = Vec::new();
    if reference.has("labels") {
        edits.push(Edit::Remove { at: reference.path.field("labels") });
    }
    edits.push(Edit::Replace { at: name.path.clone(), key: "labels", value: Value::Object(selected) });
    if reference.has("namespace") {
        edits.push(Edit::Remove { at: namespace.path });
    }
    if let Some(port) = known.and_then(|known| known.port) {
        let (into, value) = (reference.path.clone(), Value::from(port));
        edits.push(Edit::Insert { into, key: "port", value, after: Some("labels") });
    }
    let message = format!("`{}` is selected by its labels", name.text());
    Ok(Rewrite { field: name.path, message, edits })
}

/// A name of the form `backend_shop_svc_8080`, or without the port.
pub(super) struct KubernetesName<'n> {
    name: &'n str,
    namespace: &'n str,
    port: Option<u32>,
}

impl<'n> KubernetesName<'n> {
    fn parse(name: &'n str) -> Option<Self> {
        let parts: Vec<_> = name.split('_').collect();
        match parts.as_slice() {
            [name, namespace, _] => Some(Self { name, namespace, port: None }),
            [name, namespace, _, port] => Some(Self { name, namespace, port: Some(port.parse().ok()?) }),
            _ => None,
        }
    }
}
