//! Exceptions: triggers that are taken out of rules without touching the policies.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use crate::core::condition::Conditions;
use crate::core::expr::Template;
use crate::core::matching::Block;
use crate::core::scalar::wildcard;

use super::context::{Base, Frame, Session};
use super::error::RuleError;
use super::evaluate::{hold, with_namespace_labels};
use super::facts::Facts;
use super::fetch::Fetch;
use super::gate::Gate;
use super::rule::{Policy, Rule};
use super::trigger::Trigger;

/// A PolicyException.
#[derive(Clone, Debug)]
pub struct Exception {
    pub key: ExceptionKey,
    /// The rules that it is for; one entry suffices.
    pub entries: Vec<ExceptionEntry>,
    /// Which of their triggers it takes out.
    pub matching: Block,
    pub conditions: Conditions<Template>,
}

/// The name of an exception.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ExceptionKey {
    pub namespace: String,
    pub name: String,
}

/// Rules of policies; all texts are patterns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExceptionEntry {
    /// `name` of a ClusterPolicy, `namespace/name` of a Policy.
    pub policy: String,
    pub rules: Vec<String>,
}

/// The namespaces whose exceptions count.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Honoured {
    #[default]
    Nowhere,
    In(String),
    Everywhere,
}

/// What the exceptions of a rule say about a trigger.
pub(super) enum Exempt<'r> {
    No,
    By(&'r ExceptionKey),
    Needs(BTreeSet<Fetch>),
}

impl Exception {
    /// Whether it is for a rule, whatever the trigger. The policy is named as entries name it.
    fn is_for(&self, policy: &str, rule: &str) -> bool {
        self.entries.iter().any(|entry| {
            wildcard::matches(&entry.policy, policy)
                && entry.rules.iter().any(|pattern| wildcard::matches(pattern, rule))
        })
    }
}

impl Policy {
    /// The same policy under these exceptions. Rules of which nothing changes stay the same values.
    #[must_use]
    pub fn under<'e>(&self, exceptions: impl Iterator<Item = &'e Arc<Exception>> + Clone) -> Self {
        let policy = self.key.to_string();
        let rules = self.rules.iter().map(|rule| {
            let own: Vec<Arc<Exception>> =
                exceptions.clone().filter(|exception| exception.is_for(&policy, &rule.name)).cloned().collect();
            let same = own.len() == rule.exceptions.len()
                && own.iter().zip(&rule.exceptions).all(|(new, old)| Arc::ptr_eq(new, old));
            if same { rule.clone() } else { Arc::new(Rule { exceptions: own, ..Rule::clone(rule) }) }
        });
        Self { rules: rules.collect(), ..self.clone() }
    }
}

impl Honoured {
    /// Nothing stands for none, `*` for every namespace.
    pub fn parse(text: &str) -> Self {
        match text {
            "" => Self::Nowhere,
            "*" => Self::Everywhere,
            namespace => Self::In(namespace.to_owned()),
        }
    }

    pub fn includes(&self, namespace: &str) -> bool {
        match self {
            Self::Nowhere => false,
            Self::In(own) => own == namespace,
            Self::Everywhere => true,
        }
    }
}

impl fmt::Display for ExceptionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// The first exception that takes a trigger out of a rule. Exceptions come before match and exclude, but only where the rule
/// is about such objects at all.
pub(super) fn exempt<'r>(rule: &'r Rule, trigger: &Trigger, facts: &Facts) -> Result<Exempt<'r>, RuleError> {
    if rule.exceptions.is_empty() || !rule.matching.is_about(&trigger.as_matching(None)) {
        return Ok(Exempt::No);
    }
    for exception in &rule.exceptions {
        let matched =
            with_namespace_labels(rule, &rule.field, trigger, facts, |request| exception.matching.excepts(request))?;
        match matched {
            Ok(false) => continue,
            Ok(true) => {}
            Err(fetch) => return Ok(Exempt::Needs(BTreeSet::from([fetch]))),
        }
        match conditions_hold(exception, rule, trigger, facts) {
            Ok(false) => {}
            Ok(true) => return Ok(Exempt::By(&exception.key)),
            Err(needs) => return Ok(Exempt::Needs(needs)),
        }
    }
    Ok(Exempt::No)
}

/// Conditions that cannot be evaluated for a trigger do not hold: whoever asks for a label means the objects that have it.
fn conditions_hold(
    exception: &Exception,
    rule: &Rule,
    trigger: &Trigger,
    facts: &Facts,
) -> Result<bool, BTreeSet<Fetch>> {
    let request = match trigger.object() {
        Some(_) => Cow::Borrowed(trigger.request()),
        None => trigger.request_on_old().map_or(Cow::Borrowed(trigger.request()), Cow::Owned),
    };
    let session = Session::new(Gate::new(&rule.reach, &facts.bounds), facts, &exception.key.namespace);
    let base = Base::new(trigger, &request);
    // What the context of the rule declares is unknown here: exceptions are written for many rules.
    let scope = Frame::of_rule(&session, &base, &[]);
    match hold(&exception.conditions, &scope, &facts.runtime()) {
        Ok(failure) => Ok(failure.is_none()),
        Err(unresolved) if session.waits_for(&unresolved.error) == Ok(true) => Err(session.take_needs()),
        Err(_) => Ok(false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::generate::PolicyKey;

    fn exception(entries: &[(&str, &[&str])]) -> Exception {
        let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        let entries =
            entries.iter().map(|(policy, rules)| ExceptionEntry { policy: (*policy).to_owned(), rules: texts(rules) });
        Exception {
            key: ExceptionKey { namespace: "a".into(), name: "e".into() },
            entries: entries.collect(),
            matching: Block::Any(Vec::new()),
            conditions: Conditions::default(),
        }
    }

    #[test]
    fn names_are_patterns() {
        let check = |entries: &[(&str, &[&str])], namespace: Option<&str>, expected: bool| {
            let policy = PolicyKey { namespace: namespace.map(str::to_owned), name: "defaults".into() };
            assert_eq!(
                exception(entries).is_for(&policy.to_string(), "quota-1"),
                expected,
                "{entries:?} {namespace:?}"
            );
        };
        check(&[("defaults", &["quota-1"])], None, true);
        check(&[("default", &["quota-1"])], None, false);
        check(&[("defaults", &["quota"])], None, false);
        check(&[("def*", &["other", "quota-?"])], None, true);
        check(&[("defaults", &["*"])], Some("a"), false);
        check(&[("a/defaults", &["*"])], Some("a"), true);
        check(&[("a/*", &["*"])], Some("b"), false);
        check(&[("*", &["*"])], Some("b"), true);
        check(&[("a/defaults", &["*"])], None, false);
        // An entry is for its own policy and its own rules, not for a mixture.
        check(&[("defaults", &["other"]), ("other", &["quota-1"])], None, false);
    }

    #[test]
    fn namespaces_that_count() {
        assert!(!Honoured::parse("").includes("a"));
        assert!(Honoured::parse("*").includes("a"));
        assert!(Honoured::parse("a").includes("a") && !Honoured::parse("a").includes("b"));
    }
}
