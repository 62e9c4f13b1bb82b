//! Starts every long-lived part, holds their handles, and ends them in order. A part that ends unasked ends the process.

use std::future::poll_fn;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::pin::pin;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, anyhow};
use bytes::Bytes;
use hyper::http::request::Parts;
use hyper::{Request, Response};
use kube::Client;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio::task::{JoinSet, block_in_place};
use tokio::time::sleep;
use tracing::{info, warn};

use super::certificates::{Place, Sink, Source};
use super::front::Front;
use super::keys::TokenSource;
use super::routes::KnownRoutes;
use super::{AdmissionArgs, CertificateArgs, ClusterArgs, GenerateArgs, LimitArgs, Ports, Serve, ServiceArgs};
use crate::cluster::keys::{KeyReader, KeySettings, KeyStore};
use crate::cluster::{Api, ServiceOptions, connect};
use crate::compile::mesh::admission::ControlPlane;
use crate::controller::{Controller, Options};
use crate::core::generate::{Honoured, Outbound};
use crate::server::{
    Bound, Certificates, ClientRule, Event, Handler, Limits, Observer, Phase, RootsFile, Shutdown, Tls,
};
use crate::telemetry::{self, Health, Metrics, Outcome};
use crate::webhook::{self, MeshView, ReviewKey};

/// The part whose end is the end of the drain.
const ADMISSION: &str = "the admission port";
/// The part that ends by itself when asked to.
const CONTROLLER: &str = "the controller";

/// Parsing more than this takes longer than others on the same thread should wait.
const LARGE_BODY: usize = 256 << 10;

/// Counts what the transport sees.
struct Wire(Metrics);

impl Observer for Wire {
    fn observe(&self, event: Event) {
        match event {
            Event::Connected => self.0.connections(1),
            Event::Disconnected => self.0.connections(-1),
            Event::HandshakeFailed => self.0.handshake_failed(),
            Event::Dropped => self.0.connection_dropped(),
            Event::RequestStarted => self.0.in_flight(1),
            Event::RequestEnded => self.0.in_flight(-1),
            Event::Refused(_) => self.0.turned_away(Outcome::Refused),
            Event::Panicked => self.0.turned_away(Outcome::Failed),
        }
    }
}

