//! Calls of the API server, one function per verb: JSON out, JSON in, and an error that names verb and resource.
//!
//! Objects travel as JSON values, never through typed structs, which would lose fields they do not know. Bodies are not logged:
//! they may be Secrets.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::header::{ACCEPT, CONTENT_TYPE, HeaderValue};
use hyper::{Method, Request};
use kube::Client;
use kube::client::Body;
use kube::core::Status;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::time::timeout;

use super::ClusterError;
use super::apply::Basis;
use super::error::causes;
use super::kinds::ApiKind;
use super::lean::{Lean, LeanList};
use crate::telemetry::GenerateMetrics;

/// Under which name writes appear in managed fields. Existing tools look for it.
const FIELD_MANAGER: &str = "kyverno-generate";

const LONGEST_CALL: Duration = Duration::from_secs(30);
const JSON: &str = "application/json";
const METADATA: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
const METADATA_LIST: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
const DISCOVERY: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// The most that is read of one answer unless less is wanted. Lists come in pages; a page that is larger is asked for again in
/// smaller ones.
pub(crate) const LARGEST_ANSWER: usize = 64 << 20;
/// The most that is read of an answer that reports an error.
const LARGEST_ERROR: usize = 1 << 20;

/// A client that speaks JSON.
#[derive(Clone)]
pub struct Api {
    client: Client,
    /// The most bytes that are read of one answer, or of all pages of one list.
    limit: usize,
    /// Where calls are counted.
    metrics: Option<GenerateMetrics>,
}

/// One page of a list.
#[derive(Debug, Default)]
pub struct Page {
    pub items: Vec<Value>,
    pub version: String,
    /// Where the next page starts; empty on the last.
    pub next: String,
    /// How many bytes it took.
    pub bytes: usize,
}

/// Which objects a list or a watch is about.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Selection {
    pub namespace: Option<String>,
    /// In the notation of a query; empty for all.
    pub labels: String,
    /// The only object that is meant; empty for all. Permissions may be granted by that name.
    pub name: String,
    /// Names and labels are enough.
    pub metadata_only: bool,
}

/// Whether a write is only rehearsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rehearsal {
    Yes,
    No,
}

impl Api {
    pub fn new(client: Client) -> Self {
        Self { client, limit: LARGEST_ANSWER, metrics: None }
    }

    /// The same, which stops reading an answer after `limit` bytes.
    pub fn within(&self, limit: usize) -> Self {
        Self { limit: limit.min(LARGEST_ANSWER), ..self.clone() }
    }

    /// The same, with its calls counted.
    pub fn counted(self, metrics: GenerateMetrics) -> Self {
        Self { metrics: Some(metrics), ..self }
    }

    pub async fn get(&self, kind: &ApiKind, namespace: Option<&str>, name: &str) -> Result<Value, ClusterError> {
        let path = kind.path(namespace, Some(name))?;
        self.json("get", &kind.name(namespace, name), Method::GET, &path, JSON, None).await
    }

