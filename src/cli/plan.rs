//! `writ plan`: what applying policies would do to a live cluster, before anything is written.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::PathBuf;

use serde_json::{Value, json};

use super::Outcome;
use super::connection::{Cluster, Connection, Exceptions, Installation};
use super::foresight::{self, Action, Step};
use super::format::Format;
use super::simulate::{Complaint, PolicyFile, Simulation};
use crate::compile;
use crate::core::expr::Seed;
use crate::core::generate::{
    self, Apply, Evaluation, ExceptionKey, Marks, Policy, Reach, Rule, SourceRef, Way, downstream,
};
use crate::core::resource::{Gvk, ObjectKey, text_at};

/// Show what applying generate policies would create, update and delete in a live cluster
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Rules with generateExisting are run for every trigger there is; other rules for the triggers of what they have made
before. Rules that the stored policy has and the given one has not lose what they made, as the table of retention says;
with the annotation writ.dev/prune, so do rules that make something no more.
Nothing is written; the content of Secrets is not shown.

Examples:
  writ plan policy.yaml
  writ plan policies/ --existing          as if every rule had generateExisting
  writ plan policy.yaml -o json | jq '.steps[] | select(.action == \"delete\")'

Exit codes: 0 nothing would change, 1 something would change or fails, 2 could not run.")]
pub struct Plan {
    /// Files or folders with policies (YAML or JSON); `-` reads standard input
    #[arg(required = true, value_name = "POLICY")]
    policies: Vec<PathBuf>,
    /// Run all rules for the triggers that exist, not only those with generateExisting
    #[arg(long)]
    existing: bool,
    #[command(flatten)]
    exceptions: Exceptions,
    #[command(flatten)]
    installation: Installation,
    #[command(flatten)]
    connection: Connection,
    #[command(flatten)]
    format: Format,
}

/// Everything that was found out.
#[derive(Default)]
struct Findings {
    steps: Vec<Step>,
    errors: Vec<Complaint>,
    notes: Vec<String>,
}

impl Plan {
    pub fn run(self, out: &mut dyn Write) -> anyhow::Result<Outcome> {
        let Self { policies, existing, exceptions, installation, connection, format } = self;
        let mut cluster = connection.open(&installation)?;
        let seed = installation.seed(&cluster);
        let kinds = cluster.kinds();
        let mut simulation = Simulation::default();
        simulation.read_policies_among(&policies, &|gvk| kinds.scope(gvk))?;
        let aside = simulation.honour(&exceptions.honoured());
        simulation.except(exceptions.read(&cluster)?);
        let Simulation { policies: files, refused, warnings, .. } = simulation;
        if files.is_empty() && refused.is_empty() {
            anyhow::bail!("no ClusterPolicy or Policy of kyverno.io/v1 or v2beta1 among the given files");
        }
        let void = |key: ExceptionKey| format!("exception {key} does not count (--exception-namespace)");
        let notes = aside.into_iter().map(void).collect();
        let mut findings = Findings { errors: refused, notes, ..Findings::default() };
        for file in &files {
            foresee(&mut cluster, seed.as_ref(), file, existing, &mut findings)?;
        }
        let Findings { steps, errors, notes } = findings;
        format.print(out, || to_json(&steps, &errors, &notes), |out| print_text(&steps, out))?;
        let mut talk = std::io::stderr().lock();
        for note in &notes {
            writeln!(talk, "note: {note}")?;
        }
        for warning in &warnings {
            write!(talk, "{}", warning.to_text("warning"))?;
        }
        for error in &errors {
            write!(talk, "{}", error.to_text("error"))?;
        }
        let changes = steps.iter().any(|step| step.action.changes_something());
        Ok(if changes || !errors.is_empty() { Outcome::Findings } else { Outcome::Clean })
    }
}

