//! YAML as kubectl reads it: text in, JSON values out, with the line of every field.
//!
//! Scalars follow YAML 1.1 (`scalar.rs`), merge keys and aliases work, of duplicate keys the last wins. What a reader of
//! YAML 1.2 would understand differently, and what was written twice, comes back as a [`Note`].
//! Depth and the growth through aliases are bounded, so no text can exhaust the stack or the memory.

pub mod edit;
mod scalar;

use std::collections::BTreeMap;
use std::fmt;

use granit_parser::{Event, Marker, Parser, ScalarStyle, ScanError, Tag};
use serde_json::{Map, Value};

use crate::core::problem::{FieldPath, Step};

/// Nesting that is still read; the JSON reader of the API server's world stops there too.
const MAX_DEPTH: usize = 128;
/// How many values aliases may copy into one document.
const MAX_ALIASED: usize = 100_000;

/// One document of a stream.
#[derive(Clone, Debug)]
pub struct Document {
    pub value: Value,
    pub notes: Vec<Note>,
    marks: Mark,
}

/// A place in the text, both counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    pub line: usize,
    pub column: usize,
}

/// Something legal that probably was not meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    pub position: Position,
    pub kind: NoteKind,
}

#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NoteKind {
    /// The key stands twice in one mapping; the last one counts.
    DuplicateKey { key: String },
    /// A bare word that YAML 1.1 and 1.2 read differently.
    Ambiguous { text: String, read_as: Value },
}

/// The text is not YAML that can become JSON.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {}, column {}: {reason}", position.line, position.column)]
pub struct YamlError {
    pub position: Position,
    pub reason: String,
}

/// All documents of a stream; empty ones are left out. A broken document does not hide the others.
pub fn read(text: &str) -> Vec<Result<Document, YamlError>> {
    let mut reader = Reader::new(text, Marks::Keep);
    let mut documents = Vec::new();
    loop {
        match reader.next_document() {
            Ok(Some(document)) => documents.push(Ok(document)),
            Ok(None) => return documents,
            Err(error) => {
                documents.push(Err(error));
                if !reader.skip_broken_document() {
                    return documents;
                }
            }
        }
    }
}

/// The first document of a text, `null` if there is none. Cheaper than [`read`]: no places, no notes.
pub fn read_value(text: &str) -> Result<Value, YamlError> {
    let mut reader = Reader::new(text, Marks::Drop);
    Ok(reader.next_document()?.map_or(Value::Null, |document| document.value))
}

impl Document {
    /// Where a field stands; the nearest enclosing place if the field itself is absent.
    pub fn position_of(&self, path: &FieldPath) -> Position {
        let mut mark = &self.marks;
        for step in path.steps() {
            let next = match (step, &mark.below) {
                (Step::Field(name), Below::Map(entries)) => entries.get(name.as_ref()),
                (Step::Key(name), Below::Map(entries)) => entries.get(name),
                (Step::Index(index), Below::List(items)) => items.get(*index),
                _ => None,
            };
            match next {
                Some(next) => mark = next,
                None => break,
            }
        }
        mark.at
    }
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            NoteKind::DuplicateKey { key } => {
                write!(f, "key `{key}` stands twice in this mapping, the last one counts")
            }
            NoteKind::Ambiguous { text, read_as } => {
                write!(f, "unquoted `{text}` is read as {read_as}, as kubectl does; quote it if text is meant")
            }
        }
    }
}

/// Where values begin, in the shape of the value.
#[derive(Clone, Debug)]
struct Mark {
    at: Position,
    below: Below,
}

#[derive(Clone, Debug)]
enum Below {
    Nothing,
    List(Vec<Mark>),
    Map(BTreeMap<String, Mark>),
}

#[derive(Clone, Copy, PartialEq)]
enum Marks {
    Keep,
    Drop,
}

