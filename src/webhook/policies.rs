//! Judges ClusterPolicies, Policies, exceptions and global context entries in a cluster: what `compile` finds, and then what
//! only a cluster can answer.
//!
//! Kinds that nobody knew a moment ago are asked for again before a policy is refused for them. Rights are asked for each
//! time and never remembered: a role that was granted a moment ago counts. A policy is answered only after the requests its
//! rules wait for are on their way here.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::stream::{self, StreamExt};
use serde_json::Value;
use tokio::time::timeout;
use tracing::warn;

use super::port::{Accounts, Office, Trouble};
use super::review::{Operation, Request, Review, Status, Verdict};
use super::reviewed::{no_key, operations, patched};
use super::validate::{invalid, tell};
use crate::compile::Findings;
use crate::compile::generate::{self, Change, Need, Part, Rights};
use crate::core::access::{Access, Subject};
use crate::core::catalog::Catalog;
use crate::core::generate::{Honoured, Policy, Rule, Way};
use crate::core::matching::KindSelector;
use crate::core::problem::{FieldPath, Problem, Reason};
use crate::core::reviewed;
use crate::core::scalar::wildcard;

/// The API group whose kinds came with Kyverno.
const KYVERNO: &str = "kyverno.io";

/// Below the time-out of the webhook, so that the user gets a reason instead of a broken call.
const LONGEST: Duration = Duration::from_secs(8);
/// Told to whoever stores a policy that the mutating webhook did not mark: its name is generated, or that webhook is missing.
const UNMARKED: &str =
    "the policy is stored without the mark of Writ's mutating webhook, so it does not run before its next update";
/// All groups, resources or verbs.
const ANY: &str = "*";
/// Questions under way at once.
const CONCURRENT: usize = 16;

/// The verdict on a policy.
pub(super) async fn judge<O: Office>(office: &O, review: &Review<'_, Value, Value>) -> Verdict {
    match timeout(LONGEST, consider(office, review)).await {
        Ok(verdict) => verdict,
        Err(_) => unavailable(format!("the API server did not answer within {} s", LONGEST.as_secs())),
    }
}

/// Marks an object as reviewed. Nothing is checked here: whatever the validating webhook denies is not stored.
pub(super) fn mark<O: Office>(office: &O, review: &Review<'_, Value, Value>) -> Verdict {
    let Review { request, object, old_object } = review;
    let is_write = matches!(request.operation, Operation::Create | Operation::Update);
    let Some(object) = object.as_ref().filter(|_| is_write && request.sub_resource.is_empty()) else {
        return Verdict::allow();
    };
    match office.mac_key() {
        Some(key) => {
            let wanted = reviewed::wanted_annotation(&key, object, old_object.as_ref());
            patched(&operations(object, wanted.as_deref()))
        }
        None => no_key(),
    }
}

async fn consider<O: Office>(office: &O, review: &Review<'_, Value, Value>) -> Verdict {
    let Review { request, object, old_object } = review;
    match request.operation {
        Operation::Create | Operation::Update => {}
        _ => return Verdict::allow(),
    }
    let Some(object) = object else {
        return Verdict::deny(Status::failure(400, "BadRequest", "the review has no request.object"));
    };
    let old = old_object.as_ref();
    if !request.sub_resource.is_empty() || old.is_some_and(|old| is_end(object, old)) {
        return Verdict::allow();
    }
    let Some(key) = office.mac_key() else { return no_key() };
    let keeps_review = old.is_some_and(|old| reviewed::keeps_review(&key, object, old));
    let mut verdict = if generate::is_exception(object) {
        judge_exception(request, object, office.honoured())
    } else if generate::is_global_entry(object) {
        consider_global(office, request, object, keeps_review).await
    } else if generate::is_policy(object) {
        consider_policy(office, request, object, old, keeps_review).await
    } else {
        return Verdict::allow();
    };
    if verdict.allowed && !reviewed::is_reviewed(&key, object) {
        verdict.warnings.insert(0, UNMARKED.to_owned());
    }
    verdict
}

/// Whether an update of an object that is being deleted changes nothing, and gives it no review that it had not before.
fn is_end(object: &Value, old: &Value) -> bool {
    let kept = reviewed::annotation(object) == reviewed::annotation(old);
    reviewed::is_bookkeeping_at_the_end(object, old) && kept
}

