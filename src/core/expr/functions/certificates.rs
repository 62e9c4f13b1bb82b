//! Certificates as objects, under the field names that Go gives them (policies are written against those).

use ::core::net::IpAddr;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Map, Value, json};
use x509_parser::asn1_rs::{FromDer, Oid};
use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::cri_attributes::ParsedCriAttribute;
use x509_parser::extensions::{DistributionPointName, GeneralName, GeneralSubtree, ParsedExtension, X509Extension};
use x509_parser::num_bigint::BigUint;
use x509_parser::prelude::X509Certificate;
use x509_parser::public_key::PublicKey;
use x509_parser::signature_algorithm::SignatureAlgorithm;
use x509_parser::x509::{AlgorithmIdentifier, SubjectPublicKeyInfo, X509Name};

use super::{Arguments, Function, Outcome};
use crate::core::expr::datum::Datum;
use crate::core::scalar::go_time::Time;

pub(super) const FUNCTIONS: &[Function] = &[Function {
    name: "x509_decode",
    takes: &["string"],
    gives: "object",
    note: "Reads the first certificate or certificate request of a PEM text; RSA keys only.",
    examples: &[(
        concat!("x509_decode('", include_str!("certificates/request.csr"), "').Subject.CommonName"),
        r#""*.example.test""#,
    )],
    call: x509_decode,
}];

fn x509_decode<'a>(arguments: &Arguments<'_, 'a>) -> Outcome<'a> {
    let text = arguments.text(0)?;
    arguments.runtime.produce(text.len())?;
    decode(&text).map(Datum::owned).map_err(|words| arguments.fail(words))
}

fn decode(text: &str) -> Result<Value, &'static str> {
    let (_, pem) = x509_parser::pem::parse_x509_pem(text.as_bytes()).map_err(|_| "failed to decode PEM block")?;
    match pem.label.as_str() {
        "CERTIFICATE" => {
            let (_, certificate) =
                X509Certificate::from_der(&pem.contents).map_err(|_| "failed to parse certificate")?;
            of_certificate(&certificate)
        }
        "CERTIFICATE REQUEST" => {
            let (_, request) =
                X509CertificationRequest::from_der(&pem.contents).map_err(|_| "failed to parse certificate request")?;
            of_request(&request)
        }
        _ => Err("the PEM block is neither a certificate nor a certificate request"),
    }
}

