//! The process's metrics, served as OpenMetrics text.
//!
//! Families with labels take a lock and hash on each look-up; on the request path the few label sets are made once here.

use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;

use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue, LabelValueEncoder};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Metric, Registry};

use super::GenerateMetrics;

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(usize)]
pub enum Outcome {
    Allowed,
    Denied,
    /// Not readable as a review, or not addressed to us.
    Invalid,
    /// Turned away by the transport.
    Refused,
    /// A fault of our own.
    Failed,
}

/// Every metric; cheap to share.
#[derive(Clone, Debug)]
pub struct Metrics(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    registry: Registry,
    requests: [Counter; Outcome::ALL.len()],
    latency: Histogram,
    /// Under the names that Kyverno's dashboards know: denied, allowed.
    reviews: [(Counter, Histogram); 2],
    in_flight: Gauge,
    connections: Gauge,
    handshake_failures: Counter,
    unauthenticated: Counter,
    connections_dropped: Counter,
    certificate_expiry: Gauge,
    certificate_reloads: Counter,
    certificate_errors: Counter,
    ready: Gauge,
    generate: GenerateMetrics,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByOutcome {
    outcome: Outcome,
}

impl Outcome {
    const ALL: [Self; 5] = [Self::Allowed, Self::Denied, Self::Invalid, Self::Refused, Self::Failed];

    fn as_str(self) -> &'static str {
        match self {
            Self::Allowed => "allowed",
            Self::Denied => "denied",
            Self::Invalid => "invalid",
            Self::Refused => "refused",
            Self::Failed => "failed",
        }
    }
}

impl EncodeLabelValue for Outcome {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> std::fmt::Result {
        encoder.write_str(self.as_str())
    }
}

impl Default for Metrics {
    fn default() -> Self {
        let mut root = Registry::default();
        let generate = GenerateMetrics::register(&mut root);
        let registry = root.sub_registry_with_prefix("writ");
        let requests = Family::<ByOutcome, Counter>::default();
        let by_outcome = Outcome::ALL.map(|outcome| requests.get_or_create(&ByOutcome { outcome }).clone());
        registry.register("admission_requests", "Admission requests by how they ended", requests);
        let buckets =
            [0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0];
        let reviews = reviews(root.sub_registry_with_prefix("kyverno"), &buckets);
        let registry = root.sub_registry_with_prefix("writ");
        let version = Family::<[(&str, &str); 1], Gauge>::default();
        version.get_or_create(&[("version", env!("CARGO_PKG_VERSION"))]).set(1);
        registry.register("build_info", "The version that runs", version);
        let inner = Inner {
            requests: by_outcome,
            reviews,
            latency: register(
                registry,
                "admission_duration_seconds",
                "Time from the whole request to its answer",
                Histogram::new(buckets),
            ),
            in_flight: register(registry, "requests_in_flight", "Requests being read or answered", Gauge::default()),
            connections: register(registry, "connections", "Open connections", Gauge::default()),
            handshake_failures: register(
                registry,
                "tls_handshake_failures",
                "TLS handshakes that failed or took too long",
                Counter::default(),
            ),
            connections_dropped: register(
                registry,
                "connections_dropped",
                "Connections closed because their peer, or all of them, had too many",
                Counter::default(),
            ),
            unauthenticated: register(
                registry,
                "webhook_unauthenticated",
                "Calls of the admission port without the token of the install in their path",
                Counter::default(),
            ),
            certificate_expiry: register(
                registry,
                "certificate_expiry_timestamp_seconds",
                "When the serving certificate expires, in seconds since 1970",
                Gauge::default(),
            ),
            certificate_reloads: register(
                registry,
                "certificate_reloads",
                "Times that another serving certificate was put into use",
                Counter::default(),
            ),
            certificate_errors: register(
                registry,
                "certificate_errors",
                "Failed attempts to keep certificates and CA bundles right",
                Counter::default(),
            ),
            ready: register(registry, "ready", "1 when ready to serve", Gauge::default()),
            generate,
            registry: root,
        };
        Self(Arc::new(inner))
    }
}

impl Metrics {
    pub fn request(&self, outcome: Outcome, elapsed: Duration) {
        self.0.requests[outcome as usize].inc();
        self.0.latency.observe(elapsed.as_secs_f64());
        if matches!(outcome, Outcome::Allowed | Outcome::Denied) {
            let (count, latency) = &self.0.reviews[usize::from(outcome == Outcome::Allowed)];
            count.inc();
            latency.observe(elapsed.as_secs_f64());
        }
    }

    /// A request that never reached a handler.
    pub fn turned_away(&self, outcome: Outcome) {
        self.0.requests[outcome as usize].inc();
    }

    pub fn in_flight(&self, change: i64) {
        self.0.in_flight.inc_by(change);
    }

    pub fn connections(&self, change: i64) {
        self.0.connections.inc_by(change);
    }

    pub fn handshake_failed(&self) {
        self.0.handshake_failures.inc();
    }