async fn consider_policy<O: Office>(
    office: &O,
    request: &Request<'_>,
    object: &Value,
    old: Option<&Value>,
    keeps_review: bool,
) -> Verdict {
    let mut case = Case::open(object, office.catalog());
    if case.is_doubtful() {
        match office.refreshed().await {
            Ok(catalog) => case = Case::open(object, catalog),
            Err(trouble) => warn!(error = trouble, "Kinds could not be asked for"),
        }
    }
    let Case { policy, findings, rights, catalog, unknown } = case;
    let Findings { mut errors, mut warnings, .. } = findings;
    errors.extend(generate::name_install(object, policy.as_ref(), &rights, office.install_namespace()));
    let Some(policy) = policy.filter(|_| errors.is_empty()) else {
        return Verdict { warnings: tell(&warnings), ..Verdict::deny(invalid(request, &errors)) };
    };
    // Bookkeeping of others: labels, finalizers. Nothing is asked of anybody who changes nothing about a reviewed policy.
    if keeps_review {
        return Verdict { warnings: tell(&warnings), ..Verdict::allow() };
    }
    let mut targets_changed = false;
    match old.map(|old| generate::compare(old, object)) {
        None | Some(Change::Free) => {}
        Some(Change::Refused(problems)) => return Verdict::deny(invalid(request, &problems)),
        Some(Change::TargetsChanged { warning }) => {
            targets_changed = true;
            warnings.insert(0, Problem::new(FieldPath::root(), Reason::Suspicious, warning));
        }
    }
    let policy = Arc::new(policy);
    let asked = generate::author_needs(&policy, &rights, &catalog);
    let questions = Questions { office, request, rights: &rights, asked, catalog: &catalog };
    let checked = questions.ask(&policy, &unknown, targets_changed, &mut warnings).await;
    match checked {
        Err(trouble) => return unavailable(trouble),
        Ok(Some(status)) => {
            return Verdict { warnings: tell(&warnings), ..Verdict::deny(status) };
        }
        Ok(None) => {}
    }
    if !request.dry_run
        && let Err(trouble) = office.register(policy).await
    {
        // The watch does most of the work, and whoever leads tries again: no reason to refuse a good policy.
        warn!(error = trouble, "The webhook configuration could not be extended");
        let message = format!("requests are not sent to Writ for this policy yet: {trouble}");
        warnings.push(Problem::new(FieldPath::root(), Reason::Suspicious, message));
    }
    Verdict { warnings: tell(&warnings), ..Verdict::allow() }
}

/// An exception is judged by what it says; that it will not count is worth a warning.
fn judge_exception(request: &Request<'_>, object: &Value, honoured: &Honoured) -> Verdict {
    let Findings { errors, mut warnings, .. } = generate::exception(object).1;
    if !errors.is_empty() {
        return Verdict { warnings: tell(&warnings), ..Verdict::deny(invalid(request, &errors)) };
    }
    let disregard = match honoured {
        Honoured::Nowhere => Some("Writ honours no exceptions; see --exception-namespace of writ serve".to_owned()),
        Honoured::In(namespace) if *namespace != request.namespace => {
            Some(format!("Writ honours exceptions in namespace `{namespace}` only"))
        }
        Honoured::In(_) | Honoured::Everywhere => None,
    };
    if let Some(message) = disregard {
        let field = FieldPath::root().field("metadata").field("namespace");
        warnings.insert(0, Problem::new(&field, Reason::Suspicious, message));
    }
    Verdict { warnings: tell(&warnings), ..Verdict::allow() }
}

/// The verdict on an entry. Rules of others will see its data, so its author must be allowed to.
async fn consider_global<O: Office>(office: &O, request: &Request<'_>, object: &Value, keeps_review: bool) -> Verdict {
    let (_, Findings { mut errors, warnings, .. }) = generate::global_entry(object);
    let rights = generate::rights(object, &|_| None);
    errors.extend(generate::name_install(object, None, &rights, office.install_namespace()));
    let warnings = tell(&warnings);
    if !errors.is_empty() {
        return Verdict { warnings, ..Verdict::deny(invalid(request, &errors)) };
    }
    if keeps_review {
        return Verdict { warnings, ..Verdict::allow() };
    }
    let questions =
        Questions { office, request, rights: &rights, asked: rights.needs.clone(), catalog: &Catalog::default() };
    let checked = async {
        match office.accounts().await?.check_author {
            true => questions.refuse_author().await,
            false => Ok(None),
        }
    };
    match checked.await {
        Err(trouble) => unavailable(trouble),
        Ok(Some(status)) => Verdict { warnings, ..Verdict::deny(status) },
        Ok(None) => Verdict { warnings, ..Verdict::allow() },
    }
}

