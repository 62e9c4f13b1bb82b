//! From patterns to finished targets: loops, substitution, sources, labels, budgets.
//!
//! One bad entry, element or item is noted and the others go on. What is missing is gathered across all of them, so that one
//! round of fetching serves the whole rule.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use crate::core::condition::Conditions;
use crate::core::expr::{Runtime, Scope, Template};
use crate::core::problem::FieldPath;
use crate::core::resource::{Gvk, ObjectKey, text_at};
use crate::core::scalar::json_text::json_bytes;
use crate::core::shape::ValueShape;

use super::body::{dress, strip};
use super::context::{Frame, Session};
use super::error::Cause;
use super::facts::Answer;
use super::gate::KindText;
use super::identity::{Selection, gvk_of, key_of, source_key, text};
use super::labels;
use super::plan::{Failure, Mode, Place, Plan, Source, Target};
use super::rule::{Loop, Output, Pattern, Rule, Targets};

/// The work on one plan.
pub(super) struct Expansion<'e> {
    rule: &'e Rule,
    cause: labels::Cause<'e>,
    session: &'e Session<'e>,
    runtime: &'e Runtime,
    plan: Plan,
    taken: BTreeSet<ObjectKey>,
    elements: usize,
    bytes: usize,
    /// Some part waits for a fact.
    waiting: bool,
    /// A budget of the plan is used up: nothing more is made, and nothing more is told.
    spent: bool,
}

/// A cause and the field it belongs to.
type Fault = (FieldPath, Cause);

impl<'e> Expansion<'e> {
    pub(super) fn new(
        rule: &'e Rule,
        cause: labels::Cause<'e>,
        session: &'e Session<'e>,
        runtime: &'e Runtime,
    ) -> Self {
        let plan = Plan {
            synchronize: rule.synchronize,
            orphan_on_policy_delete: rule.orphan_on_policy_delete,
            targets: Vec::new(),
            failures: Vec::new(),
            notes: Vec::new(),
        };
        Self {
            rule,
            cause,
            session,
            runtime,
            plan,
            taken: BTreeSet::new(),
            elements: 0,
            bytes: 0,
            waiting: false,
            spent: false,
        }
    }

    /// The plan, or nothing if some part waits for a fact.
    pub(super) fn run(mut self, scope: &Frame<'_>) -> Option<Plan> {
        match &self.rule.targets {
            Targets::Once(output) => self.produce(output, scope, Place::default()),
            Targets::Foreach(loops) => {
                for (entry, each) in loops.iter().enumerate() {
                    self.iterate(each, scope, Place { entry: Some(entry), ..Place::default() });
                }
            }
        }
        (!self.waiting).then_some(self.plan)
    }

    fn iterate(&mut self, each: &Loop, scope: &Frame<'_>, place: Place) {
        let list = match each.list.resolve_json(scope, self.runtime) {
            Ok(list) => list,
            Err(reason) => {
                let cause = Cause::Expression { expression: each.list.text().to_owned(), reason: Box::new(reason) };
                return self.record(place, Err((each.field.field("list"), cause)));
            }
        };
        let elements = match list {
            Value::Array(elements) => elements,
            Value::Null => Vec::new(),
            single => vec![single],
        };
        let limit = self.session.facts.limits.elements;
        for (index, element) in elements.into_iter().enumerate() {
            if self.spent {
                return;
            }
            if self.elements == limit {
                let cause = Cause::Budget { what: "elements", limit };
                return self.record(place, Err((each.field.field("list"), cause)));
            }
            self.elements += 1;
            if element.is_null() {
                continue;
            }
            let place = Place { element: Some(index), ..place };
            let scope = Frame::of_element(scope, element, index, &each.context);
            match self.holds(&each.preconditions, &scope, &each.field) {
                Ok(None) => self.produce(&each.output, &scope, place),
                Ok(Some(because)) => self.plan.notes.push(format!("{place} skipped: {because}")),
                Err(fault) => self.record(place, Err(fault)),
            }
        }
    }

    fn holds(
        &self,
        conditions: &Conditions<Template>,
        scope: &dyn Scope,
        field: &FieldPath,
    ) -> Result<Option<String>, Fault> {
        super::evaluate::hold(conditions, scope, self.runtime)
            .map_err(|unresolved| (unresolved.field(&field.field("preconditions")), unresolved.error))
    }

