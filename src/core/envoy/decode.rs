//! Reads an embedded Envoy document by the message it should be, and gives it back as canonical proto JSON.
//!
//! Reading is lenient where Envoy's own control planes are: both spellings of a key, enums by name or number, durations with
//! any unit of Go, integers as text, null for absent; of two members of a oneof the one declared last wins. What is not
//! understood but harmless (an unknown key, an unknown type in an `Any`) is noted, not refused.
//!
//! Canonical means: camelCase, absent where zero and absent are the same, enums by name, 64-bit integers as text, durations
//! with 0, 3, 6 or 9 digits, and for an `Any` the fields of its message beside `@type`.

use std::fmt;

use serde_json::{Map, Value};

use super::constraints;
use super::instant::{normalise_timestamp, read_duration, write_duration};
use super::path::Place;
use super::scalars::{self, shown};
use super::schema::{Field, Form, Kind, Label, Message, Schema};
use crate::core::nearest::nearest;
use crate::core::problem::FieldPath;

/// What a modification embeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageType {
    Cluster,
    Listener,
    RouteConfiguration,
    VirtualHost,
    NetworkFilter,
    HttpFilter,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strictness {
    /// A resource of its own: Envoy's constraints hold, through messages but not inside an `Any`.
    Whole,
    /// A part to be merged into a resource: it only has to decode.
    Partial,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Decoded {
    /// Canonical proto JSON.
    pub value: Value,
    pub notes: Vec<Note>,
}

/// Something that was set aside or taken as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// Inside the document.
    pub path: FieldPath,
    pub remark: Remark,
}

#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Remark {
    /// A key that the message does not have; it is ignored.
    UnknownKey { nearest: Option<&'static str> },
    /// A value that another one displaces: the other spelling, or a member of the same oneof that is declared later.
    Superseded { by: &'static str },
    /// The message of an `Any` is not known; its content is kept unread.
    OpaqueType { url: String },
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// Not this message.
    #[error("{}", placed(path, reason))]
    Malformed { path: FieldPath, reason: String },
    /// This message, but against a constraint of Envoy's.
    #[error("{}", placed(path, reason))]
    Constraint { path: FieldPath, reason: String },
}

/// How deep a document may be nested.
const DEEPEST: usize = 128;
/// How many unknown keys are worth a guess at what was meant: a guess takes longer than all the rest.
const MOST_GUESSES: usize = 32;
/// Where an `Any` names its message.
const TYPE_KEY: &str = "@type";

pub fn decode(message: MessageType, document: &Value, strictness: Strictness) -> Result<Decoded, DecodeError> {
    let filter = matches!(message, MessageType::NetworkFilter | MessageType::HttpFilter);
    let message = message.message();
    if filter && let Some((url, filter, config)) = unfold(message, document) {
        return decode_unfolded(message, url, &filter, config, strictness);
    }
    decode_message(message, document, strictness)
}

/// Decodes a message by its full name, such as the content of a filter's typed config; `None` if there is no such message.
pub fn decode_as(name: &str, document: &Value, strictness: Strictness) -> Option<Result<Decoded, DecodeError>> {
    Schema::get().message(name).map(|message| decode_message(message, document, strictness))
}

fn decode_message(message: &'static Message, document: &Value, strictness: Strictness) -> Result<Decoded, DecodeError> {
    let mut decoder = Decoder::new();
    let empty = Value::Object(Map::new());
    let document = if document.is_null() && message.form == Form::Fields { &empty } else { document };
    let value = decoder.message(message, document, &Place::Root)?;
    decoder.finish(message, value, strictness)
}

/// A filter in the short form `typedConfig: URL` with the configuration beside it: the URL, the filter's own part, the rest.
fn unfold<'d>(message: &Message, document: &'d Value) -> Option<(&'d str, Value, Map<String, Value>)> {
    let document = document.as_object()?;
    let url = document.get("typedConfig").or_else(|| document.get("typed_config"))?.as_str()?;
    let mut filter = Map::new();
    let mut config = Map::new();
    for (key, value) in document {
        match message.field(key).map(|field| field.json) {
            Some("typedConfig") => {}
            Some(_) => drop(filter.insert(key.clone(), value.clone())),
            None => drop(config.insert(key.clone(), value.clone())),
        }
    }
    config.insert(TYPE_KEY.to_owned(), url.into());
    Some((url, filter.into(), config))
}

