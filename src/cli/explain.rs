//! `writ explain`: why an object is there, and what rules made of it or did not.

use std::io::Write;

use anyhow::Context;
use serde_json::{Value, json};

use super::Outcome;
use super::connection::{Cluster, Connection, Exceptions, Installation};
use super::foresight::{self, Step};
use super::format::Format;
use super::plan::find_by_uid;
use crate::cluster::kinds::ApiKind;
use crate::compile;
use crate::core::expr::Seed;
use crate::core::generate::{Evaluation, Marks, Policy, Rule, SourceRef, Way};
use crate::core::matching::Resource;
use crate::core::resource::{Gvk, ObjectKey};

/// Explain an object: which rule made it and why, and what it triggers
#[derive(Debug, clap::Args)]
#[command(after_help = "\
For a generated object: policy, rule, trigger and source. For any object: every rule that is about its kind, with what it
made of the object, or why it made nothing. Reads only.

Examples:
  writ explain configmap/zk-kafka-address -n team-a
  writ explain namespace/team-a
  writ explain deployments.apps/web -n team-a -o json")]
pub struct Explain {
    /// The object, as KIND/NAME: the kind, its plural or a common short name, with .GROUP if that is needed
    #[arg(value_name = "KIND/NAME", value_parser = parse_object)]
    object: (String, String),
    /// The namespace of the object
    #[arg(short, long, default_value = "default")]
    namespace: String,
    #[command(flatten)]
    exceptions: Exceptions,
    #[command(flatten)]
    installation: Installation,
    #[command(flatten)]
    connection: Connection,
    #[command(flatten)]
    format: Format,
}

/// Who made an object.
struct Origin {
    policy: String,
    rule: String,
    trigger: String,
    source: Option<String>,
    /// What is to be known about that.
    remarks: Vec<String>,
}

/// What a rule makes of an object.
struct Reaction {
    policy: String,
    rule: String,
    outcome: String,
    steps: Vec<Step>,
    failures: Vec<String>,
}

const SHORT_NAMES: &[(&str, &str)] = &[
    ("cm", "configmaps"),
    ("deploy", "deployments"),
    ("ds", "daemonsets"),
    ("ing", "ingresses"),
    ("limits", "limitranges"),
    ("netpol", "networkpolicies"),
    ("ns", "namespaces"),
    ("po", "pods"),
    ("quota", "resourcequotas"),
    ("sa", "serviceaccounts"),
    ("sts", "statefulsets"),
    ("svc", "services"),
];

impl Explain {
    pub fn run(self, out: &mut dyn Write) -> anyhow::Result<Outcome> {
        let Self { object: (kind, name), namespace, exceptions, installation, connection, format } = self;
        let mut cluster = connection.open(&installation)?;
        let seed = installation.seed(&cluster);
        let kind = resolve(&cluster, &kind)?;
        let namespace = kind.is_namespaced().then_some(namespace.as_str());
        let found = cluster.find(&kind, namespace, &name)?;
        let object = found.with_context(|| format!("{} does not exist", kind.name(namespace, &name)))?;
        let exceptions = exceptions.read(&cluster)?;
        let policies = policies(&cluster)?.iter().map(|policy| policy.under(exceptions.iter())).collect::<Vec<_>>();
        let origin = origin(&cluster, &object, &policies)?;
        let reactions = reactions(&mut cluster, seed.as_ref(), &object, &policies)?;
        let key = ObjectKey::of(&object);
        format.print(
            out,
            || to_json(&key, origin.as_ref(), &reactions),
            |out| print_text(&key, origin.as_ref(), &reactions, out),
        )?;
        Ok(Outcome::Clean)
    }
}

fn parse_object(text: &str) -> Result<(String, String), String> {
    match text.split_once('/') {
        Some((kind, name)) if !kind.is_empty() && !name.is_empty() => Ok((kind.to_owned(), name.to_owned())),
        _ => Err(format!("`{text}` is not KIND/NAME, such as configmap/settings")),
    }
}

