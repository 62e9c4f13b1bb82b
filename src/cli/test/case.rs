//! Writ's own case folders.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use serde_json::Value;

use super::compare;
use crate::cli::load;
use crate::cli::simulate::{Complaint, Report, Simulation, Skipped, read_resources};
use crate::cli::values::{self, Values};
use crate::cli::world::World;
use crate::core::resource::text_at;

pub(super) const POLICY: &str = "policy.yaml";

/// What a case found: how many expectations were checked, and which failed.
pub(super) type Checked = (usize, Vec<String>);

pub(super) fn run(folder: &Path) -> anyhow::Result<Checked> {
    let file = |name: &str| Some(folder.join(name)).filter(|path| path.is_file());
    let mut simulation = Simulation::default();
    simulation.read_policies(&[folder.join(POLICY)])?;
    if let Some(path) = file("exceptions.yaml") {
        simulation.read_exceptions(&[path])?;
    }
    if let Some(path) = file("resources.yaml") {
        simulation.read_triggers(&[path])?;
    }
    if let Some(path) = file("values.yaml") {
        simulation.values = Values::read(&path)?;
    }
    if let Some(path) = file("userinfo.yaml") {
        simulation.requester = values::read_requester(&path)?;
    }
    let sources: Vec<PathBuf> = file("sources.yaml").into_iter().collect();
    let report = simulate(&simulation, &sources)?;

    let (expected, outcome) = (file("expected.yaml"), file("outcome.yaml"));
    if expected.is_none() && outcome.is_none() {
        bail!("the case expects nothing: it needs an expected.yaml or an outcome.yaml");
    }
    let objects = expected.map(|path| read_documents(&path)).transpose()?.unwrap_or_default();
    let outcome = outcome.map(|path| read_documents(&path)).transpose()?.unwrap_or_default();
    let outcome = outcome.into_iter().next().unwrap_or_default();
    let generated: Vec<&Value> = report.generated.iter().map(|generated| &generated.object).collect();
    let mut failures = compare::objects(&objects, &generated);
    failures.extend(check_outcome(&outcome, &simulation, &report)?);
    let checked = objects.len()
        + outcome.as_object().map_or(0, |parts| parts.values().filter_map(Value::as_array).map(Vec::len).sum());
    Ok((checked, failures))
}

/// Runs the rules over what the files have.
pub(super) fn simulate(simulation: &Simulation, sources: &[PathBuf]) -> anyhow::Result<Report> {
    let mut world = World::new(simulation.values.namespaces.clone());
    let sources = if sources.is_empty() { Vec::new() } else { read_resources(sources)? };
    for object in simulation.triggers.iter().cloned().chain(sources) {
        world.add(object);
    }
    Ok(simulation.run(&mut |fetch| world.answer(fetch), &mut |_, _| {}))
}

pub(super) fn read_documents(path: &Path) -> anyhow::Result<Vec<Value>> {
    let loaded = load::load(&[path.to_owned()])?;
    loaded
        .into_iter()
        .map(|loaded| Ok(loaded.document.with_context(|| format!("reading {}", path.display()))?.value))
        .collect()
}

fn check_outcome(outcome: &Value, simulation: &Simulation, report: &Report) -> anyhow::Result<Vec<String>> {
    let part = |name: &str| outcome.get(name).and_then(Value::as_array).cloned().unwrap_or_default();
    if let Some(unknown) = outcome
        .as_object()
        .into_iter()
        .flatten()
        .find(|(key, _)| !["refused", "errors", "skipped", "warnings"].contains(&key.as_str()))
    {
        bail!("outcome.yaml: unknown field `{}`; known: refused, errors, skipped, warnings", unknown.0);
    }
    let complaints = |complaints: &[Complaint]| complaints.iter().map(Facts::of_complaint).collect::<Vec<_>>();
    let skipped = report.skipped.iter().map(Facts::of_skipped).collect();
    let mut failures = check_part("refused", &part("refused"), complaints(&simulation.refused), Others::Fail);
    failures.extend(check_part("errors", &part("errors"), complaints(&report.errors), Others::Fail));
    failures.extend(check_part("skipped", &part("skipped"), skipped, Others::Fine));
    failures.extend(check_part("warnings", &part("warnings"), complaints(&simulation.warnings), Others::Fine));
    Ok(failures)
}

/// What becomes of findings that no one expected.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Others {
    Fail,
    Fine,
}

/// A finding as fields; `message` and `because` are compared in part, the others as a whole.
struct Facts(Vec<(&'static str, String)>);

impl Facts {
    fn of_complaint(complaint: &Complaint) -> Self {
        let Complaint { policy, rule, trigger, field, message, .. } = complaint.clone();
        Self(vec![("policy", policy), ("rule", rule), ("trigger", trigger), ("field", field), ("message", message)])
    }

    fn of_skipped(skipped: &Skipped) -> Self {
        let Skipped { policy, rule, trigger, because } = skipped;
        Self(vec![
            ("policy", policy.clone()),
            ("rule", rule.clone()),
            ("trigger", trigger.clone()),
            ("because", because.clone()),
        ])
    }

    fn fits(&self, expected: &Value) -> bool {
        expected.as_object().is_some_and(|fields| {
            fields.iter().all(|(key, _)| {
                let wanted = text_at(expected, &[key]);
                self.0.iter().any(|(name, found)| match *name {
                    "message" | "because" => name == key && found.contains(wanted),
                    _ => name == key && found == wanted,
                })
            })
        })
    }

    fn describe(&self) -> String {
        let parts = self.0.iter().filter(|(_, text)| !text.is_empty());
        parts.map(|(name, text)| format!("{name}: {text}")).collect::<Vec<_>>().join(", ")
    }
}

fn check_part(name: &str, expected: &[Value], mut found: Vec<Facts>, others: Others) -> Vec<String> {
    let mut failures = Vec::new();
    for expected in expected {
        match found.iter().position(|facts| facts.fits(expected)) {
            Some(position) => drop(found.remove(position)),
            None => failures.push(format!("{name}: expected, but not seen: {expected}")),
        }
    }
    if others == Others::Fail || !failures.is_empty() {
        failures.extend(found.iter().map(|facts| format!("{name}: seen, but not expected: {}", facts.describe())));
    }
    failures
}
