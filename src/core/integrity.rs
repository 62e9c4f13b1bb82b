//! Message authentication codes: what Writ stores in the cluster and must recognise as its own later.
//!
//! A code covers a purpose and a list of parts, so a code made for one purpose or one object proves nothing about another.

use std::fmt;

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// Bytes in a key.
const KEY_BYTES: usize = 32;

/// The key of the install. Its bytes are never shown.
#[derive(Clone)]
pub struct MacKey([u8; KEY_BYTES]);

/// What a code is about. The text is part of the code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// A policy that admission has reviewed.
    ReviewedPolicy,
    /// An UpdateRequest that the webhook stored.
    UpdateRequest,
}

impl Purpose {
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
    pub fn sign(&self, purpose: Purpose, parts: &[&[u8]]) -> String {
        hex::encode(self.code(purpose, parts).finalize().into_bytes())
    }

    /// Whether `code` is the one that [`MacKey::sign`] gives. Takes the same time whatever differs.
    pub fn verify(&self, purpose: Purpose, parts: &[&[u8]], code: &str) -> bool {
        hex::decode(code).is_ok_and(|bytes| self.code(purpose, parts).verify_slice(&bytes).is_ok())
    }

    fn code(&self, purpose: Purpose, parts: &[&[u8]]) -> Hmac<Sha256> {
        let mut code = <Hmac<Sha256> as KeyInit>::new_from_slice(&self.0).expect("HMAC takes keys of any length");
        for part in [purpose.as_str().as_bytes()].iter().chain(parts) {
            // The length comes first: `a`, `bc` and `ab`, `c` must differ.
            code.update(&(part.len() as u64).to_be_bytes());
            code.update(part);
        }
        code
    }
}

impl fmt::Debug for MacKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MacKey(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(byte: u8) -> MacKey {
        MacKey::new(&[byte; KEY_BYTES]).expect("32 bytes")
    }

    #[test]
    fn a_code_proves_one_key_one_purpose_and_one_list_of_parts() {
        let code = key(1).sign(Purpose::UpdateRequest, &[b"a", b"bc"]);
        assert!(key(1).verify(Purpose::UpdateRequest, &[b"a", b"bc"], &code));
        assert!(!key(2).verify(Purpose::UpdateRequest, &[b"a", b"bc"], &code));
        assert!(!key(1).verify(Purpose::ReviewedPolicy, &[b"a", b"bc"], &code));
        assert!(!key(1).verify(Purpose::UpdateRequest, &[b"ab", b"c"], &code));
        assert!(!key(1).verify(Purpose::UpdateRequest, &[b"bc", b"a"], &code));
    }

    #[test]
    fn a_code_that_cannot_be_read_proves_nothing() {
        for code in ["", "00", "zz", "é", &"0".repeat(64), &"0".repeat(65)] {
            assert!(!key(1).verify(Purpose::UpdateRequest, &[b"a"], code), "{code}");
        }
    }

    #[test]
    fn keys_have_one_length_and_are_not_shown() {
        assert!(MacKey::new(&[7; 31]).is_none() && MacKey::new(&[]).is_none());
        assert!(!format!("{:?}", key(7)).contains('7'));
    }
}
