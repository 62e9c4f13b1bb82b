//! Random text that fits a pattern. Chance comes from the runtime's seed.
//!
//! The patterns are POSIX's: bracket classes, groups, `|`, `* + ?` and counts; no `\d`, no lazy forms.

use super::{Arguments, Function, Outcome};
use crate::core::expr::runtime::Runtime;

pub(super) const FUNCTIONS: &[Function] = &[Function {
    name: "random",
    takes: &["string"],
    gives: "string",
    note: "Random text that matches the pattern (POSIX classes, groups, `|`, `* + ? {m,n}`).",
    examples: &[
        ("length(random('[0-9a-z]{8}'))", "8"),
        ("regex_match('^(dev|prod)-[a-f]{2,4}$', random('(dev|prod)-[a-f]{2,4}'))", "true"),
    ],
    call: random,
}];

/// The upper end of `*`, `+` and `{m,}`.
const UNBOUNDED: u32 = 4096;
const MAX_COUNT: u32 = 1000;
const MAX_DEPTH: usize = 64;

fn random<'a>(arguments: &Arguments<'_, 'a>) -> Outcome<'a> {
    let pattern = arguments.text(0)?;
    if pattern.is_empty() {
        return Err(arguments.fail("the pattern is empty"));
    }
    arguments.runtime.step(pattern.len())?;
    let mut parser = Parser { rest: &pattern, depth: 0 };
    let parsed = parser.alternatives().and_then(|parsed| match parser.rest {
        "" => Ok(parsed),
        _ => Err("is a bad pattern: a `)` without its `(`"),
    });
    let parsed = parsed.map_err(|words| arguments.fail_on(0, words))?;
    let mut text = String::new();
    generate(&parsed, arguments.runtime, &mut text)?;
    arguments.give(text)
}

enum Pattern {
    Nothing,
    /// Inclusive ranges of characters.
    OneOf(Vec<(char, char)>),
    Sequence(Vec<Pattern>),
    Alternatives(Vec<Pattern>),
    Repeat(Box<Pattern>, u32, u32),
}

fn generate(pattern: &Pattern, runtime: &Runtime, text: &mut String) -> Result<(), crate::core::expr::EvalError> {
    runtime.step(1)?;
    match pattern {
        Pattern::Nothing => Ok(()),
        Pattern::OneOf(ranges) => {
            // A class may have as many ranges as its text has characters, and each draw reads them.
            runtime.step(1 + ranges.len() / 8)?;
            let size = |range: &(char, char)| u64::from(u32::from(range.1) - u32::from(range.0)) + 1;
            let mut picked = runtime.draw(ranges.iter().map(size).sum());
            for range in ranges {
                if picked < size(range) {
                    // The gap of the surrogates is no character; what falls there takes the range's start.
                    let code = u32::from(range.0) + picked as u32;
                    text.push(char::from_u32(code).unwrap_or(range.0));
                    break;
                }
                picked -= size(range);
            }
            runtime_room(runtime, text)
        }
        Pattern::Sequence(parts) => parts.iter().try_for_each(|part| generate(part, runtime, text)),
        Pattern::Alternatives(choices) => {
            let picked = runtime.draw(choices.len() as u64) as usize;
            choices.get(picked).map_or(Ok(()), |choice| generate(choice, runtime, text))
        }
        Pattern::Repeat(inner, least, most) => {
            let count = u64::from(*least) + runtime.draw(u64::from(most - least) + 1);
            (0..count).try_for_each(|_| generate(inner, runtime, text))
        }
    }
}

/// The text is paid for when it is whole; until then it must at least be affordable.
fn runtime_room(runtime: &Runtime, text: &str) -> Result<(), crate::core::expr::EvalError> {
    if text.len() > runtime.room() { runtime.produce(text.len()) } else { Ok(()) }
}

struct Parser<'p> {
    rest: &'p str,
    depth: usize,
}

