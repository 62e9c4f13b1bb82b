//! Generate rules: one rule for one trigger, which of many policies apply, and a whole run of `writ apply`.
//!
//! The machine may be shared, so what counts is the time that this thread spends on a core.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use serde_json::{Value, json};
use writ::compile;
use writ::core::generate::{Applicability, Evaluation, Facts, InstallBounds, Rule, Trigger, evaluate, judge};
use writ::core::matching::KindIndex;
use writ::core::yaml;

use crate::{Report, on_core};

const TYPICAL: &str = "
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: typical}
spec:
  rules:
  - name: quota
    match: {any: [{resources: {kinds: [Namespace], selector: {matchLabels: {team: '*'}}}}]}
    exclude: {any: [{resources: {namespaces: [kube-*]}}]}
    context: [{name: team, variable: {jmesPath: request.object.metadata.labels.team, default: none}}]
    preconditions: {all: [{key: '{{ team }}', operator: NotEquals, value: none}]}
    generate:
      synchronize: true
      apiVersion: v1
      kind: ResourceQuota
      name: quota-{{ team }}
      namespace: '{{ request.object.metadata.name }}'
      data:
        metadata: {labels: {team: '{{ team }}'}}
        spec: {hard: {requests.cpu: '4', requests.memory: 16Gi, limits.cpu: '4', limits.memory: 16Gi}}
";

const RULE_TARGET: Duration = Duration::from_micros(20);
const DECIDE_TARGET: Duration = Duration::from_millis(1);
const APPLY_TARGET: Duration = Duration::from_secs(2);

pub(crate) fn run(quick: bool) -> anyhow::Result<Report> {
    let rounds = if quick { 2_000 } else { 50_000 };
    let mut report = Report { table: String::from("generate\n"), data: json!({}), missed: Vec::new() };
    let mut tell = |name: &str, found: Duration, target: Duration| {
        let _ = writeln!(report.table, "  {name:<58} {found:>12.2?}  (target {target:.0?})");
        report.data[name] = json!(found.as_nanos() as u64);
        if found > target {
            report.missed.push(format!("{name}: {found:?}, target {target:?}"));
        }
    };
    tell("one rule: match, variable, precondition, one object", one_rule(rounds)?, RULE_TARGET);
    tell("which of 1,000 policies apply, p99", which_apply(rounds / 10)?, DECIDE_TARGET);
    tell("writ apply, 1,000 namespaces x foreach of 10", apply()?, APPLY_TARGET);
    Ok(report)
}

fn rules(text: &str) -> anyhow::Result<Vec<Arc<Rule>>> {
    let (policy, findings) = compile::generate::policy(&yaml::read_value(text)?);
    Ok(policy.with_context(|| format!("{:?}", findings.errors))?.rules)
}

fn namespace(index: usize) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Namespace",
        "metadata": {"name": format!("ns-{index}"), "uid": format!("u-{index}"), "labels": {"team": format!("t-{index}")}},
    })
}

fn facts() -> Facts {
    Facts::new(jiff::Timestamp::UNIX_EPOCH, 1, InstallBounds::offline())
}

/// The mean of many evaluations, the request document included.
fn one_rule(rounds: u32) -> anyhow::Result<Duration> {
    let rule = rules(TYPICAL)?.remove(0);
    let (object, facts) = (namespace(1), facts());
    let started = on_core()?;
    for _ in 0..rounds {
        let trigger = Trigger::background(object.clone());
        let evaluation = evaluate(&rule, &trigger, &facts).context("the rule fails")?;
        ensure!(matches!(evaluation, Evaluation::Done(plan) if plan.targets.len() == 1), "one object is expected");
    }
    Ok((on_core()? - started) / rounds)
}

/// A tenth of the policies are for Namespaces, one of them for this very one.
fn which_apply(rounds: u32) -> anyhow::Result<Duration> {
    let mut index = KindIndex::default();
    for number in 0..1000 {
        let kind =
            ["Namespace", "Pod", "Secret", "ConfigMap", "Service", "Deployment", "Job", "Ingress", "Role", "Node"]
                [number % 10];
        let text = TYPICAL
            .replace("name: typical", &format!("name: p-{number}"))
            .replace("kinds: [Namespace]", &format!("kinds: [{kind}], names: [ns-{number}]"));
        let rule = rules(&text)?.remove(0);
        index.insert(&rule.matching.matching, rule.clone());
    }
    let facts = facts();
    let mut times = Vec::with_capacity(rounds as usize);
    for round in 0..rounds as usize {
        let trigger = Trigger::background(namespace(round / 10 * 10 % 1000));
        let started = Instant::now();
        let resource = trigger.resource();
        let mut applies = 0;
        for rule in index.candidates(&resource) {
            if judge(rule, &trigger, &facts).context("the rule fails")? == Applicability::Applies {
                applies += 1;
            }
        }
        times.push(started.elapsed());
        ensure!(applies == 1, "one policy is expected to apply, not {applies}");
    }
    times.sort_unstable();
    Ok(times[times.len() * 99 / 100])
}

/// The command as somebody types it, files included.
fn apply() -> anyhow::Result<Duration> {
    let folder = tempfile::tempdir()?;
    let policy = folder.path().join("policy.yaml");
    let resources = folder.path().join("resources.yaml");
    std::fs::write(
        &policy,
        "apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: each}
spec:
  rules:
  - name: each
    match: {any: [{resources: {kinds: [Namespace]}}]}
    generate:
      foreach:
      - list: split(request.object.metadata.annotations.list, ',')
        apiVersion: v1
        kind: ConfigMap
        name: '{{ element }}-{{ elementIndex }}'
        namespace: '{{ request.object.metadata.name }}'
        data: {data: {element: '{{ element }}'}}
",
    )?;
    let mut text = String::new();
    for index in 0..1000 {
        let mut namespace = namespace(index);
        namespace["metadata"]["annotations"] = json!({"list": "a,b,c,d,e,f,g,h,i,j"});
        let _ = writeln!(text, "---\n{namespace}");
    }
    std::fs::write(&resources, text)?;
    let arguments = [
        "writ".as_ref(),
        "apply".as_ref(),
        policy.as_os_str(),
        "-r".as_ref(),
        resources.as_os_str(),
        "-o".as_ref(),
        "json".as_ref(),
    ];
    let (mut out, mut talk) = (Vec::new(), Vec::new());
    let started = on_core()?;
    writ::cli::run(arguments.iter().map(OsString::from), &mut out, &mut talk);
    let took = on_core()? - started;
    let printed: Value = serde_json::from_slice(&out)?;
    ensure!(printed["generated"].as_array().map(Vec::len) == Some(10_000), "10,000 objects are expected");
    Ok(took)
}