/// A policy as far as it can be judged with the kinds at hand.
struct Case {
    policy: Option<Policy>,
    findings: Findings,
    rights: Rights,
    catalog: Arc<Catalog>,
    /// Kinds of triggers that the cluster does not have, and where they stand.
    unknown: Vec<(FieldPath, String)>,
}

impl Case {
    fn open(document: &Value, catalog: Arc<Catalog>) -> Self {
        let (policy, findings) = generate::policy_among(document, &|gvk| catalog.scope(gvk));
        let rights = generate::rights_among(document, &catalog);
        let unknown = policy.as_ref().map(|policy| unknown_triggers(policy, &catalog)).unwrap_or_default();
        Self { policy, findings, rights, catalog, unknown }
    }

    /// Whether newer knowledge of the kinds might change the verdict.
    fn is_doubtful(&self) -> bool {
        !(self.findings.errors.is_empty() && self.unknown.is_empty() && self.rights.unresolved.is_empty())
    }
}

fn unknown_triggers(policy: &Policy, catalog: &Catalog) -> Vec<(FieldPath, String)> {
    let mut unknown = Vec::new();
    for rule in &policy.rules {
        let blocks = [("match", Some(&rule.matching.matching)), ("exclude", rule.matching.exclude.as_ref())];
        for (field, block) in blocks {
            let selectors = block.into_iter().flat_map(|block| block.kinds());
            let missing =
                selectors.filter(|selector| !is_pattern(selector) && catalog.select(selector).next().is_none());
            unknown.extend(missing.map(|selector| (rule.field.field(field), selector.to_string())));
        }
    }
    unknown
}

/// What some rules of a policy have to read to learn of their triggers, as far as no wildcard hides it.
fn triggers(policy: &Policy, catalog: &Catalog, of: impl Fn(&Rule) -> bool) -> Vec<Need> {
    let rules = policy.rules.iter().filter(|rule| of(rule));
    let needs = rules.flat_map(|rule| generate::trigger_needs(rule, catalog, &|selector| !is_pattern(selector)));
    // Requests for subresources come by themselves, and triggers are watched in all namespaces.
    let everywhere = |need| Need { namespace: policy.key.namespace.clone().unwrap_or_default(), ..need };
    needs.filter(|need| !need.is_open() && need.subresource.is_empty()).map(everywhere).collect()
}

fn is_pattern(selector: &KindSelector) -> bool {
    wildcard::is_pattern(&selector.kind) || wildcard::is_pattern(&selector.subresource)
}

/// The questions about one policy or entry.
struct Questions<'q, 'r, O> {
    office: &'q O,
    request: &'q Request<'r>,
    rights: &'q Rights,
    /// What the author must be allowed, as far as the document says so.
    asked: Vec<Need>,
    catalog: &'q Catalog,
}

/// What is missing for one use of a resource.
type Missing = BTreeMap<(String, String, String), (FieldPath, Vec<String>)>;

impl<O: Office> Questions<'_, '_, O> {
    /// Nothing if the policy may be stored; else what is answered instead.
    async fn ask(
        &self,
        policy: &Policy,
        unknown: &[(FieldPath, String)],
        targets_changed: bool,
        warnings: &mut Vec<Problem>,
    ) -> Result<Option<Status>, Trouble> {
        let conditions = &policy.webhook.match_conditions;
        if !conditions.is_empty()
            && let Some(objection) = self.office.objections(conditions).await?
        {
            let field = FieldPath::root().field("spec").field("webhookConfiguration").field("matchConditions");
            let problem = Problem::new(&field, Reason::Format, objection);
            return Ok(Some(invalid(self.request, &[problem])));
        }
        let accounts = self.office.accounts().await?;
        for (field, kind) in unknown {
            let message = format!("the cluster has no kind `{kind}`; the rule waits until there is one");
            warnings.push(Problem::new(field, Reason::Suspicious, message));
        }
        // A policy for kinds to come cannot be judged by rights of today, and changed targets are the operator's own business.
        if unknown.is_empty() && !targets_changed {
            let problems = self.check_accounts(policy, &accounts, warnings).await?;
            if !problems.is_empty() {
                return Ok(Some(invalid(self.request, &problems)));
            }
        }
        if accounts.check_author { self.refuse_author().await } else { Ok(None) }
    }

