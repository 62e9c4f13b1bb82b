//! Holds a decoded message against the rules that Envoy's authors wrote on it, as Envoy does before it takes a resource.
//!
//! It works on canonical values. The rules reach through messages but not into an `Any`: there Envoy asks later, when it
//! knows the extension.

use std::cmp::Ordering;
use std::collections::HashSet;

use super::DecodeError;
use super::instant::{read_duration, write_duration};
use super::path::Place;
use super::rules::{Bound, Grammar, Literal, Rule};
use super::scalars;
use super::schema::{Field, Form, Kind, Label, Message, Scalar, Schema};
use crate::core::json::{Json, Shape, Tree};

/// The first rule that is broken, if any.
pub(super) fn check(message: &Message, value: Json<'_>) -> Result<(), DecodeError> {
    if message.form == Form::Fields { check_inner(message, value, &Place::Root) } else { Ok(()) }
}

fn check_message(message: &Message, object: Json<'_>, place: &Place<'_>) -> Result<(), DecodeError> {
    if !message.ruled {
        return Ok(());
    }
    for field in message.fields.iter().filter(|field| !field.rules.is_empty()) {
        let here = Place::Field(place, field.json);
        check_field(field, object.get(field.json), &here)?;
    }
    for (index, oneof) in (0..).zip(&message.oneofs).filter(|(_, oneof)| oneof.required) {
        let mut members = message.fields.iter().filter(|field| field.label == Label::Member(index));
        if !members.any(|field| object.get(field.json).is_some()) {
            let names: Vec<&str> = message
                .fields
                .iter()
                .filter(|field| field.label == Label::Member(index))
                .map(|field| field.json)
                .collect();
            return Err(broken(place, format!("needs one of {} ({})", names.join(", "), oneof.name)));
        }
    }
    for (key, value) in object.fields() {
        let Some(field) = message.field(key) else { continue };
        let Some(inner) = message_of(field) else { continue };
        let here = Place::Field(place, key);
        match field.label {
            Label::Repeated => {
                for (index, element) in value.items().enumerate() {
                    check_inner(inner, element, &Place::Index(&here, index))?;
                }
            }
            Label::Map(_) => {
                for (key, entry) in value.fields() {
                    check_inner(inner, entry, &Place::Key(&here, key))?;
                }
            }
            _ => check_inner(inner, value, &here)?,
        }
    }
    Ok(())
}

fn check_inner(message: &Message, value: Json<'_>, place: &Place<'_>) -> Result<(), DecodeError> {
    if value.is_object() { check_message(message, value, place) } else { Ok(()) }
}

/// The message of a field's values, if it has fields that rules can be on.
fn message_of(field: &Field) -> Option<&'static Message> {
    let Kind::Message(id) = field.kind else { return None };
    let message = Schema::get().message_at(id);
    let skipped = field.rules.iter().any(|rule| matches!(rule, Rule::Skip));
    (message.form == Form::Fields && !skipped).then_some(message)
}

fn check_field(field: &Field, value: Option<Json<'_>>, place: &Place<'_>) -> Result<(), DecodeError> {
    match (field.label, field.kind, value) {
        (Label::Repeated, ..) => check_list(field, value, place),
        (Label::Map(key_type), ..) => match value {
            Some(entries) => check_map(field, key_type, entries, place),
            None => check_size(&field.rules, 0, place),
        },
        (_, kind, Some(value)) => check_value(&field.rules, kind, value.shape(), place),
        (Label::Singular, Kind::Scalar(scalar), None) => {
            check_value(&field.rules, field.kind, scalars::zero(scalar).shape(), place)
        }
        (Label::Singular, Kind::Enum(_), None) => {
            check_value(&field.rules, field.kind, scalars::zero(Scalar::Int32).shape(), place)
        }
        (Label::Singular | Label::Optional, Kind::Message(_), None)
            if field.rules.iter().any(|rule| matches!(rule, Rule::Required)) =>
        {
            Err(broken(place, "is required".to_owned()))
        }
        // A member of a oneof that is not chosen.
        (_, _, None) => Ok(()),
    }
}

fn check_list(field: &Field, list: Option<Json<'_>>, place: &Place<'_>) -> Result<(), DecodeError> {
    let (count, elements) = (list.map_or(0, Tree::count), || list.into_iter().flat_map(Tree::items));
    if count == 0 && ignores_empty(&field.rules) {
        return Ok(());
    }
    check_size(&field.rules, count, place)?;
    for rule in &field.rules {
        match rule {
            Rule::Items(rules) => {
                for (index, element) in elements().enumerate() {
                    check_value(rules, field.kind, element.shape(), &Place::Index(place, index))?;
                }
            }
            Rule::Unique => {
                let mut seen = HashSet::new();
                if let Some(index) = elements().position(|element| !seen.insert(element.to_value())) {
                    return Err(broken(&Place::Index(place, index), "occurs twice".to_owned()));
                }
            }
            _ => {}
        }
    }
    Ok(())
}