fn resolve(cluster: &Cluster, text: &str) -> anyhow::Result<std::sync::Arc<ApiKind>> {
    let (name, group) = text.split_once('.').map_or((text, None), |(name, group)| (name, Some(group)));
    let name = SHORT_NAMES.iter().find(|(short, _)| *short == name).map_or(name, |(_, plural)| plural);
    let catalog = cluster.kinds().catalog();
    let fits = |kind: &str, plural: &str| kind.eq_ignore_ascii_case(name) || plural.eq_ignore_ascii_case(name);
    let mut resources = catalog.all().filter(|resource| resource.subresource.is_empty());
    let found = resources
        .find(|resource| fits(&resource.kind, &resource.plural) && group.is_none_or(|group| group == resource.group));
    let found = found.with_context(|| format!("the cluster has no kind `{text}`"))?;
    cluster.kind(&found.gvk())
}

/// The policies of the cluster, in order; those that cannot run are left out.
fn policies(cluster: &Cluster) -> anyhow::Result<Vec<Policy>> {
    let mut policies = Vec::new();
    for kind in ["ClusterPolicy", "Policy"] {
        let Ok(kind) = cluster.kind(&Gvk::new("kyverno.io/v1", kind)) else {
            continue;
        };
        let kinds = cluster.kinds();
        let documents = cluster.list(&kind, None, "")?;
        policies.extend(
            documents
                .iter()
                .filter_map(|document| compile::generate::policy_among(document, &|gvk| kinds.scope(gvk)).0),
        );
    }
    Ok(policies)
}

fn origin(cluster: &Cluster, object: &Value, policies: &[Policy]) -> anyhow::Result<Option<Origin>> {
    let Some(marks) = Marks::read(object) else {
        return Ok(None);
    };
    let mut remarks = Vec::new();
    let policy = policies.iter().find(|policy| policy.key == marks.policy);
    let rule = policy.and_then(|policy| policy.rules.iter().find(|rule| rule.name == marks.rule));
    match (policy, rule) {
        (None, _) => remarks.push("the policy is gone or cannot run, so nobody keeps this object in step".to_owned()),
        (_, None) => remarks.push("the policy no longer has this rule, so nobody keeps this object in step".to_owned()),
        (_, Some(rule)) if rule.synchronize => {
            remarks.push("changes of this object are reverted (synchronize)".to_owned())
        }
        _ => remarks.push("changes of this object stay (no synchronize)".to_owned()),
    }
    let trigger = marks.trigger;
    let found = find_by_uid(cluster, &trigger.gvk, trigger.namespace.as_deref(), &trigger.uid)?;
    let trigger = match found {
        Some(found) => ObjectKey::of(&found).to_string(),
        None => {
            remarks.push("the trigger is gone".to_owned());
            format!("{} with UID {}", trigger.gvk, trigger.uid)
        }
    };
    let source = match &marks.source {
        Some(reference) => Some(source(cluster, reference, &mut remarks)?),
        None => None,
    };
    Ok(Some(Origin { policy: marks.policy.to_string(), rule: marks.rule, trigger, source, remarks }))
}

fn source(cluster: &Cluster, source: &SourceRef, remarks: &mut Vec<String>) -> anyhow::Result<String> {
    let SourceRef { uid, gvk, namespace } = source;
    Ok(match find_by_uid(cluster, gvk, namespace.as_deref(), uid)? {
        Some(found) => ObjectKey::of(&found).to_string(),
        None => {
            remarks.push("the source is gone".to_owned());
            format!("{gvk} with UID {uid}")
        }
    })
}

/// What every rule that is about this kind makes of the object.
fn reactions(
    cluster: &mut Cluster,
    seed: Option<&Seed>,
    object: &Value,
    policies: &[Policy],
) -> anyhow::Result<Vec<Reaction>> {
    let Gvk { group, version, kind } = Gvk::of(object);
    let resource = Resource { group: &group, version: &version, kind: &kind, subresource: "" };
    let mut reactions = Vec::new();
    for policy in policies {
        for rule in &policy.rules {
            if rule.matching.matching.kinds().any(|selector| selector.matches(&resource)) {
                reactions.push(react(cluster, seed, policy, rule, object)?);
            }
        }
    }
    Ok(reactions)
}

