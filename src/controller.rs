//! Keeps the cluster as the policies want it: what generate rules make follows policies, triggers and sources.
//!
//! Wanted state is a function of what is stored, so nothing is lost while nobody looks: events only say where to look, and
//! whoever takes over looks everywhere. Every replica watches; the holder of the lease works.
//!
//! | file | subject |
//! |---|---|
//! | `policies`, `exceptions`, `globals` | policies, exceptions and global context entries as they come and go |
//! | `watches` | which watches run, and what their events mean |
//! | `triggers`, `downstream` | what is known of the cluster |
//! | `queue`, `work` | what is to be looked at |
//! | `process`, `lookup`, `drive`, `settle` | one rule for one trigger, down to one object |
//! | `provenance` | whether a trigger is a user's or Writ's own downstream |
//! | `chores` | going through existing triggers, the end of a rule |
//! | `requests` | work that is stored in the cluster |
//! | `office` | taking over, remembering, handing over |

mod chores;
mod downstream;
mod drive;
mod exceptions;
mod globals;
mod lookup;
mod office;
mod panics;
mod policies;
mod process;
mod provenance;
mod queue;
mod requests;
mod settle;
mod shared;
mod triggers;
mod watches;
mod work;

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use kube::Client;
use serde_json::Map;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::sleep;
use tracing::warn;

use crate::cluster::apply::Writer;
use crate::cluster::discovery::Discovery;
use crate::cluster::events::{EventSelection, Scribe, events};
use crate::cluster::globals::Globals;
use crate::cluster::keys::KeyReader;
use crate::cluster::lease::Lease;
use crate::cluster::memory::Memory;
use crate::cluster::{Api, Reader, ServiceOptions, Services};
use crate::core::generate::{Brake, Honoured, Outbound};
use crate::core::settings::Settings;
use crate::index::Snapshot;
use crate::telemetry::{GenerateMetrics, Health};
use policies::Listed;
use shared::{Parts, Shared};

/// How a controller is set up.
#[derive(Clone, Debug)]
pub struct Options {
    /// The namespace of the install.
    pub namespace: String,
    /// The Lease by which replicas agree who works.
    pub lease: String,
    /// The ConfigMap that holds how far rules have come.
    pub memory: String,
    /// The ConfigMap of the operators' settings.
    pub settings: String,
    /// The name of this replica.
    pub identity: String,
    /// Pieces of work done at once.
    pub workers: usize,
    /// Deletions per rule and minute beyond which the brake holds.
    pub delete_brake: usize,
    /// Hosts whose services rules may call.
    pub outbound: Outbound,
    pub services: ServiceOptions,
    /// The namespaces whose exceptions count.
    pub exceptions: Honoured,
    /// Reasons of events that are not written.
    pub omitted_events: Vec<String>,
    /// How often everything is compared although nothing has happened.
    pub comparison_interval: Duration,
    /// Whether policies run that admission has not reviewed.
    pub run_unreviewed: bool,
    /// How long downstream stays after its policy was found absent.
    pub absence_grace: Duration,
}

/// The controller, ready to run.
pub struct Controller {
    shared: Arc<Shared>,
    lease: Lease,
    memory: Memory,
    scribe: Scribe,
    chores: mpsc::UnboundedReceiver<chores::Chore>,
    options: Options,
    listed: [Listed; 3],
    synced: [watch::Receiver<bool>; 3],
}

impl Controller {
    pub fn new(client: Client, options: Options, keys: KeyReader, metrics: GenerateMetrics, health: &Health) -> Self {
        let api = Api::new(client).counted(metrics.clone());
        let discovery = Arc::new(Discovery::new(api.clone()));
        let (lease, tenure) =
            Lease::new(api.clone(), options.namespace.clone(), options.lease.clone(), options.identity.clone());
        let memory = Memory::new(api.clone(), options.namespace.clone(), options.memory.clone());
        let defaults = Settings::read(&Map::new(), &options.namespace, &mut Vec::new());
        let settings = Arc::new(ArcSwap::from_pointee(defaults));
        let selection = EventSelection { omitted: options.omitted_events.clone(), settings: settings.clone() };
        let (herald, scribe) = events(api.clone(), options.identity.clone(), selection);
        let (sender, chores) = mpsc::unbounded_channel();
        let globals = Globals::default();
        let parts = Parts {
            reader: Reader::new(api.clone(), discovery.clone(), &options.namespace)
                .with_services(Services::new(options.services.clone()))
                .with_globals(globals.clone())
                .with_settings(settings.clone()),
            globals,
            outbound: Arc::new(options.outbound.clone()),
            writer: Writer::new(api.clone(), discovery.clone(), tenure.clone(), &options.namespace),
            api,
            discovery,
            tenure,
            herald,
            metrics,
            snapshot: Arc::default(),
            settings,
            chores: sender,
            namespace: options.namespace.clone(),
            keys,
            identity: options.identity.clone(),
            run_unreviewed: options.run_unreviewed,
            absence_grace: options.absence_grace,
            brake: Brake::new(options.delete_brake, 60),
        };
        let (cluster_wide, first) = watch::channel(false);
        let (namespaced, second) = watch::channel(false);
        let (excepted, third) = watch::channel(false);
        let listed = [
            Listed { condition: health.condition("cluster policies", "not listed yet"), sender: cluster_wide },
            Listed { condition: health.condition("policies", "not listed yet"), sender: namespaced },
            Listed { condition: health.condition("exceptions", "not listed yet"), sender: excepted },
        ];
        let shared = Arc::new(Shared::new(parts));
        Self { shared, lease, memory, scribe, chores, options, listed, synced: [first, second, third] }
    }

