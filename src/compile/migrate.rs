//! Mesh policies rewritten for Kuma 3: what can be said there in other words is, everything else stays and is reported.
//!
//! A rewrite is a list of [`Edit`]s, so comments, order and quotes of the text survive. It is kept only if the policy has no
//! new fault by it; what Kuma 3 refuses in the result is reported, so nothing is left out in silence.

mod inbound;
mod reference;
mod selection;
mod split;
mod template;

use serde_json::Value;

use super::{Findings, Form, Identity, KumaVersion, check, group_of, identify};
use crate::core::mesh::policy::PolicyKind;
use crate::core::problem::{FieldPath, Problem, Reason};
use crate::core::yaml::edit::{self, Edit, Part};
use crate::core::yaml::{self, Document, Position, YamlError};
use split::Halves;

/// What the API server wrote about an object must not be said of a new one.
const OF_THE_STORED_OBJECT: &[&str] =
    &["uid", "resourceVersion", "generation", "creationTimestamp", "managedFields", "ownerReferences"];

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
    let several_templates =
        template::meshes_with_several(documents.iter().flat_map(|document| objects(&document.value)));
    let named = |kind: &str, name: &str| {
        let mut others = documents.iter().flat_map(|document| objects(&document.value)).filter_map(identify);
        others.any(|other| other.kind == kind && other.name == name)
    };
    let mut migration = Migration { text: String::new(), documents: Vec::new() };
    let mut copied = 0;
    for part in edit::parts(text).unwrap_or_default() {
        migration.text.push_str(&text[copied..part.range.start]);
        copied = part.range.end;
        let mut work = Work::new(&text[part.range.clone()], &part, settings, &several_templates);
        match split::split(&work.text, &work.value, named) {
            Some(halves) => migration.take_halves(&work, halves),
            None => migration.take(&mut work),
        }
    }
    migration.text.push_str(&text[copied..]);
    Ok(migration)
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
        let is_good = |work: &Work<'_>| faults_of(&work.value).is_some_and(|faults| faults.is_empty());
        let (Some(identity), true) = (identify(&whole.value), works.iter().all(is_good)) else {
            return self.take(&mut whole.with_text(whole.text.clone()));
        };
        let root = FieldPath::root();
        let field = root.field("spec").field("from");
        let message = format!("`from` goes into a policy of its own, `{name}`: in Kuma 3 it cannot stand beside `to`");
        let change = whole.remark(&root, Problem::new(&field, Reason::Removed, message));
        let Identity { kind, name, .. } = identity;
        self.documents.push(Migrated { kind, name, changes: vec![change], remaining: Vec::new() });
        for (position, work) in works.iter_mut().enumerate() {
            self.text.push_str(if position == 0 { "" } else { "\n---\n" });
            self.take(work);
        }
    }
}

/// The objects of a document: itself, or the items of a `List`.
fn objects(document: &Value) -> Vec<&Value> {
    let is_list = document.get("kind").and_then(Value::as_str) == Some("List");
    match document.get("items").and_then(Value::as_array) {
        Some(items) if is_list => items.iter().collect(),
        _ => vec![document],
    }
}

/// A document while it is rewritten.
struct Work<'m> {
    text: String,
    original: Option<Document>,
    value: Value,
    lines_before: usize,
    settings: &'m Settings,
    several_templates: &'m [String],
}

/// A rewrite of one thing.
struct Rewrite {
    /// What it is about, from the object's root.
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

impl Obstacle {
    fn new(scope: &FieldPath, field: &FieldPath, message: impl Into<String>) -> Self {
        Self { scope: scope.clone(), problem: Problem::new(field, Reason::Removed, message) }
    }

    fn explains(&self, problem: &Problem) -> bool {
        problem.field.steps().starts_with(&self.scope.steps())
    }
}

type Attempt = Result<Rewrite, Obstacle>;

/// An object as the rewrites look at it: paths lead from its own root.
struct Subject<'o> {
    object: &'o Value,
    form: Form,
    settings: &'o Settings,
}

