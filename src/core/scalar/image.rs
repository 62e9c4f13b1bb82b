//! Image references, and the `images` document that expressions see for workloads.

use serde_json::{Map, Value};

/// A parsed image reference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    /// Empty if it was defaulted and defaults are not to be written.
    pub registry: String,
    pub path: String,
    pub tag: String,
    pub digest: String,
}

/// What an operator may set about image references.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageDefaults {
    pub registry: String,
    /// Whether a defaulted registry shows in the result.
    pub write_registry: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "bad image: {image}, defaultRegistry: {registry}, enableDefaultRegistryMutation: {write_registry}: invalid reference format"
)]
pub struct ImageError {
    image: String,
    registry: String,
    write_registry: bool,
}

/// The limit of the distribution registry for registry and path together.
const LONGEST_NAME: usize = 255;
const CONTAINER_LISTS: [&str; 3] = ["containers", "ephemeralContainers", "initContainers"];

impl Default for ImageDefaults {
    fn default() -> Self {
        Self { registry: "docker.io".into(), write_registry: true }
    }
}

impl Image {
    pub fn parse(text: &str, defaults: &ImageDefaults) -> Result<Self, ImageError> {
        let defaulted = lacks_registry(text);
        let full = if defaulted { format!("{}/{text}", defaults.registry) } else { text.to_owned() };
        let mut image = parse_reference(&full).ok_or_else(|| ImageError {
            image: full.clone(),
            registry: defaults.registry.clone(),
            write_registry: defaults.write_registry,
        })?;
        if image.tag.is_empty() && image.digest.is_empty() {
            image.tag.push_str("latest");
        }
        if defaulted && !defaults.write_registry {
            image.registry.clear();
        }
        Ok(image)
    }

    /// The last segment of the path.
    pub fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or_default()
    }

    /// Registry and path with the digest, or with the tag if there is no digest.
    pub fn reference(&self) -> String {
        if self.digest.is_empty() {
            self.reference_with_tag()
        } else {
            format!("{}@{}", self.repository(), self.digest)
        }
    }

    /// Registry and path with the tag, even if that is empty.
    pub fn reference_with_tag(&self) -> String {
        format!("{}:{}", self.repository(), self.tag)
    }

    fn repository(&self) -> String {
        if self.registry.is_empty() { self.path.clone() } else { format!("{}/{}", self.registry, self.path) }
    }

    /// The entry of the `images` document; empty parts are left out.
    fn document(&self, pointer: &str) -> Value {
        let mut entry = Map::new();
        let mut add = |key: &str, value: String| {
            if !value.is_empty() {
                entry.insert(key.to_owned(), value.into());
            }
        };
        add("registry", self.registry.clone());
        add("name", self.name().to_owned());
        add("path", self.path.clone());
        add("tag", self.tag.clone());
        add("digest", self.digest.clone());
        add("reference", self.reference());
        add("referenceWithTag", self.reference_with_tag());
        add("jsonPointer", pointer.to_owned());
        Value::Object(entry)
    }
}

/// The `images` document of a workload, by container list and container name. `None` if the kind has no pod template or
/// no container names an image.
pub fn images(object: &Value, defaults: &ImageDefaults) -> Result<Option<Value>, ImageError> {
    let kind = object.get("kind").and_then(Value::as_str).unwrap_or_default();
    let Some(pod) = pod_pointer(kind) else { return Ok(None) };
    let Some(spec) = object.pointer(pod) else {
        return Ok(None);
    };
    let mut lists = Map::new();
    for list in CONTAINER_LISTS {
        let containers = spec.get(list).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let mut entries = Map::new();
        for (index, container) in containers.iter().enumerate() {
            let text = |key: &str| container.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
            if let (Some(name), Some(image)) = (text("name"), text("image")) {
                let image = Image::parse(image, defaults)?;
                entries.insert(name.to_owned(), image.document(&format!("{pod}/{list}/{index}/image")));
            }
        }
        if !entries.is_empty() {
            lists.insert(list.to_owned(), Value::Object(entries));
        }
    }
    Ok((!lists.is_empty()).then_some(Value::Object(lists)))
}

fn pod_pointer(kind: &str) -> Option<&'static str> {
    match kind {
        "Pod" => Some("/spec"),
        "Deployment" | "DaemonSet" | "ReplicaSet" | "ReplicationController" | "StatefulSet" | "Job" => {
            Some("/spec/template/spec")
        }
        "CronJob" => Some("/spec/jobTemplate/spec/template/spec"),
        _ => None,
    }
}