struct Reader<'t> {
    events: Parser<'t, granit_parser::StrInput<'t>>,
    marks: Marks,
    /// Where the text ends, if its last line has no line break.
    unbroken_end: Option<usize>,
}

/// A finished value with its mark and the number of values in it.
#[derive(Clone)]
struct Node {
    value: Value,
    mark: Mark,
    size: usize,
}

/// A collection that is still open.
struct Frame {
    at: Position,
    anchor: usize,
    size: usize,
    kind: Open,
}

enum Open {
    List { items: Vec<Value>, marks: Vec<Mark> },
    Map { entries: Map<String, Value>, marks: BTreeMap<String, Mark>, key: Option<Key>, merged: Vec<Node> },
}

enum Key {
    Name(String, Position),
    Merge,
}

/// The values of one document while it grows.
struct Builder {
    stack: Vec<Frame>,
    anchors: BTreeMap<usize, Node>,
    aliased: usize,
    notes: Vec<Note>,
    marks: Marks,
}

impl<'t> Reader<'t> {
    fn new(text: &'t str, marks: Marks) -> Self {
        let options = granit_parser::options! { emit_comments: false };
        let unbroken_end = (!text.ends_with('\n')).then_some(text.len());
        Self { events: Parser::new_from_str_with_options(text, options), marks, unbroken_end }
    }

    fn next_document(&mut self) -> Result<Option<Document>, YamlError> {
        let mut builder =
            Builder { stack: Vec::new(), anchors: BTreeMap::new(), aliased: 0, notes: Vec::new(), marks: self.marks };
        let mut root: Option<Node> = None;
        for next in self.events.by_ref() {
            let (mut event, span) = next.map_err(syntax)?;
            let at = Position::from(span.start);
            // The parser adds a line break to a block that ends with the text; kubectl's does not.
            if let Event::Scalar(text, ScalarStyle::Literal | ScalarStyle::Folded, ..) = &mut event
                && self.unbroken_end.is_some()
                && span.end.byte_offset() >= self.unbroken_end
                && text.ends_with('\n')
            {
                text.to_mut().pop();
            }
            match event {
                Event::DocumentEnd => match root.take() {
                    // A document without content (only comments, or nothing between two `---`) is no document.
                    Some(node) if !node.value.is_null() => {
                        return Ok(Some(Document { value: node.value, notes: builder.notes, marks: node.mark }));
                    }
                    _ => {}
                },
                Event::StreamEnd => return Ok(None),
                event => {
                    if let Some(node) = builder.take(event, at)? {
                        root = Some(node);
                    }
                }
            }
        }
        Ok(None)
    }

    fn skip_broken_document(&mut self) -> bool {
        self.events.proceed_next_document().unwrap_or(false)
    }
}

