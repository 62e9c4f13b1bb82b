//! The one gate for what rules look up. What may be asked has been decided before: a [`Fetch`] exists only if it may.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::net::lookup_host;
use tokio::time::timeout;

use super::ClusterError;
use super::api::{Api, Selection};
use super::discovery::Discovery;
use super::globals::Globals;
use super::service::Services;
use crate::core::generate::{Answer, Fetch};

/// Answers requests from the cluster.
#[derive(Clone)]
pub struct Reader {
    api: Api,
    discovery: Arc<Discovery>,
    services: Option<Services>,
    globals: Option<Globals>,
}

impl Reader {
    pub fn new(api: Api, discovery: Arc<Discovery>) -> Self {
        Self { api, discovery, services: None, globals: None }
    }

    /// The same, which also calls services.
    pub fn with_services(self, services: Services) -> Self {
        Self { services: Some(services), ..self }
    }

    /// The same, which also knows the global context entries.
    pub fn with_globals(self, globals: Globals) -> Self {
        Self { globals: Some(globals), ..self }
    }

    /// The answer to a request. An API server that is not there is an error, not an answer: the caller waits for it.
    pub async fn answer(&self, fetch: &Fetch) -> Result<Answer, ClusterError> {
        let found = match fetch {
            Fetch::Object(object) => {
                let key = object.key();
                match self.discovery.find(&key.gvk).await {
                    Ok(kind) => {
                        self.api.get(&kind, key.namespace.as_deref(), &key.name).await.map(|object| kind.named(object))
                    }
                    Err(error) => Err(error),
                }
            }
            Fetch::List(list) => match self.discovery.find(list.gvk()).await {
                Ok(kind) => {
                    let namespace = list.namespace().map(str::to_owned);
                    let selection = Selection { namespace, labels: list.selector().to_owned(), ..Selection::default() };
                    self.api.list_all(&kind, &selection).await.map(Value::Array)
                }
                Err(error) => Err(error),
            },
            Fetch::Call(call) => self.api.raw(&call.path().to_string(), call.body()).await,
            Fetch::Host(name) => return Ok(resolve(name).await),
            Fetch::Service(service) => {
                return Ok(match &self.services {
                    Some(services) => services.answer(service).await,
                    None => Answer::Failed("services are called by `writ serve` alone".to_owned()),
                });
            }
            Fetch::Image(_) => {
                return Ok(Answer::Failed("image look-ups are not available in this installation".to_owned()));
            }
            Fetch::Global(global) => {
                return match &self.globals {
                    Some(globals) => globals.answer(global),
                    None => Ok(Answer::Failed("global context entries are kept by `writ serve` alone".to_owned())),
                };
            }
        };
        match found {
            Ok(found) => Ok(Answer::found(found)),
            Err(ClusterError::Missing { .. }) => Ok(Answer::Absent),
            // Of a path that a policy spells out, nobody knows whether its end names a kind or an object.
            Err(ClusterError::UnknownKind { .. }) if matches!(fetch, Fetch::Call(_)) => Ok(Answer::Absent),
            Err(error) if error.is_outage() => Err(error),
            // A right that is missing may be granted; calls have a default for what they may not see.
            Err(error @ ClusterError::Refused { .. }) if !matches!(fetch, Fetch::Call(_)) => Err(error),
            Err(error) => Ok(Answer::Failed(error.to_string())),
        }
    }
}

async fn resolve(name: &str) -> Answer {
    match timeout(Duration::from_secs(5), lookup_host((name, 0))).await {
        Err(_) => Answer::Failed("the name service does not answer".to_owned()),
        Ok(Err(error)) => Answer::Failed(error.to_string()),
        Ok(Ok(addresses)) => Answer::found(addresses.map(|address| Value::from(address.ip().to_string())).collect()),
    }
}
