//! Case folders of the Kyverno command line (`kyverno-test.yaml`), as far as generate rules go.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use serde_json::Value;

use super::case::{Checked, read_documents, simulate};
use super::compare;
use crate::cli::simulate::{Report, Simulation};
use crate::cli::values::{self, Values};
use crate::core::resource::{ObjectKey, text_at};

pub(super) const MANIFEST: &str = "kyverno-test.yaml";

pub(super) fn run(folder: &Path, manifest: &Path) -> anyhow::Result<Checked> {
    let Some(manifest) = read_documents(manifest)?.into_iter().next() else { bail!("{MANIFEST} is empty") };
    let paths = |field: &str| -> Vec<PathBuf> {
        let names = manifest.get(field).and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
        names.map(|name| folder.join(name)).collect()
    };
    let file =
        |field: &str| Some(text_at(&manifest, &[field])).filter(|name| !name.is_empty()).map(|name| folder.join(name));
    let results = manifest.get("results").and_then(Value::as_array).context("there are no `results`")?;
    let sources: Vec<PathBuf> = results
        .iter()
        .filter_map(|result| result.get("cloneSourceResource")?.as_str())
        .map(|name| folder.join(name))
        .collect();

    let mut simulation = Simulation::default();
    simulation.read_policies(&paths("policies"))?;
    simulation.read_exceptions(&paths("exceptions"))?;
    simulation.read_triggers(&paths("resources"))?;
    if let Some(path) = file("variables") {
        simulation.values = Values::read(&path)?;
    } else if let Some(inline) = manifest.get("values") {
        simulation.values = Values::from_document(inline).context("reading `values`")?;
    }
    if let Some(path) = file("userinfo") {
        simulation.requester = values::read_requester(&path)?;
    }
    let report = simulate(&simulation, &sources)?;

    let mut failures: Vec<String> = simulation.refused.iter().map(|complaint| complaint.to_text("refused")).collect();
    let mut checked = 0;
    for result in results {
        if is_generate(result, &simulation) {
            checked += 1;
            failures.extend(check(result, folder, &report)?);
        }
    }
    Ok((checked, failures))
}

/// Whether a result is about a rule that Writ runs.
fn is_generate(result: &Value, simulation: &Simulation) -> bool {
    let (policy, rule) = (text_at(result, &["policy"]), text_at(result, &["rule"]));
    let mut files =
        simulation.policies.iter().filter(|file| policy.is_empty() || file.policy.key.to_string() == policy);
    files.any(|file| file.policy.rules.iter().any(|known| known.name == rule))
}

fn check(result: &Value, folder: &Path, report: &Report) -> anyhow::Result<Vec<String>> {
    let (rule, expected) = (text_at(result, &["rule"]), text_at(result, &["result"]));
    let generated: Vec<&Value> =
        report.generated.iter().filter(|generated| generated.rule == rule).map(|generated| &generated.object).collect();
    let failed: Vec<&str> =
        report.errors.iter().filter(|error| error.rule == rule).map(|error| error.message.as_str()).collect();
    let wanted = match text_at(result, &["generatedResource"]) {
        "" => Vec::new(),
        name => read_documents(&folder.join(name))?,
    };
    let mut wrong: Vec<String> = failed.iter().map(|message| format!("rule {rule}: {message}")).collect();
    for object in &wanted {
        let key = ObjectKey::of(object);
        match generated.iter().find(|found| ObjectKey::of(found) == key) {
            Some(found) => {
                wrong.extend(compare::difference(object, found).map(|lines| format!("{key} differs:\n{lines}")))
            }
            None => wrong.push(format!("rule {rule}: {key} was not generated")),
        }
    }
    if wanted.is_empty() && generated.is_empty() {
        wrong.push(format!("rule {rule}: nothing was generated"));
    }
    Ok(match expected {
        "pass" => wrong,
        "skip" if generated.is_empty() && failed.is_empty() => Vec::new(),
        "skip" => vec![format!("rule {rule} was to be skipped, but was not")],
        "fail" | "error" if wrong.is_empty() => vec![format!("rule {rule} was to fail, but did not")],
        "fail" | "error" => Vec::new(),
        other => vec![format!("rule {rule}: unknown result `{other}`; known: pass, skip, fail, error")],
    })
}
