//! Policies and rules, compiled: expressions parsed, one-of fields turned into enums.

use std::sync::Arc;

use crate::core::condition::Conditions;
use crate::core::expr::{Expression, Template};
use crate::core::matching::RuleMatch;
use crate::core::problem::FieldPath;
use crate::core::resource::Gvk;

use super::context::Entry;
use super::error::PolicyKey;
use super::exception::Exception;
use super::gate::{KindText, Reach};

/// A ClusterPolicy or Policy, as far as generate rules go.
#[derive(Clone, Debug)]
pub struct Policy {
    pub key: PolicyKey,
    pub apply: Apply,
    /// Writes use server-side apply instead of replacing the object.
    pub server_side_apply: bool,
    /// Downstream of vanished elements and changed names is deleted (annotation `writ.dev/prune`).
    pub prune: bool,
    pub webhook: Webhook,
    /// The generate rules, in order of declaration.
    pub rules: Vec<Arc<Rule>>,
}

/// How many rules of a policy act on one trigger.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Apply {
    #[default]
    All,
    /// The first whose outcome is not "skipped" or "not applicable".
    One,
}

/// What the policy says about its admission webhook.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Webhook {
    /// Requests pass while Writ cannot be asked (`Ignore`); the default is that they do not (`Fail`).
    pub ignore_failure: bool,
    pub timeout_seconds: Option<u8>,
    /// Name and CEL expression; with any of them the policy gets a webhook entry of its own.
    pub match_conditions: Vec<(String, String)>,
}

/// One generate rule.
#[derive(Clone, Debug)]
pub struct Rule {
    pub policy: PolicyKey,
    pub reach: Reach,
    pub name: String,
    /// Where it stands in the policy.
    pub field: FieldPath,
    pub matching: RuleMatch,
    /// Those that are for this rule, in the order of their names.
    pub exceptions: Vec<Arc<Exception>>,
    pub context: Vec<Entry>,
    pub preconditions: Conditions<Template>,
    /// Requests of the background account do not trigger this rule.
    pub skip_background_requests: bool,
    pub synchronize: bool,
    pub orphan_on_policy_delete: bool,
    /// Run for triggers that exist already.
    pub generate_existing: bool,
    /// Whether an expression reads what only admission knows: the requester, the operation, the old object.
    pub reads_admission: bool,
    /// Whether the rule would make something else, or nothing, without the request: what it has made cannot be made again.
    pub needs_request: bool,
    /// Whether the policy has `matchConditions`: only the API server knows which requests they let through.
    pub server_selects: bool,
    pub targets: Targets,
}

/// What a rule makes.
#[derive(Clone, Debug)]
pub enum Targets {
    Once(Box<Output>),
    Foreach(Vec<Loop>),
}

/// One entry of `foreach`.
#[derive(Clone, Debug)]
pub struct Loop {
    pub list: Expression,
    pub context: Vec<Entry>,
    pub preconditions: Conditions<Template>,
    pub output: Output,
    pub field: FieldPath,
}

/// What a rule, or one element of a loop, makes.
#[derive(Clone, Debug)]
pub enum Output {
    /// `data`, or neither of the others: a bare object.
    Data(Pattern),
    /// `dataList`.
    DataList(Vec<Pattern>),
    /// `clone`: the source has the kind of the target.
    Clone(Pattern),
    /// `cloneList` by kinds and selector.
    CloneSelected(Pattern),
    /// `cloneList.list`: sources and targets by name.
    CloneEach(Vec<Pattern>),
}

/// A part of a rule that is substituted as one document, because `$( )` references are relative to it.
#[derive(Clone, Debug)]
pub struct Pattern {
    pub template: Template,
    pub field: FieldPath,
    /// The kinds that it writes, as they are written in the policy.
    pub kinds: Vec<TargetKind>,
}

/// A kind as a policy names it; may hold variables.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TargetKind {
    pub api_version: String,
    pub kind: String,
    /// The namespace of the target as written, empty for none.
    pub namespace: String,
}

impl Pattern {
    /// How the policy names a kind that this pattern has become.
    pub(super) fn kind_text(&self, gvk: &Gvk) -> KindText {
        let is_named = |named: &TargetKind| {
            let kind = named.kind.split('/').next().unwrap_or(&named.kind);
            named.is_literal() && Gvk::new(&named.api_version, kind) == *gvk
        };
        if self.kinds.iter().any(is_named) { KindText::Literal } else { KindText::Variable }
    }
}

impl TargetKind {
    /// Whether the kind is written out, so that it is known before the rule runs.
    pub fn is_literal(&self) -> bool {
        ![&self.api_version, &self.kind].into_iter().any(|text| text.contains("{{") || text.contains("$("))
    }
}

impl PolicyKey {
    pub fn reach(&self) -> Reach {
        match &self.namespace {
            Some(namespace) => Reach::Namespace(namespace.clone()),
            None => Reach::Cluster,
        }
    }
}

impl Rule {
    /// Every kind that the rule may write, sorted and unique.
    pub fn target_kinds(&self) -> Vec<&TargetKind> {
        let outputs: Vec<&Output> = match &self.targets {
            Targets::Once(output) => vec![output],
            Targets::Foreach(loops) => loops.iter().map(|entry| &entry.output).collect(),
        };
        let mut kinds: Vec<_> =
            outputs.into_iter().flat_map(Output::patterns).flat_map(|pattern| &pattern.kinds).collect();
        kinds.sort();
        kinds.dedup();
        kinds
    }
}

impl Output {
    pub fn patterns(&self) -> &[Pattern] {
        match self {
            Self::Data(pattern) | Self::Clone(pattern) | Self::CloneSelected(pattern) => std::slice::from_ref(pattern),
            Self::DataList(patterns) | Self::CloneEach(patterns) => patterns,
        }
    }
}
