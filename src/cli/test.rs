//! `writ test`: run case folders: policies and resources in, expected objects out.

mod case;
mod compare;
mod kyverno;

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use serde_json::{Value, json};

use super::Outcome;
use super::format::Format;

/// Run test cases: folders with policies, resources and what is expected of them
#[derive(Debug, clap::Args)]
#[command(after_help = "\
A case is a folder with these files; folders are searched at any depth.

  policy.yaml      the policies
  exceptions.yaml  PolicyExceptions (optional)
  resources.yaml   the triggers, and everything else that rules find in the cluster
  sources.yaml     objects that rules find, but that are no triggers (optional)
  values.yaml      values in place of a cluster, kind: Values (optional)
  userinfo.yaml    who makes the requests, kind: UserInfo (optional)
  expected.yaml    the objects that are generated, all of them, in any order; the labels that Writ adds are compared only
                   in an expected object that names one of them
  outcome.yaml     what happens besides (optional):

    refused:                       the policy is invalid, for exactly these reasons
    - field: spec.rules[0].generate
      message: only one of them    a part of the message
    errors:                        exactly these rules fail
    - rule: name
      trigger: v1 Namespace team-a
      message: a part of the message
    skipped:                       these, and maybe others, are skipped
    - rule: name
      because: a part of the reason
    warnings:                      these, and maybe others, are told about the policy
    - message: a part of the message

A folder with a kyverno-test.yaml is a case as well: its results for generate rules are checked.

Examples:
  writ test tests/cases/generate
  writ test . -o json

Exit codes: 0 all cases pass, 1 a case fails, 2 could not run.")]
pub struct Test {
    /// Folders with cases
    #[arg(required = true, value_name = "DIR")]
    folders: Vec<PathBuf>,
    #[command(flatten)]
    format: Format,
}

/// One case and what is wrong with it.
pub(super) struct Tried {
    name: String,
    checked: usize,
    failures: Vec<String>,
}

/// How deep folders are searched; a link that points upwards must not search forever.
const MAX_DEPTH: usize = 32;

impl Test {
    pub fn run(self, out: &mut dyn Write) -> anyhow::Result<Outcome> {
        let Self { folders, format } = self;
        let mut cases = Vec::new();
        for folder in &folders {
            find(folder, 0, &mut cases)?;
        }
        if cases.is_empty() {
            bail!("no folder with a policy.yaml or a kyverno-test.yaml below the given ones");
        }
        let tried: Vec<Tried> = cases.iter().map(|case| try_case(case)).collect();
        let data = || tried.iter().map(|case| json!({"case": case.name, "failures": case.failures})).collect::<Value>();
        format.print(out, data, |out| print_text(&tried, out))?;
        let clean = tried.iter().all(|case| case.failures.is_empty());
        Ok(if clean { Outcome::Clean } else { Outcome::Findings })
    }
}

fn find(folder: &Path, depth: usize, cases: &mut Vec<PathBuf>) -> anyhow::Result<()> {
    if depth > MAX_DEPTH {
        bail!("{} is nested deeper than {MAX_DEPTH} folders", folder.display());
    }
    if folder.join(case::POLICY).is_file() || folder.join(kyverno::MANIFEST).is_file() {
        cases.push(folder.to_owned());
    }
    let entries = std::fs::read_dir(folder).with_context(|| format!("reading {}", folder.display()))?;
    let mut below = entries.map(|entry| entry.map(|entry| entry.path())).collect::<Result<Vec<_>, _>>()?;
    below.retain(|path| path.is_dir());
    below.sort();
    below.iter().try_for_each(|path| find(path, depth + 1, cases))
}

/// A case that cannot be read is a case that fails; the others go on.
fn try_case(folder: &Path) -> Tried {
    let manifest = folder.join(kyverno::MANIFEST);
    let tried = if manifest.is_file() { kyverno::run(folder, &manifest) } else { case::run(folder) };
    let name = folder.display().to_string();
    match tried {
        Ok((checked, failures)) => Tried { name, checked, failures },
        Err(error) => Tried { name, checked: 0, failures: vec![format!("{error:#}")] },
    }
}

fn print_text(tried: &[Tried], out: &mut dyn Write) -> std::io::Result<()> {
    for Tried { name, checked, failures } in tried {
        if failures.is_empty() {
            writeln!(out, "ok      {name} ({checked} checked)")?;
            continue;
        }
        writeln!(out, "FAILED  {name}")?;
        for line in failures.iter().flat_map(|failure| failure.lines()) {
            writeln!(out, "        {line}")?;
        }
    }
    let failed = tried.iter().filter(|case| !case.failures.is_empty()).count();
    writeln!(out, "{} passed, {failed} failed", tried.len() - failed)
}
