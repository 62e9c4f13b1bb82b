//! What admission needs from the outside: declared here, implemented where the cluster is at hand.

use std::future::Future;
use std::sync::Arc;

use serde_json::Value;

use crate::core::access::{Access, Subject};
use crate::core::catalog::Catalog;
use crate::core::generate::Policy;
use crate::core::generate::request::UpdateRequest;
use crate::core::generate::{Answer, Facts, Fetch, Honoured};
use crate::core::integrity::MacKey;
use crate::core::matching::Requester;
use crate::core::settings::Settings;
use crate::index::Snapshot;

/// Why something outside did not work; for the user to read.
pub type Trouble = String;

/// What the admission of policies asks.
pub trait Office: Send + Sync {
    /// The kinds of the cluster, as far as they are known.
    fn catalog(&self) -> Arc<Catalog>;

    /// The kinds of the cluster, asked for anew.
    fn refreshed(&self) -> impl Future<Output = Result<Arc<Catalog>, Trouble>> + Send;

    /// Whether somebody may do something, as the API server sees it now.
    fn allows(&self, who: &Subject, access: &Access) -> impl Future<Output = Result<bool, Trouble>> + Send;

    /// What the API server says of CEL conditions: nothing if they compile, else why not.
    fn objections(
        &self,
        conditions: &[(String, String)],
    ) -> impl Future<Output = Result<Option<String>, Trouble>> + Send;

    /// Makes sure that requests which the rules of a policy wait for are sent here, before anybody makes one.
    fn register(&self, policy: Arc<Policy>) -> impl Future<Output = Result<(), Trouble>> + Send;

    /// The accounts whose rights a policy lives on.
    fn accounts(&self) -> impl Future<Output = Result<Accounts, Trouble>> + Send;

    /// A global context entry as it is stored, if it is.
    fn global_entry(&self, name: &str) -> impl Future<Output = Result<Option<Value>, Trouble>> + Send;

    /// The key that reviewed policies are signed with; nothing before it was read.
    fn mac_key(&self) -> Option<MacKey>;

    /// The namespaces whose exceptions count.
    fn honoured(&self) -> &Honoured;

    /// The namespace that Writ is installed in.
    fn install_namespace(&self) -> &str;
}

/// The accounts whose rights a policy lives on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Accounts {
    /// Looks at downstream of synchronized rules.
    pub admission: Subject,
    /// Writes downstream.
    pub background: Subject,
    /// Only warned for, if there is one.
    pub reports: Option<Subject>,
    /// Whether authors of policies must have the rights that their rules use.
    pub check_author: bool,
}

/// What the admission of all other objects looks at and hands on.
pub trait Counter: Send + Sync {
    /// Everything that is looked at, at one moment.
    fn view(&self) -> View;

    /// The roles and cluster roles that are bound to somebody, from memory.
    fn roles(&self, requester: &mut Requester, namespace: &str);

    /// Stores work that must not be lost.
    fn store(&self, request: &UpdateRequest) -> impl Future<Output = Result<(), Trouble>> + Send;

    /// Facts to begin with: the time, chance, limits.
    fn facts(&self) -> Facts;

    /// Counts an evaluation that panicked.
    fn panicked(&self);

    /// What a rule looks up, for a preview.
    fn answer(&self, fetch: &Fetch) -> impl Future<Output = Answer> + Send;

    /// What would be stored if a policy wrote this over what is stored now. Nothing is.
    fn rehearse(
        &self,
        policy: &Policy,
        wanted: &Value,
        stored: &Value,
    ) -> impl Future<Output = Result<Value, Trouble>> + Send;
}

/// What resource admission looks at.
#[derive(Clone, Debug)]
pub struct View {
    pub policies: Arc<Snapshot>,
    /// Policies that were admitted here and are not in the snapshot yet.
    pub fresh: Vec<Arc<Policy>>,
    pub catalog: Arc<Catalog>,
    pub settings: Arc<Settings>,
    /// Whose requests are Writ's own.
    pub background: String,
}
