//! Mesh policies rewritten for Kuma 3: what can be said there in other words is, everything else stays and is reported.
//!
//! A rewrite is a list of [`Edit`]s, so comments, order and quotes of the text survive. It is kept only if the policy has no
//! new fault by it; what Kuma 3 refuses in the result is reported, so nothing is left out in silence.

mod inbound;
mod reference;
mod selection;
mod split;
mod subject;
mod template;
mod work;

#[cfg(test)]
mod tests;

use serde_json::Value;

use crate::compile::{Identity, identify};
use crate::core::problem::{FieldPath, Problem, Reason};
use crate::core::yaml::edit::{self, Edit};
use crate::core::yaml::{self, Document, Position, YamlError};
use split::Halves;
use work::Work;

/// What a migration has to know beside the documents.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where policies of the whole mesh live on Kubernetes.
    pub system_namespace: String,
}

/// A text after its migration.
#[derive(Clone, Debug)]
pub struct Migration {
    pub text: String,
    /// What was done to each document, or could not be; documents that need nothing are left out.
    pub documents: Vec<Migrated>,
}

/// One document after its migration.
#[derive(Clone, Debug)]
pub struct Migrated {
    pub kind: String,
    pub name: String,
    /// What was rewritten.
    pub changes: Vec<Remark>,
    /// What has to be done by hand.
    pub remaining: Vec<Remark>,
}

/// Something about a field, with its place in the text as it was before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remark {
    pub position: Position,
    pub problem: Problem,
}

/// Rewrites every policy of a stream of documents for Kuma 3.
pub fn migrate(text: &str, settings: &Settings) -> Result<Migration, YamlError> {
    let documents = yaml::read(text).into_iter().collect::<Result<Vec<_>, _>>()?;
    let objects: Vec<_> = documents.iter().flat_map(objects).collect();
    let several_templates = template::meshes_with_several(objects.iter().map(|object| object.value));
    let is_taken = |kind: &str, name: &str| {
        let mut others = objects.iter().filter_map(|object| identify(object.value));
        others.any(|other| other.kind == kind && other.name == name)
    };
    let parts = edit::parts(text).filter(|parts| parts.len() == objects.len());
    let Some(parts) = parts else {
        let reason = "its documents cannot be told apart".to_owned();
        return Err(YamlError { position: Position { line: 1, column: 1 }, reason });
    };
    let mut migration = Migration { text: String::new(), documents: Vec::new() };
    let mut copied = 0;
    for (part, object) in parts.iter().zip(&objects) {
        migration.text.push_str(&text[copied..part.range.start]);
        copied = part.range.end;
        // Deep inside a list an object stands in its column; with as many blanks before it, it is a document.
        let indent = " ".repeat(part.indent);
        let mut work =
            Work::new(format!("{indent}{}", &text[part.range.clone()]), object, settings, &several_templates);
        match split::split(&work, is_taken) {
            Some(halves) => migration.take_halves(&work, halves),
            None => {
                migration.documents.extend(work.run());
                migration.text.push_str(work.text.strip_prefix(&indent).unwrap_or(&work.text));
            }
        }
    }
    migration.text.push_str(&text[copied..]);
    Ok(migration)
}

/// A policy, or whatever stands there, and its place in its document.
#[derive(Clone)]
struct Object<'d> {
    value: &'d Value,
    document: &'d Document,
    root: FieldPath,
}

/// The objects of a document: itself, or the items of a `List`.
fn objects(document: &Document) -> Vec<Object<'_>> {
    let is_list = document.value.get("kind").and_then(Value::as_str) == Some("List");
    match document.value.get("items").and_then(Value::as_array) {
        Some(items) if is_list => {
            let root = FieldPath::root().field("items");
            let object = |(index, value)| Object { value, document, root: root.index(index) };
            items.iter().enumerate().map(object).collect()
        }
        _ => vec![Object { value: &document.value, document, root: FieldPath::root() }],
    }
}

impl Migration {
    /// Takes what became of both halves of a policy, unless one of them is refused.
    fn take_halves(&mut self, whole: &Work<'_>, halves: Halves) {
        let Halves { outbound, inbound, name } = halves;
        let mut works = [whole.with_text(outbound), whole.with_text(inbound)];
        let is_good = |work: &Work<'_>| work::faults_of(&work.value).is_some_and(|faults| faults.is_empty());
        let (Some(identity), true) = (identify(&whole.value), works.iter().all(is_good)) else {
            let mut work = whole.with_text(whole.text.clone());
            self.documents.extend(work.run());
            return self.text.push_str(&work.text);
        };
        let field = FieldPath::root().field("spec").field("from");
        let message = format!("`from` goes into a policy of its own, `{name}`: in Kuma 3 it cannot stand beside `to`");
        let change = whole.remark(Problem::new(&field, Reason::Removed, message));
        let Identity { kind, name, .. } = identity;
        let (kind, name) = (kind.to_owned(), name.to_owned());
        self.documents.push(Migrated { kind, name, changes: vec![change], remaining: Vec::new() });
        for (position, work) in works.iter_mut().enumerate() {
            self.text.push_str(if position == 0 { "" } else { "\n---\n" });
            self.documents.extend(work.run());
            self.text.push_str(&work.text);
        }
    }
}

/// A rewrite of one thing. Paths lead from the root of the object.
struct Rewrite {
    /// What it is about.
    field: FieldPath,
    /// What was done, in words.
    message: String,
    edits: Vec<Edit>,
}

/// Why something has to be done by hand.
struct Obstacle {
    /// Everything below is explained by this obstacle.
    scope: FieldPath,
    problem: Problem,
}

type Attempt = Result<Rewrite, Obstacle>;

impl Obstacle {
    fn new(scope: &FieldPath, field: &FieldPath, message: impl Into<String>) -> Self {
        Self { scope: scope.clone(), problem: Problem::new(field, Reason::Removed, message) }
    }

    fn explains(&self, problem: &Problem) -> bool {
        problem.field.steps().starts_with(&self.scope.steps())
    }
}
