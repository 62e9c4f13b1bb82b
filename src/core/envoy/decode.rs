//! Reads an embedded Envoy document by the message it should be, and gives it back as canonical proto JSON.
//!
//! Reading is lenient where Envoy's own control planes are: both spellings of a key, enums by name or number, durations with
//! any unit of Go, integers as text, null for absent; of two members of a oneof the one declared last wins. What is not
//! understood but harmless (an unknown key, an unknown type in an `Any`) is noted, not refused.
//!
//! Canonical means: camelCase, absent where zero and absent are the same, enums by name, 64-bit integers as text, durations
//! with 0, 3, 6 or 9 digits, and for an `Any` the fields of its message beside `@type`.

mod short_form;

use std::fmt;

use super::constraints;
use super::instant::{normalise_timestamp, read_duration, write_duration};
use super::path::Place;
use super::scalars::{self, shown};
use super::schema::{Field, Form, Kind, Label, Message, Scalar, Schema};
use crate::core::json::{Builder, Document, Leaf, Open, Shape, Tree};
use crate::core::nearest::nearest;
use crate::core::problem::FieldPath;
use short_form::ShortForm;

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

#[derive(Debug)]
pub struct Decoded<'v> {
    /// Canonical proto JSON.
    pub document: Document<'v>,
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
    /// The same for the config of a filter in its short form.
    OpaqueConfig { url: String },
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
/// Room for what the usual patch holds.
const SLOTS: usize = 16;
/// Envoy still reads it; the control planes of the mesh do not.
const UDPA_TYPED_STRUCT: &str = "udpa.type.v1.TypedStruct";
/// Where an `Any` names its message.
const TYPE_KEY: &str = "@type";

pub fn decode<'v>(
    message: MessageType,
    document: impl Tree<'v>,
    strictness: Strictness,
) -> Result<Decoded<'v>, DecodeError> {
    let filter = matches!(message, MessageType::NetworkFilter | MessageType::HttpFilter);
    let message = message.message();
    if filter && let Some(short) = ShortForm::read(message, document) {
        return short.decode(message, strictness);
    }
    decode_message(message, document, strictness)
}

/// Decodes a message by its full name, such as the content of a filter's typed config; `None` if there is no such message.
pub fn decode_as<'v>(
    name: &str,
    document: impl Tree<'v>,
    strictness: Strictness,
) -> Option<Result<Decoded<'v>, DecodeError>> {
    Schema::get().message(name).map(|message| decode_message(message, document, strictness))
}

fn decode_message<'v>(
    message: &'static Message,
    document: impl Tree<'v>,
    strictness: Strictness,
) -> Result<Decoded<'v>, DecodeError> {
    let mut decoder = Decoder::new();
    if document.is_null() && message.form == Form::Fields {
        decoder.empty();
    } else {
        decoder.message(message, document, &Place::Root)?;
    }
    decoder.finish(message, strictness)
}

/// Reads a document and writes it again as it should be.
struct Decoder<'v> {
    schema: &'static Schema,
    out: Builder<'v>,
    notes: Vec<Note>,
    depth: usize,
}

impl<'v> Decoder<'v> {
    fn new() -> Self {
        Self { schema: Schema::get(), out: Builder::with_capacity(SLOTS), notes: Vec::new(), depth: 0 }
    }

    fn finish(self, message: &Message, strictness: Strictness) -> Result<Decoded<'v>, DecodeError> {
        let document = self.out.finish();
        if strictness == Strictness::Whole {
            constraints::check(message, document.root())?;
        }
        Ok(Decoded { document, notes: self.notes })
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

    fn message(
        &mut self,
        message: &'static Message,
        value: impl Tree<'v>,
        place: &Place<'_>,
    ) -> Result<(), DecodeError> {
        self.deeper(place, |this| this.by_form(message, value, place))
    }

