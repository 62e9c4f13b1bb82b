//! All destinations of one mesh, found by key and by label without looking at the others.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use smallvec::SmallVec;

use super::kind::ResourceType;
use super::meta::{DISPLAY_NAME, NAMESPACE, ResourceKey, ResourceMeta};
use super::resources::{Destination, ServicePort};
use super::target_ref::{Pairs, ResourceRef, TargetRef};

/// The position of a destination; it stays the same while the destination is there.
pub type Slot = u32;

/// Services and routes of a mesh.
#[derive(Clone, Debug, Default)]
pub struct Destinations {
    slots: Vec<Option<Held>>,
    free: Vec<Slot>,
    by_name: BTreeMap<(&'static ResourceType, Arc<str>), Slot>,
    kinds: BTreeMap<&'static ResourceType, KindIndex>,
}

/// A destination with its key, which is made once.
#[derive(Clone, Debug)]
struct Held {
    destination: Arc<Destination>,
    key: Arc<ResourceKey>,
}

/// The destinations of one kind.
#[derive(Clone, Debug, Default)]
struct KindIndex {
    /// Without sections. Two copies of one resource share a key.
    by_key: HashMap<Arc<ResourceKey>, SmallVec<[Slot; 2]>>,
    by_label: HashMap<Arc<str>, HashMap<Arc<str>, Vec<Slot>>>,
    all: Vec<Slot>,
}

/// Which part of a destination an entry means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part<'r> {
    Whole,
    Section(&'r str),
    Port(u32),
}

impl Destinations {
    /// Puts a destination in the place of the one with its kind and name.
    pub fn insert(&mut self, destination: Arc<Destination>) {
        let meta = &destination.meta;
        self.remove(meta.kind, &meta.name);
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            u32::try_from(self.slots.len() - 1).unwrap_or(Slot::MAX)
        });
        self.by_name.insert((meta.kind, meta.name.as_str().into()), slot);
        let index = self.kinds.entry(meta.kind).or_default();
        add(&mut index.all, slot);
        let key = Arc::new(meta.key());
        index.by_key.entry(key.clone()).or_default().push(slot);
        for (key, value) in &meta.labels {
            let values = index.by_label.entry(key.as_str().into()).or_default();
            add(values.entry(value.as_str().into()).or_default(), slot);
        }
        if let Some(place) = self.slots.get_mut(slot as usize) {
            *place = Some(Held { destination, key });
        }
    }

    pub fn remove(&mut self, kind: &'static ResourceType, name: &str) -> bool {
        let Some(slot) = self.by_name.remove(&(kind, name.into())) else { return false };
        let Some(Held { destination, key }) = self.slots.get_mut(slot as usize).and_then(Option::take) else {
            return false;
        };
        self.free.push(slot);
        let Some(index) = self.kinds.get_mut(kind) else { return false };
        index.all.retain(|held| *held != slot);
        if let Some(copies) = index.by_key.get_mut(&key) {
            copies.retain(|held| *held != slot);
            if copies.is_empty() {
                index.by_key.remove(&key);
            }
        }
        for (label, value) in &destination.meta.labels {
            let Some(values) = index.by_label.get_mut(label.as_str()) else { continue };
            if let Some(slots) = values.get_mut(value.as_str()) {
                slots.retain(|held| *held != slot);
                if slots.is_empty() {
                    values.remove(value.as_str());
                }
            }
            if values.is_empty() {
                index.by_label.remove(label.as_str());
            }
        }
        true
    }

    pub fn get(&self, slot: Slot) -> Option<&Arc<Destination>> {
        Some(&self.slots.get(slot as usize)?.as_ref()?.destination)
    }

    /// The key of a destination, without a section.
    pub fn key(&self, slot: Slot) -> Option<&Arc<ResourceKey>> {
        Some(&self.slots.get(slot as usize)?.as_ref()?.key)
    }

    /// One more than the highest slot that is in use.
    pub fn end(&self) -> usize {
        self.slots.len()
    }

    pub fn by_name(&self, kind: &'static ResourceType, name: &str) -> Option<&Arc<Destination>> {
        self.get(*self.by_name.get(&(kind, name.into()))?)
    }

    /// The destination with a key, whatever its section. Of several copies it is the oldest, then the one with the
    /// smallest name.
    pub fn by_key(&self, key: &ResourceKey) -> Option<&Arc<Destination>> {
        let slot =
            if key.section.is_empty() { self.slot_of(key) } else { self.slot_of(&key.clone().without_section()) };
        self.get(slot?)
    }

    /// All destinations of a kind, with their slots.
    pub fn of_kind(&self, kind: &str) -> impl Iterator<Item = (Slot, &Arc<Destination>)> {
        let slots = self.index_of(kind).into_iter().flat_map(|(_, index)| &index.all);
        slots.filter_map(|slot| Some((*slot, self.get(*slot)?)))
    }

    fn slot_of(&self, key: &ResourceKey) -> Option<Slot> {
        let slots = self.kinds.get(key.kind)?.by_key.get(key)?;
        let age = |slot: &&Slot| {
            let meta = self.get(**slot).map(|destination| &destination.meta);
            meta.map(|meta| (meta.created.unwrap_or(i64::MAX), meta.name.as_str()))
        };
        slots.iter().min_by_key(age).copied()
    }

    fn index_of(&self, kind: &str) -> Option<(&'static ResourceType, &KindIndex)> {
        self.kinds.iter().find(|(held, _)| held.kind == kind).map(|(kind, index)| (*kind, index))
    }

    /// The destinations that a reference in a policy means, each with a section, which is empty for the whole of it. What
    /// does not resolve is skipped.
    pub fn resolve(&self, target: &TargetRef, policy: &ResourceMeta) -> Vec<(Slot, &str)> {
        let Some((reference, part)) = destination_of(target) else { return Vec::new() };
        let Some((kind, index)) = self.index_of(target.kind().name()) else { return Vec::new() };
        let (slots, part) = match reference {
            ResourceRef::Labelled(labels) => (index.labelled(labels), part),
            ResourceRef::Named { name, namespace } => match compatibility_name(target, name) {
                Some((labels, port)) => (index.labelled(&labels), port.map_or(Part::Whole, Part::Port)),
                None => {
                    let key = ResourceKey {
                        kind,
                        mesh: policy.mesh.clone(),
                        zone: policy.zone().to_owned(),
                        namespace: namespace.as_deref().unwrap_or(policy.namespace()).to_owned(),
                        name: name.clone(),
                        section: String::new(),
                    };
                    (self.slot_of(&key).into_iter().collect(), part)
                }
            },
        };
        slots.into_iter().filter_map(|slot| Some((slot, part.section_of(self.get(slot)?)?))).collect()
    }
}

