use serde_json::json;

use super::*;

/// A listener with a connection manager: one HTTP filter, one virtual host.
fn listener(name: &str, origin: &str) -> Resource {
    let content = json!({
        "name": name,
        "metadata": {"filterMetadata": {TAGS: {"kuma.io/service": "backend", "port": 80}}},
        "filterChains": [{"filters": [
            {"name": "first", "typedConfig": {"@type": TCP, "statPrefix": "a", "cluster": "b"}},
            {"name": CONNECTION_MANAGER, "typedConfig": {
                "@type": MANAGER, "statPrefix": "x", "httpFilters": [{"name": "router"}],
                "routeConfig": {"name": "routes", "virtualHosts": [{"name": "host", "domains": ["*"]}]},
            }},
        ]}],
    });
    Resource { kind: ResourceType::Listener, key: name.to_owned(), origin: origin.to_owned(), content }
}

fn cluster(name: &str, origin: &str) -> Resource {
    let content = json!({"name": name, "type": "EDS"});
    Resource { kind: ResourceType::Cluster, key: name.to_owned(), origin: origin.to_owned(), content }
}

const TCP: &str = "type.googleapis.com/envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy";
const MANAGER: &str =
    "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager";

fn named(name: &str) -> Criteria {
    Criteria { name: Some(name.to_owned()), ..Criteria::default() }
}

fn on_cluster(criteria: Criteria, change: ResourceChange) -> Modification {
    Modification::Resource { kind: ResourceKind::Cluster, criteria, change }
}

fn on_network(criteria: Criteria, change: FilterChange) -> Modification {
    Modification::Filter { kind: FilterKind::Network, criteria, change }
}

fn on_http(criteria: Criteria, change: FilterChange) -> Modification {
    Modification::Filter { kind: FilterKind::Http, criteria, change }
}

/// The names of the filters of the only chain of a listener.
fn filters(resource: &Resource) -> Vec<&str> {
    names(resource.content.pointer("/filterChains/0/filters"))
}

fn http_filters(resource: &Resource) -> Vec<&str> {
    let filters = resource.content.pointer("/filterChains/0/filters").and_then(Value::as_array).expect("filters");
    let manager = filters.iter().find(|filter| name_of(filter) == CONNECTION_MANAGER).expect("a connection manager");
    names(manager.pointer("/typedConfig/httpFilters"))
}

fn names(list: Option<&Value>) -> Vec<&str> {
    list.and_then(Value::as_array).into_iter().flatten().map(name_of).collect()
}

#[test]
fn an_added_resource_replaces_its_namesake_and_belongs_to_nobody_else() {
    let mut all = vec![cluster("a", "inbound"), listener("a", "inbound")];
    let add = on_cluster(Criteria::default(), ResourceChange::Add(json!({"name": "a", "type": "STATIC"})));
    assert_eq!(modify(&mut all, &add, Dialect::ProxyTemplate), Ok(1));
    assert_eq!((all.len(), &all[0].content["type"]), (2, &json!("STATIC")));
    let inbound = Criteria { origin: Some("inbound".to_owned()), ..Criteria::default() };
    assert_eq!(modify(&mut all, &on_cluster(inbound, ResourceChange::Remove), Dialect::ProxyTemplate), Ok(0));
    assert_eq!(all[0].origin, "proxy-template-modifications");

    let criteria = Criteria::default();
    let change = ResourceChange::Add(json!({"name": "l"}));
    let add = Modification::Resource { kind: ResourceKind::Listener, criteria, change };
    modify(&mut all, &add, Dialect::MeshProxyPatch).expect("it can be added");
    assert_eq!(all[2].origin, "mesh-proxy-patch");
}

#[test]
fn a_patched_name_does_not_change_what_is_matched() {
    let mut all = vec![cluster("a", "outbound")];
    let rename = on_cluster(named("a"), ResourceChange::Patch(Patch::Merge(json!({"name": "b"}))));
    assert_eq!(modify(&mut all, &rename, Dialect::ProxyTemplate), Ok(1));
    assert_eq!((all[0].key.as_str(), &all[0].content["name"]), ("a", &json!("b")));
    let replace = JsonPatch::Replace { path: "/connectTimeout".to_owned(), value: json!("1s") };
    let patch = on_cluster(named("a"), ResourceChange::Patch(Patch::Json(vec![replace])));
    let reason = modify(&mut all, &patch, Dialect::ProxyTemplate).expect_err("there is nothing to replace");
    assert_eq!(reason, "jsonPatches[0]: there is nothing at `/connectTimeout`");
    let add = JsonPatch::Add { path: "/connect_timeout".to_owned(), value: json!("1500ms") };
    let patch = on_cluster(Criteria::default(), ResourceChange::Patch(Patch::Json(vec![add])));
    assert_eq!(modify(&mut all, &patch, Dialect::ProxyTemplate), Ok(1));
    assert_eq!(all[0].content["connectTimeout"], json!("1.500s"), "the result is canonical");
}

