//! Checks documents of the kinds that Writ runs.

use serde_json::Value;

use crate::core::problem::Problem;

/// What a check of one document found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    pub errors: Vec<Problem>,
    pub warnings: Vec<Problem>,
}

/// Checks one object; `None` if it is of no kind that Writ runs.
pub fn check(object: &Value) -> Option<Findings> {
    use crate::core::problem::{FieldPath, Reason};

    let api_version = object.get("apiVersion")?.as_str()?;
    if !api_version.starts_with("kyverno.io/") && !api_version.starts_with("kuma.io/") {
        return None;
    }
    let mut findings = Findings::default();
    if object.get("spec").is_none() {
        findings.errors.push(Problem::new(
            &FieldPath::root().field("spec"),
            Reason::Required,
            "must be set",
        ));
    }
    Some(findings)
}
