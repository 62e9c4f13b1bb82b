//! AdmissionReview v1 on the wire: thin structures that read an object once, if somebody wants it, and borrow the rest.
//!
//! A review that cannot be read is still answered as a review if its uid can be found: the API server then shows the
//! message to the user. Only without a uid there is nothing to answer but 400.

use std::borrow::Cow;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::object::ReadObject;
use crate::core::access::Subject;
use crate::core::json::Document;
use crate::core::json::cursor::Cursor;

const API_VERSION: &str = "admission.k8s.io/v1";
const KIND: &str = "AdmissionReview";

/// A request and its objects, each as somebody wants it: see [`ReadObject`].
#[derive(Debug)]
pub(super) struct Review<'a, New, Old> {
    pub(super) request: Request<'a>,
    pub(super) object: Option<New>,
    pub(super) old_object: Option<Old>,
}

/// What is asked, by whom, and about what.
#[derive(Debug, Default)]
pub(super) struct Request<'a> {
    pub(super) uid: Cow<'a, str>,
    pub(super) kind: GroupVersionKind<'a>,
    pub(super) sub_resource: Cow<'a, str>,
    pub(super) name: Cow<'a, str>,
    pub(super) namespace: Cow<'a, str>,
    pub(super) operation: Operation,
    pub(super) user_info: UserInfo<'a>,
    pub(super) dry_run: bool,
}

/// Whether anybody looks at objects of a kind.
pub(super) type Wants = fn(&GroupVersionKind<'_>) -> bool;

#[derive(Debug, Default)]
pub(super) struct GroupVersionKind<'a> {
    pub(super) group: Cow<'a, str>,
    pub(super) version: Cow<'a, str>,
    pub(super) kind: Cow<'a, str>,
}

/// Who asks.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct UserInfo<'a> {
    pub(super) username: Cow<'a, str>,
    pub(super) uid: Cow<'a, str>,
    pub(super) groups: Vec<Cow<'a, str>>,
    pub(super) extra: Vec<(Cow<'a, str>, Vec<Cow<'a, str>>)>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Operation {
    Create,
    Update,
    Delete,
    Connect,
    /// None was given, or one that this program does not know.
    #[default]
    Unknown,
}

/// What is answered to a request.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Verdict {
    pub(super) allowed: bool,
    /// Why not.
    pub(super) status: Option<Status>,
    /// What the user should know either way.
    pub(super) warnings: Vec<String>,
    /// A JSON patch as JSON text.
    pub(super) patch: Option<Vec<u8>>,
}

/// Kubernetes' Status, as far as a refusal needs it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Status {
    pub(super) api_version: &'static str,
    pub(super) kind: &'static str,
    /// `Failure`; left out if it is empty.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(super) status: &'static str,
    pub(super) message: String,
    pub(super) reason: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) details: Option<Details>,
    pub(super) code: u16,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Details {
    pub(super) name: String,
    pub(super) group: String,
    pub(super) kind: String,
    pub(super) causes: Vec<Cause>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Cause {
    pub(super) reason: &'static str,
    pub(super) message: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) field: String,
}

/// A body that is no review, and what to answer.
#[derive(Debug)]
pub(super) enum Unreadable {
    /// The uid is known: answer a review.
    Review { uid: String, reason: String },
    /// Nothing is known: answer 400.
    Body { reason: String },
}

impl<'a, New: ReadObject<'a>, Old: ReadObject<'a>> Review<'a, New, Old> {
    /// An API server writes the kind before the object, so that an object which nobody wants can be stepped over. One that
    /// comes first is read.
    fn read(cursor: &mut Cursor<'a>, wants: Wants) -> Result<Self, String> {
        let mut review = Self { request: Request::default(), object: None, old_object: None };
        let request = &mut review.request;
        let mut is_wanted = true;
        cursor.entries(|key, value| {
            match &*key {
                "uid" => request.uid = value.text()?,
                "kind" => {
                    request.kind = GroupVersionKind::read(value)?;
                    is_wanted = wants(&request.kind);
                }
                "subResource" => request.sub_resource = value.text()?,
                "name" => request.name = value.text()?,
                "namespace" => request.namespace = value.text()?,
                "operation" => request.operation = Operation::parse(&value.text()?),
                "userInfo" => request.user_info = UserInfo::read(value)?,
                "object" if is_wanted => review.object = read_object(value)?,
                "oldObject" if is_wanted => review.old_object = read_object(value)?,
                "dryRun" => request.dry_run = value.read()?,
                _ => value.skip()?,
            }
            Ok(())
        })?;
        Ok(review)
    }
}

fn read_object<'a, T: ReadObject<'a>>(cursor: &mut Cursor<'a>) -> Result<Option<T>, String> {
    if cursor.null() { Ok(None) } else { T::read(cursor).map(Some) }
}

impl<'a> GroupVersionKind<'a> {
    fn read(cursor: &mut Cursor<'a>) -> Result<Self, String> {
        let mut kind = Self::default();
        cursor.entries(|key, value| {
            match &*key {
                "group" => kind.group = value.text()?,
                "version" => kind.version = value.text()?,
                "kind" => kind.kind = value.text()?,
                _ => value.skip()?,
            }
            Ok(())
        })?;
        Ok(kind)
    }
}

impl<'a> UserInfo<'a> {
    fn read(cursor: &mut Cursor<'a>) -> Result<Self, String> {
        let mut user = Self::default();
        cursor.entries(|key, value| {
            match &*key {
                "username" => user.username = value.text()?,
                "uid" => user.uid = value.text()?,
                "groups" => user.groups = read_texts(value)?,
                "extra" if !value.null() => value.entries(|key, values| {
                    user.extra.push((key, read_texts(values)?));
                    Ok(())
                })?,
                "extra" => {}
                _ => value.skip()?,
            }
            Ok(())
        })?;
        Ok(user)
    }

