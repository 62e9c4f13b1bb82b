//! Policies as they come and go: into the index, and what follows for the objects that they have made.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use jiff::Timestamp;
use serde_json::Value;
use tokio::sync::mpsc::{Receiver, channel};
use tokio::sync::watch;
use tracing::{info, warn};

use super::chores::{Chore, RuleEnd};
use super::queue::Lane;
use super::shared::Shared;
use super::work::Causes;
use crate::cluster::events::Happening;
use crate::cluster::kinds::{ApiKind, Kinds};
use crate::cluster::status::{self, Readiness, policy_status};
use crate::cluster::watch::{Event, follow};
use crate::cluster::{ClusterError, Selection};
use crate::compile::generate::retargeted;
use crate::core::generate::progress::{Moment, Progress, RuleProgress, seconds};
use crate::core::generate::{PolicyKey, Rule, TargetKind, Way};
use crate::core::resource::{Gvk, is_ending, text_at};
use crate::index::{Indexed, Transition};
use crate::telemetry::Condition;

/// Where it is told that all policies of one sort, or all exceptions, are known.
pub(super) struct Listed {
    pub(super) condition: Condition,
    pub(super) sender: watch::Sender<bool>,
}

impl Listed {
    pub(super) fn holds(&self) {
        self.condition.holds();
        self.sender.send_replace(true);
    }
}

/// Follows ClusterPolicies or Policies for ever.
pub(super) async fn run(shared: Arc<Shared>, kind: &'static str, listed: Listed) {
    let kind = Arc::new(ApiKind::builtin("kyverno.io/v1", kind));
    let (sender, events) = channel(64);
    let following = follow(shared.api.clone(), kind.clone(), Selection::default(), sender);
    tokio::join!(following, take(shared, kind, events, listed));
}

async fn take(shared: Arc<Shared>, kind: Arc<ApiKind>, mut events: Receiver<Event>, told: Listed) {
    let mut listed: Option<BTreeSet<PolicyKey>> = None;
    while let Some(event) = events.recv().await {
        match event {
            Event::Listing => listed = Some(BTreeSet::new()),
            Event::Listed(document) => {
                let transition = apply(&shared, document);
                if let Some(listed) = &mut listed {
                    listed.insert(transition.new.key.clone());
                }
                settle(&shared, &kind, transition).await;
            }
            Event::Synced { version } => {
                let present = listed.take().unwrap_or_default();
                let gone = shared.index().retain(kind.is_namespaced(), &present);
                shared.listed_at.fetch_max(version, Ordering::AcqRel);
                shared.publish();
                for policy in &gone {
                    lose_policy(&shared, &kind, policy).await;
                }
                told.holds();
            }
            Event::Changed(document) => {
                let transition = apply(&shared, document);
                settle(&shared, &kind, transition).await;
            }
            Event::Deleted(document) => {
                let key = key_of(&document);
                let gone = shared.index().delete(&key);
                shared.publish();
                if let Some(policy) = gone {
                    info!(policy = %key, "The policy is gone");
                    lose_policy(&shared, &kind, &policy).await;
                }
            }
            Event::Trouble(error) => {
                warn!(kind = %kind.gvk, %error, "Cannot watch policies");
                match error {
                    // A cluster without this kind has no such policies to run. What they have made stays.
                    ClusterError::UnknownKind { .. } => told.holds(),
                    error if !error.is_outage() => told.condition.fails(error.to_string()),
                    _ => {}
                }
            }
        }
    }
}

fn apply(shared: &Shared, document: Value) -> Transition {
    let kinds = shared.discovery.kinds();
    let review = shared.review_check().state(&document);
    let transition = shared.index().apply(document, review, &|gvk| kinds.scope(gvk));
    if transition.changed {
        if let Some(notice) = review.notice() {
            warn!(policy = %transition.new.key, notice, "Policy not reviewed");
        }
        for problem in &transition.new.problems {
            warn!(policy = %transition.new.key, %problem, "The policy is set aside");
        }
        if shared.is_working() {
            begin(&mut shared.progress(), &transition.new, start_of(&transition.new));
        }
        shared.brake().release(&transition.new.key);
        shared.publish();
        if shared.is_working() {
            react(shared, &transition);
        }
    }
    transition
}

