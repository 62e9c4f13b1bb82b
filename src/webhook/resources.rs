//! The intake: requests for objects that rules are about. It answers from memory, always allows, and hands on what only
//! admission knows: one stored request per policy, before the answer.
//!
//! On a dry run nothing is stored; the answer says what would be generated instead, in `preview`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use serde_json::{Map, Value};
use tokio::time::timeout;
use tracing::warn;

use super::port::{Counter, View};
use super::preview;
use super::review::Verdict;
use super::validate::tell_texts;
use crate::core::generate::request::{Admission, Entry, UpdateRequest};
use crate::core::generate::{Apply, Evaluation, Policy, PolicyKey, Rule, Trigger, TriggerRef, Way, evaluate};
use crate::core::matching::{self, Operation, Requester, is_internal_kind};
use crate::core::resource::{Gvk, text_at};

/// Storing may take this long; the API server waits a little longer.
const STORE_TIME: Duration = Duration::from_secs(3);

/// Which policies an entry of the webhook configuration calls for. Each request is counted once by each of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Addressed {
    ClusterPolicies,
    /// The Policies of the request's namespace.
    Policies,
    /// One policy alone, which has conditions of its own.
    Policy(PolicyKey),
    /// Every policy without conditions of its own.
    All,
}

impl Addressed {
    fn means(&self, policy: &Policy, namespace: &str) -> bool {
        let is_common = policy.webhook.match_conditions.is_empty();
        match self {
            Self::ClusterPolicies => is_common && policy.key.namespace.is_none(),
            Self::Policies => is_common && policy.key.namespace.as_deref() == Some(namespace),
            Self::Policy(key) => policy.key == *key,
            Self::All => is_common,
        }
    }
}

/// The verdict on a request: always "allowed".
pub(super) async fn admit<C: Counter>(counter: &C, addressed: &Addressed, request: Map<String, Value>) -> Verdict {
    let view = counter.view();
    let Some(case) = Case::open(counter, &view, addressed, request) else {
        return Verdict::allow();
    };
    let warnings = if case.dry_run { preview::preview(counter, &case).await } else { hand_on(counter, case).await };
    Verdict { warnings: tell_texts(&warnings), ..Verdict::allow() }
}

/// A request that some rules may be for.
pub(super) struct Case {
    pub(super) trigger: Trigger,
    pub(super) request: Map<String, Value>,
    pub(super) requester: Requester,
    pub(super) rules: Vec<(Arc<Policy>, Arc<Rule>)>,
    pub(super) dry_run: bool,
}

impl Case {
    fn open<C: Counter>(counter: &C, view: &View, addressed: &Addressed, request: Map<String, Value>) -> Option<Self> {
        let root = Value::Object(request);
        let resource = parent(&root, view)?;
        let subresource = text_at(&root, &["subResource"]);
        let seen = matching::Resource {
            group: &resource.group,
            version: &resource.version,
            kind: &resource.kind,
            subresource,
        };
        if is_internal_kind(&resource.kind) {
            return None;
        }
        let dry_run = root.get("dryRun") == Some(&Value::Bool(true));
        let mut requester = Requester {
            username: text_at(&root, &["userInfo", "username"]).to_owned(),
            groups: texts(root.pointer("/userInfo/groups")),
            roles: BTreeSet::new(),
            cluster_roles: BTreeSet::new(),
        };
        let ours = requester.username == view.background;
        // A write that is rehearsed here needs no preview, and one must not ask for the next.
        if ours && dry_run {
            return None;
        }
        let wanted = |policy: &Policy, rule: &Rule| {
            let addressed = addressed.means(policy, text_at(&root, &["namespace"]));
            addressed && (dry_run || rule.way() == Way::Admission) && !(ours && rule.skip_background_requests)
        };
        let rules = rules_for(view, &seen, &wanted);
        if rules.is_empty() {
            return None;
        }
        counter.roles(&mut requester, text_at(&root, &["namespace"]));
        if view.settings.excluded_users.exclude(&requester) {
            return None;
        }
        let side = |name: &str| root.get(name).filter(|object| object.is_object());
        let filtered = matching::Request {
            resource: seen,
            operation: Operation::parse(text_at(&root, &["operation"])),
            namespace: text_at(&root, &["namespace"]),
            object: side("object"),
            old_object: side("oldObject"),
            requester: Some(&requester),
            namespace_labels: None,
        };
        if view.settings.resource_filters.matches_request(&filtered) {
            return None;
        }
        let Value::Object(request) = root else { return None };
        let (roles, cluster_roles) = (requester.roles.clone(), requester.cluster_roles.clone());
        let trigger = Trigger::admission(request.clone(), resource, roles, cluster_roles);
        Some(Self { trigger, request, requester, rules, dry_run })
    }
}