impl<'o> Subject<'o> {
    fn spec(&self) -> Field<'o> {
        self.root().below("spec")
    }

    fn root(&self) -> Field<'o> {
        Field { value: self.object, path: FieldPath::root() }
    }

    fn label(&self, name: &str) -> Option<&'o str> {
        let labels = match self.form {
            Form::Kubernetes => self.object.get("metadata")?.get("labels"),
            Form::Universal => self.object.get("labels"),
        };
        labels?.get(name)?.as_str()
    }

    /// The namespace that a reference without one means.
    fn namespace(&self) -> Option<&'o str> {
        let metadata = self.object.get("metadata").filter(|_| self.form == Form::Kubernetes);
        let own = metadata.and_then(|metadata| metadata.get("namespace")).and_then(Value::as_str);
        self.label(reference::NAMESPACE_LABEL).or(own)
    }
}

/// A value of an object and where it stands; absent values read as null.
#[derive(Clone)]
struct Field<'o> {
    value: &'o Value,
    path: FieldPath,
}

static ABSENT: Value = Value::Null;

impl<'o> Field<'o> {
    fn below(&self, name: &'static str) -> Self {
        Self { value: self.value.get(name).unwrap_or(&ABSENT), path: self.path.field(name) }
    }

    fn elements(&self) -> Vec<Self> {
        let elements = self.value.as_array().into_iter().flatten().enumerate();
        elements.map(|(index, value)| Self { value, path: self.path.index(index) }).collect()
    }

    fn text(&self) -> &'o str {
        self.value.as_str().unwrap_or_default()
    }

    fn is_present(&self) -> bool {
        !self.value.is_null()
    }

    /// Whether the key stands in it, with or without a value.
    fn has(&self, name: &str) -> bool {
        self.value.get(name).is_some()
    }

    fn is_filled(&self) -> bool {
        match self.value {
            Value::Null => false,
            Value::String(text) => !text.is_empty(),
            Value::Array(items) => !items.is_empty(),
            Value::Object(entries) => !entries.is_empty(),
            _ => true,
        }
    }
}

/// What a kind of object needs.
enum Plan {
    Policy(PolicyKind),
    Template,
}

impl Plan {
    fn of(object: &Value, kind: &str, form: Form) -> Option<Self> {
        if form == Form::Kubernetes && group_of(object) != "kuma.io" {
            return None;
        }
        if kind == template::KIND { Some(Self::Template) } else { PolicyKind::parse(kind).map(Self::Policy) }
    }

    /// Each stage sees what the one before has made.
    fn stages(&self) -> Vec<Stage<'_>> {
        match self {
            Self::Policy(kind) => vec![
                Box::new(|subject, _| selection::rewrite(subject, *kind)),
                Box::new(|subject, _| inbound::rewrite(subject, *kind).into_iter().collect()),
                Box::new(|subject, _| reference::rewrite(subject)),
            ],
            Self::Template => vec![Box::new(|subject, work| template::rewrite(subject, work))],
        }
    }
}

type Stage<'p> = Box<dyn Fn(&Subject<'_>, &Surroundings<'_>) -> Vec<Attempt> + 'p>;

/// What lies around an object.
struct Surroundings<'w> {
    /// The text of the document, and the way to the object in it.
    text: &'w str,
    prefix: &'w FieldPath,
    /// The meshes of which there is more than one template.
    several_templates: &'w [String],
}

impl<'m> Work<'m> {
    fn new(text: &str, part: &Part, settings: &'m Settings, several_templates: &'m [String]) -> Self {
        let original = match yaml::read(text).pop() {
            Some(Ok(document)) => Some(document),
            _ => None,
        };
        let value = original.as_ref().map(|document| document.value.clone()).unwrap_or_default();
        Self { text: text.to_owned(), original, value, lines_before: part.lines_before, settings, several_templates }
    }

    /// The same for another text, whose fields are still told by the places that they have in this one.
    fn with_text(&self, text: String) -> Self {
        let value = yaml::read_value(&text).unwrap_or_default();
        Self { text, value, original: self.original.clone(), ..*self }
    }

    fn run(&mut self) -> Vec<Migrated> {
        let items = self.value.get("items").and_then(Value::as_array).map_or(0, Vec::len);
        let is_list = self.value.get("kind").and_then(Value::as_str) == Some("List");
        let roots = match (is_list, items) {
            (true, items) => (0..items).map(|index| FieldPath::root().field("items").index(index)).collect(),
            (false, _) => vec![FieldPath::root()],
        };
        roots.iter().filter_map(|root| self.migrate(root)).collect()
    }