impl KindIndex {
    /// The destinations that carry every label.
    fn labelled(&self, labels: &Pairs) -> Vec<Slot> {
        let lists = labels.iter().map(|(key, value)| self.by_label.get(key.as_str())?.get(value.as_str()));
        let Some(mut lists) = lists.collect::<Option<Vec<_>>>() else { return Vec::new() };
        lists.sort_by_key(|list| list.len());
        let Some((shortest, others)) = lists.split_first() else { return self.all.clone() };
        let in_all = |slot: &&Slot| others.iter().all(|list| list.binary_search(slot).is_ok());
        shortest.iter().filter(in_all).copied().collect()
    }
}

impl Part<'_> {
    /// The section of a destination that is meant; `None` if it has no such port.
    fn section_of<'d>(&self, destination: &'d Destination) -> Option<&'d str> {
        let port = |wanted: &dyn Fn(&ServicePort) -> bool| destination.ports.iter().find(|port| wanted(port));
        match self {
            Self::Whole => Some(""),
            _ if destination.ports.is_empty() => Some(""),
            Self::Section(section) => Some(&port(&|port| port.section == *section)?.section),
            Self::Port(number) => Some(&port(&|port| port.number == *number)?.section),
        }
    }
}

/// The reference to resources in a `targetRef`, if its kind has any.
fn destination_of(target: &TargetRef) -> Option<(&ResourceRef, Part<'_>)> {
    match target {
        TargetRef::MeshService { service, section } | TargetRef::MeshMultiZoneService { service, section } => {
            let part = section.as_deref().filter(|section| !section.is_empty()).map_or(Part::Whole, Part::Section);
            Some((service, part))
        }
        TargetRef::MeshExternalService(resource)
        | TargetRef::MeshHttpRoute(resource)
        | TargetRef::MeshTcpRoute(resource) => Some((resource, Part::Whole)),
        _ => None,
    }
}

/// Reads a name like `backend_shop_svc_8080`, which older policies use, as labels and a port.
fn compatibility_name(target: &TargetRef, name: &str) -> Option<(Pairs, Option<u32>)> {
    if !matches!(target, TargetRef::MeshService { section: None, .. }) {
        return None;
    }
    let parts: Vec<&str> = name.split('_').collect();
    let (display, namespace, port) = match parts.as_slice() {
        [display, namespace, _] => (display, namespace, None),
        [display, namespace, _, port] => (display, namespace, Some(port.parse().ok()?)),
        _ => return None,
    };
    let labels = [(NAMESPACE, namespace), (DISPLAY_NAME, display)];
    Some((labels.into_iter().map(|(key, value)| (key.to_owned(), (*value).to_owned())).collect(), port))
}

/// Adds to a sorted list.
fn add(list: &mut Vec<Slot>, slot: Slot) {
    if let Err(at) = list.binary_search(&slot) {
        list.insert(at, slot);
    }
}
