//! The rules that Envoy's authors wrote on their fields, as the schema spells them: `min_len=1`, `gt=0`, `items.prefix="/"`.
//!
//! They are those of `protoc-gen-validate`, named as there, values in JSON; bounds of durations are in nanoseconds. Only what
//! Envoy uses is known here: a schema with another rule is refused when it is read, so none goes unchecked.

use std::sync::OnceLock;

use regex::Regex;
use serde_json::Value;

#[derive(Debug)]
pub(super) enum Rule {
    /// A message must be present.
    Required,
    /// The rules inside a message are not looked at.
    Skip,
    /// The other rules do not hold for a zero value.
    IgnoreEmpty,
    /// Only numbers that the enum declares.
    DefinedOnly,
    Const(Literal),
    Bound(Bound, Literal),
    In(Box<[Literal]>),
    NotIn(Box<[Literal]>),
    /// In characters, or bytes of a `bytes` field.
    MinLen(usize),
    MaxLen(usize),
    MaxBytes(usize),
    Pattern(Pattern),
    Prefix(String),
    Suffix(String),
    HeaderName(Grammar),
    HeaderValue(Grammar),
    /// Of a list, or of a map.
    MinItems(usize),
    MaxItems(usize),
    Unique,
    Items(Box<[Rule]>),
    Keys(Box<[Rule]>),
    Values(Box<[Rule]>),
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Bound {
    Lt,
    Lte,
    Gt,
    Gte,
}

/// Of HTTP headers: as the RFC has it, or anything without line breaks.
#[derive(Clone, Copy, Debug)]
pub(super) enum Grammar {
    Strict,
    Loose,
}

#[derive(Debug)]
pub(super) enum Literal {
    Bool(bool),
    Int(i128),
    Float(f64),
    Text(String),
}

/// A regular expression that is compiled when it is first needed: most never are.
#[derive(Debug)]
pub(super) struct Pattern {
    pub(super) source: String,
    compiled: OnceLock<Option<Regex>>,
}

impl Pattern {
    /// An expression that does not compile holds for nothing; a test compiles them all.
    pub(super) fn matches(&self, text: &str) -> bool {
        self.compiled.get_or_init(|| Regex::new(&self.source).ok()).as_ref().is_some_and(|regex| regex.is_match(text))
    }
}

pub(super) fn read_rules(words: &[&str]) -> Result<Box<[Rule]>, String> {
    let inner = |family: &str| -> Result<Option<Box<[Rule]>>, String> {
        let words: Vec<&str> = words.iter().filter_map(|word| word.strip_prefix(family)).collect();
        if words.is_empty() { Ok(None) } else { read_rules(&words).map(Some) }
    };
    let mut rules = Vec::new();
    rules.extend(inner("items.")?.map(Rule::Items));
    rules.extend(inner("keys.")?.map(Rule::Keys));
    rules.extend(inner("values.")?.map(Rule::Values));

    let grammar = if words.contains(&"loose") { Grammar::Loose } else { Grammar::Strict };
    let own = words.iter().filter(|word| !["items.", "keys.", "values."].iter().any(|family| word.starts_with(family)));
    for word in own.filter(|word| **word != "loose") {
        let (name, value) = match word.split_once('=') {
            Some((name, value)) => (name, serde_json::from_str(value).map_err(|error| format!("{word}: {error}"))?),
            None => (*word, Value::Bool(true)),
        };
        rules.push(read_rule(name, value, grammar).ok_or_else(|| format!("unknown rule {word}"))?);
    }
    Ok(rules.into())
}

fn read_rule(name: &str, value: Value, grammar: Grammar) -> Option<Rule> {
    let size = |value: &Value| value.as_u64().and_then(|size| usize::try_from(size).ok());
    let text = |value: Value| {
        if let Value::String(text) = value { Some(text) } else { None }
    };
    Some(match name {
        "required" => Rule::Required,
        "skip" => Rule::Skip,
        "ignore_empty" => Rule::IgnoreEmpty,
        "defined_only" => Rule::DefinedOnly,
        "unique" => Rule::Unique,
        "const" => Rule::Const(literal(value)?),
        "lt" => Rule::Bound(Bound::Lt, literal(value)?),
        "lte" => Rule::Bound(Bound::Lte, literal(value)?),
        "gt" => Rule::Bound(Bound::Gt, literal(value)?),
        "gte" => Rule::Bound(Bound::Gte, literal(value)?),
        "in" => Rule::In(literals(value)?),
        "not_in" => Rule::NotIn(literals(value)?),
        "min_len" => Rule::MinLen(size(&value)?),
        "max_len" => Rule::MaxLen(size(&value)?),
        "max_bytes" => Rule::MaxBytes(size(&value)?),
        "pattern" => Rule::Pattern(Pattern { source: text(value)?, compiled: OnceLock::new() }),
        "prefix" => Rule::Prefix(text(value)?),
        "suffix" => Rule::Suffix(text(value)?),
        "well_known_regex" if value == "http_header_name" => Rule::HeaderName(grammar),
        "well_known_regex" if value == "http_header_value" => Rule::HeaderValue(grammar),
        "min_items" | "min_pairs" => Rule::MinItems(size(&value)?),
        "max_items" => Rule::MaxItems(size(&value)?),
        _ => return None,
    })
}

fn literals(value: Value) -> Option<Box<[Literal]>> {
    let Value::Array(values) = value else { return None };
    values.into_iter().map(literal).collect()
}

fn literal(value: Value) -> Option<Literal> {
    Some(match value {
        Value::Bool(value) => Literal::Bool(value),
        Value::String(text) => Literal::Text(text),
        Value::Number(number) => match number.as_i128() {
            Some(whole) => Literal::Int(whole),
            None => Literal::Float(number.as_f64()?),
        },
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::envoy::schema::Schema;

    fn patterns<'a>(rules: &'a [Rule], found: &mut Vec<&'a Pattern>) {
        for rule in rules {
            match rule {
                Rule::Pattern(pattern) => found.push(pattern),
                Rule::Items(inner) | Rule::Keys(inner) | Rule::Values(inner) => patterns(inner, found),
                _ => {}
            }
        }
    }

    #[test]
    fn every_pattern_of_envoy_compiles() {
        let mut found = Vec::new();
        for field in Schema::get().messages().flat_map(|message| &message.fields) {
            patterns(&field.rules, &mut found);
        }
        assert!(found.len() > 10);
        for pattern in found {
            assert!(Regex::new(&pattern.source).is_ok(), "{}", pattern.source);
        }
    }

    #[test]
    fn inner_rules_belong_to_the_elements() {
        let rules = read_rules(&["items.loose", r#"items.well_known_regex="http_header_name""#, "unique"]).unwrap();
        let [Rule::Items(items), Rule::Unique] = &*rules else { panic!("{rules:?}") };
        assert!(matches!(**items, [Rule::HeaderName(Grammar::Loose)]));
    }

    #[test]
    fn an_unknown_rule_is_refused() {
        for word in ["uuid", "min_len=one", "min_len=-1", "items.uuid", r#"well_known_regex="other""#] {
            assert!(read_rules(&[word]).is_err(), "{word}");
        }
    }
}