impl Builder {
    /// Takes one event; gives the document's root when it is complete.
    fn take(&mut self, event: Event<'_>, at: Position) -> Result<Option<Node>, YamlError> {
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                if let Some(key) = self.as_key(&text, style, tag.as_deref(), at)? {
                    return self.open_entry(key, anchor);
                }
                let value = self.resolve(&text, style, tag.as_deref(), at)?;
                self.finish(Node::leaf(value, at), anchor)
            }
            Event::SequenceStart(_, anchor, _) => {
                self.open(at, anchor, Open::List { items: Vec::new(), marks: Vec::new() })
            }
            Event::MappingStart(_, anchor, _) => {
                let (entries, marks) = (Map::new(), BTreeMap::new());
                self.open(at, anchor, Open::Map { entries, marks, key: None, merged: Vec::new() })
            }
            Event::SequenceEnd | Event::MappingEnd => {
                let Some(frame) = self.stack.pop() else { return Ok(None) };
                let anchor = frame.anchor;
                self.finish(frame.close(), anchor)
            }
            Event::Alias(anchor) => {
                let Some(node) = self.anchors.get(&anchor).cloned() else {
                    return Err(at.error("an alias inside its own anchor"));
                };
                self.aliased = self.aliased.saturating_add(node.size);
                if self.aliased > MAX_ALIASED {
                    return Err(at.error(format!("aliases copy more than {MAX_ALIASED} values")));
                }
                if let Some(Frame { kind: Open::Map { key: key @ None, .. }, .. }) = self.stack.last_mut() {
                    let Value::String(name) = node.value else {
                        return Err(at.error("an alias used as a key must stand for text"));
                    };
                    *key = Some(Key::Name(name, at));
                    return Ok(None);
                }
                self.finish(node, 0)
            }
            _ => Ok(None),
        }
    }

    fn open(&mut self, at: Position, anchor: usize, kind: Open) -> Result<Option<Node>, YamlError> {
        if let Some(Frame { kind: Open::Map { key: None, .. }, .. }) = self.stack.last() {
            return Err(at.error("a mapping or list cannot be a key"));
        }
        if self.stack.len() >= MAX_DEPTH {
            return Err(at.error(format!("nested deeper than {MAX_DEPTH} levels")));
        }
        self.stack.push(Frame { at, anchor, size: 1, kind });
        Ok(None)
    }

    /// The scalar as a key, if the innermost mapping waits for one.
    fn as_key(
        &mut self,
        text: &str,
        style: ScalarStyle,
        tag: Option<&Tag>,
        at: Position,
    ) -> Result<Option<Key>, YamlError> {
        let Some(Frame { kind: Open::Map { key: None, .. }, .. }) = self.stack.last() else {
            return Ok(None);
        };
        if style == ScalarStyle::Plain && text == "<<" {
            return Ok(Some(Key::Merge));
        }
        let name = match self.resolve(text, style, tag, at)? {
            Value::String(name) => name,
            Value::Null => return Err(at.error("a null key; quote it if text is meant")),
            other => other.to_string(),
        };
        Ok(Some(Key::Name(name, at)))
    }

    fn open_entry(&mut self, opened: Key, anchor: usize) -> Result<Option<Node>, YamlError> {
        if let (Key::Name(name, at), true) = (&opened, anchor != 0) {
            self.anchors.insert(anchor, Node::leaf(Value::from(name.as_str()), *at));
        }
        if let Some(Frame { kind: Open::Map { key, .. }, .. }) = self.stack.last_mut() {
            *key = Some(opened);
        }
        Ok(None)
    }

    fn resolve(&mut self, text: &str, style: ScalarStyle, tag: Option<&Tag>, at: Position) -> Result<Value, YamlError> {
        let tag = tag.and_then(Tag::core_suffix);
        if style != ScalarStyle::Plain && tag.is_none() {
            return Ok(Value::from(text));
        }
        let resolved = scalar::resolve(tag, text).map_err(|reason| at.error(reason))?;
        if self.marks == Marks::Keep && tag.is_none() && scalar::is_ambiguous(text, &resolved) {
            let kind = NoteKind::Ambiguous { text: text.to_owned(), read_as: resolved.clone() };
            self.notes.push(Note { position: at, kind });
        }
        Ok(resolved)
    }

    /// Puts a finished value where it belongs; gives it back if it is the root.
    fn finish(&mut self, node: Node, anchor: usize) -> Result<Option<Node>, YamlError> {
        if anchor != 0 {
            self.anchors.insert(anchor, node.clone());
        }
        let Some(frame) = self.stack.last_mut() else {
            return Ok(Some(node));
        };
        frame.size += node.size;
        match &mut frame.kind {
            Open::List { items, marks } => {
                items.push(node.value);
                if self.marks == Marks::Keep {
                    marks.push(node.mark);
                }
            }
            Open::Map { entries, marks, key, merged } => match key.take() {
                Some(Key::Merge) => merge_sources(node, merged)?,
                Some(Key::Name(name, at)) => {
                    if self.marks == Marks::Keep {
                        marks.insert(name.clone(), Mark { at, below: node.mark.below });
                        if entries.contains_key(&name) {
                            let kind = NoteKind::DuplicateKey { key: name.clone() };
                            self.notes.push(Note { position: at, kind });
                        }
                    }
                    entries.insert(name, node.value);
                }
                None => {}
            },
        }
        Ok(None)
    }
}

