//! What is counted about generate rules. Names that Kyverno's dashboards know are kept beside our own.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

type Labels = Vec<(&'static str, String)>;

/// Everything that is counted; cheap to share.
#[derive(Clone, Debug)]
pub struct GenerateMetrics(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    depth: Gauge,
    oldest: Gauge<f64, std::sync::atomic::AtomicU64>,
    latency: Histogram,
    writes: Family<[(&'static str, &'static str); 1], Counter>,
    held: Counter,
    panics: Counter,
    requests_dropped: Counter,
    leading: Gauge,
    author_check: Gauge,
    requests: Family<Labels, Gauge>,
    ignored_requests: Counter,
    results: Family<Labels, Counter>,
    /// The policies and rules that results were counted of.
    counted: Mutex<BTreeSet<(String, String)>>,
    durations: Family<Labels, Histogram, fn() -> Histogram>,
    dropped: Gauge,
    compared: Gauge,
    /// When what was compared, in seconds since 1970.
    comparisons: Mutex<BTreeMap<String, i64>>,
    rules: Family<Labels, Gauge>,
    queries: Family<[(&'static str, &'static str); 2], Counter>,
    unreviewed: Family<[(&'static str, &'static str); 1], Gauge>,
}

/// A rule for those who list them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleInfo {
    pub namespace: Option<String>,
    pub policy: String,
    pub rule: String,
    /// Whether its policy can be used.
    pub ready: bool,
}

const SECONDS: [f64; 14] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0];

fn seconds() -> Histogram {
    Histogram::new(SECONDS)
}

fn result_labels(policy: String, rule: &str, passed: bool) -> Labels {
    let result = if passed { "pass" } else { "fail" };
    vec![
        ("policy_name", policy),
        ("rule_name", rule.to_owned()),
        ("rule_type", "generate".to_owned()),
        ("rule_result", result.to_owned()),
    ]
}

impl GenerateMetrics {
    /// Registers under our own prefix and under Kyverno's.
    pub(super) fn register(root: &mut Registry) -> Self {
        let inner = Inner {
            depth: Gauge::default(),
            oldest: Gauge::default(),
            latency: seconds(),
            writes: Family::default(),
            held: Counter::default(),
            panics: Counter::default(),
            requests_dropped: Counter::default(),
            leading: Gauge::default(),
            author_check: Gauge::default(),
            requests: Family::default(),
            ignored_requests: Counter::default(),
            results: Family::default(),
            counted: Mutex::default(),
            durations: Family::new_with_constructor(seconds as fn() -> Histogram),
            dropped: Gauge::default(),
            compared: Gauge::default(),
            comparisons: Mutex::default(),
            rules: Family::default(),
            queries: Family::default(),
            unreviewed: Family::default(),
        };
        for result in ["created", "updated", "deleted", "unchanged", "nowhere", "failed"] {
            let _ = inner.writes.get_or_create(&[("result", result)]);
        }
        let ours = root.sub_registry_with_prefix("writ");
        ours.register("generate_backlog", "Rules and triggers that wait to be looked at", inner.depth.clone());
        ours.register_with_unit(
            "generate_backlog_age",
            "How long the oldest of them has waited",
            Unit::Seconds,
            inner.oldest.clone(),
        );
        ours.register(
            "generate_latency_seconds",
            "Time from seeing a trigger to its last object being stored",
            inner.latency.clone(),
        );
        ours.register("generate_targets", "Targets by what became of them", inner.writes.clone());
        ours.register("generate_deletions_held", "Deletions that the brake has held", inner.held.clone());
        ours.register("generate_panics", "Evaluations of rules that panicked", inner.panics.clone());
        ours.register(
            "generate_requests_dropped",
            "Stored requests that were dropped because too many of one policy keep being rejected",
            inner.requests_dropped.clone(),
        );
        ours.register(
            "generate_comparison_timestamp_seconds",
            "Since when every rule that synchronizes has gone through its triggers, in seconds since 1970",
            inner.compared.clone(),
        );
        ours.register(
            "policies_unreviewed",
            "Policies, exceptions and global context entries that were stored without a review of their author",
            inner.unreviewed.clone(),
        );
        ours.register(
            "updaterequests_ignored",
            "UpdateRequests that Writ did not write, or that were changed since",
            inner.ignored_requests.clone(),
        );
        ours.register("leading", "1 if this replica does the work", inner.leading.clone());
        ours.register(
            "author_check_enabled",
            "1 if the authors of policies must have the permissions that their rules use",
            inner.author_check.clone(),
        );
        let theirs = root.sub_registry_with_prefix("kyverno");
        theirs.register("updaterequest_total", "Stored requests that are not done yet", inner.requests.clone());
        theirs.register("policy_results", "Rule executions by result", inner.results.clone());
        theirs.register("policy_execution_duration_seconds", "Time of rule executions", inner.durations.clone());
        theirs.register("policy_rule_info_total", "1 for each generate rule", inner.rules.clone());
        theirs.register("client_queries", "Calls of the API server by operation", inner.queries.clone());
        theirs.register("events_dropped", "Events that were not written", inner.dropped.clone());
        Self(Arc::new(inner))
    }

    pub fn backlog(&self, depth: usize, oldest: Duration) {
        self.0.depth.set(i64::try_from(depth).unwrap_or(i64::MAX));
        self.0.oldest.set(oldest.as_secs_f64());
    }

