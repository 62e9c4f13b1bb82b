//! Generate rules over files: every policy for every resource, and what came of it.
//!
//! Shared by `writ apply` and `writ test`. Nothing is written anywhere; who answers the rules' questions is the caller's choice.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context;
use serde_json::{Map, Value, json};

use super::load::{self, Placed};
use super::values::{Given, Values};
use super::{clock, complaint};
use crate::compile::{self, Findings};
use crate::core::generate::{
    Answer, Apply, Evaluation, Exception, ExceptionKey, Facts, Fetch, Honoured, InstallBounds, Outbound, Policy, Rule,
    Trigger, drive,
};
use crate::core::kinds::{self, Scope};
use crate::core::problem::Problem;
use crate::core::resource::{Gvk, ObjectKey, text_at};

pub(super) use complaint::Complaint;

/// A policy and where it was read.
pub(super) struct PolicyFile {
    pub(super) file: String,
    pub(super) document: Placed,
    pub(super) policy: Policy,
}

/// Everything a run is about.
#[derive(Default)]
pub(super) struct Simulation {
    pub(super) policies: Vec<PolicyFile>,
    exceptions: Vec<Arc<Exception>>,
    /// Global context entries beside them.
    pub(super) entries: Vec<Value>,
    /// Policies and what belongs to them that cannot run, told apart from rules that fail.
    pub(super) refused: Vec<Complaint>,
    pub(super) warnings: Vec<Complaint>,
    pub(super) triggers: Vec<Value>,
    pub(super) values: Values,
    /// `userInfo`, `roles`, `clusterRoles` of the requester.
    pub(super) requester: Map<String, Value>,
    /// A cluster is asked for what the files do not have.
    pub(super) online: bool,
}

/// What came of a run.
#[derive(Default)]
pub(super) struct Report {
    pub(super) generated: Vec<Generated>,
    pub(super) skipped: Vec<Skipped>,
    pub(super) errors: Vec<Complaint>,
}

pub(super) struct Generated {
    pub(super) policy: String,
    pub(super) rule: String,
    pub(super) trigger: String,
    pub(super) object: Value,
}

pub(super) struct Skipped {
    pub(super) policy: String,
    pub(super) rule: String,
    /// Empty if the rule found no trigger at all.
    pub(super) trigger: String,
    pub(super) because: String,
}

/// What a rule came to for one trigger.
enum Ended {
    /// The rule acted, or failed trying.
    Acted,
    Idle,
    NoMatch(String),
}

impl Simulation {
    /// Reads policies, and the exceptions among them; documents of other kinds are passed over.
    pub(super) fn read_policies(&mut self, paths: &[PathBuf]) -> anyhow::Result<()> {
        self.read_policies_among(paths, &|gvk| kinds::find(&gvk.group, &gvk.kind).map(|row| row.scope))
    }

    /// The same for a cluster whose kinds are known.
    pub(super) fn read_policies_among(
        &mut self,
        paths: &[PathBuf],
        scopes: &dyn Fn(&Gvk) -> Option<Scope>,
    ) -> anyhow::Result<()> {
        for loaded in load::load(paths)? {
            let document = loaded.document.with_context(|| format!("reading {}", loaded.file))?;
            if compile::generate::is_exception(&document.value) {
                self.take_exception(&loaded.file, &document);
            }
            if compile::generate::is_global_entry(&document.value) {
                let (entry, findings) = compile::generate::global_entry(&document.value);
                self.entries.extend(entry.map(|_| document.value.clone()));
                self.take_findings(&loaded.file, &document, findings);
            }
            if !compile::generate::is_policy(&document.value) {
                continue;
            }
            let (policy, findings) = compile::generate::policy_among(&document.value, scopes);
            self.take_findings(&loaded.file, &document, findings);
            if let Some(policy) = policy {
                self.policies.push(PolicyFile { file: loaded.file, document, policy });
            }
        }
        self.settle_exceptions();
        Ok(())
    }

    /// Reads exceptions; documents of other kinds are passed over.
    pub(super) fn read_exceptions(&mut self, paths: &[PathBuf]) -> anyhow::Result<()> {
        for loaded in load::load(paths)? {
            let document = loaded.document.with_context(|| format!("reading {}", loaded.file))?;
            if compile::generate::is_exception(&document.value) {
                self.take_exception(&loaded.file, &document);
            }
        }
        self.settle_exceptions();
        Ok(())
    }

