//! The status of policies, of global context entries and of stored requests.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::kinds::ApiKind;
use super::{Api, ClusterError};
use crate::core::resource::text_at;

/// What is to be said about a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Readiness {
    Ready,
    NotReady {
        because: String,
    },
    /// Admission has not reviewed it; the operator decides whether it runs.
    Unreviewed {
        runs: bool,
        notice: &'static str,
    },
}

/// The reason of the condition of what admission has not reviewed.
const UNREVIEWED: &str = "Unreviewed";
/// After so many seconds it is told that data has been read again.
const REFRESH_TOLD: i64 = 60;

/// The status that a policy is to have; nothing if it has it already. Consumers compare the list of conditions as a whole,
/// so there is one, and why a policy is not ready stands elsewhere: in an event and in the log.
pub fn policy_status(policy: &Value, readiness: &Readiness, now: Timestamp) -> Option<Value> {
    let old = &policy["status"];
    let count = |kind: &str| {
        let rules = policy.pointer("/spec/rules").and_then(Value::as_array).into_iter().flatten();
        rules.filter(|rule| rule.get(kind).is_some_and(|part| !part.is_null())).count()
    };
    let wanted = json!({
        "conditions": conditions(old, readiness, plain(readiness), now),
        "rulecount": {
            "validate": count("validate"),
            "generate": count("generate"),
            "mutate": count("mutate"),
            "verifyimages": count("verifyImages"),
        },
        "autogen": {},
        "validatingadmissionpolicy": {"generated": false, "message": ""},
    });
    let same = wanted.as_object().is_some_and(|wanted| wanted.iter().all(|(name, value)| old.get(name) == Some(value)));
    (!same).then_some(wanted)
}

/// The status that a global context entry is to have; nothing if it has it already. When its data was last read is told once a
/// minute at most.
pub fn entry_status(
    entry: &Value,
    readiness: &Readiness,
    refreshed: Option<Timestamp>,
    now: Timestamp,
) -> Option<Value> {
    let old = &entry["status"];
    let message = match readiness {
        Readiness::Ready | Readiness::Unreviewed { .. } => plain(readiness).to_owned(),
        Readiness::NotReady { because } => format!("{}: {because}", plain(readiness)),
    };
    let wanted = conditions(old, readiness, &message, now);
    let told = text_at(old, &["lastRefreshTime"]);
    let is_told = |refreshed: Timestamp| {
        told.parse::<Timestamp>().is_ok_and(|told| refreshed.as_second() - told.as_second() < REFRESH_TOLD)
    };
    if old["conditions"] == wanted && refreshed.is_none_or(is_told) {
        return None;
    }
    let mut status = json!({"conditions": wanted});
    match refreshed {
        Some(refreshed) => status["lastRefreshTime"] = format!("{refreshed:.0}").into(),
        None if !told.is_empty() => status["lastRefreshTime"] = told.into(),
        None => {}
    }
    Some(status)
}

/// The message that consumers know.
fn plain(readiness: &Readiness) -> &'static str {
    match readiness {
        Readiness::Ready => "Ready",
        Readiness::NotReady { .. } => "Not Ready",
        Readiness::Unreviewed { notice, .. } => notice,
    }
}

fn conditions(old: &Value, readiness: &Readiness, message: &str, now: Timestamp) -> Value {
    let (status, reason) = match readiness {
        Readiness::Ready => ("True", "Succeeded"),
        Readiness::NotReady { .. } => ("False", "Failed"),
        Readiness::Unreviewed { runs: true, .. } => ("True", UNREVIEWED),
        Readiness::Unreviewed { runs: false, .. } => ("False", UNREVIEWED),
    };
    let before = old["conditions"].as_array().map(Vec::as_slice).unwrap_or_default();
    let since = match before {
        [only] if text_at(only, &["type"]) == "Ready" && text_at(only, &["status"]) == status => {
            text_at(only, &["lastTransitionTime"]).to_owned()
        }
        _ => String::new(),
    };
    let since = if since.is_empty() { format!("{now:.0}") } else { since };
    json!([{"type": "Ready", "status": status, "reason": reason, "message": message, "lastTransitionTime": since}])
}

