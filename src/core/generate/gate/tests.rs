//! What passes the gate, and what does not.

use std::sync::Arc;

use super::*;
use crate::core::catalog::{ApiResource, Catalog};
use crate::core::generate::context::EntrySource;

fn secret() -> Gvk {
    Gvk::new("v1", "Secret")
}

/// A cluster that serves the built-in kinds and a cluster-scoped Widget.
fn bounds() -> InstallBounds {
    let widget = ApiResource {
        group: "example.org".into(),
        version: "v1".into(),
        kind: "Widget".into(),
        plural: "widgets".into(),
        subresource: String::new(),
        scope: Scope::Cluster,
    };
    let catalog = Catalog::new(Catalog::builtin().all().cloned().chain([widget]));
    InstallBounds::of_cluster(Arc::new(catalog), "writ-system").with_outbound(Outbound::any())
}

fn outbound(outbound: Outbound) -> InstallBounds {
    bounds().with_outbound(outbound)
}

#[test]
fn a_namespaced_policy_stays_at_home() {
    let (reach, bounds) = (Reach::Namespace("a".into()), bounds());
    let gate = Gate::new(&reach, &bounds);
    let call = |path: &str| gate.call(path, None, &PathPattern::of(path));
    assert!(gate.object(secret(), "a", "s").is_ok());
    assert!(gate.namespace("a").is_ok());
    assert!(gate.list(secret(), "a", String::new()).is_ok());
    assert!(call("/api/v1/namespaces/a/pods").is_ok());
    for refused in [
        gate.object(secret(), "b", "s"),
        gate.object(Gvk::new("v1", "Node"), "", "n"),
        gate.namespace("b"),
        gate.list(secret(), "", String::new()),
        call("/api/v1/namespaces/b/pods"),
        call("/api/v1/namespaces"),
        call("/api/v1/namespaces/a"),
        call("/version"),
        gate.service("https://a.example", Vec::new(), None, None),
        gate.image("a.example", "a.example/x"),
        gate.host("a.example"),
    ] {
        assert!(matches!(refused, Err(Refusal::OutOfReach { .. } | Refusal::ClusterScoped { .. })), "{refused:?}");
    }
    let elsewhere = ObjectKey { gvk: secret(), namespace: Some("b".into()), name: "s".into() };
    assert!(gate.target(elsewhere.clone(), KindText::Literal).is_err());
    assert!(gate.target(ObjectKey { namespace: None, ..elsewhere }, KindText::Literal).is_err());
}

#[test]
fn scope_comes_from_discovery() {
    let (reach, bounds) = (Reach::Namespace("a".into()), bounds());
    let (own, whole) = (Gate::new(&reach, &bounds), Gate::new(&Reach::Cluster, &bounds));
    let at = |gvk: Gvk, namespace: Option<&str>| ObjectKey {
        gvk,
        namespace: namespace.map(str::to_owned),
        name: "x".into(),
    };
    // The API server drops the namespace of a cluster-scoped object: it proves nothing.
    for gvk in [Gvk::new("v1", "Namespace"), Gvk::new("example.org/v1", "Widget")] {
        let refused = own.target(at(gvk.clone(), Some("a")), KindText::Literal);
        assert!(matches!(refused, Err(Refusal::ClusterScoped { .. })), "{refused:?}");
        let refused = own.object(gvk.clone(), "a", "x");
        assert!(matches!(refused, Err(Refusal::ClusterScoped { .. })), "{refused:?}");
        let refused = own.list(gvk.clone(), "a", String::new());
        assert!(matches!(refused, Err(Refusal::ClusterScoped { .. })), "{refused:?}");
        assert!(own.trigger(&at(gvk.clone(), Some("a"))).is_err());
        // Its author was asked about namespace `a` alone.
        let refused = whole.target(at(gvk.clone(), Some("a")), KindText::Literal);
        assert!(matches!(refused, Err(Refusal::Misplaced { .. })), "{refused:?}");
        assert!(whole.target(at(gvk, None), KindText::Literal).is_ok());
    }
    let gadget = || Gvk::new("example.org/v1", "Gadget");
    let refused = own.target(at(gadget(), Some("a")), KindText::Literal);
    assert!(matches!(refused, Err(Refusal::UnknownScope { .. })), "{refused:?}");
    assert!(whole.target(at(gadget(), Some("a")), KindText::Literal).is_ok(), "whoever writes it waits for the kind");
    for path in ["/apis/example.org/v1/namespaces/a/widgets", "/apis/example.org/v1/namespaces/a/gadgets/x"] {
        assert!(own.call(path, None, &PathPattern::Open).is_err(), "{path}");
    }
    let placed = whole.target(at(secret(), None), KindText::Variable).expect("in `default`");
    assert_eq!(placed.namespace.as_deref(), Some("default"));
    let refused = own.write(at(secret(), Some("a")), Scope::Cluster);
    assert!(matches!(refused, Err(Refusal::ClusterScoped { .. })), "the resource that is written to decides");
    assert!(own.write(at(secret(), Some("a")), Scope::Namespaced).is_ok());
}

