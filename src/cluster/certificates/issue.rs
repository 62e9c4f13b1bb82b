//! Makes a certificate authority with one leaf, and reads such a unit back.
//!
//! The authority's private key is forgotten as soon as the leaf is signed, so nothing else can ever be signed with it.

use std::fmt;
use std::time::Duration;

use jiff::Timestamp;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;
use time::OffsetDateTime;
use x509_parser::prelude::{FromDer, GeneralName, X509Certificate};

use super::rotation::Validity;

/// Clocks differ: a pair is valid from somewhat before it was made, by a tenth of its life but no more than this.
const MOST_BACKDATED: Duration = Duration::from_secs(60 * 60);

/// A leaf, its key, and the authority that vouches for it; all PEM.
#[derive(Clone, PartialEq, Eq)]
pub struct Unit {
    pub chain: String,
    pub key: String,
    pub authority: String,
    pub(super) validity: Validity,
}

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UnitError {
    #[error("cannot make a certificate: {0}")]
    Issue(#[from] rcgen::Error),
    #[error("the {part} cannot be read: {reason}")]
    Unreadable { part: &'static str, reason: String },
    #[error("the certificate is not for {0}")]
    WrongName(String),
    #[error("certificate, key and authority do not belong together")]
    Mismatch,
}

/// The key stays out of logs.
impl fmt::Debug for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Unit").field("validity", &self.validity).finish_non_exhaustive()
    }
}

impl Unit {
    /// Makes a new authority and a leaf for these names.
    pub(super) fn issue(names: &[String], now: Timestamp, lifetime: Duration) -> Result<Self, UnitError> {
        let until = now.checked_add(lifetime).unwrap_or(Timestamp::MAX);
        let validity = Validity { from: now - (lifetime / 10).min(MOST_BACKDATED), until };

        let authority_key = KeyPair::generate()?;
        let mut authority = CertificateParams::new(Vec::<String>::new())?;
        limit(&mut authority, validity);
        // A name of its own for each authority, so that a bundle of two is never ambiguous.
        let title = format!("writ authority {}", now.as_millisecond());
        authority.distinguished_name.push(DnType::CommonName, title);
        authority.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        authority.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let authority_pem = authority.self_signed(&authority_key)?.pem();

        let leaf_key = KeyPair::generate()?;
        let mut leaf = CertificateParams::new(names)?;
        limit(&mut leaf, validity);
        leaf.distinguished_name.push(DnType::CommonName, names.first().map_or("writ", String::as_str));
        leaf.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        leaf.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        leaf.use_authority_key_identifier_extension = true;
        let chain = leaf.signed_by(&leaf_key, &Issuer::new(authority, authority_key))?.pem();

        Self::read(chain, leaf_key.serialize_pem(), authority_pem, names)
    }

    /// Reads a unit back and checks that it can serve these names. Whether its time has come is not looked at.
    pub(super) fn read(chain: String, key: String, authority: String, names: &[String]) -> Result<Self, UnitError> {
        let (leaf_der, authority_der) = (first("certificate", &chain)?, first("authority", &authority)?);
        let (leaf, root) = (parse("certificate", &leaf_der)?, parse("authority", &authority_der)?);
        let pair = KeyPair::from_pem(&key)
            .map_err(|error| UnitError::Unreadable { part: "key", reason: error.to_string() })?;
        let fits = *leaf.public_key().subject_public_key.data == *rcgen::PublicKeyData::der_bytes(&pair)
            && leaf.issuer() == root.subject();
        if !fits {
            return Err(UnitError::Mismatch);
        }
        if let Some(missing) = names.iter().find(|name| !is_for(&leaf, name)) {
            return Err(UnitError::WrongName(missing.clone()));
        }
        let second = |time: x509_parser::time::ASN1Time| {
            Timestamp::from_second(time.timestamp())
                .map_err(|error| UnitError::Unreadable { part: "certificate", reason: error.to_string() })
        };
        let from = second(leaf.validity().not_before)?;
        let until = second(leaf.validity().not_after)?.min(second(root.validity().not_after)?);
        Ok(Self { chain, key, authority, validity: Validity { from, until } })
    }
}

fn limit(params: &mut CertificateParams, validity: Validity) {
    let convert = |time: Timestamp| OffsetDateTime::from_unix_timestamp(time.as_second());
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.not_before = convert(validity.from).unwrap_or(OffsetDateTime::UNIX_EPOCH);
    params.not_after = convert(validity.until).unwrap_or(params.not_after);
}

fn first(part: &'static str, pem: &str) -> Result<CertificateDer<'static>, UnitError> {
    CertificateDer::from_pem_slice(pem.as_bytes())
        .map_err(|error| UnitError::Unreadable { part, reason: error.to_string() })
}

fn parse<'a>(part: &'static str, der: &'a CertificateDer<'_>) -> Result<X509Certificate<'a>, UnitError> {
    let parsed = X509Certificate::from_der(der);
    parsed.map(|(_, it)| it).map_err(|error| UnitError::Unreadable { part, reason: error.to_string() })
}

fn is_for(leaf: &X509Certificate<'_>, name: &str) -> bool {
    let names = leaf.subject_alternative_name().ok().flatten();
    names.is_some_and(|names| {
        names.value.general_names.iter().any(|found| matches!(found, GeneralName::DNSName(found) if *found == name))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> Vec<String> {
        vec!["writ.writ-system.svc".to_owned(), "localhost".to_owned()]
    }

    fn make() -> Unit {
        let now = Timestamp::from_second(1_000_000).unwrap();
        Unit::issue(&names(), now, Duration::from_secs(3000)).unwrap()
    }

    #[test]
    fn lives_from_a_tenth_before_to_the_end() {
        let second = |it| Timestamp::from_second(it).unwrap();
        assert_eq!(make().validity, Validity { from: second(1_000_000 - 300), until: second(1_003_000) });
    }

    #[test]
    fn no_life_is_too_long_to_be_written_down() {
        let now = Timestamp::from_second(1_000_000).unwrap();
        let unit = Unit::issue(&names(), now, Duration::MAX).unwrap();
        assert!(unit.validity.until > Timestamp::from_second(100_000_000_000).unwrap());
    }

    #[test]
    fn reads_back_what_it_made_and_nothing_else() {
        let (one, two) = (make(), make());
        let read = |chain: &Unit, key: &Unit, authority: &Unit, names: &[String]| {
            Unit::read(chain.chain.clone(), key.key.clone(), authority.authority.clone(), names)
        };
        assert_eq!(read(&one, &one, &one, &names()).unwrap(), one);
        assert!(matches!(read(&one, &two, &one, &names()), Err(UnitError::Mismatch)));
        assert!(matches!(read(&one, &one, &one, &["other".to_owned()]), Err(UnitError::WrongName(_))));
        let broken = Unit { key: "nonsense".to_owned(), ..one.clone() };
        assert!(matches!(read(&one, &broken, &one, &names()), Err(UnitError::Unreadable { part: "key", .. })));
    }

    #[test]
    fn does_not_print_its_key() {
        assert!(!format!("{:?}", make()).contains("PRIVATE"));
    }
}
