//! The resources and policies of all meshes: takes documents, gives snapshots.
//!
//! A snapshot shares everything with the index and with other snapshots. A change copies only the part that it is in: the
//! policies of one kind, or the proxies, or the destinations of one mesh.

mod contents;
mod rules;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;

use crate::compile::mesh::{Compiled, compiled, kinds, resource_name};
use crate::core::mesh::kind::{KindTable, MESH, ResourceType};
use crate::core::mesh::resources::Destination;

pub use contents::{MeshContents, StoredResource};
pub use rules::{ProxyMatches, ToRules};

/// Takes documents, gives snapshots.
#[derive(Debug, Default)]
pub struct MeshIndex {
    meshes: BTreeMap<String, Arc<MeshContents>>,
}

/// All meshes at one moment.
#[derive(Clone, Debug, Default)]
pub struct MeshSnapshot {
    meshes: BTreeMap<String, Arc<MeshContents>>,
}

/// By what the index knows a document: its kind, its mesh and its core name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct MeshKey {
    pub kind: &'static ResourceType,
    /// That of a Mesh is its own name.
    pub mesh: String,
    pub name: String,
}

impl MeshKey {
    /// The key of a document; `None` for a kind that the index does not hold.
    pub fn of(document: &Value) -> Option<Self> {
        let (kind, mesh, name) = resource_name(document)?;
        let mesh = if *kind == MESH { name.clone() } else { mesh };
        Some(Self { kind, mesh, name })
    }
}

impl MeshIndex {
    /// Takes a document in the place of the one with its key. One that cannot be read is as good as none. Gives the key of
    /// a kind that the index holds.
    pub fn apply(&mut self, document: &Value) -> Option<MeshKey> {
        let key = MeshKey::of(document)?;
        let Some(compiled) = compiled(document) else {
            self.delete(&key);
            return None;
        };
        let mesh = Arc::make_mut(self.meshes.entry(key.mesh.clone()).or_default());
        mesh.remember(&key, document);
        match compiled {
            Compiled::Mesh(resource) => mesh.set_mesh(Some(resource)),
            Compiled::Dataplane(dataplane) => mesh.insert_dataplane(dataplane),
            Compiled::Gateway(gateway) => mesh.insert_gateway(gateway),
            Compiled::Destination(destination) => mesh.insert_destination(destination),
            Compiled::Policy(policy) => {
                if policy.kind.is_route() {
                    let meta = policy.meta.clone();
                    mesh.insert_destination(Destination { meta, ports: Vec::new(), selector: Default::default() });
                }
                mesh.insert_policy(policy);
            }
        }
        Some(key)
    }

    pub fn delete(&mut self, key: &MeshKey) {
        let Some(mesh) = self.meshes.get_mut(&key.mesh) else { return };
        if !mesh.has(key) {
            return;
        }
        Arc::make_mut(mesh).remove(key);
        if mesh.is_empty() {
            self.meshes.remove(&key.mesh);
        }
    }

    /// Forgets every resource of a kind that a list of them did not name.
    pub fn retain(&mut self, kind: &ResourceType, listed: &BTreeSet<MeshKey>) {
        let held = self.meshes.iter().flat_map(|(mesh, contents)| {
            let names = contents.names_of(kind);
            names.map(move |(kind, name)| MeshKey { kind, mesh: mesh.clone(), name: name.to_owned() })
        });
        let gone: Vec<_> = held.filter(|key| !listed.contains(key)).collect();
        gone.iter().for_each(|key| self.delete(key));
    }

    pub fn snapshot(&self) -> MeshSnapshot {
        MeshSnapshot { meshes: self.meshes.clone() }
    }
}

impl MeshSnapshot {
    /// The contents of a mesh that exists as a resource.
    pub fn mesh(&self, name: &str) -> Option<&MeshContents> {
        self.meshes.get(name).map(Arc::as_ref).filter(|contents| contents.resource().is_some())
    }

    /// All that belongs to a mesh, whether or not the mesh itself is known.
    pub fn contents(&self, name: &str) -> Option<&MeshContents> {
        self.meshes.get(name).map(Arc::as_ref)
    }

    pub fn kinds(&self) -> &'static KindTable {
        kinds()
    }
}
