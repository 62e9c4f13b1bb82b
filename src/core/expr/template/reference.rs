//! `$( )` references: one leaf of a document stands for another leaf of the same document.
//!
//! A reference is `$(`, at least one character, no spaces, `)`; the longest such run is taken, so `$(a)-$(b)` is one token. A relative
//! path starts at the leaf itself, so its first `..` climbs out of the leaf. `\$(X)` is the text `$(X)`.

use std::cell::Cell;

use serde_json::{Map, Value};

use super::{Path, TemplateError};
use crate::core::expr::error::Bound;
use crate::core::expr::runtime::exceeded;
use crate::core::expr::shorten;
use crate::core::scalar::number;

/// How much text the references of one document may copy. Many references to one large leaf would multiply it.
const MAX_BYTES: usize = 16 << 20;

/// The document with all references replaced. They look at the document as it was written.
pub(super) fn resolve(document: &Value, max_depth: usize) -> Result<Value, TemplateError> {
    Resolver { document, max_depth, room: Cell::new(MAX_BYTES) }.visit(document, &Path::root(), 0)
}

struct Resolver<'d> {
    document: &'d Value,
    max_depth: usize,
    /// Bytes that references may still copy.
    room: Cell<usize>,
}

impl Resolver<'_> {
    fn visit(&self, value: &Value, path: &Path<'_>, depth: usize) -> Result<Value, TemplateError> {
        if depth > self.max_depth {
            let reason = exceeded(Bound::Depth, self.max_depth as u64).in_expression("the document");
            return Err(TemplateError::Budget { path: path.to_string(), reason });
        }
        Ok(match value {
            Value::String(text) => Value::String(self.text(text, path)?),
            Value::Array(elements) => {
                let mut resolved = Vec::with_capacity(elements.len());
                for (index, element) in elements.iter().enumerate() {
                    resolved.push(self.visit(element, &path.index(index), depth + 1)?);
                }
                Value::Array(resolved)
            }
            Value::Object(entries) => {
                let mut resolved = Map::new();
                for (key, value) in entries {
                    let new_key = self.text(key, path)?;
                    resolved.insert(new_key, self.visit(value, &path.key(key), depth + 1)?);
                }
                Value::Object(resolved)
            }
            other => other.clone(),
        })
    }

    fn text(&self, text: &str, path: &Path<'_>) -> Result<String, TemplateError> {
        if !text.contains("$(") {
            return Ok(text.to_owned());
        }
        let mut resolved = String::new();
        let mut rest = 0;
        while let Some((start, end)) = find(text, rest, Escaped::No) {
            resolved.push_str(&text[rest..start]);
            let replacement = self.reference(&text[start..end], path)?;
            let Some(room) = self.room.get().checked_sub(replacement.len()) else {
                let reason = exceeded(Bound::Bytes, MAX_BYTES as u64).in_expression("the document's references");
                return Err(TemplateError::Budget { path: path.to_string(), reason });
            };
            self.room.set(room);
            resolved.push_str(&replacement);
            rest = end;
        }
        resolved.push_str(&text[rest..]);
        Ok(unescape(resolved))
    }

    fn reference(&self, token: &str, path: &Path<'_>) -> Result<String, TemplateError> {
        let fail = |reason: String| TemplateError::Reference {
            path: path.to_string(),
            reference: shorten(token).into_owned(),
            reason,
        };
        let inside = token.trim_matches(['$', '(', ')']);
        let operator = [">=", "<=", ">", "<", "!"].into_iter().find(|operator| inside.starts_with(operator));
        let operator = operator.unwrap_or_default();
        let target = &inside[operator.len()..];
        if target.is_empty() {
            return Err(fail("the reference is empty".to_owned()));
        }
        let target = absolute(target, path);
        let found = lookup(self.document, &target);
        match found {
            None => Err(fail(format!(
                "got nil resolved variable: nothing is found at {}; literal text is written \\{}",
                shorten(&target),
                shorten(token)
            ))),
            Some(Found::Text(text)) => Ok(format!("{operator}{text}")),
            Some(Found::Value(Value::Number(value))) if !operator.is_empty() => match value.is_f64() {
                true => Ok(format!("{operator}{:.6}", number::float(value))),
                false => Ok(format!("{operator}{value}")),
            },
            Some(Found::Value(other)) => Err(fail(format!("{} is {other}, not text", shorten(&target)))),
        }
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Escaped {
    Yes,
    No,
}

/// The next token at or after `from` whose `$` is, or is not, preceded by a backslash. As with variables, a match takes the
/// character before it along.
fn find(text: &str, from: usize, escaped: Escaped) -> Option<(usize, usize)> {
    let mut at = from;
    while let Some(found) = text[at..].find("$(") {
        let start = at + found;
        at = start + 2;
        let before = text[from..start].chars().next_back();
        let fits = match escaped {
            Escaped::Yes => before == Some('\\'),
            Escaped::No => before.map_or(start == 0, |before| before != '\\'),
        };
        if fits {
            match end_of(text, start) {
                Ok(end) => return Some((start, end)),
                Err(resume) => at = resume,
            }
        }
    }
    None
}

/// Where the token that starts at `start` ends: after the last `)` before a space, with something in between. If it is no
/// token, where to look for the next one: a run without `)` holds none at all, and must not be read again for each `$(`.
fn end_of(text: &str, start: usize) -> Result<usize, usize> {
    let inside = start + 2;
    let Some(first) = text[inside..].chars().next().filter(|first| !matches!(first, '\n' | ' ')) else {
        return Err(inside);
    };
    let second = inside + first.len_utf8();
    let run = &text[second..second + text[second..].find(' ').unwrap_or(text.len() - second)];
    run.rfind(')').map(|close| second + close + 1).ok_or(second + run.len())
}

fn unescape(text: String) -> String {
    let mut result = String::new();
    let mut rest = 0;
    while let Some((start, end)) = find(&text, rest, Escaped::Yes) {
        result.push_str(&text[rest..start - 1]);
        result.push_str(&text[start..end]);
        rest = end;
    }
    if rest == 0 {
        return text;
    }
    result.push_str(&text[rest..]);
    result
}

/// The path that a reference at leaf `path` means, normalised.
fn absolute(target: &str, path: &Path<'_>) -> String {
    let from_root = target.starts_with('/');
    let base = if from_root { Vec::new() } else { path.steps() };
    let mut steps: Vec<&str> = Vec::new();
    for step in base.into_iter().flat_map(|step| step.split('/')).chain(target.split('/')) {
        match step {
            "" | "." => {}
            ".." => {
                steps.pop();
            }
            step => steps.push(step),
        }
    }
    format!("/{}", steps.join("/"))
}

enum Found<'d> {
    Text(&'d str),
    Value(&'d Value),
}

/// The leaf at `path`. An object gives one of its key names, a list nothing.
fn lookup<'d>(document: &'d Value, path: &str) -> Option<Found<'d>> {
    let mut value = document;
    let mut rest = path.trim_start_matches('/');
    while !rest.is_empty() {
        (value, rest) = match value {
            Value::Object(entries) => entries.iter().find_map(|(key, value)| {
                // Keys may hold slashes, so the path is eaten key by key instead of cut beforehand.
                let name = strip_anchor(key).replace('/', "\\/");
                let first = rest.split_inclusive('/').next().unwrap_or_default().trim_end_matches('/');
                let eaten = match strip_anchor(first) == name && !name.contains('/') {
                    true => &rest[first.len()..],
                    false => rest.strip_prefix(name.as_str())?,
                };
                (eaten.is_empty() || eaten.starts_with('/')).then(|| (value, eaten.trim_start_matches('/')))
            })?,
            Value::Array(elements) => {
                let (first, after) = rest.split_once('/').unwrap_or((rest, ""));
                (elements.get(first.parse::<usize>().ok()?)?, after)
            }
            _ => return None,
        };
    }
    match value {
        Value::String(text) => Some(Found::Text(text)),
        Value::Object(entries) => entries.keys().next().map(|key| Found::Text(key)),
        Value::Array(_) | Value::Null => None,
        other => Some(Found::Value(other)),
    }
}

