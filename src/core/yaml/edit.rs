//! Changes to the text of a YAML document that leave everything else as it was written: comments, order, quotes.
//!
//! An edit is told by paths and done twice, to the value and to the text. [`apply`] gives the new text only if it reads
//! as the new value, so a way of writing that the editor does not master (an alias, a merge key) is an error and never a
//! different document.

mod tree;
mod write;

use std::ops::Range;

use serde_json::{Map, Value};

use super::read;
use crate::core::problem::{FieldPath, Step};
use tree::{Entry, Kind, Tree};
use write::Style;

pub use tree::{Part, parts};

/// One change. Paths are those of the document as the edits before have left it.
#[derive(Clone, Debug, PartialEq)]
pub enum Edit {
    /// The value there gives way to a scalar.
    Set { at: FieldPath, value: Value },
    /// The entry gets another key.
    Rename { at: FieldPath, key: &'static str },
    /// The entry gives way to another.
    Replace { at: FieldPath, key: &'static str, value: Value },
    /// The entry goes.
    Remove { at: FieldPath },
    /// A new entry of the mapping, behind the one that is named, or before all others.
    Insert { into: FieldPath, key: &'static str, value: Value, after: Option<&'static str> },
    /// The entry becomes the only one of a new mapping in its place.
    Nest { at: FieldPath, under: &'static str },
}

/// The edits cannot be done: a path leads nowhere, or the text is written in a way that cannot be changed in place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("written in a way that cannot be changed in place")]
pub struct Unchangeable;

/// Does the edits to the text of one document and to its value.
pub fn apply(text: &str, value: &Value, edits: &[Edit]) -> Result<(String, Value), Unchangeable> {
    let (mut text, mut value) = (text.to_owned(), value.clone());
    for edit in edits {
        edit.change_value(&mut value).ok_or(Unchangeable)?;
        text = edit.change_text(&text).ok_or(Unchangeable)?;
    }
    // The text may be a part of a file, where a line break follows: only then a block at its end has one.
    let is_same = |text: &str| matches!(read(text).as_slice(), [Ok(document)] if document.value == value);
    if is_same(&text) || is_same(&format!("{text}\n")) { Ok((text, value)) } else { Err(Unchangeable) }
}

/// The text of a mapping or list, as a document of its own.
pub fn source(text: &str, at: &FieldPath) -> Option<String> {
    let tree = Tree::read(text)?;
    let node = tree.find(at)?;
    if matches!(node.kind, Kind::Scalar) {
        return None;
    }
    let indent = column(text, node.span.start);
    let mut lines = text.get(node.span.clone())?.split('\n');
    let mut dedented = lines.next()?.to_owned();
    for line in lines {
        let blank = line.len() - line.trim_start_matches(' ').len();
        dedented.push('\n');
        dedented.push_str(&line[blank.min(indent)..]);
    }
    dedented.push('\n');
    Some(dedented)
}

impl Edit {
    fn change_value(&self, root: &mut Value) -> Option<()> {
        match self {
            Self::Set { at, value } => *find_mut(root, &at.steps())? = value.clone(),
            Self::Rename { at, key } => {
                let (entries, old) = entry_of(root, at)?;
                let value = entries.remove(&old)?;
                insert_new(entries, key, value)?;
            }
            Self::Replace { at, key, value } => {
                let (entries, old) = entry_of(root, at)?;
                entries.remove(&old)?;
                insert_new(entries, key, value.clone())?;
            }
            Self::Remove { at } => {
                let (entries, old) = entry_of(root, at)?;
                entries.remove(&old)?;
            }
            Self::Insert { into, key, value, .. } => {
                let entries = find_mut(root, &into.steps())?.as_object_mut()?;
                insert_new(entries, key, value.clone())?;
            }
            Self::Nest { at, under } => {
                let (entries, old) = entry_of(root, at)?;
                let value = entries.remove(&old)?;
                insert_new(entries, under, Value::Object(Map::from_iter([(old, value)])))?;
            }
        }
        Some(())
    }

    fn change_text(&self, text: &str) -> Option<String> {
        let tree = Tree::read(text)?;
        match self {
            Self::Set { at, value } => set(text, &tree, at, value),
            Self::Rename { at, key } => {
                let (mapping, position) = tree.entry(at)?;
                let entry = &mapping.entries()[position];
                Some(splice(text, &entry.key, &mapping.style(text).scalar(&Value::from(*key))))
            }
            Self::Replace { at, key, value } => {
                let (mapping, position) = tree.entry(at)?;
                let entry = &mapping.entries()[position];
                Some(splice(text, &entry.range(text), &mapping.style(text).entry(key, value)))
            }
            Self::Remove { at } => {
                let (mapping, position) = tree.entry(at)?;
                Some(remove(text, mapping, position))
            }
            Self::Insert { into, key, value, after } => insert(text, tree.find(into)?, key, value, *after),
            Self::Nest { at, under } => {
                let (mapping, position) = tree.entry(at)?;
                nest(text, mapping, &mapping.entries()[position], under)
            }
        }
    }
}

fn set(text: &str, tree: &Tree, at: &FieldPath, value: &Value) -> Option<String> {
    let (mapping, position) = tree.entry(at)?;
    let entry = &mapping.entries()[position];
    let written = mapping.style(text).value(value);
    let range = match entry.node.kind {
        Kind::Scalar if !entry.node.block_scalar && !entry.node.span.is_empty() && !written.contains('\n') => {
            return Some(splice(text, &entry.node.span, written.trim_start()));
        }
        _ => entry.colon(text)?..entry.range(text).end,
    };
    Some(splice(text, &range, &written))
}

/// An entry that stands on lines of its own goes with these lines and their comment; others go by themselves.
fn remove(text: &str, mapping: &Tree, position: usize) -> String {
    let entries = mapping.entries();
    let range = entries[position].range(text);
    let next = entries.get(position + 1).map(|next| next.key.start);
    if mapping.flow {
        let gone = match (next, position.checked_sub(1)) {
            (Some(next), _) => range.start..next,
            (None, Some(previous)) => entries[previous].range(text).end..range.end,
            (None, None) => range,
        };
        return splice(text, &gone, "");
    }
    if entries.len() == 1 {
        return splice(text, &range, "{}");
    }
    let line = line_start(text, range.start);
    match next {
        Some(next) if !text[line..range.start].trim().is_empty() => splice(text, &(range.start..next), ""),
        _ => {
            let end = line_end(text, range.end);
            // The last line of a text has no end of line of its own to take along.
            let lines = if end == text.len() { line.saturating_sub(1)..end } else { line..end + 1 };
            splice(text, &lines, "")
        }
    }
}

fn insert(text: &str, mapping: &Tree, key: &str, value: &Value, after: Option<&str>) -> Option<String> {
    let Kind::Map(entries) = &mapping.kind else { return None };
    let written = mapping.style(text).entry(key, value);
    let Some(first) = entries.first() else {
        let inside = mapping.span.start + 1;
        return mapping.flow.then(|| splice(text, &(inside..inside), &written));
    };
    let before = |at: usize, between: &str| splice(text, &(at..at), &format!("{written}{between}"));
    let Some(after) = after else {
        let between = if mapping.flow { ", ".to_owned() } else { mapping.style(text).new_line() };
        return Some(before(first.key.start, &between));
    };
    let neighbour = entries.iter().find(|entry| entry.name == after)?.range(text).end;
    if mapping.flow {
        return Some(splice(text, &(neighbour..neighbour), &format!(", {written}")));
    }
    let end = line_end(text, neighbour);
    Some(splice(text, &(end..end), &format!("{}{written}", mapping.style(text).new_line())))
}

fn nest(text: &str, mapping: &Tree, entry: &Entry, under: &str) -> Option<String> {
    let range = entry.range(text);
    let style = mapping.style(text);
    let key = style.scalar(&Value::from(under));
    if mapping.flow {
        return Some(splice(text, &range, &format!("{key}: {{{}}}", &text[range.clone()])));
    }
    let line = line_start(text, range.start);
    if !text[line..range.start].trim().is_empty() {
        return None;
    }
    let mut nested = format!("{}{key}:", &text[line..range.start]);
    for line in text[line..range.end].split('\n') {
        let indent = if line.trim().is_empty() { "" } else { "  " };
        nested.push_str(&format!("\n{indent}{line}"));
    }
    Some(splice(text, &(line..range.end), &nested))
}

impl Tree {
    fn entries(&self) -> &[Entry] {
        match &self.kind {
            Kind::Map(entries) => entries,
            _ => &[],
        }
    }

    /// How new entries of this mapping are written: as their neighbours are.
    fn style(&self, text: &str) -> Style {
        let first = self.entries().first();
        let quoted = match first {
            Some(first) => text[first.key.clone()].starts_with('"'),
            // An empty mapping has nobody to look at; quotes are right in YAML and in JSON.
            None => true,
        };
        let indent = first.map_or(0, |first| column(text, first.key.start));
        Style { flow: self.flow, quoted, indent }
    }

    fn find(&self, at: &FieldPath) -> Option<&Self> {
        at.steps().into_iter().try_fold(self, |node, step| node.below(step))
    }

    /// The mapping that holds the entry, and which of its entries it is.
    fn entry(&self, at: &FieldPath) -> Option<(&Self, usize)> {
        let steps = at.steps();
        let (last, way) = steps.split_last()?;
        let mapping = way.iter().try_fold(self, |node, step| node.below(step))?;
        let name = name_of(last)?;
        let mut named = mapping.entries().iter().enumerate().filter(|(_, entry)| entry.name == name);
        let (position, _) = named.next()?;
        // Of a key that stands twice the last one counts, but taking it away would bring the other one back.
        named.next().is_none().then_some((mapping, position))
    }

    fn below(&self, step: &Step) -> Option<&Self> {
        match (step, &self.kind) {
            (Step::Index(index), Kind::List(items)) => items.get(*index),
            (step, Kind::Map(entries)) => {
                let name = name_of(step)?;
                entries.iter().rfind(|entry| entry.name == name).map(|entry| &entry.node)
            }
            _ => None,
        }
    }
}

impl Entry {
    /// From the key to the end of the value, or of the colon where there is none.
    fn range(&self, text: &str) -> Range<usize> {
        let colon = self.colon(text).unwrap_or(self.key.end);
        self.key.start..self.node.span.end.max(colon)
    }

    /// Behind the colon.
    fn colon(&self, text: &str) -> Option<usize> {
        let colon = text.get(self.key.end..)?.find(':')?;
        text[self.key.end..self.key.end + colon].trim().is_empty().then_some(self.key.end + colon + 1)
    }
}

fn name_of(step: &Step) -> Option<&str> {
    match step {
        Step::Field(name) => Some(name),
        Step::Key(name) => Some(name),
        Step::Index(_) => None,
    }
}

fn find_mut<'v>(root: &'v mut Value, steps: &[&Step]) -> Option<&'v mut Value> {
    steps.iter().try_fold(root, |value, step| match step {
        Step::Index(index) => value.get_mut(*index),
        step => value.get_mut(name_of(step)?),
    })
}

fn entry_of<'v>(root: &'v mut Value, at: &FieldPath) -> Option<(&'v mut Map<String, Value>, String)> {
    let steps = at.steps();
    let (last, way) = steps.split_last()?;
    let entries = find_mut(root, way)?.as_object_mut()?;
    Some((entries, name_of(last)?.to_owned()))
}

/// A key that is there already would make two of it.
fn insert_new(entries: &mut Map<String, Value>, key: &str, value: Value) -> Option<()> {
    entries.insert(key.to_owned(), value).is_none().then_some(())
}

fn splice(text: &str, range: &Range<usize>, with: &str) -> String {
    [&text[..range.start], with, &text[range.end..]].concat()
}

fn line_start(text: &str, at: usize) -> usize {
    text[..at].rfind('\n').map_or(0, |newline| newline + 1)
}

fn line_end(text: &str, at: usize) -> usize {
    text[at..].find('\n').map_or(text.len(), |newline| at + newline)
}

fn column(text: &str, at: usize) -> usize {
    text[line_start(text, at)..at].chars().count()
}

#[cfg(test)]
mod tests;
