//! Go's regular expressions (RE2) by way of the `regex` crate: same automata, a few differences in the notation.
//!
//! - `\d \w \s \b` are ASCII in Go, Unicode in the crate.
//! - Inside a class, `[`, `&&`, `--` and `~~` are plain characters in Go, set operations in the crate.
//! - A `{` that starts no count is a plain character in Go, an error in the crate; a count above 1000 is the reverse.
//! - `$name` in a replacement takes the longest name in both; Go writes nothing for an unknown group, as the crate does.

use regex::{Captures, Regex, RegexBuilder};

/// The memory that one compiled expression may take.
const SIZE_LIMIT: usize = 4 << 20;

/// The longest pattern that is read.
const MAX_PATTERN: usize = 16 * 1024;

const NEST_LIMIT: u32 = 100;

const MAX_COUNT: u32 = 1000;

pub(super) fn compile(pattern: &str) -> Result<Regex, String> {
    let translated = read(pattern)?;
    RegexBuilder::new(&translated)
        .size_limit(SIZE_LIMIT)
        .dfa_size_limit(SIZE_LIMIT)
        .nest_limit(NEST_LIMIT)
        .build()
        .map_err(|error| match error {
            regex::Error::CompiledTooBig(_) => {
                format!("the regular expression `{}` is too large when compiled", super::shorten(pattern))
            }
            other => complaint(pattern, &other.to_string()),
        })
}

/// Whether the expression is well written. Far cheaper than compiling it, for those who never run it.
pub(crate) fn check(pattern: &str) -> Result<(), String> {
    let translated = read(pattern)?;
    let mut parser = regex_syntax::ParserBuilder::new().nest_limit(NEST_LIMIT).build();
    let parsed = parser.parse(&translated);
    parsed.map(drop).map_err(|error| complaint(pattern, &error.to_string()))
}

/// The expression in the notation of the crate.
fn read(pattern: &str) -> Result<String, String> {
    if pattern.len() > MAX_PATTERN {
        return Err(format!("the regular expression is longer than {MAX_PATTERN} bytes"));
    }
    translate(pattern)
}

/// The crate draws a picture of several lines; its last line is the reason.
fn complaint(pattern: &str, picture: &str) -> String {
    let reason = picture.lines().last().unwrap_or_default().trim_start_matches("error: ");
    format!("bad regular expression `{}`: {reason}", super::shorten(pattern))
}

/// Writes a replacement with `$1`, `${name}` and `$$` filled in. A `$` that names nothing stays.
pub(super) fn expand(replacement: &str, captures: &Captures<'_>, result: &mut String) {
    captures.expand(replacement, result);
}

fn translate(pattern: &str) -> Result<String, String> {
    let mut out = String::with_capacity(pattern.len() + 16);
    let mut rest = pattern;
    while let Some(character) = rest.chars().next() {
        let length = match character {
            '\\' => escape(rest, Place::Outside, &mut out),
            '[' => class(rest, &mut out),
            '{' => match count(rest)? {
                Some(length) => {
                    out.push_str(&rest[..length]);
                    length
                }
                None => {
                    out.push_str("\\{");
                    1
                }
            },
            other => {
                out.push(other);
                other.len_utf8()
            }
        };
        rest = &rest[length..];
    }
    Ok(out)
}

#[derive(Clone, Copy, PartialEq)]
enum Place {
    Outside,
    InClass,
}

/// Translates the escape at the start of `rest` and says how long it is.
fn escape(rest: &str, place: Place, out: &mut String) -> usize {
    let Some(escaped) = rest[1..].chars().next() else {
        out.push('\\');
        return 1;
    };
    let outside = place == Place::Outside;
    match escaped {
        'd' => out.push_str(if outside { "[0-9]" } else { "0-9" }),
        'D' => out.push_str("[^0-9]"),
        'w' => out.push_str(if outside { "[0-9A-Za-z_]" } else { "0-9A-Za-z_" }),
        'W' => out.push_str("[^0-9A-Za-z_]"),
        's' => out.push_str(if outside { r"[\t\n\f\r ]" } else { r"\t\n\f\r " }),
        'S' => out.push_str(r"[^\t\n\f\r ]"),
        'b' if outside => out.push_str(r"(?-u:\b)"),
        'Q' if outside => {
            let quoted = &rest[2..];
            let end = quoted.find("\\E");
            out.push_str(&regex::escape(&quoted[..end.unwrap_or(quoted.len())]));
            return end.map_or(rest.len(), |end| 2 + end + 2);
        }
        '<' | '>' => out.push(escaped),
        _ => {
            out.push('\\');
            out.push(escaped);
            // `\x{10FFFF}` and `\p{Greek}` go together with their braces.
            if matches!(escaped, 'x' | 'p' | 'P')
                && let Some(end) = rest.strip_prefix(['\\']).and_then(|rest| rest[1..].starts_with('{').then_some(rest))
                && let Some(close) = end.find('}')
            {
                out.push_str(&end[1..=close]);
                return 1 + close + 1;
            }
        }
    }
    1 + escaped.len_utf8()
}