    fn produce(&mut self, output: &Output, scope: &Frame<'_>, place: Place) {
        match output {
            Output::Data(pattern) => self.data(pattern, scope, place),
            Output::Clone(pattern) => self.clone(pattern, scope, place),
            Output::CloneSelected(pattern) => self.clone_selected(pattern, scope, place),
            Output::DataList(patterns) => {
                for (item, pattern) in patterns.iter().enumerate() {
                    self.data(pattern, scope, Place { item: Some(item), ..place });
                }
            }
            Output::CloneEach(patterns) => {
                for (item, pattern) in patterns.iter().enumerate() {
                    self.clone_named(pattern, scope, Place { item: Some(item), ..place });
                }
            }
        }
    }

    fn data(&mut self, pattern: &Pattern, scope: &Frame<'_>, place: Place) {
        let made = self.render(pattern, scope).and_then(|mut rendered| {
            let body = match rendered.remove("data") {
                Some(Value::Object(body)) => body,
                None | Some(Value::Null) => Map::new(),
                Some(other) => {
                    let cause = Cause::NotObject { what: "data", found: ValueShape::of(&other) };
                    return Err((pattern.field.field("data"), cause));
                }
            };
            let key = key_of(&rendered, pattern).map_err(|cause| (pattern.field.clone(), cause))?;
            self.finish(key, body, Mode::Data, None, place, pattern)
        });
        self.record(place, made);
    }

    fn clone(&mut self, pattern: &Pattern, scope: &Frame<'_>, place: Place) {
        let made = self.render(pattern, scope).and_then(|rendered| {
            let at = |cause: Cause| (pattern.field.clone(), cause);
            let key = key_of(&rendered, pattern).map_err(at)?;
            let clone = rendered.get("clone").and_then(Value::as_object);
            let source =
                clone.map(|clone| Ok((text(clone, "namespace")?, text(clone, "name")?))).transpose().map_err(at)?;
            let (namespace, name) = source.unwrap_or_default();
            let source = source_key(&key.gvk, namespace, name).map_err(at)?;
            self.copy(source, key, Mode::Clone, place, pattern)
        });
        self.record(place, made);
    }

    fn clone_named(&mut self, pattern: &Pattern, scope: &Frame<'_>, place: Place) {
        let made = self.render(pattern, scope).and_then(|rendered| {
            let at = |cause: Cause| (pattern.field.clone(), cause);
            let empty = Map::new();
            let part = |name| rendered.get(name).and_then(Value::as_object).unwrap_or(&empty);
            let (from, to) = (part("source"), part("target"));
            let gvk = gvk_of(from).map_err(at)?;
            let source = text(from, "namespace").and_then(|namespace| source_key(&gvk, namespace, text(from, "name")?));
            let source = source.map_err(at)?;
            let mut target = to.clone();
            for field in ["apiVersion", "kind"] {
                if text(to, field).map_err(at)?.is_empty() {
                    target.insert(field.to_owned(), from.get(field).cloned().unwrap_or_default());
                }
            }
            let key = key_of(&target, pattern).map_err(at)?;
            self.copy(source, key, Mode::CloneList, place, pattern)
        });
        self.record(place, made);
    }

    fn clone_selected(&mut self, pattern: &Pattern, scope: &Frame<'_>, place: Place) {
        let selected = self
            .render(pattern, scope)
            .and_then(|rendered| Selection::read(&rendered).map_err(|cause| (pattern.field.field("cloneList"), cause)));
        let selection = match selected {
            Ok(selection) => selection,
            Err(fault) => return self.record(place, Err(fault)),
        };
        for gvk in &selection.kinds {
            let sources = match self.sources(gvk, &selection) {
                Ok(sources) => sources,
                Err(cause) => {
                    self.record(place, Err((pattern.field.field("cloneList"), cause)));
                    continue;
                }
            };
            for source in sources {
                let from = ObjectKey { gvk: gvk.clone(), ..ObjectKey::of(source) };
                // The namespace of a copy that lives in none is ignored, as a warning says when the policy is admitted.
                let is_ignored = from.namespace.is_none() && pattern.kind_text(gvk) == KindText::Literal;
                let namespace = Some(&selection.target).filter(|target| !is_ignored && !target.is_empty()).cloned();
                if from.namespace == namespace {
                    continue;
                }
                let to = ObjectKey { gvk: gvk.clone(), namespace, name: from.name.clone() };
                let made = self.copy_found(source, from, to, Mode::CloneList, place, pattern);
                self.record(place, made);
            }
        }
    }