/// Whether the part before the first slash cannot be a registry.
fn lacks_registry(text: &str) -> bool {
    match text.split_once('/') {
        None => true,
        Some((first, _)) => !first.contains(['.', ':']) && first != "localhost" && first.to_lowercase() == first,
    }
}

/// `[registry/]path[:tag][@digest]`. What cannot be a registry is the first part of the path.
fn parse_reference(text: &str) -> Option<Image> {
    let (rest, digest) = match text.split_once('@') {
        Some((rest, digest)) => (rest, is_digest(digest).then_some(digest)?),
        None => (text, ""),
    };
    let (registry, rest) = match rest.split_once('/') {
        Some((registry, path)) if is_registry(registry) => (registry, path),
        _ => ("", rest),
    };
    let (path, tag) = match rest.split_once(':') {
        Some((path, tag)) => (path, is_tag(tag).then_some(tag)?),
        None => (rest, ""),
    };
    let sound = path.split('/').all(is_path_component) && registry.len() + 1 + path.len() <= LONGEST_NAME;
    sound.then(|| Image {
        registry: registry.to_owned(),
        path: path.to_owned(),
        tag: tag.to_owned(),
        digest: digest.to_owned(),
    })
}

fn is_registry(text: &str) -> bool {
    let (host, port) = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((address, port)) => {
            let address = !address.is_empty() && address.bytes().all(|b| b.is_ascii_hexdigit() || b == b':');
            if !address {
                return false;
            }
            (None, port.strip_prefix(':').or((!port.is_empty()).then_some("")))
        }
        None => match text.split_once(':') {
            Some((host, port)) => (Some(host), Some(port)),
            None => (Some(text), None),
        },
    };
    let host = host.is_none_or(|host| host.split('.').all(is_host_component));
    let port = port.is_none_or(|port| !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit()));
    host && port
}

fn is_host_component(text: &str) -> bool {
    !text.is_empty()
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
        && !text.starts_with('-')
        && !text.ends_with('-')
}

/// Lower-case letters and digits, joined by one dot, one or two underscores, or dashes.
fn is_path_component(text: &str) -> bool {
    let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let known = text.bytes().all(|b| plain(b) || matches!(b, b'.' | b'_' | b'-'));
    let ends = text.bytes().next().is_some_and(plain) && text.bytes().next_back().is_some_and(plain);
    let separators = text.split(|c: char| c.is_ascii_alphanumeric()).filter(|run| !run.is_empty());
    known && ends && separators.into_iter().all(|run| matches!(run, "." | "_" | "__") || run.bytes().all(|b| b == b'-'))
}

fn is_tag(text: &str) -> bool {
    text.len() <= 128
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'-'))
        && text.bytes().next().is_some_and(|first| !matches!(first, b'.' | b'-'))
}

