//! Modifications at work: one after the other on the resources of a proxy, each on what the one before has left.
//!
//! Resources are canonical and stay so. A modification that cannot be done (types that differ, an operation without its
//! place) is an error for the whole: half a modification is no configuration.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::decode::{MessageType, Strictness, decode, decode_as};
use super::json_patch;
use super::merge::merge;
use super::modification::{
    Criteria, Dialect, FilterChange, FilterKind, FilterPatch, JsonPatch, Modification, Patch, Position, ResourceChange,
    ResourceKind,
};
use super::schema::{Message, Schema};

/// A resource of a proxy.
#[derive(Clone, Debug, PartialEq)]
pub struct Resource {
    pub kind: ResourceType,
    /// The name that it was inserted under; a patch of its own name does not change it.
    pub key: String,
    /// What it is there for: `inbound`, `outbound` and others.
    pub origin: String,
    /// Canonical proto JSON.
    pub content: Value,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResourceType {
    Cluster,
    Listener,
    RouteConfiguration,
}

const CONNECTION_MANAGER: &str = "envoy.filters.network.http_connection_manager";
const TYPE_KEY: &str = "@type";
/// The part of a listener's metadata that holds the tags of its inbound or outbound.
const TAGS: &str = "io.kuma.tags";
/// Where added resources come from.
const BY_MODIFICATION: &str = "proxy-template-modifications";
const BY_PROXY_PATCH: &str = "mesh-proxy-patch";

/// Applies one modification; how many objects it has touched, or why it cannot be done.
pub fn modify(resources: &mut Vec<Resource>, modification: &Modification, dialect: Dialect) -> Result<usize, String> {
    match modification {
        Modification::Filter { kind, criteria, change } => {
            let at_work = FilterWork { kind: *kind, criteria, change };
            chains(resources, dialect, criteria).try_fold(0, |hits, chain| Ok(hits + at_work.in_chain(chain)?))
        }
        Modification::Resource { kind: ResourceKind::VirtualHost, criteria, change } => {
            change_virtual_hosts(resources, dialect, criteria, change)
        }
        Modification::Resource { kind: ResourceKind::Route, criteria, change } => {
            let inline = change_inline_routes(resources, dialect, criteria, change)?;
            match change {
                ResourceChange::Add(_) if inline > 0 => Ok(inline),
                _ => {
                    Ok(inline
                        + change_resources(resources, ResourceType::RouteConfiguration, dialect, criteria, change)?)
                }
            }
        }
        Modification::Resource { kind: ResourceKind::Cluster, criteria, change } => {
            change_resources(resources, ResourceType::Cluster, dialect, criteria, change)
        }
        Modification::Resource { kind: ResourceKind::Listener, criteria, change } => {
            change_resources(resources, ResourceType::Listener, dialect, criteria, change)
        }
    }
}

/// Inserts a resource under its key; one of the same kind and key makes way for it.
pub fn insert(resources: &mut Vec<Resource>, resource: Resource) {
    match resources.iter_mut().find(|old| old.kind == resource.kind && old.key == resource.key) {
        Some(old) => *old = resource,
        None => resources.push(resource),
    }
}

// === whole resources ===

fn change_resources(
    resources: &mut Vec<Resource>,
    kind: ResourceType,
    dialect: Dialect,
    criteria: &Criteria,
    change: &ResourceChange,
) -> Result<usize, String> {
    let meets = |resource: &Resource| resource.kind == kind && resource.meets(criteria, dialect);
    match change {
        ResourceChange::Add(content) => {
            let origin = match (kind, dialect) {
                (ResourceType::Listener, Dialect::MeshProxyPatch) => BY_PROXY_PATCH,
                _ => BY_MODIFICATION,
            };
            let (key, origin) = (name_of(content).to_owned(), origin.to_owned());
            insert(resources, Resource { kind, key, origin, content: content.clone() });
            Ok(1)
        }
        ResourceChange::Remove => {
            let before = resources.len();
            resources.retain(|resource| !meets(resource));
            Ok(before - resources.len())
        }
        ResourceChange::Patch(patch) => {
            let met = resources.iter_mut().filter(|resource| meets(resource));
            count(met, |resource| patch_message(kind.message(), &mut resource.content, patch))
        }
    }
}

/// Route configurations inside of connection managers. A connection manager must have routes, so that a removed
/// configuration leaves an empty one of its name.
fn change_inline_routes(
    resources: &mut [Resource],
    dialect: Dialect,
    criteria: &Criteria,
    change: &ResourceChange,
) -> Result<usize, String> {
    let listeners = Criteria { origin: criteria.origin.clone(), ..Criteria::default() };
    let name = match change {
        ResourceChange::Add(content) => Some(name_of(content)),
        _ => criteria.name.as_deref(),
    };
    let mut hits = 0;
    for chain in chains(resources, dialect, &listeners) {
        for route in inline_routes(chain)? {
            let own = name_of(route).to_owned();
            if name.is_some_and(|name| name != own) {
                continue;
            }
            hits += 1;
            match change {
                ResourceChange::Add(content) => *route = content.clone(),
                ResourceChange::Remove => *route = Value::Object(Map::from_iter([("name".to_owned(), own.into())])),
                ResourceChange::Patch(patch) => patch_message(MessageType::RouteConfiguration, route, patch)?,
            }
        }
    }
    Ok(hits)
}

fn change_virtual_hosts(
    resources: &mut [Resource],
    dialect: Dialect,
    criteria: &Criteria,
    change: &ResourceChange,
) -> Result<usize, String> {
    let listeners = Criteria { origin: criteria.origin.clone(), ..Criteria::default() };
    let meets = |host: &Value| criteria.name.as_deref().is_none_or(|name| name_of(host) == name);
    let mut hits = 0;
    for chain in chains(resources, dialect, &listeners) {
        for route in inline_routes(chain)? {
            if criteria.route_configuration_name.as_deref().is_some_and(|name| name_of(route) != name) {
                continue;
            }
            hits += change_list(route, "virtualHosts", |hosts| match change {
                ResourceChange::Add(content) => {
                    match hosts.iter_mut().find(|host| name_of(host) == name_of(content)) {
                        Some(old) => *old = content.clone(),
                        None => hosts.push(content.clone()),
                    }
                    Ok(1)
                }
                ResourceChange::Remove => Ok(remove(hosts, meets)),
                ResourceChange::Patch(patch) => {
                    let met = hosts.iter_mut().filter(|host| meets(host));
                    count(met, |host| patch_message(MessageType::VirtualHost, host, patch))
                }
            })?;
        }
    }
    Ok(hits)
}

fn patch_message(kind: MessageType, content: &mut Value, patch: &Patch<Value>) -> Result<(), String> {
    match patch {
        Patch::Merge(part) => {
            merge(kind.message(), content, part);
            Ok(())
        }
        Patch::Json(patches) => {
            let mut document = content.clone();
            run(&mut document, patches)?;
            let decoded = decode(kind, &document, Strictness::Partial);
            let decoded = decoded.map_err(|error| format!("the result is no {}: {error}", kind.name()))?;
            *content = decoded.document.to_value();
            Ok(())
        }
    }
}

fn run(document: &mut Value, patches: &[JsonPatch]) -> Result<(), String> {
    json_patch::apply(document, patches).map_err(|(position, reason)| format!("jsonPatches[{position}]: {reason}"))
}

// === filters ===

/// A change of filters, on its way through the chains of a listener.
#[derive(Clone, Copy)]
struct FilterWork<'m> {
    kind: FilterKind,
    criteria: &'m Criteria,
    change: &'m FilterChange,
}