    /// The objects that a `cloneList` selects, by name.
    fn sources(&self, gvk: &Gvk, selection: &Selection) -> Result<Vec<&'e Value>, Cause> {
        let fetch = self.session.gate.list(gvk.clone(), &selection.namespace, selection.labels.to_string())?;
        let what = fetch.to_string();
        match self.session.ask(fetch) {
            Some(Answer::Found(found)) => {
                let mut sources: Vec<&Value> = found.as_array().into_iter().flatten().collect();
                sources.sort_by_key(|source| text_at(source, &["metadata", "name"]));
                Ok(sources)
            }
            Some(Answer::Absent) => Ok(Vec::new()),
            Some(Answer::Failed(reason)) => Err(Cause::Unreadable { what, reason: reason.clone() }),
            None => Err(Cause::Waits { what }),
        }
    }

    /// Copies a source that is known by name.
    fn copy(
        &mut self,
        source: ObjectKey,
        target: ObjectKey,
        mode: Mode,
        place: Place,
        pattern: &Pattern,
    ) -> Result<(), Fault> {
        if source == target {
            self.plan.notes.push(format!("{target} is its own source, nothing to do"));
            return Ok(());
        }
        let at = |cause: Cause| (pattern.field.clone(), cause);
        let ObjectKey { gvk, namespace, name } = &source;
        let fetch = self.session.gate.object(gvk.clone(), namespace.as_deref().unwrap_or_default(), name);
        match self.session.ask(fetch.map_err(|refusal| at(refusal.into()))?) {
            Some(Answer::Found(found)) => self.copy_found(found, source, target, mode, place, pattern),
            Some(Answer::Absent) => Err(at(Cause::SourceMissing { source_key: Box::new(source) })),
            Some(Answer::Failed(reason)) => {
                Err(at(Cause::Unreadable { what: format!("source {source}"), reason: reason.clone() }))
            }
            None => Err(at(Cause::Waits { what: source.to_string() })),
        }
    }

    fn copy_found(
        &mut self,
        found: &Value,
        from: ObjectKey,
        to: ObjectKey,
        mode: Mode,
        place: Place,
        pattern: &Pattern,
    ) -> Result<(), Fault> {
        if self.spent {
            return Ok(());
        }
        let body = strip(found, from.namespace == to.namespace);
        let uid = text_at(found, &["metadata", "uid"]).to_owned();
        let source = Source { gvk: from.gvk, namespace: from.namespace, name: from.name, uid };
        self.finish(to, body, mode, Some(source), place, pattern)
    }

    /// Makes the body the target's own and puts it into the plan.
    fn finish(
        &mut self,
        key: ObjectKey,
        mut body: Map<String, Value>,
        mode: Mode,
        source: Option<Source>,
        place: Place,
        pattern: &Pattern,
    ) -> Result<(), Fault> {
        if self.spent {
            return Ok(());
        }
        let at = |cause: Cause| (pattern.field.clone(), cause);
        let kind = pattern.kind_text(&key.gvk);
        let key = self.session.gate.target(key, kind).map_err(|refusal| at(refusal.into()))?;
        if self.taken.contains(&key) {
            return Err(at(Cause::Collision { key: Box::new(key) }));
        }
        dress(&mut body, &key).map_err(at)?;
        let metadata = body.get_mut("metadata").and_then(Value::as_object_mut).expect("dressed with metadata");
        let labels = metadata.entry("labels").or_insert(Value::Null);
        match labels {
            Value::Object(_) => {}
            Value::Null => *labels = Value::Object(Map::new()),
            other => {
                return Err(at(Cause::NotObject { what: "metadata.labels", found: ValueShape::of(other) }));
            }
        }
        labels::put(labels.as_object_mut().expect("an object just above"), self.cause, source.as_ref());

        let limits = self.session.facts.limits;
        if self.plan.targets.len() == limits.objects {
            return Err(at(Cause::Budget { what: "objects", limit: limits.objects }));
        }
        let body = Value::Object(body);
        self.bytes = self.bytes.saturating_add(json_bytes(&body));
        if self.bytes > limits.plan_bytes {
            return Err(at(Cause::Budget { what: "bytes of generated objects", limit: limits.plan_bytes }));
        }
        self.taken.insert(key.clone());
        self.plan.targets.push(Target { key, body, mode, source, place });
        Ok(())
    }

    fn render(&self, pattern: &Pattern, scope: &Frame<'_>) -> Result<Map<String, Value>, Fault> {
        match pattern.template.substitute(scope, self.runtime) {
            Ok(Value::Object(rendered)) => Ok(rendered),
            Ok(_) => Ok(Map::new()),
            Err(error) => Err((pattern.field.clone(), error.into())),
        }
    }

    fn record(&mut self, place: Place, result: Result<(), Fault>) {
        let Err((field, cause)) = result else { return };
        let cause = match self.session.waits_for(&cause) {
            Ok(true) => {
                self.waiting = true;
                return;
            }
            Ok(false) => cause,
            Err(refusal) => refusal.into(),
        };
        self.spent |= matches!(cause, Cause::Budget { .. });
        self.plan.failures.push(Failure { place, error: self.rule.error(field, cause) });
    }
}