/// What follows from a change. The new rules are published already.
fn react(shared: &Shared, transition: &Transition) {
    let Transition { old, new, .. } = transition;
    let Some(policy) = &new.policy else { return };
    let had = old.iter().flat_map(|old| &old.policy).flat_map(|policy| &policy.rules);
    // Also of a policy of this name that was deleted, and made again before anybody saw that.
    let removed: Vec<&Arc<Rule>> = had.filter(|old| policy.rules.iter().all(|new| new.name != old.name)).collect();
    let old = old.as_ref().filter(|old| old.uid == new.uid);
    let before = || old.iter().flat_map(|old| &old.policy).flat_map(|policy| &policy.rules);
    let others = old.map(|old| retargeted(&old.document, &new.document)).unwrap_or_default();
    for rule in &removed {
        let (policy, rule, legacy) = (new.key.clone(), rule.name.clone(), rule.legacy());
        shared.chore(Chore::Bury { policy, rule, legacy, end: RuleEnd::Deleted });
    }
    for rule in before().filter(|rule| others.contains(&rule.name)) {
        // The rule starts anew: its new targets are made from the next event on.
        restart(&mut shared.progress(), new, &rule.name);
        if removed.is_empty() {
            let kinds = rule.target_kinds().into_iter().map(kind_of).collect();
            shared.chore(Chore::Release { policy: new.key.clone(), rule: rule.name.clone(), kinds });
        }
    }
    // A policy that has waited for its review, or had problems, has not followed its downstream meanwhile.
    let resumes = old.is_some_and(|old| old.policy.is_none());
    for rule in &policy.rules {
        let known = before().any(|before| before.name == rule.name);
        if (known || resumes) && !others.contains(&rule.name) {
            look_at_downstream(shared, &new.key, rule);
        }
        if !known || rule.generate_existing {
            look_at_triggers(shared, &new.key, rule);
        }
    }
}

/// Compiles policies anew for other kinds than before, and has those go on that waited for one.
pub(super) async fn meet_kinds(shared: &Shared, before: &Kinds, kinds: &Kinds) {
    let others = shared.index().recompile(&|gvk| kinds.scope(gvk));
    if shared.is_working() {
        let mut progress = shared.progress();
        others.iter().for_each(|indexed| begin(&mut progress, indexed, start_of(indexed)));
    }
    shared.publish();
    if !shared.is_working() {
        return;
    }
    let is_new = |kind: &TargetKind| {
        let gvk = kind_of(kind);
        before.find(&gvk).is_none() && kinds.find(&gvk).is_some()
    };
    let snapshot = shared.snapshot.load_full();
    for indexed in snapshot.policies() {
        let mut rules = indexed.policy.iter().flat_map(|policy| &policy.rules);
        if others.iter().any(|other| other.key == indexed.key)
            || rules.any(|rule| rule.target_kinds().into_iter().any(is_new))
        {
            visit(shared, indexed);
        }
    }
    for indexed in &others {
        tell_problems(shared, indexed);
        write_status(shared, &kind_of_policy(&indexed.key), indexed).await;
    }
}

/// Has the rules of a policy look at what they have made, and at their triggers.
pub(super) fn visit(shared: &Shared, indexed: &Indexed) {
    for rule in indexed.policy.iter().flat_map(|policy| &policy.rules) {
        look_at_downstream(shared, &indexed.key, rule);
        look_at_triggers(shared, &indexed.key, rule);
    }
}

pub(super) fn look_at_downstream(shared: &Shared, policy: &PolicyKey, rule: &Rule) {
    let made = shared.downstream().marks(|marks| marks.policy == *policy && marks.rule == rule.name);
    made.iter().for_each(|marks| shared.enqueue_owner(Lane::Bulk, marks, Causes::POLICY, None));
}

