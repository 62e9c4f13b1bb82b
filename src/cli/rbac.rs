//! `writ rbac`: the role that generate policies need, and no more. Needs no cluster.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::PathBuf;

use serde_json::{Value, json};

use super::Outcome;
use super::format::Format;
use super::simulate::{PolicyFile, Simulation};
use crate::compile::generate::{KindResource, Need, rights};
use crate::core::catalog::Catalog;
use crate::core::kinds::{self, Scope};
use crate::core::resource::Gvk;
use crate::core::scalar::wildcard;

/// Print the least ClusterRole that generate policies and global context entries need
#[derive(Debug, clap::Args)]
#[command(after_help = "\
The role carries aggregation labels, so that applying it is all there is to do. It lets Writ watch triggers and sources,
and write targets. What a variable decides (a kind, say) is not known here, and said on standard error.

Examples:
  writ rbac policy.yaml | kubectl apply -f -
  writ rbac policies/ --name writ:generate:team-a
  writ rbac policy.yaml --label rbac.kyverno.io/aggregate-to-admission-controller=true")]
pub struct Rbac {
    /// Files or folders with policies (YAML or JSON); `-` reads standard input
    #[arg(required = true, value_name = "POLICY")]
    policies: Vec<PathBuf>,
    /// The name of the role; `writ:generate:` and the policy's name if there is one policy only
    #[arg(long)]
    name: Option<String>,
    /// Further labels, as key=value
    #[arg(long = "label", value_name = "KEY=VALUE", value_parser = parse_label)]
    labels: Vec<(String, String)>,
    #[command(flatten)]
    format: Format,
}

const LABELS: [&str; 2] = ["rbac.writ.dev/aggregate", "rbac.kyverno.io/aggregate-to-background-controller"];
const WATCHED: [&str; 3] = ["get", "list", "watch"];

/// Verbs by group and resource.
type Grants = BTreeMap<(String, String), BTreeSet<&'static str>>;

impl Rbac {
    pub fn run(self, out: &mut dyn Write) -> anyhow::Result<Outcome> {
        let Self { policies, name, labels, format } = self;
        let mut simulation = Simulation::default();
        simulation.read_policies(&policies)?;
        let files = &simulation.policies;
        if files.is_empty() && simulation.entries.is_empty() && simulation.refused.is_empty() {
            anyhow::bail!("no ClusterPolicy, Policy or GlobalContextEntry of kyverno.io among the given files");
        }
        let name = name.unwrap_or_else(|| match files.as_slice() {
            [one] => format!("writ:generate:{}", one.policy.key.name),
            _ => "writ:generate:policies".to_owned(),
        });
        let mut notes = BTreeSet::new();
        let mut grants = Grants::new();
        for file in files {
            collect(file, &mut grants, &mut notes);
        }
        for entry in &simulation.entries {
            let needs = rights(entry, &|_| None).needs;
            for need in needs.into_iter().filter(|need| !need.role_verbs().is_empty()) {
                let verbs = need.role_verbs();
                grants.entry((need.group, need.resource)).or_default().extend(verbs);
            }
        }
        let role = render(&name, &labels, grants);
        let text = serde_saphyr::to_string(&role)?;
        format.print(out, || role, |out| write!(out, "{text}"))?;

        let mut talk = std::io::stderr().lock();
        for note in notes {
            writeln!(talk, "note: {note}")?;
        }
        for error in &simulation.refused {
            write!(talk, "{}", error.to_text("error"))?;
        }
        Ok(if simulation.refused.is_empty() { Outcome::Clean } else { Outcome::Findings })
    }
}

fn collect(file: &PolicyFile, grants: &mut Grants, notes: &mut BTreeSet<String>) {
    let mut grant = |group: &str, resource: String, verbs: &[&'static str]| {
        grants.entry((group.to_owned(), resource)).or_default().extend(verbs);
    };
    let mut guessed = BTreeSet::new();
    let resource = |gvk: &Gvk| match kinds::find(&gvk.group, &gvk.kind) {
        Some(row) => KindResource { plural: row.plural.to_owned(), scope: row.scope },
        None => KindResource { plural: kinds::guess_plural(&gvk.kind), scope: Scope::Namespaced },
    };
    let needs = rights(&file.document.value, &|gvk| Some(resource(gvk))).needs;
    for need in needs.iter().filter(|need| !need.role_verbs().is_empty()) {
        let Need { group, resource, subresource, .. } = need;
        if kinds::by_plural(group, resource).is_none() {
            guessed.insert(need.qualified());
        }
        grant(group, resource.clone(), need.role_verbs());
        if !subresource.is_empty() {
            grant(group, format!("{resource}/{subresource}"), need.role_verbs());
        }
        if group == "rbac.authorization.k8s.io" {
            notes.insert(format!(
                "{}: the API server lets nobody grant more than they have; Writ needs those rights itself, or `bind` and \
                 `escalate`",
                need.qualified()
            ));
        }
    }
    let catalog = Catalog::builtin();
    for rule in &file.policy.rules {
        for target in rule.target_kinds().into_iter().filter(|target| !target.is_literal()) {
            notes.insert(format!(
                "policy {}, rule {}: kind `{}` is known only when the rule runs",
                file.policy.key, rule.name, target.kind
            ));
        }
        // Requests for subresources come by themselves; there is nothing to watch.
        for selector in rule.matching.matching.kinds().filter(|selector| selector.subresource.is_empty()) {
            let known: Vec<_> = catalog.select(selector).filter(|resource| resource.subresource.is_empty()).collect();
            for resource in &known {
                grant(&resource.group, resource.plural.clone(), &WATCHED);
            }
            if !known.is_empty() {
                continue;
            }
            if wildcard::is_pattern(&selector.group) || wildcard::is_pattern(&selector.kind) {
                notes.insert(format!("trigger kind `{selector}`: write it as group/version/Kind to have it granted"));
            } else {
                let resource = kinds::guess_plural(&selector.kind);
                guessed.insert(format!("{resource}.{}", selector.group));
                grant(&selector.group, resource, &WATCHED);
            }
        }
    }
    notes.extend(guessed.into_iter().map(|resource| format!("`{resource}` is a guess at the plural name")));
}

/// Resources with the same verbs share a rule.
fn render(name: &str, labels: &[(String, String)], grants: Grants) -> Value {
    let mut rules: BTreeMap<(String, Vec<&str>), Vec<String>> = BTreeMap::new();
    for ((group, resource), verbs) in grants {
        rules.entry((group, verbs.into_iter().collect())).or_default().push(resource);
    }
    let rules = rules
        .into_iter()
        .map(|((group, verbs), resources)| json!({"apiGroups": [group], "resources": resources, "verbs": verbs}));
    let mut all: BTreeMap<&str, &str> = LABELS.iter().map(|label| (*label, "true")).collect();
    all.extend(labels.iter().map(|(key, value)| (key.as_str(), value.as_str())));
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": name, "labels": all},
        "rules": rules.collect::<Vec<_>>(),
    })
}

fn parse_label(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or_else(|| format!("`{text}` is not key=value"))?;
    Ok((key.to_owned(), value.to_owned()))
}