    /// Sets exceptions aside that would not count in a cluster; gives their names.
    pub(super) fn honour(&mut self, honoured: &Honoured) -> Vec<ExceptionKey> {
        let is_void = |exception: &mut Arc<Exception>| !honoured.includes(&exception.key.namespace);
        let aside = self.exceptions.extract_if(.., is_void).map(|exception| exception.key.clone()).collect();
        self.settle_exceptions();
        aside
    }

    /// Adds exceptions that come from elsewhere; one that was read stands for the other of that name.
    pub(super) fn except(&mut self, exceptions: Vec<Arc<Exception>>) {
        let given: BTreeSet<ExceptionKey> = self.exceptions.iter().map(|exception| exception.key.clone()).collect();
        self.exceptions.extend(exceptions.into_iter().filter(|exception| !given.contains(&exception.key)));
        self.settle_exceptions();
    }

    fn take_exception(&mut self, file: &str, document: &Placed) {
        let (exception, findings) = compile::generate::exception(&document.value);
        self.exceptions.extend(exception.map(Arc::new));
        self.take_findings(file, document, findings);
    }

    fn take_findings(&mut self, file: &str, document: &Placed, findings: Findings) {
        let tell = |problem: Problem| Complaint::of_document(file, document, &problem);
        self.refused.extend(findings.errors.into_iter().map(tell));
        self.warnings.extend(findings.warnings.into_iter().map(tell));
    }

    fn settle_exceptions(&mut self) {
        for file in &mut self.policies {
            file.policy = file.policy.under(self.exceptions.iter());
        }
    }

    /// Reads the resources that are triggers.
    pub(super) fn read_triggers(&mut self, paths: &[PathBuf]) -> anyhow::Result<()> {
        self.triggers.extend(read_resources(paths)?);
        Ok(())
    }

    /// Runs every rule for every trigger. `progress` is told how many of how many triggers are done.
    pub(super) fn run(
        &self,
        answer: &mut dyn FnMut(&Fetch) -> Answer,
        progress: &mut dyn FnMut(usize, usize),
    ) -> Report {
        let mut report = Report::default();
        // For each rule: whether it found a trigger, and why not for the last one that it looked at.
        let mut unmatched: Vec<Vec<Option<String>>> =
            self.policies.iter().map(|file| vec![Some(String::new()); file.policy.rules.len()]).collect();
        for (done, object) in self.triggers.iter().enumerate() {
            progress(done, self.triggers.len());
            for (file, unmatched) in self.policies.iter().zip(&mut unmatched) {
                for (rule, unmatched) in file.policy.rules.iter().zip(unmatched) {
                    let ended = self.run_rule(file, rule, object, answer, &mut report);
                    match &ended {
                        Ended::NoMatch(because) => {
                            if let Some(closest) = unmatched {
                                *closest = format!("{}: {because}", ObjectKey::of(object));
                            }
                        }
                        Ended::Acted | Ended::Idle => *unmatched = None,
                    }
                    if matches!(ended, Ended::Acted) && file.policy.apply == Apply::One {
                        break;
                    }
                }
            }
        }
        self.add_unmatched(unmatched, &mut report);
        report
    }

    fn run_rule(
        &self,
        file: &PolicyFile,
        rule: &Rule,
        object: &Value,
        answer: &mut dyn FnMut(&Fetch) -> Answer,
        report: &mut Report,
    ) -> Ended {
        let key = ObjectKey::of(object);
        let (policy, trigger) = (file.policy.key.to_string(), key.to_string());
        let given = self.values.given(&file.policy.key.name, &rule.name, &key.name);
        let bounds = InstallBounds::offline().with_outbound(Outbound::any());
        let mut facts = Facts::new(clock::now(), seed(&[&policy, &rule.name, &trigger]), bounds);
        let request = self.request(object, &given);
        (facts.given, facts.given_each) = (given.variables, given.each);
        facts.offline = !self.online;
        let skip = |because: String| Skipped {
            policy: policy.clone(),
            rule: rule.name.clone(),
            trigger: trigger.clone(),
            because,
        };
        match drive(rule, &request, &mut facts, answer) {
            Ok(Evaluation::Done(plan)) => {
                let complaints = plan
                    .failures
                    .iter()
                    .map(|failure| Complaint::of_rule(file, &trigger, failure.place, &failure.error));
                report.errors.extend(complaints);
                report.skipped.extend(plan.notes.into_iter().map(skip));
                report.generated.extend(plan.targets.into_iter().map(|target| Generated {
                    policy: policy.clone(),
                    rule: rule.name.clone(),
                    trigger: trigger.clone(),
                    object: target.body,
                }));
                Ended::Acted
            }
            Ok(Evaluation::Skipped { because }) => {
                report.skipped.push(skip(because));
                Ended::Idle
            }
            Ok(Evaluation::Excepted { by }) => {
                report.skipped.push(skip(format!("exception {by}")));
                Ended::Idle
            }
            Ok(Evaluation::Lost { because }) => {
                report.skipped.push(skip(format!("{because}; downstream would be deleted if synchronized")));
                Ended::Acted
            }
            Ok(Evaluation::NotApplicable { because } | Evaluation::OutOfReach { because }) => Ended::NoMatch(because),
            Ok(Evaluation::Needs(_)) => Ended::Idle,
            Err(error) => {
                report.errors.push(Complaint::of_rule(file, &trigger, Default::default(), &error));
                Ended::Acted
            }
        }
    }