/// Runs until a signal says stop and everything is drained.
pub(super) async fn serve(args: Serve) -> anyhow::Result<()> {
    let Serve {
        ports,
        certificates,
        cluster,
        generate,
        services,
        admission,
        control_plane,
        limits,
        worker_threads: _,
        log: _,
        log_format: _,
    } = args;
    let plane = Arc::new(control_plane.resolve()?);
    let Ports { listen, admin_listen } = ports;
    let connections_per_peer = limits.connections_per_peer() as usize;
    let LimitArgs {
        body_limit,
        body_memory,
        max_connections,
        max_connections_per_peer: _,
        max_requests,
        queue_time,
        drain_delay,
        drain_timeout,
    } = limits;
    let limits = Limits {
        body: body_limit,
        bodies: body_memory,
        connections: max_connections.max(1) as usize,
        connections_per_peer,
        requests: max_requests.max(1) as usize,
        queue_time,
        drain_time: drain_timeout,
        ..Limits::default()
    };
    let mut stop = Stop::listen()?;

    let (health, metrics) = (Health::default(), Metrics::default());
    let (serving, mut served) = watch::channel(false);
    let sink = Sink {
        certificates: Arc::new(Certificates::default()),
        metrics: metrics.clone(),
        condition: health.condition("certificate", "no certificate yet"),
        serving,
    };
    let draining = health.condition("draining", "starting");
    draining.holds();

    let client_roots = match certificates.client_ca_file.clone() {
        None => None,
        Some(path) => Some(RootsFile::open(path).await?),
    };
    let clients = client_roots.as_ref().map(|roots| {
        if certificates.client_name.is_empty() {
            info!("Every client certificate of --client-ca-file is accepted; --client-name says which");
        }
        ClientRule { roots: roots.pem(), names: &certificates.client_name }
    });
    let tls = Arc::new(Tls::new(sink.certificates.clone(), clients)?);
    let reload_interval = certificates.tls_reload_interval;
    let ClusterArgs {
        offline,
        kubeconfig,
        context,
        namespace,
        service,
        keys_secret,
        webhook_token_file,
        webhook_configuration,
    } = cluster;
    let client = match offline {
        true => None,
        false => Some(connect(kubeconfig.as_deref(), context.as_deref()).await?),
    };
    let place = Place { namespace: namespace.clone(), service, webhook_configuration };
    let keys = match client.clone() {
        None => None,
        Some(client) => {
            let settings = key_settings(&place, keys_secret, &admission, &certificates)?;
            Some(KeyStore::new(client, settings))
        }
    };
    let (key_store, keys) = keys.unzip();
    let tokens = match (&keys, webhook_token_file) {
        (Some(keys), _) => TokenSource::Secret(keys.clone()),
        (None, Some(file)) => TokenSource::read(&file).await?,
        (None, None) => TokenSource::None,
    };
    let honoured = Honoured::parse(&generate.exception_namespace);
    let controller = client
        .clone()
        .zip(keys.clone())
        .map(|(client, keys)| controller(client, &namespace, generate, services, keys, &metrics, &health));
    let api = |client: Client| Api::new(client).counted(metrics.generate());
    let installed = place.webhook_configuration.first().cloned().unwrap_or_default();
    metrics.generate().author_check(admission.author_check);
    if !admission.author_check {
        warn!("Author check is off: policies may do more than their authors (--author-check=false)");
    }
    let front = client.clone().zip(controller.as_ref()).zip(keys.clone()).map(|((client, controller), keys)| {
        Arc::new(Front::new(api(client), admission, namespace.clone(), installed, honoured, controller, keys))
    });
    let routes = client
        .clone()
        .zip(controller.as_ref())
        .map(|(client, controller)| Arc::new(KnownRoutes::new(api(client), controller.discovery())));
    let source = Source::open(certificates, place, client, &sink, &health).await?;
    let https = Bound::bind(listen).await?;
    let admin = Bound::bind(admin_listen).await?;
    info!(https = %https.address(), admin = %admin.address(), version = env!("CARGO_PKG_VERSION"), "Listening");

    let (end_work, work_ends) = watch::channel(false);
    let (shutdown, drain) = Shutdown::new();
    let (admin_shutdown, admin_drain) = Shutdown::new();
    let mut tasks = JoinSet::new();

    tasks.spawn({
        let (health, metrics) = (health.clone(), metrics.clone());
        let answer = move |request: Request<Bytes>| {
            let response = telemetry::answer(&request, &health, &metrics);
            async move { response }
        };
        async move {
            admin.serve(None, answer, Limits::for_probes(), (), admin_drain).await;
            "the admin port"
        }
    });
    tasks.spawn(async move {
        source.follow(sink).await;
        "the certificates"
    });
    if let Some(store) = key_store {
        let condition = health.condition("keys", "not read yet");
        tasks.spawn(async move {
            store
                .run(|problem| match problem {
                    None => condition.holds(),
                    Some(problem) => condition.fails(problem),
                })
                .await;
            "the keys"
        });
    }
    if let Some(roots) = client_roots {
        let tls = tls.clone();
        tasks.spawn(async move {
            roots.follow(reload_interval, |pem| tls.trust(pem)).await;
            "the authorities of clients"
        });
    }
    if let Some(controller) = controller {
        tasks.spawn(async move {
            controller.run(work_ends).await;
            CONTROLLER
        });
    }
    if let Some(front) = front.clone() {
        tasks.spawn(async move {
            front.run().await;
            "the webhook configuration"
        });
    }
    if let Some(routes) = routes.clone() {
        tasks.spawn(async move {
            routes.run().await;
            "the routes of the mesh"
        });
    }
    tasks.spawn({
        let wire = Wire(metrics.clone());
        let answer = AdmissionHandler { tokens, keys, front, plane, routes, metrics: metrics.clone() };
        let mut until = drain.clone();
        async move {
            tokio::select! {
                // Clients wait at the door until there is a certificate to greet them with.
                () = first_certificate(&mut served) => https.serve(Some(tls), answer, limits, wire, drain).await,
                () = until.stopping() => {}
            }
            ADMISSION
        }
    });

    tokio::select! {
        () = stop.asked() => {}
        ended = tasks.join_next() => return Err(unexpected(ended)),
    }
    draining.fails("stopping");
    end_work.send_replace(true);
    shutdown.enter(Phase::Leaving);
    info!(delay_ms = drain_delay.as_millis(), "Stopping: serving on until nobody is sent here any more");
    let patience = sleep(drain_delay);
    tokio::pin!(patience);
    loop {
        tokio::select! {
            () = &mut patience => break,
            () = stop.asked() => break,
            ended = tasks.join_next() => match ended {
                Some(Ok(CONTROLLER)) => {}
                ended => return Err(unexpected(ended)),
            },
        }
    }
    shutdown.enter(Phase::Stopping);
    while let Some(ended) = tasks.join_next().await {
        match ended {
            Ok(ADMISSION) => break,
            Ok(CONTROLLER) => {}
            other => return Err(unexpected(Some(other))),
        }
    }
    admin_shutdown.enter(Phase::Stopping);
    tasks.shutdown().await;
    info!("Stopped");
    Ok(())
}

/// Answers the admission port.
struct AdmissionHandler {
    tokens: TokenSource,
    /// None without a cluster.
    keys: Option<KeyReader>,
    front: Option<Arc<Front>>,
    plane: Arc<ControlPlane>,
    routes: Option<Arc<KnownRoutes>>,
    metrics: Metrics,
}

impl Handler for AdmissionHandler {
    fn screen(&self, head: &mut Parts) -> Option<Response<Bytes>> {
        if self.tokens.accepts(head) {
            return None;
        }
        self.metrics.unauthenticated();
        Some(webhook::refuse_unauthenticated())
    }

