//! Kubernetes events about policies and what they made. They are told once and never waited for: an event that cannot be
//! written is lost, and the log has it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::ArcSwap;
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tracing::debug;

use super::Api;
use super::kinds::ApiKind;
use crate::core::generate::PolicyKey;
use crate::core::resource::{Gvk, ObjectKey};
use crate::core::settings::Settings;

/// The reason of events about successes.
const APPLIED: &str = "PolicyApplied";
const CONTROLLER: &str = "kyverno-generate";
const LONGEST_NOTE: usize = 1024;
/// Events that wait to be written; beyond that they are counted and dropped.
const WAITING: usize = 256;

/// What happened.
#[derive(Clone, Debug)]
pub enum Happening {
    /// A target was created.
    Created { policy: PolicyKey, rule: String, target: ObjectKey },
    /// A rule failed for a trigger.
    Failed { policy: PolicyKey, rule: String, trigger: ObjectKey, error: String },
    /// A policy cannot be used as it is.
    SetAside { policy: PolicyKey, problem: String },
    /// A policy was stored without a review of its author.
    Unreviewed { policy: PolicyKey, notice: &'static str },
}

/// Takes happenings from everybody.
#[derive(Clone)]
pub struct Herald {
    sender: Sender<Happening>,
    dropped: Arc<AtomicU64>,
}

/// Writes them.
pub struct Scribe {
    api: Api,
    instance: String,
    selection: EventSelection,
    receiver: Receiver<Happening>,
}

/// Which events are written.
#[derive(Clone)]
pub struct EventSelection {
    /// Reasons of events that nobody wants.
    pub omitted: Vec<String>,
    pub settings: Arc<ArcSwap<Settings>>,
}

impl EventSelection {
    fn takes(&self, event: &Value) -> bool {
        let text = |field: &str| event[field].as_str().unwrap_or_default();
        let actions = &self.settings.load().success_actions;
        let wanted = text("reason") != APPLIED || actions.is_empty() || actions.contains(text("action"));
        wanted && !self.omitted.iter().any(|reason| reason == text("reason"))
    }
}

/// The two ends of the way that events take.
pub fn events(api: Api, instance: String, selection: EventSelection) -> (Herald, Scribe) {
    let (sender, receiver) = channel(WAITING);
    (Herald { sender, dropped: Arc::default() }, Scribe { api, instance, selection, receiver })
}

impl Herald {
    pub fn tell(&self, happening: Happening) {
        if self.sender.try_send(happening).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }
}

impl Scribe {
    /// Writes until nobody can tell anything any more.
    pub async fn run(mut self) {
        let kind = ApiKind::builtin("events.k8s.io/v1", "Event");
        while let Some(happening) = self.receiver.recv().await {
            let mut events = describe(&happening, &self.instance, Timestamp::now());
            events.retain(|event| self.selection.takes(event));
            for event in events {
                let namespace = event["metadata"]["namespace"].as_str().unwrap_or("default").to_owned();
                if let Err(error) = self.api.create(&kind, Some(&namespace), &event).await {
                    debug!(%error, "Cannot write an event");
                }
            }
        }
    }
}

/// The events of one happening.
fn describe(happening: &Happening, instance: &str, now: Timestamp) -> Vec<Value> {
    let event = |regarding: &ObjectKey, related: Option<&ObjectKey>, text: [&str; 3], note: String| {
        let [kind, reason, action] = text;
        let namespace = regarding.namespace.as_deref().unwrap_or("default");
        let mut event = json!({
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {"name": format!("{}.{:x}", regarding.name, now.as_nanosecond()), "namespace": namespace},
            "type": kind,
            "reason": reason,
            "action": action,
            "note": note.chars().take(LONGEST_NOTE).collect::<String>(),
            "eventTime": format!("{now:.6}"),
            "reportingController": CONTROLLER,
            "reportingInstance": instance,
            "regarding": reference(regarding),
        });
        if let Some(related) = related {
            event["related"] = reference(related);
        }
        event
    };
    match happening {
        Happening::Created { policy, rule, target } => {
            let note = format!("created {} {} because of policy {policy}/{rule}", target.gvk.kind, target.name);
            vec![
                event(target, None, ["Normal", APPLIED, "None"], note),
                event(
                    &key(policy),
                    Some(target),
                    ["Normal", APPLIED, "Resource Generated"],
                    "resource generated".to_owned(),
                ),
            ]
        }
        Happening::Failed { policy, rule, trigger, error } => {
            let note = format!("policy {}/{rule} error: {error}", policy.name);
            vec![event(&key(policy), Some(trigger), ["Warning", "PolicyError", "None"], note)]
        }
        Happening::SetAside { policy, problem } => {
            let note = format!("policy {} is set aside: {problem}", policy.name);
            vec![event(&key(policy), None, ["Warning", "PolicyError", "None"], note)]
        }
        Happening::Unreviewed { policy, notice } => {
            let note = format!("policy {}: {notice}", policy.name);
            vec![event(&key(policy), None, ["Warning", "PolicyUnreviewed", "None"], note)]
        }
    }
}

fn key(policy: &PolicyKey) -> ObjectKey {
    let kind = if policy.namespace.is_some() { "Policy" } else { "ClusterPolicy" };
    ObjectKey { gvk: Gvk::new("kyverno.io/v1", kind), namespace: policy.namespace.clone(), name: policy.name.clone() }
}

fn reference(key: &ObjectKey) -> Value {
    let mut reference = json!({"apiVersion": key.gvk.api_version(), "kind": key.gvk.kind, "name": key.name});
    if let Some(namespace) = &key.namespace {
        reference["namespace"] = namespace.as_str().into();
    }
    reference
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_told_about_the_policy() {
        let happening = Happening::Failed {
            policy: PolicyKey { namespace: None, name: "p".into() },
            rule: "r".into(),
            trigger: ObjectKey { gvk: Gvk::new("v1", "Namespace"), namespace: None, name: "a".into() },
            error: "x".repeat(2000),
        };
        let events = describe(&happening, "here", Timestamp::UNIX_EPOCH);
        assert_eq!(events.len(), 1);
        assert_eq!(events[0]["metadata"]["namespace"], "default");
        assert_eq!(
            events[0]["regarding"],
            json!({"apiVersion": "kyverno.io/v1", "kind": "ClusterPolicy", "name": "p"})
        );
        assert_eq!(events[0]["related"]["name"], "a");
        let note = events[0]["note"].as_str().expect("text");
        assert!(note.starts_with("policy p/r error: xxx") && note.len() == 1024);
    }

    #[test]
    fn why_a_policy_is_not_ready_is_told() {
        let policy = PolicyKey { namespace: Some("a".into()), name: "p".into() };
        let happening = Happening::SetAside { policy, problem: "spec.rules[0]: x".into() };
        let events = describe(&happening, "here", Timestamp::UNIX_EPOCH);
        assert_eq!(events[0]["note"], "policy p is set aside: spec.rules[0]: x");
        assert_eq!(events[0]["type"], "Warning");
        assert_eq!(events[0].get("related"), None);
    }

    #[test]
    fn creations_are_told_twice() {
        let target = ObjectKey { gvk: Gvk::new("v1", "Secret"), namespace: Some("a".into()), name: "s".into() };
        let policy = PolicyKey { namespace: Some("a".into()), name: "p".into() };
        let events = describe(&Happening::Created { policy, rule: "r".into(), target }, "here", Timestamp::UNIX_EPOCH);
        let reasons: Vec<_> =
            events.iter().map(|event| (event["regarding"]["kind"].clone(), event["action"].clone())).collect();
        assert_eq!(reasons, [(json!("Secret"), json!("None")), (json!("Policy"), json!("Resource Generated"))]);
        let taken = |settings: Value, omitted: &[&str]| {
            let settings = Settings::read(settings.as_object().expect("an object"), "writ-system", &mut Vec::new());
            let selection = EventSelection {
                omitted: omitted.iter().map(|reason| (*reason).to_owned()).collect(),
                settings: Arc::new(ArcSwap::from_pointee(settings)),
            };
            events.iter().map(|event| selection.takes(event)).collect::<Vec<_>>()
        };
        assert_eq!(taken(json!({}), &["PolicySkipped"]), [true, true]);
        assert_eq!(taken(json!({"successEventActions": "Resource Generated"}), &[]), [false, true]);
        assert_eq!(taken(json!({}), &["PolicyApplied"]), [false, false]);
    }
}