    /// An object, or nothing if it is not there.
    pub async fn find(
        &self,
        kind: &ApiKind,
        namespace: Option<&str>,
        name: &str,
    ) -> Result<Option<Value>, ClusterError> {
        match self.get(kind, namespace, name).await {
            Ok(object) => Ok(Some(object)),
            Err(ClusterError::Missing { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// One page of a list, with kind and version put into each item, and without the weight of managed fields.
    pub async fn list(
        &self,
        kind: &ApiKind,
        selection: &Selection,
        limit: u32,
        from: &str,
    ) -> Result<Page, ClusterError> {
        let mut limit = limit;
        loop {
            match self.page(kind, selection, limit, from).await {
                // A few large objects fill a page; fewer of them do not.
                Err(ClusterError::TooLarge { .. }) if limit > 1 => limit = (limit / 8).max(1),
                page => return page,
            }
        }
    }

    async fn page(&self, kind: &ApiKind, selection: &Selection, limit: u32, from: &str) -> Result<Page, ClusterError> {
        let mut query = Query::new(kind.path(selection.namespace.as_deref(), None)?);
        query.add("limit", &limit.to_string());
        query.add("labelSelector", &selection.labels);
        query.select_name(&selection.name);
        query.add("continue", from);
        let accept = if selection.metadata_only { METADATA_LIST } else { JSON };
        let what = kind.plural_name();
        let bytes = self.send("list", &what, Method::GET, &query.path, accept, None).await?;
        let LeanList { metadata, items } = read("list", &what, &bytes)?;
        Ok(Page {
            items: items.into_iter().flatten().map(|Lean(item)| kind.named(item)).collect(),
            version: metadata.resource_version,
            next: metadata.next,
            bytes: bytes.len(),
        })
    }

    /// All pages of a list that is expected to be short.
    pub async fn list_all(&self, kind: &ApiKind, selection: &Selection) -> Result<Vec<Value>, ClusterError> {
        let (mut items, mut from, mut bytes) = (Vec::new(), String::new(), 0);
        loop {
            let page = self.list(kind, selection, 500, &from).await?;
            bytes += page.bytes;
            if bytes > self.limit {
                return Err(ClusterError::TooLarge { resource: kind.plural_name(), limit: self.limit });
            }
            items.extend(page.items);
            if page.next.is_empty() {
                return Ok(items);
            }
            from = page.next;
        }
    }

    pub async fn create(&self, kind: &ApiKind, namespace: Option<&str>, body: &Value) -> Result<Value, ClusterError> {
        let mut query = Query::new(kind.path(namespace, None)?);
        query.add("fieldManager", FIELD_MANAGER);
        let name = body.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
        let what = kind.name(namespace, name);
        self.json("create", &what, Method::POST, &query.path, JSON, Some((JSON, body))).await
    }

    pub async fn replace(
        &self,
        kind: &ApiKind,
        namespace: Option<&str>,
        name: &str,
        body: &Value,
        rehearsal: Rehearsal,
    ) -> Result<Value, ClusterError> {
        let mut query = Query::new(kind.path(namespace, Some(name))?);
        query.add("fieldManager", FIELD_MANAGER);
        query.rehearse(rehearsal);
        self.json("update", &kind.name(namespace, name), Method::PUT, &query.path, JSON, Some((JSON, body))).await
    }

    /// Server-side apply, taking over fields of others.
    pub async fn apply(
        &self,
        kind: &ApiKind,
        namespace: Option<&str>,
        name: &str,
        body: &Value,
        rehearsal: Rehearsal,
    ) -> Result<Value, ClusterError> {
        let mut query = Query::new(kind.path(namespace, Some(name))?);
        query.add("fieldManager", FIELD_MANAGER);
        query.add("force", "true");
        query.rehearse(rehearsal);
        let body = Some(("application/apply-patch+yaml", body));
        self.json("patch", &kind.name(namespace, name), Method::PATCH, &query.path, JSON, body).await
    }

    /// A merge patch of an object, or of its subresource.
    pub async fn merge(
        &self,
        kind: &ApiKind,
        namespace: Option<&str>,
        name: &str,
        subresource: &str,
        body: &Value,
    ) -> Result<Value, ClusterError> {
        let mut path = kind.path(namespace, Some(name))?;
        if !subresource.is_empty() {
            path = format!("{path}/{subresource}");
        }
        let mut query = Query::new(path);
        query.add("fieldManager", FIELD_MANAGER);
        let body = Some(("application/merge-patch+json", body));
        self.json("patch", &kind.name(namespace, name), Method::PATCH, &query.path, JSON, body).await
    }

    /// Deletes exactly this object in exactly this version; a conflict if it is another by now.
    pub async fn delete(
        &self,
        kind: &ApiKind,
        namespace: Option<&str>,
        name: &str,
        Basis { uid, version }: Basis<'_>,
    ) -> Result<(), ClusterError> {
        let path = kind.path(namespace, Some(name))?;
        let options = serde_json::json!({
            "apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": uid, "resourceVersion": version},
        });
        let body = Some((JSON, &options));
        self.json("delete", &kind.name(namespace, name), Method::DELETE, &path, JSON, body).await?;
        Ok(())
    }

    /// A path that has been checked already.
    pub async fn raw(&self, path: &str, body: Option<&str>) -> Result<Value, ClusterError> {
        let (verb, method) = if body.is_some() { ("post", Method::POST) } else { ("get", Method::GET) };
        // The values of parameters may come from the cluster, and errors name the path.
        let what = path.split('?').next().unwrap_or(path);
        let body = body.map(|body| (JSON, body.as_bytes().to_vec()));
        read(verb, what, &self.send(verb, what, method, path, JSON, body).await?)
    }

    /// What kinds there are: `/api` or `/apis`.
    pub async fn discover(&self, path: &str) -> Result<Value, ClusterError> {
        self.json("get", path, Method::GET, path, DISCOVERY, None).await
    }

    /// The request that opens a watch.
    pub(super) fn watch_request(
        &self,
        kind: &ApiKind,
        selection: &Selection,
        version: &str,
        seconds: u64,
    ) -> Result<Request<Vec<u8>>, ClusterError> {
        let mut query = Query::new(kind.path(selection.namespace.as_deref(), None)?);
        query.add("watch", "true");
        query.add("allowWatchBookmarks", "true");
        query.add("resourceVersion", version);
        query.add("timeoutSeconds", &seconds.to_string());
        query.add("labelSelector", &selection.labels);
        query.select_name(&selection.name);
        let accept = if selection.metadata_only { METADATA } else { JSON };
        self.count("watch");
        request("watch", &kind.plural_name(), Method::GET, &query.path, accept, None)
    }

    pub(super) fn client(&self) -> &Client {
        &self.client
    }

    fn count(&self, verb: &'static str) {
        if let Some(metrics) = &self.metrics {
            metrics.query(verb);
        }
    }

    async fn json(
        &self,
        verb: &'static str,
        what: &str,
        method: Method,
        path: &str,
        accept: &'static str,
        body: Option<(&'static str, &Value)>,
    ) -> Result<Value, ClusterError> {
        let body = body.map(|(kind, body)| (kind, body.to_string().into_bytes()));
        read(verb, what, &self.send(verb, what, method, path, accept, body).await?)
    }

    /// The body of a good answer.
    async fn send(
        &self,
        verb: &'static str,
        what: &str,
        method: Method,
        path: &str,
        accept: &'static str,
        body: Option<(&'static str, Vec<u8>)>,
    ) -> Result<Bytes, ClusterError> {
        let request = request(verb, what, method, path, accept, body)?;
        self.count(verb);
        let exchange = async {
            let sent = self.client.send(request.map(Body::from)).await;
            let (head, body) = sent.map_err(|error| ClusterError::of(verb, what, &error))?.into_parts();
            let failed = head.status.is_client_error() || head.status.is_server_error();
            let limit = if failed { LARGEST_ERROR } else { self.limit };
            let body =
                Limited::new(body, limit).collect().await.map_err(|error| match error.is::<LengthLimitError>() {
                    true => ClusterError::TooLarge { resource: what.to_owned(), limit },
                    false => ClusterError::Unreachable { verb, resource: what.to_owned(), reason: causes(&*error) },
                })?;
            let bytes = body.to_bytes();
            if !failed {
                return Ok(bytes);
            }
            // A proxy in between answers in words of its own.
            let status = serde_json::from_slice::<Status>(&bytes).unwrap_or_default();
            let code = head.status.as_u16();
            Err(ClusterError::of_status(verb, what, &Status { code, ..status }))
        };
        timeout(LONGEST_CALL, exchange).await.map_err(|_| ClusterError::too_slow(verb, what))?
    }
}

fn read<T: DeserializeOwned>(verb: &'static str, what: &str, bytes: &[u8]) -> Result<T, ClusterError> {
    serde_json::from_slice(bytes).map_err(|error| ClusterError::unreadable(verb, what, &error))
}

fn request(
    verb: &'static str,
    what: &str,
    method: Method,
    path: &str,
    accept: &'static str,
    body: Option<(&'static str, Vec<u8>)>,
) -> Result<Request<Vec<u8>>, ClusterError> {
    let mut request = Request::builder().method(method).uri(path).header(ACCEPT, HeaderValue::from_static(accept));
    if let Some((kind, _)) = &body {
        request = request.header(CONTENT_TYPE, HeaderValue::from_static(kind));
    }
    let body = body.map(|(_, body)| body).unwrap_or_default();
    request.body(body).map_err(|error| ClusterError::Rejected {
        verb,
        resource: what.to_owned(),
        reason: error.to_string(),
    })
}

/// A path that gets parameters.
struct Query {
    path: String,
    separator: char,
}

impl Query {
    fn new(path: String) -> Self {
        Self { path, separator: '?' }
    }

    /// Adds a parameter, unless it is empty.
    fn add(&mut self, name: &str, value: &str) {
        if value.is_empty() {
            return;
        }
        self.path.push(self.separator);
        self.separator = '&';
        self.path.push_str(name);
        self.path.push('=');
        for byte in value.bytes() {
            if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
                self.path.push(char::from(byte));
            } else {
                self.path.push_str(&format!("%{byte:02X}"));
            }
        }
    }

    /// Selects one object, unless the name is empty.
    fn select_name(&mut self, name: &str) {
        if !name.is_empty() {
            self.add("fieldSelector", &format!("metadata.name={name}"));
        }
    }

    fn rehearse(&mut self, rehearsal: Rehearsal) {
        if rehearsal == Rehearsal::Yes {
            self.add("dryRun", "All");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_escaped() {
        let mut query = Query::new("/api/v1/secrets".to_owned());
        query.add("labelSelector", "a.b/c=d,e in (f)");
        query.add("continue", "");
        query.rehearse(Rehearsal::Yes);
        assert_eq!(query.path, "/api/v1/secrets?labelSelector=a.b%2Fc%3Dd%2Ce%20in%20%28f%29&dryRun=All");
    }
}
