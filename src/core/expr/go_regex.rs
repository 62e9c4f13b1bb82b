//! Go's regular expressions (RE2) by way of the `regex` crate: same automata, a few differences in the notation.
//!
//! - `\d \w \s \b` are ASCII in Go, Unicode in the crate.
//! - Inside a class, `[`, `&&`, `--` and `~~` are plain characters in Go, set operations in the crate.
//! - A `{` that starts no count is a plain character in Go, an error in the crate; a count above 1000 is the reverse.
//! - `$name` in a replacement takes the longest name in both; Go writes nothing for an unknown group, as the crate does.

//!
//! Compiling and searching cost more than the text of an expression tells (`(a{1000}){9}`), so both have a price that the
//! caller pays first: [`GoRegex::weight`] for the size of the automaton, [`GoRegex::overscan`] for what a search may read
//! beyond its match.

use std::fmt;

use regex::{Captures, Regex, RegexBuilder};
use regex_syntax::hir::{Hir, HirKind};

/// The memory that one compiled expression may take, and again its cache while it searches.
const SIZE_LIMIT: usize = 1 << 20;

/// The longest pattern that is read.
const MAX_PATTERN: usize = 16 * 1024;

const NEST_LIMIT: u32 = 100;

const MAX_COUNT: u32 = 1000;

/// An expression that can be searched for.
#[derive(Debug)]
pub(super) struct GoRegex {
    pub(super) regex: Regex,
    weight: usize,
    overscan: Option<usize>,
}

/// An expression that is well written, before it is compiled.
pub(super) struct ParsedRegex {
    translated: String,
    hir: Hir,
}

/// Why an expression cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RegexFault {
    /// Without the text of the expression, which may be computed from the content of a Secret.
    pub(super) words: &'static str,
    /// For the author of a literal expression.
    detail: String,
}

/// The message for the author; [`RegexFault::words`] is the one for expressions that were computed.
impl fmt::Display for RegexFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.detail)
    }
}

impl ParsedRegex {
    pub(super) fn read(pattern: &str) -> Result<Self, RegexFault> {
        if pattern.len() > MAX_PATTERN {
            let words = "is too long for a regular expression: it has more than 16384 bytes";
            return Err(RegexFault { words, detail: format!("the regular expression {words}") });
        }
        let translated = translate(pattern).map_err(|detail| RegexFault { words: BAD_COUNT, detail })?;
        let mut parser = regex_syntax::ParserBuilder::new().nest_limit(NEST_LIMIT).build();
        match parser.parse(&translated) {
            Ok(hir) => Ok(Self { translated, hir }),
            Err(error) => Err(complaint(pattern, &error.to_string())),
        }
    }

    /// About how many states the automaton has.
    pub(super) fn weight(&self) -> usize {
        weight(&self.hir)
    }

    pub(super) fn build(self) -> Result<GoRegex, RegexFault> {
        let builder = RegexBuilder::new(&self.translated)
            .size_limit(SIZE_LIMIT)
            .dfa_size_limit(SIZE_LIMIT)
            .nest_limit(NEST_LIMIT)
            .build();
        let regex = builder.map_err(|error| match error {
            regex::Error::CompiledTooBig(_) => {
                let words = "is a regular expression that is too large when compiled";
                RegexFault { words, detail: words.to_owned() }
            }
            other => complaint(&self.translated, &other.to_string()),
        })?;
        Ok(GoRegex { regex, weight: self.weight(), overscan: overscan(&self.hir) })
    }
}

impl GoRegex {
    /// About how many states the automaton has: the price of a character when the fast path fails.
    pub(super) fn weight(&self) -> usize {
        self.weight
    }

    /// How many bytes a search reads at most beyond the end of its match. Nothing if there is no bound, as for `.*b|a`, which
    /// reads to the end of the text for each `a`.
    pub(super) fn overscan(&self) -> Option<usize> {
        self.overscan
    }
}

