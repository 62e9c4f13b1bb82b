//! The state of the certificates as one Secret that all replicas share.
//!
//! `tls.crt`, `tls.key` and `ca.crt` are the pair being served, under the names that other tools know; `next-*` the
//! announced one, `previous-ca.crt` the authority on its way out. Two annotations hold the times of the stages. The manifests
//! ship the Secret empty.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;

use super::issue::{Unit, UnitError};
use super::rotation::{Progress, Stage};

const TRUSTED_SINCE: &str = "writ.dev/trusted-since";
const SWITCHED_AT: &str = "writ.dev/switched-at";
const CURRENT: [&str; 3] = ["tls.crt", "tls.key", "ca.crt"];
const NEXT: [&str; 3] = ["next-tls.crt", "next-tls.key", "next-ca.crt"];
const PREVIOUS: &str = "previous-ca.crt";

/// The pair being served and how far its renewal has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Stored {
    pub current: Unit,
    pub renewal: Renewal,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Renewal {
    None,
    Announced { next: Unit, trusted_since: Option<Timestamp> },
    Switched { previous: String, since: Timestamp },
}

impl Stored {
    /// Reads a Secret. What cannot be used of a renewal is left out: it is then announced anew.
    pub(super) fn read(secret: &Secret, names: &[String]) -> Result<Self, UnitError> {
        let current = unit(secret, CURRENT, names)?;
        let previous = text(secret, PREVIOUS);
        let renewal = match (unit(secret, NEXT, names), previous, time(secret, SWITCHED_AT)) {
            (Ok(next), _, _) => Renewal::Announced { next, trusted_since: time(secret, TRUSTED_SINCE) },
            (Err(_), Some(previous), Some(since)) => Renewal::Switched { previous, since },
            _ => Renewal::None,
        };
        Ok(Self { current, renewal })
    }

    /// Writes into a Secret, keeping its metadata of other people.
    pub(super) fn write(&self, secret: &mut Secret) {
        let mut data = BTreeMap::new();
        let mut put = |keys: [&str; 3], unit: &Unit| {
            for (key, value) in keys.into_iter().zip([&unit.chain, &unit.key, &unit.authority]) {
                data.insert(key.to_owned(), ByteString(value.clone().into_bytes()));
            }
        };
        put(CURRENT, &self.current);
        let (mut trusted, mut switched) = (None, None);
        match &self.renewal {
            Renewal::None => {}
            Renewal::Announced { next, trusted_since } => {
                put(NEXT, next);
                trusted = *trusted_since;
            }
            Renewal::Switched { previous, since } => {
                data.insert(PREVIOUS.to_owned(), ByteString(previous.clone().into_bytes()));
                switched = Some(*since);
            }
        }
        secret.data = Some(data);
        let annotations = secret.metadata.annotations.get_or_insert_default();
        for (key, value) in [(TRUSTED_SINCE, trusted), (SWITCHED_AT, switched)] {
            match value {
                Some(time) => annotations.insert(key.to_owned(), time.to_string()),
                None => annotations.remove(key),
            };
        }
    }

    /// The authorities that API servers must trust now, oldest first.
    pub(super) fn bundle(&self) -> String {
        let current = &self.current.authority;
        match &self.renewal {
            Renewal::None => current.clone(),
            Renewal::Announced { next, .. } => format!("{current}{}", next.authority),
            Renewal::Switched { previous, .. } => format!("{previous}{current}"),
        }
    }

    pub(super) fn progress(&self) -> Progress {
        let stage = match &self.renewal {
            Renewal::None => Stage::Steady,
            Renewal::Announced { next, trusted_since } => {
                Stage::Announced { next: next.validity, trusted_since: *trusted_since }
            }
            Renewal::Switched { since, .. } => Stage::Switched { since: *since },
        };
        Progress { current: self.current.validity, stage }
    }
}

fn unit(secret: &Secret, [chain, key, authority]: [&'static str; 3], names: &[String]) -> Result<Unit, UnitError> {
    let part = |key: &'static str| {
        text(secret, key).ok_or_else(|| UnitError::Unreadable { part: key, reason: "it is missing".to_owned() })
    };
    Unit::read(part(chain)?, part(key)?, part(authority)?, names)
}

fn text(secret: &Secret, key: &str) -> Option<String> {
    String::from_utf8(secret.data.as_ref()?.get(key)?.0.clone()).ok()
}

fn time(secret: &Secret, annotation: &str) -> Option<Timestamp> {
    secret.metadata.annotations.as_ref()?.get(annotation)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn names() -> Vec<String> {
        vec!["localhost".to_owned()]
    }

    fn make(second: i64) -> Unit {
        Unit::issue(&names(), Timestamp::from_second(second).unwrap(), Duration::from_secs(3000)).unwrap()
    }

    #[track_caller]
    fn check(stored: &Stored) {
        let mut secret = Secret::default();
        stored.write(&mut secret);
        assert_eq!(&Stored::read(&secret, &names()).unwrap(), stored);
        // Writing over an older stage leaves nothing of it.
        let announced = Renewal::Announced { next: make(7), trusted_since: Timestamp::from_second(8).ok() };
        Stored { current: make(6), renewal: announced }.write(&mut secret);
        stored.write(&mut secret);
        assert_eq!(&Stored::read(&secret, &names()).unwrap(), stored);
    }

    #[test]
    fn every_stage_comes_back_as_it_went() {
        let since = "2026-01-02T03:04:05.678Z".parse().unwrap();
        let [one, two] = [make(1000), make(2000)];
        check(&Stored { current: one.clone(), renewal: Renewal::None });
        let announced = |trusted_since| Renewal::Announced { next: two.clone(), trusted_since };
        check(&Stored { current: one.clone(), renewal: announced(None) });
        check(&Stored { current: one.clone(), renewal: announced(Some(since)) });
        let previous = one.authority.clone();
        check(&Stored { current: two, renewal: Renewal::Switched { previous, since } });
    }

    #[test]
    fn the_bundle_does_not_change_at_the_switch() {
        let [one, two] = [make(1000), make(2000)];
        let before =
            Stored { current: one.clone(), renewal: Renewal::Announced { next: two.clone(), trusted_since: None } };
        let since = Timestamp::from_second(5).unwrap();
        let after = Stored { current: two, renewal: Renewal::Switched { previous: one.authority, since } };
        assert_eq!(before.bundle(), after.bundle());
    }

    #[test]
    fn a_spoiled_renewal_is_no_renewal() {
        let stored =
            Stored { current: make(1000), renewal: Renewal::Announced { next: make(2000), trusted_since: None } };
        let mut secret = Secret::default();
        stored.write(&mut secret);
        secret.data.as_mut().unwrap().remove("next-tls.key");
        assert_eq!(Stored::read(&secret, &names()).unwrap().renewal, Renewal::None);
        secret.data.as_mut().unwrap().remove("tls.key");
        assert_eq!(
            Stored::read(&secret, &names()).unwrap_err().to_string(),
            "the tls.key cannot be read: it is missing"
        );
    }
}
