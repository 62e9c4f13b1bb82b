//! `writ migrate`: mesh policies rewritten for Kuma 3, as far as that is possible without changing what they mean.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use serde_json::{Value, json};

use super::Outcome;
use super::format::Format;
use super::load::{self, Source};
use crate::compile::mesh::migrate::{Migrated, Migration, Remark, Settings, migrate};
use crate::core::problem::{FieldPath, Problem, Reason};

/// Rewrite mesh policies for Kuma 3, and say what has to be done by hand
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Rewritten are: routes at the top level (into `to`), names (into labels), MeshSubset (into Dataplane with labels), `from`
(into `rules`) and ProxyTemplate (into MeshProxyPatch), each only where the result means the same. Comments and all that
needs no change stay as they are. The result is for Kuma 3: apply it when you upgrade.

Examples:
  writ migrate policy.yaml > policy-3.yaml         the result; what was done is told on standard error
  writ migrate -i policies/                        write the results back
  writ migrate --check policies/                   only tell what would be done, for a pipeline
  kubectl get meshtimeouts -A -o yaml | writ migrate -

Exit codes: 0 all done, 1 something has to be done by hand (with --check: or would be rewritten), 2 could not run.")]
pub struct Migrate {
    /// Files or folders with policies (YAML or JSON); `-` reads standard input
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Write each result back to its file
    #[arg(short, long, conflicts_with = "check")]
    in_place: bool,
    /// Write nothing; exit with 1 if anything would be rewritten
    #[arg(long)]
    check: bool,
    /// The namespace of Kuma's control plane, where policies of the whole mesh live
    #[arg(long, default_value = "kuma-system", value_name = "NAMESPACE")]
    system_namespace: String,
    #[command(flatten)]
    format: Format,
}

/// A file and what became of it.
struct Done {
    source: Source,
    migration: Migration,
}

impl Migrate {
    pub fn run(self, out: &mut dyn Write, talk: &mut dyn Write) -> anyhow::Result<Outcome> {
        let Self { files, in_place, check, system_namespace, format } = self;
        let settings = Settings { system_namespace };
        let sources = load::sources(&files)?;
        if in_place && sources.iter().any(|source| source.path.is_none()) {
            bail!("standard input cannot be written back: leave out --in-place");
        }
        let done: Vec<_> = sources.into_iter().map(|source| Done::from(source, &settings)).collect();
        if in_place {
            for file in done.iter().filter(|file| file.is_changed()) {
                file.write_back()?;
            }
        }
        let data = || Value::Array(done.iter().map(Done::to_json).collect());
        let silent = in_place || check;
        format.print(out, data, |out| if silent { Ok(()) } else { print_texts(&done, out) })?;
        if format.is_text() {
            tell(&done, talk)?;
        }
        let unfinished = done.iter().any(Done::is_unfinished);
        let changed = done.iter().any(Done::is_changed);
        Ok(if unfinished || (check && changed) { Outcome::Findings } else { Outcome::Clean })
    }
}

impl Done {
    fn from(source: Source, settings: &Settings) -> Self {
        let migration = migrate(&source.text, settings).unwrap_or_else(|error| {
            let problem =
                Problem::new(FieldPath::root(), Reason::Format, format!("not readable as YAML: {}", error.reason));
            let remaining = vec![Remark { position: error.position, problem }];
            let broken = Migrated { kind: String::new(), name: String::new(), changes: Vec::new(), remaining };
            Migration { text: source.text.clone(), documents: vec![broken] }
        });
        Self { source, migration }
    }

    fn is_changed(&self) -> bool {
        self.source.text != self.migration.text
    }

    fn is_unfinished(&self) -> bool {
        self.migration.documents.iter().any(|document| !document.remaining.is_empty())
    }

    fn write_back(&self) -> anyhow::Result<()> {
        let Some(path) = &self.source.path else { return Ok(()) };
        replace(path, &self.migration.text).with_context(|| format!("writing {}", path.display()))
    }

    fn to_json(&self) -> Value {
        let Self { source, migration } = self;
        let remark = |Remark { position, problem }: &Remark| {
            json!({
                "field": problem.field.to_string(), "reason": problem.reason.as_str(), "message": problem.message,
                "line": position.line, "column": position.column,
            })
        };
        let remarks = |remarks: &[Remark]| remarks.iter().map(remark).collect::<Vec<_>>();
        let document = |document: &Migrated| {
            json!({
                "kind": document.kind, "name": document.name,
                "changes": remarks(&document.changes), "remaining": remarks(&document.remaining),
            })
        };
        let documents: Vec<_> = migration.documents.iter().map(document).collect();
        json!({"file": source.file, "changed": self.is_changed(), "text": migration.text, "documents": documents})
    }
}

/// Whoever reads the file meanwhile sees the old text or the new one, never a part.
fn replace(path: &Path, text: &str) -> std::io::Result<()> {
    // A link stays one: the file it points to is replaced.
    let path = fs::canonicalize(path)?;
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.tmp", std::process::id()));
    let beside = path.with_file_name(name);
    let written = fs::write(&beside, text)
        .and_then(|()| fs::set_permissions(&beside, fs::metadata(&path)?.permissions()))
        .and_then(|()| fs::rename(&beside, &path));
    if written.is_err() {
        // What cannot be written may not be removable either; the first error is the one to tell.
        let _ = fs::remove_file(&beside);
    }
    written
}

/// One stream of documents, whatever number of files they came from.
fn print_texts(done: &[Done], out: &mut dyn Write) -> std::io::Result<()> {
    let mut before: Option<&str> = None;
    for Done { migration, .. } in done {
        if let Some(before) = before {
            let end = if before.ends_with('\n') { "" } else { "\n" };
            let separator = if migration.text.starts_with("---") { "" } else { "---\n" };
            write!(out, "{end}{separator}")?;
        }
        write!(out, "{}", migration.text)?;
        before = Some(&migration.text);
    }
    Ok(())
}

fn tell(done: &[Done], talk: &mut dyn Write) -> std::io::Result<()> {
    let (mut rewritten, mut left) = (0, 0);
    for Done { source, migration } in done {
        for Migrated { kind, name, changes, remaining } in &migration.documents {
            let subject = if kind.is_empty() { String::new() } else { format!("{kind} {name}: ") };
            for (level, remarks) in [("rewritten", changes), ("by hand", remaining)] {
                for Remark { position, problem } in remarks {
                    writeln!(talk, "{}:{}: {level}: {subject}{problem}", source.file, position.line)?;
                }
            }
            rewritten += changes.len();
            left += remaining.len();
        }
    }
    writeln!(talk, "{rewritten} rewritten, {left} to do by hand")
}