#[test]
fn the_install_is_out_of_reach_for_everybody() {
    let (reach, bounds) = (Reach::Namespace("writ-system".into()), bounds());
    for gate in [Gate::new(&Reach::Cluster, &bounds), Gate::new(&reach, &bounds)] {
        let key = || ObjectKey { gvk: secret(), namespace: Some("writ-system".into()), name: "s".into() };
        let namespace = ObjectKey { gvk: Gvk::new("v1", "Namespace"), namespace: None, name: "writ-system".into() };
        for refused in [
            gate.object(secret(), "writ-system", "s").err(),
            gate.object(namespace.gvk.clone(), "", "writ-system").err(),
            gate.namespace("writ-system").err(),
            gate.list(secret(), "writ-system", String::new()).err(),
            gate.call("/api/v1/namespaces/writ-system/secrets/s", None, &PathPattern::Open).err(),
            gate.call("/api/v1/namespaces/writ-system", None, &PathPattern::Open).err(),
            gate.resource("", "secrets", Some("writ-system")).err(),
            gate.trigger(&key()).err(),
            gate.trigger(&namespace).err(),
            gate.target(key(), KindText::Literal).err(),
            gate.target(namespace.clone(), KindText::Literal).err(),
            gate.write(key(), Scope::Namespaced).err(),
            gate.write(namespace, Scope::Cluster).err(),
        ] {
            assert!(matches!(refused, Some(Refusal::OwnNamespace { .. })), "{refused:?}");
        }
    }
}

#[test]
fn a_generated_policy_names_its_kind() {
    let bounds = bounds();
    let gate = Gate::new(&Reach::Cluster, &bounds);
    let policy = || ObjectKey { gvk: Gvk::new("kyverno.io/v1", "ClusterPolicy"), namespace: None, name: "p".into() };
    assert!(gate.target(policy(), KindText::Literal).is_ok());
    assert!(matches!(gate.target(policy(), KindText::Variable), Err(Refusal::GeneratedPolicy { .. })));
}

#[test]
fn a_call_is_what_the_author_was_asked_about() {
    let bounds = bounds();
    let asked = PathPattern::of("/api/v1/namespaces/{{ns}}/configmaps/c");
    let call = |path: &str| Gate::new(&Reach::Cluster, &bounds).call(path, None, &asked);
    assert!(call("/api/v1/namespaces/a/configmaps/c").is_ok());
    let refused = call("/api/v1/namespaces/a/secrets/s?x=/configmaps/c");
    assert!(matches!(refused, Err(Refusal::OtherPath { .. })), "{refused:?}");
}