/// `(k)`, `=(k)`, `^(k)`, `+(k)`, `X(k)`, `<(k)` as `k`.
fn strip_anchor(key: &str) -> &str {
    let bare = key.strip_prefix(['=', '^', '+', 'X', '<']).unwrap_or(key);
    bare.strip_prefix('(').and_then(|bare| bare.strip_suffix(')')).unwrap_or(key)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(document: Value, pointer: &str, expected: &str) {
        let resolved = resolve(&document, 64).unwrap_or_else(|error| panic!("{document}: {error}"));
        assert_eq!(resolved.pointer(pointer), Some(&json!(expected)));
    }

    #[track_caller]
    fn refused(text: &str) -> String {
        resolve(&json!({ "a": text, "n": 5, "o": {"k": "v"}, "l": [1] }), 64).expect_err(text).to_string()
    }

    #[test]
    fn references_are_relative_to_their_leaf() {
        let pod = |memory: &str| {
            json!({"spec": {"containers": [{"resources": {
                "requests": {"memory": memory}, "limits": {"memory": "2048Mi", "cpu": 2, "share": 0.5}}}]}})
        };
        let leaf = "/spec/containers/0/resources/requests/memory";
        check(pod("$(./../../limits/memory)"), leaf, "2048Mi");
        check(pod("$(<=./../../limits/memory)"), leaf, "<=2048Mi");
        check(pod("$(<=./../../limits/cpu)"), leaf, "<=2");
        check(pod("$(!../../limits/share)"), leaf, "!0.500000");
        check(pod("$(/spec/containers/0/resources/limits/memory)"), leaf, "2048Mi");
        check(pod("a $(../../limits/memory) b"), leaf, "a 2048Mi b");
    }

    #[test]
    fn anchors_do_not_count() {
        check(json!({"=(spec)": {"(a)": "x", "b": "$(/spec/a)"}}), "/=(spec)/b", "x");
        check(json!({"^(spec)": {"+(a)": "x", "b": "$(../a)"}}), "/^(spec)/b", "x");
        check(json!({"a/b": {"c": "x", "d": "$(../c)"}}), "/a~1b/d", "x");
    }

    #[test]
    fn keys_hold_references_too() {
        check(json!({"o": {"$(./name)": "v", "name": "x"}}), "/o/x", "v");
    }

    #[test]
    fn other_texts_stay() {
        for text in ["${X}", "\\${X}", "$()", "$(a b)", "$( )", "$(", "a$", "$(a"] {
            check(json!({ "a": text }), "/a", text);
        }
        check(json!({"a": "\\$(X)"}), "/a", "$(X)");
        check(json!({"a": "echo \\$(X) \\$(Y)"}), "/a", "echo $(X) $(Y)");
    }

    #[test]
    fn a_missing_target_is_an_error() {
        assert!(refused("$(../b)").contains("got nil resolved variable"));
        assert!(refused("$(FOO)").contains("written \\$(FOO)"));
        assert!(refused("$(../l)").contains("got nil resolved variable"));
        assert!(refused("$(../n)").contains("not text"));
        // Greedy: this is one reference to the path `/a/o/k)-$(../o/k`.
        assert!(refused("$(../o/k)-$(../o/k)").contains("got nil"));
    }

    #[test]
    fn references_cannot_multiply_a_large_leaf() {
        let mut document = Map::new();
        document.insert("large".to_owned(), json!("x".repeat(1 << 20)));
        document.insert("many".to_owned(), json!(vec!["$(/large)"; 100]));
        let error = resolve(&document.into(), 64).expect_err("a budget error");
        assert!(error.to_string().contains("goes beyond"), "{error}");
    }
}
