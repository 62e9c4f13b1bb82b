//! What a dry run is told: which objects would be created, updated and deleted.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::Value;
use tokio::time::timeout;

use super::port::Counter;
use super::resources::Case;
use crate::core::generate::diff::{self, Comparison};
use crate::core::generate::{
    Answer, Apply, Evaluation, Facts, Fetch, Gate, Plan, Policy, PolicyKey, Reach, Rule, TargetKind, Trigger,
    downstream, evaluate, labels,
};
use crate::core::resource::{Gvk, ObjectKey, text_at};

/// A preview that takes longer is cut off: the request itself is in no hurry, but its user is.
const LONGEST: Duration = Duration::from_secs(3);

/// One line for each object, in the order of the rules.
pub(super) async fn preview<C: Counter>(counter: &C, case: &Case) -> Vec<String> {
    let mut told = Vec::new();
    let mut taken: BTreeSet<&PolicyKey> = BTreeSet::new();
    let whole = async {
        for (policy, rule) in &case.rules {
            if taken.contains(&policy.key) {
                continue;
            }
            let (lines, takes) = match foresee(counter, policy, rule, &case.trigger).await {
                Ok(foreseen) => foreseen,
                Err(trouble) => (vec![format!("would fail: {trouble}")], true),
            };
            if takes && policy.apply == Apply::One {
                taken.insert(&policy.key);
            }
            told.extend(lines.into_iter().map(|line| format!("policy {}, rule {}: {line}", policy.key, rule.name)));
        }
    };
    if timeout(LONGEST, whole).await.is_err() {
        told.push("the preview is incomplete: looking things up took too long".to_owned());
    }
    told
}

/// What a rule would do, and whether it takes the trigger: of a policy that applies one of its rules, no later one does.
async fn foresee<C: Counter>(
    counter: &C,
    policy: &Policy,
    rule: &Rule,
    trigger: &Trigger,
) -> Result<(Vec<String>, bool), String> {
    let mut facts = counter.facts();
    Ok(match run(counter, rule, trigger, &mut facts).await? {
        Evaluation::Done(plan) => (writes(counter, policy, rule, &facts, &plan).await, true),
        Evaluation::Excepted { by } => (vec![format!("skipped: exception {by}")], false),
        Evaluation::Lost { .. } if rule.synchronize => (removals(counter, rule, trigger, &facts).await?, true),
        Evaluation::Lost { .. } | Evaluation::Needs(_) => (Vec::new(), true),
        Evaluation::Skipped { .. } | Evaluation::NotApplicable { .. } | Evaluation::OutOfReach { .. } => {
            (Vec::new(), false)
        }
    })
}

/// Evaluates a rule, looking up what it asks for.
async fn run<C: Counter>(counter: &C, rule: &Rule, trigger: &Trigger, facts: &mut Facts) -> Result<Evaluation, String> {
    for _ in 0..facts.limits.rounds {
        let evaluated = evaluate(rule, trigger, facts).map_err(|error| {
            if error.is_panic() {
                counter.panicked();
            }
            error.cause.to_string()
        });
        match evaluated? {
            Evaluation::Needs(needs) => {
                for fetch in needs {
                    let answer = counter.answer(&fetch).await;
                    facts.insert(fetch, answer);
                }
            }
            evaluation => return Ok(evaluation),
        }
    }
    Err("it looks up one thing after the other without end".to_owned())
}

async fn writes<C: Counter>(counter: &C, policy: &Policy, rule: &Rule, facts: &Facts, plan: &Plan) -> Vec<String> {
    let gate = Gate::new(&rule.reach, &facts.bounds);
    let mut lines = Vec::new();
    for target in &plan.targets {
        let ObjectKey { gvk, namespace, name } = &target.key;
        let existing = match gate.object(gvk.clone(), namespace.as_deref().unwrap_or_default(), name) {
            Ok(fetch) => counter.answer(&fetch).await,
            Err(refusal) => Answer::Failed(refusal.to_string()),
        };
        let key = &target.key;
        match existing {
            Answer::Absent => lines.push(format!("would create {key}")),
            Answer::Found(found) => {
                if plan.synchronize && changes(counter, policy, &target.body, &found).await {
                    lines.push(format!("would update {key}"));
                }
            }
            Answer::Failed(trouble) => {
                lines.push(format!("would write {key} (whether it exists is not known: {trouble})"))
            }
        }
    }
    lines.extend(plan.failures.iter().map(|failure| format!("would fail: {}", failure.error.cause)));
    lines
}

/// Whether writing an object would change what is stored. The API server fills in defaults and rewrites fields, so only it can
/// tell; if it does not, what is missing or other counts.
async fn changes<C: Counter>(counter: &C, policy: &Policy, wanted: &Value, stored: &Value) -> bool {
    let comparison = diff::compare(wanted, stored);
    if comparison == Comparison::Same {
        return false;
    }
    match counter.rehearse(policy, wanted, stored).await {
        Ok(next) => diff::fingerprint(&next) != diff::fingerprint(stored),
        Err(_) => comparison == Comparison::Differs,
    }
}

/// What carries the marks of this rule and this trigger.
async fn removals<C: Counter>(
    counter: &C,
    rule: &Rule,
    trigger: &Trigger,
    facts: &Facts,
) -> Result<Vec<String>, String> {
    let uid = trigger.old_object().map_or("", |old| text_at(old, &["metadata", "uid"]));
    if uid.is_empty() {
        return Ok(Vec::new());
    }
    let selector = format!("{},{}={uid}", downstream::selector(&rule.policy, Some(&rule.name)), labels::TRIGGER_UID);
    let gate = Gate::new(&rule.reach, &facts.bounds);
    let within = match &rule.reach {
        Reach::Cluster => "",
        Reach::Namespace(namespace) => namespace,
    };
    let mut lines = Vec::new();
    for gvk in fixed_kinds(rule) {
        let fetch: Fetch = gate.list(gvk, within, selector.clone()).map_err(|refusal| refusal.to_string())?;
        match counter.answer(&fetch).await {
            Answer::Found(found) => {
                let objects = found.as_array().into_iter().flatten();
                lines.extend(objects.map(|object| format!("would delete {}", ObjectKey::of(object))));
            }
            Answer::Absent => {}
            Answer::Failed(trouble) => return Err(trouble),
        }
    }
    Ok(lines)
}

/// The kinds that a rule writes, as far as no variable decides them.
fn fixed_kinds(rule: &Rule) -> Vec<Gvk> {
    let is_fixed = |kind: &&TargetKind| !kind.api_version.contains("{{") && !kind.kind.contains("{{");
    let kinds = rule.target_kinds();
    let mut kinds: Vec<Gvk> =
        kinds.into_iter().filter(is_fixed).map(|kind| Gvk::new(&kind.api_version, kind.kind.as_str())).collect();
    kinds.sort();
    kinds.dedup();
    kinds
}
