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

use super::{Identity, identify};
use crate::core::problem::{FieldPath, Problem, Reason};
use crate::core::yaml::edit::{self, Edit};
use crate::core::yaml::{self, Position, YamlError};
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
    let objects: Vec<_> = documents.iter().flat_map(|document| objects(&document.value)).collect();
    let several_templates = template::meshes_with_several(&objects);
    let is_taken = |kind: &str, name: &str| {
        objects.iter().filter_map(|object| identify(object)).any(|other| other.kind == kind && other.name == name)
    };
    let mut migration = Migration { text: String::new(), documents: Vec::new() };
    let mut copied = 0;
    for part in edit::parts(text).unwrap_or_default() {
        migration.text.push_str(&text[copied..part.range.start]);
        copied = part.range.end;
        let mut work = Work::new(&text[part.range.clone()], part.lines_before, settings, &several_templates);
        match split::split(&work.text, &work.value, is_taken) {
            Some(halves) => migration.take_halves(&work, halves),
            None => migration.take(&mut work),
        }
    }
    migration.text.push_str(&text[copied..]);
    Ok(migration)
}

/// The objects of a document: itself, or the items of a `List`.
fn objects(document: &Value) -> Vec<&Value> {
    match items(document) {
        Some(items) => items.iter().collect(),
        None => vec![document],
    }
}

fn items(document: &Value) -> Option<&Vec<Value>> {
    let is_list = document.get("kind").and_then(Value::as_str) == Some("List");
    document.get("items").and_then(Value::as_array).filter(|_| is_list)
}

impl Migration {
    fn take(&mut self, work: &mut Work<'_>) {
        self.documents.extend(work.run());
        self.text.push_str(&work.text);
    }

    /// Takes what became of both halves of a policy, unless one of them is refused.
    fn take_halves(&mut self, whole: &Work<'_>, halves: Halves) {
        let Halves { outbound, inbound, name } = halves;
        let mut works = [whole.with_text(outbound), whole.with_text(inbound)];
        let is_good = |work: &Work<'_>| work::faults_of(&work.value).is_some_and(|faults| faults.is_empty());
        let (Some(identity), true) = (identify(&whole.value), works.iter().all(is_good)) else {
            return self.take(&mut whole.with_text(whole.text.clone()));
        };
        let field = FieldPath::root().field("spec").field("from");
        let message = format!("`from` goes into a policy of its own, `{name}`: in Kuma 3 it cannot stand beside `to`");
        let change = whole.remark(&FieldPath::root(), Problem::new(&field, Reason::Removed, message));
        let Identity { kind, name, .. } = identity;
        self.documents.push(Migrated { kind, name, changes: vec![change], remaining: Vec::new() });
        for (position, work) in works.iter_mut().enumerate() {
            self.text.push_str(if position == 0 { "" } else { "\n---\n" });
            self.take(work);
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
