//! AdmissionReview v1 on the wire: thin structures that parse the object once, if somebody wants it, and borrow the rest.
//!
//! A review that cannot be read is still answered as a review if its uid can be found: the API server then shows the
//! message to the user. Only without a uid there is nothing to answer but 400.

use std::borrow::Cow;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::cursor::Cursor;
use super::object;

const API_VERSION: &str = "admission.k8s.io/v1";
const KIND: &str = "AdmissionReview";

/// The request of a review. `Old` is what becomes of the old object: a `Value`, or [`IgnoredAny`] to skip it unread.
#[derive(Debug, Default)]
pub struct Request<'a, Old> {
    pub uid: Cow<'a, str>,
    pub kind: GroupVersionKind<'a>,
    pub sub_resource: Cow<'a, str>,
    pub name: Cow<'a, str>,
    pub namespace: Cow<'a, str>,
    pub operation: Operation,
    pub user_info: UserInfo,
    pub object: Option<Value>,
    pub old_object: Option<Old>,
    pub dry_run: bool,
}

/// Whether anybody looks at objects of a kind.
pub(super) type Wants = fn(&GroupVersionKind<'_>) -> bool;

#[derive(Debug, Default, Deserialize)]
pub struct GroupVersionKind<'a> {
    #[serde(borrow, default)]
    pub group: Cow<'a, str>,
    #[serde(borrow, default)]
    pub version: Cow<'a, str>,
    #[serde(borrow, default)]
    pub kind: Cow<'a, str>,
}

/// Who asks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct UserInfo {
    #[serde(default)]
    pub username: String,
    #[serde(default)]
    pub groups: Vec<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Operation {
    Create,
    Update,
    Delete,
    Connect,
    /// None was given, or one that this program does not know.
    #[default]
    #[serde(other)]
    Unknown,
}

/// What is answered to a request.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    pub allowed: bool,
    /// Why not.
    pub status: Option<Status>,
    /// What the user should know either way.
    pub warnings: Vec<String>,
    /// A JSON patch as JSON text.
    pub patch: Option<Vec<u8>>,
}

/// Kubernetes' Status, as far as a refusal needs it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Status {
    pub api_version: &'static str,
    pub kind: &'static str,
    pub status: &'static str,
    pub message: String,
    pub reason: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub details: Option<Details>,
    pub code: u16,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Details {
    pub name: String,
    pub group: String,
    pub kind: String,
    pub causes: Vec<Cause>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Cause {
    pub reason: &'static str,
    pub message: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub field: String,
}

/// A body that is no review, and what to answer.
#[derive(Debug)]
pub(super) enum Unreadable {
    /// The uid is known: answer a review.
    Review { uid: String, reason: String },
    /// Nothing is known: answer 400.
    Body { reason: String },
}

struct Review<'a, Old> {
    api_version: Cow<'a, str>,
    kind: Cow<'a, str>,
    request: Option<Request<'a, Old>>,
}

impl<'a, Old: Deserialize<'a> + Default> Review<'a, Old> {
    fn read(cursor: &mut Cursor<'a>, wants: Wants) -> Result<Self, String> {
        let mut review = Self { api_version: Cow::default(), kind: Cow::default(), request: None };
        cursor.entries(|key, value| {
            match key {
                "apiVersion" => review.api_version = value.text()?,
                "kind" => review.kind = value.text()?,
                "request" if !value.null() => review.request = Some(Request::read(value, wants)?),
                "request" => {}
                _ => value.skip()?,
            }
            Ok(())
        })?;
        Ok(review)
    }
}

impl<'a, Old: Deserialize<'a> + Default> Request<'a, Old> {
    /// An API server writes the kind before the object, so that an object which nobody wants can be stepped over. One that
    /// comes first is read.
    fn read(cursor: &mut Cursor<'a>, wants: Wants) -> Result<Self, String> {
        let mut request = Self::default();
        let mut is_wanted = true;
        cursor.entries(|key, value| {
            match key {
                "uid" => request.uid = value.text()?,
                "kind" => {
                    request.kind = value.read()?;
                    is_wanted = wants(&request.kind);
                }
                "subResource" => request.sub_resource = value.text()?,
                "name" => request.name = value.text()?,
                "namespace" => request.namespace = value.text()?,
                "operation" => request.operation = value.read()?,
                "userInfo" => request.user_info = value.read()?,
                "object" if is_wanted => request.object = object::read(value)?,
                "oldObject" if is_wanted => request.old_object = value.read()?,
                "dryRun" => request.dry_run = value.read()?,
                _ => value.skip()?,
            }
            Ok(())
        })?;
        Ok(request)
    }
}

