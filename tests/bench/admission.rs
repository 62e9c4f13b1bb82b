//! Admission without the wire: a whole review in, a whole review out, on one thread.

use std::fmt::Write as _;
use std::hint::black_box;
use std::time::Duration;

use anyhow::ensure;
use bytes::Bytes;
use hyper::header::CONTENT_TYPE;
use hyper::{Method, Request};
use serde_json::json;
use writ::compile;
use writ::compile::mesh::admission::ControlPlane;
use writ::core::mesh::reach::Routes;
use writ::webhook::{self, MeshView, Outcome, ReviewKey};

use crate::reviews::{Write, pod, policy, review};
use crate::{Report, on_core};

/// A route with so many rules may take so long.
const RULES: usize = 1_000;
const ROUTE_TARGET: Duration = Duration::from_millis(20);

pub(crate) fn run(quick: bool) -> anyhow::Result<Report> {
    let rounds = if quick { 2_000 } else { 50_000 };
    let mut report = Report { table: String::from("admission\n"), data: json!({}), missed: Vec::new() };
    let mut tell = |name: &str, found: Duration, target: Option<Duration>| {
        let aim = target.map_or(String::new(), |target| format!("  (target {target:.0?})"));
        let _ = writeln!(report.table, "  {name:<58} {found:>12.2?}{aim}");
        report.data[name] = json!(found.as_nanos() as u64);
        if let Some(target) = target.filter(|target| found > *target) {
            report.missed.push(format!("{name}: {found:?}, target {target:?}"));
        }
    };
    tell("a pod, which no policy is about", one_review(pod(), rounds)?, None);
    tell("a policy", one_review(policy(), rounds)?, None);
    tell("a MeshHTTPRoute of 1,000 rules, checked", large_route(rounds / 500)?, Some(ROUTE_TARGET));
    Ok(report)
}

/// The mean of many reviews.
fn one_review(write: Write, rounds: u32) -> anyhow::Result<Duration> {
    let mut request = Request::new(Bytes::from(review(write)));
    *request.method_mut() = Method::POST;
    *request.uri_mut() = "/validate".parse()?;
    request.headers_mut().insert(CONTENT_TYPE, "application/json".parse()?);
    let (plane, routes) = (ControlPlane::default(), Routes::default());
    let view = MeshView { plane: &plane, routes: &routes, key: ReviewKey::Offline };
    ensure!(webhook::handle(&request, view).outcome == Outcome::Allowed, "the review is not let through");
    let started = on_core()?;
    repeat(&request, view, rounds);
    Ok((on_core()? - started) / rounds)
}

/// Apart from the rest, so that a profiler can be told to look at nothing else.
#[inline(never)]
fn repeat(request: &Request<Bytes>, view: MeshView<'_>, rounds: u32) {
    for _ in 0..rounds {
        black_box(webhook::handle(black_box(request), view));
    }
}

/// The mean of some checks of a route whose every rule has a match, a filter and two backends.
fn large_route(rounds: u32) -> anyhow::Result<Duration> {
    let rule = |index: usize| {
        json!({
            "matches": [{
                "method": "GET", "path": {"type": "PathPrefix", "value": format!("/shop/{index}")},
                "headers": [{"type": "Exact", "name": "x-version", "value": index.to_string()}],
            }],
            "default": {
                "filters": [{
                    "type": "RequestHeaderModifier",
                    "requestHeaderModifier": {"set": [{"name": "x-route", "value": index.to_string()}]},
                }],
                "backendRefs": [
                    {"kind": "MeshService", "name": "shop-v1", "port": 8080, "weight": 90},
                    {"kind": "MeshService", "name": "shop-v2", "port": 8080, "weight": 10},
                ],
            },
        })
    };
    let route = json!({
        "apiVersion": "kuma.io/v1alpha1", "kind": "MeshHTTPRoute", "metadata": {"name": "shop", "namespace": "kuma-system"},
        "spec": {
            "targetRef": {"kind": "Mesh"},
            "to": [{"targetRef": {"kind": "MeshService", "name": "shop"}, "rules": (0..RULES).map(rule).collect::<Vec<_>>()}],
        },
    });
    let accepted =
        compile::check(&route).is_some_and(|findings| findings.errors.is_empty() && findings.schema.is_empty());
    ensure!(accepted, "the route is not valid");
    let started = on_core()?;
    for _ in 0..rounds {
        black_box(compile::check(black_box(&route)));
    }
    Ok((on_core()? - started) / rounds)
}