    /// Nothing if the author may do all of it.
    async fn refuse_author(&self) -> Result<Option<Status>, Trouble> {
        let problems = self.check_author().await?;
        if problems.is_empty() {
            return Ok(None);
        }
        let text: Vec<String> = problems.iter().map(Problem::to_string).collect();
        Ok(Some(Status::failure(403, "Forbidden", text.join("; "))))
    }

    /// Whether the accounts behind Writ can do what the policy wants.
    async fn check_accounts(
        &self,
        policy: &Policy,
        accounts: &Accounts,
        warnings: &mut Vec<Problem>,
    ) -> Result<Vec<Problem>, Trouble> {
        let mut problems = Vec::new();
        for (field, gvk) in &self.rights.unresolved {
            if gvk.group == KYVERNO {
                // Kinds of Kyverno that Writ has no use for (cleanup policies) may have gone with it: its policies stay good.
                let message = format!("the cluster has no kind `{gvk}`; the rule fails until there is one");
                warnings.push(Problem::new(field, Reason::Suspicious, message));
            } else {
                let message = format!("the cluster has no kind `{gvk}`, so nothing can be asked about rights on it");
                problems.push(Problem::new(field, Reason::Kind, message));
            }
        }
        let targets = || self.rights.needs.iter().filter(|need| need.part == Part::Target && !need.is_open());
        let written: Vec<Wish<'_>> = targets().map(|need| Wish::new(need, need.writer_verbs())).collect();
        let looked_at =
            targets().filter(|need| need.synchronize).map(|need| Wish::new(need, &["list", "get"])).collect();
        for (account, wishes) in [(&accounts.background, written), (&accounts.admission, looked_at)] {
            for ((resource, _, place), (field, verbs)) in self.missing(account, wishes).await? {
                let message = format!(
                    "{} is not allowed to {} {resource}{place}; grant it by a ClusterRole with an aggregation label, as \
                     `writ rbac` prints it",
                    account.user,
                    verbs.join(", "),
                );
                problems.push(Problem::new(&field, Reason::Forbidden, message));
            }
        }
        // A rule whose triggers cannot be followed is as good as none, and nobody would ever see why.
        let followed = triggers(policy, self.catalog, |rule| rule.way() == Way::Watch);
        let hint = "so the rule hears of nothing; grant it by a ClusterRole with an aggregation label, as `writ rbac` \
                    prints it";
        warnings.extend(self.check_reader(&followed, &accounts.background, &format!(", {hint}")).await?);
        if let Some(reports) = &accounts.reports {
            let all = triggers(policy, self.catalog, |_| true);
            let everywhere: Vec<Need> = all.into_iter().map(|need| Need { namespace: String::new(), ..need }).collect();
            warnings.extend(self.check_reader(&everywhere, reports, "").await?);
        }
        Ok(problems)
    }

    /// Whether an account can read some resources; a warning for each that it cannot.
    async fn check_reader(&self, needs: &[Need], account: &Subject, hint: &str) -> Result<Vec<Problem>, Trouble> {
        let wishes = needs.iter().map(|need| Wish::new(need, &["get", "list", "watch"])).collect();
        let missing = self.missing(account, wishes).await?;
        let tell = |((resource, _, place), (field, verbs)): ((String, _, String), (FieldPath, Vec<String>))| {
            let message = format!("{} is not allowed to {} {resource}{place}{hint}", account.user, verbs.join(", "));
            Problem::new(&field, Reason::Suspicious, message)
        };
        Ok(missing.into_iter().map(tell).collect())
    }