fn decode_unfolded(
    message: &'static Message,
    url: &str,
    filter: &Value,
    config: Map<String, Value>,
    strictness: Strictness,
) -> Result<Decoded, DecodeError> {
    let root = Place::Root;
    let here = Place::Field(&root, "typedConfig");
    if url.is_empty() {
        return Err(malformed(&here, "is empty; write the type URL of the configuration".to_owned()));
    }
    let mut decoder = Decoder::new();
    let mut value = decoder.message(message, filter, &root)?;
    let config = decoder.any(&config.into(), &root)?;
    if let Some(filter) = value.as_object_mut() {
        if filter.contains_key("configDiscovery") {
            decoder.note(&here, Remark::Superseded { by: "configDiscovery" });
        } else {
            filter.insert("typedConfig".to_owned(), config);
        }
    }
    decoder.finish(message, value, strictness)
}

struct Decoder {
    schema: &'static Schema,
    notes: Vec<Note>,
    depth: usize,
}

impl Decoder {
    fn new() -> Self {
        Self { schema: Schema::get(), notes: Vec::new(), depth: 0 }
    }

    fn finish(self, message: &Message, value: Value, strictness: Strictness) -> Result<Decoded, DecodeError> {
        if strictness == Strictness::Whole {
            constraints::check(message, &value)?;
        }
        Ok(Decoded { value, notes: self.notes })
    }

    fn note(&mut self, place: &Place<'_>, remark: Remark) {
        self.notes.push(Note { path: place.path(), remark });
    }

    /// Runs `read` one level deeper, or refuses to.
    fn deeper<T>(
        &mut self,
        place: &Place<'_>,
        read: impl FnOnce(&mut Self) -> Result<T, DecodeError>,
    ) -> Result<T, DecodeError> {
        if self.depth == DEEPEST {
            return Err(malformed(place, format!("nested deeper than {DEEPEST} levels")));
        }
        self.depth += 1;
        let result = read(self);
        self.depth -= 1;
        result
    }

    fn message(&mut self, message: &'static Message, value: &Value, place: &Place<'_>) -> Result<Value, DecodeError> {
        self.deeper(place, |this| this.by_form(message, value, place))
    }

    fn by_form(&mut self, message: &'static Message, value: &Value, place: &Place<'_>) -> Result<Value, DecodeError> {
        let refuse = |reason: String| Err(malformed(place, reason));
        match message.form {
            Form::Fields | Form::Empty => match value {
                Value::Object(object) => self.fields(message, object, None, place).map(Value::Object),
                _ => refuse(format!("{} where an object is wanted ({})", shown(value), short(message.name))),
            },
            Form::Any => self.any(value, place),
            Form::Duration => match value.as_str().and_then(read_duration) {
                Some(nanos) => Ok(write_duration(nanos).into()),
                None => refuse(format!("{} is not a duration; write 5s", shown(value))),
            },
            Form::Timestamp => match value.as_str().and_then(normalise_timestamp) {
                Some(moment) => Ok(moment.into()),
                None => refuse(format!("{} is not a timestamp; write 2006-01-02T15:04:05Z", shown(value))),
            },
            Form::Wrapper => match message.fields[0].kind {
                Kind::Scalar(scalar) => scalars::read(scalar, value).or_else(refuse),
                Kind::Enum(_) | Kind::Message(_) => refuse(format!("{} cannot be wrapped", shown(value))),
            },
            Form::Struct if value.is_object() => self.untyped(value, place, Copying::Doubles),
            Form::Struct => refuse(format!("{} where an object is wanted", shown(value))),
            Form::ListValue if value.is_array() => self.untyped(value, place, Copying::Doubles),
            Form::ListValue => refuse(format!("{} where a list is wanted", shown(value))),
            Form::Value => self.untyped(value, place, Copying::Doubles),
            Form::FieldMask => match value {
                Value::String(_) => Ok(value.clone()),
                Value::Object(object) => Ok(paths_of(object).into()),
                _ => refuse(format!("{} is not a field mask; write paths joined by commas", shown(value))),
            },
        }
    }

    /// An object with a key per field, and perhaps one beside them that is no field.
    fn fields(
        &mut self,
        message: &'static Message,
        object: &Map<String, Value>,
        beside: Option<&str>,
        place: &Place<'_>,
    ) -> Result<Map<String, Value>, DecodeError> {
        let mut decoded = Vec::with_capacity(object.len() + 1);
        let mut winners = Winners::new(message);
        let mut losers = Vec::new();
        for (key, value) in object {
            let here = Place::Field(place, key);
            let Some(position) = message.position(key) else {
                if beside == Some(key) {
                    continue;
                }
                let known = message.fields.iter().map(|field| field.json);
                let nearest = if self.notes.len() < MOST_GUESSES { nearest(key, known) } else { None };
                self.note(&here, Remark::UnknownKey { nearest });
                continue;
            };
            let field = &message.fields[position];
            if key != field.json && object.contains_key(field.json) {
                self.note(&here, Remark::Superseded { by: field.json });
                continue;
            }
            if value.is_null() && !self.takes_null(field) {
                continue;
            }
            // A member that loses its oneof is read all the same: it may be malformed.
            let entry = self.field(field, value, &here)?;
            if let Label::Member(oneof) = field.label
                && let Some(loser) = winners.enter(oneof, position)
            {
                losers.push(loser);
            }
            decoded.extend(entry.map(|entry| (field.json.to_owned(), entry)));
        }
        for (loser, oneof) in losers {
            let field = &message.fields[loser];
            let by = winners.of(oneof).map_or("", |winner| message.fields[winner].json);
            self.note(&Place::Field(place, field.json), Remark::Superseded { by });
            decoded.retain(|(name, _)| name != field.json);
        }
        // All at once: the keys come nearly sorted, and one by one each would be searched for.
        Ok(decoded.into_iter().collect())
    }

