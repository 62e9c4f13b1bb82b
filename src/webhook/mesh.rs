//! Objects of the mesh on their way into a cluster: they are completed, and then judged as a control plane would. Memory is
//! all that is asked.

use serde_json::{Value, json};

use super::object::Skipped;
use super::review::{Operation, Request, Review, Status, Verdict};
use super::reviewed::{ReviewKey, no_key, operations, patched};
use super::routes::New;
use super::validate::{invalid, is_judged, tell};
use crate::compile;
use crate::compile::mesh;
use crate::compile::mesh::admission::{self, ControlPlane, Refusal, defaults, review};
use crate::core::json::{Document, Json, Tree};
use crate::core::mesh::reach::Routes;
use crate::core::reviewed;

const GROUP: &str = "kuma.io";
/// Clients of the reference know one class of cause.
const CAUSE: &str = "FieldValueInvalid";

/// What objects of the mesh are judged by.
#[derive(Clone, Copy, Debug)]
pub struct MeshView<'m> {
    pub plane: &'m ControlPlane,
    /// The routes that there are, as far as they are known.
    pub routes: &'m Routes,
    pub key: ReviewKey<'m>,
}

/// What an object that changes while it is being deleted comes with.
pub(super) type Ending<'a> = Review<'a, Document<'a>, Document<'a>>;

/// The verdict on an update of an object that is being deleted; `None` if it changes anything about the object, so that it
/// is judged like any other. Whoever waits for the end of an object takes his finalizer away by such an update.
pub(super) fn finish(review: &Ending<'_>) -> Option<Verdict> {
    let (object, old) = (review.object.as_ref()?.to_value(), review.old_object.as_ref()?.to_value());
    reviewed::is_bookkeeping_at_the_end(&object, &old).then(|| {
        let kept = Some(reviewed::annotation(&old)).filter(|code| !code.is_empty());
        patched(&operations(&object, kept))
    })
}

/// The labels and annotations that an object lacks, as a patch.
pub(super) fn complete(review: &New<'_>, view: MeshView<'_>) -> Verdict {
    let request = &review.request;
    if !matches!(request.operation, Operation::Create | Operation::Update) || !is_judged(&request.kind) {
        return Verdict::allow();
    }
    let Some(object) = &review.object else {
        return Verdict::deny(Status::failure(400, "BadRequest", "the review has no request.object"));
    };
    let Some(asked) = asked(request, object.root()) else {
        return Verdict::allow();
    };
    let mut completion = match defaults(&asked, view.plane) {
        Ok(operations) => json!(operations),
        Err(refusal) => return deny(request, &refusal),
    };
    let completion = completion.as_array_mut().map(std::mem::take).unwrap_or_default();
    let key = match view.key {
        ReviewKey::Known(key) if is_policy(request) => key,
        ReviewKey::Missing if is_policy(request) => return no_key(),
        _ => return patched(&completion),
    };
    match completed(object, &completion) {
        Ok(completed) => {
            let code = reviewed::code(key, &completed);
            patched(&[completion, operations(&completed, Some(&code))].concat())
        }
        Err(error) => Verdict::deny(Status::failure(500, "InternalError", error.to_string())),
    }
}

/// The object as it will be stored.
fn completed(object: &Document<'_>, operations: &[Value]) -> Result<Value, json_patch::PatchError> {
    let mut value = object.to_value();
    let patch: json_patch::Patch = serde_json::from_value(Value::from(operations)).unwrap_or_default();
    json_patch::patch(&mut value, &patch).map(|()| value)
}

fn is_policy(request: &Request<'_>) -> bool {
    compile::serves(&request.kind.group, &request.kind.kind)
}

/// The verdict on an object that somebody writes; `None` if it is not of the mesh.
pub(super) fn judge(request: &Request<'_>, object: Json<'_>, view: MeshView<'_>) -> Option<Verdict> {
    let is_of_mesh = object.get("apiVersion").and_then(Tree::as_text).is_some_and(is_of_mesh);
    is_of_mesh.then(|| match asked(request, object).map(|asked| review(&asked, view.plane)) {
        None => Verdict::allow(),
        Some(Ok(mut warnings)) => {
            if request.operation != Operation::Delete {
                warnings.extend(mesh::unreached(object, view.routes));
            }
            Verdict { warnings: tell(&warnings), ..Verdict::allow() }
        }
        Some(Err(refusal)) => deny(request, &refusal),
    })
}

/// The verdict on the end of an object.
pub(super) fn release(review: &Review<'_, Skipped, Document<'_>>, view: MeshView<'_>) -> Verdict {
    let old = review.old_object.as_ref().map(Document::root);
    let judged = old.and_then(|object| judge(&review.request, object, view));
    judged.unwrap_or_else(Verdict::allow)
}

/// What a control plane is asked; nothing for what is no concern of it.
fn asked<'r>(request: &'r Request<'_>, object: Json<'r>) -> Option<admission::Request<'r>> {
    let operation = match request.operation {
        Operation::Create => admission::Operation::Create,
        Operation::Update => admission::Operation::Update,
        Operation::Delete => admission::Operation::Delete,
        Operation::Connect | Operation::Unknown => return None,
    };
    if !request.sub_resource.is_empty() {
        return None;
    }
    Some(admission::Request { operation, user: &request.user_info.username, namespace: &request.namespace, object })
}

fn is_of_mesh(api_version: &str) -> bool {
    api_version.split_once('/').is_some_and(|(group, _)| group == GROUP)
}

fn deny(request: &Request<'_>, refusal: &Refusal) -> Verdict {
    let Refusal { kind, message, problems, warnings } = refusal;
    let mut status = Status { code: kind.code(), reason: kind.reason(), ..invalid(request, problems) };
    if !kind.is_marked_as_failure() {
        status.status = "";
    }
    if !message.is_empty() {
        status.message.clone_from(message);
    }
    status.details = status.details.filter(|_| !problems.is_empty());
    for cause in status.details.iter_mut().flat_map(|details| &mut details.causes) {
        cause.reason = CAUSE;
    }
    Verdict { warnings: tell(warnings), ..Verdict::deny(status) }
}
