//! `matches` of inbound rules: who calls, by SPIFFE ID and server name.

use crate::compile::Findings;
use crate::compile::mesh::format::{is_dns_subdomain, is_spiffe_id};
use crate::compile::reader::Node;
use crate::core::mesh::caller::{CallerMatch, SpiffeMatch};
use crate::core::problem::Reason;

pub(super) const SPIFFE_TYPES: &[&str] = &["Exact", "Prefix"];
pub(super) const SNI_TYPES: &[&str] = &["Exact"];

/// How strict a policy is with its matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Strictness {
    /// An entry may be empty, and the type of a SPIFFE match is left to the schema.
    Lenient,
    Strict,
}

/// Reads a list of matches; entries with findings are left out.
pub(super) fn read_list(list: &Node<'_>, strictness: Strictness, findings: &mut Findings) -> Vec<CallerMatch> {
    list.list(findings).iter().filter_map(|entry| read(entry, strictness, findings)).collect()
}

/// Whether any entry of the list asks for a SPIFFE ID.
pub(super) fn any_spiffe_id(list: &Node<'_>) -> bool {
    list.list(&mut Findings::default()).iter().any(|entry| entry.below("spiffeID").is_present())
}

fn read(entry: &Node<'_>, strictness: Strictness, findings: &mut Findings) -> Option<CallerMatch> {
    let before = findings.errors.len();
    let object = entry.object(findings);
    let (spiffe_id, sni) = (object.get("spiffeID"), object.get("sni"));
    object.warn_of_unknown(findings);
    if strictness == Strictness::Strict && !spiffe_id.is_present() && !sni.is_present() {
        findings.refuse(entry.path, Reason::AnyOf, "at least one of spiffeID, sni");
        return None;
    }
    let spiffe_id = spiffe_id.is_present().then(|| read_spiffe_id(&spiffe_id, strictness, findings)).flatten();
    let sni = sni.is_present().then(|| read_sni(&sni, findings)).flatten();
    (findings.errors.len() == before).then_some(CallerMatch { spiffe_id, sni })
}

fn read_spiffe_id(field: &Node<'_>, strictness: Strictness, findings: &mut Findings) -> Option<SpiffeMatch> {
    let object = field.object(findings);
    let (kind, value) = (object.get("type"), object.get("value"));
    object.warn_of_unknown(findings);
    let kind = match strictness {
        Strictness::Lenient => kind.schema_word(SPIFFE_TYPES, findings),
        Strictness::Strict if !kind.is_filled() => {
            findings.refuse(kind.path, Reason::Required, "required; one of Exact, Prefix");
            None
        }
        Strictness::Strict => kind.word(SPIFFE_TYPES, findings),
    };
    let value = value.text(findings).unwrap_or_default();
    if !is_spiffe_id(&value) {
        let message = "malformed: a SPIFFE ID looks like spiffe://trust.domain/ns/backend/sa/default";
        findings.refuse(field.path, Reason::Format, message);
    }
    match kind? {
        "Exact" => Some(SpiffeMatch::Exact(value.into_owned())),
        _ => Some(SpiffeMatch::Prefix(value.into_owned())),
    }
}

fn read_sni(field: &Node<'_>, findings: &mut Findings) -> Option<String> {
    let object = field.object(findings);
    let (kind, value) = (object.get("type"), object.get("value"));
    object.warn_of_unknown(findings);
    if kind.is_filled() {
        kind.word(SNI_TYPES, findings);
    } else {
        findings.refuse(kind.path, Reason::Required, "required: Exact");
    }
    let name = value.text(findings).unwrap_or_default();
    if name.is_empty() {
        findings.refuse(value.path, Reason::Required, "required: the server name");
    } else if !is_dns_subdomain(&name) || name.len() > 253 {
        let message = "malformed: a server name has at most 253 lower-case letters, digits, `-` and `.`";
        findings.refuse(value.path, Reason::Format, message);
    }
    Some(name.into_owned())
}