    /// Rewrites one object; `None` if there is nothing to say about it.
    fn migrate(&mut self, root: &FieldPath) -> Option<Migrated> {
        let object = object_at(&self.value, root)?;
        let identity = identify(object)?;
        let plan = Plan::of(object, &identity.kind, identity.form)?;
        let faults = faults_of(object)?;
        let mut migrated =
            Migrated { kind: identity.kind, name: identity.name, changes: Vec::new(), remaining: Vec::new() };
        let fatal: Vec<_> = faults.iter().filter(|fault| !selection::cures(object, fault)).cloned().collect();
        if !fatal.is_empty() {
            migrated.remaining = fatal.into_iter().map(|fault| self.remark(root, fault)).collect();
            return Some(migrated);
        }
        let mut obstacles = Vec::new();
        for stage in plan.stages() {
            for attempt in self.attempts(root, identity.form, &stage) {
                match attempt.and_then(|rewrite| self.perform(root, rewrite, &faults)) {
                    Ok(change) => migrated.changes.push(change),
                    Err(obstacle) => obstacles.push(obstacle),
                }
            }
        }
        migrated.remaining = self.remaining(root, obstacles);
        (!migrated.changes.is_empty() || !migrated.remaining.is_empty()).then_some(migrated)
    }

    fn attempts(&self, root: &FieldPath, form: Form, stage: &Stage<'_>) -> Vec<Attempt> {
        let Some(object) = object_at(&self.value, root) else { return Vec::new() };
        let surroundings = Surroundings { text: &self.text, prefix: root, several_templates: self.several_templates };
        stage(&Subject { object, form, settings: self.settings }, &surroundings)
    }

    /// Does a rewrite, unless the object would have a fault by it that it did not have.
    fn perform(&mut self, root: &FieldPath, rewrite: Rewrite, before: &[Problem]) -> Result<Remark, Obstacle> {
        let Rewrite { field, message, edits } = rewrite;
        let obstacle = |message: String| Obstacle::new(&field, &field, message);
        let edits: Vec<_> = edits.iter().map(|edit| edit.below(root)).collect();
        let (text, value) = edit::apply(&self.text, &self.value, &edits).map_err(|error| {
            obstacle(format!("{error} (an alias, a merge key, or a key twice?): write it out and migrate again"))
        })?;
        let faults = object_at(&value, root).and_then(faults_of).unwrap_or_default();
        let known =
            |fault: &&Problem| before.iter().any(|old| (&old.field, old.reason) == (&fault.field, fault.reason));
        if let Some(fault) = faults.iter().find(|fault| !known(fault)) {
            return Err(obstacle(format!("the rewrite for Kuma 3 would be refused: {fault}")));
        }
        (self.text, self.value) = (text, value);
        Ok(self.remark(root, Problem::new(&field, Reason::Removed, message)))
    }

    /// What Kuma 3 refuses in what has become of the object, each with the reason why it is still there.
    fn remaining(&self, root: &FieldPath, obstacles: Vec<Obstacle>) -> Vec<Remark> {
        let object = object_at(&self.value, root);
        let refused = object.and_then(check).map(|findings| findings.seen_by(KumaVersion::Three).errors);
        let mut refused = refused.unwrap_or_default();
        refused.retain(|problem| !obstacles.iter().any(|obstacle| obstacle.explains(problem)));
        let explained = obstacles.into_iter().map(|obstacle| obstacle.problem);
        explained.chain(refused).map(|problem| self.remark(root, problem)).collect()
    }

    fn remark(&self, root: &FieldPath, problem: Problem) -> Remark {
        let at = self.original.as_ref().map(|document| document.position_of(&problem.field.below(root)));
        let at = at.unwrap_or(Position { line: 1, column: 1 });
        Remark { position: Position { line: at.line + self.lines_before, ..at }, problem }
    }
}

fn object_at<'v>(document: &'v Value, root: &FieldPath) -> Option<&'v Value> {
    let steps = root.steps();
    let items = steps.iter().find_map(|step| match step {
        crate::core::problem::Step::Index(index) => Some(*index),
        _ => None,
    });
    match items {
        Some(index) => document.get("items")?.get(index),
        None => Some(document),
    }
}

/// Why Kuma refuses the object already, whatever its version.
fn faults_of(object: &Value) -> Option<Vec<Problem>> {
    check(object).map(|Findings { errors, schema, .. }| errors.into_iter().chain(schema).collect())
}

#[cfg(test)]
mod tests;