    /// A connection was closed because there were too many.
    pub fn connection_dropped(&self) {
        self.0.connections_dropped.inc();
    }

    /// A call without the token of the install was rejected.
    pub fn unauthenticated(&self) {
        self.0.unauthenticated.inc();
    }

    /// A serving certificate was put into use; it expires at this second since 1970.
    pub fn certificate(&self, expires: i64) {
        self.0.certificate_expiry.set(expires);
        self.0.certificate_reloads.inc();
    }

    pub fn certificate_error(&self) {
        self.0.certificate_errors.inc();
    }

    /// What is counted about generate rules.
    pub fn generate(&self) -> GenerateMetrics {
        self.0.generate.clone()
    }

    pub(super) fn ready(&self, ready: bool) {
        self.0.ready.set(ready.into());
    }

    /// All metrics as OpenMetrics text.
    pub fn render(&self) -> String {
        let mut text = String::with_capacity(4096);
        if prometheus_client::encoding::text::encode(&mut text, &self.0.registry).is_err() {
            let _ = text.write_str("# EOF\n");
        }
        text
    }
}

fn reviews(registry: &mut Registry, buckets: &[f64]) -> [(Counter, Histogram); 2] {
    let counts = Family::<[(&str, &str); 1], Counter>::default();
    let buckets = buckets.to_vec();
    let latencies =
        Family::<[(&str, &str); 1], Histogram, _>::new_with_constructor(move || Histogram::new(buckets.clone()));
    registry.register("admission_requests", "Reviews by whether the request was allowed", counts.clone());
    registry.register("admission_review_duration_seconds", "Time of reviews", latencies.clone());
    ["false", "true"].map(|allowed| {
        let labels = [("request_allowed", allowed)];
        (counts.get_or_create(&labels).clone(), latencies.get_or_create(&labels).clone())
    })
}

fn register<M: Metric + Clone>(registry: &mut Registry, name: &str, help: &str, metric: M) -> M {
    registry.register(name, help, metric.clone());
    metric
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::RuleInfo;

    #[test]
    fn counts_and_renders() {
        let metrics = Metrics::default();
        metrics.request(Outcome::Denied, Duration::from_millis(3));
        metrics.connections(1);
        metrics.unauthenticated();
        metrics.certificate(1_900_000_000);
        let generate = metrics.generate();
        generate.query("list");
        let rule = |rule: &str, ready| {
            let namespace = (rule == "b").then(|| "n".to_owned());
            RuleInfo { namespace, policy: "p".to_owned(), rule: rule.to_owned(), ready }
        };
        generate.rules([rule("ended", true)]);
        generate.rules([rule("a", true), rule("b", false)]);
        let text = metrics.render();
        for line in [
            "writ_admission_requests_total{outcome=\"denied\"} 1",
            "writ_admission_requests_total{outcome=\"allowed\"} 0",
            "writ_admission_duration_seconds_bucket{le=\"0.0025\"} 0",
            "writ_admission_duration_seconds_bucket{le=\"0.005\"} 1",
            "writ_connections 1",
            "writ_webhook_unauthenticated_total 1",
            "kyverno_admission_requests_total{request_allowed=\"false\"} 1",
            "kyverno_admission_review_duration_seconds_count{request_allowed=\"true\"} 0",
            "kyverno_client_queries_total{operation=\"list\",client_type=\"dynamic\"} 1",
            "kyverno_policy_rule_info_total{policy_type=\"cluster\",policy_namespace=\"-\",policy_name=\"p\",rule_name=\"a\",rule_type=\"generate\",status_ready=\"true\"} 1",
            "kyverno_policy_rule_info_total{policy_type=\"namespaced\",policy_namespace=\"n\",policy_name=\"p\",rule_name=\"b\",rule_type=\"generate\",status_ready=\"false\"} 1",
            "writ_certificate_expiry_timestamp_seconds 1900000000",
            "writ_certificate_reloads_total 1",
            "# EOF",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
        }
        assert!(!text.contains("ended\""), "rules that are gone are not told");
    }

    #[test]
    fn a_comparison_is_whole_or_none() {
        let metrics = Metrics::default();
        let generate = metrics.generate();
        let told = || {
            let text = metrics.render();
            let line = text.lines().find(|line| line.starts_with("writ_generate_comparison_timestamp_seconds "));
            line.and_then(|line| line.split(' ').nth(1)).expect("a number").to_owned()
        };
        let rules = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        generate.compared("a".to_owned(), 100);
        generate.comparisons(&rules(&["a", "b"]));
        assert_eq!(told(), "0", "one is missing");
        generate.compared("b".to_owned(), 90);
        generate.comparisons(&rules(&["a", "b"]));
        assert_eq!(told(), "90", "the oldest counts");
        generate.compared("b".to_owned(), 200);
        generate.comparisons(&rules(&["a", "b", "c"]));
        assert_eq!(told(), "90", "a new one is not through yet");
        generate.comparisons(&rules(&["b"]));
        assert_eq!(told(), "200", "a rule that is gone holds nothing up");
    }
}