    fn by_form(
        &mut self,
        message: &'static Message,
        value: impl Tree<'v>,
        place: &Place<'_>,
    ) -> Result<(), DecodeError> {
        let shape = value.shape();
        let refuse = |reason: String| Err(malformed(place, reason));
        match (message.form, shape) {
            (Form::Fields | Form::Empty, Shape::Object) => {
                let open = self.out.open();
                return self.fields(message, value, open, None, place);
            }
            (Form::Fields | Form::Empty, _) => {
                return refuse(format!("{} where an object is wanted ({})", shown(shape), short(message.name)));
            }
            (Form::Any, _) => return self.any(value, place),
            (Form::Duration, _) => match shape.as_text().and_then(read_duration) {
                Some(nanos) => self.out.text(write_duration(nanos)),
                None => return refuse(format!("{} is not a duration; write 5s", shown(shape))),
            },
            (Form::Timestamp, _) => match shape.as_text().and_then(normalise_timestamp) {
                Some(moment) => self.out.text(moment),
                None => return refuse(format!("{} is not a timestamp; write 2006-01-02T15:04:05Z", shown(shape))),
            },
            (Form::Wrapper, _) => match message.fields[0].kind {
                Kind::Scalar(scalar) => {
                    self.out.leaf(scalars::read(scalar, shape).map_err(|reason| malformed(place, reason))?);
                }
                Kind::Enum(_) | Kind::Message(_) => return refuse(format!("{} cannot be wrapped", shown(shape))),
            },
            (Form::Struct, Shape::Object) | (Form::ListValue, Shape::List) | (Form::Value, _) => {
                return self.untyped(value, place, Copying::Doubles);
            }
            (Form::Struct, _) => return refuse(format!("{} where an object is wanted", shown(shape))),
            (Form::ListValue, _) => return refuse(format!("{} where a list is wanted", shown(shape))),
            (Form::FieldMask, Shape::Text(paths)) => self.out.text(paths),
            (Form::FieldMask, Shape::Object) => self.out.text(paths_of(value)),
            (Form::FieldMask, _) => {
                return refuse(format!("{} is not a field mask; write paths joined by commas", shown(shape)));
            }
        }
        Ok(())
    }

    /// An object with a key per field, and perhaps one beside them that is no field.
    fn fields(
        &mut self,
        message: &'static Message,
        object: impl Tree<'v>,
        mut open: Open,
        beside: Option<&str>,
        place: &Place<'_>,
    ) -> Result<(), DecodeError> {
        let mut winners = Winners::default();
        let mut losers = Vec::new();
        for (key, value) in object.fields() {
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
            if key != field.json && object.get(field.json).is_some() {
                self.note(&here, Remark::Superseded { by: field.json });
                continue;
            }
            if value.is_null() && !self.takes_null(field) {
                continue;
            }
            // A member that loses its oneof is read all the same: it may be malformed.
            self.field(field, value, &mut open, &here)?;
            if let Label::Member(oneof) = field.label
                && let Some(loser) = winners.enter(oneof, position)
            {
                losers.push((oneof, message.fields[loser].json));
            }
        }
        if losers.is_empty() {
            self.out.end_object(&open);
            return Ok(());
        }
        for (oneof, loser) in &losers {
            let by = winners.of(*oneof).map_or("", |winner| message.fields[winner].json);
            self.note(&Place::Field(place, loser), Remark::Superseded { by });
        }
        let losers: Vec<&str> = losers.into_iter().map(|(_, loser)| loser).collect();
        self.out.end_object_without(&open, &losers);
        Ok(())
    }

    /// Is null a value of its own here, rather than absence?
    fn takes_null(&self, field: &Field) -> bool {
        let single = !matches!(field.label, Label::Repeated | Label::Map(_));
        single && matches!(field.kind, Kind::Message(id) if self.schema.message_at(id).form == Form::Value)
    }

