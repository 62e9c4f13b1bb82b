//! One object while it is rewritten.

use serde_json::Value;

use super::subject::Subject;
use super::{Attempt, Migrated, Object, Obstacle, Remark, Rewrite, Settings, inbound, reference, selection, template};
use crate::compile::mesh::kinds;
use crate::compile::{Findings, Form, Identity, KumaVersion, check, group_of, identify};
use crate::core::mesh::kind::PolicyKind;
use crate::core::problem::{Problem, Reason};
use crate::core::yaml::{self, edit};

/// An object, its text and its value in step.
pub(super) struct Work<'m> {
    pub(super) text: String,
    pub(super) value: Value,
    /// As it was read; it knows the lines.
    pub(super) object: &'m Object<'m>,
    settings: &'m Settings,
    several_templates: &'m [String],
}

/// Each stage sees what the one before has made.
type Stage = fn(&Subject<'_>) -> Vec<Attempt>;

const OF_POLICIES: &[Stage] = &[selection::rewrite, inbound::rewrite, reference::rewrite];
const OF_TEMPLATES: &[Stage] = &[template::rewrite];

/// The kinds of policy that are Kuma's; `None` for an object that is nothing of ours, `Some(None)` for a template.
pub(super) fn policy_kind(object: &Value, identity: &Identity<'_>) -> Option<Option<&'static PolicyKind>> {
    let is_ours = identity.form == Form::Universal || group_of(object) == "kuma.io";
    match identity.kind {
        _ if !is_ours => None,
        template::KIND => Some(None),
        kind => kinds().policy(kind).map(Some),
    }
}

/// Why Kuma refuses the object already, whatever its version.
pub(super) fn faults_of(object: &Value) -> Option<Vec<Problem>> {
    check(object).map(|Findings { errors, schema, .. }| errors.into_iter().chain(schema).collect())
}

impl<'m> Work<'m> {
    pub(super) fn new(
        text: String,
        object: &'m Object<'m>,
        settings: &'m Settings,
        several_templates: &'m [String],
    ) -> Self {
        Self { text, value: object.value.clone(), object, settings, several_templates }
    }

    /// The same for another text, whose fields are still told by the places that they have in this one.
    pub(super) fn with_text(&self, text: String) -> Self {
        let value = yaml::read_value(&text).unwrap_or_default();
        Self { text, value, ..*self }
    }

    /// Rewrites one object; `None` if there is nothing to say about it.
    pub(super) fn run(&mut self) -> Option<Migrated> {
        let object = &self.value;
        let identity = identify(object)?;
        let policy = policy_kind(object, &identity)?;
        let faults = faults_of(object)?;
        let fatal: Vec<_> = faults.iter().filter(|fault| !selection::cures(object, fault)).cloned().collect();
        let Identity { kind, name, form } = identity;
        let (kind, name) = (kind.to_owned(), name.to_owned());
        let mut migrated = Migrated { kind, name, changes: Vec::new(), remaining: Vec::new() };
        if !fatal.is_empty() {
            migrated.remaining = fatal.into_iter().map(|fault| self.remark(fault)).collect();
            return Some(migrated);
        }
        let mut obstacles = Vec::new();
        for stage in if policy.is_some() { OF_POLICIES } else { OF_TEMPLATES } {
            for attempt in self.attempts(form, policy, *stage) {
                match attempt.and_then(|rewrite| self.perform(rewrite, &faults)) {
                    Ok(change) => migrated.changes.push(change),
                    Err(obstacle) => obstacles.push(obstacle),
                }
            }
        }
        migrated.remaining = self.remaining(obstacles);
        (!migrated.changes.is_empty() || !migrated.remaining.is_empty()).then_some(migrated)
    }

    fn attempts(&self, form: Form, policy: Option<&'static PolicyKind>, stage: Stage) -> Vec<Attempt> {
        let Self { text, value: object, settings, several_templates, .. } = self;
        stage(&Subject { object, form, policy, settings, text, several_templates })
    }

    /// Does a rewrite, unless the object would have a fault by it that it did not have.
    fn perform(&mut self, rewrite: Rewrite, before: &[Problem]) -> Result<Remark, Obstacle> {
        let Rewrite { field, message, edits } = rewrite;
        let obstacle = |message: String| Obstacle::new(&field, &field, message);
        let (text, value) = edit::apply(&self.text, &self.value, &edits).map_err(|error| {
            obstacle(format!("{error} (an alias, a merge key, or a key twice?): write it out and migrate again"))
        })?;
        let faults = faults_of(&value).unwrap_or_default();
        let known =
            |fault: &&Problem| before.iter().any(|old| (&old.field, old.reason) == (&fault.field, fault.reason));
        if let Some(fault) = faults.iter().find(|fault| !known(fault)) {
            return Err(obstacle(format!("the rewrite for Kuma 3 would be refused: {fault}")));
        }
        (self.text, self.value) = (text, value);
        Ok(self.remark(Problem::new(&field, Reason::Removed, message)))
    }

    /// What Kuma 3 refuses in what has become of the object, each with the reason why it is still there.
    fn remaining(&self, obstacles: Vec<Obstacle>) -> Vec<Remark> {
        let findings = check(&self.value).unwrap_or_default();
        let mut refused = findings.seen_by(KumaVersion::Three).errors;
        refused.retain(|problem| !obstacles.iter().any(|obstacle| obstacle.explains(problem)));
        let explained = obstacles.into_iter().map(|obstacle| obstacle.problem);
        explained.chain(refused).map(|problem| self.remark(problem)).collect()
    }

    pub(super) fn remark(&self, problem: Problem) -> Remark {
        let Object { document, root, .. } = self.object;
        Remark { position: document.position_of(&problem.field.below(root)), problem }
    }
}
