//! The committed fuzz corpus, run as ordinary tests through the targets' own entry functions.

#[path = "../fuzz/entry.rs"]
mod entry;

fn run(target: &str, entry: fn(&[u8])) {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fuzz/corpus").join(target);
    let files = std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut count = 0;
    for file in files {
        let data = std::fs::read(file.expect("an entry").path()).expect("a readable file");
        entry(&data);
        count += 1;
    }
    assert!(count > 0, "{} is empty", folder.display());
}

#[test]
fn expressions() {
    run("expression", entry::expression);
}

#[test]
fn templates() {
    run("template", entry::template);
}

#[test]
fn policies() {
    run("policy", entry::policy);
}

#[test]
fn documents() {
    run("json", entry::json);
}

#[test]
fn resources() {
    run("resource", entry::resource);
}