    /// A field of an object; nothing is written if the value is the same as absence.
    fn field(
        &mut self,
        field: &'static Field,
        value: impl Tree<'v>,
        object: &mut Open,
        place: &Place<'_>,
    ) -> Result<(), DecodeError> {
        match (field.label, value.shape()) {
            (Label::Repeated, Shape::List) => {
                if value.count() == 0 {
                    return Ok(());
                }
                self.out.field(object, field.json);
                let mut list = self.out.open();
                for (index, element) in value.items().enumerate() {
                    self.out.element(&mut list);
                    self.element(field.kind, element, &Place::Index(place, index))?;
                }
                self.out.end_list(&list);
                Ok(())
            }
            (Label::Repeated, other) => Err(malformed(place, format!("{} where a list is wanted", shown(other)))),
            (Label::Map(key_type), Shape::Object) => {
                if value.count() == 0 {
                    return Ok(());
                }
                self.out.field(object, field.json);
                let mut map = self.out.open();
                for (key, entry) in value.fields() {
                    let here = Place::Key(place, key);
                    let key = scalars::read_key(key_type, key).map_err(|reason| malformed(&here, reason))?;
                    self.out.field(&mut map, key);
                    self.element(field.kind, entry, &here)?;
                }
                self.out.end_object(&map);
                Ok(())
            }
            (Label::Map(_), other) => Err(malformed(place, format!("{} where a map is wanted", shown(other)))),
            (label, shape) => match self.leaf(field.kind, shape, place)? {
                Some((leaf, is_zero)) => {
                    if !(is_zero && label == Label::Singular) {
                        self.out.field(object, field.json);
                        self.out.leaf(leaf);
                    }
                    Ok(())
                }
                None => {
                    self.out.field(object, field.json);
                    self.single(field.kind, value, place)
                }
            },
        }
    }

    /// Of a list or a map, where nothing can be absent: null is the zero of the type.
    fn element(&mut self, kind: Kind, value: impl Tree<'v>, place: &Place<'_>) -> Result<(), DecodeError> {
        if !value.is_null() {
            return self.single(kind, value, place);
        }
        match kind {
            Kind::Scalar(scalar) => self.out.leaf(scalars::zero(scalar)),
            Kind::Enum(id) => {
                let zero = scalars::zero(Scalar::Int32);
                let read = scalars::read_enum(self.schema.enumeration(id), zero.shape());
                self.out.leaf(read.map_err(|reason| malformed(place, reason))?);
            }
            Kind::Message(id) => match self.schema.message_at(id).form {
                Form::Fields => self.empty(),
                _ => return self.single(kind, value, place),
            },
        }
        Ok(())
    }

    fn single(&mut self, kind: Kind, value: impl Tree<'v>, place: &Place<'_>) -> Result<(), DecodeError> {
        match (self.leaf(kind, value.shape(), place)?, kind) {
            (Some((leaf, _)), _) => self.out.leaf(leaf),
            (None, Kind::Message(id)) => return self.message(self.schema.message_at(id), value, place),
            (None, _) => {}
        }
        Ok(())
    }

