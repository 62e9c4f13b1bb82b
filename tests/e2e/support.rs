//! A real cluster for tests, small to use:
//!
//! ```ignore
//! #[test]
//! fn a_template_without_a_kind_is_refused() {
//!     let Some(cluster) = support::with_writ() else { return };
//!     let ns = cluster.namespace("refused");
//!     ns.rejects("apiVersion: kuma.io/v1alpha1 …", "spec.conf");
//! }
//! ```
//!
//! - [`cluster`] is a control plane on loopback that all tests of the run share; it starts once, when first asked for.
//! - [`with_writ`] is the same with Writ installed from `manifests/overlays/local` and serving, with the identity and the
//!   rights of its own service account.
//! - [`ControlPlane::start`] is a control plane of the test's own, for tests that install, uninstall, break or restart
//!   things that a whole cluster shares; [`Writ::start`] serves on it.
//! - [`Cluster::namespace`] gives a namespace with a random name that is deleted at the end, and shows what the
//!   programs logged if the test fails. What is cluster-scoped gets its name from [`unique`] and is handed to
//!   `Namespace::owns`.
//! - [`eventually`] waits for conditions. No test sleeps for a fixed time.
//!
//! Nothing outlives the run, not even if it is killed: the scripts of `tests/cluster` end when their standard input does.
//!
//! Everything is synchronous. What runs beside a test (a stream of applies, a watch) is a thread.
//!
//! | variable | effect |
//! |---|---|
//! | `WRIT_SKIP_CLUSTER=1` | all of these tests are skipped, and say so |
//! | `WRIT_TEST_NODE=1` | [`node`] is a cluster with real pods (`make e2e`); without it those tests are skipped, and say so |
//! | `WRIT_TEST_KUBECONFIG=FILE` | [`cluster`], [`with_writ`] and [`node`] use that cluster (its Writ runs as a Deployment); tests with a control plane of their own go on starting one |
//! | `KUBEBUILDER_ASSETS=FOLDER` | the programs are taken from there instead of built |
//! | `WRIT_KEEP_LOGS=FOLDER` | the logs of all programs are kept there |

mod cluster;
mod control_plane;
mod node;
mod process;
mod wait;
mod writ;

pub(crate) use cluster::{Answer, Cluster, Kubectl, Namespace, cluster, with_writ};
pub(crate) use control_plane::ControlPlane;
pub(crate) use node::node;
pub(crate) use wait::{eventually, unique};
pub(crate) use writ::Writ;

use std::io::Write;
use std::path::{Path, PathBuf};

/// The checkout.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// A script of the test cluster.
fn script(name: &str) -> PathBuf {
    root().join("tests/cluster").join(name)
}

/// Whether the run leaves the cluster tests out.
pub(crate) fn skipped() -> bool {
    let skipped = std::env::var_os("WRIT_SKIP_CLUSTER").is_some_and(|value| !value.is_empty() && value != "0");
    if skipped {
        skip("WRIT_SKIP_CLUSTER is set");
    }
    skipped
}

/// Says that the running test does nothing, past the capture of the test harness: a skipped test must not look like one that
/// passed.
fn skip(because: &str) {
    let thread = std::thread::current();
    let line = format!("\nSKIPPED {}: {because}\n", thread.name().unwrap_or("a test"));
    // In one piece: other threads write as well.
    let _ = std::io::stderr().write_all(line.as_bytes());
}
