//! Each folder of goldens: how its input is run, and what of the result is compared.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Map, Value, json};
use writ::compile::mesh::{Compiled, compiled};
use writ::core::mesh::inbound::{self, InboundRule};
use writ::core::mesh::matching::{self, MatchedPolicies};
use writ::core::mesh::mesh_policy::MeshPolicy;
use writ::core::mesh::meta::ResourceMeta;
use writ::core::mesh::outbound::{self, ResourceRules, RuleOrigin};
use writ::core::mesh::resources::InboundListener;
use writ::core::mesh::subset::{self, SubsetEntry, SubsetRule};
use writ::core::yaml;
use writ::index::mesh::{MeshContents, MeshIndex, MeshSnapshot};

use super::variants::{Rewrite, proxy_variant, variant};

/// What the peer answers, and what we do.
pub(super) struct Case {
    pub(super) name: String,
    pub(super) want: Value,
    pub(super) have: Value,
}

/// From the input of a case to what is compared.
type Run<I> = fn(&I) -> Value;

pub(super) fn cases(folder: &Path) -> Vec<Case> {
    let mut cases = Vec::new();
    let mut add = |folder: &Path, golden: PathBuf, have: Value| {
        let name = golden.strip_prefix(folder).unwrap_or(&golden).display().to_string();
        let want = yaml::read_value(&read(&golden)).expect("goldens are YAML");
        cases.push(Case { name, want, have });
    };
    let rules = folder.join("rules");
    for input in files(&rules.join("outbound/resourcerules"), ".input.yaml") {
        for golden in files(Path::new(input.to_str().unwrap().trim_end_matches(".input.yaml")), ".golden.yaml") {
            let name = stem(&golden, ".golden.yaml");
            add(folder, golden, resource_rules(&input, &name));
        }
    }
    let plain: [(&str, Run<Path>); 5] = [
        ("outbound/sort", sorted_entries),
        ("from", from_rules),
        ("to", to_rules),
        ("single", proxy_rules),
        ("inbound/inboundrules", inbound_rules),
    ];
    for (below, run) in plain {
        for input in files(&rules.join(below), ".input.yaml") {
            add(folder, sibling(&input, ".input.yaml", ".golden.yaml"), run(&input));
        }
    }
    let matched = folder.join("matchers/matchedpolicies");
    for input in files(&matched.join("dataplane-kind"), ".policies.yaml") {
        for golden in files(Path::new(input.to_str().unwrap().trim_end_matches(".policies.yaml")), ".golden.yaml") {
            let name = stem(&golden, ".golden.yaml");
            let (proxy, policy) = proxy_variant(&name).unwrap_or_else(|| panic!("unknown variant {name}"));
            let case = Matched::read(&input, &proxy, &policy);
            add(folder, golden, case.policies());
        }
    }
    let on_proxies: [(&str, Run<Matched>); 5] = [
        ("dataplanepolicies", Matched::policies),
        ("fromrules", Matched::rules_by_caller),
        ("torules", Matched::to_rules),
        ("meshexternalservice", Matched::to_rules),
        ("meshgateways", Matched::gateway_rules),
    ];
    for (below, run) in on_proxies {
        for input in files(&matched.join(below), ".policies.yaml") {
            let same: fn() -> Rewrite = || Box::new(Value::clone);
            let case = Matched::read(&input, &same(), &same());
            add(folder, sibling(&input, ".policies.yaml", ".golden.yaml"), run(&case));
        }
    }
    cases
}

/// Policies that no store holds, in the order of the file.
fn policies_in(documents: &[Value]) -> Vec<Arc<MeshPolicy>> {
    let compiled = documents.iter().filter_map(compiled);
    let policies = compiled.filter_map(|resource| match resource {
        Compiled::Policy(policy) => Some(Arc::new(policy)),
        _ => None,
    });
    policies.collect()
}

fn matched_in(documents: &[Value]) -> Vec<Arc<MeshPolicy>> {
    let mut policies = policies_in(documents);
    policies.retain(|policy| policy.meta.display_name().starts_with("matched-for-rules-"));
    policies
}

fn store(documents: &[Value]) -> MeshSnapshot {
    let mut index = MeshIndex::default();
    for document in documents {
        index.apply(document);
    }
    index.snapshot()
}

fn contents(snapshot: &MeshSnapshot, policies: &[Arc<MeshPolicy>]) -> MeshContents {
    let mesh = policies.first().map(|policy| policy.meta.mesh.clone()).unwrap_or_default();
    snapshot.contents(&mesh).cloned().unwrap_or_default()
}