    /// Is null a value of its own here, rather than absence?
    fn takes_null(&self, field: &Field) -> bool {
        let single = !matches!(field.label, Label::Repeated | Label::Map(_));
        single && matches!(field.kind, Kind::Message(id) if self.schema.message_at(id).form == Form::Value)
    }

    /// `None` if the value is the same as absence.
    fn field(&mut self, field: &Field, value: &Value, place: &Place<'_>) -> Result<Option<Value>, DecodeError> {
        match field.label {
            Label::Repeated => {
                let Value::Array(elements) = value else {
                    return Err(malformed(place, format!("{} where a list is wanted", shown(value))));
                };
                let mut decoded = Vec::with_capacity(elements.len());
                for (index, element) in elements.iter().enumerate() {
                    decoded.push(self.element(field.kind, element, &Place::Index(place, index))?);
                }
                Ok((!decoded.is_empty()).then_some(Value::Array(decoded)))
            }
            Label::Map(key_type) => {
                let Value::Object(entries) = value else {
                    return Err(malformed(place, format!("{} where a map is wanted", shown(value))));
                };
                let mut decoded = Map::new();
                for (key, entry) in entries {
                    let here = Place::Key(place, key);
                    let key = scalars::read_key(key_type, key).map_err(|reason| malformed(&here, reason))?;
                    decoded.insert(key, self.element(field.kind, entry, &here)?);
                }
                Ok((!decoded.is_empty()).then_some(Value::Object(decoded)))
            }
            Label::Singular => {
                let decoded = self.single(field.kind, value, place)?;
                let zero = match field.kind {
                    Kind::Scalar(scalar) => scalars::is_zero(scalar, &decoded),
                    Kind::Enum(id) => {
                        decoded.as_str().and_then(|name| self.schema.enumeration(id).number(name)) == Some(0)
                    }
                    Kind::Message(_) => false,
                };
                Ok((!zero).then_some(decoded))
            }
            Label::Optional | Label::Member(_) => self.single(field.kind, value, place).map(Some),
        }
    }

    /// Of a list or a map, where nothing can be absent: null is the zero of the type.
    fn element(&mut self, kind: Kind, value: &Value, place: &Place<'_>) -> Result<Value, DecodeError> {
        if !value.is_null() {
            return self.single(kind, value, place);
        }
        match kind {
            Kind::Scalar(scalar) => Ok(scalars::zero(scalar)),
            Kind::Enum(_) => self.single(kind, &0.into(), place),
            Kind::Message(id) => match self.schema.message_at(id).form {
                Form::Fields => Ok(Value::Object(Map::new())),
                _ => self.single(kind, value, place),
            },
        }
    }

    fn single(&mut self, kind: Kind, value: &Value, place: &Place<'_>) -> Result<Value, DecodeError> {
        match kind {
            Kind::Scalar(scalar) => scalars::read(scalar, value).map_err(|reason| malformed(place, reason)),
            Kind::Enum(id) => {
                scalars::read_enum(self.schema.enumeration(id), value).map_err(|reason| malformed(place, reason))
            }
            Kind::Message(id) => self.message(self.schema.message_at(id), value, place),
        }
    }

    fn any(&mut self, value: &Value, place: &Place<'_>) -> Result<Value, DecodeError> {
        let Value::Object(object) = value else {
            return Err(malformed(place, format!("{} where an object with @type is wanted", shown(value))));
        };
        let here = Place::Field(place, TYPE_KEY);
        let url = match object.get(TYPE_KEY) {
            Some(Value::String(url)) if !url.ends_with('/') && !url.is_empty() => url,
            Some(other) => return Err(malformed(&here, format!("{} is not a type URL", shown(other)))),
            None => return Err(malformed(place, "has no @type; name the message it holds".to_owned())),
        };
        let Some(message) = self.schema.message_of_url(url) else {
            self.note(&here, Remark::OpaqueType { url: url.clone() });
            return self.untyped(value, place, Copying::Exactly);
        };

        let mut result = if message.form == Form::Fields {
            self.deeper(place, |this| this.fields(message, object, Some(TYPE_KEY), place))?
        } else {
            // These messages have no fields of their own to stand beside @type.
            let inner = match object.get("value") {
                Some(value) => self.message(message, value, &Place::Field(place, "value"))?,
                None if message.form == Form::Empty => Value::Object(Map::new()),
                None => return Err(malformed(place, format!("has no value, as {} needs it", message.name))),
            };
            Map::from_iter([("value".to_owned(), inner)])
        };
        // Envoy wants a host before the name, though it does not look at it.
        let host = match url.find('/') {
            None => "type.googleapis.com/",
            Some(0) => "type.googleapis.com",
            Some(_) => "",
        };
        result.insert(TYPE_KEY.to_owned(), format!("{host}{url}").into());
        Ok(Value::Object(result))
    }

