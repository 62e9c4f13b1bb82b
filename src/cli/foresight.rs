//! What a rule would do to a live cluster: its plan, compared with what is there. Nothing is written.

use serde_json::{Value, json};

use super::changes::changes;
use super::clock;
use super::connection::Cluster;
use crate::cluster::apply::{Basis, Method, replacement};
use crate::core::expr::Seed;
use crate::core::generate::diff::{Comparison, compare, fingerprint};
use crate::core::generate::{Evaluation, Facts, Plan, Policy, Rule, RuleError, Trigger, drive, seed};
use crate::core::resource::ObjectKey;

/// What is said where chance is not that of the cluster.
pub(super) const RANDOM: &str =
    "what random() starts from in the cluster cannot be read, so what it makes is not what is there";

/// One object and what would become of it.
#[derive(Clone, Debug)]
pub(super) struct Step {
    pub(super) policy: String,
    pub(super) rule: String,
    /// Empty if no trigger is involved.
    pub(super) trigger: String,
    pub(super) object: ObjectKey,
    pub(super) action: Action,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Action {
    Create,
    /// The lines that change.
    Update(Vec<String>),
    Delete,
    /// It is there as it should be.
    Nothing,
    /// It is there, and the rule does not synchronize.
    Leave,
}

impl Action {
    pub(super) fn as_str(&self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Update(_) => "update",
            Self::Delete => "delete",
            Self::Nothing => "unchanged",
            Self::Leave => "left alone",
        }
    }

    pub(super) fn changes_something(&self) -> bool {
        matches!(self, Self::Create | Self::Update(_) | Self::Delete)
    }
}

impl Step {
    pub(super) fn to_json(&self) -> Value {
        let Self { policy, rule, trigger, object, action } = self;
        let mut step = json!({
            "action": action.as_str(), "policy": policy, "rule": rule, "trigger": trigger,
            "object": {
                "apiVersion": object.gvk.api_version(), "kind": object.gvk.kind,
                "namespace": object.namespace, "name": object.name,
            },
        });
        if let Action::Update(lines) = action {
            step["changes"] = lines.clone().into();
        }
        step
    }
}

/// A rule's result for an object that is simply there.
pub(super) struct Foreseen {
    pub(super) evaluation: Evaluation,
    /// What random() makes is not what the cluster would make.
    pub(super) is_random: bool,
}

/// Evaluates a rule for an object that is simply there. Without the seed of the install, random() gives other texts than there.
pub(super) fn evaluate(
    cluster: &mut Cluster,
    root: Option<&Seed>,
    rule: &Rule,
    object: &Value,
) -> Result<Foreseen, RuleError> {
    let (now, trigger) = (clock::now(), Trigger::background(object.clone()));
    let mut with = |seed: Seed| {
        let mut facts = Facts::new(now, seed, cluster.bounds());
        drive(rule, &trigger, &mut facts, |fetch| cluster.answer(fetch))
    };
    if let Some(root) = root {
        return Ok(Foreseen { evaluation: with(seed(root, rule, &trigger))?, is_random: false });
    }
    let (evaluation, other) = (with(clock::seed().into())?, with(clock::seed().wrapping_add(1).into())?);
    let is_random = match (&evaluation, &other) {
        (Evaluation::Done(plan), Evaluation::Done(other)) => plan.targets != other.targets,
        _ => false,
    };
    Ok(Foreseen { evaluation, is_random })
}

/// What would become of each target of a plan.
pub(super) fn steps(
    cluster: &Cluster,
    policy: &Policy,
    rule: &Rule,
    trigger: &ObjectKey,
    plan: &Plan,
) -> anyhow::Result<Vec<Step>> {
    let mut steps = Vec::new();
    for target in &plan.targets {
        let action = act(cluster, policy, plan.synchronize, &target.key, &target.body)?;
        steps.push(Step {
            policy: policy.key.to_string(),
            rule: rule.name.clone(),
            trigger: trigger.to_string(),
            object: target.key.clone(),
            action,
        });
    }
    Ok(steps)
}

fn act(
    cluster: &Cluster,
    policy: &Policy,
    synchronize: bool,
    key: &ObjectKey,
    wanted: &Value,
) -> anyhow::Result<Action> {
    let kind = cluster.kind(&key.gvk)?;
    let Some(stored) = cluster.find(&kind, key.namespace.as_deref(), &key.name)? else {
        return Ok(Action::Create);
    };
    if !synchronize {
        return Ok(Action::Leave);
    }
    if compare(wanted, &stored) == Comparison::Same {
        return Ok(Action::Nothing);
    }
    // The API server fills in defaults and rewrites fields: only it knows what would be stored.
    let namespace = key.namespace.as_deref();
    let method = if policy.server_side_apply { Method::Apply } else { Method::Replace };
    let body = match method {
        Method::Replace => replacement(wanted, Basis::of(&stored)),
        Method::Apply => wanted.clone(),
    };
    let next = match cluster.rehearse(&kind, namespace, &key.name, &body, method) {
        Ok(next) => kind.named(next),
        // Who may not write may look at the wish itself.
        Err(_) => wanted.clone(),
    };
    if fingerprint(&next) == fingerprint(&stored) {
        return Ok(Action::Nothing);
    }
    Ok(Action::Update(changes(&stored, &next)))
}
