//! Walks through JSON text from part to part: what somebody wants is read, what nobody wants is stepped over.
//!
//! Stepping over looks for the end of a value and nothing else, which costs a fraction of reading it. So a mistake inside
//! such a part goes unnoticed; a text that ends too early does not.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::{Deserializer, Number};

use super::blocks::{length_of_nested, length_of_plain, length_of_text};
use super::{Builder, Document, Leaf};

/// How deep a document may be nested; `serde_json` stops there too.
const DEEPEST: usize = 127;

pub struct Cursor<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Cursor<'a> {
    pub fn new(text: &'a str) -> Self {
        Self { text, at: 0 }
    }

    /// Visits the entries of the object that stands here. The visitor must read or skip each value.
    pub fn entries(
        &mut self,
        mut visit: impl FnMut(Cow<'a, str>, &mut Self) -> Result<(), String>,
    ) -> Result<(), String> {
        self.expect(b'{', "an object")?;
        if self.accept(b'}') {
            return Ok(());
        }
        loop {
            self.space();
            let key = self.text_here()?;
            self.expect(b':', "`:`")?;
            visit(key, self)?;
            if self.accept(b'}') {
                return Ok(());
            }
            self.expect(b',', "`,` or `}`")?;
        }
    }

    /// Visits the elements of the list that stands here. The visitor must read or skip each.
    pub fn elements(&mut self, mut visit: impl FnMut(&mut Self) -> Result<(), String>) -> Result<(), String> {
        self.expect(b'[', "a list")?;
        if self.accept(b']') {
            return Ok(());
        }
        loop {
            visit(self)?;
            if self.accept(b']') {
                return Ok(());
            }
            self.expect(b',', "`,` or `]`")?;
        }
    }

    /// Whether null stands here; if so it is passed.
    pub fn null(&mut self) -> bool {
        self.space();
        let is_null = self.text[self.at..].starts_with("null");
        if is_null {
            self.at += "null".len();
        }
        is_null
    }

    /// The text that stands here, borrowed where it holds no escape.
    pub fn text(&mut self) -> Result<Cow<'a, str>, String> {
        self.space();
        match self.peek() {
            Some(b'"') => self.text_here(),
            _ => self.read::<String>().map(Cow::Owned),
        }
    }

    /// Reads the value that stands here into a document.
    pub fn read_into(&mut self, builder: &mut Builder<'a>) -> Result<(), String> {
        self.value(builder, DEEPEST)
    }

    /// Reads the value that stands here as something that knows how to.
    pub fn read<T: Deserialize<'a>>(&mut self) -> Result<T, String> {
        let from = self.at;
        let mut values = Deserializer::from_str(&self.text[from..]).into_iter();
        match values.next() {
            Some(Ok(value)) => {
                self.at += values.byte_offset();
                Ok(value)
            }
            Some(Err(error)) => Err(format!("{error}, counted from byte {from}")),
            None => Err(self.ends()),
        }
    }

    /// Steps over the value that stands here.
    pub fn skip(&mut self) -> Result<(), String> {
        self.space();
        match self.peek() {
            Some(b'"') => self.pass(length_of_text),
            Some(b'{' | b'[') => self.pass(length_of_nested),
            _ => self.word().map(drop),
        }
    }

    /// Nothing but space may follow.
    pub fn end(mut self) -> Result<(), String> {
        self.space();
        match self.peek() {
            None => Ok(()),
            Some(_) => Err(format!("trailing characters at byte {}", self.at)),
        }
    }

    fn value(&mut self, builder: &mut Builder<'a>, depth: usize) -> Result<(), String> {
        self.space();
        let below = || depth.checked_sub(1).ok_or_else(|| format!("nested deeper than {DEEPEST} levels"));
        match self.peek() {
            Some(b'"') => builder.text(self.text_here()?),
            Some(b'{') => {
                let (below, mut open) = (below()?, builder.open());
                self.entries(|name, cursor| {
                    builder.field(&mut open, name);
                    cursor.value(builder, below)
                })?;
                builder.end_object(&open);
            }
            Some(b'[') => {
                let (below, mut open) = (below()?, builder.open());
                self.elements(|cursor| {
                    builder.element(&mut open);
                    cursor.value(builder, below)
                })?;
                builder.end_list(&open);
            }
            _ => self.scalar(builder)?,
        }
        Ok(())
    }

    /// Reads a number, or one of the words of JSON.
    fn scalar(&mut self, builder: &mut Builder<'a>) -> Result<(), String> {
        let from = self.at;
        match self.word()? {
            "null" => builder.leaf(Leaf::Null),
            "true" => builder.leaf(Leaf::Bool(true)),
            "false" => builder.leaf(Leaf::Bool(false)),
            word => match plain_number(word) {
                Some(number) => builder.leaf(Leaf::Number(number.into())),
                None => {
                    let number: Result<Number, _> = serde_json::from_str(word);
                    builder.leaf(Leaf::Number(number.map_err(|error| format!("{error}, counted from byte {from}"))?));
                }
            },
        }
        Ok(())
    }

    fn text_here(&mut self) -> Result<Cow<'a, str>, String> {
        match self.plain_text() {
            Some(text) => Ok(Cow::Borrowed(text)),
            None => self.odd_text().map(Cow::Owned),
        }
    }

    /// The text that stands here, if it is what it says.
    fn plain_text(&mut self) -> Option<&'a str> {
        let [b'"', content @ ..] = self.text.as_bytes().get(self.at..)? else { return None };
        let length = length_of_plain(content);
        if content.get(length) != Some(&b'"') {
            return None;
        }
        let from = self.at + 1;
        self.at = from + length + 1;
        self.text.get(from..from + length)
    }

    /// The same with something that is escaped, or that should be: then it is an error, as it is if there is no text.
    #[cold]
    fn odd_text(&mut self) -> Result<String, String> {
        let from = self.at;
        if self.peek() != Some(b'"') {
            return Err(self.unexpected("text"));
        }
        self.pass(length_of_text)?;
        let read = serde_json::from_str(&self.text[from..self.at]);
        read.map_err(|error| format!("{error}, counted from byte {from}"))
    }

    /// Passes as much as the value has that begins here.
    fn pass(&mut self, length: fn(&[u8]) -> Option<usize>) -> Result<(), String> {
        self.at += length(&self.text.as_bytes()[self.at..]).ok_or_else(|| self.ends())?;
        Ok(())
    }

    /// Passes what looks like a number, or like one of the words of JSON.
    fn word(&mut self) -> Result<&'a str, String> {
        let from = self.at;
        while matches!(self.peek(), Some(byte) if byte.is_ascii_alphanumeric() || b"+-.".contains(&byte)) {
            self.at += 1;
        }
        if self.at == from { Err(self.unexpected("a value")) } else { Ok(&self.text[from..self.at]) }
    }

    fn space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\n' | b'\r' | b'\t')) {
            self.at += 1;
        }
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn accept(&mut self, byte: u8) -> bool {
        self.space();
        let is_here = self.peek() == Some(byte);
        self.at += usize::from(is_here);
        is_here
    }

    fn expect(&mut self, byte: u8, what: &str) -> Result<(), String> {
        if self.accept(byte) { Ok(()) } else { Err(self.unexpected(what)) }
    }

    #[cold]
    fn unexpected(&self, wanted: &str) -> String {
        match self.peek() {
            None => self.ends(),
            Some(_) => format!("expected {wanted} at byte {}", self.at),
        }
    }

    #[cold]
    fn ends(&self) -> String {
        format!("the text ends too early, after {} bytes", self.text.len())
    }
}

