//! Structural schemas, as CustomResourceDefinitions have them, and what an API server refuses by them.
//!
//! The walk does what a server of today does, not what the standard says: a field with null is one that is left out, a
//! text is told its first fault only, and formats of numbers bind nobody.

use std::collections::{BTreeMap, BTreeSet};

use regex::Regex;
use serde_json::{Map, Number, Value};

use super::json::{Shape, Tree};
use super::nearest;
use super::problem::{FieldPath, Problem, Reason};

/// A schema, ready to be walked.
#[derive(Debug, Default)]
pub struct Schema {
    kind: Option<Kind>,
    nullable: bool,
    default: Option<Value>,
    /// The values that are allowed, unless there are none.
    words: Vec<Value>,
    pattern: Option<Regex>,
    length: Bounds<usize>,
    range: Bounds<f64>,
    count: Bounds<usize>,
    items: Option<Box<Schema>>,
    /// Fields that tell the elements of a list apart.
    keys: Vec<String>,
    properties: BTreeMap<String, Schema>,
    additional: Option<Box<Schema>>,
    required: Vec<String>,
    /// Whether unknown fields are kept.
    open: bool,
    any_of: Vec<Schema>,
}

/// What is found in a document.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Findings {
    /// Why it is refused.
    pub refused: Vec<Problem>,
    /// Fields that are dropped, because nobody knows them.
    pub unknown: Vec<Problem>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Object,
    List,
    Text,
    Integer,
    Number,
    Flag,
    IntegerOrText,
}

#[derive(Clone, Copy, Debug)]
struct Bounds<T> {
    least: Option<T>,
    most: Option<T>,
}

impl<T> Default for Bounds<T> {
    fn default() -> Self {
        Self { least: None, most: None }
    }
}

