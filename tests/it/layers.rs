//! The direction of the house: which room may know which other room, and what the engine must not even mention.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// A new arrow is a decision: change it here first, then in ARCHITECTURE.md.
const MAY_USE: &[(&str, &[&str])] = &[
    ("core", &[]),
    ("api", &[]),
    ("compile", &["core", "api"]),
    ("server", &[]),
    ("telemetry", &[]),
    ("index", &["core", "compile"]),
    ("inspect", &["core", "index"]),
    ("webhook", &["core", "compile", "index"]),
    ("cluster", &["core", "telemetry"]),
    ("controller", &["core", "compile", "index", "cluster", "telemetry"]),
    ("cli", &["core", "compile", "index", "inspect", "server", "telemetry", "webhook", "controller", "cluster"]),
];

/// What the engine must not even mention: it learns the world through its arguments.
const NOT_IN_CORE: &[&str] = &[
    "tokio::",
    "kube::",
    "hyper::",
    "std::fs",
    "std::env",
    "std::net",
    "SystemTime::now",
    "Instant::now",
    "tracing::",
];

#[test]
fn arrows_point_inward() {
    let allowed: BTreeMap<_, _> = MAY_USE.iter().copied().collect();
    let mut wrong = Vec::new();
    for (file, text) in sources() {
        let room = room_of(&file);
        if room == "lib" || room == "main" {
            continue;
        }
        let Some(may_use) = allowed.get(room.as_str()) else {
            panic!("room `{room}` ({}) is not in the table of rooms", file.display());
        };
        for (number, line) in text.lines().enumerate() {
            for used in line.split("crate::").skip(1).filter_map(|rest| rest.split([':', ';', ',', ' ', '}']).next()) {
                if used != room && allowed.contains_key(used) && !may_use.contains(&used) {
                    wrong.push(format!("{}:{}: {room} -> {used}", file.display(), number + 1));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "arrows that the table does not allow:\n{}", wrong.join("\n"));
}

#[test]
fn the_engine_does_no_io() {
    let mut wrong = Vec::new();
    for (file, text) in sources() {
        if room_of(&file) != "core" {
            continue;
        }
        for (number, line) in text.lines().enumerate() {
            let code = line.split("//").next().unwrap_or_default();
            if let Some(word) = NOT_IN_CORE.iter().find(|word| code.contains(**word)) {
                wrong.push(format!("{}:{}: {word}", file.display(), number + 1));
            }
        }
    }
    assert!(wrong.is_empty(), "the engine mentions the outside world:\n{}", wrong.join("\n"));
}

/// `src/webhook/review.rs` and `src/webhook.rs` belong to `webhook`.
fn room_of(file: &Path) -> String {
    let below = file.strip_prefix(source_folder()).expect("a file below src");
    let first = below.components().next().expect("a path with components").as_os_str().to_string_lossy().into_owned();
    first.trim_end_matches(".rs").to_owned()
}

fn sources() -> Vec<(PathBuf, String)> {
    let mut files = Vec::new();
    let mut folders = vec![source_folder()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("a readable folder") {
            let path = entry.expect("a readable entry").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = fs::read_to_string(&path).expect("readable source");
                // Unit tests stand last in a file, and may measure time.
                let code = text.split("#[cfg(test)]").next().unwrap_or_default();
                files.push((path, code.to_owned()));
            }
        }
    }
    files.sort();
    assert!(!files.is_empty(), "no sources found");
    files
}

fn source_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src")
}
