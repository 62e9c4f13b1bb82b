//! Regular expressions and wildcards.

use super::{Arguments, Function, Outcome};
use crate::core::expr::datum::Datum;
use crate::core::expr::error::Fault;
use crate::core::expr::go_regex;
use crate::core::scalar::wildcard;

pub(super) const FUNCTIONS: &[Function] = &[
    Function {
        name: "regex_match",
        takes: &["string", "string|number"],
        gives: "boolean",
        note: "Tells whether the regular expression (RE2) occurs in the text.",
        examples: &[
            (r#"regex_match('12.*', 'hgf\'b1a2r\'b12g')"#, "true"),
            ("regex_match('12.*', abs(`-12`))", "true"),
            ("regex_match('^b', 'abc')", "false"),
        ],
        call: regex_match,
    },
    Function {
        name: "regex_replace_all",
        takes: &["string", "string|number", "string|number"],
        gives: "string",
        note: "Replaces every match; `$1` and `${name}` in the replacement stand for groups, `$$` for a dollar sign.",
        examples: &[
            ("regex_replace_all('([Hh]e|G)l', 'Hello world, helworldlo', '${2}G')", r#""Glo world, Gworldlo""#),
            ("regex_replace_all('(a)(b)', 'ab ab', '$2$1')", r#""ba ba""#),
        ],
        call: regex_replace_all,
    },
    Function {
        name: "regex_replace_all_literal",
        takes: &["string", "string|number", "string|number"],
        gives: "string",
        note: "Replaces every match by the text as it is.",
        examples: &[
            ("regex_replace_all_literal('[Hh]el?', 'Hello world, helworldlo', 'G')", r#""Glo world, Gworldlo""#),
            ("regex_replace_all_literal('a', 'ab', '$0')", r#""$0b""#),
        ],
        call: regex_replace_all_literal,
    },
    Function {
        name: "pattern_match",
        takes: &["string", "string|number"],
        gives: "boolean",
        note: "Compares the whole text with a pattern: `*` is any run of characters, `?` exactly one.",
        examples: &[
            ("pattern_match('prefix-*', 'prefix-foo')", "true"),
            ("pattern_match('12*', abs(`-12`))", "true"),
            ("pattern_match('prefix-*', 'foo')", "false"),
        ],
        call: pattern_match,
    },
];

/// What a match with its groups costs.
const MATCH_STEPS: usize = 10;

fn regex_match<'a>(arguments: &Arguments<'_, 'a>) -> Outcome<'a> {
    let compiled = arguments.regex()?;
    let text = arguments.printed(1)?;
    arguments.runtime.search(&compiled, text.len())?;
    Ok(Datum::Bool(compiled.regex.is_match(&text)))
}

fn regex_replace_all<'a>(arguments: &Arguments<'_, 'a>) -> Outcome<'a> {
    let replacement = arguments.printed(2)?;
    replaced(arguments, |captures, result| go_regex::expand(&replacement, captures, result))
}

fn regex_replace_all_literal<'a>(arguments: &Arguments<'_, 'a>) -> Outcome<'a> {
    let replacement = arguments.printed(2)?;
    replaced(arguments, |_, result| result.push_str(&replacement))
}

fn replaced<'a>(
    arguments: &Arguments<'_, 'a>,
    mut replace: impl FnMut(&regex::Captures<'_>, &mut String),
) -> Outcome<'a> {
    let compiled = arguments.regex()?;
    let text = arguments.printed(1)?;
    arguments.runtime.search(&compiled, text.len())?;
    let mut result = String::new();
    let mut rest = 0;
    for captures in compiled.regex.captures_iter(&text) {
        let Some(whole) = captures.get(0) else { continue };
        // What the search may have read beyond the match, and the next one reads again.
        let left = text.len() - whole.end();
        arguments.runtime.search(&compiled, compiled.overscan().unwrap_or(left).min(left))?;
        let before = result.len();
        result.push_str(&text[rest..whole.start()]);
        replace(&captures, &mut result);
        rest = whole.end();
        arguments.runtime.step(MATCH_STEPS)?;
        arguments.runtime.produce(result.len() - before)?;
    }
    arguments.runtime.produce(text.len() - rest)?;
    result.push_str(&text[rest..]);
    Ok(Datum::text(result))
}

fn pattern_match<'a>(arguments: &Arguments<'_, 'a>) -> Outcome<'a> {
    let (pattern, text) = (arguments.text(0)?, arguments.printed(1)?);
    // The matcher's worst case, which needs a star.
    let tries = if pattern.contains('*') { pattern.len() } else { 1 };
    arguments.runtime.read(text.len().saturating_mul(tries))?;
    Ok(Datum::Bool(wildcard::matches(&pattern, &text)))
}

impl<'a> Arguments<'_, 'a> {
    fn regex(&self) -> Result<std::rc::Rc<go_regex::GoRegex>, Fault<'a>> {
        self.runtime.regex(&self.text(0)?)?.map_err(|words| self.fail_on(0, words))
    }
}
