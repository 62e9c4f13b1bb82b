//! One rule.

use serde_json::Value;

use super::policy::flag;
use super::{Node, context, filter, targets, variables};
use crate::compile::Findings;
use crate::core::condition::{Conditions, Form};
use crate::core::expr::Template;
use crate::core::generate::{PolicyKey, Rule, context::Entry};
use crate::core::kinds::Scope;
use crate::core::problem::{FieldPath, Problem, Reason};
use crate::core::resource::Gvk;

/// What a rule has to know of the policy around it.
pub(super) struct Surroundings<'p> {
    pub(super) policy: &'p PolicyKey,
    /// Whether the rule must run without a request: the requester is unknown then.
    pub(super) background: bool,
    /// What `generateExisting` means if the rule does not say.
    pub(super) generate_existing: bool,
    /// v2beta1 has only the any/all form of preconditions.
    pub(super) strict_preconditions: bool,
    /// Whether the policy has the API server choose among requests.
    pub(super) server_selects: bool,
    /// Where a kind lives, if that is known.
    pub(super) kinds: &'p dyn Fn(&Gvk) -> Option<Scope>,
}

/// The longest text that fits into a label.
const LABEL_LENGTH: usize = 63;
const TYPES: [&str; 4] = ["generate", "validate", "mutate", "verifyImages"];

/// Compiles a generate rule; rules of other types are checked for their name only.
pub(super) fn compile(node: &Node<'_>, around: &Surroundings<'_>, findings: &mut Findings) -> Option<Rule> {
    let name = read_name(&node.below("name"), findings);
    let types: Vec<&str> = TYPES.into_iter().filter(|name| node.below(name).is_present()).collect();
    match types.as_slice() {
        ["generate"] => {}
        [_] => return None,
        [] => {
            let message = format!("a rule needs one of {}", TYPES.join(", "));
            findings.refuse(node.path, Reason::Xor, message);
            return None;
        }
        several => {
            let message = format!("a rule has one type, not {}", several.join(" and "));
            findings.refuse(node.path, Reason::Xor, message);
            return None;
        }
    }

    let rule = node.object(findings);
    rule.get("name");
    rule.get("reportProperties");
    rule.get("match");
    rule.get("exclude");
    let (entries, conditions, generate) = (rule.get("context"), rule.get("preconditions"), rule.get("generate"));
    let skip_background_requests = flag(&rule.get("skipBackgroundRequests"), findings).unwrap_or(true);
    let cel = rule.get("celPreconditions");
    if cel.is_present() {
        findings.refuse(cel.path, Reason::Forbidden, "generate rules have `preconditions` only");
    }
    rule.refuse_unknown(findings);

    let matching = filter::compile(node, around, findings);
    let context = context::compile(&entries, around, findings);
    let form = if around.strict_preconditions { Form::Foreach } else { Form::Rule };
    let preconditions = compile_conditions(&conditions, form, findings);
    let made = targets::compile(&generate, around, findings);
    let usage = variables::check(node, around, findings);

    Some(Rule {
        policy: around.policy.clone(),
        reach: around.policy.reach(),
        name,
        field: node.path.told(),
        matching: matching?,
        exceptions: Vec::new(),
        context: context?,
        preconditions: preconditions?,
        skip_background_requests,
        synchronize: made.synchronize,
        orphan_on_policy_delete: made.orphan_on_policy_delete,
        generate_existing: made.generate_existing.unwrap_or(around.generate_existing),
        reads_admission: usage.reads_admission,
        needs_request: usage.needs_request,
        server_selects: around.server_selects,
        targets: made.targets?,
    })
}

fn read_name(node: &Node<'_>, findings: &mut Findings) -> String {
    let name = node.text(findings).unwrap_or_default().into_owned();
    if name.is_empty() {
        findings.refuse(node.path, Reason::Required, "a rule needs a name");
    }
    if name.len() > LABEL_LENGTH {
        let message =
            format!("must have at most {LABEL_LENGTH} characters, as it becomes a label of generated objects");
        findings.refuse(node.path, Reason::Range, message);
    }
    name
}

/// Preconditions with their operands compiled.
pub(super) fn compile_conditions(node: &Node<'_>, form: Form, findings: &mut Findings) -> Option<Conditions<Template>> {
    let mut problems = Vec::new();
    let conditions = Conditions::parse(node.value().unwrap_or(&Value::Null), form, &node.path.told(), &mut problems);
    findings.take(problems);
    let conditions = conditions?;
    let mut sound = true;
    for (block, index, condition) in conditions.iter() {
        let list = if block.is_empty() { node.path } else { node.path.field(block) };
        for (name, operand) in [("key", &condition.key), ("value", &condition.value)] {
            sound &= compile_template(operand, &list.index(index).field(name).told(), findings).is_some();
        }
    }
    sound.then(|| conditions.map(&mut Template::compile))
}

/// A document with `{{ }}` in it; a broken expression is a finding at its own field.
pub(super) fn compile_template(document: &Value, path: &FieldPath, findings: &mut Findings) -> Option<Template> {
    let template = Template::compile(document);
    for problem in template.problems() {
        findings.refuse(path.below_pointer(problem.path()), Reason::Format, problem.to_string());
    }
    template.problems().is_empty().then_some(template)
}

/// The context of a rule, absent if something in it is wrong.
pub(super) type Entries = Option<Vec<Entry>>;

impl Findings {
    /// Sorts problems that the engine's own parsers found into refusals and warnings.
    pub(super) fn take(&mut self, problems: Vec<Problem>) {
        let is_warning = |problem: &Problem| matches!(problem.reason, Reason::Suspicious | Reason::Deprecated);
        let (warnings, errors): (Vec<_>, Vec<_>) = problems.into_iter().partition(is_warning);
        self.warnings.extend(warnings);
        self.errors.extend(errors);
    }
}
