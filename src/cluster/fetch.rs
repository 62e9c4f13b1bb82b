//! Answers to what generate rules ask for, read from an API server. Reads only: the gate has made every request a GET, or a
//! review that stores nothing.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use hyper::http::Request;
use kube::Client;
use serde_json::Value;

use crate::core::generate::api_path::{ApiPath, ResourcePath};
use crate::core::generate::{Answer, Fetch};
use crate::core::kinds;
use crate::core::resource::Gvk;

/// Objects per page of a list.
const PAGE: &str = "500";

/// Asks one API server.
pub struct Fetcher {
    client: Client,
    /// Plural names of kinds, as discovery told them.
    plurals: Mutex<BTreeMap<Gvk, String>>,
}

impl Fetcher {
    pub fn new(client: Client) -> Self {
        Self {
            client,
            plurals: Mutex::default(),
        }
    }

    /// The answer; what cannot be answered here says why.
    pub async fn answer(&self, fetch: &Fetch) -> Answer {
        let answer = match fetch {
            Fetch::Object(object) => {
                let key = object.key();
                match self.path(&key.gvk, key.namespace.as_deref()).await {
                    Ok(path) => {
                        self.get(&ApiPath::Resource(ResourcePath {
                            name: Some(key.name.clone()),
                            ..path
                        }))
                        .await
                    }
                    Err(error) => Err(error),
                }
            }
            Fetch::List(list) => match self.path(list.gvk(), list.namespace()).await {
                Ok(path) => self.list(path, list.selector(), list.gvk()).await,
                Err(error) => Err(error),
            },
            Fetch::Call(call) => match call.body() {
                Some(body) => {
                    self.send(Request::post(call.path().to_string()), body.as_bytes().to_vec())
                        .await
                }
                None => self.get(call.path()).await,
            },
            Fetch::Host(name) => return resolve(name).await,
            other => return Answer::Failed(format!("{other} cannot be looked up here")),
        };
        match answer {
            Ok(found) => Answer::found(found),
            Err(kube::Error::Api(status)) if status.code == 404 => Answer::Absent,
            Err(error) => Answer::Failed(super::error::causes(&error)),
        }
    }

    async fn get(&self, path: &ApiPath) -> Result<Value, kube::Error> {
        self.send(Request::get(path.to_string()), Vec::new()).await
    }

    async fn send(&self, request: hyper::http::request::Builder, body: Vec<u8>) -> Result<Value, kube::Error> {
        let request = request
            .header("content-type", "application/json")
            .body(body)
            .map_err(kube::Error::HttpError)?;
        self.client.request(request).await
    }

    /// All pages of a list. Items of a list do not repeat their kind, so it is put back.
    async fn list(&self, mut path: ResourcePath, selector: &str, gvk: &Gvk) -> Result<Value, kube::Error> {
        let mut items = Vec::new();
        let mut next = String::new();
        loop {
            path.query = vec![("limit".to_owned(), PAGE.to_owned())];
            if !selector.is_empty() {
                path.query.push(("labelSelector".to_owned(), selector.to_owned()));
            }
            if !next.is_empty() {
                path.query.push(("continue".to_owned(), next));
            }
            let mut page = self.get(&ApiPath::Resource(path.clone())).await?;
            next = page
                .pointer("/metadata/continue")
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned();
            if let Some(Value::Array(found)) = page.get_mut("items").map(Value::take) {
                items.extend(found.into_iter().map(|mut item| {
                    item["apiVersion"] = gvk.api_version().into();
                    item["kind"] = gvk.kind.as_str().into();
                    item
                }));
            }
            if next.is_empty() {
                return Ok(Value::Array(items));
            }
        }
    }

    async fn path(&self, gvk: &Gvk, namespace: Option<&str>) -> Result<ResourcePath, kube::Error> {
        Ok(ResourcePath {
            group: gvk.group.clone(),
            version: gvk.version.clone(),
            namespace: namespace.map(str::to_owned),
            resource: self.plural(gvk).await?,
            ..ResourcePath::default()
        })
    }

    async fn plural(&self, gvk: &Gvk) -> Result<String, kube::Error> {
        if let Some(row) = kinds::find(&gvk.group, &gvk.kind) {
            return Ok(row.plural.to_owned());
        }
        let known = self
            .plurals
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get(gvk)
            .cloned();
        if let Some(known) = known {
            return Ok(known);
        }
        let discovery = match gvk.group.as_str() {
            "" => format!("/api/{}", gvk.version),
            group => format!("/apis/{group}/{}", gvk.version),
        };
        let served = self.get(&ApiPath::Discovery(discovery)).await?;
        let resources = served["resources"].as_array().into_iter().flatten();
        let mut names = resources
            .filter(|resource| resource["kind"] == gvk.kind.as_str())
            .filter_map(|resource| resource["name"].as_str());
        let plural = names
            .find(|name| !name.contains('/'))
            .map_or_else(|| kinds::guess_plural(&gvk.kind), str::to_owned);
        self.plurals
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(gvk.clone(), plural.clone());
        Ok(plural)
    }
}

async fn resolve(host: &str) -> Answer {
    match tokio::net::lookup_host((host, 0)).await {
        Ok(addresses) => Answer::found(addresses.map(|address| address.ip().to_string()).collect()),
        Err(error) => Answer::Failed(error.to_string()),
    }
}
