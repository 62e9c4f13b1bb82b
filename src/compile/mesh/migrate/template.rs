//! A ProxyTemplate becomes a MeshProxyPatch: the same modifications under other names.

use serde_json::{Map, Value, json};

use super::subject::{Field, Subject};
use super::{Attempt, Obstacle, Rewrite, selection};
use crate::compile::{Form, identify};
use crate::core::yaml::edit::{self, Edit};
use crate::core::yaml::read_value;

pub(super) const KIND: &str = "ProxyTemplate";
const SUCCESSOR: &str = "MeshProxyPatch";
const MESH_LABEL: &str = "kuma.io/mesh";
/// The profile that a proxy gets without any template.
const DEFAULT_IMPORT: &str = "default-proxy";
/// What only templates write as the origin of a resource.
const ORIGINS: &[&str] = &["proxy-template-modifications", "proxy-template-raw"];
/// What the API server wrote about an object must not be said of a new one.
pub(super) const OF_THE_STORED_OBJECT: &[&str] =
    &["uid", "resourceVersion", "generation", "creationTimestamp", "managedFields", "ownerReferences"];

/// The meshes of which more than one of the objects is a template: of these only one applies to a proxy.
pub(super) fn meshes_with_several<'o>(objects: impl Iterator<Item = &'o Value>) -> Vec<String> {
    let is_template = |object: &&Value| identify(*object).is_some_and(|identity| identity.kind == KIND);
    let mut meshes: Vec<_> = objects.filter(is_template).map(|object| mesh_of(object).to_owned()).collect();
    meshes.sort();
    let mut several: Vec<_> = meshes.windows(2).filter(|pair| pair[0] == pair[1]).map(|pair| pair[0].clone()).collect();
    several.dedup();
    several
}

fn mesh_of(object: &Value) -> &str {
    object.get("mesh").and_then(Value::as_str).unwrap_or("default")
}

/// One rewrite of the whole, or everything that stands in its way.
pub(super) fn rewrite(subject: &Subject<'_>) -> Vec<Attempt> {
    let mut draft = Draft { subject, edits: Vec::new(), obstacles: Vec::new() };
    draft.write();
    let Draft { edits, obstacles, .. } = draft;
    if !obstacles.is_empty() {
        return obstacles.into_iter().map(Err).collect();
    }
    let message = "ProxyTemplate becomes MeshProxyPatch: delete the template when it is applied, and mind that every \
                   MeshProxyPatch of a proxy applies, where of several templates only one did"
        .to_owned();
    vec![Ok(Rewrite { field: subject.root().path, message, edits })]
}

struct Draft<'d> {
    subject: &'d Subject<'d>,
    edits: Vec<Edit>,
    obstacles: Vec<Obstacle>,
}

