//! A datum as text: what `to_string` gives and what a token inside a longer string becomes.

use serde_json::Value;

use crate::core::scalar::json_text::write_string;

use super::{Datum, EvalError, Runtime};

/// Text as it is, anything else as compact JSON.
pub(super) fn embed(datum: &Datum<'_>, runtime: &Runtime) -> Result<String, EvalError> {
    if let Some(text) = datum.as_text() {
        runtime.produce(text.len())?;
        return Ok(text.into_owned());
    }
    encode(datum, runtime)
}

/// Compact JSON with sorted keys, as Go's encoder writes it.
pub(super) fn encode(datum: &Datum<'_>, runtime: &Runtime) -> Result<String, EvalError> {
    let mut writer = Writer { out: String::new(), runtime };
    writer.write(datum, 0)?;
    Ok(writer.out)
}

/// Each byte that is no UTF-8 as one U+FFFD, as Go's JSON encoder does (the standard library joins some of them).
pub(super) fn repair(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        text.extend(chunk.invalid().iter().map(|_| char::REPLACEMENT_CHARACTER));
    }
    text
}

struct Writer<'r> {
    out: String,
    runtime: &'r Runtime,
}

impl Writer<'_> {
    fn write(&mut self, datum: &Datum<'_>, depth: usize) -> Result<(), EvalError> {
        self.runtime.check_depth(depth)?;
        self.runtime.step(1)?;
        if let Datum::Json(value) = datum {
            self.json(value, depth)
        } else if let Some(text) = datum.as_text() {
            self.string(&text)
        } else if let Some(elements) = datum.elements() {
            self.out.push('[');
            for (position, element) in elements.iter().enumerate() {
                self.comma(position);
                self.write(&element, depth + 1)?;
            }
            self.out.push(']');
            self.runtime.produce(2 + elements.len())
        } else if let Some(entries) = datum.entries(self.runtime)? {
            self.out.push('{');
            for (position, (key, value)) in entries.iter().enumerate() {
                self.comma(position);
                self.string(key)?;
                self.out.push(':');
                self.write(value, depth + 1)?;
            }
            self.out.push('}');
            self.runtime.produce(2 + 2 * entries.len())
        } else {
            self.scalar(datum)
        }
    }

    /// The common case: a piece of a document, without a datum for each of its values.
    fn json(&mut self, value: &Value, depth: usize) -> Result<(), EvalError> {
        self.runtime.check_depth(depth)?;
        self.runtime.step(1)?;
        match value {
            Value::String(text) => self.string(text),
            Value::Array(elements) => {
                self.out.push('[');
                for (position, element) in elements.iter().enumerate() {
                    self.comma(position);
                    self.json(element, depth + 1)?;
                }
                self.out.push(']');
                self.runtime.produce(2 + elements.len())
            }
            Value::Object(entries) => {
                self.out.push('{');
                for (position, (key, value)) in entries.iter().enumerate() {
                    self.comma(position);
                    self.string(key)?;
                    self.out.push(':');
                    self.json(value, depth + 1)?;
                }
                self.out.push('}');
                self.runtime.produce(2 + 2 * entries.len())
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => self.scalar(&Datum::Json(value)),
        }
    }

    fn comma(&mut self, position: usize) {
        if position > 0 {
            self.out.push(',');
        }
    }

    fn string(&mut self, text: &str) -> Result<(), EvalError> {
        self.runtime.produce(text.len() + 2)?;
        write_string(text, &mut self.out);
        Ok(())
    }

    fn scalar(&mut self, datum: &Datum<'_>) -> Result<(), EvalError> {
        let start = self.out.len();
        match datum {
            Datum::Null | Datum::Json(Value::Null) => self.out.push_str("null"),
            Datum::Reference(_) => return Err(EvalError::NotJson("an expression reference")),
            _ => match (datum.as_bool(), datum.as_number()) {
                (Some(value), _) => self.out.push_str(if value { "true" } else { "false" }),
                (None, Some(number)) if number.to_f64().is_finite() => self.out.push_str(&number.to_string()),
                _ => return Err(EvalError::NotJson("a number that is infinite or not a number")),
            },
        }
        self.runtime.produce(self.out.len() - start)
    }
}