/// The kind that the request's resource belongs to, which for a subresource is not that of the payload.
fn parent(request: &Value, view: &View) -> Option<Gvk> {
    let part = |object: &str, name: &str| text_at(request, &[object, name]).to_owned();
    let known =
        view.catalog.by_plural(&part("resource", "group"), &part("resource", "version"), &part("resource", "resource"));
    match known {
        Some(resource) => Some(resource.gvk()),
        None if text_at(request, &["subResource"]).is_empty() => {
            Some(Gvk { group: part("kind", "group"), version: part("kind", "version"), kind: part("kind", "kind") })
        }
        None => None,
    }
}

fn texts(value: Option<&Value>) -> Vec<String> {
    let items = value.and_then(Value::as_array).into_iter().flatten();
    items.filter_map(Value::as_str).map(str::to_owned).collect()
}

/// The rules of the snapshot, with those of policies that were admitted a moment ago in place of what they replace.
fn rules_for(
    view: &View,
    resource: &matching::Resource<'_>,
    wanted: &dyn Fn(&Policy, &Rule) -> bool,
) -> Vec<(Arc<Policy>, Arc<Rule>)> {
    let is_replaced = |key: &PolicyKey| view.fresh.iter().any(|policy| policy.key == *key);
    let known = view.policies.candidates(resource).filter(|entry| !is_replaced(&entry.policy.key));
    let known = known.map(|entry| (entry.policy.clone(), entry.rule.clone()));
    let fresh =
        view.fresh.iter().flat_map(|policy| policy.rules.iter().map(move |rule| (policy.clone(), rule.clone())));
    let fresh = fresh.filter(|(_, rule)| rule.matching.matching.kinds().any(|kind| kind.matches(resource)));
    known.chain(fresh).filter(|(policy, rule)| wanted(policy, rule)).collect()
}

/// Stores what the rules need to know; gives warnings for what could not be stored.
async fn hand_on<C: Counter>(counter: &C, case: Case) -> Vec<String> {
    let work = sort(counter, &case);
    let Case { request, requester, .. } = case;
    let admission = Admission { request, roles: requester.roles, cluster_roles: requester.cluster_roles };
    let requests = work.into_iter().map(|((policy, _), entries)| UpdateRequest {
        policy,
        entries,
        admission: Some(admission.clone()),
    });
    let stored = requests.map(|request| async move {
        let outcome = match timeout(STORE_TIME, counter.store(&request)).await {
            Ok(outcome) => outcome,
            Err(_) => Err("the API server did not answer in time".to_owned()),
        };
        outcome.err().map(|trouble| {
            warn!(policy = %request.policy, error = trouble, "Request not stored");
            format!("policy {} does not get to know of this request: {trouble}", request.policy)
        })
    });
    join_all(stored).await.into_iter().flatten().collect()
}

/// Which rules have what to do, by policy: things to make (false) apart from things to remove (true).
fn sort<C: Counter>(counter: &C, case: &Case) -> BTreeMap<(PolicyKey, bool), Vec<Entry>> {
    let facts = counter.facts();
    let operation = case.trigger.operation();
    let mut work: BTreeMap<(PolicyKey, bool), Vec<Entry>> = BTreeMap::new();
    let mut finished: BTreeSet<&PolicyKey> = BTreeSet::new();
    for (policy, rule) in &case.rules {
        if policy.apply == Apply::One && finished.contains(&policy.key) {
            continue;
        }
        let delete = match evaluate(rule, &case.trigger, &facts) {
            // What the rule has to look up is looked up when the work is done.
            Ok(Evaluation::Done(_) | Evaluation::Needs(_)) => false,
            Ok(Evaluation::Lost { .. }) => {
                finished.insert(&policy.key);
                if !rule.synchronize {
                    continue;
                }
                true
            }
            Ok(
                Evaluation::Skipped { .. }
                | Evaluation::Excepted { .. }
                | Evaluation::NotApplicable { .. }
                | Evaluation::OutOfReach { .. },
            ) => continue,
            Err(error) => {
                if error.is_panic() {
                    counter.panicked();
                }
                warn!(%error, "Rule not applied to a request");
                continue;
            }
        };
        finished.insert(&policy.key);
        let object = match operation {
            Some(Operation::Delete) => case.trigger.old_object(),
            _ if delete => case.trigger.old_object(),
            _ => case.trigger.object().or(case.trigger.old_object()),
        };
        let trigger = object.map(TriggerRef::of).unwrap_or_default();
        work.entry((policy.key.clone(), delete)).or_default().push(Entry { rule: rule.name.clone(), trigger, delete });
    }
    work
}