    /// All policies at this moment, for those who answer admission.
    pub fn snapshot(&self) -> Arc<ArcSwap<Snapshot>> {
        self.shared.snapshot.clone()
    }

    /// The kinds of the cluster, as they are found out here.
    pub fn discovery(&self) -> Arc<Discovery> {
        self.shared.discovery.clone()
    }

    /// What rules look things up with.
    pub fn reader(&self) -> Reader {
        self.shared.reader.clone()
    }

    /// Where evaluations are counted.
    pub fn metrics(&self) -> GenerateMetrics {
        self.shared.metrics.clone()
    }

    /// The hosts whose services rules may call.
    pub fn outbound(&self) -> Arc<Outbound> {
        self.shared.outbound.clone()
    }

    /// Whether this replica is the one that works.
    pub fn leading(&self) -> watch::Receiver<bool> {
        self.shared.tenure.changes()
    }

    /// The operators' settings in force.
    pub fn settings(&self) -> Arc<ArcSwap<Settings>> {
        self.shared.settings.clone()
    }

    /// Runs until `stop` turns true, then finishes what is begun and hands over. Ends earlier only if a part dies.
    pub async fn run(self, mut stop: watch::Receiver<bool>) {
        let Self { shared, mut lease, memory, scribe, chores, options, listed, synced } = self;
        let mut parts = JoinSet::new();
        // Policies cannot be compiled before it is known which kinds live in namespaces, and none runs without the keys.
        tokio::select! {
            _ = async { tokio::join!(learn_kinds(&shared), shared.keys.ready()) } => {}
            _ = stop.wait_for(|stop| *stop) => return,
        }
        let [cluster_wide, namespaced, excepted] = listed;
        parts.spawn(policies::run(shared.clone(), "ClusterPolicy", cluster_wide));
        parts.spawn(policies::run(shared.clone(), "Policy", namespaced));
        match options.exceptions {
            Honoured::Nowhere => excepted.holds(),
            Honoured::In(namespace) => {
                parts.spawn(exceptions::run(shared.clone(), Some(namespace), excepted));
            }
            Honoured::Everywhere => {
                parts.spawn(exceptions::run(shared.clone(), None, excepted));
            }
        }
        parts.spawn(globals::run(shared.clone()));
        parts.spawn(watches::run(shared.clone()));
        parts.spawn(watches::follow_kinds(shared.clone()));
        parts.spawn(chores::run(shared.clone(), chores));
        parts.spawn(requests::run(shared.clone()));
        parts.spawn(scribe.run());
        parts.spawn(office::follow_settings(shared.clone(), options.settings));
        parts.spawn(office::report(shared.clone()));
        parts.spawn(office::serve_terms(shared.clone(), memory.clone(), synced, options.comparison_interval));
        let mut workers = JoinSet::new();
        let (finish, finishing) = watch::channel(false);
        for _ in 0..options.workers.max(1) {
            workers.spawn(office::work(shared.clone(), finishing.clone()));
        }
        tokio::select! {
            () = lease.keep() => {}
            _ = parts.join_next() => {}
            _ = workers.join_next() => {}
            _ = stop.wait_for(|stop| *stop) => {}
        }
        finish.send_replace(true);
        let finished = async { while workers.join_next().await.is_some() {} };
        // Renewing goes on while work is being finished; what takes too long is left to whoever comes next.
        tokio::select! {
            () = finished => {}
            () = lease.keep() => {}
            () = sleep(Duration::from_secs(5)) => {}
        }
        office::remember(&shared, &memory).await;
        shared.set_working(false);
        parts.shutdown().await;
        lease.release().await;
    }
}

async fn learn_kinds(shared: &Shared) {
    while let Err(error) = shared.discovery.refresh().await {
        warn!(%error, "Cannot ask for the kinds of the cluster");
        sleep(Duration::from_secs(1)).await;
    }
}