/// Kinds that are not watched yet are looked at when their watch begins.
pub(super) fn look_at_triggers(shared: &Shared, policy: &PolicyKey, rule: &Rule) {
    // A rule that listens to admission goes through what exists only if it is told to.
    let by_watch = rule.way() == Way::Watch;
    if !(by_watch || rule.generate_existing && rule.runs_unasked()) {
        return;
    }
    let kinds = shared.discovery.kinds();
    for kind in rule.matching.matching.kinds().flat_map(|selector| kinds.select(selector)) {
        let watched = shared.triggers().is_synced(&kind.gvk, policy.namespace.as_deref());
        if watched || !by_watch {
            let (policy, rule, gvk) = (policy.clone(), rule.name.clone(), kind.gvk.clone());
            shared.chore(Chore::Pass { policy, rule, gvk });
        }
    }
}

/// Deletes what goes with a policy.
async fn lose_policy(shared: &Shared, kind: &ApiKind, policy: &Indexed) {
    if !shared.is_working() {
        return;
    }
    let end = match was_deleted(shared, kind, policy).await {
        true => RuleEnd::Deleted,
        false => {
            warn!(policy = %policy.key, "Policy went with its CRD: downstream stays until the kind is served again");
            shared.absence()
        }
    };
    for rule in policy.policy.iter().flat_map(|policy| &policy.rules) {
        let (policy, rule, legacy) = (policy.key.clone(), rule.name.clone(), rule.legacy());
        shared.chore(Chore::Bury { policy, rule, legacy, end });
    }
}

/// Whether the policy itself was deleted. The end of its CRD takes all policies with it, which is not the same.
async fn was_deleted(shared: &Shared, kind: &ApiKind, policy: &Indexed) -> bool {
    let crds = ApiKind::builtin("apiextensions.k8s.io/v1", "CustomResourceDefinition");
    match shared.api.find(&crds, None, &kind.plural_name()).await {
        Ok(Some(crd)) => {
            !is_ending(&crd) && seconds(text_at(&crd, &["metadata", "creationTimestamp"])) <= policy.created
        }
        Ok(None) => false,
        Err(error) => {
            warn!(policy = %policy.key, %error, "Cannot read the CRD of a policy");
            false
        }
    }
}

/// Notes the rules that are new, and what goes with each.
fn begin(progress: &mut Progress, indexed: &Indexed, start: Moment) {
    let Some(policy) = &indexed.policy else { return };
    let entry = progress.0.entry(indexed.key.clone()).or_default();
    if entry.uid != indexed.uid {
        // Rules that another policy of this name has had are to be buried still.
        entry.uid.clone_from(&indexed.uid);
        entry.rules.retain(|name, _| policy.rules.iter().all(|rule| rule.name != *name));
    }
    for rule in &policy.rules {
        let known = entry.rules.entry(rule.name.clone());
        known.or_insert_with(|| RuleProgress::starting(start, Vec::new())).legacy = rule.legacy();
    }
}

/// What was before does not count for a rule that makes other targets now.
fn restart(progress: &mut Progress, indexed: &Indexed, rule: &str) {
    let rule = progress.0.get_mut(&indexed.key).and_then(|policy| policy.rules.get_mut(rule));
    if let Some(rule) = rule {
        rule.start = Moment { version: indexed.version, seconds: 0 };
        rule.cursor = rule.start;
    }
}

fn start_of(indexed: &Indexed) -> Moment {
    Moment { version: indexed.version, seconds: indexed.created }
}

