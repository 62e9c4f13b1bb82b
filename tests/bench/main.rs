//! Measurements of whole parts, each beside something simple that was measured in the same run.
//!
//! `cargo bench` runs all of them but `cluster`, which takes minutes and a control plane; `cargo bench -- https` runs one;
//! `--json` prints data instead of tables; `--quick` takes fewer and shorter rounds.

mod admission;
mod cluster;
mod expr;
mod generate;
mod https;
mod mesh;
mod reviews;

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use serde_json::{Map, Value};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// What was measured, and whether it is good enough.
pub(crate) struct Report {
    pub(crate) table: String,
    pub(crate) data: Value,
    /// Targets that were missed.
    pub(crate) missed: Vec<String>,
}

type Bench = fn(quick: bool) -> anyhow::Result<Report>;

const BENCHES: &[(&str, Bench)] = &[
    ("expr", expr::run),
    ("generate", generate::run),
    ("admission", admission::run),
    ("mesh", mesh::run),
    ("https", https::run),
    (CLUSTER, cluster::run),
];
/// Runs only if it is asked for.
const CLUSTER: &str = "cluster";

fn main() -> anyhow::Result<ExitCode> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let has = |flag: &str| arguments.iter().any(|argument| argument == flag);
    if has(https::BARE_SERVER) {
        return https::serve_bare().map(|()| ExitCode::SUCCESS);
    }
    let names: Vec<&String> = arguments.iter().filter(|argument| !argument.starts_with('-')).collect();
    let mut data = Map::new();
    let mut missed = Vec::new();
    for (name, bench) in BENCHES {
        let named = names.iter().any(|wanted| wanted == name);
        if !named && (!names.is_empty() || *name == CLUSTER) {
            continue;
        }
        let report = bench(has("--quick"))?;
        if !has("--json") {
            print(&report.table);
        }
        data.insert((*name).to_owned(), report.data);
        missed.extend(report.missed);
    }
    if has("--json") {
        print(&Value::Object(data).to_string());
    }
    for target in &missed {
        print(&format!("missed: {target}"));
    }
    Ok(if missed.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

/// The time that this thread has spent on a core so far.
pub(crate) fn on_core() -> anyhow::Result<Duration> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat")?;
    let nanoseconds = text.split_whitespace().next().context("an empty schedstat")?.parse()?;
    Ok(Duration::from_nanos(nanoseconds))
}

#[expect(clippy::print_stdout, reason = "a program of its own: stdout is its result")]
fn print(text: &str) {
    println!("{text}");
}
