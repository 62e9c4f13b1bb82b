//! `writ validate`: the shape of policies, offline, by the very code that the webhook runs.

use std::io::Write;
use std::path::PathBuf;

use serde_json::{Value, json};

use super::Outcome;
use super::format::Format;
use super::load::{self, Loaded, Placed};
use crate::compile::mesh::admission::{SYSTEM_NAMESPACE, rehearse};
use crate::compile::{self, Findings, Form, KumaVersion};
use crate::core::problem::{FieldPath, Problem, Reason};
use crate::core::yaml::{NoteKind, Position};

/// Check the shape of policies, offline: what `kubectl apply` would refuse, and why
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  writ validate policy.yaml                  one file, all its documents
  writ validate manifests/ -o json           a folder, for programs
  writ validate --kuma-version 3 policies/   also refuse what Kuma 3 has no more
  writ validate --strict policies/           also reject unknown fields, as `kubectl apply` does
  kubectl get proxytemplates -o yaml | writ validate -

Exit codes: 0 all valid, 1 a document is invalid, 2 could not run.")]
pub struct Validate {
    /// Files or folders with policies (YAML or JSON); `-` reads standard input
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// The Kuma that mesh policies are for: 2 warns of what Kuma 3 has no more, 3 refuses it
    #[arg(long, value_enum, default_value_t = Kuma::Two, value_name = "VERSION")]
    kuma_version: Kuma,
    /// Reject unknown fields of Kubernetes objects, as `kubectl apply` does; the API server alone drops them
    #[arg(long)]
    strict: bool,
    /// The namespace of the mesh's operators: a mesh policy in another one may do less
    #[arg(long, env = "WRIT_KUMA_SYSTEM_NAMESPACE", value_name = "NAMESPACE", default_value = SYSTEM_NAMESPACE)]
    kuma_system_namespace: String,
    #[command(flatten)]
    format: Format,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Kuma {
    #[value(name = "2")]
    Two,
    #[value(name = "3")]
    Three,
}

/// One document and what was found in it.
struct Report {
    file: String,
    index: usize,
    kind: String,
    name: String,
    known: bool,
    /// Both kinds of errors, without what would be told twice.
    refusals: Vec<Finding>,
    errors: Vec<Finding>,
    /// What the API server would refuse before anybody is asked.
    schema: Vec<Finding>,
    warnings: Vec<Finding>,
}

struct Finding {
    position: Position,
    problem: Problem,
}

impl Validate {
    pub fn run(self, out: &mut dyn Write) -> anyhow::Result<Outcome> {
        let Self { files, kuma_version, strict, kuma_system_namespace, format } = self;
        let version = match kuma_version {
            Kuma::Two => KumaVersion::Two,
            Kuma::Three => KumaVersion::Three,
        };
        let loaded = load::load(&files)?;
        if loaded.is_empty() {
            anyhow::bail!("no documents in {}", list(&files));
        }
        let reports: Vec<Report> =
            loaded.into_iter().map(|loaded| inspect(loaded, version, strict, &kuma_system_namespace)).collect();
        let data = || Value::Array(reports.iter().map(Report::to_json).collect());
        format.print(out, data, |out| print_text(&reports, out))?;
        let clean = reports.iter().all(Report::is_valid);
        Ok(if clean { Outcome::Clean } else { Outcome::Findings })
    }
}

fn inspect(loaded: Loaded, version: KumaVersion, strict: bool, system_namespace: &str) -> Report {
    let Loaded { file, index, document } = loaded;
    let document = match document {
        Ok(document) => document,
        Err(error) => {
            let problem =
                Problem::new(FieldPath::root(), Reason::Format, format!("not readable as YAML: {}", error.reason));
            let error = || Finding { position: error.position, problem: problem.clone() };
            return Report {
                file,
                index,
                kind: String::new(),
                name: String::new(),
                known: true,
                refusals: vec![error()],
                errors: vec![error()],
                schema: Vec::new(),
                warnings: Vec::new(),
            };
        }
    };
    let identity = compile::identify(&document.value);
    let (kind, name) = identity.map(|it| (it.kind, it.name)).unwrap_or_default();
    let checked = rehearse(&document.value, system_namespace);
    let known = checked.is_some();
    let mut findings = checked.unwrap_or_else(|| unknown_kind(kind)).seen_by(version);
    if strict && known && identity.is_some_and(|identity| identity.form == Form::Kubernetes) {
        findings.refuse_unknown();
    }
    let refusals = findings.refusals();
    let Findings { errors, schema, warnings } = findings;
    let place = |problem: Problem| Finding { position: document.position_of(&problem.field), problem };
    let mut warnings: Vec<Finding> = warnings.into_iter().map(place).collect();
    if known {
        warnings.extend(notes_of(&document));
    }
    Report {
        file,
        index,
        kind: kind.to_owned(),
        name: name.to_owned(),
        known,
        refusals: refusals.into_iter().map(place).collect(),
        errors: errors.into_iter().map(place).collect(),
        schema: schema.into_iter().map(place).collect(),
        warnings,
    }
}

fn unknown_kind(kind: &str) -> Findings {
    let message = match kind {
        "" => "neither a Kubernetes object (apiVersion, kind) nor a universal resource (type, name): not checked"
            .to_owned(),
        kind => format!("{kind} is not a kind that Writ checks"),
    };
    let warning = Problem::new(FieldPath::root(), Reason::Unknown, message);
    Findings { warnings: vec![warning], ..Findings::default() }
}

fn notes_of(document: &Placed) -> impl Iterator<Item = Finding> {
    document.notes().iter().map(|note| {
        let reason = match note.kind {
            NoteKind::DuplicateKey { .. } => Reason::Duplicate,
            _ => Reason::Suspicious,
        };
        Finding { position: note.position, problem: Problem::new(FieldPath::root(), reason, note.to_string()) }
    })
}

impl Report {
    fn is_valid(&self) -> bool {
        self.refusals.is_empty()
    }