    async fn handle(&self, request: Request<Bytes>) -> Response<Bytes> {
        let routes = self.routes.as_ref().map(|routes| routes.current()).unwrap_or_default();
        let keys = self.keys.as_ref().map(KeyReader::current);
        let key = match &keys {
            None => ReviewKey::Offline,
            Some(None) => ReviewKey::Missing,
            Some(Some(keys)) => ReviewKey::Known(&keys.mac),
        };
        let view = MeshView { plane: &self.plane, routes: &routes, key };
        admit(&request, self.front.as_deref(), view, &self.metrics).await
    }
}

fn key_settings(
    place: &Place,
    secret: String,
    admission: &AdmissionArgs,
    certificates: &CertificateArgs,
) -> anyhow::Result<KeySettings> {
    let mut configurations = place.webhook_configuration.clone();
    let resources = &admission.resource_webhook_configuration;
    if !configurations.contains(resources) {
        configurations.push(resources.clone());
    }
    Ok(KeySettings {
        namespace: place.namespace.clone(),
        secret,
        service: place.service.clone(),
        configurations,
        entries: webhook::ENTRY_PATHS,
        lifetime: certificates.cert_lifetime,
        grace: certificates.grace()?,
    })
}

fn controller(
    client: Client,
    namespace: &str,
    args: GenerateArgs,
    services: ServiceArgs,
    keys: KeyReader,
    metrics: &Metrics,
    health: &Health,
) -> Controller {
    let ServiceArgs { service_hosts, service_timeout, service_response_limit, service_token_file } = services;
    let GenerateArgs {
        lease,
        identity,
        progress,
        settings,
        generate_workers,
        delete_brake,
        exception_namespace,
        omit_events,
        full_comparison_interval,
        run_unreviewed_policies,
        absent_policy_grace,
    } = args;
    let chance = RandomState::new().build_hasher().finish();
    let options = Options {
        namespace: namespace.to_owned(),
        lease,
        memory: progress,
        settings,
        // Two processes of one host are two replicas.
        identity: format!("{identity}_{chance:016x}"),
        workers: usize::from(generate_workers),
        delete_brake: delete_brake as usize,
        outbound: Outbound::new(service_hosts),
        services: ServiceOptions {
            timeout: service_timeout,
            response_limit: service_response_limit,
            token_file: service_token_file,
        },
        exceptions: Honoured::parse(&exception_namespace),
        omitted_events: omit_events,
        comparison_interval: full_comparison_interval,
        run_unreviewed: run_unreviewed_policies,
        absence_grace: absent_policy_grace,
    };
    Controller::new(client, options, keys, metrics.generate(), health)
}

async fn first_certificate(served: &mut watch::Receiver<bool>) {
    // An error means that the sender is gone, and with it the certificates' part: its end is noticed elsewhere.
    let _ = served.wait_for(|serving| *serving).await;
}

async fn admit(
    request: &Request<Bytes>,
    front: Option<&Front>,
    view: MeshView<'_>,
    metrics: &Metrics,
) -> Response<Bytes> {
    let started = Instant::now();
    let large = request.body().len() > LARGE_BODY;
    let webhook::Answer { response, outcome } = match front {
        Some(front) if !webhook::PATHS.contains(&request.uri().path()) => {
            // In a place of its own: it is large, and within this future it would be moved about with every request.
            let answering = Box::pin(webhook::handle_with(front, request));
            if large { aside(answering).await } else { answering.await }
        }
        _ if large => block_in_place(|| webhook::handle(request, view)),
        _ => webhook::handle(request, view),
    };
    let outcome = match outcome {
        webhook::Outcome::Allowed => Outcome::Allowed,
        webhook::Outcome::Denied => Outcome::Denied,
        webhook::Outcome::Invalid => Outcome::Invalid,
    };
    metrics.request(outcome, started.elapsed());
    response
}

/// Lets a future take its time: whoever waits for this thread is moved to another whenever it works, and while it waits it
/// keeps no thread.
async fn aside<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    poll_fn(|context| block_in_place(|| future.as_mut().poll(context))).await
}

fn unexpected(ended: Option<Result<&'static str, tokio::task::JoinError>>) -> anyhow::Error {
    match ended {
        Some(Ok(part)) => anyhow!("{part} ended unasked"),
        Some(Err(error)) => anyhow!("a part of the program failed: {error}"),
        None => anyhow!("nothing runs any more"),
    }
}

/// The signals that ask for an end.
struct Stop {
    terminate: tokio::signal::unix::Signal,
    interrupt: tokio::signal::unix::Signal,
}

impl Stop {
    fn listen() -> anyhow::Result<Self> {
        let on = |kind| signal(kind).context("listening for signals");
        Ok(Self { terminate: on(SignalKind::terminate())?, interrupt: on(SignalKind::interrupt())? })
    }

    async fn asked(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}
