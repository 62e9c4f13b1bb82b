//! A cluster with a node, on which pods run.

use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

use super::process::Script;
use super::{Cluster, root, script, skip, skipped, unique};

struct Node {
    cluster: Cluster,
    _script: Script,
}

/// The cluster with a node that the tests of the run share; it has Writ's image, and nothing of Writ is installed. Nothing
/// unless the run asks for it with `WRIT_TEST_NODE=1`: it needs root and changes the network of the machine.
pub(crate) fn node() -> Option<&'static Cluster> {
    static NODE: OnceLock<Node> = OnceLock::new();
    static OTHER: OnceLock<Cluster> = OnceLock::new();
    if skipped() {
        return None;
    }
    if std::env::var_os("WRIT_TEST_NODE").is_none() {
        skip("it needs a node with real pods (make e2e)");
        return None;
    }
    Some(match std::env::var_os("WRIT_TEST_KUBECONFIG") {
        Some(file) => OTHER.get_or_init(|| Cluster::other(PathBuf::from(file))),
        None => &NODE.get_or_init(start).cluster,
    })
}

fn start() -> Node {
    let image = root().join("target/image/writ.tar");
    assert!(image.exists(), "{} is not there (make image)", image.display());
    let folder = std::env::temp_dir().join(unique("writ-node"));
    let script = Script::spawn(Command::new(script("node")).arg(&folder));
    // The first time, packages are installed and programs are built.
    let kubeconfig = script.expect("ready ", Duration::from_secs(900));
    let loaded = Command::new(folder.join("load")).arg(&image).output().expect("a script");
    assert!(loaded.status.success(), "loading the image: {}", String::from_utf8_lossy(&loaded.stderr));
    Node { cluster: Cluster::local(kubeconfig.into(), folder), _script: script }
}