/// Where the walk is. It becomes a [`FieldPath`] only when there is something to say.
#[derive(Clone, Copy)]
enum Place<'p> {
    Root(&'p FieldPath),
    Field(&'p Place<'p>, &'p str),
    Key(&'p Place<'p>, &'p str),
    Index(&'p Place<'p>, usize),
}

/// Why a schema cannot be walked.
#[derive(Debug, thiserror::Error)]
pub enum Unreadable {
    #[error("the keyword {0} is not understood")]
    Keyword(String),
    #[error(transparent)]
    Pattern(#[from] regex::Error),
}

/// Every keyword that the walk obeys, or that has nothing to do with what is refused.
const KEYWORDS: &[&str] = &[
    "additionalProperties",
    "anyOf",
    "default",
    "description",
    "enum",
    "format",
    "items",
    "maxItems",
    "maxLength",
    "maximum",
    "minItems",
    "minLength",
    "minimum",
    "nullable",
    "pattern",
    "properties",
    "required",
    "type",
    "x-kubernetes-int-or-string",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-list-type",
    "x-kubernetes-preserve-unknown-fields",
];

impl Schema {
    /// Reads an `openAPIV3Schema`.
    pub fn read(schema: &Value) -> Result<Self, Unreadable> {
        Self::read_sharing(schema, &mut BTreeMap::new())
    }

    /// The same with the patterns that were there before: a schema repeats a few of them many times.
    fn read_sharing<'s>(schema: &'s Value, patterns: &mut BTreeMap<&'s str, Regex>) -> Result<Self, Unreadable> {
        let keywords = schema.as_object().into_iter().flat_map(Map::keys);
        if let Some(strange) = keywords.into_iter().find(|keyword| !KEYWORDS.contains(&keyword.as_str())) {
            return Err(Unreadable::Keyword(strange.clone()));
        }
        let flag = |keyword: &str| schema.get(keyword) == Some(&Value::Bool(true));
        let count = |keyword: &str| schema.get(keyword).and_then(Value::as_u64).and_then(|n| usize::try_from(n).ok());
        let number = |keyword: &str| schema.get(keyword).and_then(Value::as_f64);
        let list = |keyword: &str| schema.get(keyword).and_then(Value::as_array).into_iter().flatten();
        let texts = |keyword: &str| list(keyword).filter_map(Value::as_str).map(str::to_owned).collect();
        let pattern = match schema.get("pattern").and_then(Value::as_str) {
            Some(text) => {
                if !patterns.contains_key(text) {
                    patterns.insert(text, Regex::new(text)?);
                }
                patterns.get(text).cloned()
            }
            None => None,
        };
        let mut below = |keyword: &str| {
            let schema = schema.get(keyword).filter(|schema| schema.is_object());
            schema.map(|schema| Self::read_sharing(schema, patterns).map(Box::new)).transpose()
        };
        let (items, additional) = (below("items")?, below("additionalProperties")?);
        let mut properties = BTreeMap::new();
        for (name, property) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
            properties.insert(name.clone(), Self::read_sharing(property, patterns)?);
        }
        let any_of = list("anyOf").map(|alternative| Self::read_sharing(alternative, patterns));
        let any_of = any_of.collect::<Result<_, _>>()?;
        Ok(Self {
            kind: if flag("x-kubernetes-int-or-string") {
                Some(Kind::IntegerOrText)
            } else {
                schema.get("type").and_then(Value::as_str).and_then(Kind::parse)
            },
            nullable: flag("nullable"),
            default: schema.get("default").cloned(),
            words: list("enum").cloned().collect(),
            pattern,
            length: Bounds { least: count("minLength"), most: count("maxLength") },
            range: Bounds { least: number("minimum"), most: number("maximum") },
            count: Bounds { least: count("minItems"), most: count("maxItems") },
            items,
            keys: texts("x-kubernetes-list-map-keys"),
            properties,
            additional,
            required: texts("required"),
            open: flag("x-kubernetes-preserve-unknown-fields"),
            any_of,
        })
    }

    /// The schema of a field.
    pub fn property(&self, name: &str) -> Option<&Self> {
        self.properties.get(name)
    }

    /// What is wrong with a value that stands at `path`.
    pub fn check<'v>(&self, value: impl Tree<'v>, path: &FieldPath) -> Findings {
        let mut findings = Findings::default();
        self.walk(value, Place::Root(path), &mut findings);
        findings
    }

    fn walk<'v>(&self, value: impl Tree<'v>, place: Place<'_>, findings: &mut Findings) {
        if value.is_null() && self.nullable {
            return;
        }
        let shape = value.shape();
        if let Some(kind) = self.kind.filter(|kind| !kind.fits(shape)) {
            findings.refuse(place, Reason::Format, format!("must be {}, not {}", kind.name(), shape.describe()));
            return;
        }
        if !self.words.is_empty() && !self.words.iter().any(|word| value.equals(word)) {
            findings.refuse(place, place.reason_of_enum(), unknown_word(&value.to_value(), &self.words));
        }
        match shape {
            Shape::Text(text) => self.check_text(text, place, findings),
            Shape::Number(number) => self.check_number(number, place, findings),
            Shape::List => self.walk_list(value, place, findings),
            Shape::Object => self.walk_object(value, place, findings),
            Shape::Null | Shape::Bool(_) => {}
        }
    }

    fn check_text(&self, text: &str, place: Place<'_>, findings: &mut Findings) {
        let Bounds { least, most } = self.length;
        // Counting is for texts that are near a bound only: no character has fewer bytes than one, or more than four.
        let too_long = most.filter(|most| text.len() > *most && text.chars().count() > *most);
        let too_short = least.filter(|least| text.len() < least * 4 && text.chars().count() < *least);
        if let Some(most) = too_long {
            findings.refuse(place, Reason::Range, format!("longer than {most} characters"));
        } else if let Some(least) = too_short {
            findings.refuse(place, Reason::Empty, empty_or("characters", least));
        } else if let Some(pattern) = self.pattern.as_ref().filter(|pattern| !pattern.is_match(text)) {
            let hint = if pattern.is_match(&text.to_lowercase()) { "; write it in lower case" } else { "" };
            findings.refuse(place, Reason::Format, format!("malformed: `{text}` does not match {pattern}{hint}"));
        }
    }

    fn check_number(&self, number: &Number, place: Place<'_>, findings: &mut Findings) {
        let Bounds { least, most } = self.range;
        let Some(value) = number.as_f64() else { return };
        if least.is_some_and(|least| value < least) || most.is_some_and(|most| value > most) {
            let message = match (least, most) {
                (Some(least), Some(most)) => format!("{number} is outside [{least},{most}]"),
                (Some(least), None) => format!("{number} is below {least}"),
                (None, most) => format!("{number} is above {}", most.unwrap_or_default()),
            };
            findings.refuse(place, Reason::Range, message);
        }
    }

    fn walk_list<'v>(&self, list: impl Tree<'v>, place: Place<'_>, findings: &mut Findings) {
        let (Bounds { least, most }, count) = (self.count, list.count());
        if let Some(least) = least.filter(|least| count < *least) {
            findings.refuse(place, Reason::Empty, empty_or("entries", least));
        }
        if let Some(most) = most.filter(|most| count > *most) {
            findings.refuse(place, Reason::Range, format!("{count} entries are more than {most}"));
        }
        if let Some(schema) = &self.items {
            for (index, item) in list.items().enumerate() {
                schema.walk(item, Place::Index(&place, index), findings);
            }
        }
        self.refuse_repeated(list, place, findings);
    }

    fn refuse_repeated<'v>(&self, list: impl Tree<'v>, place: Place<'_>, findings: &mut Findings) {
        let (Some(schema), false) = (&self.items, self.keys.is_empty()) else { return };
        let mut seen = BTreeSet::new();
        for (index, item) in list.items().enumerate() {
            let key = |name: &String| match item.get(name) {
                Some(value) => Some(value.to_value().to_string()),
                None => schema.property(name)?.default.as_ref().map(Value::to_string),
            };
            let Some(key) = self.keys.iter().map(key).collect::<Option<Vec<_>>>() else { continue };
            if !seen.insert(key) {
                let message = format!("duplicate: an earlier entry has the same {}", self.keys.join(" and "));
                findings.refuse(Place::Index(&place, index), Reason::Duplicate, message);
            }
        }
    }

    fn walk_object<'v>(&self, object: impl Tree<'v>, place: Place<'_>, findings: &mut Findings) {
        for name in &self.required {
            let given = object.get(name).is_some_and(|value| !value.is_null());
            let defaulted = || self.property(name).is_some_and(|schema| schema.default.is_some());
            if !given && !defaulted() {
                findings.refuse(Place::Field(&place, name), Reason::Required, "required");
            }
        }
        for (name, value) in object.fields().filter(|(_, value)| !value.is_null()) {
            if let Some(schema) = self.property(name) {
                schema.walk(value, Place::Field(&place, name), findings);
            } else if let Some(schema) = &self.additional {
                schema.walk(value, Place::Key(&place, name), findings);
            } else if self.drops_unknown() {
                let hint = nearest::hint(name, self.properties.keys().map(String::as_str));
                let message = format!("unknown field, it has no effect; {hint}");
                let path = Place::Field(&place, name).path();
                findings.unknown.push(Problem::new(&path, Reason::Unknown, message));
            }
        }
        self.need_any(object, place, findings);
    }

    /// An object without described fields is one like `metadata`, which the server knows better.
    fn drops_unknown(&self) -> bool {
        !self.open && !self.properties.is_empty()
    }

    fn need_any<'v>(&self, object: impl Tree<'v>, place: Place<'_>, findings: &mut Findings) {
        let mut first = None;
        for alternative in &self.any_of {
            let mut tried = Findings::default();
            alternative.walk_object(object, place, &mut tried);
            if tried.refused.is_empty() {
                return;
            }
            first.get_or_insert(tried);
        }
        findings.refused.extend(first.into_iter().flat_map(|tried| tried.refused));
    }
}

