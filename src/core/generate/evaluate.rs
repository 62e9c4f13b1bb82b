//! One rule and one trigger: exceptions, match, context, preconditions, targets.
//!
//! A pure function of its arguments. What it lacks comes back as [`Evaluation::Needs`]; the caller fetches, adds the answers to
//! the facts and asks again. [`drive`] is that loop for callers who need not wait.

use std::borrow::Cow;
use std::collections::BTreeSet;

use serde_json::{Map, Value};

use crate::core::condition::{Conditions, Resolver, Unresolved};
use crate::core::expr::{Runtime, Scope, Template};
use crate::core::matching::{NeedsNamespaceLabels, Operation, Outcome, Request};
use crate::core::problem::FieldPath;
use crate::core::resource::{Gvk, text_at};

use super::context::{Base, Frame, Session};
use super::error::{Cause, RuleError};
use super::exception::{ExceptionKey, Exempt, exempt};
use super::expand::Expansion;
use super::facts::{Answer, Facts};
use super::fetch::Fetch;
use super::gate::Gate;
use super::labels;
use super::plan::Plan;
use super::rule::Rule;
use super::trigger::Trigger;

/// What a rule comes to for a trigger.
#[derive(Clone, Debug, PartialEq)]
pub enum Evaluation {
    /// The rule applies, and these objects are to exist.
    Done(Plan),
    /// The rule is for this trigger, but its preconditions say no.
    Skipped { because: String },
    /// The rule was for the object as it was before, and is no more: synchronized downstream is to go.
    Lost { because: String },
    /// An exception takes the trigger out: the rule is not asked, and what it has made stays as it is.
    Excepted { by: ExceptionKey },
    /// The rule has nothing to do with this trigger.
    NotApplicable { because: String },
    /// The trigger is out of reach of the policy. What was generated before is kept: its deletion was not requested.
    OutOfReach { because: String },
    /// Fetch these, add them to the facts (absence is a fact too), evaluate again.
    Needs(BTreeSet<Fetch>),
}

/// What match and exclude say.
#[derive(Clone, Debug, PartialEq)]
pub enum Applicability {
    Applies,
    /// Only to the object as it was before.
    AppliedBefore,
    No {
        because: String,
    },
    Needs(Fetch),
}

/// Evaluates a rule for a trigger, as far as the facts go. A panic is an error of this evaluation and of nothing else: policies
/// are written by many, and one that meets a fault of the engine must not end the work of the others.
pub fn evaluate(rule: &Rule, trigger: &Trigger, facts: &Facts) -> Result<Evaluation, RuleError> {
    guarded(|| evaluate_once(rule, trigger, facts))
        .unwrap_or_else(|Panicked| Err(rule.error(rule.field.clone(), Cause::Panicked)))
}

/// What it was doing is lost.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Panicked;

/// Runs a part of the engine. Whatever it was changing when it panicked is dropped with it, or is a cache that is filled anew.
pub(super) fn guarded<T>(run: impl FnOnce() -> T) -> Result<T, Panicked> {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)).map_err(|_| Panicked)
}

