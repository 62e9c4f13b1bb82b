//! `writ migrate`, as somebody types it.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use serde_json::Value;

use crate::support::command::writ;

const OLD: &str = "type: MeshTLS\nname: tls # ours\nmesh: default\nspec:\n  from:\n  - targetRef: {kind: Mesh}\n    default: {mode: Strict}\n";
const NEW: &str = "type: MeshTLS\nname: tls # ours\nmesh: default\nspec:\n  rules:\n  - default: {mode: Strict}\n";
const STUCK: &str = "type: MeshTLS\nname: top\nmesh: default\nspec:\n  targetRef: {kind: MeshSubset, tags: {a: b}}\n  rules: [{default: {mode: Strict}}]\n";

/// A folder with `old.yaml` and `stuck.yaml`.
fn folder() -> (tempfile::TempDir, String, String) {
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).expect("a file");
        path.display().to_string()
    };
    let (old, stuck) = (write("old.yaml", OLD), write("stuck.yaml", STUCK));
    (folder, old, stuck)
}

#[test]
fn the_result_is_data_and_what_was_done_is_talk() {
    let (_folder, old, stuck) = folder();
    let ran = writ(&["migrate", &old]).expect(0);
    assert_eq!(ran.out, NEW);
    assert!(ran.talk.starts_with(&format!("{old}:5: rewritten: MeshTLS tls: spec.from: ")), "{}", ran.talk);
    assert!(ran.talk.ends_with("\n1 rewritten, 0 to do by hand\n"), "{}", ran.talk);
    assert_eq!(fs::read_to_string(&old).expect("a file"), OLD);

    let ran = writ(&["migrate", &old, &stuck]).expect(1);
    assert_eq!(ran.out, format!("{NEW}---\n{STUCK}"));
    assert!(
        ran.talk.contains(&format!("{stuck}:5: by hand: MeshTLS top: spec.targetRef.tags[\"a\"]: ")),
        "{}",
        ran.talk
    );
}

#[test]
fn results_are_written_back_to_where_they_came_from() {
    let (folder, old, stuck) = folder();
    let link = folder.path().join("link.yml");
    std::os::unix::fs::symlink(&old, &link).expect("a link");
    fs::set_permissions(&old, fs::Permissions::from_mode(0o640)).expect("permissions");
    let ran = writ(&["migrate", "--in-place", &link.display().to_string(), &stuck]).expect(1);
    assert_eq!(ran.out, "");
    assert_eq!(fs::read_to_string(&old).expect("a file"), NEW);
    assert_eq!(fs::read_to_string(&stuck).expect("a file"), STUCK);
    assert_eq!(fs::metadata(&old).expect("a file").permissions().mode() & 0o777, 0o640);
    assert!(fs::symlink_metadata(&link).expect("a link").is_symlink());
    assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 3, "nothing is left behind");
    writ(&["migrate", "-i", &old]).expect(0);
    writ(&["migrate", "-i", "-"]).expect(2);
}

#[test]
fn a_check_writes_nothing() {
    let (_folder, old, _) = folder();
    let ran = writ(&["migrate", "--check", &old]).expect(1);
    assert_eq!((ran.out.as_str(), fs::read_to_string(&old).expect("a file").as_str()), ("", OLD));
    assert!(ran.talk.contains("rewritten"), "{}", ran.talk);
    fs::write(&old, NEW).expect("a file");
    writ(&["migrate", "--check", &old]).expect(0);
    writ(&["migrate", "--check", "--in-place", &old]).expect(2);
}

#[test]
fn programs_get_everything_as_data() {
    let (folder, ..) = folder();
    let ran = writ(&["migrate", "-o", "json", &folder.path().display().to_string()]).expect(1);
    assert_eq!(ran.talk, "");
    let data: Value = serde_json::from_str(&ran.out).expect("JSON");
    assert_eq!(data[0]["changed"], true);
    assert_eq!(data[0]["text"], NEW);
    assert_eq!(data[0]["documents"][0]["changes"][0]["field"], "spec.from");
    assert_eq!(data[1]["changed"], false);
    let remaining = &data[1]["documents"][0]["remaining"][0];
    assert_eq!((&remaining["line"], &remaining["reason"]), (&Value::from(5), &Value::from("REMOVED")));
}

#[test]
fn a_broken_file_stays_as_it_is() {
    let (_folder, old, _) = folder();
    let broken = format!("{OLD}---\na: [\n");
    fs::write(&old, &broken).expect("a file");
    let ran = writ(&["migrate", &old]).expect(1);
    assert_eq!(ran.out, broken);
    assert!(ran.talk.contains("by hand: not readable as YAML"), "{}", ran.talk);
    writ(&["migrate", &format!("{old}.absent")]).expect(2);
}

#[test]
fn validation_for_kuma_3_tells_the_same() {
    let (_folder, old, _) = folder();
    assert!(writ(&["validate", &old]).expect(0).out.contains(":5: warning: MeshTLS tls: spec.from: "));
    assert!(
        writ(&["validate", "--kuma-version", "3", &old]).expect(1).out.contains(":5: error: MeshTLS tls: spec.from: ")
    );
    writ(&["migrate", "-i", &old]).expect(0);
    writ(&["validate", "--kuma-version", "3", &old]).expect(0);
    writ(&["validate", "--kuma-version", "4", &old]).expect(2);
}
