//! Where every part of a document stands in its text, in bytes.

use std::ops::Range;

use granit_parser::{Event, Parser, ScalarStyle, StructureStyle};
use serde_json::Value;

use crate::core::yaml::{MAX_DEPTH, scalar};

/// A value and its place.
#[derive(Clone, Debug)]
pub(super) struct Tree {
    /// Without anchors, tags, and the comments and blank lines behind it.
    pub(super) span: Range<usize>,
    /// Whether it is written with braces or brackets.
    pub(super) flow: bool,
    /// Whether it is a text below `|` or `>`.
    pub(super) block_scalar: bool,
    pub(super) kind: Kind,
}

#[derive(Clone, Debug)]
pub(super) enum Kind {
    /// An alias counts as one.
    Scalar,
    List(Vec<Tree>),
    Map(Vec<Entry>),
}

#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) name: String,
    pub(super) key: Range<usize>,
    pub(super) node: Tree,
}

/// Where one document of a stream stands, or one item of a `List`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// Whole lines, but for what stands before an item on its first line, and around one with braces.
    pub range: Range<usize>,
    /// How many blanks must stand before it so that it is a document of its own.
    pub indent: usize,
}

/// The documents of a stream that have a content, each `List` by its items, as kubectl reads them; `None` if the text is
/// not good YAML.
pub fn parts(text: &str) -> Option<Vec<Part>> {
    let mut parts = Vec::new();
    for tree in read_all(text)? {
        match tree.items(text) {
            Some(items) => parts.extend(items.iter().map(|item| item.as_item(text))),
            None => {
                let start = super::line_start(text, tree.span.start);
                parts.push(Part { range: start..super::line_end(text, tree.span.end.max(start)), indent: 0 });
            }
        }
    }
    Some(parts)
}

impl Tree {
    /// The only document of a text.
    pub(super) fn read(text: &str) -> Option<Self> {
        let mut trees = read_all(text)?;
        let tree = trees.pop()?;
        trees.is_empty().then_some(tree)
    }

    fn scalar(span: Range<usize>, block_scalar: bool) -> Self {
        Self { span, flow: false, block_scalar, kind: Kind::Scalar }
    }

    /// The items, if it is a `List` of Kubernetes.
    fn items(&self, text: &str) -> Option<&[Tree]> {
        let Kind::Map(entries) = &self.kind else { return None };
        let named = |name: &str| entries.iter().rfind(|entry| entry.name == name).map(|entry| &entry.node);
        let kind = text.get(named("kind")?.span.clone()).map(unquoted)?;
        match &named("items")?.kind {
            Kind::List(items) if kind == "List" => Some(items),
            _ => None,
        }
    }

    fn as_item(&self, text: &str) -> Part {
        let Range { start, end } = self.span;
        if self.flow || matches!(self.kind, Kind::Scalar) {
            return Part { range: start..end, indent: 0 };
        }
        Part { range: start..super::line_end(text, end), indent: super::column(text, start) }
    }

    /// Whether it is nothing at all: a document without content.
    fn is_nothing(&self, text: &str) -> bool {
        let written = text.get(self.span.clone()).unwrap_or_default();
        matches!(self.kind, Kind::Scalar) && !self.block_scalar && scalar::resolve(None, written) == Ok(Value::Null)
    }

    fn push(&mut self, child: Tree, text: &str) {
        if !self.flow {
            self.span.end = self.span.end.max(child.span.end);
        }
        match &mut self.kind {
            Kind::List(items) => items.push(child),
            // Keys and values come by turns: a name of its own text marks a key that waits for its value.
            Kind::Map(entries) => match entries.last_mut() {
                Some(entry) if entry.node.span.start == usize::MAX => entry.node = child,
                _ => {
                    let name = unquoted(&text[child.span.clone()]);
                    let waiting = Self::scalar(usize::MAX..usize::MAX, false);
                    entries.push(Entry { name, key: child.span, node: waiting });
                }
            },
            Kind::Scalar => {}
        }
    }
}

/// A key as it is looked for. Quoted keys with escapes are not: nobody writes the names of fields so.
fn unquoted(key: &str) -> String {
    let inner = ['"', '\''].iter().find_map(|quote| key.strip_prefix(*quote)?.strip_suffix(*quote));
    inner.unwrap_or(key).to_owned()
}

fn read_all(text: &str) -> Option<Vec<Tree>> {
    let options = granit_parser::options! { emit_comments: false };
    let (mut open, mut documents): (Vec<Tree>, Vec<Tree>) = (Vec::new(), Vec::new());
    for next in Parser::new_from_str_with_options(text, options) {
        let (event, span) = next.ok()?;
        let span = span.start.byte_offset()?..span.end.byte_offset()?;
        let done = match event {
            Event::Scalar(_, ScalarStyle::Literal | ScalarStyle::Folded, ..) => {
                // The blank lines behind belong to nobody.
                let content = text.get(span.clone())?.trim_end().len();
                Tree::scalar(span.start..span.start + content, true)
            }
            Event::Scalar(..) | Event::Alias(_) => Tree::scalar(span, false),
            Event::SequenceStart(..) | Event::MappingStart(..) if open.len() >= MAX_DEPTH => return None,
            Event::SequenceStart(style, ..) => {
                open.push(collection(span, style, Kind::List(Vec::new())));
                continue;
            }
            Event::MappingStart(style, ..) => {
                open.push(collection(span, style, Kind::Map(Vec::new())));
                continue;
            }
            Event::SequenceEnd | Event::MappingEnd => {
                let mut done = open.pop()?;
                if done.flow {
                    done.span.end = span.end;
                }
                done
            }
            _ => continue,
        };
        match open.last_mut() {
            Some(parent) => parent.push(done, text),
            None if done.is_nothing(text) => {}
            None => documents.push(done),
        }
    }
    Some(documents)
}

fn collection(span: Range<usize>, style: StructureStyle, kind: Kind) -> Tree {
    Tree { span, flow: style == StructureStyle::Flow, block_scalar: false, kind }
}
