//! Text: compare, search, cut, join, replace.

use std::borrow::Cow;

use super::{Arguments, Function, Outcome};
use crate::core::expr::datum::{Datum, Number};

pub(super) const FUNCTIONS: &[Function] = &[
    Function {
        name: "starts_with",
        takes: &["string", "string"],
        gives: "boolean",
        note: "Tells whether the text begins with the other.",
        examples: &[("starts_with('kube-system', 'kube-')", "true"), ("starts_with('default', 'kube-')", "false")],
        call: starts_with,
    },
    Function {
        name: "ends_with",
        takes: &["string", "string"],
        gives: "boolean",
        note: "Tells whether the text ends with the other.",
        examples: &[("ends_with('kube-system', '-system')", "true"), ("ends_with('default', '-system')", "false")],
        call: ends_with,
    },
    Function {
        name: "join",
        takes: &["string", "array[string]"],
        gives: "string",
        note: "Joins the elements with the text between them.",
        examples: &[("join('-', ['a', 'b', 'c'])", r#""a-b-c""#), ("join('-', `[]`)", r#""""#)],
        call: join,
    },
    Function {
        name: "compare",
        takes: &["string", "string"],
        gives: "number",
        note: "Orders two texts byte by byte: -1, 0 or 1.",
        examples: &[("compare('a', 'b')", "-1"), ("compare('b', 'a')", "1"), ("compare('a', 'a')", "0")],
        call: compare,
    },
    Function {
        name: "equal_fold",
        takes: &["string", "string"],
        gives: "boolean",
        note: "Compares two texts without regard to case.",
        examples: &[("equal_fold('Go', 'go')", "true"), ("equal_fold('a', 'b')", "false")],
        call: equal_fold,
    },
    Function {
        name: "replace",
        takes: &["string", "string", "string", "number"],
        gives: "string",
        note: "Replaces the first n occurrences of the second text by the third, all if n is negative.",
        examples: &[
            (
                "replace('Lorem ipsum ipsum ipsum dolor sit amet', 'ipsum', 'muspi', `1`)",
                r#""Lorem muspi ipsum ipsum dolor sit amet""#,
            ),
            (
                "replace('Lorem ipsum ipsum ipsum dolor sit amet', 'ipsum', 'muspi', `-1`)",
                r#""Lorem muspi muspi muspi dolor sit amet""#,
            ),
            ("replace('ab', '', '-', `-1`)", r#""-a-b-""#),
        ],
        call: replace,
    },
    Function {
        name: "replace_all",
        takes: &["string", "string", "string"],
        gives: "string",
        note: "Replaces every occurrence of the second text by the third.",
        examples: &[("replace_all('Lorem ipsum dolor sit amet', 'ipsum', 'muspi')", r#""Lorem muspi dolor sit amet""#)],
        call: replace_all,
    },
    Function {
        name: "to_upper",
        takes: &["string"],
        gives: "string",
        note: "Upper case, character by character.",
        examples: &[("to_upper('a#%&123Bc')", r##""A#%&123BC""##), ("to_upper('straße')", r#""STRAßE""#)],
        call: to_upper,
    },
    Function {
        name: "to_lower",
        takes: &["string"],
        gives: "string",
        note: "Lower case, character by character.",
        examples: &[("to_lower('a#%&123Bc')", r##""a#%&123bc""##)],
        call: to_lower,
    },
    Function {
        name: "trim",
        takes: &["string", "string"],
        gives: "string",
        note: "Strips all characters of the second text from both ends of the first.",
        examples: &[("trim('¡¡¡Hello, Gophers!!!', '!¡')", r#""Hello, Gophers""#)],
        call: trim,
    },
    Function {
        name: "trim_prefix",
        takes: &["string", "string"],
        gives: "string",
        note: "Strips the prefix once, if it is there.",
        examples: &[
            ("trim_prefix('¡¡¡Hello, Gophers!!!', '¡¡¡Hello, ')", r#""Gophers!!!""#),
            ("trim_prefix('¡¡¡Hello, Gophers!!!', '¡¡¡Hola, ')", r#""¡¡¡Hello, Gophers!!!""#),
        ],
        call: trim_prefix,
    },
    Function {
        name: "split",
        takes: &["string", "string"],
        gives: "array[string]",
        note: "Cuts the text at every separator; an empty separator gives the characters.",
        examples: &[
            ("split('Hello, Gophers', ', ')", r#"["Hello", "Gophers"]"#),
            ("split('', ',')", r#"[""]"#),
            ("split('añb', '')", r#"["a", "ñ", "b"]"#),
        ],
        call: split,
    },
    Function {
        name: "truncate",
        takes: &["string", "number"],
        gives: "string",
        note: "Keeps the first n characters.",
        examples: &[
            ("truncate('Lorem ipsum', `2.6`)", r#""Lo""#),
            ("truncate('Lorem ipsum', `0`)", r#""""#),
            ("truncate('Lorem ipsum', `-1`)", r#""""#),
            ("truncate('Lorem ipsum', `100`)", r#""Lorem ipsum""#),
        ],
        call: truncate,
    },
    Function {
        name: "path_canonicalize",
        takes: &["string"],
        gives: "string",
        note: "Cleans a path by its text alone: doubled slashes, `.`, `..` and a trailing slash.",
        examples: &[
            ("path_canonicalize('///')", r#""/""#),
            ("path_canonicalize('/var/run///containerd////')", r#""/var/run/containerd""#),
            ("path_canonicalize('/run/../etc')", r#""/etc""#),
            ("path_canonicalize('/../../')", r#""/""#),
            ("path_canonicalize('///etc*')", r#""/etc*""#),
            ("path_canonicalize('a/../../b')", r#""../b""#),
            ("path_canonicalize('')", r#""""#),
        ],
        call: path_canonicalize,
    },
];

fn starts_with<'a>(arguments: &Arguments<'_, 'a>) -> Outcome<'a> {
    Ok(Datum::Bool(arguments.bytes(0)?.starts_with(arguments.bytes(1)?)))
}

fn ends_with<'a>(arguments: &Arguments<'_, 'a>) -> Outcome<'a> {
    Ok(Datum::Bool(arguments.bytes(0)?.ends_with(arguments.bytes(1)?)))
}

fn join<'a>(arguments: &Arguments<'_, 'a>) -> Outcome<'a> {
    let separator = arguments.bytes(0)?;
    let mut joined = Vec::new();
    for (position, element) in arguments.list(1)?.iter().enumerate() {
        let element = element.as_bytes().unwrap_or_default();
        arguments.runtime.produce(separator.len() + element.len())?;
        if position > 0 {
            joined.extend_from_slice(separator);
        }
        joined.extend_from_slice(element);
    }
    Ok(Datum::bytes(joined))
}

fn compare<'a>(arguments: &Arguments<'_, 'a>) -> Outcome<'a> {
    let order = arguments.bytes(0)?.cmp(arguments.bytes(1)?);
    Ok(Datum::Number(Number::Signed(order as i64)))
}

fn equal_fold<'a>(arguments: &Arguments<'_, 'a>) -> Outcome<'a> {
    let (left, right) = (arguments.text(0)?, arguments.text(1)?);
    let fold = |c: char| lower(upper(c));
    Ok(Datum::Bool(left.chars().map(fold).eq(right.chars().map(fold))))
}

fn replace<'a>(arguments: &Arguments<'_, 'a>) -> Outcome<'a> {
    let count = arguments.number(3)?.to_f64().trunc();
    let most = if count < 0.0 { usize::MAX } else { count as usize };
    replaced(arguments, most)
}

fn replace_all<'a>(arguments: &Arguments<'_, 'a>) -> Outcome<'a> {
    replaced(arguments, usize::MAX)
}

fn replaced<'a>(arguments: &Arguments<'_, 'a>, most: usize) -> Outcome<'a> {
    let (text, old, new) = (arguments.text(0)?, arguments.text(1)?, arguments.text(2)?);
    let mut result = String::new();
    let mut rest = 0;
    // An empty `old` occurs before each character and at the end, which is what `match_indices` finds as well.
    for (start, found) in text.match_indices(&*old).take(most) {
        arguments.runtime.step(1)?;
        arguments.runtime.produce(start - rest + new.len())?;
        result.push_str(&text[rest..start]);
        result.push_str(&new);
        rest = start + found.len();
    }
    arguments.runtime.produce(text.len() - rest)?;
    result.push_str(&text[rest..]);
    Ok(Datum::text(result))
}

fn to_upper<'a>(arguments: &Arguments<'_, 'a>) -> Outcome<'a> {
    mapped(arguments, upper)
}

fn to_lower<'a>(arguments: &Arguments<'_, 'a>) -> Outcome<'a> {
    mapped(arguments, lower)
}

fn mapped<'a>(arguments: &Arguments<'_, 'a>, map: fn(char) -> char) -> Outcome<'a> {
    let text = arguments.text(0)?;
    arguments.runtime.produce(text.len())?;
    Ok(Datum::text(text.chars().map(map).collect::<String>()))
}

/// The character's upper case if that is one character: ß stays ß.
fn upper(character: char) -> char {
    let mut upper = character.to_uppercase();
    match (upper.next(), upper.next()) {
        (Some(one), None) => one,
        _ => character,
    }
}

/// The character's lower case. Only `İ` has two in the full mapping; its simple one is `i`.
fn lower(character: char) -> char {
    character.to_lowercase().next().unwrap_or(character)
}

fn trim<'a>(arguments: &Arguments<'_, 'a>) -> Outcome<'a> {
    let (text, cut) = (arguments.text(0)?, arguments.text(1)?);
    arguments.runtime.step(cut.len())?;
    let cut: std::collections::BTreeSet<char> = cut.chars().collect();
    arguments.give(text.trim_matches(|character| cut.contains(&character)))
}

fn trim_prefix<'a>(arguments: &Arguments<'_, 'a>) -> Outcome<'a> {
    let (text, prefix) = (arguments.text(0)?, arguments.text(1)?);
    arguments.give(text.strip_prefix(&*prefix).unwrap_or(&text))
}

fn split<'a>(arguments: &Arguments<'_, 'a>) -> Outcome<'a> {
    let (text, separator) = (arguments.text(0)?, arguments.text(1)?);
    let mut parts = Vec::new();
    let mut add = |part: &str| {
        arguments.runtime.step(1)?;
        arguments.runtime.produce(part.len())?;
        parts.push(Datum::text(part));
        Ok::<_, crate::core::expr::EvalError>(())
    };
    if separator.is_empty() {
        text.char_indices().try_for_each(|(start, character)| add(&text[start..start + character.len_utf8()]))?;
    } else {
        text.split(&*separator).try_for_each(&mut add)?;
    }
    Ok(Datum::list(parts))
}

fn truncate<'a>(arguments: &Arguments<'_, 'a>) -> Outcome<'a> {
    let text = arguments.text(0)?;
    // A negative number and NaN saturate to 0, a large one to the end of the text.
    let count = arguments.number(1)?.to_f64() as usize;
    let end = text.char_indices().nth(count).map_or(text.len(), |(end, _)| end);
    arguments.give(&text[..end])
}

fn path_canonicalize<'a>(arguments: &Arguments<'_, 'a>) -> Outcome<'a> {
    let path = arguments.text(0)?;
    if path.is_empty() {
        return arguments.give("");
    }
    let rooted = path.starts_with('/');
    let mut parts: Vec<Cow<'_, str>> = Vec::new();
    for part in path.split('/').filter(|part| !part.is_empty() && *part != ".") {
        match (part, parts.last().map(|last| &**last)) {
            ("..", None) if rooted => {}
            ("..", Some(last)) if last != ".." => {
                parts.pop();
            }
            _ => parts.push(part.into()),
        }
    }
    let joined = parts.join("/");
    match (rooted, joined.is_empty()) {
        (true, _) => arguments.give(format!("/{joined}")),
        (false, true) => arguments.give("."),
        (false, false) => arguments.give(joined),
    }
}