impl Findings {
    fn refuse(&mut self, place: Place<'_>, reason: Reason, message: impl Into<String>) {
        self.refused.push(Problem::new(place.path(), reason, message));
    }
}

impl Kind {
    fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "object" => Self::Object,
            "array" => Self::List,
            "string" => Self::Text,
            "integer" => Self::Integer,
            "number" => Self::Number,
            "boolean" => Self::Flag,
            _ => return None,
        })
    }

    fn name(self) -> &'static str {
        match self {
            Self::Object => "a mapping",
            Self::List => "a list",
            Self::Text => "text",
            Self::Integer => "a whole number",
            Self::Number => "a number",
            Self::Flag => "true or false",
            Self::IntegerOrText => "a whole number, or text such as \"99.5\"",
        }
    }

    fn fits(self, shape: Shape<'_>) -> bool {
        match (self, shape) {
            (Self::Object, Shape::Object)
            | (Self::List, Shape::List)
            | (Self::Text | Self::IntegerOrText, Shape::Text(_))
            | (Self::Number, Shape::Number(_))
            | (Self::Flag, Shape::Bool(_)) => true,
            (Self::Integer | Self::IntegerOrText, Shape::Number(number)) => is_integer(number),
            _ => false,
        }
    }
}

/// Whole numbers, also those that are written with a fraction of zero, as far as a server can hold them exactly.
fn is_integer(number: &Number) -> bool {
    const EXACT: f64 = 9_007_199_254_740_991.0;
    number.is_i64() || (number.is_f64() && number.as_f64().is_some_and(|n| n.fract() == 0.0 && n.abs() <= EXACT))
}

