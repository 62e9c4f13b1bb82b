//! How far each rule has come: which triggers are news to it, and which it has had already.
//!
//! Resource versions grow with every write in a cluster, so "everything up to this one is done" is one number per rule. What
//! is remembered across restarts is small, and advanced lazily: a trigger seen twice is compared and left alone.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::core::resource::text_at;

use super::error::PolicyKey;
use super::plan::Mode;
use super::retention::Legacy;

/// A point in the life of the cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment {
    pub version: u64,
    /// Seconds since 1970; tells changes of an object from changes of its status alone.
    pub seconds: i64,
}

/// What a rule has behind it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuleProgress {
    /// When the rule was first seen; older triggers count only for `generateExisting`.
    pub start: Moment,
    /// Every trigger up to here is done.
    pub cursor: Moment,
    /// The state of the policy for which existing triggers have been gone through.
    pub existing: String,
    /// What is to be deleted with the rule.
    pub legacy: Vec<Legacy>,
}

/// What a policy has behind it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PolicyProgress {
    pub uid: String,
    pub rules: BTreeMap<String, RuleProgress>,
}

/// All of it, by policy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Progress(pub BTreeMap<PolicyKey, PolicyProgress>);

impl RuleProgress {
    pub fn starting(start: Moment, legacy: Vec<Legacy>) -> Self {
        Self { start, cursor: start, existing: String::new(), legacy }
    }

    /// Whether a trigger that is found after a pause is news. A rule that synchronizes compares everything since its
    /// start; a one-shot rule must not repeat itself.
    pub fn is_news(&self, synchronize: bool, seen: Moment) -> bool {
        let since = if synchronize { self.start } else { self.cursor };
        seen.version > since.version && seen.seconds >= since.seconds
    }
}

impl Moment {
    /// When an object with its managed fields was last changed. Changes through subresources, such as status, do not count.
    pub fn of(object: &Value) -> Self {
        let created = seconds(text_at(object, &["metadata", "creationTimestamp"]));
        let entries = object.pointer("/metadata/managedFields").and_then(Value::as_array);
        let changes = entries.into_iter().flatten().filter(|entry| text_at(entry, &["subresource"]).is_empty());
        let last = changes.map(|entry| seconds(text_at(entry, &["time"]))).max();
        Self { version: version_of(object), seconds: last.unwrap_or_default().max(created) }
    }
}

/// The resource version of an object as the number that it is; 0 if it is none.
pub fn version_of(object: &Value) -> u64 {
    text_at(object, &["metadata", "resourceVersion"]).parse().unwrap_or_default()
}

/// A time stamp in seconds since 1970; 0 if it is none.
pub fn seconds(text: &str) -> i64 {
    text.parse::<jiff::Timestamp>().map_or(0, jiff::Timestamp::as_second)
}

impl Progress {
    pub fn to_json(&self) -> Value {
        let moment = |moment: Moment| json!([moment.version, moment.seconds]);
        let policies = self.0.iter().map(|(key, policy)| {
            let rules = policy.rules.iter().map(|(name, rule)| {
                let legacy =
                    rule.legacy.iter().map(|legacy| json!([legacy.api_version, legacy.kind, legacy.mode.as_str()]));
                let rule = json!({
                    "start": moment(rule.start),
                    "cursor": moment(rule.cursor),
                    "existing": rule.existing,
                    "legacy": legacy.collect::<Vec<_>>(),
                });
                (name.clone(), rule)
            });
            json!({
                "namespace": key.namespace,
                "name": key.name,
                "uid": policy.uid,
                "rules": rules.collect::<serde_json::Map<_, _>>(),
            })
        });
        policies.collect()
    }

