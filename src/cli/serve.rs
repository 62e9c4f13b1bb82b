//! `writ serve`: the arguments, and the wiring of everything that runs in a cluster.

mod certificates;
mod control_plane;
mod front;
mod keys;
mod routes;
mod wiring;

use std::io::Write;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::thread::available_parallelism;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::{ArgAction, Args};

use super::{Outcome, duration};
use crate::telemetry::{LogFormat, start_logging};
pub(super) use control_plane::ControlPlaneArgs;

/// Parsing expressions is recursive and bounded by their length; this is room for the longest. Only what is used is taken.
const THREAD_STACK: usize = 64 << 20;

const EXAMPLES: &str = "\
Examples:
  # In a cluster, with certificates of its own:
  writ serve
  # Beside a cluster, with the rights of a kubeconfig:
  writ serve --kubeconfig ~/.kube/config --listen 127.0.0.1:9443
  # Without any cluster: validation only, with given certificates:
  writ serve --offline --tls-cert-file tls.crt --tls-key-file tls.key
  # In one zone of a mesh of several, below a global control plane:
  writ serve --kuma-zone east --kuma-federated
  # Where the global control plane is:
  writ serve --kuma-mode global --kuma-system-namespace mesh-system";

/// Answer admission requests over HTTPS.
///
/// Makes, stores and renews its own certificates, unless files are given.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Serve {
    #[command(flatten)]
    ports: Ports,
    #[command(flatten)]
    certificates: CertificateArgs,
    #[command(flatten)]
    cluster: ClusterArgs,
    #[command(flatten)]
    generate: GenerateArgs,
    #[command(flatten)]
    services: ServiceArgs,
    #[command(flatten)]
    admission: AdmissionArgs,
    #[command(flatten)]
    control_plane: ControlPlaneArgs,
    #[command(flatten)]
    limits: LimitArgs,
    /// Threads that answer requests; as many as there are cores, and at least 2, if not given.
    #[arg(long, env = "WRIT_WORKER_THREADS", value_parser = clap::value_parser!(u16).range(1..))]
    worker_threads: Option<u16>,
    /// What to log, as `level` or `module=level,…`.
    #[arg(long, env = "WRIT_LOG", default_value = "info")]
    log: String,
    /// How to log.
    #[arg(long, env = "WRIT_LOG_FORMAT", value_enum, default_value_t = LogFormat::Text)]
    log_format: LogFormat,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Ports")]