    pub fn latency(&self, elapsed: Duration) {
        self.0.latency.observe(elapsed.as_secs_f64());
    }

    /// A target was `created`, `updated`, `deleted`, found `unchanged`, had `nowhere` to go, or `failed`.
    pub fn written(&self, result: &'static str) {
        self.0.writes.get_or_create(&[("result", result)]).inc();
    }

    pub fn held(&self) {
        self.0.held.inc();
    }

    pub fn panicked(&self) {
        self.0.panics.inc();
    }

    pub fn request_dropped(&self) {
        self.0.requests_dropped.inc();
    }

    /// The triggers of a rule have been gone through, beginning at this second since 1970.
    pub fn compared(&self, what: String, since: i64) {
        self.0.comparisons.lock().unwrap_or_else(PoisonError::into_inner).insert(what, since);
    }

    /// Tells since when all of these have been compared. As long as one of them has not been, what was told before stays.
    pub fn comparisons(&self, wanted: &BTreeSet<String>) {
        let mut known = self.0.comparisons.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|what, _| wanted.contains(what));
        if let Some(oldest) = known.values().min().filter(|_| known.len() == wanted.len()) {
            self.0.compared.set(*oldest);
        }
    }

    /// Every rule there is. What was counted about others is forgotten: whoever makes and deletes policies must not fill the
    /// memory with it.
    pub fn rules(&self, rules: impl IntoIterator<Item = RuleInfo>) {
        self.0.rules.clear();
        let mut present = BTreeSet::new();
        for RuleInfo { namespace, policy, rule, ready } in rules {
            let key = namespace.as_deref().map_or_else(|| policy.clone(), |namespace| format!("{namespace}/{policy}"));
            present.insert((key, rule.clone()));
            let sort = if namespace.is_some() { "namespaced" } else { "cluster" };
            let labels = vec![
                ("policy_type", sort.to_owned()),
                ("policy_namespace", namespace.unwrap_or_else(|| "-".to_owned())),
                ("policy_name", policy),
                ("rule_name", rule),
                ("rule_type", "generate".to_owned()),
                ("status_ready", ready.to_string()),
            ];
            self.0.rules.get_or_create(&labels).set(1);
        }
        let mut counted = self.0.counted.lock().unwrap_or_else(PoisonError::into_inner);
        for (policy, rule) in counted.extract_if(.., |counted| !present.contains(counted)) {
            for passed in [true, false] {
                let labels = result_labels(policy.clone(), &rule, passed);
                self.0.results.remove(&labels);
                self.0.durations.remove(&labels);
            }
        }
    }

    /// The API server is called.
    pub fn query(&self, operation: &'static str) {
        self.0.queries.get_or_create(&[("operation", operation), ("client_type", "dynamic")]).inc();
    }

    /// The number of objects of a kind that were stored without a review of their author.
    pub fn unreviewed(&self, kind: &'static str, count: usize) {
        self.0.unreviewed.get_or_create(&[("kind", kind)]).set(i64::try_from(count).unwrap_or(i64::MAX));
    }

    /// Whether authors must have the permissions that their rules use.
    pub fn author_check(&self, enabled: bool) {
        self.0.author_check.set(enabled.into());
    }

    pub fn leading(&self, leading: bool) {
        self.0.leading.set(leading.into());
    }

    pub fn requests(&self, namespace: &str, count: usize) {
        let labels = vec![("resource_namespace", namespace.to_owned())];
        self.0.requests.get_or_create(&labels).set(i64::try_from(count).unwrap_or(i64::MAX));
    }

    /// A stored request is not Writ's own.
    pub fn ignored_request(&self) {
        self.0.ignored_requests.inc();
    }

    /// A rule was run for a trigger.
    pub fn executed(&self, policy: &impl ToString, rule: &str, passed: bool, elapsed: Duration) {
        let policy = policy.to_string();
        let counted = (policy.clone(), rule.to_owned());
        let labels = result_labels(policy, rule, passed);
        self.0.counted.lock().unwrap_or_else(PoisonError::into_inner).insert(counted);
        self.0.results.get_or_create(&labels).inc();
        self.0.durations.get_or_create(&labels).observe(elapsed.as_secs_f64());
    }

    pub fn events_dropped(&self, dropped: u64) {
        self.0.dropped.set(i64::try_from(dropped).unwrap_or(i64::MAX));
    }
}

#[cfg(test)]
mod tests {
    use prometheus_client::encoding::text::encode;

    use super::*;

    #[test]
    fn series_of_rules_that_are_gone_go_too() {
        let mut registry = Registry::default();
        let metrics = GenerateMetrics::register(&mut registry);
        let info = |policy: &str| RuleInfo {
            namespace: Some("a".to_owned()),
            policy: policy.to_owned(),
            rule: "r".to_owned(),
            ready: true,
        };
        for number in 0..100 {
            metrics.rules([info("stays"), info(&format!("p-{number}"))]);
            metrics.executed(&"a/stays", "r", true, Duration::ZERO);
            metrics.executed(&format!("a/p-{number}"), "r", number % 2 == 0, Duration::ZERO);
        }
        metrics.rules([info("stays")]);
        let mut text = String::new();
        encode(&mut text, &registry).expect("text");
        assert!(!text.contains("p-"), "{text}");
        assert!(text.contains("policy_results_total{policy_name=\"a/stays\""), "{text}");
    }
}