fn check_map(field: &Field, key_type: Scalar, entries: Json<'_>, place: &Place<'_>) -> Result<(), DecodeError> {
    check_size(&field.rules, entries.count(), place)?;
    for rule in &field.rules {
        for (key, value) in entries.fields() {
            let here = Place::Key(place, key);
            match rule {
                Rule::Keys(rules) => check_value(rules, Kind::Scalar(key_type), Shape::Text(key), &here)?,
                Rule::Values(rules) => check_value(rules, field.kind, value.shape(), &here)?,
                _ => break,
            }
        }
    }
    Ok(())
}

fn check_size(rules: &[Rule], size: usize, place: &Place<'_>) -> Result<(), DecodeError> {
    for rule in rules {
        match rule {
            Rule::MinItems(_) if size == 0 => return Err(broken(place, "may not be empty".to_owned())),
            Rule::MinItems(least) if size < *least => {
                return Err(broken(place, format!("has {size} entries and needs at least {least}")));
            }
            Rule::MaxItems(most) if size > *most => {
                return Err(broken(place, format!("has {size} entries and may have at most {most}")));
            }
            _ => {}
        }
    }
    Ok(())
}

fn check_value(rules: &[Rule], kind: Kind, shape: Shape<'_>, place: &Place<'_>) -> Result<(), DecodeError> {
    let subject = Subject::of(kind, shape);
    if ignores_empty(rules) && subject.is_zero() {
        return Ok(());
    }
    for rule in rules {
        if let Some(reason) = subject.breaks(rule, kind, shape) {
            return Err(broken(place, reason));
        }
    }
    Ok(())
}

fn ignores_empty(rules: &[Rule]) -> bool {
    rules.iter().any(|rule| matches!(rule, Rule::IgnoreEmpty))
}

/// A canonical value as rules see it: wrappers unwrapped, enums as numbers, durations in nanoseconds.
enum Subject<'a> {
    Bool(bool),
    Int(i128),
    Float(f64),
    Text(&'a str),
    Bytes(Vec<u8>),
    /// A message; only its presence counts.
    Other,
}

impl<'a> Subject<'a> {
    fn of(kind: Kind, shape: Shape<'a>) -> Self {
        let known = match kind {
            Kind::Scalar(Scalar::Bool) => match shape {
                Shape::Bool(flag) => Some(Self::Bool(flag)),
                _ => None,
            },
            Kind::Scalar(Scalar::String) => shape.as_text().map(Self::Text),
            Kind::Scalar(Scalar::Bytes) => shape.as_text().and_then(scalars::read_bytes).map(Self::Bytes),
            Kind::Scalar(Scalar::Float | Scalar::Double) => scalars::read_float(shape).map(Self::Float),
            Kind::Scalar(_) => scalars::read_whole(shape).map(Self::Int),
            Kind::Enum(id) => match shape.as_text() {
                Some(name) => Schema::get().enumeration(id).number(name).map(i128::from).map(Self::Int),
                None => scalars::read_whole(shape).map(Self::Int),
            },
            Kind::Message(id) => {
                let message = Schema::get().message_at(id);
                match message.form {
                    Form::Wrapper => Some(Self::of(message.fields[0].kind, shape)),
                    Form::Duration => shape.as_text().and_then(read_duration).map(Self::Int),
                    _ => None,
                }
            }
        };
        known.unwrap_or(Self::Other)
    }

    fn is_zero(&self) -> bool {
        match self {
            Self::Bool(value) => !value,
            Self::Int(number) => *number == 0,
            Self::Float(number) => *number == 0.0,
            Self::Text(text) => text.is_empty(),
            Self::Bytes(bytes) => bytes.is_empty(),
            Self::Other => false,
        }
    }

    /// Why the rule does not hold.
    fn breaks(&self, rule: &Rule, kind: Kind, shape: Shape<'_>) -> Option<String> {
        let shown = || scalars::shown(shape);
        let reason = |holds: bool, reason: &dyn Fn() -> String| (!holds).then(reason);
        match rule {
            Rule::Const(wanted) => {
                reason(self.equals(wanted), &|| format!("is {} and must be {}", shown(), spelled(wanted, kind)))
            }
            Rule::In(allowed) => reason(allowed.iter().any(|one| self.equals(one)), &|| {
                let allowed: Vec<String> = allowed.iter().map(|one| spelled(one, kind)).collect();
                format!("is {} and must be one of {}", shown(), allowed.join(", "))
            }),
            Rule::NotIn(refused) => {
                reason(!refused.iter().any(|one| self.equals(one)), &|| format!("{} is not permitted", shown()))
            }
            Rule::Bound(bound, limit) => reason(self.within(*bound, limit), &|| {
                format!("is {} and must be {} {}", shown(), bound.words(), spelled(limit, kind))
            }),
            Rule::DefinedOnly => {
                let Kind::Enum(id) = kind else { return None };
                let Self::Int(number) = self else { return None };
                let known =
                    i32::try_from(*number).is_ok_and(|number| Schema::get().enumeration(id).name_of(number).is_some());
                reason(known, &|| format!("{number} is no value of this enum"))
            }
            Rule::MinLen(1) => reason(self.length()? >= 1, &|| "may not be empty".to_owned()),
            Rule::MinLen(least) => {
                let length = self.length()?;
                reason(length >= *least, &|| format!("has {length} characters and needs at least {least}"))
            }
            Rule::MaxLen(most) => {
                let length = self.length()?;
                reason(length <= *most, &|| format!("has {length} characters and may have at most {most}"))
            }
            Rule::MaxBytes(most) => {
                let length = self.text()?.len();
                reason(length <= *most, &|| format!("has {length} bytes and may have at most {most}"))
            }
            Rule::Pattern(pattern) => {
                reason(pattern.matches(self.text()?), &|| format!("{} does not match {}", shown(), pattern.source))
            }
            Rule::Prefix(prefix) => {
                reason(self.text()?.starts_with(prefix), &|| format!("{} must start with {prefix}", shown()))
            }
            Rule::Suffix(suffix) => {
                reason(self.text()?.ends_with(suffix), &|| format!("{} must end with {suffix}", shown()))
            }
            Rule::HeaderName(grammar) => {
                reason(is_header_name(self.text()?, *grammar), &|| format!("{} is not a header name", shown()))
            }
            Rule::HeaderValue(grammar) => reason(is_header_value(self.text()?, *grammar), &|| {
                format!("{} is not a header value; control characters are not permitted", shown())
            }),
            // About presence, or about lists and maps: seen to by the callers.
            Rule::Required | Rule::Skip | Rule::IgnoreEmpty | Rule::Unique => None,
            Rule::MinItems(_) | Rule::MaxItems(_) | Rule::Items(_) | Rule::Keys(_) | Rule::Values(_) => None,
        }
    }

