//! Answers of the peer's rule engine, if they are at hand: `WRIT_KUMA_GOLDENS` names the folder.
//!
//! Lists must agree in order. Null, empty and absent are equal; durations are compared by value; times and KRIs of metas
//! do not count.

mod cases;
mod compare;
mod variants;

use std::io::Write;
use std::path::PathBuf;

use serde_json::Value;

use cases::{Case, cases};

fn folder() -> Option<PathBuf> {
    let folder = std::env::var_os("WRIT_KUMA_GOLDENS").map(PathBuf::from);
    if folder.is_none() {
        let test = std::thread::current().name().unwrap_or_default().to_owned();
        let _ = std::io::stderr().write_all(format!("SKIPPED {test}: WRIT_KUMA_GOLDENS names no folder\n").as_bytes());
    }
    folder
}

#[test]
fn rules_are_those_of_the_peer() {
    let Some(folder) = folder() else { return };
    let (mut passed, mut failed) = (0, Vec::new());
    for Case { name, have, want } in cases(&folder) {
        match compare::first_difference(&want, &have) {
            None => passed += 1,
            Some(difference) => failed.push(format!("{name}: {difference}")),
        }
    }
    println!("{passed} passed, {} failed", failed.len());
    assert!(failed.is_empty(), "{passed} passed, {} failed:\n{}", failed.len(), failed.join("\n"));
    assert!(passed > 0, "no goldens below {}", folder.display());
}

#[test]
fn an_altered_golden_is_told() {
    let Some(folder) = folder() else { return };
    let mut altered = 0;
    for Case { name, have, want } in cases(&folder) {
        let mut other = want.clone();
        if alter(&mut other) {
            altered += 1;
            assert!(compare::first_difference(&other, &have).is_some(), "{name}: altered and not told");
        }
    }
    assert!(altered > 0, "no golden could be altered");
}

/// Changes the first text of a conf, or of any list of names.
fn alter(value: &mut Value) -> bool {
    match value {
        Value::Object(fields) => fields.iter_mut().any(|(name, field)| match field {
            Value::String(text) if name != "creationTime" && name != "modificationTime" && name != "kri" => {
                text.push_str("-altered");
                true
            }
            Value::String(_) => false,
            _ if name == "CreationTime" || name == "ModificationTime" || name == "NameExtensions" || name == "spec" => {
                false
            }
            other => alter(other),
        }),
        Value::Array(items) => items.iter_mut().any(alter),
        _ => false,
    }
}