struct Ports {
    /// Where to answer admission requests (HTTPS).
    #[arg(long, env = "WRIT_LISTEN", default_value = "[::]:9443")]
    listen: SocketAddr,
    /// Where to answer /healthz, /readyz and /metrics (plain HTTP).
    #[arg(long, env = "WRIT_ADMIN_LISTEN", default_value = "[::]:9080")]
    admin_listen: SocketAddr,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Certificates")]
struct CertificateArgs {
    /// Serve this certificate chain (PEM) instead of making one. Read again when it changes.
    #[arg(long, env = "WRIT_TLS_CERT_FILE", requires = "tls_key_file")]
    tls_cert_file: Option<PathBuf>,
    /// The private key of --tls-cert-file (PEM).
    #[arg(long, env = "WRIT_TLS_KEY_FILE", requires = "tls_cert_file")]
    tls_key_file: Option<PathBuf>,
    /// The authority of --tls-cert-file (PEM), to be written into the webhook configurations; read again when it changes. One
    /// that did not sign the certificate is not written, and Writ is not ready. Without the file the configurations are left
    /// alone, for cert-manager or an administrator to fill.
    #[arg(long, env = "WRIT_TLS_CA_FILE", requires = "tls_cert_file")]
    tls_ca_file: Option<PathBuf>,
    /// How often to look whether the files have changed; from 10ms to 1d.
    #[arg(long, env = "WRIT_TLS_RELOAD_INTERVAL", default_value = "10s", value_parser = duration::between("10ms", "1d"))]
    tls_reload_interval: Duration,
    /// Require a certificate of one of these CAs (PEM) from every client; read again when it changes.
    #[arg(long, env = "WRIT_CLIENT_CA_FILE")]
    client_ca_file: Option<PathBuf>,
    /// Accept only client certificates with one of these names, as common name or subject alternative name, separated by
    /// commas. Without the flag, every certificate of --client-ca-file is accepted.
    #[arg(long, env = "WRIT_CLIENT_NAME", value_name = "NAME", value_delimiter = ',', requires = "client_ca_file")]
    client_name: Vec<String>,
    /// The Secret in which all replicas share their certificates.
    #[arg(long, env = "WRIT_CERT_SECRET", default_value = "writ-certificates")]
    cert_secret: String,
    /// How long a certificate lives, from 5s to 36500d; it is renewed at two thirds of that.
    #[arg(long, env = "WRIT_CERT_LIFETIME", default_value = "90d", value_parser = duration::between("5s", "36500d"))]
    cert_lifetime: Duration,
    /// How long API servers and replicas get to see each step of a renewal, up to a quarter of the lifetime; a 24th of it,
    /// at most an hour, if not given.
    #[arg(long, env = "WRIT_CERT_GRACE", value_parser = duration::parse)]
    cert_grace: Option<Duration>,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Cluster")]
struct ClusterArgs {
    /// Use no cluster: validate only, with the certificates of --tls-cert-file.
    #[arg(long, env = "WRIT_OFFLINE", action = ArgAction::SetTrue, requires = "tls_cert_file")]
    offline: bool,
    /// The kubeconfig to use instead of the pod's service account.
    #[arg(long, env = "WRIT_KUBECONFIG", conflicts_with = "offline")]
    kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig.
    #[arg(long, env = "WRIT_CONTEXT", conflicts_with = "offline")]
    context: Option<String>,
    /// The namespace that Writ is installed in.
    #[arg(long, env = "WRIT_NAMESPACE", default_value = "writ-system")]
    namespace: String,
    /// The Service that webhook configurations call.
    #[arg(long, env = "WRIT_SERVICE", default_value = "writ")]
    service: String,
    /// The Secret in which all replicas share the token of webhook paths, the key of message authentication codes and the
    /// seed of random(). It must exist; Writ fills it and rotates the token at two thirds of --cert-lifetime.
    #[arg(long, env = "WRIT_KEYS_SECRET", default_value = "writ-keys")]
    keys_secret: String,
    /// Take the token of webhook paths from this file: 64 hexadecimal digits, as `openssl rand -hex 32` prints them. Only with
    /// --offline, where paths carry no token otherwise and every caller is answered.
    #[arg(long, env = "WRIT_WEBHOOK_TOKEN_FILE", requires = "offline")]
    webhook_token_file: Option<PathBuf>,
    /// The webhook configurations, validating and mutating, whose caBundle and paths to keep right, separated by commas.
    #[arg(long, env = "WRIT_WEBHOOK_CONFIGURATION", default_value = "writ", value_delimiter = ',')]
    webhook_configuration: Vec<String>,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Generate rules")]
struct GenerateArgs {
    /// The Lease by which replicas agree which of them writes.
    #[arg(long, env = "WRIT_LEASE", default_value = "writ")]
    lease: String,
    /// The name of this replica.
    #[arg(long, env = "HOSTNAME", default_value = "writ")]
    identity: String,
    /// The ConfigMap in which to remember how far rules have come. It must exist.
    #[arg(long, env = "WRIT_PROGRESS", default_value = "writ-progress")]
    progress: String,
    /// The ConfigMap with resourceFilters, excludeGroups, generateSuccessEvents and so on.
    #[arg(long, env = "WRIT_SETTINGS", default_value = "writ")]
    settings: String,
    /// Rules run at once.
    #[arg(long, env = "WRIT_GENERATE_WORKERS", default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..))]
    generate_workers: u16,
    /// So many objects of one rule may be deleted within a minute although nobody deleted a trigger, a rule or a policy.
    /// What goes beyond that, and beyond half of them, is held and shown.
    #[arg(long, env = "WRIT_DELETE_BRAKE", default_value_t = 100)]
    delete_brake: u32,
    /// The namespace whose PolicyExceptions count; `*` means every namespace, nothing means that none do.
    #[arg(long, env = "WRIT_EXCEPTION_NAMESPACE", value_name = "NAMESPACE", default_value = "")]
    exception_namespace: String,
    /// Reasons of events not to write, separated by commas: PolicyApplied, PolicyError. Kyverno's flag of this name is
    /// --omitEvents.
    #[arg(long, alias = "omitEvents", env = "WRIT_OMIT_EVENTS", value_name = "REASON", value_delimiter = ',')]
    omit_events: Vec<String>,
    /// How often to compare everything although nothing has happened, what rules look up included; 0 for never.
    /// Kyverno's deployments say it in the same variable.
    #[arg(long, env = "BACKGROUND_SCAN_INTERVAL", default_value = "1h", value_name = "DURATION", value_parser = duration::parse)]
    full_comparison_interval: Duration,
    /// Run policies, exceptions and global context entries whose author admission has not reviewed: those that were stored
    /// before the install, or restored from a backup. Default: false.
    #[arg(long, env = "WRIT_RUN_UNREVIEWED_POLICIES", default_value_t = false, default_missing_value = "true", num_args = 0..=1, action = ArgAction::Set)]
    run_unreviewed_policies: bool,
    /// Keep downstream for this long after its policy was found absent at start or with its CRD; the policy may come back.
    #[arg(long, env = "WRIT_ABSENT_POLICY_GRACE", default_value = "60s", value_name = "DURATION", value_parser = duration::parse)]
    absent_policy_grace: Duration,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Services that rules call")]
struct ServiceArgs {
    /// The hosts whose services a ClusterPolicy may call (`apiCall.service`), separated by commas, with `*` and `?` as
    /// wildcards; none if not given. A Policy of a namespace may call none whatever this says, and link-local addresses are
    /// never called.
    #[arg(long, env = "WRIT_SERVICE_HOSTS", default_value = "", value_delimiter = ',')]
    service_hosts: Vec<String>,
    /// How long a call may take; 0 for as long as it likes.
    #[arg(long, env = "WRIT_SERVICE_TIMEOUT", default_value = "30s", value_parser = duration::parse)]
    service_timeout: Duration,
    /// The largest response of a service, in bytes; 0 for any.
    #[arg(long, env = "WRIT_SERVICE_RESPONSE_LIMIT", default_value_t = 2_000_000)]
    service_response_limit: usize,
    /// A projected token for calls without an Authorization header. It is sent to every service that rules call; without the
    /// file, nothing is sent.
    #[arg(long, env = "WRIT_SERVICE_TOKEN_FILE", default_value = "/var/run/secrets/tokens/api-token")]
    service_token_file: PathBuf,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Admission of generate policies")]
struct AdmissionArgs {
    /// The webhook configuration for objects that rules are about; made and kept here.
    #[arg(long, env = "WRIT_RESOURCE_WEBHOOK_CONFIGURATION", default_value = "writ-resources")]
    resource_webhook_configuration: String,
    /// The user whose rights to look at generated objects are checked; Writ's own if not given.
    #[arg(long, env = "WRIT_ADMISSION_ACCOUNT")]
    admission_account: Option<String>,
    /// The user whose rights to write generated objects are checked, and whose requests trigger no rule; Writ's own if not
    /// given.
    #[arg(long, env = "WRIT_BACKGROUND_ACCOUNT")]
    background_account: Option<String>,
    /// The user whose rights to read triggers are checked with a warning.
    #[arg(long, env = "WRIT_REPORTS_ACCOUNT")]
    reports_account: Option<String>,
    /// Reject policies that do more than their author is allowed. Without it, everybody who may write policies acts with
    /// Writ's permissions; the log and the metric writ_author_check_enabled say so.
    #[arg(long, env = "WRIT_AUTHOR_CHECK", default_value_t = true, action = ArgAction::Set)]
    author_check: bool,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Limits")]
struct LimitArgs {
    /// The largest request body, in bytes.
    #[arg(long, env = "WRIT_BODY_LIMIT", default_value_t = 8 << 20)]
    body_limit: usize,
    /// Bytes of all request bodies in memory at once; at least one of the largest size is always let in.
    #[arg(long, env = "WRIT_BODY_MEMORY", default_value_t = 32 << 20)]
    body_memory: usize,
    /// Connections served at once.
    #[arg(long, env = "WRIT_MAX_CONNECTIONS", default_value_t = 4096)]
    max_connections: u32,
    /// Connections of one client address; an eighth of --max-connections, at least 16, if not given. One above the limit takes
    /// the place of the oldest that has sent no request, or is closed.
    #[arg(long, env = "WRIT_MAX_CONNECTIONS_PER_PEER", value_parser = clap::value_parser!(u32).range(1..))]
    max_connections_per_peer: Option<u32>,
    /// Requests handled at once.
    #[arg(long, env = "WRIT_MAX_REQUESTS", default_value_t = 512)]
    max_requests: u32,
    /// How long a connection, a request or its body waits for its turn before it is told to try again.
    #[arg(long, env = "WRIT_QUEUE_TIME", default_value = "2s", value_parser = duration::parse)]
    queue_time: Duration,
    /// How long to go on serving after a stop signal, so that nobody is sent here any more.
    #[arg(long, env = "WRIT_DRAIN_DELAY", default_value = "5s", value_parser = duration::parse)]
    drain_delay: Duration,
    /// How long requests in flight may take after that.
    #[arg(long, env = "WRIT_DRAIN_TIMEOUT", default_value = "20s", value_parser = duration::parse)]
    drain_timeout: Duration,
}

impl LimitArgs {
    fn connections_per_peer(&self) -> u32 {
        self.max_connections_per_peer.unwrap_or_else(|| (self.max_connections / 8).max(16))
    }
}

impl CertificateArgs {
    /// How long each step of a renewal takes. The last third of a certificate's life must hold one, with time to spare.
    fn grace(&self) -> anyhow::Result<Duration> {
        let most = self.cert_lifetime / 4;
        match self.cert_grace {
            None => Ok((self.cert_lifetime / 24).min(Duration::from_secs(60 * 60))),
            Some(grace) if grace <= most => Ok(grace),
            Some(_) => {
                bail!("--cert-grace must be at most a quarter of --cert-lifetime, that is {} s", most.as_secs_f32())
            }
        }
    }
}

impl Serve {
    pub fn run(self, _out: &mut dyn Write) -> anyhow::Result<Outcome> {
        self.certificates.grace()?;
        start_logging(self.log_format, &self.log)?;
        let cores = available_parallelism().map_or(2, usize::from).max(2);
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(self.worker_threads.map_or(cores, usize::from))
            .thread_stack_size(THREAD_STACK)
            .enable_all()
            .build()
            .context("starting the runtime")?;
        runtime.block_on(wiring::serve(self))?;
        Ok(Outcome::Clean)
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        generate: GenerateArgs,
    }

    #[test]
    fn events_and_comparisons() {
        let read = |flags: &[&str]| Line::try_parse_from([&["writ"], flags].concat()).expect("flags").generate;
        let usual = read(&[]);
        assert_eq!((usual.omit_events.len(), usual.full_comparison_interval), (0, Duration::from_secs(3600)));
        let set = read(&["--omitEvents=PolicyApplied,PolicySkipped", "--full-comparison-interval=30m"]);
        assert_eq!(set.omit_events, ["PolicyApplied", "PolicySkipped"]);
        assert_eq!(set.full_comparison_interval, Duration::from_secs(1800));
    }
}
