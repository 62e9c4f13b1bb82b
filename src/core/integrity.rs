//! Message authentication codes: what Writ stores in the cluster and must recognise as its own later.
//!
//! A code covers a purpose and a list of parts, so a code made for one purpose or one object proves nothing about another.

use std::fmt;

use hmac::{Hmac, KeyInit, Mac};
use serde_json::{Number, Value};
use sha2::Sha256;

/// Bytes in a key.
const KEY_BYTES: usize = 32;

/// The key of the install. Its bytes are never shown.
#[derive(Clone)]
pub struct MacKey([u8; KEY_BYTES]);

/// What a code is about. The text is part of the code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MacPurpose {
    /// A policy that admission has reviewed.
    ReviewedPolicy,
    /// An UpdateRequest that the webhook stored.
    UpdateRequest,
}

impl MacPurpose {
    fn as_str(self) -> &'static str {
        match self {
            Self::ReviewedPolicy => "writ.dev/reviewed-policy/v1",
            Self::UpdateRequest => "writ.dev/update-request/v1",
        }
    }
}

impl MacKey {
    /// Nothing if `bytes` has the wrong length for a key.
    pub fn new(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Self)
    }

    /// The code of `parts` as lower-case hexadecimal digits. The order of the parts counts.
    pub fn sign(&self, purpose: MacPurpose, parts: &[&[u8]]) -> String {
        hex::encode(self.code(purpose, parts).finalize().into_bytes())
    }

    /// Whether `code` is the one that [`MacKey::sign`] gives. Takes the same time whatever differs.
    pub fn verify(&self, purpose: MacPurpose, parts: &[&[u8]], code: &str) -> bool {
        hex::decode(code).is_ok_and(|bytes| self.code(purpose, parts).verify_slice(&bytes).is_ok())
    }

    fn code(&self, purpose: MacPurpose, parts: &[&[u8]]) -> Hmac<Sha256> {
        let mut code = <Hmac<Sha256> as KeyInit>::new_from_slice(&self.0).expect("HMAC takes keys of any length");
        for part in [purpose.as_str().as_bytes()].iter().chain(parts) {
            // The length comes first: `a`, `bc` and `ab`, `c` must differ.
            code.update(&(part.len() as u64).to_be_bytes());
            code.update(part);
        }
        code
    }
}

/// A document as bytes that are the same before and after an API server has stored it: it sorts fields, drops fields that are
/// null, and writes numbers in its own way.
pub fn canonical(value: &Value) -> Vec<u8> {
    let mut bytes = Vec::new();
    write_canonical(value, &mut bytes);
    bytes
}

fn write_canonical(value: &Value, bytes: &mut Vec<u8>) {
    match value {
        Value::Null => bytes.push(b'n'),
        Value::Bool(value) => bytes.push(if *value { b't' } else { b'f' }),
        Value::Number(number) => write_number(number, bytes),
        Value::String(text) => write_text(text, bytes),
        Value::Array(items) => {
            bytes.push(b'[');
            items.iter().for_each(|item| write_canonical(item, bytes));
            bytes.push(b']');
        }
        Value::Object(fields) => {
            let mut fields: Vec<_> = fields.iter().filter(|(_, value)| !value.is_null()).collect();
            fields.sort_unstable_by_key(|(name, _)| *name);
            bytes.push(b'{');
            for (name, value) in fields {
                write_text(name, bytes);
                write_canonical(value, bytes);
            }
            bytes.push(b'}');
        }
    }
}

fn write_text(text: &str, bytes: &mut Vec<u8>) {
    bytes.push(b'"');
    bytes.extend((text.len() as u64).to_be_bytes());
    bytes.extend(text.as_bytes());
}

/// An API server keeps 64-bit integers, and everything else as floating point: `1.0` comes back as `1`.
fn write_number(number: &Number, bytes: &mut Vec<u8>) {
    const EXACT: f64 = (1_u64 << 53) as f64;
    let float = number.as_f64().unwrap_or_default();
    let whole = (float.fract() == 0.0 && float.abs() <= EXACT).then_some(float as i64);
    match number.as_i64().or(whole) {
        Some(integer) => {
            bytes.push(b'i');
            bytes.extend(integer.to_be_bytes());
        }
        None => {
            bytes.push(b'd');
            bytes.extend(float.to_bits().to_be_bytes());
        }
    }
}

impl fmt::Debug for MacKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MacKey(…)")
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn key(byte: u8) -> MacKey {
        MacKey::new(&[byte; KEY_BYTES]).expect("32 bytes")
    }

    #[test]
    fn a_code_proves_one_key_one_purpose_and_one_list_of_parts() {
        let code = key(1).sign(MacPurpose::UpdateRequest, &[b"a", b"bc"]);
        assert!(key(1).verify(MacPurpose::UpdateRequest, &[b"a", b"bc"], &code));
        assert!(!key(2).verify(MacPurpose::UpdateRequest, &[b"a", b"bc"], &code));
        assert!(!key(1).verify(MacPurpose::ReviewedPolicy, &[b"a", b"bc"], &code));
        assert!(!key(1).verify(MacPurpose::UpdateRequest, &[b"ab", b"c"], &code));
        assert!(!key(1).verify(MacPurpose::UpdateRequest, &[b"bc", b"a"], &code));
    }

    #[test]
    fn a_code_that_cannot_be_read_proves_nothing() {
        for code in ["", "00", "zz", "é", &"0".repeat(64), &"0".repeat(65)] {
            assert!(!key(1).verify(MacPurpose::UpdateRequest, &[b"a"], code), "{code}");
        }
    }

    #[test]
    fn what_an_api_server_rewrites_does_not_count_and_everything_else_does() {
        let parse = |text: &str| canonical(&serde_json::from_str(text).expect("JSON"));
        assert_eq!(parse(r#"{"a":1,"b":[null,"x"],"c":null}"#), parse(r#"{"b":[null,"x"],"a":1.0}"#));
        assert_eq!(parse("18446744073709551615"), parse("18446744073709552000"));
        assert_eq!(parse("1e20"), parse("100000000000000000000"));
        let base = canonical(&json!({"a": "b", "c": ["d"]}));
        let others = [
            json!({"a": "b", "c": ["d", null]}),
            json!({"a": "b", "c": "d"}),
            json!({"ab": "", "c": ["d"]}),
            json!({"a": "b"}),
            json!({"a": "b", "c": [["d"]]}),
            json!({"a": true, "c": ["d"]}),
        ];
        for other in others {
            assert_ne!(canonical(&other), base, "{other}");
        }
        assert_ne!(parse("1"), parse("\"1\""));
        assert_ne!(parse("9007199254740993"), parse("9007199254740992"), "whole numbers are exact");
    }

    #[test]
    fn keys_have_one_length_and_are_not_shown() {
        assert!(MacKey::new(&[7; 31]).is_none() && MacKey::new(&[]).is_none());
        assert!(!format!("{:?}", key(7)).contains('7'));
    }
}
