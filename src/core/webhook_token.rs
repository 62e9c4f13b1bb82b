//! The token in the path of webhook calls. Only an API server knows it, from the webhook configurations: a call without it
//! comes from somewhere else.
//!
//! A token is replaced in three steps, each stored before the next, so that no call fails meanwhile:
//!
//! 1. `Rotate`: the next token is stored and accepted, the previous one stays accepted and in the configurations.
//! 2. `MarkSwitched`: every replica has seen the next token, and all configurations carry it.
//! 3. `Retire`: every API server has seen the configurations; the previous token is dropped.

use std::fmt;
use std::time::Duration;

use jiff::Timestamp;
use subtle::ConstantTimeEq;

/// Bytes of randomness in a token.
pub const TOKEN_BYTES: usize = 32;
const DIGITS: usize = 2 * TOKEN_BYTES;

/// One token, as the hexadecimal digits that stand in the path. It is never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct WebhookToken(String);

/// The token in force, and the one before it while that is still accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebhookTokens {
    pub current: WebhookToken,
    /// When the current token was made.
    pub since: Timestamp,
    pub previous: Option<PreviousToken>,
}

/// A token that is being replaced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PreviousToken {
    pub token: WebhookToken,
    /// Since when all webhook configurations carry the current token.
    pub switched_at: Option<Timestamp>,
}

/// The two kinds of webhook configurations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WebhookType {
    Validating,
    Mutating,
}

/// The path that an entry calls, by the type of its configuration and its name. An entry that is not listed keeps the path
/// that it has.
pub type EntryPath = (WebhookType, &'static str, &'static str);

/// What a rotation does next. All but `Wait` change what is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenStep {
    Rotate,
    MarkSwitched,
    Retire,
    Wait { until: Timestamp },
}

impl WebhookToken {
    pub fn new(bytes: &[u8; TOKEN_BYTES]) -> Self {
        Self(hex::encode(bytes))
    }

    /// Nothing if the text is not a token.
    pub fn parse(text: &str) -> Option<Self> {
        is_token(text).then(|| Self(text.to_owned()))
    }

    /// The digits, for whoever stores the token or writes a path.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// Takes the same time whatever differs.
    fn equals(&self, text: &str) -> bool {
        bool::from(self.0.as_bytes().ct_eq(text.as_bytes()))
    }
}

impl fmt::Debug for WebhookToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WebhookToken(…)")
    }
}

impl WebhookTokens {
    /// The path of a call without its token; nothing if there is none, or one that is not accepted.
    pub fn base_path<'p>(&self, path: &'p str) -> Option<&'p str> {
        let (base, token) = path.rsplit_once('/')?;
        let previous = self.previous.as_ref().is_some_and(|previous| previous.token.equals(token));
        (previous | self.current.equals(token)).then_some(base)
    }

    /// The token that webhook configurations should carry: the new one only after every replica had time to see it.
    pub fn called(&self, now: Timestamp, grace: Duration) -> &WebhookToken {
        match &self.previous {
            Some(previous) if previous.switched_at.is_none() && now < self.since + grace => &previous.token,
            _ => &self.current,
        }
    }

    /// The next step. `in_place`: all webhook configurations carry the token that [`Self::called`] gives.
    pub fn next_step(&self, in_place: bool, now: Timestamp, lifetime: Duration, grace: Duration) -> TokenStep {
        match &self.previous {
            None => {
                let due = self.since + lifetime * 2 / 3;
                if now >= due { TokenStep::Rotate } else { TokenStep::Wait { until: due } }
            }
            Some(PreviousToken { switched_at: None, .. }) if now < self.since + grace => {
                TokenStep::Wait { until: self.since + grace }
            }
            Some(PreviousToken { switched_at: None, .. }) if in_place => TokenStep::MarkSwitched,
            Some(PreviousToken { switched_at: Some(at), .. }) if now < *at + grace => {
                TokenStep::Wait { until: *at + grace }
            }
            Some(PreviousToken { switched_at: Some(_), .. }) if in_place => TokenStep::Retire,
            // A configuration could not be written. The caller retries that; this is only the latest time to look again.
            Some(_) => TokenStep::Wait { until: now + grace },
        }
    }

    /// The state after a step; `fresh` is the token to rotate to.
    #[must_use]
    pub fn after(self, step: TokenStep, now: Timestamp, fresh: WebhookToken) -> Self {
        match step {
            TokenStep::Rotate => Self {
                current: fresh,
                since: now,
                previous: Some(PreviousToken { token: self.current, switched_at: None }),
            },
            TokenStep::MarkSwitched => Self {
                previous: self.previous.map(|previous| PreviousToken { switched_at: Some(now), ..previous }),
                ..self
            },
            TokenStep::Retire => Self { previous: None, ..self },
            TokenStep::Wait { .. } => self,
        }
    }
}