/// The least of a review: what is needed to answer one whose object cannot be read. Skipping is not recursive, so this
/// reads what is nested too deep for [`Review`].
#[derive(Deserialize)]
struct Skeleton {
    request: Envelope,
}

#[derive(Deserialize)]
struct Envelope {
    uid: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Reply<'a> {
    api_version: &'static str,
    kind: &'static str,
    response: Response<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Response<'a> {
    uid: &'a str,
    allowed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<&'a Status>,
    #[serde(skip_serializing_if = "Option::is_none")]
    patch: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    patch_type: Option<&'static str>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    warnings: &'a [String],
}

impl Verdict {
    pub fn allow() -> Self {
        Self { allowed: true, status: None, warnings: Vec::new(), patch: None }
    }

    pub fn deny(status: Status) -> Self {
        Self { allowed: false, status: Some(status), warnings: Vec::new(), patch: None }
    }
}

impl Status {
    pub fn failure(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            api_version: "v1",
            kind: "Status",
            status: "Failure",
            message: message.into(),
            reason,
            details: None,
            code,
        }
    }
}

/// Reads the request of a review, and its objects if somebody wants their kind.
pub(super) fn read<'a, Old>(body: &'a [u8], wants: Wants) -> Result<Request<'a, Old>, Unreadable>
where
    Old: Deserialize<'a> + Default,
{
    let read = |text| {
        let mut cursor = Cursor::new(text);
        let review = Review::read(&mut cursor, wants)?;
        cursor.end().map(|()| review)
    };
    let review = std::str::from_utf8(body).map_err(|error| error.to_string()).and_then(read);
    let Review { api_version, kind, request } = review.map_err(|error| salvage(body, &error))?;
    let uid = request.as_ref().map_or("", |request| &request.uid);
    let reason = if kind != KIND || api_version != API_VERSION {
        format!("the body must be {API_VERSION} {KIND}, not {api_version:?} {kind:?}")
    } else if uid.is_empty() {
        let missing = if request.is_none() { "request" } else { "request.uid" };
        format!("the review has no {missing}")
    } else if let Some(request) = request {
        return Ok(request);
    } else {
        "the review has no request".to_owned()
    };
    if uid.is_empty() {
        Err(Unreadable::Body { reason })
    } else {
        Err(Unreadable::Review { uid: uid.to_owned(), reason })
    }
}

/// Reads the request of a review as it is, with its uid.
pub(super) fn read_whole(body: &[u8]) -> Result<(String, Map<String, Value>), Unreadable> {
    let review: Value = serde_json::from_slice(body).map_err(|error| salvage(body, &error.to_string()))?;
    let is_review = review["apiVersion"] == API_VERSION && review["kind"] == KIND;
    let uid = review["request"]["uid"].as_str().unwrap_or_default().to_owned();
    match review {
        Value::Object(mut review) if is_review && !uid.is_empty() => match review.remove("request") {
            Some(Value::Object(request)) => Ok((uid, request)),
            _ => Err(Unreadable::Body { reason: "the review has no request".to_owned() }),
        },
        _ if uid.is_empty() => Err(Unreadable::Body { reason: "the review has no request.uid".to_owned() }),
        _ => Err(Unreadable::Review { uid, reason: format!("the body must be {API_VERSION} {KIND}") }),
    }
}

fn salvage(body: &[u8], error: &str) -> Unreadable {
    let reason = format!("the review cannot be read: {error}");
    match serde_json::from_slice::<Skeleton>(body) {
        Ok(Skeleton { request: Envelope { uid } }) if !uid.is_empty() => Unreadable::Review { uid, reason },
        _ => Unreadable::Body { reason },
    }
}

/// Writes the review that answers `uid`.
pub(super) fn write(uid: &str, verdict: &Verdict) -> Vec<u8> {
    let Verdict { allowed, status, warnings, patch } = verdict;
    let reply = Reply {
        api_version: API_VERSION,
        kind: KIND,
        response: Response {
            uid,
            allowed: *allowed,
            status: status.as_ref(),
            patch: patch.as_ref().map(|patch| STANDARD.encode(patch)),
            patch_type: patch.as_ref().map(|_| "JSONPatch"),
            warnings,
        },
    };
    serde_json::to_vec(&reply).expect("strings and numbers always serialize")
}