impl FilterWork<'_> {
    fn in_chain(self, chain: &mut Value) -> Result<usize, String> {
        match self.kind {
            FilterKind::Network => change_list(chain, "filters", |filters| self.in_list(filters)),
            FilterKind::Http => connection_managers(chain).try_fold(0, |hits, manager| {
                Ok(hits + change_list(manager?, "httpFilters", |filters| self.in_list(filters))?)
            }),
        }
    }

    fn in_list(self, filters: &mut Vec<Value>) -> Result<usize, String> {
        let meets = |filter: &Value| self.criteria.name.as_deref().is_none_or(|name| name_of(filter) == name);
        match self.change {
            FilterChange::Insert(position, filter) => {
                let named = filters.iter().position(meets);
                let index = match position {
                    Position::First => Some(0),
                    Position::Last => Some(filters.len()),
                    Position::Before => named,
                    Position::After => named.map(|index| index + 1),
                };
                index.into_iter().for_each(|index| filters.insert(index, filter.clone()));
                Ok(usize::from(index.is_some()))
            }
            FilterChange::Remove => Ok(remove(filters, meets)),
            FilterChange::Patch(patch) => {
                let mut hits = 0;
                for filter in filters.iter_mut().filter(|filter| meets(filter)) {
                    hits += usize::from(patch_filter(filter, patch)?);
                }
                Ok(hits)
            }
        }
    }
}