/// Whether the expression is well written. Far cheaper than compiling it, for those who never run it.
pub(crate) fn check(pattern: &str) -> Result<(), RegexFault> {
    ParsedRegex::read(pattern).map(drop)
}

const BAD_SYNTAX: &str = "is a bad regular expression";
const BAD_COUNT: &str = "is a bad regular expression: a count is above 1000";

/// The crate draws a picture of several lines; its last line is the reason.
fn complaint(pattern: &str, picture: &str) -> RegexFault {
    let reason = picture.lines().last().unwrap_or_default().trim_start_matches("error: ");
    let detail = format!("bad regular expression `{}`: {reason}", super::shorten(pattern));
    RegexFault { words: BAD_SYNTAX, detail }
}

fn weight(hir: &Hir) -> usize {
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) => 1,
        HirKind::Literal(literal) => literal.0.len(),
        // A range of characters beyond ASCII becomes a few ranges of bytes.
        HirKind::Class(regex_syntax::hir::Class::Unicode(class)) => class.ranges().len().saturating_mul(4),
        HirKind::Class(regex_syntax::hir::Class::Bytes(class)) => class.ranges().len(),
        HirKind::Capture(capture) => weight(&capture.sub).saturating_add(2),
        HirKind::Repetition(repetition) => {
            let most = repetition.max.unwrap_or(repetition.min.saturating_add(1)).max(1);
            weight(&repetition.sub).saturating_add(1).saturating_mul(most as usize)
        }
        HirKind::Concat(parts) | HirKind::Alternation(parts) => {
            parts.iter().map(weight).fold(parts.len(), usize::saturating_add)
        }
    }
}

/// See [`GoRegex::overscan`]. A repeat without end does no harm at the end of the expression if it repeats one character: the
/// search ends where the match does.
fn overscan(hir: &Hir) -> Option<usize> {
    if let Some(longest) = hir.properties().maximum_len() {
        return Some(longest);
    }
    match hir.kind() {
        HirKind::Capture(capture) => overscan(&capture.sub),
        HirKind::Repetition(repetition) => matches!(repetition.sub.kind(), HirKind::Class(_)).then_some(MAX_CHARACTER),
        HirKind::Concat(parts) => {
            let (last, before) = parts.split_last()?;
            let before: Option<usize> = before.iter().map(|part| part.properties().maximum_len()).sum();
            Some(before?.saturating_add(overscan(last)?))
        }
        _ => None,
    }
}

/// The longest character in bytes.
const MAX_CHARACTER: usize = 4;

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

    fn compile(pattern: &str) -> Result<Regex, RegexFault> {
        ParsedRegex::read(pattern)?.build().map(|compiled| compiled.regex)
    }

    #[test]
    fn a_search_has_a_price() {
        #[track_caller]
        fn check(pattern: &str, weight: std::ops::Range<usize>, overscan: Option<usize>) {
            let compiled = ParsedRegex::read(pattern).and_then(ParsedRegex::build).expect(pattern);
            assert!(weight.contains(&compiled.weight()), "{pattern}: {}", compiled.weight());
            assert_eq!(compiled.overscan(), overscan, "{pattern}");
        }
        check("abc", 3..4, Some(3));
        check("a{1000}", 1000..3000, Some(1000));
        check(r"\s+", 5..30, Some(4));
        check("x[a-z]+", 5..20, Some(5));
        check("(b[a-z]*)", 5..20, Some(5));
        check(".*b|a", 2..60, None);
        check("a(.*b)?", 2..60, None);
    }

    #[test]
    fn messages_about_computed_expressions_do_not_quote_them() {
        for pattern in ["hidden(", "hidden{1001}", r"hidden\8", &"hidden".repeat(5000)] {
            let fault = compile(pattern).expect_err(pattern);
            assert!(!fault.words.contains("hidden"), "{}", fault.words);
        }
    }

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