    /// The request that would have brought this object: a CREATE by nobody, unless the values say otherwise.
    fn request(&self, object: &Value, given: &Given) -> Trigger {
        let ObjectKey { gvk, namespace, name } = ObjectKey::of(object);
        let mut request = json!({
            "uid": "", "operation": "CREATE", "name": name, "namespace": namespace.unwrap_or_default(),
            "kind": {"group": gvk.group, "version": gvk.version, "kind": gvk.kind},
            "object": object, "oldObject": null, "userInfo": {}, "dryRun": false,
        });
        let subresource = self.values.subresource(&gvk);
        if let Some(subresource) = subresource {
            let Gvk { group, version, .. } = &subresource.parent;
            request["resource"] = json!({"group": group, "version": version, "resource": subresource.parent_resource});
            request["subResource"] = subresource.name.as_str().into();
        }
        let resource = subresource.map_or(gvk, |subresource| subresource.parent.clone());
        overlay(&mut request, &Value::Object(self.requester.clone()));
        overlay(&mut request, &Value::Object(given.request.clone()));
        if request["operation"] == "DELETE" {
            request["oldObject"] = request["object"].take();
        }
        let roles = |field: &str| {
            let texts = request[field].as_array().into_iter().flatten().filter_map(Value::as_str);
            texts.map(str::to_owned).collect()
        };
        let (roles, cluster_roles) = (roles("roles"), roles("clusterRoles"));
        let fields = request.as_object().cloned().unwrap_or_default();
        Trigger::admission(fields, resource, roles, cluster_roles)
    }

    /// A rule that found no trigger says so once, with the last reason it had.
    fn add_unmatched(&self, unmatched: Vec<Vec<Option<String>>>, report: &mut Report) {
        for (file, unmatched) in self.policies.iter().zip(unmatched) {
            for (rule, last) in file.policy.rules.iter().zip(unmatched) {
                let Some(last) = last.filter(|last| !last.is_empty()) else {
                    continue;
                };
                report.skipped.push(Skipped {
                    policy: file.policy.key.to_string(),
                    rule: rule.name.clone(),
                    trigger: String::new(),
                    because: format!("matches none of the {} resources; {last}", self.triggers.len()),
                });
            }
        }
    }
}

/// The objects in files. Without a namespace of their own, namespaced ones are in `default`, as kubectl would put them.
pub(super) fn read_resources(paths: &[PathBuf]) -> anyhow::Result<Vec<Value>> {
    let mut resources = Vec::new();
    for loaded in load::load(paths)? {
        let mut object = loaded.document.with_context(|| format!("reading {}", loaded.file))?.value;
        let gvk = Gvk::of(&object);
        let namespaced = kinds::find(&gvk.group, &gvk.kind).is_some_and(|row| row.scope == Scope::Namespaced);
        let homeless = text_at(&object, &["metadata", "namespace"]).is_empty();
        if namespaced && homeless && object["metadata"].is_object() {
            object["metadata"]["namespace"] = "default".into();
        }
        resources.push(object);
    }
    Ok(resources)
}

/// Lays one document over another: objects are merged, everything else is replaced.
fn overlay(below: &mut Value, above: &Value) {
    match (below, above) {
        (Value::Object(below), Value::Object(above)) => {
            for (field, value) in above {
                overlay(below.entry(field.clone()).or_insert(Value::Null), value);
            }
        }
        (below, above) => *below = above.clone(),
    }
}

/// A seed for `random()` that is the same for the same rule and trigger (FNV-1a).
fn seed(parts: &[&str]) -> u64 {
    let bytes = parts.iter().flat_map(|part| part.bytes().chain([0]));
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}
