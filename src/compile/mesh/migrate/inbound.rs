//! `from` becomes `rules`, where every entry is for all callers.

use serde_json::json;

use super::subject::Subject;
use super::{Attempt, Obstacle, Rewrite};
use crate::core::yaml::edit::Edit;

pub(super) fn rewrite(subject: &Subject<'_>) -> Vec<Attempt> {
    attempt(subject).into_iter().collect()
}

fn attempt(subject: &Subject<'_>) -> Option<Attempt> {
    let spec = subject.spec();
    let (from, rules) = (spec.below("from"), spec.below("rules"));
    if !from.is_filled() {
        return None;
    }
    let obstacle = |message: &str| Some(Err(Obstacle::new(&from.path, &from.path, message)));
    if subject.policy.is_some_and(|policy| policy.resource.kind == "MeshTrafficPermission") {
        return obstacle(
            "Kuma 3 knows callers by their SPIFFE IDs, not by tags: write `rules` with `allow` and `deny` of the IDs that the \
             callers have in your mesh",
        );
    }
    if spec.below("to").is_filled() {
        return obstacle("`rules` cannot stand beside `to`: make a second policy of `from`, and migrate again");
    }
    let mut edits = Vec::new();
    for entry in from.elements() {
        let reference = entry.below("targetRef");
        if *reference.value != json!({"kind": "Mesh"}) {
            let message = "Kuma 3 knows callers by their SPIFFE IDs, not by tags: write `rules` with `matches` of the IDs that \
                           these callers have in your mesh";
            return Some(Err(Obstacle::new(&from.path, &reference.path, message)));
        }
        edits.push(Edit::Remove { at: reference.path });
    }
    if spec.has("rules") {
        edits.push(Edit::Remove { at: rules.path });
    }
    edits.push(Edit::Rename { at: from.path.clone(), key: "rules" });
    let message = "`from` for the whole mesh becomes `rules` for every caller".to_owned();
    Some(Ok(Rewrite { field: from.path, message, edits }))
}
