//! Writ behind the webhook of a real API server: it is asked, it is trusted, and it comes and goes in order.

use crate::support::{self, ControlPlane, Writ, unique};

fn template(name: &str) -> String {
    format!(
        "apiVersion: kuma.io/v1alpha1
kind: ProxyTemplate
metadata: {{name: {name}}}
mesh: default
spec:
  selectors: [{{match: {{kuma.io/service: backend}}}}]
  conf: {{imports: [default-proxy], modifications: [{{cluster: {{operation: remove}}}}]}}
"
    )
}

#[test]
fn a_good_template_is_taken_and_a_bad_one_is_not() {
    let Some(cluster) = support::with_writ() else { return };
    let ns = cluster.namespace("judged");
    let name = unique("judged");
    ns.owns("proxytemplates.kuma.io", &name);
    ns.accepts(&template(&name));
    let bad = template(&name).replace("default-proxy", "no-such-profile");
    ns.rejects(&bad, "spec.conf.imports[0]: ");
}

/// Without Writ no policy is stored; once it is back, with the same certificates, it answers again.
#[test]
fn it_goes_in_order_and_comes_back() {
    let Some(cluster) = ControlPlane::start() else { return };
    let writ = Writ::start(&cluster, &["--drain-delay=100ms"]);
    let ns = cluster.namespace("order");
    ns.accepts(&template("before"));
    let authority = authority(&cluster);
    assert!(!authority.is_empty());

    let status = writ.terminate().expect("an end after the drain");
    assert!(status.success(), "{status}");
    ns.rejects(&template("meanwhile"), "failed calling webhook");

    let _writ = Writ::start(&cluster, &[]);
    ns.accepts(&template("after"));
    assert_eq!(self::authority(&cluster), authority);
}

/// The authority that API servers trust Writ by.
fn authority(cluster: &support::Cluster) -> String {
    let output = "--output=jsonpath={.webhooks[0].clientConfig.caBundle}";
    cluster.kubectl(["get", "validatingwebhookconfiguration", "writ", output]).ok()
}