    fn to_json(&self) -> Value {
        let findings = |findings: &[Finding]| findings.iter().map(Finding::to_json).collect::<Vec<_>>();
        json!({
            "file": self.file, "index": self.index, "kind": self.kind, "name": self.name,
            "errors": findings(&self.errors), "schema": findings(&self.schema), "warnings": findings(&self.warnings),
        })
    }
}

impl Finding {
    fn to_json(&self) -> Value {
        let Problem { field, reason, message } = &self.problem;
        json!({
            "field": field.to_string(), "reason": reason.as_str(), "message": message,
            "line": self.position.line, "column": self.position.column,
        })
    }
}

fn print_text(reports: &[Report], out: &mut dyn Write) -> std::io::Result<()> {
    for report in reports {
        let Report { file, kind, name, .. } = report;
        let subject = if kind.is_empty() { String::new() } else { format!("{kind} {name}: ") };
        let levels = [("error", &report.refusals), ("warning", &report.warnings)];
        for (level, findings) in levels {
            for Finding { position, problem } in findings {
                writeln!(out, "{file}:{}: {level}: {subject}{problem} [{}]", position.line, problem.reason.as_str())?;
            }
        }
    }
    let known = reports.iter().filter(|report| report.known);
    let (refused, valid): (Vec<_>, Vec<_>) = known.partition(|report| !report.is_valid());
    let others = reports.len() - refused.len() - valid.len();
    let others = if others == 0 { String::new() } else { format!(", {others} of kinds that Writ does not check") };
    writeln!(out, "{} valid, {} refused{others}", valid.len(), refused.len())
}

fn list(files: &[PathBuf]) -> String {
    files.iter().map(|file| file.display().to_string()).collect::<Vec<_>>().join(", ")
}