impl<'a> Document<'a> {
    /// Reads a whole text.
    pub fn read(text: &'a str) -> Result<Self, String> {
        let (mut cursor, mut builder) = (Cursor::new(text), Builder::default());
        cursor.read_into(&mut builder)?;
        cursor.end()?;
        Ok(builder.finish())
    }
}

/// A whole number without sign, fraction or exponent, and small enough to be certain of.
fn plain_number(text: &str) -> Option<u64> {
    const MOST_DIGITS: usize = 18;
    let has_leading_zero = text.len() > 1 && text.starts_with('0');
    if text.len() > MOST_DIGITS || has_leading_zero || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    text.parse().ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Map, Value, json};

    use super::*;
    use crate::core::json::tests::value;

    proptest! {
        /// Whatever is stepped over, what is read is what a parser reads.
        #[test]
        fn parts_are_those_of_the_document(entries in prop::collection::btree_map("[a-f\"\\\\]{0,3}", value(), 0..6), indent in any::<bool>()) {
            let document: Map<String, Value> = entries.into_iter().collect();
            let text = if indent { serde_json::to_string_pretty(&document) } else { serde_json::to_string(&document) };
            let text = text.unwrap();
            for wanted in document.keys() {
                let mut found = None;
                let mut cursor = Cursor::new(&text);
                cursor.entries(|key, cursor| {
                    if key != wanted.as_str() {
                        return cursor.skip();
                    }
                    found = Some(cursor.read::<Value>()?);
                    Ok(())
                }).unwrap();
                cursor.end().unwrap();
                prop_assert_eq!(found.as_ref(), document.get(wanted));
            }
        }

        /// A text that is cut off is refused.
        #[test]
        fn an_early_end_is_noticed(value in value(), cut in 1_usize..40) {
            let text = json!({"a": value, "b": 1}).to_string();
            let mut end = text.len().saturating_sub(cut);
            while !text.is_char_boundary(end) {
                end -= 1;
            }
            prop_assert!(Cursor::new(&text[..end]).entries(|_, cursor| cursor.skip()).is_err());
        }

        #[test]
        fn no_text_panics(text in "[{}\\[\\]\",:\\\\ntu l\u{e9}0-9]{0,40}") {
            let mut cursor = Cursor::new(&text);
            let _ = cursor.entries(|key, cursor| match key.len() % 4 {
                0 => cursor.skip(),
                3 => cursor.read_into(&mut Builder::default()),
                1 => cursor.read::<Value>().map(drop),
                _ => cursor.text().map(drop),
            });
            let _ = cursor.end();
        }
    }

    #[test]
    fn odd_texts() {
        let read = |text: &str| {
            let mut cursor = Cursor::new(text);
            cursor.entries(|_, cursor| cursor.skip()).and_then(|()| cursor.end())
        };
        assert_eq!(read(" { } "), Ok(()));
        assert_eq!(read(r#"{"a":1 , "b" : "\"}" }"#), Ok(()));
        assert_eq!(read("[]"), Err("expected an object at byte 0".to_owned()));
        assert_eq!(read(""), Err("the text ends too early, after 0 bytes".to_owned()));
        assert_eq!(read("{} x"), Err("trailing characters at byte 3".to_owned()));
        assert_eq!(read(r#"{"a":}"#), Err("expected a value at byte 5".to_owned()));
        assert_eq!(read("{,}"), Err("expected text at byte 1".to_owned()));
        assert_eq!(read(r#"{"a" 1}"#), Err("expected `:` at byte 5".to_owned()));
        assert_eq!(read(r#"{"a":1 "b":2}"#).unwrap_err(), "expected `,` or `}` at byte 7");
    }
}