fn resource_rules(input: &Path, name: &str) -> Value {
    let rewrite = variant(name);
    let documents: Vec<Value> = documents(input)
        .iter()
        .map(|document| if document["type"] == "Mesh" { document.clone() } else { rewrite(document) })
        .collect();
    let policies = matched_in(&documents);
    let snapshot = store(&documents);
    show_resource_rules(&build_resource_rules(&policies, &contents(&snapshot, &policies)))
}

fn build_resource_rules(policies: &[Arc<MeshPolicy>], contents: &MeshContents) -> ResourceRules {
    let Some(first) = policies.first().filter(|first| first.kind.to) else { return ResourceRules::default() };
    let policies = policies.iter().map(Arc::as_ref);
    ResourceRules::build(first.kind, policies, contents.resource(), contents.destinations())
}

fn sorted_entries(input: &Path) -> Value {
    let policies = matched_in(&documents(input));
    let show = |to: &outbound::ToEntry<'_>| {
        let mut entry = json!({"targetRef": to.entry.target.to_json()});
        entry["default"] = (*to.entry.conf).clone();
        json!({
            "Entry": entry, "Meta": show_meta(&to.policy.meta), "RuleIndex": to.index,
            "TopLevel": to.policy.top.to_json(),
        })
    };
    outbound::sorted_entries(policies.iter().map(Arc::as_ref)).iter().map(show).collect()
}

/// The entries are in merge order already.
fn from_rules(input: &Path) -> Value {
    let policies = policies_in(&documents(input));
    let entries = policies.iter().flat_map(|policy| {
        policy.from.iter().enumerate().map(|(index, entry)| SubsetEntry {
            policy: policy.meta.clone(),
            index,
            target: entry.target.clone(),
            conf: entry.conf.clone(),
        })
    });
    let entries: Vec<_> = entries.collect();
    let rules = subset::build(policies[0].kind.merge, &entries, true).unwrap();
    let inbound = inbound::build(policies.iter().map(Arc::as_ref));
    json!({
        "Rules": {"127.0.0.1:80": show_rules(&rules)},
        "InboundRules": {"127.0.0.1:80": show_inbound(&inbound)},
    })
}

fn to_rules(input: &Path) -> Value {
    let documents = documents(input);
    let policies = policies_in(&documents);
    let snapshot = store(&documents);
    show_to(&policies, &contents(&snapshot, &policies))
}

fn show_to(policies: &[Arc<MeshPolicy>], contents: &MeshContents) -> Value {
    let Some(first) = policies.first() else { return Value::Null };
    let rules = if first.kind.to { matching::to_rules(first.kind, policies, contents).unwrap() } else { Vec::new() };
    let resources = build_resource_rules(policies, contents);
    json!({"Rules": show_rules(&rules), "ResourceRules": show_resource_rules(&resources)})
}

fn proxy_rules(input: &Path) -> Value {
    let policies = policies_in(&documents(input));
    let rules = matching::proxy_rule(&policies).map(
        |rule| json!({"Conf": rule.conf, "Origin": rule.origin.iter().map(|meta| show_meta(meta)).collect::<Vec<_>>()}),
    );
    json!({"Rules": Vec::from_iter(rules)})
}

fn inbound_rules(input: &Path) -> Value {
    let policies = matched_in(&documents(input));
    json!({"rules": show_inbound(&inbound::build(policies.iter().map(Arc::as_ref)))})
}

/// The policies of one kind that select the proxy of a case.
struct Matched {
    matched: MatchedPolicies,
    contents: MeshContents,
}

impl Matched {
    fn read(input: &Path, proxy: &Rewrite, policy: &Rewrite) -> Self {
        let dataplane = documents(&sibling(input, ".policies.yaml", ".dataplane.yaml"));
        let Some(Compiled::Dataplane(dataplane)) = compiled(&proxy(&dataplane[0])) else { panic!("a proxy") };
        let mut documents: Vec<Value> = documents(input).iter().map(policy).collect();
        let kinds = documents.iter().map(|document| document["type"].as_str().unwrap().to_owned());
        let kinds: Vec<String> = kinds.filter(|kind| kind != "MeshGateway").collect();
        let kind = kinds.iter().find(|kind| *kind != "MeshHTTPRoute").unwrap_or(&kinds[0]).clone();
        let services = sibling(input, ".policies.yaml", ".mes.yaml");
        if services.exists() {
            documents.extend(self::documents(&services));
        }
        let snapshot = store(&documents);
        let contents = snapshot.contents(&dataplane.meta.mesh).cloned().unwrap_or_default();
        let kind = snapshot.kinds().policy(&kind).unwrap();
        // In the order of the file: some lists keep that of the store.
        let mut policies = policies_in(&documents);
        policies.retain(|policy| policy.kind.order == kind.order);
        let matched = MatchedPolicies::find(&policies, &contents.proxy(&dataplane), &contents);
        Self { matched, contents }
    }