/// The status of a stored request that is tried again.
pub fn pending_request(message: &str) -> Value {
    json!({"state": "Pending", "message": message})
}

/// Writes the status of an object.
pub async fn write(
    api: &Api,
    kind: &ApiKind,
    namespace: Option<&str>,
    name: &str,
    status: Value,
) -> Result<(), ClusterError> {
    api.merge(kind, namespace, name, "status", &json!({"status": status})).await.map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_written_once() {
        let mut policy = json!({"spec": {"rules": [{"generate": {}}, {"validate": {}}, {"generate": {}}]}});
        let now = Timestamp::UNIX_EPOCH;
        let status = policy_status(&policy, &Readiness::Ready, now).expect("it has none");
        assert_eq!(status["rulecount"], json!({"validate": 1, "generate": 2, "mutate": 0, "verifyimages": 0}));
        let condition = json!([{"type": "Ready", "status": "True", "reason": "Succeeded", "message": "Ready",
                                "lastTransitionTime": "1970-01-01T00:00:00Z"}]);
        assert_eq!(status["conditions"], condition);
        policy["status"] = status;
        assert_eq!(policy_status(&policy, &Readiness::Ready, Timestamp::MAX), None);
    }

    #[test]
    fn a_refresh_is_told_now_and_then() {
        let at = |seconds: i64| Timestamp::from_second(seconds).expect("a time");
        let mut entry = json!({});
        let status = entry_status(&entry, &Readiness::Ready, Some(at(0)), at(0)).expect("it has none");
        assert_eq!(status["lastRefreshTime"], "1970-01-01T00:00:00Z");
        entry["status"] = status;
        assert_eq!(entry_status(&entry, &Readiness::Ready, Some(at(59)), at(59)), None);
        let later = entry_status(&entry, &Readiness::Ready, Some(at(60)), at(60)).expect("a minute");
        assert_eq!(later["lastRefreshTime"], "1970-01-01T00:01:00Z");
        assert_eq!(later["conditions"], entry["status"]["conditions"]);
        let failed = Readiness::NotReady { because: "x".into() };
        let failed = entry_status(&entry, &failed, None, at(30)).expect("a flip");
        assert_eq!(failed["conditions"][0]["lastTransitionTime"], "1970-01-01T00:00:30Z");
        assert_eq!(failed["conditions"][0]["message"], "Not Ready: x");
        assert_eq!(failed["lastRefreshTime"], "1970-01-01T00:00:00Z");
    }

    #[test]
    fn one_condition_says_that_a_policy_is_unreviewed() {
        let of = |runs| {
            let readiness = Readiness::Unreviewed { runs, notice: "why" };
            let status = policy_status(&json!({}), &readiness, Timestamp::UNIX_EPOCH).expect("it has none");
            let conditions = status["conditions"].as_array().expect("a list").clone();
            assert_eq!(conditions.len(), 1);
            assert_eq!((&conditions[0]["reason"], &conditions[0]["message"]), (&json!("Unreviewed"), &json!("why")));
            conditions[0]["status"].clone()
        };
        assert_eq!((of(true), of(false)), (json!("True"), json!("False")));
    }

    #[test]
    fn the_transition_is_the_flip() {
        let mut policy = json!({});
        let because = |text: &str| Readiness::NotReady { because: text.into() };
        policy["status"] = policy_status(&policy, &because("a"), Timestamp::UNIX_EPOCH).expect("it has none");
        let later = Timestamp::from_second(60).expect("a time");
        assert_eq!(policy["status"]["conditions"][0]["message"], "Not Ready", "compared as it is");
        assert_eq!(policy_status(&policy, &because("b"), later), None, "the reason stands elsewhere");
        let ready = policy_status(&policy, &Readiness::Ready, later).expect("a flip");
        assert_eq!(ready["conditions"][0]["lastTransitionTime"], "1970-01-01T00:01:00Z");
    }
}