fn react(
    cluster: &mut Cluster,
    seed: Option<&Seed>,
    policy: &Policy,
    rule: &Rule,
    object: &Value,
) -> anyhow::Result<Reaction> {
    let mut reaction = Reaction {
        policy: policy.key.to_string(),
        rule: rule.name.clone(),
        outcome: String::new(),
        steps: Vec::new(),
        failures: Vec::new(),
    };
    let foreseen = foresight::evaluate(cluster, seed, rule, object);
    let is_random = foreseen.as_ref().is_ok_and(|foreseen| foreseen.is_random);
    reaction.outcome = match foreseen.map(|foreseen| foreseen.evaluation) {
        Ok(Evaluation::Done(plan)) if rule.way() == Way::Watch || plan.failures.is_empty() => {
            reaction.steps = foresight::steps(cluster, policy, rule, &ObjectKey::of(object), &plan)?;
            reaction.failures = plan.failures.iter().map(|failure| failure.error.to_string()).collect();
            "applies".to_owned()
        }
        // What it lacks may be what only a request can tell.
        Ok(Evaluation::Done(_)) => "applies to requests for this object".to_owned(),
        Err(_) if rule.way() == Way::Admission => "may apply to requests for this object".to_owned(),
        Ok(Evaluation::Skipped { because } | Evaluation::Lost { because }) => format!("skipped: {because}"),
        Ok(Evaluation::Excepted { by }) => format!("skipped: exception {by}"),
        Ok(Evaluation::NotApplicable { because } | Evaluation::OutOfReach { because }) => {
            format!("does not apply: {because}")
        }
        Ok(Evaluation::Needs(_)) => "cannot be evaluated".to_owned(),
        Err(error) => format!("fails: {error}"),
    };
    if is_random {
        reaction.outcome = format!("{} ({})", reaction.outcome, foresight::RANDOM);
    }
    if rule.way() == Way::Admission {
        reaction.outcome += " (it runs when one is made; who asks, and for what, is not known afterwards)";
    }
    Ok(reaction)
}

fn to_json(key: &ObjectKey, origin: Option<&Origin>, reactions: &[Reaction]) -> Value {
    let origin = origin.map(|origin| {
        json!({
            "policy": origin.policy, "rule": origin.rule, "trigger": origin.trigger, "source": origin.source,
            "remarks": origin.remarks,
        })
    });
    let reactions = reactions.iter().map(|reaction| {
        json!({
            "policy": reaction.policy, "rule": reaction.rule, "outcome": reaction.outcome,
            "objects": reaction.steps.iter().map(Step::to_json).collect::<Vec<_>>(), "failures": reaction.failures,
        })
    });
    json!({"object": key.to_string(), "origin": origin, "rules": reactions.collect::<Vec<_>>()})
}

fn print_text(
    key: &ObjectKey,
    origin: Option<&Origin>,
    reactions: &[Reaction],
    out: &mut dyn Write,
) -> std::io::Result<()> {
    writeln!(out, "{key}")?;
    match origin {
        None => writeln!(out, "  was not generated by a rule")?,
        Some(Origin { policy, rule, trigger, source, remarks }) => {
            writeln!(out, "  made by policy {policy}, rule {rule}")?;
            writeln!(out, "  for trigger {trigger}")?;
            if let Some(source) = source {
                writeln!(out, "  copied from {source}")?;
            }
            for remark in remarks {
                writeln!(out, "  {remark}")?;
            }
        }
    }
    if reactions.is_empty() {
        return writeln!(out, "\nNo rule is about {} objects.", key.gvk.kind);
    }
    writeln!(out, "\nRules about {} objects:", key.gvk.kind)?;
    for Reaction { policy, rule, outcome, steps, failures } in reactions {
        writeln!(out, "  policy {policy}, rule {rule}: {outcome}")?;
        for step in steps {
            let state = match step.action.as_str() {
                "create" => "missing",
                "update" => "there, but not as it should be",
                "left alone" => "there",
                _ => "there, as it should be",
            };
            writeln!(out, "    {}: {state}", step.object)?;
        }
        for failure in failures {
            writeln!(out, "    failed: {failure}")?;
        }
    }
    Ok(())
}
