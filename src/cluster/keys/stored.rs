//! The keys as one Secret that all replicas share: `mac-key` and `random-seed` are made once, `webhook-token` and
//! `webhook-token-previous` are rotated. Two annotations hold the times of a rotation.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;

use super::Keys;
use crate::core::expr::Seed;
use crate::core::integrity::MacKey;
use crate::core::webhook_token::{PreviousToken, WebhookToken, WebhookTokens};

const MAC_KEY: &str = "mac-key";
const RANDOM_SEED: &str = "random-seed";
const TOKEN: &str = "webhook-token";
const PREVIOUS_TOKEN: &str = "webhook-token-previous";
const TOKEN_SINCE: &str = "writ.dev/token-since";
const TOKEN_SWITCHED_AT: &str = "writ.dev/token-switched-at";

/// Bytes for keys that are missing.
pub(super) type Fresh = [[u8; 32]; 3];

/// What a Secret holds of the keys. It has no `Debug`: nothing here may be shown.
#[derive(Clone, Default, PartialEq, Eq)]
pub(super) struct StoredKeys {
    mac: Option<[u8; 32]>,
    random: Option<[u8; 32]>,
    pub(super) tokens: Option<WebhookTokens>,
}

impl StoredKeys {
    /// Reads a Secret. A key that cannot be used counts as missing.
    pub(super) fn read(secret: &Secret) -> Self {
        let bytes = |key: &str| secret.data.as_ref()?.get(key).map(|value| value.0.as_slice());
        let token = |key: &str| WebhookToken::parse(std::str::from_utf8(bytes(key)?).ok()?);
        let time = |key: &str| secret.metadata.annotations.as_ref()?.get(key)?.parse::<Timestamp>().ok();
        let previous = token(PREVIOUS_TOKEN).map(|token| PreviousToken { token, switched_at: time(TOKEN_SWITCHED_AT) });
        Self {
            mac: bytes(MAC_KEY).and_then(|bytes| bytes.try_into().ok()),
            random: bytes(RANDOM_SEED).and_then(|bytes| bytes.try_into().ok()),
            // A token whose age is unknown is as old as time: it is replaced soon.
            tokens: token(TOKEN).map(|current| WebhookTokens {
                current,
                since: time(TOKEN_SINCE).unwrap_or(Timestamp::UNIX_EPOCH),
                previous,
            }),
        }
    }

    /// Writes into a Secret; whatever else it holds stays.
    pub(super) fn write(&self, secret: &mut Secret) {
        let data = secret.data.get_or_insert_default();
        let mut put = |key: &str, value: Option<Vec<u8>>| match value {
            Some(value) => drop(data.insert(key.to_owned(), ByteString(value))),
            None => drop(data.remove(key)),
        };
        let digits = |token: &WebhookToken| token.reveal().as_bytes().to_vec();
        let previous = self.tokens.as_ref().and_then(|tokens| tokens.previous.as_ref());
        put(MAC_KEY, self.mac.map(Vec::from));
        put(RANDOM_SEED, self.random.map(Vec::from));
        put(TOKEN, self.tokens.as_ref().map(|tokens| digits(&tokens.current)));
        put(PREVIOUS_TOKEN, previous.map(|previous| digits(&previous.token)));
        let times = [
            (TOKEN_SINCE, self.tokens.as_ref().map(|tokens| tokens.since)),
            (TOKEN_SWITCHED_AT, previous.and_then(|previous| previous.switched_at)),
        ];
        let annotations = secret.metadata.annotations.get_or_insert_default();
        for (key, time) in times {
            match time {
                Some(time) => annotations.insert(key.to_owned(), time.to_string()),
                None => annotations.remove(key),
            };
        }
    }

    /// What is missing comes from what was known before, or else is made of the fresh bytes.
    #[must_use]
    pub(super) fn filled(self, known: Option<Self>, [mac, random, token]: Fresh, now: Timestamp) -> Self {
        let known = known.unwrap_or_default();
        let first = || WebhookTokens { current: WebhookToken::new(&token), since: now, previous: None };
        Self {
            mac: self.mac.or(known.mac).or(Some(mac)),
            random: self.random.or(known.random).or(Some(random)),
            tokens: self.tokens.or(known.tokens).or_else(|| Some(first())),
        }
    }

    /// The seed of `random()`.
    pub(super) fn seed(&self) -> Option<Seed> {
        Seed::new(&self.random?)
    }

    /// The keys to use; nothing if one is missing.
    pub(super) fn keys(&self, now: Timestamp, grace: Duration) -> Option<Keys> {
        let tokens = self.tokens.clone()?;
        Some(Keys {
            called: tokens.called(now, grace).clone(),
            mac: MacKey::new(&self.mac?)?,
            random: self.seed()?,
            tokens,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FRESH: Fresh = [[1; 32], [2; 32], [3; 32]];

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).expect("a time")
    }

    #[test]
    fn what_is_stored_is_read_back_and_the_rest_of_the_secret_stays() {
        let mut keys = StoredKeys::default().filled(None, FRESH, at(5));
        let mut secret = Secret { data: Some([("other".to_owned(), ByteString(vec![9]))].into()), ..Secret::default() };
        for switched_at in [None, Some(at(9))] {
            let tokens = keys.tokens.as_mut().expect("a token");
            tokens.previous = Some(PreviousToken { token: WebhookToken::new(&[4; 32]), switched_at });
            keys.write(&mut secret);
            assert!(StoredKeys::read(&secret) == keys);
        }
        keys.tokens.as_mut().expect("a token").previous = None;
        keys.write(&mut secret);
        assert!(StoredKeys::read(&secret) == keys, "nothing is left of the rotation");
        assert_eq!(secret.data.expect("data")["other"].0, [9]);
    }

    #[test]
    fn what_is_there_is_never_replaced_and_what_was_known_comes_back() {
        let known = StoredKeys::default().filled(None, FRESH, at(5));
        let other = [[7; 32], [8; 32], [9; 32]];
        assert!(known.clone().filled(None, other, at(6)) == known);
        assert!(StoredKeys::default().filled(Some(known.clone()), other, at(6)) == known);
        let mut secret = Secret::default();
        known.write(&mut secret);
        secret.data.as_mut().expect("data").insert("mac-key".to_owned(), ByteString(vec![1; 31]));
        let spoiled = StoredKeys::read(&secret);
        assert!(spoiled.keys(at(6), Duration::ZERO).is_none(), "a key of the wrong length is no key");
        assert!(spoiled.filled(Some(known.clone()), other, at(6)) == known);
        assert!(known.keys(at(6), Duration::ZERO).is_some());
    }
}