fn of_certificate(certificate: &X509Certificate<'_>) -> Result<Value, &'static str> {
    let tbs = &certificate.tbs_certificate;
    let mut fields = key_fields(&tbs.subject_pki, &certificate.signature_algorithm)?;
    fields.extend([
        ("Raw", bytes(certificate.as_raw())),
        ("RawTBSCertificate", bytes(tbs.as_ref())),
        ("RawSubject", bytes(tbs.subject.as_raw())),
        ("RawIssuer", bytes(tbs.issuer.as_raw())),
        ("Signature", bytes(&certificate.signature_value.data)),
        ("Version", json!(tbs.version.0 + 1)),
        ("SerialNumber", number(&tbs.serial)),
        ("Issuer", name(&tbs.issuer)),
        ("Subject", name(&tbs.subject)),
        ("NotBefore", time(tbs.validity.not_before.timestamp())?),
        ("NotAfter", time(tbs.validity.not_after.timestamp())?),
        ("Extensions", extensions(tbs.extensions())),
        ("ExtraExtensions", Value::Null),
    ]);
    fields.extend(ABSENT.iter().map(|key| (*key, Value::Null)));
    fields.extend(ZERO.iter().map(|key| (*key, json!(0))));
    fields.extend(FALSE.iter().map(|key| (*key, json!(false))));
    let mut unhandled = Vec::new();
    for extension in tbs.extensions() {
        let known = extension_fields(extension);
        if known.is_empty() && extension.critical {
            unhandled.push(oid(&extension.oid));
        }
        fields.extend(known);
    }
    fields.push(("UnhandledCriticalExtensions", list(unhandled)));
    Ok(object(fields))
}

fn of_request(request: &X509CertificationRequest<'_>) -> Result<Value, &'static str> {
    let info = &request.certification_request_info;
    let mut fields = key_fields(&info.subject_pki, &request.signature_algorithm)?;
    let mut attributes = Vec::new();
    let mut requested: &[X509Extension<'_>] = &[];
    for attribute in info.iter_attributes() {
        if let ParsedCriAttribute::ExtensionRequest(request) = attribute.parsed_attribute() {
            requested = &request.extensions;
            let values = requested.iter().map(|extension| {
                let value = if extension.critical { json!(true) } else { bytes(extension.value) };
                json!({"Type": oid(&extension.oid), "Value": value})
            });
            attributes.push(json!({"Type": oid(&attribute.oid), "Value": [values.collect::<Vec<_>>()]}));
        }
    }
    fields.extend([
        ("Raw", bytes(request.as_raw())),
        ("RawTBSCertificateRequest", bytes(info.raw)),
        ("RawSubject", bytes(info.subject.as_raw())),
        ("Version", json!(info.version.0)),
        ("Signature", bytes(&request.signature_value.data)),
        ("Subject", name(&info.subject)),
        ("Attributes", list(attributes)),
        ("Extensions", if requested.is_empty() { Value::Null } else { extensions(requested) }),
        ("ExtraExtensions", Value::Null),
    ]);
    let names = ["DNSNames", "EmailAddresses", "IPAddresses", "URIs"];
    fields.extend(names.map(|key| (key, Value::Null)));
    for extension in requested {
        fields.extend(extension_fields(extension).into_iter().filter(|(key, _)| names.contains(key)));
    }
    Ok(object(fields))
}

/// Fields that are null unless an extension fills them.
const ABSENT: &[&str] = &[
    "ExtKeyUsage",
    "UnknownExtKeyUsage",
    "SubjectKeyId",
    "AuthorityKeyId",
    "OCSPServer",
    "IssuingCertificateURL",
    "DNSNames",
    "EmailAddresses",
    "IPAddresses",
    "URIs",
    "PermittedDNSDomains",
    "ExcludedDNSDomains",
    "PermittedIPRanges",
    "ExcludedIPRanges",
    "PermittedEmailAddresses",
    "ExcludedEmailAddresses",
    "PermittedURIDomains",
    "ExcludedURIDomains",
    "CRLDistributionPoints",
    "PolicyIdentifiers",
    "Policies",
    "PolicyMappings",
];

/// Fields that are 0 unless an extension fills them.
const ZERO: &[&str] = &["KeyUsage", "MaxPathLen", "InhibitAnyPolicy", "InhibitPolicyMapping", "RequireExplicitPolicy"];

/// Fields that are false unless an extension fills them.
const FALSE: &[&str] = &[
    "BasicConstraintsValid",
    "IsCA",
    "MaxPathLenZero",
    "PermittedDNSDomainsCritical",
    "InhibitAnyPolicyZero",
    "InhibitPolicyMappingZero",
    "RequireExplicitPolicyZero",
];

type Fields = Vec<(&'static str, Value)>;

fn key_fields(key: &SubjectPublicKeyInfo<'_>, signature: &AlgorithmIdentifier<'_>) -> Result<Fields, &'static str> {
    let Ok(PublicKey::RSA(rsa)) = key.parsed() else {
        return Err("certificate should use rsa algorithm");
    };
    let exponent = rsa.try_exponent().map_err(|_| "the key's exponent is malformed")?;
    Ok(vec![
        ("RawSubjectPublicKeyInfo", bytes(key.raw)),
        ("SignatureAlgorithm", json!(signature_algorithm(signature))),
        ("PublicKeyAlgorithm", json!(1)),
        ("PublicKey", json!({"N": BigUint::from_bytes_be(rsa.modulus).to_string(), "E": exponent})),
    ])
}

/// Go's number of a signature algorithm, 0 for those it does not know.
fn signature_algorithm(algorithm: &AlgorithmIdentifier<'_>) -> u8 {
    if let Ok(SignatureAlgorithm::RSASSA_PSS(parameters)) = SignatureAlgorithm::try_from(algorithm) {
        return match parameters.hash_algorithm_oid().to_id_string().as_str() {
            "2.16.840.1.101.3.4.2.1" => 13,
            "2.16.840.1.101.3.4.2.2" => 14,
            "2.16.840.1.101.3.4.2.3" => 15,
            _ => 0,
        };
    }
    match algorithm.algorithm.to_id_string().as_str() {
        "1.2.840.113549.1.1.2" => 1,
        "1.2.840.113549.1.1.4" => 2,
        "1.2.840.113549.1.1.5" | "1.3.14.3.2.29" => 3,
        "1.2.840.113549.1.1.11" => 4,
        "1.2.840.113549.1.1.12" => 5,
        "1.2.840.113549.1.1.13" => 6,
        "1.2.840.10040.4.3" => 7,
        "2.16.840.1.101.3.4.3.2" => 8,
        "1.2.840.10045.4.1" => 9,
        "1.2.840.10045.4.3.2" => 10,
        "1.2.840.10045.4.3.3" => 11,
        "1.2.840.10045.4.3.4" => 12,
        "1.3.101.112" => 16,
        _ => 0,
    }
}

/// What an extension says; nothing if it is not known.
fn extension_fields(extension: &X509Extension<'_>) -> Fields {
    match extension.parsed_extension() {
        ParsedExtension::KeyUsage(usage) => vec![("KeyUsage", json!(usage.flags))],
        ParsedExtension::ExtendedKeyUsage(_) => extended_key_usage(extension.value),
        ParsedExtension::BasicConstraints(constraints) => vec![
            ("BasicConstraintsValid", json!(true)),
            ("IsCA", json!(constraints.ca)),
            ("MaxPathLen", constraints.path_len_constraint.map_or(json!(-1), |length| json!(length))),
            ("MaxPathLenZero", json!(constraints.path_len_constraint == Some(0))),
        ],
        ParsedExtension::SubjectKeyIdentifier(key) => vec![("SubjectKeyId", bytes(key.0))],
        ParsedExtension::AuthorityKeyIdentifier(authority) => {
            vec![("AuthorityKeyId", authority.key_identifier.as_ref().map_or(Value::Null, |key| bytes(key.0)))]
        }
        ParsedExtension::SubjectAlternativeName(names) => alternative_names(&names.general_names),
        ParsedExtension::NameConstraints(constraints) => {
            let mut fields = subtrees(constraints.permitted_subtrees.as_deref(), PERMITTED);
            fields.extend(subtrees(constraints.excluded_subtrees.as_deref(), EXCLUDED));
            fields.push(("PermittedDNSDomainsCritical", json!(extension.critical)));
            fields
        }
        ParsedExtension::CRLDistributionPoints(points) => {
            let names = points.points.iter().filter_map(|point| match &point.distribution_point {
                Some(DistributionPointName::FullName(names)) => Some(names),
                _ => None,
            });
            vec![("CRLDistributionPoints", list(names.flatten().filter_map(uri).collect()))]
        }
        ParsedExtension::AuthorityInfoAccess(access) => {
            let of = |method: &str| {
                let chosen = access.iter().filter(|one| one.access_method.to_id_string() == method);
                list(chosen.filter_map(|one| uri(&one.access_location)).collect())
            };
            vec![("OCSPServer", of("1.3.6.1.5.5.7.48.1")), ("IssuingCertificateURL", of("1.3.6.1.5.5.7.48.2"))]
        }
        ParsedExtension::CertificatePolicies(policies) => vec![
            ("PolicyIdentifiers", list(policies.iter().map(|policy| oid(&policy.policy_id)).collect())),
            ("Policies", list(policies.iter().map(|policy| json!(policy.policy_id.to_id_string())).collect())),
        ],
        ParsedExtension::PolicyMappings(mappings) => {
            let mappings = mappings.mappings.iter().map(|mapping| {
                json!({
                    "IssuerDomainPolicy": mapping.issuer_domain_policy.to_id_string(),
                    "SubjectDomainPolicy": mapping.subject_domain_policy.to_id_string(),
                })
            });
            vec![("PolicyMappings", list(mappings.collect()))]
        }
        ParsedExtension::PolicyConstraints(constraints) => {
            let mut fields = Vec::new();
            if let Some(count) = constraints.require_explicit_policy {
                fields.push(("RequireExplicitPolicy", json!(count)));
                fields.push(("RequireExplicitPolicyZero", json!(count == 0)));
            }
            if let Some(count) = constraints.inhibit_policy_mapping {
                fields.push(("InhibitPolicyMapping", json!(count)));
                fields.push(("InhibitPolicyMappingZero", json!(count == 0)));
            }
            fields
        }
        ParsedExtension::InhibitAnyPolicy(policy) => vec![
            ("InhibitAnyPolicy", json!(policy.skip_certs)),
            ("InhibitAnyPolicyZero", json!(policy.skip_certs == 0)),
        ],
        _ => Vec::new(),
    }
}

/// Usages in the order of the certificate, which the parser's own form does not keep.
fn extended_key_usage(value: &[u8]) -> Fields {
    const KNOWN: &[(&str, u8)] = &[
        ("2.5.29.37.0", 0),
        ("1.3.6.1.5.5.7.3.1", 1),
        ("1.3.6.1.5.5.7.3.2", 2),
        ("1.3.6.1.5.5.7.3.3", 3),
        ("1.3.6.1.5.5.7.3.4", 4),
        ("1.3.6.1.5.5.7.3.5", 5),
        ("1.3.6.1.5.5.7.3.6", 6),
        ("1.3.6.1.5.5.7.3.7", 7),
        ("1.3.6.1.5.5.7.3.8", 8),
        ("1.3.6.1.5.5.7.3.9", 9),
        ("1.3.6.1.4.1.311.10.3.3", 10),
        ("2.16.840.1.113730.4.1", 11),
        ("1.3.6.1.4.1.311.2.1.22", 12),
        ("1.3.6.1.4.1.311.61.1.1", 13),
    ];
    let (mut known, mut unknown) = (Vec::new(), Vec::new());
    for usage in Vec::<Oid<'_>>::from_der(value).map(|(_, usages)| usages).unwrap_or_default() {
        match KNOWN.iter().find(|(id, _)| *id == usage.to_id_string()) {
            Some((_, number)) => known.push(json!(number)),
            None => unknown.push(oid(&usage)),
        }
    }
    vec![("ExtKeyUsage", list(known)), ("UnknownExtKeyUsage", list(unknown))]
}

fn alternative_names(names: &[GeneralName<'_>]) -> Fields {
    let (mut dns, mut emails, mut addresses, mut uris) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for name in names {
        match name {
            GeneralName::DNSName(name) => dns.push(json!(name)),
            GeneralName::RFC822Name(email) => emails.push(json!(email)),
            GeneralName::IPAddress(address) => addresses.extend(ip(address)),
            GeneralName::URI(uri) => uris.push(url(uri)),
            _ => {}
        }
    }
    vec![
        ("DNSNames", list(dns)),
        ("EmailAddresses", list(emails)),
        ("IPAddresses", list(addresses)),
        ("URIs", list(uris)),
    ]
}

const PERMITTED: [&str; 4] =
    ["PermittedDNSDomains", "PermittedIPRanges", "PermittedEmailAddresses", "PermittedURIDomains"];
const EXCLUDED: [&str; 4] = ["ExcludedDNSDomains", "ExcludedIPRanges", "ExcludedEmailAddresses", "ExcludedURIDomains"];

fn subtrees(trees: Option<&[GeneralSubtree<'_>]>, keys: [&'static str; 4]) -> Fields {
    let (mut dns, mut ranges, mut emails, mut uris) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for tree in trees.unwrap_or_default() {
        match &tree.base {
            GeneralName::DNSName(name) => dns.push(json!(name)),
            GeneralName::RFC822Name(email) => emails.push(json!(email)),
            GeneralName::URI(uri) => uris.push(json!(uri)),
            GeneralName::IPAddress(range) => {
                let (address, mask) = range.split_at(range.len() / 2);
                ranges.extend(ip(address).map(|address| json!({"IP": address, "Mask": bytes(mask)})));
            }
            _ => {}
        }
    }
    keys.into_iter().zip([dns, ranges, emails, uris].map(list)).collect()
}

fn name(name: &X509Name<'_>) -> Value {
    const LISTS: &[(&str, &str)] = &[
        ("2.5.4.6", "Country"),
        ("2.5.4.10", "Organization"),
        ("2.5.4.11", "OrganizationalUnit"),
        ("2.5.4.7", "Locality"),
        ("2.5.4.8", "Province"),
        ("2.5.4.9", "StreetAddress"),
        ("2.5.4.17", "PostalCode"),
    ];
    let mut names = Vec::new();
    for attribute in name.iter_attributes() {
        let value = match attribute.as_str() {
            Ok(text) => text.to_owned(),
            Err(_) => String::from_utf8_lossy(attribute.as_slice()).into_owned(),
        };
        names.push((attribute.attr_type().to_id_string(), oid(attribute.attr_type()), value));
    }
    let all =
        |wanted: &str| list(names.iter().filter(|(id, ..)| id == wanted).map(|(.., value)| json!(value)).collect());
    let last = |wanted: &str| names.iter().rev().find(|(id, ..)| id == wanted).map_or("", |(.., value)| value);
    let mut fields: Fields = LISTS.iter().map(|(id, key)| (*key, all(id))).collect();
    fields.extend([
        ("SerialNumber", json!(last("2.5.4.5"))),
        ("CommonName", json!(last("2.5.4.3"))),
        ("Names", list(names.iter().map(|(_, id, value)| json!({"Type": id, "Value": value})).collect())),
        ("ExtraNames", Value::Null),
    ]);
    object(fields)
}

fn extensions(extensions: &[X509Extension<'_>]) -> Value {
    list(
        extensions
            .iter()
            .map(|one| json!({"Id": oid(&one.oid), "Critical": one.critical, "Value": bytes(one.value)}))
            .collect(),
    )
}

/// A list, null if empty: Go's nil slice.
fn list(values: Vec<Value>) -> Value {
    if values.is_empty() { Value::Null } else { Value::Array(values) }
}

fn object(fields: Fields) -> Value {
    Value::Object(fields.into_iter().map(|(key, value)| (key.to_owned(), value)).collect::<Map<_, _>>())
}

fn bytes(bytes: &[u8]) -> Value {
    Value::String(BASE64_STANDARD.encode(bytes))
}

fn oid(oid: &Oid<'_>) -> Value {
    oid.iter().map(|parts| parts.map(Value::from).collect()).unwrap_or_default()
}

fn number(number: &BigUint) -> Value {
    match u64::try_from(number) {
        Ok(exact) => json!(exact),
        Err(_) => json!(number.to_string().parse::<f64>().unwrap_or_default()),
    }
}

fn time(seconds: i64) -> Result<Value, &'static str> {
    Time::from_unix(seconds).map(|time| json!(time.to_string())).map_err(|error| error.words())
}

fn ip(bytes: &[u8]) -> Option<Value> {
    let address = match bytes.len() {
        4 => IpAddr::from(<[u8; 4]>::try_from(bytes).ok()?),
        16 => IpAddr::from(<[u8; 16]>::try_from(bytes).ok()?),
        _ => return None,
    };
    Some(json!(address.to_string()))
}

fn uri(name: &GeneralName<'_>) -> Option<Value> {
    match name {
        GeneralName::URI(uri) => Some(json!(uri)),
        _ => None,
    }
}

/// A URL in the parts of Go's type.
fn url(text: &str) -> Value {
    let (rest, fragment) = text.split_once('#').unwrap_or((text, ""));
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (scheme, rest) = rest.split_once(':').unwrap_or(("", rest));
    let (host, path, opaque) = match rest.strip_prefix("//") {
        Some(rest) => {
            let end = rest.find('/').unwrap_or(rest.len());
            (&rest[..end], &rest[end..], "")
        }
        None if rest.starts_with('/') => ("", rest, ""),
        None => ("", "", rest),
    };
    json!({
        "Scheme": scheme, "Opaque": opaque, "User": null, "Host": host, "Path": path, "RawPath": "", "OmitHost": false,
        "ForceQuery": false, "RawQuery": query, "Fragment": fragment, "RawFragment": "",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Made with openssl, whose own rendering of it is where the expectations come from.
    const CERTIFICATE: &str = include_str!("certificates/certificate.crt");
    const REQUEST: &str = include_str!("certificates/request.csr");
    const ELLIPTIC: &str = include_str!("certificates/elliptic.crt");
    const MODULUS: &str = "110322799621398164695644944707975487316814641152990583154276392593084579198308776316668297808955262321718922950232549783251793506581325071521347996728170032734765766343656271760055058097676982951605241978841015509874406634343959930692273139750216265079068257754690428886249364676246380877388236601455444770387";

    #[track_caller]
    fn check(document: &Value, field: &str, expected: Value) {
        assert_eq!(document.pointer(field), Some(&expected), "{field}");
    }

    #[test]
    fn a_certificate_has_go_s_fields() {
        let found = decode(CERTIFICATE).expect("a certificate");
        let check = |field: &str, expected: Value| check(&found, field, expected);
        check("/Version", json!(3));
        check("/SerialNumber", json!(4_759_477_275_222_530_853_130_f64));
        check("/SignatureAlgorithm", json!(4));
        check("/PublicKeyAlgorithm", json!(1));
        check("/PublicKey", json!({"N": MODULUS, "E": 65537}));
        check("/NotBefore", json!("2026-11-16T11:59:42Z"));
        check("/NotAfter", json!("2036-11-13T11:59:42Z"));
        check("/Subject/Country", json!(["SE"]));
        check("/Subject/Organization", json!(["Example Org"]));
        check("/Subject/OrganizationalUnit", json!(["Unit A"]));
        check("/Subject/Locality", json!(["Gothenburg"]));
        check("/Subject/Province", json!(["Vastra"]));
        check("/Subject/StreetAddress", json!(null));
        check("/Subject/SerialNumber", json!(""));
        check("/Subject/ExtraNames", json!(null));
        check("/Subject/Names/5", json!({"Type": [2, 5, 4, 3], "Value": "*.example.test"}));
        check("/Issuer/CommonName", json!("*.example.test"));
        check("/KeyUsage", json!(1 + 4 + 32));
        check("/ExtKeyUsage", json!([1, 2]));
        check("/UnknownExtKeyUsage", json!([[1, 2, 3, 4]]));
        check("/BasicConstraintsValid", json!(true));
        check("/IsCA", json!(true));
        check("/MaxPathLen", json!(0));
        check("/MaxPathLenZero", json!(true));
        check("/SubjectKeyId", json!("dQdZm7ncmIKOs9p18aNaDpAsUew="));
        check("/AuthorityKeyId", json!(null));
        check("/DNSNames", json!(["a.example.test", "b.example.test"]));
        check("/IPAddresses", json!(["10.1.2.3", "fd00::1"]));
        check("/EmailAddresses", json!(["who@example.test"]));
        check("/URIs/0/Scheme", json!("spiffe"));
        check("/URIs/0/Host", json!("example.test"));
        check("/URIs/0/Path", json!("/ns/a"));
        check("/URIs/0/RawQuery", json!("q=1"));
        check("/OCSPServer", json!(["http://ocsp.example.test"]));
        check("/IssuingCertificateURL", json!(["http://ca.example.test/ca.crt"]));
        check("/CRLDistributionPoints", json!(["http://crl.example.test/ca.crl"]));
        check("/PolicyIdentifiers", json!([[1, 2, 3, 4, 5]]));
        check("/Policies", json!(["1.2.3.4.5"]));
        check("/PermittedDNSDomains", json!([".example.test"]));
        check("/ExcludedIPRanges", json!([{"IP": "10.0.0.0", "Mask": "/wAAAA=="}]));
        check("/PermittedDNSDomainsCritical", json!(false));
        check("/ExcludedDNSDomains", json!(null));
        check("/UnhandledCriticalExtensions", json!(null));
        check("/ExtraExtensions", json!(null));
        check("/Extensions/0/Id", json!([2, 5, 29, 19]));
        check("/Extensions/0/Critical", json!(true));
        check("/Extensions/0/Value", json!("MAYBAf8CAQA="));
        let whole: String = CERTIFICATE.lines().filter(|line| !line.starts_with('-')).collect();
        check("/Raw", json!(whole));
        for key in ["RawTBSCertificate", "RawSubjectPublicKeyInfo", "RawSubject", "RawIssuer", "Signature"] {
            assert!(found[key].as_str().is_some_and(|text| !text.is_empty()), "{key}");
        }
        for key in ABSENT.iter().chain(ZERO).chain(FALSE) {
            assert!(found.get(*key).is_some(), "{key}");
        }
    }

    #[test]
    fn a_request_has_go_s_fields() {
        let found = decode(REQUEST).expect("a request");
        let check = |field: &str, expected: Value| check(&found, field, expected);
        check("/Version", json!(0));
        check("/SignatureAlgorithm", json!(5));
        check("/PublicKey/N", json!(MODULUS));
        check("/DNSNames", json!(["r.example.test"]));
        check("/IPAddresses", json!(["192.0.2.1"]));
        check("/URIs", json!(null));
        check("/Attributes/0/Type", json!([1, 2, 840, 113549, 1, 9, 14]));
        check("/Attributes/0/Value/0/0/Type", json!([2, 5, 29, 17]));
        check("/Extensions/0/Id", json!([2, 5, 29, 17]));
        check("/ExtraExtensions", json!(null));
        assert!(found.get("RawTBSCertificateRequest").is_some());
        assert!(found.get("KeyUsage").is_none());
    }

    #[test]
    fn what_is_no_certificate_is_refused() {
        assert_eq!(decode("xyz"), Err("failed to decode PEM block"));
        assert_eq!(decode(""), Err("failed to decode PEM block"));
        assert_eq!(decode(ELLIPTIC), Err("certificate should use rsa algorithm"));
        assert!(decode("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n").is_err());
        assert!(
            decode(&CERTIFICATE.replace("CERTIFICATE", "PRIVATE KEY")).is_err_and(|error| error.contains("neither"))
        );
        for cut in (0..CERTIFICATE.len()).step_by(37) {
            let _ = decode(&CERTIFICATE[..cut]);
        }
    }
}
