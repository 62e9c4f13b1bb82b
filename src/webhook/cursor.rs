//! Walks through JSON text from part to part: what somebody wants is read, what nobody wants is stepped over.
//!
//! Stepping over looks for the end of a value and nothing else, which costs a fraction of reading it. So a mistake inside
//! such a part goes unnoticed; a text that ends too early does not.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::Deserializer;

pub(super) struct Cursor<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { text, at: 0 }
    }

    /// Visits the entries of the object that stands here. The visitor must read or skip each value.
    pub(super) fn entries(
        &mut self,
        mut visit: impl FnMut(&str, &mut Self) -> Result<(), String>,
    ) -> Result<(), String> {
        self.expect(b'{', "an object")?;
        if self.accept(b'}') {
            return Ok(());
        }
        loop {
            self.space();
            let key = self.text_here()?;
            self.expect(b':', "`:`")?;
            visit(&key, self)?;
            if self.accept(b'}') {
                return Ok(());
            }
            self.expect(b',', "`,` or `}`")?;
        }
    }

    /// Whether null stands here; if so it is passed.
    pub(super) fn null(&mut self) -> bool {
        self.space();
        let is_null = self.text[self.at..].starts_with("null");
        if is_null {
            self.at += "null".len();
        }
        is_null
    }

    /// The text that stands here, borrowed where it holds no escape.
    pub(super) fn text(&mut self) -> Result<Cow<'a, str>, String> {
        self.space();
        match self.peek() {
            Some(b'"') => self.text_here(),
            _ => self.read::<String>().map(Cow::Owned),
        }
    }

    /// Reads the value that stands here.
    pub(super) fn read<T: Deserialize<'a>>(&mut self) -> Result<T, String> {
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
    pub(super) fn skip(&mut self) -> Result<(), String> {
        self.space();
        match self.peek() {
            Some(b'"') => self.string().map(drop),
            Some(b'{' | b'[') => self.nested(),
            _ => self.word(),
        }
    }

    /// Nothing but space may follow.
    pub(super) fn end(mut self) -> Result<(), String> {
        self.space();
        match self.peek() {
            None => Ok(()),
            Some(_) => Err(format!("trailing characters at byte {}", self.at)),
        }
    }

    fn text_here(&mut self) -> Result<Cow<'a, str>, String> {
        let from = self.at;
        if self.peek() != Some(b'"') {
            return Err(self.unexpected("text"));
        }
        if self.string()? {
            return serde_json::from_str(&self.text[from..self.at]).map(Cow::Owned).map_err(|error| error.to_string());
        }
        Ok(Cow::Borrowed(&self.text[from + 1..self.at - 1]))
    }

    /// Passes the string that begins here; whether it holds an escape.
    fn string(&mut self) -> Result<bool, String> {
        let (end, has_escapes) = end_of_string(self.text.as_bytes(), self.at + 1).ok_or_else(|| self.ends())?;
        self.at = end;
        Ok(has_escapes)
    }

    /// Passes the object or list that begins here, whatever is in it.
    fn nested(&mut self) -> Result<(), String> {
        let bytes = self.text.as_bytes();
        let (mut at, mut open) = (self.at, 0_usize);
        while let Some(byte) = bytes.get(at) {
            at += 1;
            match byte {
                b'"' => at = end_of_string(bytes, at).ok_or_else(|| self.ends())?.0,
                b'{' | b'[' => open += 1,
                b'}' | b']' if open == 1 => {
                    self.at = at;
                    return Ok(());
                }
                b'}' | b']' => open -= 1,
                _ => {}
            }
        }
        Err(self.ends())
    }

    /// Passes a number, or one of the words of JSON.
    fn word(&mut self) -> Result<(), String> {
        let from = self.at;
        while matches!(self.peek(), Some(byte) if byte.is_ascii_alphanumeric() || b"+-.".contains(&byte)) {
            self.at += 1;
        }
        if self.at == from { Err(self.unexpected("a value")) } else { Ok(()) }
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

    fn unexpected(&self, wanted: &str) -> String {
        match self.peek() {
            None => self.ends(),
            Some(_) => format!("expected {wanted} at byte {}", self.at),
        }
    }

    fn ends(&self) -> String {
        format!("the text ends too early, after {} bytes", self.text.len())
    }
}

/// Where the string ends whose content begins at `from`, and whether it holds an escape.
fn end_of_string(bytes: &[u8], from: usize) -> Option<(usize, bool)> {
    let (mut at, mut has_escapes) = (from, false);
    loop {
        at = next_mark(bytes, at);
        match bytes.get(at)? {
            b'"' => return Some((at + 1, has_escapes)),
            b'\\' => {
                has_escapes = true;
                at += 2;
            }
            _ => at += 1,
        }
    }
}

/// Where the next quote or backslash is, or less than eight bytes before it or the end: eight bytes are looked at in one go.
fn next_mark(bytes: &[u8], mut at: usize) -> usize {
    while let Some(eight) = bytes.get(at..).and_then(<[u8]>::first_chunk) {
        let eight = u64::from_le_bytes(*eight);
        let found = lanes_with(eight, b'"') | lanes_with(eight, b'\\');
        if found != 0 {
            return at + (found.trailing_zeros() / 8) as usize;
        }
        at += 8;
    }
    at
}

/// The highest bit of each byte that is `wanted`; above the first of them, of others too.
fn lanes_with(eight: u64, wanted: u8) -> u64 {
    const ONES: u64 = u64::from_le_bytes([1; 8]);
    const TOPS: u64 = ONES << 7;
    let zero_where_wanted = eight ^ (ONES * u64::from(wanted));
    zero_where_wanted.wrapping_sub(ONES) & !zero_where_wanted & TOPS
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Map, Value, json};

    use super::*;

    fn value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i32>().prop_map(Value::from),
            "[a\"\\\\{}\\[\\],: \u{e9}\n]{0,8}".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 40, 5, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
                prop::collection::btree_map("[a\"\\\\}:]{0,4}", inner, 0..5)
                    .prop_map(|entries| Value::Object(entries.into_iter().collect())),
            ]
        })
    }

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
                    if key != wanted {
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
            let _ = cursor.entries(|key, cursor| match key.len() % 3 {
                0 => cursor.skip(),
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