/// Translates the class at the start of `rest` and says how long it is.
fn class(rest: &str, out: &mut String) -> usize {
    let mut at = 1;
    out.push('[');
    if rest[at..].starts_with('^') {
        out.push('^');
        at += 1;
    }
    // A bracket that closes nothing yet is a plain character.
    if rest[at..].starts_with(']') {
        out.push_str("\\]");
        at += 1;
    }
    while let Some(character) = rest[at..].chars().next() {
        at += match character {
            ']' => {
                out.push(']');
                return at + 1;
            }
            '\\' => escape(&rest[at..], Place::InClass, out),
            '[' if rest[at..].starts_with("[:") && rest[at..].contains(":]") => {
                let end = rest[at..].find(":]").map_or(1, |end| end + 2);
                out.push_str(&rest[at..at + end]);
                end
            }
            '[' | '&' | '~' => {
                out.push('\\');
                out.push(character);
                1
            }
            '-' if rest[at..].starts_with("--") => {
                out.push_str("\\-");
                1
            }
            other => {
                out.push(other);
                other.len_utf8()
            }
        };
    }
    at
}

/// The length of the count (`{2}`, `{2,}`, `{2,5}`) at the start of `rest`, if there is one.
fn count(rest: &str) -> Result<Option<usize>, String> {
    let Some(close) = rest.find('}') else { return Ok(None) };
    let inside = &rest[1..close];
    let (least, most) = inside.split_once(',').unwrap_or((inside, inside));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(least) || !(digits(most) || (most.is_empty() && inside.contains(','))) {
        return Ok(None);
    }
    let large = |text: &str| !text.is_empty() && text.parse::<u32>().map_or(true, |count| count > MAX_COUNT);
    if large(least) || large(most) {
        return Err(format!("bad regular expression: the count {{{inside}}} is above {MAX_COUNT}"));
    }
    Ok(Some(close + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn goes_notation_is_kept() {
        #[track_caller]
        fn check(pattern: &str, text: &str, expected: bool) {
            let regex = compile(pattern).unwrap_or_else(|error| panic!("{pattern}: {error}"));
            assert_eq!(regex.is_match(text), expected, "{pattern} on {text:?}");
        }
        check(r"^\d+$", "123", true);
        check(r"^\d+$", "١٢٣", false);
        check(r"^\w+$", "né", false);
        check(r"^[\w-]+$", "a-b_1", true);
        check(r"^[^\d]$", "٣", true);
        check(r"^\s$", "\u{a0}", false);
        check(r"\bb\b", "é b", true);
        check(r"éb\b", "ébé", true);
        check(r"^[a&&b]+$", "a&b", true);
        check(r"^[[a]+$", "[a", true);
        check(r"^[]a]+$", "]a", true);
        check(r"^[^]a]+$", "x", true);
        check(r"^[[:alpha:]]+$", "abc", true);
        check(r"^[a\]b]+$", "a]b", true);
        check(r"^a{2}$", "aa", true);
        check(r"^a{,2}$", "a{,2}", true);
        check(r"^{x}$", "{x}", true);
        check(r"^\Qa.b\E$", "a.b", true);
        check(r"^\Qa.b\E$", "axb", false);
        check(r"^\p{Greek}\x{41}$", "αA", true);
        check(r"^\<a\>$", "<a>", true);
        check(r"(?i)HELLO", "hello", true);
    }

    #[test]
    fn explosive_expressions_are_refused() {
        #[track_caller]
        fn check(pattern: &str) {
            assert!(compile(pattern).is_err(), "{pattern}");
        }
        check("a{1001}");
        check("((((a{1000}){1000}){1000}){1000})");
        check(&"(".repeat(5000));
        check(&"a".repeat(MAX_PATTERN + 1));
        check("(");
        check("a\\");
        check(r"\8");
        check("(?=a)");
    }
}
