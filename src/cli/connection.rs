//! A cluster as explaining commands see it: read-only, one question at a time, each put once.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context;
use serde_json::Value;
use tokio::runtime::Runtime;

use crate::cluster::apply::Method;
use crate::cluster::discovery::Discovery;
use crate::cluster::keys::stored_seed;
use crate::cluster::kinds::{ApiKind, Kinds};
use crate::cluster::{Api, Reader, Rehearsal, Selection, connect};
use crate::compile;
use crate::core::expr::Seed;
use crate::core::generate::{Answer, Exception, Fetch, Honoured, InstallBounds, Outbound};
use crate::core::resource::Gvk;

/// Which cluster.
#[derive(Debug, Default, clap::Args)]
#[command(next_help_heading = "Cluster")]
pub(super) struct Connection {
    /// The kubeconfig to use
    #[arg(long, env = "KUBECONFIG")]
    kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig
    #[arg(long)]
    context: Option<String>,
}

/// Which exceptions of the cluster count.
#[derive(Debug, Default, clap::Args)]
pub(super) struct Exceptions {
    /// The namespace whose PolicyExceptions count, as `writ serve` has it; `*` means every namespace, nothing that none do
    #[arg(long, env = "WRIT_EXCEPTION_NAMESPACE", value_name = "NAMESPACE", default_value = "")]
    exception_namespace: String,
}

impl Exceptions {
    pub(super) fn honoured(&self) -> Honoured {
        Honoured::parse(&self.exception_namespace)
    }

    /// Those of the cluster that count, in the order of their names; what cannot run is left out.
    pub(super) fn read(&self, cluster: &Cluster) -> anyhow::Result<Vec<Arc<Exception>>> {
        let namespace = match self.honoured() {
            Honoured::Nowhere => return Ok(Vec::new()),
            Honoured::In(namespace) => Some(namespace),
            Honoured::Everywhere => None,
        };
        let Ok(kind) = cluster.kind(&Gvk::new("kyverno.io/v2", "PolicyException")) else {
            return Ok(Vec::new());
        };
        let documents = cluster.list(&kind, namespace.as_deref(), "")?;
        Ok(documents.iter().filter_map(|document| compile::generate::exception(document).0).map(Arc::new).collect())
    }
}

/// Where Writ runs in the cluster.
#[derive(Debug, clap::Args)]
pub(super) struct Installation {
    /// The namespace that Writ is installed in; a Secret there has the seed of random()
    #[arg(long, env = "WRIT_NAMESPACE", value_name = "NAMESPACE", default_value = "writ-system")]
    install_namespace: String,
    /// The name of that Secret
    #[arg(long, env = "WRIT_KEYS_SECRET", value_name = "SECRET", default_value = "writ-keys")]
    keys_secret: String,
}

impl Default for Installation {
    fn default() -> Self {
        Self { install_namespace: "writ-system".to_owned(), keys_secret: "writ-keys".to_owned() }
    }
}

impl Installation {
    /// The seed of random(), if this user may read it.
    pub(super) fn seed(self, cluster: &Cluster) -> Option<Seed> {
        let Self { install_namespace, keys_secret } = self;
        cluster.runtime.block_on(stored_seed(&cluster.api, &install_namespace, &keys_secret)).ok().flatten()
    }
}

/// A cluster to look at.
pub(super) struct Cluster {
    runtime: Runtime,
    api: Api,
    reader: Reader,
    kinds: Arc<Kinds>,
    bounds: InstallBounds,
    answers: BTreeMap<Fetch, Answer>,
}

impl Connection {
    /// Rules see the cluster as those of that installation do.
    pub(super) fn open(self, installation: &Installation) -> anyhow::Result<Cluster> {
        let Self { kubeconfig, context } = self;
        let namespace = &installation.install_namespace;
        let runtime = Runtime::new().context("starting the runtime")?;
        let api = Api::new(runtime.block_on(connect(kubeconfig.as_deref(), context.as_deref()))?);
        let discovery = Arc::new(Discovery::new(api.clone()));
        runtime.block_on(discovery.refresh()).context("asking for the kinds of the cluster")?;
        let reader = Reader::new(api.clone(), discovery.clone(), namespace);
        let kinds = discovery.kinds();
        let bounds = InstallBounds::of_cluster(kinds.catalog(), &**namespace).with_outbound(Outbound::any());
        Ok(Cluster { runtime, api, reader, kinds, bounds, answers: BTreeMap::new() })
    }
}

impl Cluster {
    pub(super) fn kinds(&self) -> Arc<Kinds> {
        self.kinds.clone()
    }

    /// What limits every rule of the installation. Operators' lists of hosts are not known here.
    pub(super) fn bounds(&self) -> InstallBounds {
        self.bounds.clone()
    }

    pub(super) fn kind(&self, gvk: &Gvk) -> anyhow::Result<Arc<ApiKind>> {
        let found = self.kinds.find(gvk).cloned();
        found.with_context(|| format!("the cluster has no kind {gvk}"))
    }

    /// An object, or nothing if it is not there.
    pub(super) fn find(&self, kind: &ApiKind, namespace: Option<&str>, name: &str) -> anyhow::Result<Option<Value>> {
        let found = self.runtime.block_on(self.api.find(kind, namespace, name))?;
        Ok(found.map(|object| kind.named(object)))
    }

    /// All objects of a kind with some labels, in a namespace or in all.
    pub(super) fn list(&self, kind: &ApiKind, namespace: Option<&str>, labels: &str) -> anyhow::Result<Vec<Value>> {
        let selection =
            Selection { namespace: namespace.map(str::to_owned), labels: labels.to_owned(), ..Selection::default() };
        Ok(self.runtime.block_on(self.api.list_all(kind, &selection))?)
    }

    /// What the API server would store in place of an object; nothing is stored.
    pub(super) fn rehearse(
        &self,
        kind: &ApiKind,
        namespace: Option<&str>,
        name: &str,
        body: &Value,
        method: Method,
    ) -> anyhow::Result<Value> {
        let (api, rehearsal) = (&self.api, Rehearsal::Yes);
        Ok(match method {
            Method::Replace => self.runtime.block_on(api.replace(kind, namespace, name, body, rehearsal))?,
            Method::Apply => self.runtime.block_on(api.apply(kind, namespace, name, body, rehearsal))?,
        })
    }

    /// What a rule looks up.
    pub(super) fn answer(&mut self, fetch: &Fetch) -> Answer {
        if let Some(known) = self.answers.get(fetch) {
            return known.clone();
        }
        let answer = self.runtime.block_on(self.reader.answer(fetch));
        let answer = answer.unwrap_or_else(|error| Answer::Failed(error.to_string()));
        self.answers.insert(fetch.clone(), answer.clone());
        answer
    }
}