/// The type of a request whose old object nobody looks at.
pub(super) type Light<'a> = Request<'a, IgnoredAny>;

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn reads_what_an_api_server_sends() {
        let body = json!({
            "apiVersion": API_VERSION, "kind": KIND,
            "request": {
                "uid": "u-1", "kind": {"group": "kuma.io", "version": "v1alpha1", "kind": "MeshTimeout"},
                "resource": {"group": "kuma.io", "version": "v1alpha1", "resource": "meshtimeouts"},
                "name": "a\"b", "namespace": "ns", "operation": "UPDATE", "dryRun": true,
                "userInfo": {"username": "eve", "groups": ["g"], "extra": {"k": ["v"]}},
                "object": {"spec": 1}, "oldObject": {"spec": 0}, "options": {"kind": "UpdateOptions"},
            },
        })
        .to_string();
        let request: Request<'_, Value> = read(body.as_bytes(), |_| true).unwrap();
        assert_eq!((&*request.uid, &*request.name, &*request.namespace), ("u-1", "a\"b", "ns"));
        assert_eq!((&*request.kind.group, &*request.kind.kind), ("kuma.io", "MeshTimeout"));
        assert_eq!((request.operation, request.dry_run), (Operation::Update, true));
        assert_eq!(request.user_info, UserInfo { username: "eve".into(), groups: vec!["g".into()] });
        assert_eq!((request.object, request.old_object), (Some(json!({"spec": 1})), Some(json!({"spec": 0}))));
    }

    #[test]
    fn an_object_that_nobody_wants_is_skipped() {
        let wants: Wants = |kind| kind.kind == "MeshTimeout";
        let request = |first: &str, second: &str| {
            let fields = format!(r#""uid":"u",{first},{second}"#);
            format!(r#"{{"apiVersion":"{API_VERSION}","kind":"{KIND}","request":{{{fields}}}}}"#)
        };
        let (pod, policy, object) =
            (r#""kind":{"kind":"Pod"}"#, r#""kind":{"kind":"MeshTimeout"}"#, r#""object":{"x":1}"#);
        let read = |body: String| read::<IgnoredAny>(body.as_bytes(), wants).unwrap().object;
        assert_eq!(read(request(pod, object)), None);
        assert_eq!(read(request(policy, object)), Some(json!({"x": 1})));
        assert_eq!(read(request(object, policy)), Some(json!({"x": 1})));
    }

    #[track_caller]
    fn check(body: &str, uid: Option<&str>, reason: &str) {
        let (found, why) = match read::<IgnoredAny>(body.as_bytes(), |_| true).expect_err("unreadable") {
            Unreadable::Review { uid, reason } => (Some(uid), reason),
            Unreadable::Body { reason } => (None, reason),
        };
        assert_eq!(found.as_deref(), uid);
        assert!(why.contains(reason), "{why}");
    }

    #[test]
    fn keeps_the_uid_of_what_it_cannot_read() {
        check("", None, "ends too early");
        check("{", None, "ends too early");
        check("7", None, "cannot be read");
        check("{}", None, "must be admission.k8s.io/v1 AdmissionReview");
        check(r#"{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"}"#, None, "no request");
        check(r#"{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{}}"#, None, "no request.uid");
        check(
            r#"{"apiVersion":"admission.k8s.io/v1beta1","kind":"AdmissionReview","request":{"uid":"u"}}"#,
            Some("u"),
            "v1beta1",
        );
        check(r#"{"kind":"AdmissionReview","request":{"uid":"u","name":7}}"#, Some("u"), "invalid type");
    }

    #[test]
    fn skips_what_is_nested_too_deep() {
        let deep = "[".repeat(200_000) + &"]".repeat(200_000);
        let body = format!(
            r#"{{"apiVersion":"{API_VERSION}","kind":"{KIND}","request":{{"uid":"u","object":{{"x":{deep}}}}}}}"#
        );
        check(&body, Some("u"), "recursion limit");
    }

    #[test]
    fn writes_the_patch_as_base64_text() {
        let patch = br#"[{"op":"remove","path":"/x"}]"#.to_vec();
        let written = write("u", &Verdict { patch: Some(patch.clone()), ..Verdict::allow() });
        let reply: Value = serde_json::from_slice(&written).unwrap();
        let encoded = STANDARD.encode(patch);
        let response = json!({"uid": "u", "allowed": true, "patch": encoded, "patchType": "JSONPatch"});
        assert_eq!(reply, json!({"apiVersion": API_VERSION, "kind": KIND, "response": response}));
    }
}
