//! What is counted about generate rules. Names that Kyverno's dashboards know are kept beside our own.

use std::sync::Arc;
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
    leading: Gauge,
    requests: Family<Labels, Gauge>,
    results: Family<Labels, Counter>,
    durations: Family<Labels, Histogram, fn() -> Histogram>,
    dropped: Gauge,
    compared: Gauge,
}

const SECONDS: [f64; 14] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0];

fn seconds() -> Histogram {
    Histogram::new(SECONDS)
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
            leading: Gauge::default(),
            requests: Family::default(),
            results: Family::default(),
            durations: Family::new_with_constructor(seconds as fn() -> Histogram),
            dropped: Gauge::default(),
            compared: Gauge::default(),
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
        ours.register(
            "generate_comparison_timestamp_seconds",
            "When everything was last compared, in seconds since 1970",
            inner.compared.clone(),
        );
        ours.register("leading", "1 if this replica does the work", inner.leading.clone());
        let theirs = root.sub_registry_with_prefix("kyverno");
        theirs.register("updaterequest_total", "Stored requests that are not done yet", inner.requests.clone());
        theirs.register("policy_results", "Rule executions by result", inner.results.clone());
        theirs.register("policy_execution_duration_seconds", "Time of rule executions", inner.durations.clone());
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

    /// Every trigger of some rule has been gone through at this second since 1970.
    pub fn compared(&self, now: i64) {
        self.0.compared.set(now);
    }

    pub fn leading(&self, leading: bool) {
        self.0.leading.set(leading.into());
    }

    pub fn requests(&self, namespace: &str, count: usize) {
        let labels = vec![("resource_namespace", namespace.to_owned())];
        self.0.requests.get_or_create(&labels).set(i64::try_from(count).unwrap_or(i64::MAX));
    }

    /// A rule was run for a trigger.
    pub fn executed(&self, policy: &impl ToString, rule: &str, passed: bool, elapsed: Duration) {
        let result = if passed { "pass" } else { "fail" };
        let labels = vec![
            ("policy_name", policy.to_string()),
            ("rule_name", rule.to_owned()),
            ("rule_type", "generate".to_owned()),
            ("rule_result", result.to_owned()),
        ];
        self.0.results.get_or_create(&labels).inc();
        self.0.durations.get_or_create(&labels).observe(elapsed.as_secs_f64());
    }

    pub fn events_dropped(&self, dropped: u64) {
        self.0.dropped.set(i64::try_from(dropped).unwrap_or(i64::MAX));
    }
}