    /// Whether the author may do what the rules would do for everybody.
    async fn check_author(&self) -> Result<Vec<Problem>, Trouble> {
        let author = self.request.user_info.subject();
        let mut needs = self.asked.clone();
        needs.extend(self.held_by_entries().await?);
        if self.may_do_anything(&author, &mut needs).await? {
            return Ok(Vec::new());
        }
        let wishes = needs.iter().map(|need| Wish::new(need, need.author_verbs())).collect();
        let missing = self.missing(&author, wishes).await?;
        let tell = |((resource, name, place), (field, verbs)): ((String, String, String), (FieldPath, Vec<String>))| {
            let message = format!(
                "user `{}` lacks permission to {} {resource}{name}{place}, and a policy is forbidden to do more than its \
                 author",
                author.user,
                verbs.join(", "),
            );
            Problem::new(&field, Reason::Forbidden, message)
        };
        Ok(missing.into_iter().map(tell).collect())
    }

    /// What global context entries hold that the rules read.
    async fn held_by_entries(&self) -> Result<Vec<Need>, Trouble> {
        let mut stored = BTreeMap::new();
        for name in self.rights.entry_names() {
            if let Some(entry) = self.office.global_entry(name).await? {
                stored.insert(name.to_owned(), entry);
            }
        }
        Ok(self.rights.of_entries(&stored))
    }

    /// Puts the broad question first, so that an administrator costs one or two reviews: whether the author may do anything at
    /// all where the policy works. What that covers is taken off the needs; says whether nothing is left.
    async fn may_do_anything(&self, author: &Subject, needs: &mut Vec<Need>) -> Result<bool, Trouble> {
        let is_home = |need: &Need| need.namespace == self.request.namespace;
        // A Policy has needs in its namespace only.
        let namespace = match needs.iter().all(|need| is_home(need) || need.part == Part::Path) {
            true => self.request.namespace.to_string(),
            false => String::new(),
        };
        let any = || ANY.to_owned();
        let whole = Access { verb: any(), group: any(), resource: any(), namespace, ..Access::default() };
        if self.office.allows(author, &whole).await? {
            needs.retain(|need| need.part == Part::Path);
        }
        Ok(needs.is_empty())
    }

    /// Of some wishes, those that somebody does not have.
    async fn missing(&self, who: &Subject, wishes: Vec<Wish<'_>>) -> Result<Missing, Trouble> {
        let mut questions: BTreeMap<Access, FieldPath> = BTreeMap::new();
        for Wish { need, verbs } in wishes {
            for verb in verbs {
                questions.entry(need.access(verb)).or_insert_with(|| need.field.clone());
            }
        }
        let answers: Vec<(Access, FieldPath, Result<bool, Trouble>)> = stream::iter(questions)
            .map(|(access, field)| async move {
                let answer = self.office.allows(who, &access).await;
                (access, field, answer)
            })
            .buffered(CONCURRENT)
            .collect()
            .await;
        let mut missing = Missing::new();
        for (access, field, answer) in answers {
            if !answer? {
                let (resource, name, place) = describe(&access);
                missing.entry((resource, name, place)).or_insert_with(|| (field, Vec::new())).1.push(access.verb);
            }
        }
        Ok(missing)
    }
}

/// A use of a resource and verbs for it.
struct Wish<'n> {
    need: &'n Need,
    verbs: &'static [&'static str],
}

impl<'n> Wish<'n> {
    fn new(need: &'n Need, verbs: &'static [&'static str]) -> Self {
        Self { need, verbs }
    }
}

/// Resource, name and namespace, ready for a sentence.
fn describe(access: &Access) -> (String, String, String) {
    let whole = Access { namespace: String::new(), name: String::new(), ..access.clone() };
    let name = if access.name.is_empty() { String::new() } else { format!(" `{}`", access.name) };
    let place = match access.namespace.as_str() {
        _ if !access.path.is_empty() => String::new(),
        "" => " in the whole cluster".to_owned(),
        namespace => format!(" in namespace `{namespace}`"),
    };
    (whole.to_string(), name, place)
}

fn unavailable(trouble: Trouble) -> Verdict {
    let message = format!("the policy could not be checked: {trouble}; try again");
    Verdict::deny(Status::failure(503, "ServiceUnavailable", message))
}