/// Goes on where the last holder of the lease stopped. Without any memory everything that exists is old.
pub(super) fn resume(shared: &Shared, recalled: Option<Progress>) {
    let listed_at = shared.listed_at.load(Ordering::Acquire);
    let snapshot = shared.snapshot.load_full();
    let fresh = recalled.is_none();
    let mut progress = recalled.unwrap_or_default();
    for indexed in snapshot.policies() {
        let mut start = start_of(indexed);
        if fresh && start.version <= listed_at {
            start = Moment { version: listed_at, seconds: 0 };
        }
        begin(&mut progress, indexed, start);
    }
    // What was deleted while nobody worked. A policy that is there with problems may come back.
    for (policy, entry) in &progress.0 {
        let present = snapshot.policy(policy);
        for (rule, known) in &entry.rules {
            let gone = match present {
                None => true,
                Some(indexed) => {
                    indexed.policy.as_ref().is_some_and(|policy| policy.rules.iter().all(|found| found.name != *rule))
                }
            };
            if gone {
                let end = if present.is_some() { RuleEnd::Deleted } else { shared.absence() };
                let (policy, rule, legacy) = (policy.clone(), rule.clone(), known.legacy.clone());
                shared.chore(Chore::Bury { policy, rule, legacy, end });
            }
        }
    }
    *shared.progress() = progress;
    shared.set_working(true);
    snapshot.policies().for_each(|indexed| visit(shared, indexed));
}

/// Writes the status of a policy if it is not what it should be.
async fn settle(shared: &Shared, kind: &ApiKind, transition: Transition) {
    if shared.is_working() {
        if transition.changed {
            tell_problems(shared, &transition.new);
        }
        write_status(shared, kind, &transition.new).await;
    }
}

/// Makes an event of what keeps a policy from being ready: its status does not say it.
fn tell_problems(shared: &Shared, indexed: &Indexed) {
    if !indexed.problems.is_empty() {
        let problems: Vec<String> = indexed.problems.iter().map(ToString::to_string).collect();
        shared.herald.tell(Happening::SetAside { policy: indexed.key.clone(), problem: problems.join("; ") });
    }
    if let Some(notice) = indexed.review.notice() {
        shared.herald.tell(Happening::Unreviewed { policy: indexed.key.clone(), notice });
    }
}

pub(super) async fn write_status(shared: &Shared, kind: &ApiKind, indexed: &Indexed) {
    let panicked = shared.panics.of(&shared.snapshot.load(), &indexed.key);
    let readiness = match (indexed.problems.first(), panicked, indexed.review.notice()) {
        (Some(problem), ..) => Readiness::NotReady { because: problem.to_string() },
        (None, Some(rule), _) => {
            Readiness::NotReady { because: format!("rule {rule} panicked; this is a bug in Writ") }
        }
        (None, None, Some(notice)) => Readiness::Unreviewed { runs: indexed.review.runs(), notice },
        (None, None, None) => Readiness::Ready,
    };
    let Some(wanted) = policy_status(&indexed.document, &readiness, Timestamp::now()) else {
        return;
    };
    let PolicyKey { namespace, name } = &indexed.key;
    if let Err(error) = status::write(&shared.api, kind, namespace.as_deref(), name, wanted).await {
        warn!(policy = %indexed.key, %error, "Cannot write the status of a policy");
    }
}

/// Writes the status of every policy that has not got it.
pub(super) async fn write_all_status(shared: &Shared) {
    let snapshot = shared.snapshot.load_full();
    for indexed in snapshot.policies() {
        tell_problems(shared, indexed);
        write_status(shared, &kind_of_policy(&indexed.key), indexed).await;
    }
}

pub(super) fn kind_of_policy(policy: &PolicyKey) -> ApiKind {
    ApiKind::builtin("kyverno.io/v1", if policy.namespace.is_some() { "Policy" } else { "ClusterPolicy" })
}

fn key_of(document: &Value) -> PolicyKey {
    let namespace = text_at(document, &["metadata", "namespace"]);
    PolicyKey {
        namespace: (!namespace.is_empty()).then(|| namespace.to_owned()),
        name: text_at(document, &["metadata", "name"]).to_owned(),
    }
}

fn kind_of(kind: &TargetKind) -> Gvk {
    Gvk::new(&kind.api_version, kind.kind.split('/').next().unwrap_or_default())
}
