//! The one gate for what rules look up. What may be asked has been decided before: a [`Fetch`] exists only if it may.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use serde_json::Value;
use tokio::net::lookup_host;
use tokio::time::timeout;

use super::ClusterError;
use super::api::{Api, LARGEST_ANSWER, Selection};
use super::discovery::Discovery;
use super::globals::Globals;
use super::service::Services;
use crate::core::generate::api_path::ApiPath;
use crate::core::generate::{Answer, Fetch, InstallBounds};
use crate::core::limits::Limits;
use crate::core::settings::Settings;

/// Answers requests from the cluster.
#[derive(Clone)]
pub struct Reader {
    api: Api,
    discovery: Arc<Discovery>,
    services: Option<Services>,
    globals: Option<Globals>,
    /// The namespace of the install: nothing in it is an answer.
    namespace: Arc<str>,
    limit: AnswerLimit,
}

/// The most bytes that are read for one request of a rule.
#[derive(Clone)]
enum AnswerLimit {
    Fixed(usize),
    /// What a context may hold, as operators set it.
    Context(Arc<ArcSwap<Settings>>),
}

/// An object that a rule copies is not part of a context. etcd takes none that is larger.
const LARGEST_OBJECT: usize = 8 << 20;

impl Reader {
    pub fn new(api: Api, discovery: Arc<Discovery>, namespace: &str) -> Self {
        let limit = AnswerLimit::Fixed(Limits::default().context_bytes);
        Self { api, discovery, services: None, globals: None, namespace: namespace.into(), limit }
    }

    fn bounds(&self) -> InstallBounds {
        InstallBounds::of_cluster(self.discovery.kinds().catalog(), self.namespace.clone())
    }

    /// The same, which reads as much as the context of a rule may hold.
    pub fn with_settings(self, settings: Arc<ArcSwap<Settings>>) -> Self {
        Self { limit: AnswerLimit::Context(settings), ..self }
    }

    /// The same, for what is kept for many rules and read in parts.
    pub fn for_globals(&self) -> Self {
        Self { limit: AnswerLimit::Fixed(LARGEST_ANSWER), ..self.clone() }
    }

    fn limit(&self) -> usize {
        let limit = match &self.limit {
            AnswerLimit::Fixed(limit) => *limit,
            AnswerLimit::Context(settings) => settings.load().context_bytes,
        };
        // 0 switches the bound of the context off, not the one of the process.
        if limit == 0 { LARGEST_ANSWER } else { limit }
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
                        let api = self.api.within(LARGEST_OBJECT);
                        api.get(&kind, key.namespace.as_deref(), &key.name).await.map(|object| kind.named(object))
                    }
                    Err(error) => Err(error),
                }
            }
            Fetch::List(list) => match self.discovery.find(list.gvk()).await {
                Ok(kind) => {
                    let namespace = list.namespace().map(str::to_owned);
                    let selection = Selection { namespace, labels: list.selector().to_owned(), ..Selection::default() };
                    let listed = self.api.list_all(&kind, &selection).await.map(Value::Array);
                    listed.map(|listed| self.withhold(listed, is_namespaces(&kind.gvk.group, &kind.plural)))
                }
                Err(error) => Err(error),
            },
            Fetch::Call(call) => {
                let answer = self.api.within(self.limit()).raw(&call.path().to_string(), call.body()).await;
                match call.path() {
                    ApiPath::Resource(path) if path.name.is_none() => {
                        answer.map(|listed| self.withhold(listed, is_namespaces(&path.group, &path.resource)))
                    }
                    _ => answer,
                }
            }
            Fetch::Host(host) => return Ok(resolve(host.name()).await),
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
                    Some(globals) => globals.answer(global, &self.bounds()),
                    None => Ok(Answer::Failed("global context entries are kept by `writ serve` alone".to_owned())),
                };
            }
        };
        match found {
            Ok(found) => Ok(Answer::found(found)),
            Err(ClusterError::Missing { .. }) => Ok(Answer::Absent),
            // A path that a policy spells out does not say whether its end names a kind or an object.
            Err(ClusterError::UnknownKind { .. }) if matches!(fetch, Fetch::Call(_)) => Ok(Answer::Absent),
            Err(error) if error.is_outage() => Err(error),
            // A right that is missing may be granted; calls have a default for what they may not see.
            Err(error @ ClusterError::Refused { .. }) if !matches!(fetch, Fetch::Call(_)) => Err(error),
            Err(error) => Ok(Answer::Failed(error.to_string())),
        }
    }

    fn withhold(&self, mut listed: Value, of_namespaces: bool) -> Value {
        self.bounds().withhold(&mut listed, of_namespaces);
        listed
    }
}

fn is_namespaces(group: &str, plural: &str) -> bool {
    group.is_empty() && plural == "namespaces"
}

async fn resolve(name: &str) -> Answer {
    match timeout(Duration::from_secs(5), lookup_host((name, 0))).await {
        Err(_) => Answer::Failed("the name service does not answer".to_owned()),
        Ok(Err(error)) => Answer::Failed(error.to_string()),
        Ok(Ok(addresses)) => Answer::found(addresses.map(|address| Value::from(address.ip().to_string())).collect()),
    }
}
