//! The files of `manifests/` that follow from the code.

use std::fs;
use std::path::{Path, PathBuf};

/// `manifests/crds` is what `api` says. `make golden` rewrites it; the difference is reviewed like code.
#[test]
fn definitions_are_those_of_the_code() {
    let folder = root().join("manifests/crds");
    let mut expected = Vec::new();
    for definition in writ::api::definitions() {
        let (plural, group) = (&definition.spec.names.plural, &definition.spec.group);
        let file = format!("{group}_{plural}.yaml");
        let text = serde_saphyr::to_string(&definition).expect("a definition can be written");
        check_golden(&folder.join(&file), &text);
        expected.push(file);
    }
    expected.sort();
    let mut present: Vec<String> = fs::read_dir(&folder)
        .expect("the folder of definitions")
        .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
        .filter(|name| name != "kustomization.yaml")
        .collect();
    present.sort();
    assert_eq!(present, expected, "one file for each definition");
}

fn check_golden(file: &Path, text: &str) {
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        fs::write(file, text).expect("a writable golden file");
    }
    let golden = fs::read_to_string(file).unwrap_or_default();
    assert_eq!(golden, text, "{} is stale: run `make golden` and review the difference", file.display());
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).to_owned()
}
