//! Who a resource of the mesh is: its meta data, its key, and the text form of the key (KRI).

use std::fmt;

use super::kind::{KindTable, MESH, ResourceType};
use super::policy::Role;
use super::target_ref::Pairs;

pub const MESH_LABEL: &str = "kuma.io/mesh";
pub const DISPLAY_NAME: &str = "kuma.io/display-name";
pub const NAMESPACE: &str = "k8s.kuma.io/namespace";
pub const ZONE: &str = "kuma.io/zone";
pub const ORIGIN: &str = "kuma.io/origin";
pub const POLICY_ROLE: &str = "kuma.io/policy-role";
pub const EFFECT: &str = "kuma.io/effect";

/// What every resource says about itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourceMeta {
    pub kind: &'static ResourceType,
    /// Empty for kinds that belong to no mesh.
    pub mesh: String,
    /// The core name: as given, or `<name>.<namespace>` for an object of a Kubernetes namespace.
    pub name: String,
    pub labels: Pairs,
    /// Seconds since 1970, if known.
    pub created: Option<i64>,
}

/// Where a resource comes from, in the order of precedence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ResourceOrigin {
    Global,
    Unknown,
    Zone,
}

/// The identity of a resource, or of a section of it. It stays the same when the resource is copied to another zone.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ResourceKey {
    pub kind: &'static ResourceType,
    pub mesh: String,
    pub zone: String,
    pub namespace: String,
    pub name: String,
    /// Empty for the whole resource.
    pub section: String,
}

/// Why a text is not a KRI.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KriError {
    #[error("invalid identifier string: {0:?}")]
    Parts(String),
    #[error("identifier must start with 'kri': {0:?}")]
    Prefix(String),
    #[error("unknown short name of resource type: {0:?}")]
    ShortName(String),
}

impl ResourceMeta {
    /// A label that is not empty.
    pub fn label(&self, key: &str) -> Option<&str> {
        self.labels.get(key).map(String::as_str).filter(|value| !value.is_empty())
    }

    pub fn display_name(&self) -> &str {
        self.label(DISPLAY_NAME).unwrap_or(&self.name)
    }

    /// The zone of origin; empty without one.
    pub fn zone(&self) -> &str {
        self.label(ZONE).unwrap_or_default()
    }

    /// The namespace of origin, which a copy in another zone keeps; empty without one.
    pub fn namespace(&self) -> &str {
        self.label(NAMESPACE).unwrap_or_default()
    }

    pub fn origin(&self) -> ResourceOrigin {
        match self.label(ORIGIN) {
            Some("global") => ResourceOrigin::Global,
            Some("zone") => ResourceOrigin::Zone,
            _ => ResourceOrigin::Unknown,
        }
    }

    pub fn role(&self) -> Role {
        self.label(POLICY_ROLE).and_then(Role::parse).unwrap_or_default()
    }

    /// A shadow policy is stored and not applied.
    pub fn is_shadow(&self) -> bool {
        self.label(EFFECT) == Some("shadow")
    }

    pub fn key(&self) -> ResourceKey {
        self.section_key("")
    }

    pub fn section_key(&self, section: &str) -> ResourceKey {
        let (mesh, zone, namespace, name) = if *self.kind == MESH {
            ("", "", "", self.name.as_str())
        } else {
            (self.mesh.as_str(), self.zone(), self.namespace(), self.display_name())
        };
        let owned = str::to_owned;
        ResourceKey {
            kind: self.kind,
            mesh: owned(mesh),
            zone: owned(zone),
            namespace: owned(namespace),
            name: owned(name),
            section: owned(section),
        }
    }
}

impl ResourceKey {
    /// Reads the text form. A section with an underscore does not read back: the peer joins its parts without one.
    pub fn parse(text: &str, kinds: &KindTable) -> Result<Self, KriError> {
        let parts: Vec<&str> = text.split('_').collect();
        let [prefix, short, mesh, zone, namespace, name, section @ ..] = parts.as_slice() else {
            return Err(KriError::Parts(text.to_owned()));
        };
        if section.is_empty() {
            return Err(KriError::Parts(text.to_owned()));
        }
        if *prefix != "kri" {
            return Err(KriError::Prefix(text.to_owned()));
        }
        let kind = kinds.resource_by_short(short).ok_or_else(|| KriError::ShortName((*short).to_owned()))?;
        let owned = |part: &str| part.to_owned();
        Ok(Self {
            kind,
            mesh: owned(mesh),
            zone: owned(zone),
            namespace: owned(namespace),
            name: owned(name),
            section: section.concat(),
        })
    }

    #[must_use]
    pub fn without_section(mut self) -> Self {
        self.section.clear();
        self
    }
}

impl fmt::Display for ResourceKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, mesh, zone, namespace, name, section } = self;
        write!(f, "kri_{}_{mesh}_{zone}_{namespace}_{name}_{section}", kind.short)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::mesh::kind::{DATAPLANE, MESH_SERVICE};

    fn kinds() -> KindTable {
        KindTable::new([])
    }

    fn meta(kind: &'static ResourceType, labels: &[(&str, &str)]) -> ResourceMeta {
        let labels = labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        ResourceMeta {
            kind,
            mesh: "mesh-1".to_owned(),
            name: "backend-x.kuma-system".to_owned(),
            labels,
            created: None,
        }
    }

    #[test]
    fn a_key_is_the_same_wherever_the_resource_is_copied_to() {
        let labels = [(ZONE, "east"), (NAMESPACE, "finance"), (DISPLAY_NAME, "backend")];
        let key = meta(&MESH_SERVICE, &labels).section_key("http-port");
        assert_eq!(key.to_string(), "kri_msvc_mesh-1_east_finance_backend_http-port");
        assert_eq!(ResourceKey::parse("kri_msvc_mesh-1_east_finance_backend_http-port", &kinds()), Ok(key));
        assert_eq!(meta(&DATAPLANE, &[]).key().to_string(), "kri_dp_mesh-1___backend-x.kuma-system_");
        let mesh = ResourceMeta { mesh: String::new(), name: "mesh-1".to_owned(), ..meta(&MESH, &labels) };
        assert_eq!(mesh.key().to_string(), "kri_m____mesh-1_");
    }

    #[test]
    fn what_is_not_a_kri() {
        let parse = |text: &str| ResourceKey::parse(text, &kinds()).map_err(|error| error.to_string());
        assert_eq!(parse("kri_msvc_a_b_c_d"), Err("invalid identifier string: \"kri_msvc_a_b_c_d\"".to_owned()));
        assert_eq!(parse("x_msvc_a_b_c_d_e"), Err("identifier must start with 'kri': \"x_msvc_a_b_c_d_e\"".to_owned()));
        assert_eq!(parse("kri_zz_a_b_c_d_e"), Err("unknown short name of resource type: \"zz\"".to_owned()));
        // The parts after the sixth are one section, without their underscores.
        assert_eq!(parse("kri_msvc_a_b_c_d_e_f").map(|key| key.section), Ok("ef".to_owned()));
    }

    #[test]
    fn empty_labels_count_as_none() {
        let empty = meta(&MESH_SERVICE, &[(DISPLAY_NAME, ""), (ORIGIN, ""), (POLICY_ROLE, "")]);
        assert_eq!((empty.display_name(), empty.role()), ("backend-x.kuma-system", Role::System));
        assert_eq!(empty.origin(), ResourceOrigin::Unknown);
        assert!(ResourceOrigin::Global < ResourceOrigin::Unknown && ResourceOrigin::Unknown < ResourceOrigin::Zone);
    }
}
