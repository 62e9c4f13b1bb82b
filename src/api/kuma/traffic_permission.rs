//! MeshTrafficPermission.

use serde_json::Value;

use super::forms::{Conf, callers, from, policy, rules};
use crate::api::schema::{closed, word};

pub(super) fn spec() -> Value {
    let action = word("What becomes of their requests.", &["Allow", "Deny", "AllowWithShadowDeny"]);
    let lists = closed(
        "Who may call: deny beats allow.",
        [
            ("deny", callers("Who may not.")),
            ("allowWithShadowDeny", callers("Who may, with a note in the log as if not.")),
            ("allow", callers("Who may.")),
        ],
    );
    policy([from(closed("Whether they may call.", [("action", action)]), Conf::Optional), rules(lists, Conf::Required)])
}