/// A digest of one of the registered algorithms, in lower case.
fn is_digest(text: &str) -> bool {
    let Some((algorithm, hash)) = text.split_once(':') else {
        return false;
    };
    let length = match algorithm {
        "sha256" => 64,
        "sha384" => 96,
        "sha512" => 128,
        _ => return false,
    };
    hash.len() == length && hash.bytes().all(|b| b.is_ascii_digit() || matches!(b, b'a'..=b'f'))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    const DIGEST: &str = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

    #[track_caller]
    fn parse(text: &str) -> Image {
        Image::parse(text, &ImageDefaults::default()).unwrap_or_else(|error| panic!("{error}"))
    }

    #[test]
    fn references_are_normalised() {
        #[track_caller]
        fn check(text: &str, reference: &str) {
            assert_eq!(parse(text).reference(), reference);
        }
        check("nginx", "docker.io/nginx:latest");
        check("docker.io/library/nginx", "docker.io/library/nginx:latest");
        check("ghcr.io/nginx:1.2", "ghcr.io/nginx:1.2");
        check("test/nginx:v1", "docker.io/test/nginx:v1");
        check("localhost/nginx", "localhost/nginx:latest");
        check("localhost:5000/a/b", "localhost:5000/a/b:latest");
        check("[::1]:5000/a", "[::1]:5000/a:latest");
        check("Registry/a", "Registry/a:latest");
        check("a__b/c-d.e", "docker.io/a__b/c-d.e:latest");
        check("x_y.z/a:1", "x_y.z/a:1");
        check(&format!("test/centos@{DIGEST}"), &format!("docker.io/test/centos@{DIGEST}"));
        check(&format!("test/centos:7@{DIGEST}"), &format!("docker.io/test/centos@{DIGEST}"));
    }

    #[test]
    fn parts() {
        let image = parse(&format!("test/centos@{DIGEST}"));
        assert_eq!(image.name(), "centos");
        assert_eq!(image.path, "test/centos");
        assert_eq!(image.tag, "");
        assert_eq!(image.reference_with_tag(), "docker.io/test/centos:");
    }

    #[test]
    fn a_default_registry_may_stay_unwritten() {
        let defaults = ImageDefaults { registry: "docker.io".into(), write_registry: false };
        assert_eq!(Image::parse("nginx", &defaults).unwrap().reference(), "nginx:latest");
        assert_eq!(Image::parse("ghcr.io/nginx", &defaults).unwrap().reference(), "ghcr.io/nginx:latest");
    }

    #[test]
    fn bad_references_are_refused() {
        assert_eq!(
            Image::parse("", &ImageDefaults::default()).unwrap_err().to_string(),
            "bad image: docker.io/, defaultRegistry: docker.io, enableDefaultRegistryMutation: true: invalid reference format"
        );
        for text in [
            "Nginx",
            "a//b",
            "a/",
            "/a",
            "a:",
            "a:-x",
            "a@sha256:12",
            "a@md5:d41d8cd98f00b204e9800998ecf8427e",
            "a b",
            "a._b",
            "a___b",
            "-a/b.c/d",
            "h.io:/a",
            "h.io:x/a",
            "[zz]/a",
            "[::1]x/a",
        ] {
            assert!(Image::parse(text, &ImageDefaults::default()).is_err(), "{text}");
        }
        assert!(Image::parse(&"a".repeat(300), &ImageDefaults::default()).is_err());
        assert!(Image::parse(&format!("a:{}", "b".repeat(129)), &ImageDefaults::default()).is_err());
    }

    #[test]
    fn documents_of_workloads() {
        let entry = |image: &str, pointer: &str| parse(image).document(pointer);
        let pod = json!({"kind": "Pod", "spec": {
            "initContainers": [{"name": "init", "image": "busybox:1"}],
            "containers": [{"name": "none"}, {"name": "app", "image": "ghcr.io/a/b:v1"}],
        }});
        let expected = json!({
            "initContainers": {"init": entry("busybox:1", "/spec/initContainers/0/image")},
            "containers": {"app": {
                "registry": "ghcr.io", "name": "b", "path": "a/b", "tag": "v1", "reference": "ghcr.io/a/b:v1",
                "referenceWithTag": "ghcr.io/a/b:v1", "jsonPointer": "/spec/containers/1/image",
            }},
        });
        assert_eq!(images(&pod, &ImageDefaults::default()), Ok(Some(expected)));

        let template = json!({"spec": {"containers": [{"name": "app", "image": "nginx"}]}});
        for (object, pointer) in [
            (json!({"kind": "Deployment", "spec": {"template": template}}), "/spec/template/spec/containers/0/image"),
            (json!({"kind": "Job", "spec": {"template": template}}), "/spec/template/spec/containers/0/image"),
            (
                json!({"kind": "CronJob", "spec": {"jobTemplate": {"spec": {"template": template}}}}),
                "/spec/jobTemplate/spec/template/spec/containers/0/image",
            ),
        ] {
            let expected = json!({"containers": {"app": entry("nginx", pointer)}});
            assert_eq!(images(&object, &ImageDefaults::default()), Ok(Some(expected)));
        }
    }

    #[test]
    fn kinds_without_images_have_no_document() {
        for object in [
            json!({"kind": "ConfigMap", "spec": {"containers": [{"name": "a", "image": "b"}]}}),
            json!({"kind": "Pod", "spec": {"containers": [{"name": "a"}]}}),
            json!({"kind": "Pod"}),
            json!(null),
        ] {
            assert_eq!(images(&object, &ImageDefaults::default()), Ok(None));
        }
        let bad = json!({"kind": "Pod", "spec": {"containers": [{"name": "a", "image": "A B"}]}});
        assert!(images(&bad, &ImageDefaults::default()).is_err());
    }

    proptest! {
        #[test]
        fn normal_references_stay(text in "([a-z]{1,3}[.]io/)?[a-z]{1,4}(/[a-z0-9]{1,4})?(:[a-z0-9]{1,4})?") {
            let reference = parse(&text).reference();
            prop_assert_eq!(parse(&reference).reference(), reference);
        }
    }
}