impl Parser<'_> {
    fn next(&mut self) -> Option<char> {
        let character = self.rest.chars().next()?;
        self.rest = &self.rest[character.len_utf8()..];
        Some(character)
    }

    fn alternatives(&mut self) -> Result<Pattern, &'static str> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err("is a bad pattern: it is nested deeper than 64 levels");
        }
        let mut choices = vec![self.sequence()?];
        while let Some(rest) = self.rest.strip_prefix('|') {
            self.rest = rest;
            choices.push(self.sequence()?);
        }
        self.depth -= 1;
        Ok(if choices.len() == 1 { choices.remove(0) } else { Pattern::Alternatives(choices) })
    }

    fn sequence(&mut self) -> Result<Pattern, &'static str> {
        let mut parts = Vec::new();
        while !self.rest.is_empty() && !self.rest.starts_with(['|', ')']) {
            let atom = self.atom()?;
            parts.push(self.repeated(atom)?);
        }
        Ok(Pattern::Sequence(parts))
    }

    fn atom(&mut self) -> Result<Pattern, &'static str> {
        let only = |character| Pattern::OneOf(vec![(character, character)]);
        match self.next() {
            None | Some('^' | '$') => Ok(Pattern::Nothing),
            Some('(') => {
                self.rest = self.rest.strip_prefix("?:").unwrap_or(self.rest);
                let inner = self.alternatives()?;
                match self.next() {
                    Some(')') => Ok(inner),
                    _ => Err("is a bad pattern: a `(` without its `)`"),
                }
            }
            Some('[') => self.class(),
            Some('.') => Ok(Pattern::OneOf(vec![(' ', '~')])),
            Some('\\') => match self.next() {
                None => Err("is a bad pattern: a `\\` at the end"),
                Some('b') => Ok(Pattern::Nothing),
                Some('n') => Ok(only('\n')),
                Some('t') => Ok(only('\t')),
                Some('r') => Ok(only('\r')),
                Some(letter) if letter.is_alphanumeric() => {
                    Err("is a bad pattern: a `\\` before a letter is not supported; write a class such as [0-9]")
                }
                Some(other) => Ok(only(other)),
            },
            Some('*' | '+' | '?') => Err("is a bad pattern: a repeat of nothing"),
            Some(other) => Ok(only(other)),
        }
    }

    fn repeated(&mut self, atom: Pattern) -> Result<Pattern, &'static str> {
        let (least, most) = match self.rest.chars().next() {
            Some('*') => (0, UNBOUNDED),
            Some('+') => (1, UNBOUNDED),
            Some('?') => (0, 1),
            Some('{') => {
                let Some((inside, _)) = self.rest[1..].split_once('}') else {
                    return Ok(atom);
                };
                let Some((least, most)) = bounds(inside) else {
                    return Ok(atom);
                };
                if least > MAX_COUNT || (most > MAX_COUNT && most != UNBOUNDED) || least > most {
                    return Err("is a bad pattern: a count is out of order or above 1000");
                }
                self.rest = &self.rest[inside.len() + 1..];
                (least, most)
            }
            _ => return Ok(atom),
        };
        self.next();
        if self.rest.starts_with(['*', '+', '?']) {
            return Err("is a bad pattern: a repeat of a repeat, or a lazy one");
        }
        Ok(Pattern::Repeat(Box::new(atom), least, most))
    }

    /// The rest of `[`: members up to `]`.
    fn class(&mut self) -> Result<Pattern, &'static str> {
        let negated = self.rest.starts_with('^');
        if negated {
            self.next();
        }
        let mut ranges = Vec::new();
        let mut first = true;
        loop {
            if let Some((name, rest)) = self.rest.strip_prefix("[:").and_then(|rest| rest.split_once(":]")) {
                ranges.extend_from_slice(named(name).ok_or("is a bad pattern: unknown name of a class")?);
                self.rest = rest;
                first = false;
                continue;
            }
            let low = match self.next() {
                None => return Err("is a bad pattern: a `[` without its `]`"),
                Some(']') if !first => break,
                Some('\\') => self.escaped()?,
                Some(other) => other,
            };
            first = false;
            let mut high = low;
            if self.rest.starts_with('-') && !self.rest.starts_with("-]") {
                self.next();
                high = match self.next() {
                    None => return Err("is a bad pattern: a `[` without its `]`"),
                    Some('\\') => self.escaped()?,
                    Some(other) => other,
                };
            }
            if low > high {
                return Err("is a bad pattern: a range is out of order");
            }
            ranges.push((low, high));
        }
        if negated {
            ranges = complement(&ranges);
        }
        if ranges.is_empty() { Err("is a bad pattern: a class without characters") } else { Ok(Pattern::OneOf(ranges)) }
    }

    fn escaped(&mut self) -> Result<char, &'static str> {
        match self.next() {
            None => Err("is a bad pattern: a `\\` at the end"),
            Some('n') => Ok('\n'),
            Some('t') => Ok('\t'),
            Some('r') => Ok('\r'),
            Some(letter) if letter.is_alphanumeric() => {
                Err("is a bad pattern: a `\\` before a letter is not supported in a class")
            }
            Some(other) => Ok(other),
        }
    }
}