/// The mappings that a `<<` names: one, or a list of them.
fn merge_sources(node: Node, merged: &mut Vec<Node>) -> Result<(), YamlError> {
    let at = node.mark.at;
    match node.value {
        Value::Object(_) => merged.push(node),
        Value::Array(items) => {
            for value in items {
                if !value.is_object() {
                    return Err(at.error("`<<` takes a mapping or a list of mappings"));
                }
                merged.push(Node::leaf(value, at));
            }
        }
        _ => return Err(at.error("`<<` takes a mapping or a list of mappings")),
    }
    Ok(())
}

impl Frame {
    fn close(self) -> Node {
        let (value, below) = match self.kind {
            Open::List { items, marks } => (Value::Array(items), Below::List(marks)),
            Open::Map { mut entries, mut marks, merged, .. } => {
                for Node { value, mark, .. } in merged {
                    let Value::Object(source) = value else { continue };
                    for (name, value) in source {
                        if !entries.contains_key(&name) {
                            marks.insert(name.clone(), Mark { at: mark.at, below: Below::Nothing });
                            entries.insert(name, value);
                        }
                    }
                }
                (Value::Object(entries), Below::Map(marks))
            }
        };
        Node { value, mark: Mark { at: self.at, below }, size: self.size }
    }
}

impl Node {
    fn leaf(value: Value, at: Position) -> Self {
        Self { value, mark: Mark { at, below: Below::Nothing }, size: 1 }
    }
}

impl Position {
    fn error(self, reason: impl Into<String>) -> YamlError {
        YamlError { position: self, reason: reason.into() }
    }
}

impl From<Marker> for Position {
    fn from(marker: Marker) -> Self {
        Self { line: marker.line(), column: marker.col() + 1 }
    }
}