    /// Reads what [`Progress::to_json`] wrote; entries that cannot be read are as good as absent.
    pub fn from_json(value: &Value) -> Self {
        let policies = value.as_array().into_iter().flatten().map(|policy| {
            let key = PolicyKey {
                namespace: policy["namespace"].as_str().map(str::to_owned),
                name: text_at(policy, &["name"]).to_owned(),
            };
            let rules = policy["rules"].as_object().into_iter().flatten();
            let rules = rules.map(|(name, rule)| (name.clone(), read_rule(rule))).collect();
            (key, PolicyProgress { uid: text_at(policy, &["uid"]).to_owned(), rules })
        });
        Self(policies.collect())
    }
}

fn read_rule(rule: &Value) -> RuleProgress {
    let moment = |value: &Value| Moment {
        version: value[0].as_u64().unwrap_or_default(),
        seconds: value[1].as_i64().unwrap_or_default(),
    };
    let legacy = rule["legacy"].as_array().into_iter().flatten().filter_map(|legacy| {
        Some(Legacy {
            api_version: legacy[0].as_str()?.to_owned(),
            kind: legacy[1].as_str()?.to_owned(),
            mode: Mode::parse(legacy[2].as_str()?)?,
        })
    });
    RuleProgress {
        start: moment(&rule["start"]),
        cursor: moment(&rule["cursor"]),
        existing: text_at(rule, &["existing"]).to_owned(),
        legacy: legacy.collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(version: u64, seconds: i64) -> Moment {
        Moment { version, seconds }
    }

    #[test]
    fn one_shot_rules_go_on_where_they_stopped() {
        let progress =
            RuleProgress { start: at(10, 100), cursor: at(50, 500), existing: String::new(), legacy: Vec::new() };
        #[track_caller]
        fn check(progress: &RuleProgress, seen: Moment, synchronized: bool, one_shot: bool) {
            assert_eq!(progress.is_news(true, seen), synchronized, "synchronized {seen:?}");
            assert_eq!(progress.is_news(false, seen), one_shot, "one shot {seen:?}");
        }
        check(&progress, at(5, 50), false, false);
        check(&progress, at(10, 100), false, false);
        check(&progress, at(30, 300), true, false);
        check(&progress, at(60, 600), true, true);
        // Only the status has changed since.
        check(&progress, at(60, 50), false, false);
        check(&progress, at(60, 300), true, false);
    }

    #[test]
    fn the_last_change_of_the_object_itself_counts() {
        let object = |fields: Value| json!({"metadata": {"resourceVersion": "7", "creationTimestamp": "2026-01-01T00:00:00Z", "managedFields": fields}});
        let entry = |manager: &str, time: &str, subresource: &str| json!({"manager": manager, "time": format!("2026-01-01T00:00:{time}Z"), "subresource": subresource});
        let zero = seconds("2026-01-01T00:00:00Z");
        #[track_caller]
        fn check(object: Value, expected: Moment) {
            assert_eq!(Moment::of(&object), expected);
        }
        check(object(json!([])), at(7, zero));
        check(object(json!([entry("me", "01", "")])), at(7, zero + 1));
        check(object(json!([entry("me", "01", ""), entry("kubelet", "09", "status")])), at(7, zero + 1));
        check(object(json!([entry("me", "01", ""), entry("jane", "02", "")])), at(7, zero + 2));
        check(object(json!([entry("me", "03", ""), entry("jane", "02", "")])), at(7, zero + 3));
    }

    #[test]
    fn what_is_stored_is_read_back() {
        let legacy = Legacy { api_version: "v1".into(), kind: "Secret".into(), mode: Mode::CloneList };
        let rule = RuleProgress { start: at(1, 2), cursor: at(3, 4), existing: "abc".into(), legacy: vec![legacy] };
        let policy = PolicyProgress { uid: "u".into(), rules: BTreeMap::from([("r".to_owned(), rule)]) };
        let key = PolicyKey { namespace: Some("a".into()), name: "p".into() };
        let progress = Progress(BTreeMap::from([(key, policy)]));
        assert_eq!(Progress::from_json(&progress.to_json()), progress);
        assert_eq!(Progress::from_json(&json!("nonsense")), Progress::default());
    }
}