fn empty_or(what: &str, least: usize) -> String {
    if least == 1 { "may not be empty".to_owned() } else { format!("fewer than {least} {what}") }
}

fn unknown_word(given: &Value, known: &[Value]) -> String {
    let plain = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let known: Vec<_> = known.iter().map(plain).collect();
    format!("unknown value `{}`; known: {}", plain(given), known.join(", "))
}

impl Place<'_> {
    fn path(&self) -> FieldPath {
        match self {
            Self::Root(path) => (*path).clone(),
            Self::Field(parent, name) => parent.path().field((*name).to_owned()),
            Self::Key(parent, key) => parent.path().key(*key),
            Self::Index(parent, index) => parent.path().index(*index),
        }
    }

    /// Kinds of references have a class of their own.
    fn reason_of_enum(&self) -> Reason {
        if matches!(self, Self::Field(_, "kind")) { Reason::Kind } else { Reason::Enum }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// What is refused and what is unknown, each as path and class.
    #[track_caller]
    fn found(schema: &Value, value: &Value) -> (Vec<String>, Vec<String>) {
        let schema = Schema::read(schema).expect("a test writes patterns that are well formed");
        let Findings { refused, unknown } = schema.check(value, &FieldPath::root().field("spec"));
        let listed = |problems: Vec<Problem>| {
            problems.iter().map(|problem| format!("{} {}", problem.field, problem.reason.as_str())).collect()
        };
        (listed(refused), listed(unknown))
    }

    #[track_caller]
    fn check(schema: &Value, value: &Value, refused: &[&str]) {
        assert_eq!(found(schema, value).0, refused, "{value} by {schema}");
    }

    fn list(schema: &Value) -> Value {
        json!({"type": "array", "items": schema})
    }

    #[test]
    fn what_is_not_understood_is_not_passed_over() {
        let nested = json!({"type": "object", "properties": {"a": {"type": "integer", "multipleOf": 2}}});
        assert_eq!(
            Schema::read(&nested).map(drop).map_err(|error| error.to_string()),
            Err("the keyword multipleOf is not understood".to_owned())
        );
        assert!(matches!(Schema::read(&json!({"pattern": "("})), Err(Unreadable::Pattern(_))));
    }

    #[test]
    fn types() {
        for (kind, fitting) in [
            ("object", json!({})),
            ("array", json!([])),
            ("string", json!("")),
            ("integer", json!(-5)),
            ("number", json!(5.5)),
            ("boolean", json!(false)),
        ] {
            for value in [json!({}), json!([]), json!(""), json!(-5), json!(5.5), json!(false), json!(null)] {
                let fits = value == fitting || (kind == "number" && value.is_number());
                check(&json!({"type": kind}), &value, if fits { &[] } else { &["spec FORMAT"] });
            }
        }
    }

    #[test]
    fn whole_numbers() {
        for (value, fits) in [
            (json!(5.0), true),
            (json!(3_000_000_000_u64), true),
            (json!(i64::MIN), true),
            (json!(u64::MAX), false),
            (json!(1e20), false),
            (json!("5"), false),
        ] {
            check(&json!({"type": "integer", "format": "int32"}), &value, if fits { &[] } else { &["spec FORMAT"] });
        }
        let either = json!({"x-kubernetes-int-or-string": true});
        check(&list(&either), &json!([5, "5.5", 5.5, true]), &["spec[2] FORMAT", "spec[3] FORMAT"]);
    }

    #[test]
    fn words() {
        let reference = json!({"type": "object", "properties": {
            "kind": {"type": "string", "enum": ["Mesh"]}, "status": {"type": "integer", "enum": [301, 302]},
        }});
        check(&reference, &json!({"kind": "", "status": 300}), &["spec.kind KIND", "spec.status ENUM"]);
        check(&reference, &json!({"kind": "Mesh", "status": 302}), &[]);
        check(&reference, &json!({"kind": 5}), &["spec.kind FORMAT"]);
    }

    #[test]
    fn texts_hear_of_their_first_fault() {
        let name = json!({"type": "string", "minLength": 2, "maxLength": 3, "pattern": "^[a-zä]+$"});
        check(
            &list(&name),
            &json!(["a", "abcd", "A1", "ab", "äää", "ä"]),
            &["spec[0] EMPTY", "spec[1] RANGE", "spec[2] FORMAT", "spec[5] EMPTY"],
        );
    }

    #[test]
    fn bounds() {
        let port = json!({"type": "integer", "minimum": 1, "maximum": 65535});
        check(&list(&port), &json!([0, 1, 65535, 65536]), &["spec[0] RANGE", "spec[3] RANGE"]);
        let some = json!({"type": "array", "minItems": 1, "maxItems": 2, "items": {"type": "string"}});
        check(&some, &json!([]), &["spec EMPTY"]);
        check(&some, &json!(["a", "b", 1]), &["spec RANGE", "spec[2] FORMAT"]);
    }

    #[test]
    fn null_is_absence_except_in_lists() {
        let schema = json!({"type": "object", "required": ["a", "d"], "properties": {
            "a": {"type": "string"}, "b": {"type": "string"}, "d": {"type": "string", "default": "x"},
            "l": {"type": "array", "items": {"type": "string"}},
            "m": {"type": "object", "additionalProperties": {"type": "string"}},
        }});
        check(
            &schema,
            &json!({"a": null, "b": null, "l": [null], "m": {"x": null}}),
            &["spec.a REQ", "spec.l[0] FORMAT"],
        );
        check(&json!({"type": "string", "nullable": true}), &json!(null), &[]);
    }

    #[test]
    fn maps_have_keys() {
        let labels = json!({"type": "object", "additionalProperties": {"type": "string"}});
        let expected = (vec![r#"spec["kuma.io/x"] FORMAT"#.to_owned()], Vec::new());
        assert_eq!(found(&labels, &json!({"kuma.io/x": 1, "b": "c"})), expected);
    }

    #[test]
    fn unknown_fields_are_told_apart() {
        let closed = json!({"type": "object", "properties": {"timeout": {"type": "string"}}});
        assert_eq!(found(&closed, &json!({"timeuot": 1})), (Vec::new(), vec!["spec.timeuot UNKNOWN".to_owned()]));
        let mut open = closed;
        open["x-kubernetes-preserve-unknown-fields"] = true.into();
        assert_eq!(found(&open, &json!({"timeuot": 1})), Default::default());
        assert_eq!(found(&json!({"type": "object"}), &json!({"anything": 1})), Default::default());
    }

    #[test]
    fn an_open_value_may_be_described_for_each_type() {
        let one = json!({"a": {"type": "string"}});
        let schema = json!({
            "x-kubernetes-preserve-unknown-fields": true, "properties": one,
            "items": {"type": "object", "properties": one},
        });
        check(&schema, &json!({"a": 1}), &["spec.a FORMAT"]);
        check(&schema, &json!([{"a": 1}]), &["spec[0].a FORMAT"]);
        check(&schema, &json!("anything"), &[]);
    }

    #[test]
    fn one_of_several_forms_suffices() {
        let schema = json!({
            "type": "object",
            "properties": {"a": {"type": "string"}, "b": {"type": "object", "properties": {"c": {"type": "string"}}}},
            "anyOf": [
                {"required": ["a"]},
                {"required": ["b"], "properties": {"b": {"required": ["c"]}}},
            ],
        });
        check(&schema, &json!({"a": ""}), &[]);
        check(&schema, &json!({"b": {"c": ""}}), &[]);
        check(&schema, &json!({"b": {}}), &["spec.a REQ"]);
        assert_eq!(found(&schema, &json!({"a": "", "b": {}})), Default::default());
    }

    #[test]
    fn keys_of_lists_are_told_apart() {
        let ports = json!({
            "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["port", "protocol"],
            "items": {"type": "object", "properties": {
                "port": {"type": "integer"}, "protocol": {"type": "string", "default": "tcp"},
            }},
        });
        check(
            &ports,
            &json!([{"port": 1}, {"port": 1, "protocol": "http"}, {"port": 1, "protocol": "tcp"}, {}, {}]),
            &["spec[2] DUP"],
        );
    }
}