/// One attempt of a Policy of namespace `a` to read outside of it for each way to read. A new way does not compile here until it
/// has one.
fn leave(gate: &Gate<'_>, way: &Fetch) -> Result<Fetch, Refusal> {
    match way {
        Fetch::Object(_) => gate.object(secret(), "b", "s"),
        Fetch::List(_) => gate.list(secret(), "", String::new()),
        Fetch::Call(_) => gate.call("/api/v1/secrets", None, &PathPattern::Open),
        Fetch::Service(_) => gate.service("http://b.svc", Vec::new(), None, None),
        Fetch::Image(_) => gate.image("b.example", "b.example/x"),
        Fetch::Host(_) => gate.host("b.example"),
        // What an entry holds is known to whoever keeps it, who asks this gate.
        Fetch::Global(_) => gate.resource("", "secrets", None).map(|()| way.clone()),
    }
}

/// The way to read behind each context entry; `variable` reads nothing.
fn way(gate: &Gate<'_>, source: &EntrySource) -> Option<Fetch> {
    let fetch = match source {
        EntrySource::Variable(_) => return None,
        EntrySource::ConfigMap(_) => gate.object(secret(), "a", "s"),
        EntrySource::ApiCall(call) if call.is_service => gate.service("http://b.svc", Vec::new(), None, None),
        EntrySource::ApiCall(_) => gate.call("/api/v1/pods", None, &PathPattern::Open),
        EntrySource::ImageRegistry { .. } => gate.image("b.example", "b.example/x"),
        EntrySource::GlobalReference { .. } => Ok(gate.global("e")),
    };
    Some(fetch.expect("a ClusterPolicy may"))
}

#[test]
fn every_way_to_read_passes_the_gate() {
    use crate::core::expr::Template;
    use crate::core::generate::context::ApiCall;
    let bounds = bounds();
    let (reach, whole) = (Reach::Namespace("a".into()), Gate::new(&Reach::Cluster, &bounds));
    let text = || Template::compile(&"x".into());
    let call = |is_service| {
        EntrySource::ApiCall(ApiCall { call: text(), path: PathPattern::Open, query: None, default: None, is_service })
    };
    let entries = [
        EntrySource::ConfigMap(text()),
        call(true),
        call(false),
        EntrySource::ImageRegistry { reference: text(), query: None },
        EntrySource::GlobalReference { name: text(), query: None },
    ];
    let ways = entries.iter().filter_map(|entry| way(&whole, entry));
    let others = [whole.list(secret(), "", String::new()), whole.host("b.example")].map(|way| way.expect("may"));
    let ways: Vec<Fetch> = ways.chain(others).collect();
    assert_eq!(ways.len(), 7, "one for each");
    for way in ways {
        let refused = leave(&Gate::new(&reach, &bounds), &way);
        assert!(matches!(refused, Err(Refusal::OutOfReach { .. })), "{way}: {refused:?}");
    }
}

#[test]
fn a_name_may_not_stand_for_any_address() {
    let fetch = |hosts: Outbound| {
        let bounds = outbound(hosts);
        match Gate::new(&Reach::Cluster, &bounds).service("http://a.svc", Vec::new(), None, None) {
            Ok(Fetch::Service(fetch)) => fetch,
            other => panic!("{other:?}"),
        }
    };
    let (fetch, named) = (fetch(Outbound::any()), fetch(Outbound::new(["A.svc".to_owned()])));
    let addresses = |texts: &[&str]| texts.iter().map(|text| text.parse().expect("an address")).collect();
    assert!(fetch.connectable(addresses(&["10.0.0.1", "fd00::1"])).is_ok());
    // One bad address among good ones is how a check is outwitted.
    let refused = fetch.connectable(addresses(&["10.0.0.1", "169.254.169.254"]));
    assert!(matches!(refused, Err(Refusal::LinkLocal { .. })), "{refused:?}");
    assert!(named.connectable(addresses(&["fd00:ec2::254"])).is_err(), "by whatever name");
    let refused = fetch.connectable(addresses(&["127.0.0.1"]));
    assert!(matches!(refused, Err(Refusal::OwnMachine { .. })), "{refused:?}");
    assert!(named.connectable(addresses(&["127.0.0.1"])).is_ok());
}