#[test]
fn filters_go_where_they_are_told() {
    let insert = |position, criteria| on_network(criteria, FilterChange::Insert(position, json!({"name": "new"})));
    for (position, criteria, expected) in [
        (Position::First, Criteria::default(), vec!["new", "first", CONNECTION_MANAGER]),
        (Position::Last, Criteria::default(), vec!["first", CONNECTION_MANAGER, "new"]),
        (Position::Before, named(CONNECTION_MANAGER), vec!["first", "new", CONNECTION_MANAGER]),
        (Position::After, named("first"), vec!["first", "new", CONNECTION_MANAGER]),
        (Position::After, named("nobody"), vec!["first", CONNECTION_MANAGER]),
    ] {
        let mut all = vec![listener("l", "inbound")];
        let hits = modify(&mut all, &insert(position, criteria), Dialect::ProxyTemplate);
        assert_eq!((hits, filters(&all[0])), (Ok(expected.len() - 2), expected));
    }
    let mut all = vec![listener("l", "inbound")];
    let insert = FilterChange::Insert(Position::Before, json!({"name": "cors"}));
    assert_eq!(modify(&mut all, &on_http(named("router"), insert), Dialect::ProxyTemplate), Ok(1));
    assert_eq!(http_filters(&all[0]), ["cors", "router"]);
    assert_eq!(modify(&mut all, &on_http(Criteria::default(), FilterChange::Remove), Dialect::ProxyTemplate), Ok(2));
    assert!(http_filters(&all[0]).is_empty());
}

#[test]
fn listeners_are_told_apart_by_name_origin_and_tags() {
    let tags = |key: &str, value: &str| Criteria {
        listener_tags: BTreeMap::from([(key.to_owned(), value.to_owned())]),
        ..Criteria::default()
    };
    let hits = |criteria: Criteria, dialect| {
        let mut all = vec![listener("inbound:passthrough:ipv4", "inbound"), cluster("c", "inbound")];
        modify(&mut all, &on_http(criteria, FilterChange::Remove), dialect).expect("it can be done")
    };
    for (criteria, expected) in [
        (tags("kuma.io/service", "backend"), 1),
        (tags("kuma.io/service", "*"), 1),
        (tags("kuma.io/service", "web"), 0),
        (tags("version", "*"), 0),
        (tags("port", "80"), 0),
        (tags("port", "*"), 1),
        (Criteria { origin: Some("outbound".to_owned()), ..Criteria::default() }, 0),
    ] {
        assert_eq!(hits(criteria.clone(), Dialect::ProxyTemplate), expected, "{criteria:?}");
    }
    let newer = "self_transparentproxy_passthrough_inbound_ipv4".to_owned();
    let newer = Criteria { listener_name: Some(newer), ..Criteria::default() };
    assert_eq!(hits(newer.clone(), Dialect::MeshProxyPatch), 1);
    assert_eq!(hits(newer, Dialect::ProxyTemplate), 0);
}

#[track_caller]
fn patched(patch: Patch<FilterPatch>) -> Result<Value, String> {
    let mut all = vec![listener("l", "inbound")];
    modify(&mut all, &on_network(named("first"), FilterChange::Patch(patch)), Dialect::ProxyTemplate)?;
    Ok(all[0].content.pointer("/filterChains/0/filters/0").cloned().unwrap_or_default())
}

#[test]
fn of_a_filter_only_its_config_is_patched() {
    let wanted = |cluster: &str| json!({"name": "first", "typedConfig": {"@type": TCP, "statPrefix": "a", "cluster": cluster, "idleTimeout": "5s"}});
    let filter = json!({"name": "other", "typedConfig": {"@type": TCP, "idleTimeout": "5s"}});
    assert_eq!(patched(Patch::Merge(FilterPatch::Filter(filter))), Ok(wanted("b")));
    let body = json!({"idle_timeout": "5s", "cluster": "c"});
    assert_eq!(patched(Patch::Merge(FilterPatch::Body(body))), Ok(wanted("c")));
    let operations = vec![
        JsonPatch::Replace { path: "/cluster".to_owned(), value: json!("d") },
        JsonPatch::Add { path: "/idleTimeout".to_owned(), value: json!("5s") },
        JsonPatch::Add { path: "/typedConfig/cluster".to_owned(), value: json!("nowhere") },
    ];
    assert_eq!(patched(Patch::Json(operations)), Ok(wanted("d")));
    let other = json!({"typedConfig": {"@type": MANAGER}});
    let reason = patched(Patch::Merge(FilterPatch::Filter(other))).expect_err("types differ");
    assert!(reason.contains("TcpProxy`, the patch one of type"), "{reason}");
}