    /// A scalar or an enum, and whether it is the zero of its type; nothing for a message.
    fn leaf<'s>(
        &self,
        kind: Kind,
        shape: Shape<'s>,
        place: &Place<'_>,
    ) -> Result<Option<(Leaf<'s>, bool)>, DecodeError> {
        let leaf = match kind {
            Kind::Message(_) => return Ok(None),
            Kind::Scalar(scalar) => scalars::read(scalar, shape).map(|leaf| {
                let is_zero = scalars::is_zero(scalar, leaf.shape());
                (leaf, is_zero)
            }),
            Kind::Enum(id) => {
                let declared = self.schema.enumeration(id);
                scalars::read_enum(declared, shape).map(|leaf| {
                    let is_zero = leaf.shape().as_text().and_then(|name| declared.number(name)) == Some(0);
                    (leaf, is_zero)
                })
            }
        };
        leaf.map(Some).map_err(|reason| malformed(place, reason))
    }

    fn empty(&mut self) {
        let open = self.out.open();
        self.out.end_object(&open);
    }

    fn any(&mut self, value: impl Tree<'v>, place: &Place<'_>) -> Result<(), DecodeError> {
        if !value.is_object() {
            return Err(malformed(place, format!("{} where an object with @type is wanted", shown(value.shape()))));
        }
        let here = Place::Field(place, TYPE_KEY);
        let url = match value.get(TYPE_KEY).map(Tree::shape) {
            Some(Shape::Text(url)) if !url.ends_with('/') && !url.is_empty() => url,
            Some(other) => return Err(malformed(&here, format!("{} is not a type URL", shown(other)))),
            None => return Err(malformed(place, "has no @type; name the message it holds".to_owned())),
        };
        let Some(message) = self.schema.message_of_url(url).filter(|message| message.name != UDPA_TYPED_STRUCT) else {
            self.note(&here, Remark::OpaqueType { url: url.to_owned() });
            return self.untyped(value, place, Copying::Exactly);
        };

        let mut open = self.out.open();
        self.out.field(&mut open, TYPE_KEY);
        // Envoy wants a host before the name, though it does not look at it.
        match url.find('/') {
            None => self.out.text(format!("type.googleapis.com/{url}")),
            Some(0) => self.out.text(format!("type.googleapis.com{url}")),
            Some(_) => self.out.text(url),
        }
        if message.form == Form::Fields {
            return self.deeper(place, |this| this.fields(message, value, open, Some(TYPE_KEY), place));
        }
        // These messages have no fields of their own to stand beside @type.
        self.out.field(&mut open, "value");
        match value.get("value") {
            Some(value) => self.message(message, value, &Place::Field(place, "value"))?,
            None if message.form == Form::Empty => self.empty(),
            None => return Err(malformed(place, format!("has no value, as {} needs it", message.name))),
        }
        self.out.end_object(&open);
        Ok(())
    }

    fn untyped(&mut self, value: impl Tree<'v>, place: &Place<'_>, copying: Copying) -> Result<(), DecodeError> {
        match value.shape() {
            Shape::Object => self.deeper(place, |this| {
                let mut open = this.out.open();
                for (key, entry) in value.fields() {
                    this.out.field(&mut open, key);
                    this.untyped(entry, &Place::Field(place, key), copying)?;
                }
                this.out.end_object(&open);
                Ok(())
            }),
            Shape::List => self.deeper(place, |this| {
                let mut open = this.out.open();
                for (index, element) in value.items().enumerate() {
                    this.out.element(&mut open);
                    this.untyped(element, &Place::Index(place, index), copying)?;
                }
                this.out.end_list(&open);
                Ok(())
            }),
            Shape::Number(number) if copying == Copying::Doubles => {
                let double = number.as_f64().and_then(scalars::write_double);
                let too_large = || malformed(place, format!("{number} is too large for a double"));
                self.out.leaf(double.ok_or_else(too_large)?);
                Ok(())
            }
            Shape::Null => {
                self.out.leaf(Leaf::Null);
                Ok(())
            }
            Shape::Bool(flag) => {
                self.out.leaf(Leaf::Bool(flag));
                Ok(())
            }
            Shape::Number(number) => {
                self.out.leaf(Leaf::Number(number.clone()));
                Ok(())
            }
            Shape::Text(text) => {
                self.out.text(text);
                Ok(())
            }
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
#[derive(Default)]
struct Winners(Vec<(u8, usize)>);

impl Winners {
    fn of(&self, oneof: u8) -> Option<usize> {
        self.0.iter().find(|(known, _)| *known == oneof).map(|(_, winner)| *winner)
    }

    /// A member is given; the one that loses by that, if any.
    fn enter(&mut self, oneof: u8, position: usize) -> Option<usize> {
        let Some((_, winner)) = self.0.iter_mut().find(|(known, _)| *known == oneof) else {
            self.0.push((oneof, position));
            return None;
        };
        let loser = position.min(*winner);
        *winner = position.max(*winner);
        Some(loser)
    }
}

fn paths_of<'v>(mask: impl Tree<'v>) -> String {
    let paths = mask.get("paths").into_iter().flat_map(Tree::items);
    paths.filter_map(Tree::as_text).collect::<Vec<_>>().join(",")
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
            Self::OpaqueType { url } | Self::OpaqueConfig { url } => write!(f, "unknown type {url}, kept unread"),
        }
    }
}

#[cfg(test)]
mod tests;