    fn text(&self) -> Option<&str> {
        if let Self::Text(text) = self { Some(text) } else { None }
    }

    fn length(&self) -> Option<usize> {
        match self {
            Self::Text(text) => Some(text.chars().count()),
            Self::Bytes(bytes) => Some(bytes.len()),
            _ => None,
        }
    }

    fn compare(&self, literal: &Literal) -> Option<Ordering> {
        #[expect(clippy::cast_precision_loss, reason = "bounds of floating-point fields are small numbers")]
        match (self, literal) {
            (Self::Bool(a), Literal::Bool(b)) => Some(a.cmp(b)),
            (Self::Int(a), Literal::Int(b)) => Some(a.cmp(b)),
            (Self::Int(a), Literal::Float(b)) => (*a as f64).partial_cmp(b),
            (Self::Float(a), Literal::Int(b)) => a.partial_cmp(&(*b as f64)),
            (Self::Float(a), Literal::Float(b)) => a.partial_cmp(b),
            (Self::Text(a), Literal::Text(b)) => Some((*a).cmp(b)),
            _ => None,
        }
    }

    fn equals(&self, literal: &Literal) -> bool {
        self.compare(literal) == Some(Ordering::Equal)
    }

    fn within(&self, bound: Bound, limit: &Literal) -> bool {
        let Some(order) = self.compare(limit) else {
            return matches!(self, Self::Other);
        };
        match bound {
            Bound::Lt => order.is_lt(),
            Bound::Lte => order.is_le(),
            Bound::Gt => order.is_gt(),
            Bound::Gte => order.is_ge(),
        }
    }
}

impl Bound {
    fn words(self) -> &'static str {
        match self {
            Self::Lt => "less than",
            Self::Lte => "at most",
            Self::Gt => "greater than",
            Self::Gte => "at least",
        }
    }
}

fn is_header_name(text: &str, grammar: Grammar) -> bool {
    match grammar {
        // Empty as well: where a name is needed, another rule says so.
        Grammar::Loose => is_header_value(text, grammar),
        Grammar::Strict => {
            let name = text.strip_prefix(':').unwrap_or(text);
            // A comma is no token of RFC 7230, but the rule's own expression has the range from + to the full stop.
            let token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+,-.^_|~`".contains(&byte);
            !name.is_empty() && name.bytes().all(token)
        }
    }
}

fn is_header_value(text: &str, grammar: Grammar) -> bool {
    match grammar {
        Grammar::Loose => !text.contains(['\0', '\n', '\r']),
        Grammar::Strict => !text.chars().any(|letter| letter != '\t' && letter.is_ascii_control()),
    }
}

/// A literal of a rule as a user would write the value.
fn spelled(literal: &Literal, kind: Kind) -> String {
    let schema = Schema::get();
    match (literal, kind) {
        (Literal::Int(nanos), Kind::Message(id)) if schema.message_at(id).form == Form::Duration => {
            write_duration(*nanos)
        }
        (Literal::Int(number), Kind::Enum(id)) => {
            let name = i32::try_from(*number).ok().and_then(|number| schema.enumeration(id).name_of(number));
            name.map_or_else(|| number.to_string(), str::to_owned)
        }
        (Literal::Int(number), _) => number.to_string(),
        (Literal::Float(number), _) => number.to_string(),
        (Literal::Bool(value), _) => value.to_string(),
        (Literal::Text(text), _) => format!("{text:?}"),
    }
}

fn broken(place: &Place<'_>, reason: String) -> DecodeError {
    DecodeError::Constraint { path: place.path(), reason }
}

#[cfg(test)]
mod tests;
