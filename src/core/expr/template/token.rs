//! `{{ … }}` tokens in a text.
//!
//! A token is `{{`, a body, `}}`. The body has no braces except groups of one level: `{{ random('[a-z]{8}') }}` is a token,
//! `{{ {a: {b: c}} }}` is not and stays as it is. A backslash before the braces escapes the token.

use std::borrow::Cow;
use std::fmt::Write;

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Token<'t> {
    /// Where the token starts and ends in its text, braces included.
    pub(super) start: usize,
    pub(super) end: usize,
    text: Cow<'t, str>,
}

/// The first token that starts at or after `from`. Each match takes the character before it along, so directly after
/// another token (`from` > 0) none is found: `{{a}}{{b}}` needs two passes.
pub(super) fn next(text: &str, from: usize) -> Option<Token<'_>> {
    let mut at = from;
    while let Some(found) = text[at..].find("{{") {
        let run = at + found;
        at = run + text[run..].bytes().take_while(|byte| *byte == b'{').count();
        // Of a run of braces only the last two can open a token, or the last three if its body starts with a group.
        for start in [at.checked_sub(3), Some(at - 2)].into_iter().flatten().filter(|start| *start >= run) {
            let preceded = match text[from..start].chars().next_back() {
                Some(before) => before != '\\',
                None => start == 0,
            };
            if preceded && let Some(end) = end_of(text, start) {
                return Some(Token::new(text, start, end));
            }
        }
    }
    None
}

/// Where the token that starts at `start` ends, if it is one.
fn end_of(text: &str, start: usize) -> Option<usize> {
    let mut at = start + 2;
    loop {
        at += text[at..].find(['{', '}'])?;
        if text[at..].starts_with("}}") {
            return Some(at + 2);
        }
        if text[at..].starts_with('}') {
            return None;
        }
        let close = at + 1 + text[at + 1..].find(['{', '}'])?;
        if text[close..].starts_with('{') {
            return None;
        }
        at = close + 1;
    }
}

impl<'t> Token<'t> {
    fn new(text: &'t str, start: usize, end: usize) -> Self {
        let inside = &text[start + 2..end - 2];
        // A group at the end leaves more than two braces: `{{ {a: x}}}`.
        let text = match inside.ends_with('}') {
            true => Cow::Owned(text[start..end].replace("{{", "").replace("}}", "").trim().to_owned()),
            false => Cow::Borrowed(inside.trim()),
        };
        Self { start, end, text }
    }

    /// The expression, without braces and the mark of a shallow token.
    pub(super) fn expression(&self) -> &str {
        match self.text.strip_prefix('-') {
            Some(rest) => rest.trim_start(),
            None => &self.text,
        }
    }

    /// `{{- x }}`: tokens in the result are text.
    pub(super) fn is_shallow(&self) -> bool {
        self.text.starts_with('-')
    }
}

/// Protects the tokens of a text from being evaluated.
pub(super) fn escape(text: &str) -> String {
    text.replace("{{", "\\{{")
}

/// Removes the protection: `\{{` becomes `{{`.
pub(super) fn unescape(text: String) -> String {
    if text.contains("\\{{") { text.replace("\\{{", "{{") } else { text }
}

/// What `{{@}}` stands for: the place in the current object that corresponds to the leaf at `path`.
pub(super) fn current_path(root: &str, path: &[&str]) -> String {
    let after = path.iter().position(|step| *step == "foreach").map_or(0, |position| position + 1);
    let mut expression = root.to_owned();
    for step in path[after..].iter().skip(2) {
        let plain = step.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
            && step.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        let _ = if !step.is_empty() && step.bytes().all(|byte| byte.is_ascii_digit()) {
            write!(expression, "[{step}]")
        } else if plain {
            write!(expression, ".{step}")
        } else {
            write!(expression, ".{}", serde_json::Value::from(step.replace("\\/", "/")))
        };
    }
    expression
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_found() {
        #[track_caller]
        fn check(text: &str, expected: &[&str]) {
            let mut found = Vec::new();
            let mut from = 0;
            while let Some(token) = next(text, from) {
                from = token.end;
                found.push(text[token.start..token.end].to_owned());
            }
            assert_eq!(found, expected, "{text}");
        }
        check("{{a}}", &["{{a}}"]);
        check("x {{ a }} y {{b}}", &["{{ a }}", "{{b}}"]);
        check("{{a}}{{b}}", &["{{a}}"]);
        check("é{{a}}", &["{{a}}"]);
        check("{{ random('[a-z]{8}') }}", &["{{ random('[a-z]{8}') }}"]);
        check("{{ {a: x, b: y} }}", &["{{ {a: x, b: y} }}"]);
        check("{{ {a: x}}}", &["{{ {a: x}}}"]);
        check("{{ {a: {b: c}} }}", &[]);
        check("{{ a.{{ b }} }}", &["{{ b }}"]);
        check("{{{{a}}}}", &["{{{a}}}"]);
        check("\\{{a}}", &[]);
        check("\\{{a}} {{b}}", &["{{b}}"]);
        check("{{a} }", &[]);
        check("{{a", &[]);
        check("a}}", &[]);
        check("", &[]);
    }

    #[test]
    fn the_current_path_is_taken_from_the_leaf() {
        #[track_caller]
        fn check(root: &str, path: &[&str], expected: &str) {
            assert_eq!(current_path(root, path), expected);
        }
        check("request.object", &["mutate", "overlay", "spec", "kind"], "request.object.spec.kind");
        check("target", &["mutate", "overlay", "spec", "0", "a-b"], r#"target.spec[0]."a-b""#);
        check("request.object", &["mutate", "foreach", "0", "patch", "spec"], "request.object.spec");
        check("request.object", &["a", "b"], "request.object");
        check("request.object", &[], "request.object");
    }
}
