//! Compact JSON as Go's encoder writes it: keys in byte order, and the characters that matter to HTML escaped.
//!
//! This is the text that users see when an object is embedded in a string, so it must not differ by a byte.

use serde_json::Value;

use super::number;

/// The JSON text of a value.
pub fn encode(value: &Value) -> String {
    let mut out = String::new();
    write(value, &mut out);
    out
}

/// How many bytes a value has as compact JSON, escapes not counted: a bound must cost less than what it bounds.
pub fn json_bytes(value: &Value) -> usize {
    let separators = |count: usize| 2 + count.saturating_sub(1);
    match value {
        Value::Null => 4,
        Value::Bool(flag) => 5 - usize::from(*flag),
        Value::Number(number) => number.to_string().len(),
        Value::String(text) => text.len() + 2,
        Value::Array(items) => separators(items.len()) + items.iter().map(json_bytes).sum::<usize>(),
        Value::Object(fields) => {
            let inside = fields.iter().map(|(key, value)| key.len() + 3 + json_bytes(value));
            separators(fields.len()) + inside.sum::<usize>()
        }
    }
}

/// A value inside a text: a string as it is, anything else as JSON.
pub fn embed(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => encode(other),
    }
}

/// Appends the JSON text of a string, quotes included.
pub fn write_string(text: &str, out: &mut String) {
    out.push('"');
    let mut plain = 0;
    for (at, c) in text.char_indices() {
        let escape: &str = match c {
            '"' => "\\\"",
            '\\' => "\\\\",
            '\n' => "\\n",
            '\r' => "\\r",
            '\t' => "\\t",
            '\u{8}' => "\\b",
            '\u{c}' => "\\f",
            '<' => "\\u003c",
            '>' => "\\u003e",
            '&' => "\\u0026",
            '\u{2028}' => "\\u2028",
            '\u{2029}' => "\\u2029",
            '\0'..='\u{1f}' => "",
            _ => continue,
        };
        out.push_str(&text[plain..at]);
        if escape.is_empty() {
            out.push_str(&format!("\\u{:04x}", u32::from(c)));
        } else {
            out.push_str(escape);
        }
        plain = at + c.len_utf8();
    }
    out.push_str(&text[plain..]);
    out.push('"');
}

fn write(value: &Value, out: &mut String) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(true) => out.push_str("true"),
        Value::Bool(false) => out.push_str("false"),
        Value::Number(number) => out.push_str(&number::text(number)),
        Value::String(text) => write_string(text, out),
        Value::Array(items) => {
            out.push('[');
            for (position, item) in items.iter().enumerate() {
                if position > 0 {
                    out.push(',');
                }
                write(item, out);
            }
            out.push(']');
        }
        Value::Object(entries) => {
            out.push('{');
            for (position, (key, item)) in entries.iter().enumerate() {
                if position > 0 {
                    out.push(',');
                }
                write_string(key, out);
                out.push(':');
                write(item, out);
            }
            out.push('}');
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn bytes_are_those_of_compact_json() {
        for value in [
            json!(null),
            json!(true),
            json!(false),
            json!(-12.5),
            json!("text"),
            json!([]),
            json!({}),
            json!([1, [2, "x"], {"a": null, "b": {"c": []}}]),
        ] {
            assert_eq!(json_bytes(&value), value.to_string().len(), "{value}");
        }
    }

    #[test]
    fn objects_are_compact_sorted_and_safe_for_html() {
        #[track_caller]
        fn check(value: Value, expected: &str) {
            assert_eq!(encode(&value), expected);
        }
        check(json!({"k": 1}), r#"{"k":1}"#);
        check(json!({"b": [1.0, 2.5, null, true], "a": {}, "Z": []}), r#"{"Z":[],"a":{},"b":[1,2.5,null,true]}"#);
        check(json!("<a href=\"x\">&</a>"), r#""\u003ca href=\"x\"\u003e\u0026\u003c/a\u003e""#);
        check(json!({"<k>": "\u{2028}\u{2029}"}), r#"{"\u003ck\u003e":"\u2028\u2029"}"#);
        check(json!("\n\r\t\u{8}\u{c}\u{1}\u{7f}\\é"), "\"\\n\\r\\t\\b\\f\\u0001\u{7f}\\\\é\"");
        check(json!(1e21), "1e+21");
        check(json!(u64::MAX), "18446744073709551615");
    }

    #[test]
    fn strings_embed_as_they_are() {
        assert_eq!(embed(&json!("a<b")), "a<b");
        assert_eq!(embed(&Value::Null), "null");
        assert_eq!(embed(&json!(["a<b"])), r#"["a\u003cb"]"#);
    }

    proptest! {
        #[test]
        fn text_reads_back(text in any::<String>(), key in any::<String>(), number in any::<i64>()) {
            let value = json!({ key: [text, number] });
            prop_assert_eq!(serde_json::from_str::<Value>(&encode(&value)).unwrap(), value);
        }
    }
}
