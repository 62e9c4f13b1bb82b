//! Envoy's messages, fields and enums, read once from the text beside this file.
//!
//! `schema.txt` is written by `tests/envoy/schema` from the descriptors inside the Envoy binary that the tests run; it holds
//! all messages that a resource or an `Any` in it can contain. One line is one fact, its parts are separated by tabs:
//!
//! | line | meaning |
//! |---|---|
//! | `=NAME` | an enum; its values follow |
//! | `⇥NAME⇥NUMBER` | a value of the enum above |
//! | `>NAME[⇥skip]` | a message; `skip`: its rules are not looked at |
//! | `\|INDEX⇥NAME[⇥required]` | a oneof of the message above |
//! | `[ONEOF]⇥NAME[:JSONNAME]⇥NUMBER⇥TYPE[⇥RULE…]` | a field of the message above |
//!
//! A type is a scalar's name, `>MESSAGE` or `=ENUM`, preceded by `*` (repeated), `?` (optional) or `{KEY}` (map). Rules are
//! those of `protoc-gen-validate`, see [`super::rules`].

use std::collections::HashMap;
use std::sync::LazyLock;

use super::rules::{Rule, read_rules};

/// All messages and enums, sorted by name.
#[derive(Debug)]
pub struct Schema {
    messages: Vec<Message>,
    enums: Vec<Enum>,
    /// The names of messages are long and alike, so that a search among them would take its time.
    by_name: HashMap<&'static str, MessageId>,
}

