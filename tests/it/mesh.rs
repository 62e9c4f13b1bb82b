//! Mesh policies, from the document to the findings.

mod admission;
mod conformance;
mod documents;
mod goldens;
mod inspect;
mod laws;
mod rule_laws;
