//! Judges the policies that people apply: errors deny, warnings warn. No call leaves this file.

use super::mesh::{self, MeshView};
use super::review::{Cause, Details, GroupVersionKind, Operation, Request, Status, Verdict};
use super::routes::New;
use crate::compile;
use crate::compile::mesh::admission;
use crate::core::json::{Document, Tree};
use crate::core::problem::{Problem, Reason};

/// API servers cut what is longer.
const WARNING_CHARS: usize = 256;
/// API servers drop what goes beyond this in total.
const WARNINGS_CHARS: usize = 4096;
/// More causes than anybody reads; the rest is counted.
const MOST_CAUSES: usize = 100;

/// Whether anything is to be said here about a kind. A request without one is judged by what its object says of itself.
pub(super) fn is_judged(kind: &GroupVersionKind<'_>) -> bool {
    let GroupVersionKind { group, kind, .. } = kind;
    kind.is_empty() || compile::serves(group, kind) || admission::serves(group, kind)
}

/// The verdict on one request that brings an object.
pub(super) fn validate(review: &New<'_>, view: MeshView<'_>) -> Verdict {
    let request = &review.request;
    match request.operation {
        Operation::Create | Operation::Update => {}
        Operation::Delete | Operation::Connect => return Verdict::allow(),
        Operation::Unknown => {
            let known = "request.operation must be CREATE, UPDATE, DELETE or CONNECT";
            return Verdict::deny(Status::failure(400, "BadRequest", known));
        }
    }
    if !request.sub_resource.is_empty() {
        return Verdict::allow();
    }
    if !is_judged(&request.kind) {
        return Verdict::allow();
    }
    let Some(object) = review.object.as_ref().map(Document::root) else {
        return Verdict::deny(Status::failure(400, "BadRequest", "the review has no request.object"));
    };
    if let Some(verdict) = mesh::judge(request, object, view) {
        return verdict;
    }
    let Some(findings) = compile::check(&object.to_value()) else {
        return Verdict::allow();
    };
    // A cluster may have looser definitions than ours, so what the schema should have refused is refused here.
    let errors = findings.refusals();
    let mut verdict = if errors.is_empty() { Verdict::allow() } else { Verdict::deny(invalid(request, &errors)) };
    verdict.warnings = tell(&findings.warnings);
    verdict
}

pub(super) fn invalid(request: &Request<'_>, errors: &[Problem]) -> Status {
    let shown = &errors[..errors.len().min(MOST_CAUSES)];
    let mut message = shown.iter().map(Problem::to_string).collect::<Vec<_>>().join("; ");
    if shown.len() < errors.len() {
        message += &format!("; and {} more", errors.len() - shown.len());
    }
    let causes = shown
        .iter()
        .map(|problem| Cause {
            reason: cause(problem.reason),
            message: problem.message.clone(),
            field: problem.field.to_string(),
        })
        .collect();
    let details = Details {
        name: request.name.to_string(),
        group: request.kind.group.to_string(),
        kind: request.kind.kind.to_string(),
        causes,
    };
    Status { details: Some(details), ..Status::failure(422, "Invalid", message) }
}

/// The nearest of the causes that Kubernetes knows.
fn cause(reason: Reason) -> &'static str {
    match reason {
        Reason::Required | Reason::Empty => "FieldValueRequired",
        Reason::Forbidden | Reason::Unknown => "FieldValueForbidden",
        Reason::Enum | Reason::Kind => "FieldValueNotSupported",
        Reason::Duplicate => "FieldValueDuplicate",
        _ => "FieldValueInvalid",
    }
}

/// Warnings within the bounds that API servers set, one line each.
pub(super) fn tell(warnings: &[Problem]) -> Vec<String> {
    let texts: Vec<String> = warnings.iter().map(Problem::to_string).collect();
    tell_texts(&texts)
}

/// The same for warnings that are about no field.
pub(super) fn tell_texts(warnings: &[String]) -> Vec<String> {
    let mut told = Vec::with_capacity(warnings.len());
    // Room for the line that counts the rest.
    let mut left = WARNINGS_CHARS - WARNING_CHARS;
    for (index, warning) in warnings.iter().enumerate() {
        let text = one_line(warning);
        let length = text.chars().count();
        if length > left {
            told.push(format!("and {} more warnings", warnings.len() - index));
            break;
        }
        left -= length;
        told.push(text);
    }
    told
}

/// Warnings travel in a header: no control characters, no more than is shown.
fn one_line(text: &str) -> String {
    if text.len() <= WARNING_CHARS && !text.chars().any(char::is_control) {
        return text.to_owned();
    }
    let clean = text.chars().map(|char| if char.is_control() { ' ' } else { char });
    if text.chars().nth(WARNING_CHARS).is_none() {
        return clean.collect();
    }
    clean.take(WARNING_CHARS - 1).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::problem::FieldPath;

    fn warning(message: &str) -> Problem {
        Problem::new(FieldPath::root().field("spec"), Reason::Deprecated, message)
    }

    #[test]
    fn warnings_stay_within_the_bounds_of_api_servers() {
        assert_eq!(tell(&[warning("use\nto")]), ["spec: use to"]);
        let long = tell(&[warning(&"ä".repeat(300))]);
        assert_eq!(long[0].chars().count(), 256);
        assert!(long[0].ends_with('…'));

        let many = tell(&vec![warning(&"x".repeat(200)); 100]);
        assert!(many.iter().map(|text| text.chars().count()).sum::<usize>() <= 4096);
        assert_eq!(many.last().unwrap(), &format!("and {} more warnings", 100 - (many.len() - 1)));
    }
}