fn evaluate_once(rule: &Rule, trigger: &Trigger, facts: &Facts) -> Result<Evaluation, RuleError> {
    let gate = Gate::new(&rule.reach, &facts.bounds);
    if let Err(refusal) = trigger.keys().try_for_each(|key| gate.trigger(&key)) {
        return Ok(Evaluation::OutOfReach { because: refusal.to_string() });
    }
    match exempt(rule, trigger, facts)? {
        Exempt::No => {}
        Exempt::By(key) => return Ok(Evaluation::Excepted { by: key.clone() }),
        Exempt::Needs(needs) => return Ok(Evaluation::Needs(needs)),
    }
    let applicability = judge(rule, trigger, facts)?;
    let request = match &applicability {
        Applicability::Needs(fetch) => return Ok(Evaluation::Needs(BTreeSet::from([fetch.clone()]))),
        Applicability::No { because } => {
            return Ok(Evaluation::NotApplicable { because: because.clone() });
        }
        Applicability::Applies => Cow::Borrowed(trigger.request()),
        Applicability::AppliedBefore => match trigger.request_on_old() {
            Some(request) if is_create_on_deletion(rule, trigger) => Cow::Owned(request),
            _ => {
                return Ok(Evaluation::Lost { because: "match and exclude no longer select it".to_owned() });
            }
        },
    };
    let runtime = facts.runtime();
    let home = rule.policy.namespace.as_deref().unwrap_or("default");
    let session = Session::new(gate, facts, home);
    let base = Base::new(trigger, &request);
    let scope = Frame::of_rule(&session, &base, &rule.context);
    match preconditions(rule, &scope, &session, &runtime)? {
        Verdict::Holds => {}
        Verdict::Waits => return Ok(Evaluation::Needs(session.take_needs())),
        Verdict::Fails { because } => {
            // It may have been different before; a deletion has no before.
            let before = trigger.request_on_old().filter(|_| applicability == Applicability::Applies);
            let Some(before) = before else {
                return Ok(Evaluation::Skipped { because });
            };
            let base = Base::new(trigger, &before);
            let scope = Frame::of_rule(&session, &base, &rule.context);
            return Ok(match preconditions(rule, &scope, &session, &runtime)? {
                Verdict::Holds => Evaluation::Lost { because },
                Verdict::Waits => Evaluation::Needs(session.take_needs()),
                Verdict::Fails { .. } => Evaluation::Skipped { because },
            });
        }
    }
    let object = &request["object"];
    let gvk = Gvk::of(object);
    let cause = labels::Cause {
        policy: &rule.policy,
        rule: &rule.name,
        trigger: &gvk,
        trigger_namespace: text_at(object, &["metadata", "namespace"]),
        trigger_uid: text_at(object, &["metadata", "uid"]),
    };
    Ok(match Expansion::new(rule, cause, &session, &runtime).run(&scope) {
        Some(plan) => Evaluation::Done(plan),
        None => Evaluation::Needs(session.take_needs()),
    })
}

/// A rule that lists DELETE makes something of the deletion; any other loses its trigger.
fn is_create_on_deletion(rule: &Rule, trigger: &Trigger) -> bool {
    trigger.operation() == Some(Operation::Delete) && rule.matching.matching.lists(Operation::Delete)
}

/// Whether a rule is for a trigger, by match and exclude alone.
pub fn judge(rule: &Rule, trigger: &Trigger, facts: &Facts) -> Result<Applicability, RuleError> {
    let field = rule.field.field("match");
    let decided = with_namespace_labels(rule, &field, trigger, facts, |request| {
        Ok(match rule.matching.decide(request)? {
            Outcome::Matches => Applicability::Applies,
            Outcome::MatchedOld => Applicability::AppliedBefore,
            Outcome::NotApplicable(why) => Applicability::No { because: why.to_string() },
        })
    })?;
    Ok(decided.unwrap_or_else(Applicability::Needs))
}

