//! Who wrote a trigger: this replica, a user, or unknown until the plan of a rule is computed.

use serde_json::Value;

use super::drive::{Driven, drive};
use super::lookup::{Found, look_up};
use super::process::Trouble;
use super::shared::Shared;
use crate::core::generate::{Evaluation, Marks, Trigger};
use crate::core::matching::Resource;
use crate::core::resource::{Gvk, ObjectKey};

/// Who made the last change of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// The API server has answered a write of this replica with this version.
    Own,
    User,
    /// A write of it is under way, or its labels say that a rule made it, perhaps for a former leader.
    Unproven,
}

/// Whether a trigger is downstream of a rule, so that a request for it was not a user's.
pub(super) async fn is_own(shared: &Shared, object: &Value) -> Result<bool, Trouble> {
    let key = ObjectKey::of(object);
    let writes = shared.writer.own_writes();
    writes.settled(&key).await;
    if writes.holds(object) {
        return Ok(true);
    }
    match Marks::read(object) {
        Some(marks) => is_planned(shared, &key, &marks).await,
        None => Ok(false),
    }
}

/// Whether the rule that labels name makes this object for the trigger that they name. Anybody can write labels; what a rule
/// makes, only its author decides.
async fn is_planned(shared: &Shared, key: &ObjectKey, marks: &Marks) -> Result<bool, Trouble> {
    let Some(entry) = shared.snapshot.load().rule(&marks.policy, &marks.rule) else {
        return Ok(false);
    };
    let Gvk { group, version, kind } = &marks.trigger.gvk;
    let resource = Resource { group, version, kind, subresource: "" };
    let matches = entry.rule.matching.matching.kinds().any(|selector| selector.matches(&resource));
    // Without its request a rule may make something else.
    if entry.rule.needs_request || !matches {
        return Ok(false);
    }
    let trigger = match look_up(shared, &marks.trigger).await? {
        Found::Object(trigger) => Trigger::background(Value::clone(&trigger)),
        Found::NotYet => {
            return Err(Trouble::Outage(format!("the triggers of kind {} are still being listed", marks.trigger.gvk)));
        }
        Found::Gone | Found::Unfindable => return Ok(false),
    };
    let is_it = |target: &ObjectKey| {
        (&target.gvk.group, &target.gvk.kind, &target.namespace, &target.name)
            == (&key.gvk.group, &key.gvk.kind, &key.namespace, &key.name)
    };
    match drive(shared, &entry.rule, &trigger).await.map_err(Trouble::from) {
        Ok(Driven { evaluation: Evaluation::Done(plan), .. }) => {
            Ok(plan.targets.iter().any(|target| is_it(&target.key)))
        }
        Err(trouble @ Trouble::Outage(_)) => Err(trouble),
        Ok(_) | Err(_) => Ok(false),
    }
}