    /// The user as access reviews ask about it.
    pub(super) fn subject(&self) -> Subject {
        let texts = |texts: &[Cow<'a, str>]| texts.iter().map(ToString::to_string).collect();
        Subject {
            user: self.username.to_string(),
            uid: self.uid.to_string(),
            groups: texts(&self.groups),
            extra: self.extra.iter().map(|(key, values)| (key.to_string(), texts(values))).collect(),
        }
    }
}

/// A list of texts; null reads as empty.
fn read_texts<'a>(cursor: &mut Cursor<'a>) -> Result<Vec<Cow<'a, str>>, String> {
    let mut texts = Vec::new();
    if !cursor.null() {
        cursor.elements(|text| {
            texts.push(text.text()?);
            Ok(())
        })?;
    }
    Ok(texts)
}

impl Operation {
    fn parse(name: &str) -> Self {
        match name {
            "CREATE" => Self::Create,
            "UPDATE" => Self::Update,
            "DELETE" => Self::Delete,
            "CONNECT" => Self::Connect,
            _ => Self::Unknown,
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Create => "CREATE",
            Self::Update => "UPDATE",
            Self::Delete => "DELETE",
            Self::Connect => "CONNECT",
            Self::Unknown => "unknown",
        }
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
    pub(super) fn allow() -> Self {
        Self { allowed: true, status: None, warnings: Vec::new(), patch: None }
    }

    pub(super) fn deny(status: Status) -> Self {
        Self { allowed: false, status: Some(status), warnings: Vec::new(), patch: None }
    }
}

impl Status {
    pub(super) fn failure(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
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
pub(super) fn read<'a, New, Old>(body: &'a [u8], wants: Wants) -> Result<Review<'a, New, Old>, Unreadable>
where
    New: ReadObject<'a>,
    Old: ReadObject<'a>,
{
    let text = std::str::from_utf8(body).map_err(|error| salvage(body, &error.to_string()))?;
    let mut cursor = Cursor::new(text);
    let (mut api_version, mut kind, mut review) = (Cow::default(), Cow::default(), None);
    let entries = cursor.entries(|key, value| {
        match &*key {
            "apiVersion" => api_version = value.text()?,
            "kind" => kind = value.text()?,
            "request" if !value.null() => review = Some(Review::read(value, wants)?),
            "request" => {}
            _ => value.skip()?,
        }
        Ok(())
    });
    entries.and_then(|()| cursor.end()).map_err(|error| salvage(body, &error))?;
    let uid = review.as_ref().map_or("", |review: &Review<'a, New, Old>| &review.request.uid);
    let reason = if kind != KIND || api_version != API_VERSION {
        format!("the body must be {API_VERSION} {KIND}, not {api_version:?} {kind:?}")
    } else if uid.is_empty() {
        let missing = if review.is_none() { "request" } else { "request.uid" };
        format!("the review has no {missing}")
    } else if let Some(review) = review {
        return Ok(review);
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
    let text = std::str::from_utf8(body).map_err(|error| salvage(body, &error.to_string()))?;
    let review = Document::read(text).map_err(|error| salvage(body, &error))?.to_value();
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::webhook::object::Skipped;

    #[test]
    fn reads_what_an_api_server_sends() {
        let body = json!({
            "apiVersion": API_VERSION, "kind": KIND,
            "request": {
                "uid": "u-1", "kind": {"group": "kuma.io", "version": "v1alpha1", "kind": "MeshTimeout"},
                "resource": {"group": "kuma.io", "version": "v1alpha1", "resource": "meshtimeouts"},
                "name": "a\"b", "namespace": "ns", "operation": "UPDATE", "dryRun": true,
                "userInfo": {"username": "eve", "uid": "u-e", "groups": ["g"], "extra": {"k": ["v"]}},
                "object": {"spec": 1}, "oldObject": {"spec": 0}, "options": {"kind": "UpdateOptions"},
            },
        })
        .to_string();
        let Review { request, object, old_object }: Review<'_, Value, Value> = read(body.as_bytes(), |_| true).unwrap();
        assert_eq!((&*request.uid, &*request.name, &*request.namespace), ("u-1", "a\"b", "ns"));
        assert_eq!((&*request.kind.group, &*request.kind.kind), ("kuma.io", "MeshTimeout"));
        assert_eq!((request.operation, request.dry_run), (Operation::Update, true));
        let extra = std::collections::BTreeMap::from([("k".to_owned(), vec!["v".to_owned()])]);
        let subject = Subject { user: "eve".into(), uid: "u-e".into(), groups: vec!["g".into()], extra };
        assert_eq!(request.user_info.subject(), subject);
        assert_eq!((object, old_object), (Some(json!({"spec": 1})), Some(json!({"spec": 0}))));
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
        let read = |body: String| read::<Value, Skipped>(body.as_bytes(), wants).unwrap().object;
        assert_eq!(read(request(pod, object)), None);
        assert_eq!(read(request(policy, object)), Some(json!({"x": 1})));
        assert_eq!(read(request(object, policy)), Some(json!({"x": 1})));
    }

    #[track_caller]
    fn check(body: &str, uid: Option<&str>, reason: &str) {
        let (found, why) = match read::<Value, Skipped>(body.as_bytes(), |_| true).expect_err("unreadable") {
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
        check(&body, Some("u"), "nested deeper");
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
