//! `writ apply`: run generate rules offline and print what they would make.

use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::Outcome;
use super::format::Format;
use super::live::Live;
use super::simulate::{Complaint, Report, Simulation, read_resources};
use super::values::{self, Values};
use super::world::World;
use crate::core::resource::ObjectKey;

/// Run generate rules over files and print the objects they make
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Every resource is a trigger, and all of them are what rules find when they look for sources, ConfigMaps and lists.
The request is a CREATE by nobody; a values file (kind: Values, as for the Kyverno command line) can say otherwise and
can give context values by name.

Examples:
  writ apply policy.yaml -r namespace.yaml
  writ apply policies/ -r cluster-dump.yaml -f values.yaml -o yaml | kubectl diff -f -
  writ apply policy.yaml -r namespace.yaml --exception exceptions.yaml
  writ apply policy.yaml -r namespace.yaml --cluster      look sources up in the current cluster, read-only

Exit codes: 0 all rules ran, 1 a policy is invalid or a rule failed, 2 could not run.")]
pub struct Apply {
    /// Files or folders with policies (YAML or JSON); `-` reads standard input
    #[arg(required = true, value_name = "POLICY")]
    policies: Vec<PathBuf>,
    /// Files or folders with resources
    #[arg(short = 'r', long = "resource", value_name = "RESOURCE", required = true)]
    resources: Vec<PathBuf>,
    /// More objects that rules may find, but that are no triggers
    #[arg(long = "source", value_name = "FILE")]
    sources: Vec<PathBuf>,
    /// A values file
    #[arg(short = 'f', long = "values-file", value_name = "FILE")]
    values: Option<PathBuf>,
    /// Who makes the requests (kind: UserInfo)
    #[arg(long, value_name = "FILE")]
    userinfo: Option<PathBuf>,
    /// Files or folders with PolicyExceptions, if they are not among the policies; whatever their namespace, they count
    #[arg(short = 'e', long = "exception", value_name = "FILE")]
    exceptions: Vec<PathBuf>,
    /// Look up what the files do not have in the current cluster, read-only
    #[arg(long)]
    cluster: bool,
    #[command(flatten)]
    format: Format,
}

impl Apply {
    pub fn run(self, out: &mut dyn Write) -> anyhow::Result<Outcome> {
        let Self { policies, resources, sources, values, userinfo, exceptions, cluster, format } = self;
        let mut simulation = Simulation::default();
        simulation.online = cluster;
        if let Some(path) = values {
            simulation.values = Values::read(&path)?;
        }
        if let Some(path) = userinfo {
            simulation.requester = values::read_requester(&path)?;
        }
        simulation.read_policies(&policies)?;
        simulation.read_exceptions(&exceptions)?;
        simulation.read_triggers(&resources)?;
        if simulation.policies.is_empty() && simulation.refused.is_empty() {
            anyhow::bail!("no ClusterPolicy or Policy of kyverno.io/v1 or v2beta1 among the given files");
        }
        let mut world = World::new(simulation.values.namespaces.clone());
        for object in simulation.triggers.iter().cloned().chain(read_resources(&sources)?) {
            world.add(object);
        }
        let mut live = if cluster { Some(Live::connect()?) } else { None };
        let mut answer = |fetch: &_| match &mut live {
            Some(live) => live.answer(fetch, &world),
            None => world.answer(fetch),
        };
        let mut progress = Progress::new();
        let report = simulation.run(&mut answer, &mut |done, all| progress.tell(done, all));
        progress.clear();

        let refused = &simulation.refused;
        format.print_stream(
            out,
            || report.generated.iter().map(|generated| generated.object.clone()).collect(),
            || to_json(&report, refused),
            |out| print_text(&report, out),
        )?;
        let mut talk = std::io::stderr().lock();
        for warning in &simulation.warnings {
            write!(talk, "{}", warning.to_text("warning"))?;
        }
        for error in refused.iter().chain(&report.errors) {
            write!(talk, "{}", error.to_text("error"))?;
        }
        let clean = refused.is_empty() && report.errors.is_empty();
        Ok(if clean { Outcome::Clean } else { Outcome::Findings })
    }
}

fn to_json(report: &Report, refused: &[Complaint]) -> Value {
    let generated: Vec<&Value> = report.generated.iter().map(|generated| &generated.object).collect();
    let skipped = report.skipped.iter().map(|skipped| {
        json!({
            "policy": skipped.policy, "rule": skipped.rule, "trigger": skipped.trigger, "because": skipped.because,
        })
    });
    json!({
        "generated": generated,
        "skipped": skipped.collect::<Vec<_>>(),
        "errors": refused.iter().chain(&report.errors).map(Complaint::to_json).collect::<Vec<_>>(),
    })
}

fn print_text(report: &Report, out: &mut dyn Write) -> std::io::Result<()> {
    for generated in &report.generated {
        let key = ObjectKey::of(&generated.object);
        writeln!(out, "{key}  (policy {}, rule {}, trigger {})", generated.policy, generated.rule, generated.trigger)?;
    }
    for skipped in &report.skipped {
        let trigger = if skipped.trigger.is_empty() { String::new() } else { format!(", trigger {}", skipped.trigger) };
        writeln!(out, "skipped: policy {}, rule {}{trigger}: {}", skipped.policy, skipped.rule, skipped.because)?;
    }
    let (generated, skipped, errors) = (report.generated.len(), report.skipped.len(), report.errors.len());
    writeln!(out, "{generated} generated, {skipped} skipped, {errors} failed")
}

/// How far a long run is, for somebody who watches.
struct Progress {
    watched: bool,
    last: Instant,
    shown: bool,
}

impl Progress {
    const STEP: Duration = Duration::from_millis(250);

    fn new() -> Self {
        Self { watched: std::io::stderr().is_terminal(), last: Instant::now(), shown: false }
    }

    fn tell(&mut self, done: usize, all: usize) {
        if self.watched && self.last.elapsed() > Self::STEP {
            self.last = Instant::now();
            self.shown = true;
            let _ = write!(std::io::stderr(), "\r{done} of {all} resources");
        }
    }

    fn clear(&self) {
        if self.shown {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
    }
}
