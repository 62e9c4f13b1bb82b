//! `writ modify`: what modifications make of the Envoy resources of a proxy.

use std::io::Write;
use std::path::PathBuf;

use anyhow::{Context, bail};
use serde_json::{Value, json};

use super::Outcome;
use super::format::Format;
use super::load::{self, Loaded, Placed};
use crate::compile::mesh::modifier::{self, Modifier};
use crate::compile::{Findings, identify};
use crate::core::envoy::modification::{Dialect, Modification};
use crate::core::envoy::modify::{Resource, ResourceType, insert, modify};
use crate::core::mesh::proxy_template::RawResource;
use crate::core::problem::{FieldPath, Problem, Reason};

/// Apply the modifications of ProxyTemplates and MeshProxyPatches to Envoy resources, and show the result
#[derive(Debug, clap::Args)]
#[command(after_help = "\
The resources are a list of {type: Cluster|Listener|RouteConfiguration, origin: inbound|outbound|…, resource: {…}}.
MeshProxyPatches run in the order of the files, then the ProxyTemplate.

Examples:
  writ modify -f template.yaml --envoy resources.yaml            the resources after the template
  writ modify -f patches/ --envoy resources.yaml -o json         with the number of hits of each modification
  writ modify -f template.yaml --envoy before.yaml | diff before.yaml -

Exit codes: 0 done, 1 a policy is invalid or a modification cannot be done, 2 could not run.")]
pub struct Modify {
    /// Files or folders with policies; `-` reads standard input
    #[arg(short = 'f', long = "filename", required = true, value_name = "FILE")]
    policies: Vec<PathBuf>,
    /// The file with the Envoy resources (YAML or JSON)
    #[arg(long, value_name = "FILE")]
    envoy: PathBuf,
    #[command(flatten)]
    format: Format,
}

/// A policy and where it stands.
struct Policy {
    file: String,
    document: Placed,
    title: String,
    modifier: Modifier,
}

/// What became of one modification.
struct Hit {
    file: String,
    policy: String,
    line: usize,
    field: String,
    target: &'static str,
    count: usize,
}

impl Modify {
    pub fn run(self, out: &mut dyn Write, talk: &mut dyn Write) -> anyhow::Result<Outcome> {
        let Self { policies, envoy, format } = self;
        let mut teller = Teller { talk, refused: false };
        let mut policies = read_policies(&policies, &mut teller)?;
        let resources = read_resources(envoy, &mut teller)?;
        if teller.refused {
            return Ok(Outcome::Findings);
        }
        // A template sees what the patches have left.
        policies.sort_by_key(|policy| matches!(policy.modifier, Modifier::ProxyTemplate(_)));
        if policies.iter().filter(|policy| matches!(policy.modifier, Modifier::ProxyTemplate(_))).count() > 1 {
            bail!("several ProxyTemplates: at most one applies to a proxy, give that one");
        }
        let Some((resources, hits)) = apply(&policies, resources, &mut teller)? else {
            return Ok(Outcome::Findings);
        };
        let list = || resources.iter().map(to_json).collect::<Vec<_>>();
        let data = || json!({"resources": list(), "hits": hits.iter().map(Hit::to_json).collect::<Vec<_>>()});
        format.print(out, data, |out| {
            let text = serde_saphyr::to_string(&list()).map_err(std::io::Error::other)?;
            write!(out, "{text}")
        })?;
        if format.is_text() {
            for hit in &hits {
                writeln!(teller.talk, "{}", hit.to_text())?;
            }
        }
        Ok(Outcome::Clean)
    }
}

/// Says what is wrong, and remembers that it has.
struct Teller<'t> {
    talk: &'t mut dyn Write,
    refused: bool,
}

impl Teller<'_> {
    fn tell(&mut self, file: &str, document: &Placed, title: &str, findings: &Findings) -> std::io::Result<()> {
        let Findings { errors, schema, warnings } = findings;
        for (level, problems) in [("error", errors), ("warning", schema), ("warning", warnings)] {
            for problem in problems {
                let line = document.position_of(&problem.field).line;
                writeln!(self.talk, "{file}:{line}: {level}: {title}{problem} [{}]", problem.reason.as_str())?;
            }
        }
        self.refused |= !errors.is_empty();
        Ok(())
    }
}

fn read_policies(files: &[PathBuf], teller: &mut Teller<'_>) -> anyhow::Result<Vec<Policy>> {
    let mut policies = Vec::new();
    let mut met = 0;
    for (file, document) in documents(files)? {
        let Some((modifier, findings)) = modifier::modifier(&document.value) else { continue };
        met += 1;
        let title = identify(&document.value).map_or_else(String::new, |it| format!("{} {}", it.kind, it.name));
        teller.tell(&file, &document, &format!("{title}: "), &findings)?;
        policies.extend(modifier.map(|modifier| Policy { file, document, title, modifier }));
    }
    if met == 0 {
        bail!("no ProxyTemplate and no MeshProxyPatch in the files given with -f");
    }
    Ok(policies)
}

