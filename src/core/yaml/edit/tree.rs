//! Where every part of a document stands in its text, in bytes.

use std::ops::Range;

use granit_parser::{Event, Parser, ScalarStyle, StructureStyle};

use crate::core::yaml::MAX_DEPTH;

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

/// Where one document of a stream stands: from the line on which it begins to the end of its last line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    pub range: Range<usize>,
    /// How many lines stand before it.
    pub lines_before: usize,
}

/// The documents of a stream that have a content; `None` if the text is not good YAML.
pub fn parts(text: &str) -> Option<Vec<Part>> {
    let trees = read_all(text)?;
    let part = |tree: Tree| {
        let start = super::line_start(text, tree.span.start);
        let range = start..super::line_end(text, tree.span.end.max(start));
        Part { lines_before: text[..start].matches('\n').count(), range }
    };
    Some(trees.into_iter().map(part).collect())
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

    /// Whether it is nothing at all: a document without content.
    fn is_nothing(&self) -> bool {
        matches!(self.kind, Kind::Scalar) && self.span.is_empty()
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
            None if done.is_nothing() => {}
            None => documents.push(done),
        }
    }
    Some(documents)
}

fn collection(span: Range<usize>, style: StructureStyle, kind: Kind) -> Tree {
    Tree { span, flow: style == StructureStyle::Flow, block_scalar: false, kind }
}