    fn policies(&self) -> Value {
        json!({"items": self.matched.policies.iter().map(|policy| show_meta(&policy.meta)).collect::<Vec<_>>(), "total": 0})
    }

    fn rules_by_caller(&self) -> Value {
        let (rules, inbound) = self.by_inbound();
        json!({"Rules": rules, "InboundRules": inbound})
    }

    fn by_inbound(&self) -> (Value, Value) {
        let each = |show: &dyn Fn(&[Arc<MeshPolicy>]) -> Value| -> Value {
            let inbounds = self.matched.by_inbound.iter();
            inbounds.map(|(inbound, policies)| (inbound.to_string(), show(policies))).collect::<Map<_, _>>().into()
        };
        let from =
            |policies: &[Arc<MeshPolicy>]| show_rules(&matching::from_rules(policies[0].kind, policies).unwrap());
        let inbound = |policies: &[Arc<MeshPolicy>]| show_inbound(&inbound::build(policies.iter().map(Arc::as_ref)));
        (each(&from), each(&inbound))
    }

    fn to_rules(&self) -> Value {
        show_to(&self.matched.policies, &self.contents)
    }

    fn gateway_rules(&self) -> Value {
        let (from, inbound) = self.by_inbound();
        let by_listener: BTreeMap<String, Value> = self
            .matched
            .by_inbound
            .iter()
            .map(|(listener, policies)| (listener.to_string(), show_to(policies, &self.contents)))
            .collect();
        let by_hostname: BTreeMap<String, Value> = self
            .matched
            .by_hostname
            .iter()
            .map(|((listener, hostname), policies): (&(InboundListener, String), _)| {
                (format!("{listener}:{hostname}"), show_to(policies, &self.contents))
            })
            .collect();
        json!({
            "FromRules": from, "InboundRules": inbound,
            "ToRules": {"ByListener": by_listener, "ByListenerAndHostname": by_hostname},
        })
    }
}

fn show_meta(meta: &ResourceMeta) -> Value {
    json!({"creationTime": "", "mesh": meta.mesh, "name": meta.name, "labels": meta.labels})
}

fn show_origin(origin: &RuleOrigin) -> Value {
    json!({"Resource": show_meta(&origin.policy), "RuleIndex": origin.index})
}

fn show_resource_rules(rules: &ResourceRules) -> Value {
    let show = |rule: &outbound::ResourceRule| {
        json!({
            "Conf": rule.merged.conf,
            "Origin": rule.merged.origin.iter().map(show_origin).collect::<Vec<_>>(),
            "OriginByMatches": show_by_matches(&rule.merged.origin_by_matches),
            "Resource": show_meta(&rule.resource),
            "ResourceSectionName": rule.section,
        })
    };
    let key = |rule: &outbound::ResourceRule| rule.resource.section_key(&rule.section).to_string();
    rules.iter().map(|rule| (key(rule), show(rule))).collect::<Map<_, _>>().into()
}

fn show_by_matches(origins: &BTreeMap<String, RuleOrigin>) -> Value {
    origins.iter().map(|(hash, origin)| (hash.clone(), show_origin(origin))).collect::<Map<_, _>>().into()
}

fn show_rules(rules: &[SubsetRule]) -> Value {
    let show = |rule: &SubsetRule| {
        let subset = rule.subset.iter().map(|tag| json!({"Key": tag.key, "Not": tag.not, "Value": tag.value}));
        json!({
            "Conf": rule.conf,
            "Origin": rule.origin.iter().map(|meta| show_meta(meta)).collect::<Vec<_>>(),
            "OriginByMatches": show_by_matches(&rule.origin_by_matches),
            "Subset": subset.collect::<Vec<_>>(),
        })
    };
    rules.iter().map(show).collect()
}

fn show_inbound(rules: &[InboundRule]) -> Value {
    let show =
        |rule: &InboundRule| json!({"match": rule.matches, "conf": *rule.conf, "origin": show_origin(&rule.origin)});
    rules.iter().map(show).collect()
}

/// The documents of a file, each cut out and trimmed before it is read.
fn documents(path: &Path) -> Vec<Value> {
    let text = read(path);
    let documents = text.split("---").map(str::trim).filter(|document| !document.is_empty());
    let values = documents.map(|document| yaml::read_value(document).expect("inputs are YAML"));
    values.filter(|value| value.is_object()).collect()
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn files(folder: &Path, ending: &str) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    files.retain(|file| file.to_str().is_some_and(|name| name.ends_with(ending)));
    files.sort();
    files
}

fn sibling(path: &Path, ending: &str, other: &str) -> PathBuf {
    PathBuf::from(path.to_str().unwrap().replace(ending, other))
}

fn stem(path: &Path, ending: &str) -> String {
    path.file_name().unwrap().to_str().unwrap().trim_end_matches(ending).to_owned()
}