    fn untyped(&mut self, value: &Value, place: &Place<'_>, copying: Copying) -> Result<Value, DecodeError> {
        match value {
            Value::Object(entries) => self.deeper(place, |this| {
                let copy = |(key, entry): (&String, &Value)| {
                    Ok((key.clone(), this.untyped(entry, &Place::Field(place, key), copying)?))
                };
                entries.iter().map(copy).collect::<Result<Map<_, _>, _>>().map(Value::Object)
            }),
            Value::Array(elements) => self.deeper(place, |this| {
                let copy = |(index, element)| this.untyped(element, &Place::Index(place, index), copying);
                elements.iter().enumerate().map(copy).collect::<Result<_, _>>().map(Value::Array)
            }),
            Value::Number(number) if copying == Copying::Doubles => {
                let double = number.as_f64().and_then(scalars::write_double);
                double.ok_or_else(|| malformed(place, format!("{number} is too large for a double")))
            }
            _ => Ok(value.clone()),
        }
    }
}

/// How values without a type are taken over.
#[derive(Clone, Copy, PartialEq)]
enum Copying {
    Exactly,
    /// As `google.protobuf.Value` holds them: every number a double.
    Doubles,
}

/// The member that holds, for each oneof of a message: the one declared last.
struct Winners(Vec<Option<usize>>);

impl Winners {
    fn new(message: &Message) -> Self {
        Self(vec![None; message.oneofs.len()])
    }

    fn of(&self, oneof: u8) -> Option<usize> {
        self.0.get(usize::from(oneof)).copied().flatten()
    }

    /// A member is given; the one that loses by that, if any.
    fn enter(&mut self, oneof: u8, position: usize) -> Option<(usize, u8)> {
        let winner = self.0.get_mut(usize::from(oneof))?;
        let loser = winner.map(|other| other.min(position));
        *winner = Some(winner.map_or(position, |other| other.max(position)));
        loser.map(|loser| (loser, oneof))
    }
}

fn paths_of(mask: &Map<String, Value>) -> String {
    let paths = mask.get("paths").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    paths.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(",")
}

fn malformed(place: &Place<'_>, reason: String) -> DecodeError {
    DecodeError::Malformed { path: place.path(), reason }
}

fn placed(path: &FieldPath, reason: &str) -> String {
    if path.steps().is_empty() { reason.to_owned() } else { format!("{path}: {reason}") }
}

fn short(full_name: &str) -> &str {
    full_name.rsplit('.').next().unwrap_or(full_name)
}

impl MessageType {
    pub(super) fn message(self) -> &'static Message {
        Schema::get().message(self.full_name()).expect("the schema has every message type, a test asks")
    }

    /// The message's own name, without its package.
    pub fn name(self) -> &'static str {
        short(self.full_name())
    }

    pub fn full_name(self) -> &'static str {
        match self {
            Self::Cluster => "envoy.config.cluster.v3.Cluster",
            Self::Listener => "envoy.config.listener.v3.Listener",
            Self::RouteConfiguration => "envoy.config.route.v3.RouteConfiguration",
            Self::VirtualHost => "envoy.config.route.v3.VirtualHost",
            Self::NetworkFilter => "envoy.config.listener.v3.Filter",
            Self::HttpFilter => "envoy.extensions.filters.network.http_connection_manager.v3.HttpFilter",
        }
    }
}

impl DecodeError {
    /// Inside the document.
    pub fn path(&self) -> &FieldPath {
        match self {
            Self::Malformed { path, .. } | Self::Constraint { path, .. } => path,
        }
    }
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&placed(&self.path, &self.remark.to_string()))
    }
}

impl fmt::Display for Remark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownKey { nearest: Some(near) } => write!(f, "unknown key, ignored; did you mean {near}?"),
            Self::UnknownKey { nearest: None } => f.write_str("unknown key, ignored"),
            Self::Superseded { by } => write!(f, "ignored, because {by} is set too"),
            Self::OpaqueType { url } => write!(f, "unknown type {url}, kept unread"),
        }
    }
}

#[cfg(test)]
mod tests;
