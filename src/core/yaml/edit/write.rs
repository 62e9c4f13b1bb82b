//! New text in the manner of what stands around it.

use serde_json::Value;

use super::super::scalar;

/// How the mapping is written that gets something new.
#[derive(Clone, Copy, Debug)]
pub(super) struct Style {
    pub(super) flow: bool,
    /// Whether keys stand in double quotes, as they do in JSON.
    pub(super) quoted: bool,
    /// The column of the keys.
    pub(super) indent: usize,
}

impl Style {
    pub(super) fn entry(self, key: &str, value: &Value) -> String {
        format!("{}:{}", self.scalar(&Value::from(key)), self.value(value))
    }

    /// What stands behind the colon, with the blank before it.
    pub(super) fn value(self, value: &Value) -> String {
        match value {
            Value::Object(entries) if !self.flow && !entries.is_empty() => {
                let below = Self { indent: self.indent + 2, ..self };
                entries.iter().map(|(key, value)| below.new_line() + &below.entry(key, value)).collect()
            }
            Value::String(text) if !self.flow && is_plain_block(text) => self.block(text),
            value => format!(" {}", self.inline(value)),
        }
    }

    pub(super) fn scalar(self, value: &Value) -> String {
        match value {
            Value::String(text) if !self.quoted && is_plain(text) => text.clone(),
            value => value.to_string(),
        }
    }

    pub(super) fn new_line(self) -> String {
        format!("\n{}", " ".repeat(self.indent))
    }

    fn inline(self, value: &Value) -> String {
        match value {
            Value::Object(entries) => {
                let entries: Vec<_> = entries
                    .iter()
                    .map(|(key, value)| format!("{}: {}", self.scalar(&Value::from(key.as_str())), self.inline(value)))
                    .collect();
                format!("{{{}}}", entries.join(", "))
            }
            Value::Array(items) => {
                let items: Vec<_> = items.iter().map(|item| self.inline(item)).collect();
                format!("[{}]", items.join(", "))
            }
            value => self.scalar(value),
        }
    }

    fn block(self, text: &str) -> String {
        let below = Self { indent: self.indent + 2, ..self };
        let lines = text.trim_end_matches('\n').split('\n');
        let lines: String =
            lines.map(|line| if line.is_empty() { "\n".to_owned() } else { below.new_line() + line }).collect();
        format!(" |{lines}")
    }
}

/// Whether several lines can stand below `|` as they are.
fn is_plain_block(text: &str) -> bool {
    let one_end = text.ends_with('\n') && !text.ends_with("\n\n");
    let first = text.chars().next();
    one_end
        && !first.is_some_and(char::is_whitespace)
        && !text.chars().any(|letter| letter.is_control() && letter != '\n')
}

/// Whether a text needs no quotes, in a block and between braces, for readers of YAML 1.1 and 1.2.
fn is_plain(text: &str) -> bool {
    let begins = text.starts_with(|first: char| first.is_ascii_alphabetic());
    let inside = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '.' | '/' | '-' | '_');
    begins && text.chars().all(inside) && scalar::resolve(None, text) == Ok(Value::from(text))
}