/// A path without the token at its end, whichever token that is.
pub fn without_token(path: &str) -> &str {
    match path.rsplit_once('/') {
        Some((base, last)) if is_token(last) => base,
        _ => path,
    }
}

fn is_token(text: &str) -> bool {
    text.len() == DIGITS && text.bytes().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'))
}

#[cfg(test)]
mod tests {
    use super::*;

    const GRACE: Duration = Duration::from_secs(10);
    const LIFETIME: Duration = Duration::from_secs(300);

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).expect("a time")
    }

    fn token(byte: u8) -> WebhookToken {
        WebhookToken::new(&[byte; TOKEN_BYTES])
    }

    fn rotating(switched_at: Option<i64>) -> WebhookTokens {
        let previous = Some(PreviousToken { token: token(1), switched_at: switched_at.map(at) });
        WebhookTokens { current: token(2), since: at(200), previous }
    }

    #[test]
    fn only_the_tokens_in_force_open_a_path() {
        let tokens = rotating(None);
        for accepted in [token(1), token(2)] {
            assert_eq!(tokens.base_path(&format!("/validate/a/{}", accepted.reveal())), Some("/validate/a"));
        }
        let [stranger, upper] = [token(3).reveal().to_owned(), WebhookToken::new(&[0xab; 32]).reveal().to_uppercase()];
        let cut = token(2).reveal()[..DIGITS - 1].to_owned();
        for path in ["/validate", "", "/", &stranger, &format!("/validate/{stranger}"), &format!("/validate/{cut}")] {
            assert_eq!(tokens.base_path(path), None, "{path}");
        }
        assert_eq!(WebhookToken::parse(&upper), None);
    }

    #[test]
    fn a_path_keeps_its_base() {
        assert_eq!(without_token(&format!("/validate/{}", token(9).reveal())), "/validate");
        assert_eq!(without_token("/validate/resources"), "/validate/resources");
        assert_eq!(without_token(""), "");
    }

    #[test]
    fn a_token_is_not_shown() {
        assert_eq!(format!("{:?}", token(7)), "WebhookToken(…)");
        assert!(!format!("{:?}", rotating(None)).contains("0101"));
    }

    #[test]
    fn a_whole_life_goes_through_every_step_in_order() {
        let mut tokens = WebhookTokens { current: token(1), since: at(0), previous: None };
        let mut steps = Vec::new();
        for second in 0..300 {
            let now = at(second);
            loop {
                // What the configurations carry is always accepted.
                let called = tokens.called(now, GRACE).reveal();
                assert_eq!(tokens.base_path(&format!("/x/{called}")), Some("/x"));
                let step = tokens.next_step(true, now, LIFETIME, GRACE);
                if matches!(step, TokenStep::Wait { .. }) {
                    break;
                }
                tokens = tokens.after(step, now, token(2));
                steps.push((second, step));
            }
        }
        assert_eq!(steps, [(200, TokenStep::Rotate), (210, TokenStep::MarkSwitched), (220, TokenStep::Retire)]);
        assert_eq!(tokens, WebhookTokens { current: token(2), since: at(200), previous: None });
    }

    #[test]
    fn replicas_see_a_token_before_it_is_called_and_api_servers_before_the_old_one_goes() {
        assert_eq!(rotating(None).called(at(209), GRACE), &token(1));
        assert_eq!(rotating(None).called(at(210), GRACE), &token(2));
        assert_eq!(rotating(Some(205)).called(at(206), GRACE), &token(2), "once switched, for good");
        // A configuration that cannot be written keeps the previous token alive.
        let stuck = rotating(None).next_step(false, at(260), LIFETIME, GRACE);
        assert_eq!(stuck, TokenStep::Wait { until: at(270) });
        let late = rotating(Some(260));
        assert_eq!(late.next_step(true, at(269), LIFETIME, GRACE), TokenStep::Wait { until: at(270) });
        assert_eq!(late.next_step(false, at(270), LIFETIME, GRACE), TokenStep::Wait { until: at(280) });
        assert_eq!(late.next_step(true, at(270), LIFETIME, GRACE), TokenStep::Retire);
    }
}