#[test]
fn secrets_of_a_call_are_not_shown() {
    let outbound = outbound(Outbound::any());
    let headers = vec![("Authorization".to_owned(), "Basic hidden".to_owned())];
    let body = Some("hidden".to_owned());
    let fetch = Gate::new(&Reach::Cluster, &outbound).service("http://a.svc/x?key=hidden", headers, None, body);
    let fetch = fetch.expect("a request");
    assert_eq!(fetch.to_string(), "service http://a.svc");
    assert!(!format!("{fetch:?}").contains("hidden"), "{fetch:?}");
    let reach = Reach::Namespace("a".into());
    for (url, shown) in [
        ("https://user:hidden@a.svc/x", "`https://a.svc`"),
        ("https://user:hid/hidden@a.svc/x", "`https://…`"),
        ("https://a.svc:hidden/hidden?hidden#hidden", "`https://a.svc`"),
        ("https://[::1]hidden/", "`https://[::1]`"),
        ("user:hidden@a.svc", "`…`"),
    ] {
        let call = |reach| Gate::new(reach, &outbound).service(url, Vec::new(), None, None);
        let refusal = call(&Reach::Cluster).expect_err(url).to_string();
        assert!(refusal.starts_with(shown) && !refusal.contains("hid"), "{refusal}");
        let refusal = call(&reach).expect_err(url).to_string();
        assert!(refusal.contains(shown.trim_matches('`')) && !refusal.contains("hid"), "{refusal}");
    }
}

#[test]
fn a_post_only_asks() {
    let bounds = outbound(Outbound::default());
    let gate = Gate::new(&Reach::Cluster, &bounds);
    let body = Some("{}".to_owned());
    assert!(gate.call("/apis/authorization.k8s.io/v1/subjectaccessreviews", body.clone(), &PathPattern::Open).is_ok());
    let refused = gate.call("/api/v1/namespaces/a/secrets", body, &PathPattern::Open);
    assert!(matches!(refused, Err(Refusal::Post { .. })), "{refused:?}");
}

#[test]
fn the_way_out_is_shut_unless_named() {
    let (some, any) = (outbound(Outbound::new(["*.svc".to_owned(), "::1".to_owned()])), outbound(Outbound::any()));
    let gate = Gate::new(&Reach::Cluster, &some);
    let call = |url: &str| gate.service(url, Vec::new(), None, None);
    assert!(call("http://sample.default.svc/labels").is_ok());
    assert!(call("https://[::1]:8443/x").is_ok());
    assert!(matches!(call("https://example.com"), Err(Refusal::Outbound { .. })));
    let nowhere = outbound(Outbound::new([String::new()]));
    let refused = Gate::new(&Reach::Cluster, &nowhere).service("http://a.svc", Vec::new(), None, None);
    assert!(matches!(refused, Err(Refusal::Outbound { .. })));
    for url in ["http://169.254.169.254/latest", "http://[fe80::1]/", "http://[::ffff:a9fe:a9fe]/"] {
        let refused = Gate::new(&Reach::Cluster, &any).service(url, Vec::new(), None, None);
        assert!(matches!(refused, Err(Refusal::LinkLocal { .. })), "{url}");
    }
    for url in ["http://127.0.0.1", "http://[::1]:8443/x", "http://0.0.0.0/"] {
        let refused = Gate::new(&Reach::Cluster, &any).service(url, Vec::new(), None, None);
        assert!(matches!(refused, Err(Refusal::OwnMachine { .. })), "{url}");
    }
    for url in ["ftp://a.svc", "https://a.svc@example.com/", "https://", "a.svc", "https://x.svc\\@example.com"] {
        assert!(matches!(call(url), Err(Refusal::Url { .. })), "{url}");
    }
    assert!(matches!(gate.image("docker.io", "docker.io/nginx"), Err(Refusal::Outbound { .. })));
}