#[derive(Debug)]
pub struct Message {
    pub name: &'static str,
    /// How it is written in JSON.
    pub form: Form,
    /// In the order of their declaration.
    pub fields: Box<[Field]>,
    pub oneofs: Box<[Oneof]>,
    /// Are the rules of its fields looked at?
    pub(super) ruled: bool,
    /// Both spellings of every field with its position, sorted by length first: most comparisons need no more than that.
    spellings: Box<[(&'static str, u16)]>,
}

#[derive(Debug)]
pub struct Field {
    /// As in the `.proto` file: `connect_timeout`.
    pub name: &'static str,
    /// As in JSON: `connectTimeout`.
    pub json: &'static str,
    pub number: u32,
    pub label: Label,
    /// The type of the value; of one element, if there are many.
    pub kind: Kind,
    pub(super) rules: Box<[Rule]>,
}

#[derive(Debug)]
pub struct Oneof {
    pub name: &'static str,
    pub required: bool,
}

#[derive(Debug)]
pub struct Enum {
    pub name: &'static str,
    /// Names and numbers as declared. Of several names for one number the first is the canonical one.
    pub values: Box<[(&'static str, i32)]>,
}

/// How many values a field has, and whether absence differs from zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Label {
    /// One value. A scalar has no presence: zero and absent are the same.
    Singular,
    /// One value with presence.
    Optional,
    /// One value with presence, at most one per oneof (by its index).
    Member(u8),
    Repeated,
    /// The type of the keys is a string, an integer or a boolean.
    Map(Scalar),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Scalar(Scalar),
    Enum(EnumId),
    Message(MessageId),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scalar {
    Bool,
    Int32,
    Int64,
    Uint32,
    Uint64,
    Float,
    Double,
    String,
    Bytes,
}

/// The messages of `google.protobuf` that have a JSON form of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// An object with a key per field.
    Fields,
    /// The fields of another message, and `@type`.
    Any,
    /// Text such as `1.500s`.
    Duration,
    /// RFC 3339 text.
    Timestamp,
    /// The wrapped scalar itself.
    Wrapper,
    /// Any object.
    Struct,
    /// Anything.
    Value,
    /// Any list.
    ListValue,
    /// Paths joined by commas.
    FieldMask,
    /// `{}`
    Empty,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageId(u16);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EnumId(u16);

static SCHEMA: LazyLock<Schema> = LazyLock::new(|| {
    Schema::read(include_str!("schema.txt")).expect("the built-in schema is well formed, a test reads it")
});

// === impl Schema ===

impl Schema {
    /// The schema of the Envoy that Writ was built for.
    pub fn get() -> &'static Self {
        &SCHEMA
    }

    /// By full name: `envoy.config.cluster.v3.Cluster`.
    pub fn message(&self, name: &str) -> Option<&Message> {
        self.message_id(name).map(|id| self.message_at(id))
    }

    /// By the URL in an `Any`: what follows the last slash counts.
    pub fn message_of_url(&self, url: &str) -> Option<&Message> {
        self.message(url.rsplit('/').next().unwrap_or(url))
    }

    /// All of them, by name.
    pub fn messages(&self) -> impl Iterator<Item = &Message> {
        self.messages.iter()
    }

    pub fn message_at(&self, MessageId(id): MessageId) -> &Message {
        &self.messages[usize::from(id)]
    }

    pub fn enumeration(&self, EnumId(id): EnumId) -> &Enum {
        &self.enums[usize::from(id)]
    }

    fn message_id(&self, name: &str) -> Option<MessageId> {
        self.by_name.get(name).copied()
    }

    fn enum_id(&self, name: &str) -> Option<EnumId> {
        let found = self.enums.binary_search_by(|one| one.name.cmp(name)).ok()?;
        u16::try_from(found).ok().map(EnumId)
    }

    fn read(text: &'static str) -> Result<Self, String> {
        let mut schema = Self { messages: Vec::new(), enums: Vec::new(), by_name: HashMap::new() };
        let lines = || text.lines().filter(|line| !line.starts_with('#'));

        // Names first, because fields point ahead as well as back.
        for line in lines() {
            if let Some(name) = line.strip_prefix('=') {
                schema.enums.push(Enum { name, values: Box::default() });
            } else if let Some(rest) = line.strip_prefix('>') {
                let (name, skipped) = rest.split_once('\t').map_or((rest, false), |(name, _)| (name, true));
                schema.messages.push(Message::named(name, !skipped));
            }
        }
        if !schema.enums.is_sorted_by_key(|one| one.name) || !schema.messages.is_sorted_by_key(|one| one.name) {
            return Err("names are not sorted".to_owned());
        }
        schema.by_name = (0..).map(MessageId).zip(&schema.messages).map(|(id, message)| (message.name, id)).collect();

        let (mut next_enum, mut next_message) = (0, 0);
        let mut lines = lines().peekable();
        while let Some(heading) = lines.next() {
            let mut body = std::iter::from_fn(|| lines.next_if(|line| !line.starts_with(['=', '>'])));
            if heading.starts_with('=') {
                schema.enums[next_enum].values =
                    body.map(|line| read_value(line).ok_or(line)).collect::<Result<_, _>>()?;
                next_enum += 1;
            } else {
                let mut oneofs = Vec::new();
                let mut fields = Vec::new();
                for line in &mut body {
                    match line.strip_prefix('|') {
                        Some(oneof) => oneofs.push(read_oneof(oneof).ok_or(line)?),
                        None => fields.push(schema.read_field(line).map_err(|reason| format!("{line}: {reason}"))?),
                    }
                }
                schema.messages[next_message].complete(fields, oneofs);
                next_message += 1;
            }
        }
        Ok(schema)
    }

    fn read_field(&self, line: &'static str) -> Result<Field, String> {
        let mut parts = line.split('\t');
        let mut part = || parts.next().ok_or("too few parts");
        let (oneof, names, number, spelled) = (part()?, part()?, part()?, part()?);
        let (name, json) = names.split_once(':').unwrap_or((names, names));
        let number = number.parse().map_err(|_| "no number")?;

        let (label, kind) = if let Some(kind) = spelled.strip_prefix('*') {
            (Label::Repeated, kind)
        } else if let Some(kind) = spelled.strip_prefix('?') {
            (Label::Optional, kind)
        } else if let Some((key, kind)) = spelled.strip_prefix('{').and_then(|rest| rest.split_once('}')) {
            (Label::Map(Scalar::named(key).ok_or("unknown key type")?), kind)
        } else if oneof.is_empty() {
            (Label::Singular, spelled)
        } else {
            (Label::Member(oneof.parse().map_err(|_| "no oneof")?), spelled)
        };
        let kind = if let Some(name) = kind.strip_prefix('>') {
            self.message_id(name).map(Kind::Message)
        } else if let Some(name) = kind.strip_prefix('=') {
            self.enum_id(name).map(Kind::Enum)
        } else {
            Scalar::named(kind).map(Kind::Scalar)
        };
        let rules = read_rules(&parts.collect::<Vec<_>>())?;
        Ok(Field { name, json, number, label, kind: kind.ok_or("unknown type")?, rules })
    }
}

// === impl Message ===

impl Message {
    /// By either spelling.
    pub fn field(&self, spelling: &str) -> Option<&Field> {
        self.position(spelling).map(|position| &self.fields[position])
    }

    pub(super) fn position(&self, spelling: &str) -> Option<usize> {
        let wanted = (spelling.len(), spelling);
        let found = self.spellings.binary_search_by(|(known, _)| (known.len(), *known).cmp(&wanted)).ok()?;
        Some(usize::from(self.spellings[found].1))
    }

    fn named(name: &'static str, ruled: bool) -> Self {
        Self {
            name,
            form: Form::of(name),
            fields: Box::default(),
            oneofs: Box::default(),
            ruled,
            spellings: Box::default(),
        }
    }

    fn complete(&mut self, fields: Vec<Field>, oneofs: Vec<Oneof>) {
        let mut spellings: Vec<_> =
            (0..).zip(&fields).flat_map(|(position, field)| [(field.json, position), (field.name, position)]).collect();
        spellings.sort_unstable_by_key(|(spelling, _)| (spelling.len(), *spelling));
        spellings.dedup();
        self.spellings = spellings.into();
        self.fields = fields.into();
        self.oneofs = oneofs.into();
    }
}

impl Enum {
    pub fn number(&self, name: &str) -> Option<i32> {
        self.values.iter().find(|(known, _)| *known == name).map(|(_, number)| *number)
    }

    pub fn name_of(&self, number: i32) -> Option<&'static str> {
        self.values.iter().find(|(_, known)| *known == number).map(|(name, _)| *name)
    }
}

impl Scalar {
    fn named(name: &str) -> Option<Self> {
        Some(match name {
            "bool" => Self::Bool,
            "int32" => Self::Int32,
            "int64" => Self::Int64,
            "uint32" => Self::Uint32,
            "uint64" => Self::Uint64,
            "float" => Self::Float,
            "double" => Self::Double,
            "string" => Self::String,
            "bytes" => Self::Bytes,
            _ => return None,
        })
    }
}

impl Form {
    fn of(name: &str) -> Self {
        match name.strip_prefix("google.protobuf.") {
            Some("Any") => Self::Any,
            Some("Duration") => Self::Duration,
            Some("Timestamp") => Self::Timestamp,
            Some("Struct") => Self::Struct,
            Some("Value") => Self::Value,
            Some("ListValue") => Self::ListValue,
            Some("FieldMask") => Self::FieldMask,
            Some("Empty") => Self::Empty,
            Some(other) if other.ends_with("Value") => Self::Wrapper,
            _ => Self::Fields,
        }
    }
}

fn read_value(line: &'static str) -> Option<(&'static str, i32)> {
    let (name, number) = line.strip_prefix('\t')?.split_once('\t')?;
    Some((name, number.parse().ok()?))
}

fn read_oneof(line: &'static str) -> Option<Oneof> {
    let mut parts = line.split('\t').skip(1);
    Some(Oneof { name: parts.next()?, required: parts.next().is_some() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_by_either_spelling() {
        let cluster = Schema::get().message("envoy.config.cluster.v3.Cluster").unwrap();
        let field = cluster.field("connect_timeout").unwrap();
        assert_eq!(cluster.field("connectTimeout").unwrap().number, field.number);
        assert_eq!((field.name, field.json, field.label), ("connect_timeout", "connectTimeout", Label::Singular));
        let Kind::Message(duration) = field.kind else { panic!("{:?}", field.kind) };
        assert_eq!(Schema::get().message_at(duration).form, Form::Duration);
        assert!(cluster.field("connecttimeout").is_none());
    }

    #[test]
    fn labels_tell_presence() {
        let label = |message: &str, field: &str| Schema::get().message(message).unwrap().field(field).unwrap().label;
        assert_eq!(label("envoy.config.cluster.v3.Cluster", "type"), Label::Member(0));
        assert_eq!(label("envoy.config.cluster.v3.Cluster", "filters"), Label::Repeated);
        assert_eq!(label("envoy.config.core.v3.Metadata", "filter_metadata"), Label::Map(Scalar::String));
        assert_eq!(label("envoy.config.core.v3.SocketAddress", "address"), Label::Singular);
    }

    #[test]
    fn enums_name_their_numbers() {
        let cluster = Schema::get().message("envoy.config.cluster.v3.Cluster").unwrap();
        let Kind::Enum(id) = cluster.field("lbPolicy").unwrap().kind else { panic!("an enum") };
        let policies = Schema::get().enumeration(id);
        assert_eq!(policies.number("RING_HASH"), Some(2));
        assert_eq!(policies.name_of(0), Some("ROUND_ROBIN"));
        assert_eq!((policies.number("ring_hash"), policies.name_of(99)), (None, None));
    }

    #[test]
    fn type_urls_count_from_the_last_slash() {
        let name = "envoy.config.cluster.v3.Cluster";
        for url in [name.to_owned(), format!("type.googleapis.com/{name}"), format!("a/b/{name}"), format!("/{name}")] {
            assert_eq!(Schema::get().message_of_url(&url).map(|message| message.name), Some(name), "{url}");
        }
        assert!(Schema::get().message_of_url("type.googleapis.com/").is_none());
    }

    #[test]
    fn a_malformed_schema_is_refused() {
        for text in [">A\n\tx\t1\t>B", ">B\n>A", ">A\n\tx\tone\tstring", ">A\n\tx\t1\tstring\tmin_lem=1", "=E\n\tA"] {
            assert!(Schema::read(text).is_err(), "{text}");
        }
    }
}
