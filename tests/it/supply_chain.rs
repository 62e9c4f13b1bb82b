//! What the program is made of, and that nothing of it can change unnoticed.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).to_owned()
}

#[test]
fn the_bill_of_materials_lists_every_crate_of_the_program_with_its_hash() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("sbom.json");
    let made = Command::new(root().join(".ci/sbom")).arg(&file).output().expect("Python runs");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let bill: Value = serde_json::from_slice(&std::fs::read(file).expect("a file")).expect("JSON");
    assert_eq!((bill["bomFormat"].as_str(), bill["specVersion"].as_str()), (Some("CycloneDX"), Some("1.5")));
    assert_eq!(bill["metadata"]["component"]["name"], "writ");
    let components = bill["components"].as_array().expect("components");
    let found = |name: &str| components.iter().find(|component| component["name"] == name);
    for component in components {
        let name = &component["name"];
        assert_eq!(component["hashes"][0]["content"].as_str().map(str::len), Some(64), "{name}");
        assert!(component["purl"].as_str().is_some_and(|purl| purl.starts_with("pkg:cargo/")), "{name}");
    }
    for name in ["rustls", "kube", "hyper", "serde_json"] {
        let component = found(name).unwrap_or_else(|| panic!("{name} is missing"));
        let reference = &component["bom-ref"];
        let needed = bill["dependencies"].as_array().expect("a graph").iter().any(|node| node["ref"] == *reference);
        assert!(needed, "{name} is in no dependency");
    }
    for name in ["proptest", "jmespath"] {
        assert!(found(name).is_none(), "{name} is for tests only");
    }
}

/// A tag may become another image overnight.
#[test]
fn images_have_no_base_or_one_that_is_pinned_by_digest() {
    let text = std::fs::read_to_string(root().join("Dockerfile")).expect("a Dockerfile");
    let bases: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("FROM ")).collect();
    assert!(!bases.is_empty());
    for base in bases {
        let image = base.split_whitespace().next().unwrap_or_default();
        assert!(image == "scratch" || image.contains("@sha256:"), "{base}");
    }
}

#[test]
fn advisories_are_checked_and_none_is_ignored_without_a_word() {
    let rules = std::fs::read_to_string(root().join("deny.toml")).expect("deny.toml");
    assert!(rules.contains("[advisories]"));
    let makefile = std::fs::read_to_string(root().join("Makefile")).expect("a Makefile");
    assert!(makefile.lines().any(|line| line.contains(" check ") && line.contains("advisories")));
}