fn syntax(error: ScanError) -> YamlError {
    Position::from(*error.marker()).error(error.kind().to_string())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(text: &str, expected: Value) {
        assert_eq!(read_value(text), Ok(expected), "{text}");
    }

    #[test]
    fn scalars_are_those_of_kubectl() {
        check(
            "{a: yes, b: No, c: on, d: n, e: 'yes'}",
            json!({"a": true, "b": false, "c": true, "d": false, "e": "yes"}),
        );
        check("[010, 0o10, 08, 0x1F, 0b11, 1_000, -7, +7]", json!([8, 8, 8.0, 31, 3, 1000, -7, 7]));
        check("[1.5, .5, 5., 1e3, 1e+3, 18446744073709551615]", json!([1.5, 0.5, 5.0, 1000.0, 1000.0, u64::MAX]));
        check("[~, null, Null, '']", json!([null, null, null, ""]));
        check("[2024-01-02, 12:30, 1.2.3, 0644x]", json!(["2024-01-02", "12:30", "1.2.3", "0644x"]));
        check("{y: 1, 5: 2, 1.5: 3}", json!({"true": 1, "5": 2, "1.5": 3}));
        check("[!!str 5, !!int '5', !!float 5]", json!(["5", 5, 5.0]));
    }

    #[test]
    fn a_block_at_the_end_has_the_line_break_that_is_there() {
        check("a: |\n  b\n", json!({"a": "b\n"}));
        check("a: |\n  b", json!({"a": "b"}));
        check("a: >\n  b\n  c", json!({"a": "b c"}));
        check("a: |\n  b\nc: d", json!({"a": "b\n", "c": "d"}));
        check("a: |-\n  b", json!({"a": "b"}));
    }

    #[test]
    fn structure_anchors_and_merge_keys() {
        check(
            "a: &x {k: 1, l: 2}\nb:\n  <<: *x\n  l: 3\nc: [*x]",
            json!({"a": {"k": 1, "l": 2}, "b": {"k": 1, "l": 3}, "c": [{"k": 1, "l": 2}]}),
        );
        check("a: {<<: [{x: 1}, {x: 2, w: 2}], z: 3}", json!({"a": {"x": 1, "w": 2, "z": 3}}));
        check("a: 1\na: 2", json!({"a": 2}));
        check("a: |\n  x\n  y\nb: >\n  x\n  y\n", json!({"a": "x\ny\n", "b": "x y\n"}));
        check("", Value::Null);
        check("# only a comment", Value::Null);
        check("--- 1\n--- 2", json!(1));
    }

    #[test]
    fn a_stream_keeps_good_documents_beside_broken_ones() {
        let documents = read("a: 1\n---\nb: [\n---\nc: 3\n---\n# nothing\n");
        assert_eq!(documents.len(), 3);
        assert_eq!(documents[0].as_ref().map(|d| d.value.clone()), Ok(json!({"a": 1})));
        assert!(documents[1].is_err());
        assert_eq!(documents[2].as_ref().map(|d| d.value.clone()), Ok(json!({"c": 3})));
    }

    #[test]
    fn fields_have_lines() {
        let text = "spec:\n  conf:\n    modifications:\n    - cluster: {}\n    - listener:\n        operation: add\n";
        let document = read(text).remove(0).expect("good YAML");
        let entry = FieldPath::root().field("spec").field("conf").field("modifications").index(1);
        assert_eq!(document.position_of(&entry), Position { line: 5, column: 7 });
        let operation = entry.field("listener").field("operation");
        assert_eq!(document.position_of(&operation), Position { line: 6, column: 9 });
        assert_eq!(document.position_of(&operation.field("absent")).line, 6);
    }

    #[test]
    fn doubtful_text_is_noted() {
        let document = read("a: no\nb: 010\na: 'on'\nn: 1\nc: 1_000\nd: true\ne: 8080\n").remove(0).expect("good YAML");
        let notes: Vec<String> = document.notes.iter().map(|n| format!("{}: {:?}", n.position.line, n.kind)).collect();
        let ambiguous =
            |text: &str, value: Value| format!("{:?}", NoteKind::Ambiguous { text: text.into(), read_as: value });
        assert_eq!(
            notes,
            vec![
                format!("1: {}", ambiguous("no", json!(false))),
                format!("2: {}", ambiguous("010", json!(8))),
                format!("3: {:?}", NoteKind::DuplicateKey { key: "a".into() }),
                format!("4: {}", ambiguous("n", json!(false))),
                format!("5: {}", ambiguous("1_000", json!(1000))),
            ]
        );
    }

    #[test]
    fn bombs_and_nonsense_are_refused() {
        let mut bomb = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
        for level in 1..12 {
            let aliases = vec![format!("*a{}", level - 1); 10].join(", ");
            bomb.push_str(&format!("a{level}: &a{level} [{aliases}]\n"));
        }
        for text in [
            bomb.as_str(),
            &"[".repeat(100_000),
            &"- ".repeat(50_000),
            ".inf: 1\n",
            "a: .nan",
            "? [a]\n: b",
            "<<: 5",
            "~: 1",
            "&a [*a]",
        ] {
            assert!(read_value(text).is_err(), "{}", &text[..text.len().min(40)]);
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "[\\[\\]{}:,&*!|>'\"#%@a-z0-9 \\n\\-\\t?~<.]{0,60}") {
            let _ = read(&text);
        }

        #[test]
        fn json_is_yaml(text in "[a-zA-Z0-9 :#{}\\-]{0,20}", number in any::<i64>(), flag in any::<bool>()) {
            let value = json!({"text": text, "n": [number, {"flag": flag}]});
            prop_assert_eq!(read_value(&value.to_string()), Ok(value));
        }
    }
}