fn foresee(
    cluster: &mut Cluster,
    seed: Option<&Seed>,
    file: &PolicyFile,
    existing: bool,
    findings: &mut Findings,
) -> anyhow::Result<()> {
    let policy = &file.policy;
    let stored = stored_policy(cluster, policy)?;
    // Triggers on which a rule of the policy has acted, where one rule is enough.
    let mut acted: BTreeSet<String> = BTreeSet::new();
    for rule in &policy.rules {
        let goes_through = existing || rule.generate_existing;
        if rule.way() == Way::Admission && !(goes_through && rule.runs_unasked()) {
            let note = "waits for requests, so applying the policy does nothing by itself";
            findings.notes.push(format!("policy {}, rule {}: {note}", policy.key, rule.name));
            continue;
        }
        let triggers = if goes_through { existing_triggers(cluster, rule)? } else { recorded_triggers(cluster, rule)? };
        let made = if rule.synchronize { made_by(cluster, rule)? } else { Vec::new() };
        let mut is_random = false;
        for trigger in triggers {
            let (key, uid) = (ObjectKey::of(&trigger), text_at(&trigger, &["metadata", "uid"]));
            if policy.apply == Apply::One && acted.contains(uid) {
                continue;
            }
            let foreseen = foresight::evaluate(cluster, seed, rule, &trigger);
            is_random |= foreseen.as_ref().is_ok_and(|foreseen| foreseen.is_random);
            match foreseen.map(|foreseen| foreseen.evaluation) {
                Ok(Evaluation::Done(plan)) => {
                    acted.insert(uid.to_owned());
                    findings.steps.extend(foresight::steps(cluster, policy, rule, &key, &plan)?);
                    findings.steps.extend(pruned(cluster, policy, rule, &trigger, &plan, &made)?);
                    let failures = plan.failures.iter();
                    let told = failures
                        .map(|failure| Complaint::of_rule(file, &key.to_string(), failure.place, &failure.error));
                    findings.errors.extend(told);
                }
                Ok(
                    Evaluation::Skipped { .. }
                    | Evaluation::NotApplicable { .. }
                    | Evaluation::OutOfReach { .. }
                    | Evaluation::Lost { .. },
                ) if rule.way() == Way::Watch => {
                    let lost = made.iter().filter(|object| is_made_for(object, uid));
                    findings.steps.extend(lost.map(|object| deletion(rule, &key, object)));
                }
                Ok(_) => {}
                Err(error) => {
                    acted.insert(uid.to_owned());
                    findings.errors.push(Complaint::of_rule(file, &key.to_string(), Default::default(), &error));
                }
            }
        }
        if is_random {
            findings.notes.push(format!("policy {}, rule {}: {}", policy.key, rule.name, foresight::RANDOM));
        }
    }
    for rule in stored.iter().flat_map(|stored| &stored.rules) {
        if policy.rules.iter().all(|kept| kept.name != rule.name) {
            findings.steps.extend(bereaved(cluster, rule)?);
        }
    }
    Ok(())
}

/// The policy of that name that the cluster has, if it can run.
fn stored_policy(cluster: &Cluster, policy: &Policy) -> anyhow::Result<Option<Policy>> {
    let kind = if policy.key.namespace.is_some() { "Policy" } else { "ClusterPolicy" };
    let Ok(kind) = cluster.kind(&Gvk::new("kyverno.io/v1", kind)) else {
        return Ok(None);
    };
    let stored = cluster.find(&kind, policy.key.namespace.as_deref(), &policy.key.name)?;
    let kinds = cluster.kinds();
    Ok(stored.and_then(|document| compile::generate::policy_among(&document, &|gvk| kinds.scope(gvk)).0))
}

fn within(rule: &Rule) -> Option<&str> {
    match &rule.reach {
        Reach::Cluster => None,
        Reach::Namespace(namespace) => Some(namespace),
    }
}

/// Every object of the kinds that a rule matches.
fn existing_triggers(cluster: &Cluster, rule: &Rule) -> anyhow::Result<Vec<Value>> {
    let mut seen = BTreeSet::new();
    let mut triggers = Vec::new();
    let kinds = cluster.kinds();
    for kind in rule.matching.matching.kinds().flat_map(|selector| kinds.select(selector)) {
        if seen.insert(kind.gvk.clone()) {
            triggers.extend(cluster.list(&kind, within(rule), "")?);
        }
    }
    Ok(triggers)
}

/// The triggers of what a synchronized rule has made before, as far as they are still there.
fn recorded_triggers(cluster: &Cluster, rule: &Rule) -> anyhow::Result<Vec<Value>> {
    if !rule.synchronize {
        return Ok(Vec::new());
    }
    let made = made_by(cluster, rule)?;
    let mut wanted: BTreeSet<(Gvk, Option<String>, String)> = BTreeSet::new();
    for marks in made.iter().filter_map(Marks::read) {
        wanted.insert((marks.trigger.gvk, marks.trigger.namespace, marks.trigger.uid));
    }
    let mut triggers = Vec::new();
    for (gvk, namespace, uid) in wanted {
        triggers.extend(find_by_uid(cluster, &gvk, namespace.as_deref(), &uid)?);
    }
    Ok(triggers)
}

/// An object of which labels tell everything but the name.
pub(super) fn find_by_uid(
    cluster: &Cluster,
    gvk: &Gvk,
    namespace: Option<&str>,
    uid: &str,
) -> anyhow::Result<Option<Value>> {
    let Ok(kind) = cluster.kind(gvk) else { return Ok(None) };
    let objects = cluster.list(&kind, namespace, "")?;
    Ok(objects.into_iter().find(|object| !uid.is_empty() && text_at(object, &["metadata", "uid"]) == uid))
}