fn bounds(inside: &str) -> Option<(u32, u32)> {
    match inside.split_once(',') {
        None => inside.parse().ok().map(|count| (count, count)),
        Some((least, "")) => least.parse().ok().map(|least| (least, UNBOUNDED)),
        Some((least, most)) => Some((least.parse().ok()?, most.parse().ok()?)),
    }
}

fn named(name: &str) -> Option<&'static [(char, char)]> {
    Some(match name {
        "alnum" => &[('0', '9'), ('A', 'Z'), ('a', 'z')],
        "alpha" => &[('A', 'Z'), ('a', 'z')],
        "digit" => &[('0', '9')],
        "lower" => &[('a', 'z')],
        "upper" => &[('A', 'Z')],
        "xdigit" => &[('0', '9'), ('A', 'F'), ('a', 'f')],
        "punct" => &[('!', '/'), (':', '@'), ('[', '`'), ('{', '~')],
        "space" => &[('\t', '\r'), (' ', ' ')],
        "blank" => &[('\t', '\t'), (' ', ' ')],
        "word" => &[('0', '9'), ('A', 'Z'), ('a', 'z'), ('_', '_')],
        _ => return None,
    })
}

/// The printable ASCII characters that are not in the ranges: what a negated class draws from.
fn complement(ranges: &[(char, char)]) -> Vec<(char, char)> {
    (' '..='~')
        .filter(|character| !ranges.iter().any(|(low, high)| (low..=high).contains(&character)))
        .map(|character| (character, character))
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::core::expr::{Expression, Runtime};

    fn draw(pattern: &str, seed: u64) -> Result<String, String> {
        let expression = Expression::compile("random(p)").expect("an expression");
        let runtime = Runtime::new(jiff::Timestamp::UNIX_EPOCH, seed);
        match expression.search_json(&json!({ "p": pattern }), &runtime) {
            Ok(Value::String(text)) => Ok(text),
            Ok(other) => panic!("{other}"),
            Err(error) => Err(error.to_string()),
        }
    }

    #[test]
    fn the_text_fits_its_pattern() {
        for pattern in ["[0-9a-z]{8}", "(a|bc)+d?", "[^a-z]{3}", "x{2,5}[[:upper:]]*", r"^\[[]a-]{4}\.$", "a{2,}", "()"]
        {
            for seed in 0..20 {
                let text = draw(pattern, seed).unwrap_or_else(|error| panic!("{pattern}: {error}"));
                let whole = regex::Regex::new(&format!("^(?:{pattern})$")).expect("a regex");
                assert!(whole.is_match(&text), "{pattern} gave {text:?}");
            }
        }
    }

    #[test]
    fn the_seed_decides() {
        assert_eq!(draw("[a-z]{16}", 7), draw("[a-z]{16}", 7));
        assert_ne!(draw("[a-z]{16}", 7), draw("[a-z]{16}", 8));
    }

    #[test]
    fn bad_patterns_are_errors() {
        for pattern in ["", r"\d", r"\w+", "a+?", "[z-a]", "[a", "(a", "a)", "*a", "a{1001}", "a{5,2}", "[\\d]"] {
            assert!(draw(pattern, 0).is_err(), "{pattern}");
        }
        assert!(draw(&"(".repeat(100_000), 0).is_err());
        assert!(draw("((((a{1000}){1000}){1000}){1000})", 0).is_err_and(|error| error.contains("beyond")));
    }
}