impl Draft<'_> {
    fn write(&mut self) {
        let root = self.subject.root();
        let mesh = mesh_of(root.value);
        if self.subject.several_templates.iter().any(|several| several == mesh) {
            let message = format!(
                "of several templates only one applies to a proxy, of MeshProxyPatches all do, and there are several of mesh \
                 `{mesh}` here: make one of them first, or migrate each in a file of its own if no proxy has two"
            );
            self.obstacle(&root, message);
        }
        let content = match self.subject.form {
            Form::Kubernetes => root.below("spec"),
            Form::Universal => root.clone(),
        };
        let conf = content.below("conf");
        self.write_modifications(&conf.below("modifications"));
        self.write_conf(&conf);
        let target = self.target(&content.below("selectors"));
        match self.subject.form {
            Form::Kubernetes => self.write_kubernetes(&root, &content, target),
            Form::Universal => self.write_universal(&root, target),
        }
    }

    fn obstacle(&mut self, field: &Field<'_>, message: impl Into<String>) {
        self.obstacles.push(Obstacle::new(&self.subject.root().path, &field.path, message));
    }

    /// The proxies that the selectors mean; `None` if there are no selectors to replace.
    fn target(&mut self, selectors: &Field<'_>) -> Option<Value> {
        let elements = selectors.elements();
        let selector = match elements.as_slice() {
            [] => return selectors.is_present().then(|| json!({"kind": "Mesh"})),
            [selector] => selector,
            _ => {
                let message = "a MeshProxyPatch has one reference: make a template of each selector, and migrate again";
                self.obstacle(selectors, message);
                return None;
            }
        };
        let mut labels = Map::new();
        let tags = selector.below("match");
        for (tag, value) in tags.value.as_object().into_iter().flatten() {
            let value = value.as_str().unwrap_or_default();
            match tag.as_str() {
                "kuma.io/service" | "service" if value == "*" => {}
                tag if selection::TAGS_LIKE_LABELS.contains(&tag) && value != "*" => {
                    labels.insert(tag.to_owned(), Value::from(value));
                }
                tag => {
                    let message = format!(
                        "the tag `{tag}: {value}` of inbounds is not known to equal a label of proxies: write a MeshProxyPatch \
                         with kind Dataplane and the labels of these proxies"
                    );
                    self.obstacle(&Field::absent(tags.path.key(tag)), message);
                }
            }
        }
        let whole = labels.is_empty();
        Some(if whole { json!({"kind": "Mesh"}) } else { json!({"kind": "Dataplane", "labels": labels}) })
    }

    fn write_conf(&mut self, conf: &Field<'_>) {
        let (imports, resources) = (conf.below("imports"), conf.below("resources"));
        if *imports.value == json!([DEFAULT_IMPORT]) {
            self.edits.push(Edit::Remove { at: imports.path });
        } else if imports.is_filled() {
            let message = format!(
                "only `{DEFAULT_IMPORT}` is what a proxy gets without a template; other profiles have no equal"
            );
            self.obstacle(&imports, message);
        } else {
            let message = format!(
                "without imports nothing is generated for the proxy, which a MeshProxyPatch cannot say; if that is not meant, \
                 import `{DEFAULT_IMPORT}` and migrate again"
            );
            self.obstacle(&imports, message);
        }
        if resources.is_filled() {
            let message = "raw resources have no equal: add each by a modification with operation `add`";
            self.obstacle(&resources, message);
        } else if conf.has("resources") {
            self.edits.push(Edit::Remove { at: resources.path });
        }
    }

    fn write_modifications(&mut self, modifications: &Field<'_>) {
        let entries = modifications.elements();
        if entries.is_empty() {
            self.obstacle(
                modifications,
                "there are no modifications, and a MeshProxyPatch needs one: delete the template",
            );
        }
        for entry in entries {
            for target in ["cluster", "listener", "virtualHost", "networkFilter", "httpFilter"] {
                let body = entry.below(target);
                if body.is_present() {
                    self.write_modification(&body, target);
                } else if entry.has(target) {
                    self.edits.push(Edit::Remove { at: body.path });
                }
            }
            let route = entry.below("route");
            if route.is_present() {
                self.obstacle(
                    &route,
                    "Kuma's MeshProxyPatch has no `route`: modify the virtual hosts of the listener instead",
                );
            }
        }
    }

    fn write_modification(&mut self, body: &Field<'_>, target: &'static str) {
        let is_filter = matches!(target, "networkFilter" | "httpFilter");
        let (operation, criteria, value) = (body.below("operation"), body.below("match"), body.below("value"));
        let spelled = upper_camel(operation.text());
        if spelled != operation.text() {
            self.edits.push(Edit::Set { at: operation.path.clone(), value: Value::from(spelled) });
        }
        self.write_criteria(&criteria, is_filter);
        if target == "virtualHost" && !criteria.is_present() {
            if body.has("match") {
                self.edits.push(Edit::Remove { at: criteria.path });
            }
            let (into, value) = (body.path.clone(), json!({}));
            self.edits.push(Edit::Insert { into, key: "match", value, after: Some("operation") });
        }
        if value.is_present() {
            self.write_value(&value, is_filter, operation.text().eq_ignore_ascii_case("patch"));
        }
    }

    /// The older spellings go, and so do empty criteria: a template takes them for none, a patch for a name that is empty.
    fn write_criteria(&mut self, criteria: &Field<'_>, is_filter: bool) {
        let aliases: &[(&'static str, &'static str)] =
            if is_filter { &[("side", "origin"), ("type", "name")] } else { &[("side", "origin")] };
        let mut written: Vec<&'static str> = vec!["name", "origin", "listenerName", "routeConfigurationName"];
        for (alias, canonical) in aliases {
            let (field, other) = (criteria.below(alias), criteria.below(canonical));
            if !criteria.has(alias) {
                continue;
            }
            if !field.is_filled() || other.is_filled() {
                self.edits.push(Edit::Remove { at: field.path });
                continue;
            }
            if criteria.has(canonical) {
                self.edits.push(Edit::Remove { at: other.path });
                written.retain(|name| name != canonical);
            }
            self.edits.push(Edit::Rename { at: field.path, key: canonical });
        }
        for name in written {
            let field = criteria.below(name);
            if field.value.as_str() == Some("") {
                self.edits.push(Edit::Remove { at: field.path });
            }
        }
        for origin in [criteria.below("origin"), criteria.below("side")] {
            if ORIGINS.contains(&origin.text()) {
                self.obstacle(&origin, "nothing has this origin without a template: match by name instead");
            }
        }
    }

    /// A MeshProxyPatch takes Envoy's documents as text.
    fn write_value(&mut self, value: &Field<'_>, is_filter: bool, is_patch: bool) {
        let document = match value.value {
            Value::String(text) => read_value(text).unwrap_or_default(),
            inline => inline.clone(),
        };
        if is_filter && document.as_object().is_some_and(|document| is_shorthand(document, is_patch)) {
            let message = "a MeshProxyPatch takes a whole filter: write `name`, and the configuration below `typedConfig` with \
                           its `@type`";
            self.obstacle(value, message);
            return;
        }
        if value.value.is_string() {
            return;
        }
        let source = edit::source(self.subject.text, &value.path);
        match source.filter(|source| read_value(source).as_ref() == Ok(value.value)) {
            Some(source) => self.edits.push(Edit::Set { at: value.path.clone(), value: Value::from(source) }),
            None => self.obstacle(
                value,
                "the document stands here in a way that cannot become text: write it below `value: |`",
            ),
        }
    }

    fn write_kubernetes(&mut self, root: &Field<'_>, content: &Field<'_>, target: Option<Value>) {
        let conf = content.below("conf");
        self.rename_conf(&conf);
        if let Some(value) = target {
            self.edits.push(Edit::Replace { at: content.path.field("selectors"), key: "targetRef", value });
        }
        let metadata = root.below("metadata");
        for name in OF_THE_STORED_OBJECT.iter().filter(|name| metadata.has(name)) {
            self.edits.push(Edit::Remove { at: metadata.path.field(*name) });
        }
        if !metadata.has("namespace") {
            let (into, value) = (metadata.path.clone(), Value::from(self.subject.settings.system_namespace.as_str()));
            self.edits.push(Edit::Insert { into, key: "namespace", value, after: Some("name") });
        }
        self.write_mesh(root, &metadata);
        self.edits.push(Edit::Set { at: root.path.field("kind"), value: Value::from(SUCCESSOR) });
    }

    /// Templates have a field for their mesh, patches a label.
    fn write_mesh(&mut self, root: &Field<'_>, metadata: &Field<'_>) {
        let (mesh, labels) = (root.below("mesh"), metadata.below("labels"));
        if !root.has("mesh") {
            return;
        }
        self.edits.push(Edit::Remove { at: mesh.path });
        let mesh = mesh.value.clone();
        match self.subject.label(MESH_LABEL) {
            _ if !mesh.is_string() => {}
            Some(_) => self.edits.push(Edit::Set { at: labels.path.key(MESH_LABEL), value: mesh }),
            None if labels.value.is_object() => {
                self.edits.push(Edit::Insert { into: labels.path, key: MESH_LABEL, value: mesh, after: None });
            }
            None => {
                if metadata.has("labels") {
                    self.edits.push(Edit::Remove { at: labels.path });
                }
                let (into, value) = (metadata.path.clone(), json!({MESH_LABEL: mesh}));
                self.edits.push(Edit::Insert { into, key: "labels", value, after: Some("name") });
            }
        }
    }

    fn write_universal(&mut self, root: &Field<'_>, target: Option<Value>) {
        if root.has("selectors") {
            self.edits.push(Edit::Remove { at: root.path.field("selectors") });
        }
        self.rename_conf(&root.below("conf"));
        self.edits.push(Edit::Nest { at: root.path.field("default"), under: "spec" });
        if let Some(value) = target {
            let into = root.path.field("spec");
            self.edits.push(Edit::Insert { into, key: "targetRef", value, after: None });
        }
        self.edits.push(Edit::Set { at: root.path.field("type"), value: Value::from(SUCCESSOR) });
    }

    fn rename_conf(&mut self, conf: &Field<'_>) {
        self.edits.push(Edit::Rename { at: conf.path.field("modifications"), key: "appendModifications" });
        self.edits.push(Edit::Rename { at: conf.path.clone(), key: "default" });
    }
}

/// Whether a filter is written in a way that only templates of Writ know: its bare configuration, or a type with the
/// configuration beside it.
fn is_shorthand(document: &Map<String, Value>, is_patch: bool) -> bool {
    let has = |keys: &[&str]| keys.iter().any(|key| document.contains_key(*key));
    let typed_by_text =
        ["typedConfig", "typed_config"].iter().any(|key| document.get(*key).is_some_and(Value::is_string));
    let bare = is_patch && !document.is_empty() && !has(&["name", "typedConfig", "typed_config", "@type"]);
    typed_by_text || bare
}

fn upper_camel(operation: &str) -> String {
    let mut letters = operation.chars();
    letters.next().into_iter().flat_map(char::to_uppercase).chain(letters).collect()
}