/// Asks something about a trigger, and a second time with the labels of its namespace if they matter. Those that are yet to
/// be fetched come back instead of the answer.
pub(super) fn with_namespace_labels<T>(
    rule: &Rule,
    field: &FieldPath,
    trigger: &Trigger,
    facts: &Facts,
    ask: impl Fn(&Request<'_>) -> Result<T, NeedsNamespaceLabels>,
) -> Result<Result<T, Fetch>, RuleError> {
    let error = |cause: Cause| rule.error(field.clone(), cause);
    let empty = Map::new();
    let mut labels: Option<&Map<String, Value>> = None;
    for _ in 0..2 {
        let request = trigger.as_matching(labels.map(|labels| labels as _));
        let needed = match ask(&request) {
            Ok(answer) => return Ok(Ok(answer)),
            Err(needed) => needed.namespace,
        };
        let gate = Gate::new(&rule.reach, &facts.bounds);
        let fetch = gate.namespace(&needed).map_err(|refusal| error(refusal.into()))?;
        labels = match facts.answer(&fetch) {
            None => return Ok(Err(fetch)),
            Some(Answer::Found(namespace)) => {
                Some(namespace.pointer("/metadata/labels").and_then(Value::as_object).unwrap_or(&empty))
            }
            Some(Answer::Absent) => Some(&empty),
            Some(Answer::Failed(reason)) => {
                return Err(error(Cause::Unreadable { what: fetch.to_string(), reason: reason.clone() }));
            }
        };
    }
    Err(error(Cause::Malformed("the labels of the namespace were asked for twice")))
}

/// Evaluates until nothing is missing, answering each request at once. Ends after a bounded number of rounds.
pub fn drive(
    rule: &Rule,
    trigger: &Trigger,
    facts: &mut Facts,
    mut answer: impl FnMut(&Fetch) -> Answer,
) -> Result<Evaluation, RuleError> {
    for _ in 0..facts.limits.rounds {
        match evaluate(rule, trigger, facts)? {
            Evaluation::Needs(needs) => {
                for fetch in needs {
                    let found = answer(&fetch);
                    facts.insert(fetch, found);
                }
            }
            evaluation => return Ok(evaluation),
        }
    }
    let cause = Cause::Budget { what: "rounds of look-ups", limit: facts.limits.rounds };
    Err(rule.error(rule.field.clone(), cause))
}

/// Tests conditions: nothing if they hold, else why they do not.
pub(super) fn hold(
    conditions: &Conditions<Template>,
    scope: &dyn Scope,
    runtime: &Runtime,
) -> Result<Option<String>, Unresolved<Cause>> {
    let verdict = conditions.evaluate(&mut Operands { scope, runtime })?;
    if verdict.holds {
        return Ok(None);
    }
    let failure = verdict.failure.map(|failure| failure.to_string()).unwrap_or_default();
    Ok(Some(match verdict.message.as_str() {
        "" => failure,
        message => format!("{message} ({failure})"),
    }))
}

/// Substitutes the operands of conditions, and pays for comparing them from the budget of the evaluation.
struct Operands<'o> {
    scope: &'o dyn Scope,
    runtime: &'o Runtime,
}

impl Resolver<Template, Cause> for Operands<'_> {
    fn resolve(&mut self, operand: &Template) -> Result<Value, Cause> {
        operand.substitute(self.scope, self.runtime).map_err(Cause::from)
    }

    fn pay(&mut self, steps: usize) -> Result<(), Cause> {
        self.runtime
            .pay("the comparison", steps)
            .map_err(|reason| Cause::Expression { expression: "preconditions".to_owned(), reason: Box::new(reason) })
    }
}

enum Verdict {
    Holds,
    Fails { because: String },
    Waits,
}

fn preconditions(
    rule: &Rule,
    scope: &Frame<'_>,
    session: &Session<'_>,
    runtime: &Runtime,
) -> Result<Verdict, RuleError> {
    match hold(&rule.preconditions, scope, runtime) {
        Ok(None) => Ok(Verdict::Holds),
        Ok(Some(because)) => Ok(Verdict::Fails { because: format!("preconditions: {because}") }),
        Err(unresolved) => {
            let field = unresolved.field(&rule.field.field("preconditions"));
            match session.waits_for(&unresolved.error) {
                Ok(true) => Ok(Verdict::Waits),
                Ok(false) => Err(rule.error(field, unresolved.error)),
                Err(refusal) => Err(rule.error(field, refusal.into())),
            }
        }
    }
}

impl Rule {
    pub(super) fn error(&self, field: FieldPath, cause: Cause) -> RuleError {
        RuleError { policy: self.policy.clone(), rule: self.name.clone(), field, cause: Box::new(cause) }
    }
}