/// Changes the typed config of a filter, and nothing else of it; whether there was anything to change.
fn patch_filter(filter: &mut Value, patch: &Patch<FilterPatch>) -> Result<bool, String> {
    let name = name_of(filter).to_owned();
    let Value::Object(fields) = filter else { return Ok(false) };
    // Its configuration comes from somewhere else: a typed one would cut it off from there.
    if fields.contains_key("configDiscovery") {
        return Ok(false);
    }
    let config = match (fields.get_mut("typedConfig").and_then(Value::as_object_mut), patch) {
        (Some(config), _) => config,
        (None, Patch::Merge(FilterPatch::Filter(part))) => {
            let config = part.get("typedConfig");
            fields.extend(config.map(|config| ("typedConfig".to_owned(), config.clone())));
            return Ok(config.is_some());
        }
        (None, _) => return Err(format!("the filter `{name}` has no typedConfig to patch")),
    };
    let url = config.get(TYPE_KEY).and_then(Value::as_str).unwrap_or_default().to_owned();
    let message = || {
        known(&url).ok_or_else(|| {
            format!("the type `{url}` of the filter `{name}` is not known, so nothing can be merged into it")
        })
    };
    match patch {
        Patch::Merge(FilterPatch::Filter(part)) => {
            let Some(Value::Object(part)) = part.get("typedConfig") else { return Ok(false) };
            let other = part.get(TYPE_KEY).and_then(Value::as_str).unwrap_or_default();
            if short(other) != short(&url) {
                return Err(format!(
                    "the filter `{name}` has a config of type `{url}`, the patch one of type `{other}`"
                ));
            }
            merge_config(message()?, config, part.clone());
        }
        Patch::Merge(FilterPatch::Body(body)) => {
            let part = read_config(&url, body)?.ok_or_else(|| message().err().unwrap_or_default())?;
            merge_config(message()?, config, part);
        }
        Patch::Json(patches) => {
            let mut document = Value::Object(config.clone());
            document.as_object_mut().into_iter().for_each(|document| drop(document.remove(TYPE_KEY)));
            run(&mut document, patches)?;
            let patched = match read_config(&url, &document)? {
                Some(patched) => patched,
                // A config that nobody can read is taken as it is.
                None => document.as_object().cloned().unwrap_or_default(),
            };
            *config = patched;
            config.insert(TYPE_KEY.to_owned(), url.into());
        }
    }
    Ok(true)
}

fn merge_config(message: &Message, config: &mut Map<String, Value>, part: Map<String, Value>) {
    let mut merged = Value::Object(std::mem::take(config));
    merge(message, &mut merged, &Value::Object(part));
    if let Value::Object(merged) = merged {
        *config = merged;
    }
}

/// The fields of a typed config; nothing if its type is not known.
fn read_config(url: &str, document: &Value) -> Result<Option<Map<String, Value>>, String> {
    let Some(decoded) = decode_as(short(url), document, Strictness::Partial) else { return Ok(None) };
    let decoded = decoded.map_err(|error| format!("not a valid {}: {error}", short(url)))?;
    Ok(match decoded.document.to_value() {
        Value::Object(fields) => Some(fields),
        _ => None,
    })
}

fn known(url: &str) -> Option<&'static Message> {
    Schema::get().message_of_url(url)
}

fn short(url: &str) -> &str {
    url.rsplit('/').next().unwrap_or(url)
}

// === ways into a listener ===

/// The filter chains of the listeners that meet the criteria for listeners.
fn chains<'r>(
    resources: &'r mut [Resource],
    dialect: Dialect,
    criteria: &'r Criteria,
) -> impl Iterator<Item = &'r mut Value> {
    let meets = move |resource: &&'r mut Resource| {
        resource.kind == ResourceType::Listener && resource.meets_as_listener(criteria, dialect)
    };
    resources.iter_mut().filter(meets).flat_map(|listener| list_mut(&mut listener.content, "filterChains"))
}

/// The configurations of the connection managers of a chain.
fn connection_managers(chain: &mut Value) -> impl Iterator<Item = Result<&mut Value, String>> {
    let managers = list_mut(chain, "filters").iter_mut().filter(|filter| name_of(filter) == CONNECTION_MANAGER);
    managers.map(|manager| {
        let config = manager.get_mut("typedConfig").filter(|config| config.is_object());
        config.ok_or_else(|| format!("a filter `{CONNECTION_MANAGER}` has no typedConfig"))
    })
}