#[test]
fn filters_without_a_config_of_their_own() {
    let run = |filter: Value, patch: Patch<FilterPatch>| {
        let content = json!({"name": "l", "filterChains": [{"filters": [filter]}]});
        let origin = "inbound".to_owned();
        let mut all = vec![Resource { kind: ResourceType::Listener, key: "l".to_owned(), origin, content }];
        let hits = modify(&mut all, &on_network(named("f"), FilterChange::Patch(patch)), Dialect::ProxyTemplate)?;
        Ok::<_, String>((hits, all[0].content.pointer("/filterChains/0/filters/0").cloned().unwrap_or_default()))
    };
    let config = json!({"@type": TCP, "cluster": "c"});
    let part = || Patch::Merge(FilterPatch::Filter(json!({"typedConfig": config})));
    assert_eq!(run(json!({"name": "f"}), part()), Ok((1, json!({"name": "f", "typedConfig": config}))));
    let discovered = json!({"name": "f", "configDiscovery": {"typeUrls": ["x"]}});
    assert_eq!(run(discovered.clone(), part()), Ok((0, discovered)));
    let empty = Patch::Merge(FilterPatch::Filter(json!({"name": "f"})));
    assert_eq!(run(json!({"name": "f"}), empty), Ok((0, json!({"name": "f"}))));
    assert!(run(json!({"name": "f"}), Patch::Json(Vec::new())).is_err());
    let manager = Modification::Filter { kind: FilterKind::Http, criteria: named("x"), change: FilterChange::Remove };
    let content = json!({"name": "l", "filterChains": [{"filters": [{"name": CONNECTION_MANAGER}]}]});
    let mut all = vec![Resource { kind: ResourceType::Listener, key: "l".to_owned(), origin: String::new(), content }];
    assert!(modify(&mut all, &manager, Dialect::ProxyTemplate).is_err(), "a connection manager without its config");
}

#[test]
fn virtual_hosts_and_routes_inside_of_listeners() {
    let host = |name: &str| json!({"name": name, "domains": ["x"]});
    let on_host =
        |criteria: Criteria, change| Modification::Resource { kind: ResourceKind::VirtualHost, criteria, change };
    let on_route = |criteria: Criteria, change| Modification::Resource { kind: ResourceKind::Route, criteria, change };
    let routes =
        |all: &[Resource]| all[0].content.pointer("/filterChains/0/filters/1/typedConfig/routeConfig").cloned();
    let mut all = vec![listener("l", "inbound")];
    let mut run = |modification: &Modification| {
        let hits = modify(&mut all, modification, Dialect::ProxyTemplate).expect("it can be done");
        (hits, routes(&all).unwrap_or_default(), all.len())
    };
    let elsewhere = Criteria { route_configuration_name: Some("other".to_owned()), ..Criteria::default() };
    assert_eq!(run(&on_host(elsewhere, ResourceChange::Add(host("new")))).0, 0);
    let (hits, now, _) = run(&on_host(Criteria::default(), ResourceChange::Add(host("new"))));
    assert_eq!((hits, names(now.get("virtualHosts"))), (1, vec!["host", "new"]));
    let (_, now, _) = run(&on_host(Criteria::default(), ResourceChange::Add(host("host"))));
    assert_eq!(now["virtualHosts"][0]["domains"], json!(["x"]), "a host of that name is replaced where it stands");
    let patch = ResourceChange::Patch(Patch::Merge(json!({"domains": ["y"]})));
    let (_, now, _) = run(&on_host(named("new"), patch));
    assert_eq!(now["virtualHosts"][1]["domains"], json!(["x", "y"]));
    assert_eq!(run(&on_host(Criteria::default(), ResourceChange::Remove)).0, 2);

    let (hits, now, count) = run(&on_route(
        Criteria::default(),
        ResourceChange::Add(json!({"name": "routes", "virtualHosts": [host("h")]})),
    ));
    assert_eq!((hits, names(now.get("virtualHosts")), count), (1, vec!["h"], 1));
    assert_eq!(run(&on_route(named("routes"), ResourceChange::Remove)), (1, json!({"name": "routes"}), 1));
    assert_eq!(run(&on_route(Criteria::default(), ResourceChange::Add(json!({"name": "alone"})))).2, 2);
    assert_eq!(run(&on_route(named("alone"), ResourceChange::Remove)).2, 1);
}

#[test]
fn an_inserted_filter_is_its_own_in_every_chain() {
    let mut all = vec![listener("a", "inbound"), listener("b", "inbound")];
    let config = json!({"@type": TCP, "cluster": "one"});
    let filter = json!({"name": "new", "typedConfig": config});
    let add = on_network(Criteria::default(), FilterChange::Insert(Position::First, filter));
    assert_eq!(modify(&mut all, &add, Dialect::ProxyTemplate), Ok(2));
    let only_a = Criteria { listener_name: Some("a".to_owned()), ..named("new") };
    let patch = FilterChange::Patch(Patch::Merge(FilterPatch::Body(json!({"cluster": "two"}))));
    assert_eq!(modify(&mut all, &on_network(only_a, patch), Dialect::ProxyTemplate), Ok(1));
    let cluster =
        |resource: &Resource| resource.content.pointer("/filterChains/0/filters/0/typedConfig/cluster").cloned();
    assert_eq!((cluster(&all[0]), cluster(&all[1])), (Some(json!("two")), Some(json!("one"))));
}