fn read_resources(file: PathBuf, teller: &mut Teller<'_>) -> anyhow::Result<Vec<Resource>> {
    let mut all = Vec::new();
    for (file, document) in documents(&[file])? {
        let (resources, mut findings) = modifier::resources(&document.value);
        for (field, resource) in resources {
            if all.iter().any(|known: &Resource| (known.kind, &known.key) == (resource.kind, &resource.key)) {
                let message =
                    format!("{} `{}` was given before; this one replaces it", resource.kind.name(), resource.key);
                findings.warnings.push(Problem::new(&field, Reason::Duplicate, message));
            }
            insert(&mut all, resource);
        }
        teller.tell(&file, &document, "", &findings)?;
    }
    Ok(all)
}

fn documents(files: &[PathBuf]) -> anyhow::Result<Vec<(String, Placed)>> {
    let read = |Loaded { file, document, .. }: Loaded| match document {
        Ok(document) => Ok((file, document)),
        Err(error) => Err(error).with_context(|| format!("{file} is not readable as YAML")),
    };
    load::load(files)?.into_iter().map(read).collect()
}

/// Applies all policies; nothing if a modification cannot be done.
fn apply(
    policies: &[Policy],
    mut resources: Vec<Resource>,
    teller: &mut Teller<'_>,
) -> anyhow::Result<Option<(Vec<Resource>, Vec<Hit>)>> {
    let mut hits = Vec::new();
    for policy in policies {
        let spec = policy.content();
        let (dialect, modifications, list) = match &policy.modifier {
            Modifier::ProxyTemplate(template) => {
                let mut findings = Findings::default();
                for (index, raw) in template.resources.iter().enumerate() {
                    match raw_resource(raw) {
                        Some(raw) => insert(&mut resources, raw),
                        None => {
                            let field = spec.field("conf").field("resources").index(index);
                            let message = "is of a type that is not shown here; it is left out";
                            findings.warnings.push(Problem::new(&field, Reason::Suspicious, message));
                        }
                    }
                }
                teller.tell(&policy.file, &policy.document, &format!("{}: ", policy.title), &findings)?;
                (Dialect::ProxyTemplate, &template.modifications, spec.field("conf").field("modifications"))
            }
            Modifier::MeshProxyPatch(patch) => {
                (Dialect::MeshProxyPatch, &patch.modifications, spec.field("default").field("appendModifications"))
            }
        };
        for (index, modification) in modifications.iter().enumerate() {
            let target = target(modification);
            let field = list.index(index).field(target);
            let line = policy.document.position_of(&field).line;
            match modify(&mut resources, modification, dialect) {
                Ok(count) => {
                    let (file, policy) = (policy.file.clone(), policy.title.clone());
                    hits.push(Hit { file, policy, line, field: field.to_string(), target, count });
                }
                Err(reason) => {
                    writeln!(teller.talk, "{}:{line}: error: {}: {field}: {reason}", policy.file, policy.title)?;
                    return Ok(None);
                }
            }
        }
    }
    Ok(Some((resources, hits)))
}

/// A resource that a template brings along, if it is of a kind that can be modified.
fn raw_resource(raw: &RawResource) -> Option<Resource> {
    let mut content = raw.resource.clone();
    let url = content.as_object_mut()?.remove("@type")?;
    let name = url.as_str()?.rsplit('.').next()?;
    let kind = ResourceType::ALL.into_iter().find(|kind| kind.name() == name)?;
    Some(Resource { kind, key: raw.name.clone(), origin: "proxy-template-raw".to_owned(), content })
}

fn target(modification: &Modification) -> &'static str {
    match modification {
        Modification::Resource { kind, .. } => kind.key(),
        Modification::Filter { kind, .. } => kind.key(),
    }
}

fn to_json(resource: &Resource) -> Value {
    let Resource { kind, key, origin, content } = resource;
    let mut body = content.clone();
    body["@type"] = format!("type.googleapis.com/{}", kind.message().full_name()).into();
    let mut entry = json!({"type": kind.name(), "origin": origin, "resource": body});
    if content.get("name").and_then(Value::as_str) != Some(key) {
        entry["name"] = key.as_str().into();
    }
    entry
}

impl Policy {
    /// Where its content stands.
    fn content(&self) -> FieldPath {
        let root = FieldPath::root();
        if self.document.value.get("spec").is_some() { root.field("spec") } else { root }
    }
}

impl Hit {
    fn to_json(&self) -> Value {
        let Self { file, policy, line, field, target, count } = self;
        json!({"file": file, "line": line, "policy": policy, "field": field, "target": target, "hits": count})
    }

    fn to_text(&self) -> String {
        let Self { file, policy, line, field, count, .. } = self;
        let found = match count {
            0 => "touches nothing".to_owned(),
            1 => "1 hit".to_owned(),
            several => format!("{several} hits"),
        };
        format!("{file}:{line}: {policy}: {field}: {found}")
    }
}