/// The route configurations that the connection managers of a chain have inline.
fn inline_routes(chain: &mut Value) -> Result<Vec<&mut Value>, String> {
    let managers: Vec<_> = connection_managers(chain).collect::<Result<_, _>>()?;
    Ok(managers.into_iter().filter_map(|manager| manager.get_mut("routeConfig")).collect())
}

fn list_mut<'v>(object: &'v mut Value, field: &str) -> &'v mut [Value] {
    object.get_mut(field).and_then(Value::as_array_mut).map(Vec::as_mut_slice).unwrap_or_default()
}

/// Changes a list of an object; an empty one is an absent one.
fn change_list(
    object: &mut Value,
    field: &str,
    change: impl FnOnce(&mut Vec<Value>) -> Result<usize, String>,
) -> Result<usize, String> {
    let Value::Object(fields) = object else { return Ok(0) };
    let mut items = match fields.remove(field) {
        Some(Value::Array(items)) => items,
        _ => Vec::new(),
    };
    let hits = change(&mut items)?;
    if !items.is_empty() {
        fields.insert(field.to_owned(), Value::Array(items));
    }
    Ok(hits)
}

fn remove(items: &mut Vec<Value>, meets: impl Fn(&Value) -> bool) -> usize {
    let before = items.len();
    items.retain(|item| !meets(item));
    before - items.len()
}

fn count<'v, T: 'v>(
    mut items: impl Iterator<Item = &'v mut T>,
    mut change: impl FnMut(&mut T) -> Result<(), String>,
) -> Result<usize, String> {
    items.try_fold(0, |hits, item| change(item).map(|()| hits + 1))
}

fn name_of(object: &Value) -> &str {
    object.get("name").and_then(Value::as_str).unwrap_or_default()
}

impl Resource {
    /// Whether it is one of those that a change of whole resources means.
    fn meets(&self, criteria: &Criteria, dialect: Dialect) -> bool {
        self.is_named(criteria.name.as_deref(), dialect) && self.comes_from(criteria) && self.carries(&criteria.tags)
    }

    /// Whether it is one of those in which filters are meant.
    fn meets_as_listener(&self, criteria: &Criteria, dialect: Dialect) -> bool {
        self.is_named(criteria.listener_name.as_deref(), dialect)
            && self.comes_from(criteria)
            && self.carries(&criteria.listener_tags)
    }

    fn comes_from(&self, criteria: &Criteria) -> bool {
        criteria.origin.as_ref().is_none_or(|origin| *origin == self.origin)
    }

    fn is_named(&self, name: Option<&str>, dialect: Dialect) -> bool {
        let Some(name) = name else { return true };
        let has_aliases = self.kind == ResourceType::Listener && dialect == Dialect::MeshProxyPatch;
        name == self.key || has_aliases && unified(name) == unified(&self.key)
    }

    /// Whether a listener's tags hold all of these; `*` stands for any value.
    fn carries(&self, tags: &BTreeMap<String, String>) -> bool {
        let own = self.content.get("metadata").and_then(|metadata| metadata.get("filterMetadata")?.get(TAGS));
        tags.iter().all(|(key, wanted)| {
            let value = own.and_then(|own| own.get(key));
            value.is_some_and(|value| wanted == "*" || value.as_str().unwrap_or_default() == wanted)
        })
    }
}

/// Listeners of passed-through traffic have had two names: `inbound:passthrough:ipv4` is the older one.
fn unified(name: &str) -> String {
    let old = name.split_once(":passthrough:");
    let old = old.filter(|(way, family)| matches!(*way, "inbound" | "outbound") && matches!(*family, "ipv4" | "ipv6"));
    old.map_or_else(|| name.to_owned(), |(way, family)| format!("self_transparentproxy_passthrough_{way}_{family}"))
}

impl ResourceType {
    pub const ALL: [Self; 3] = [Self::Cluster, Self::Listener, Self::RouteConfiguration];

    pub fn message(self) -> MessageType {
        match self {
            Self::Cluster => MessageType::Cluster,
            Self::Listener => MessageType::Listener,
            Self::RouteConfiguration => MessageType::RouteConfiguration,
        }
    }

    /// `Cluster`, `Listener` or `RouteConfiguration`.
    pub fn name(self) -> &'static str {
        self.message().name()
    }
}

#[cfg(test)]
mod tests;