/// What carries the labels of a rule.
fn made_by(cluster: &Cluster, rule: &Rule) -> anyhow::Result<Vec<Value>> {
    let selector = downstream::selector(&rule.policy, Some(&rule.name));
    let mut seen = BTreeSet::new();
    let mut made = Vec::new();
    for target in rule.target_kinds() {
        let gvk = Gvk::new(&target.api_version, target.kind.split('/').next().unwrap_or_default());
        if let Ok(kind) = cluster.kind(&gvk)
            && seen.insert(gvk)
        {
            made.extend(cluster.list(&kind, within(rule), &selector)?);
        }
    }
    Ok(made)
}

/// What a rule has made for a trigger and makes no more: it goes if the policy says so, and copies go with their source.
fn pruned(
    cluster: &Cluster,
    policy: &Policy,
    rule: &Rule,
    trigger: &Value,
    plan: &generate::Plan,
    made: &[Value],
) -> anyhow::Result<Vec<Step>> {
    let alive: BTreeSet<&str> =
        plan.targets.iter().filter_map(|target| target.source.as_ref()).map(|source| source.uid.as_str()).collect();
    let may_prune = policy.prune && plan.failures.is_empty();
    let uid = text_at(trigger, &["metadata", "uid"]);
    let stale = made.iter().filter(|object| {
        let key = ObjectKey::of(object);
        is_made_for(object, uid) && plan.targets.iter().all(|target| target.key != key)
    });
    let mut steps = Vec::new();
    for object in stale {
        let source = Marks::read(object).and_then(|marks| marks.source);
        let is_orphan = match source.filter(|source| !may_prune && !alive.contains(source.uid.as_str())) {
            Some(source) => {
                let SourceRef { uid, gvk, namespace } = &*source;
                find_by_uid(cluster, gvk, namespace.as_deref(), uid)?.is_none()
            }
            None => false,
        };
        if may_prune || is_orphan {
            steps.push(deletion(rule, &ObjectKey::of(trigger), object));
        }
    }
    Ok(steps)
}

fn is_made_for(object: &Value, uid: &str) -> bool {
    Marks::read(object).is_some_and(|marks| marks.trigger.uid == uid)
}

fn deletion(rule: &Rule, trigger: &ObjectKey, object: &Value) -> Step {
    Step {
        policy: rule.policy.to_string(),
        rule: rule.name.clone(),
        trigger: trigger.to_string(),
        object: ObjectKey::of(object),
        action: Action::Delete,
    }
}

/// What goes with a rule that is taken out of its policy.
fn bereaved(cluster: &Cluster, rule: &Rule) -> anyhow::Result<Vec<Step>> {
    let legacy = rule.legacy();
    let gone = made_by(cluster, rule)?.into_iter().filter(|object| {
        let (gvk, copied) = (Gvk::of(object), Marks::read(object).is_some_and(|marks| marks.source.is_some()));
        legacy
            .iter()
            .any(|legacy| Gvk::new(&legacy.api_version, legacy.kind.as_str()) == gvk && legacy.includes(copied))
    });
    Ok(gone.map(|object| Step { trigger: String::new(), ..deletion(rule, &ObjectKey::of(&object), &object) }).collect())
}

fn to_json(steps: &[Step], errors: &[Complaint], notes: &[String]) -> Value {
    json!({
        "steps": steps.iter().map(Step::to_json).collect::<Vec<_>>(),
        "errors": errors.iter().map(Complaint::to_json).collect::<Vec<_>>(),
        "notes": notes,
    })
}

fn print_text(steps: &[Step], out: &mut dyn Write) -> std::io::Result<()> {
    for step in steps.iter().filter(|step| step.action.changes_something()) {
        let Step { policy, rule, trigger, object, action } = step;
        let trigger = if trigger.is_empty() { "the rule is gone".to_owned() } else { format!("trigger {trigger}") };
        writeln!(out, "{} {object}  (policy {policy}, rule {rule}, {trigger})", action.as_str())?;
        if let Action::Update(lines) = action {
            for line in lines {
                writeln!(out, "    {line}")?;
            }
        }
    }
    let count = |action: &str| steps.iter().filter(|step| step.action.as_str() == action).count();
    let (create, update, delete) = (count("create"), count("update"), count("delete"));
    writeln!(
        out,
        "{create} to create, {update} to update, {delete} to delete, {} unchanged",
        steps.len() - create - update - delete
    )
}
