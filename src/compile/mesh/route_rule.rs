//! Where the rules of a route stand. Two forms are understood: `to[].rules[]` with filters and backends below `default`,
//! and the older `to[].default.rules[]` with both directly in the rule. Findings name the place that the author used.

use super::policy::Entry;
use crate::compile::Findings;
use crate::compile::reader::{Node, Object};
use crate::core::problem::Reason;

/// A rule of a route while it is read.
pub(super) struct RouteRule<'v> {
    pub(super) object: Object<'v>,
    conf: Object<'v>,
}

/// The rules of an entry of `to`, in either form.
pub(super) fn read_list<'v>(entry: &Entry<'v>, findings: &mut Findings) -> Vec<RouteRule<'v>> {
    let rules = entry.object.get("rules");
    let older = entry.conf.object(findings);
    let nested = older.get("rules");
    older.warn_of_unknown(findings);
    if rules.is_present() && nested.is_present() {
        let message = "exactly one of `rules` and `default.rules`: they mean the same";
        findings.refuse(entry.object.path, Reason::Xor, message);
    } else if nested.is_present() {
        findings.warn(nested.path, Reason::Deprecated, "an older form: write the rules as `rules` beside `targetRef`");
    }
    let list = if rules.is_present() { rules } else { nested };
    let rule = |node: &Node<'v>, findings: &mut Findings| {
        let object = node.object(findings);
        let conf = object.get("default").object(findings);
        RouteRule { object, conf }
    };
    list.list(findings).iter().map(|node| rule(node, findings)).collect()
}

impl<'v> RouteRule<'v> {
    /// A part of the conf, below `default` or directly in the rule.
    pub(super) fn part(&self, name: &'static str, findings: &mut Findings) -> Node<'v> {
        let (part, direct) = (self.conf.get(name), self.object.get(name));
        if !direct.is_present() {
            return part;
        }
        if part.is_present() {
            let message = format!("exactly one of `{name}` and `default.{name}`: they mean the same");
            findings.refuse(self.object.path, Reason::Xor, message);
        } else {
            let message = format!("an older form: write it as `default.{name}` of the rule");
            findings.warn(direct.path, Reason::Deprecated, message);
        }
        direct
    }

    pub(super) fn finish(&self, findings: &mut Findings) {
        self.object.warn_of_unknown(findings);
        self.conf.warn_of_unknown(findings);
    }
}

/// What the API server knows of the entries that rules stand in.
pub(super) mod schema {
    use serde_json::{Value, json};

    use crate::api::schema::{closed, list, requiring, with};
    use crate::compile::mesh::forms::{backend_ref, target_ref};

    /// An entry of `to`. Its rules stand beside the reference or, in the older form, below `default`.
    pub(in crate::compile::mesh) fn destination(
        rule: Value,
        fields: impl IntoIterator<Item = (&'static str, Value)>,
        most: Option<u32>,
    ) -> Value {
        let rules = |description: &str| {
            let rules = list(description, rule.clone());
            if let Some(most) = most { with(rules, [("maxItems", most.into())]) } else { rules }
        };
        let common = [
            ("targetRef", target_ref("The destinations.")),
            ("rules", rules("What to do.")),
            (
                "default",
                closed("An older place of the rules.", [("rules", rules("Older form: write rules one level up."))]),
            ),
        ];
        with(
            requiring(closed("Traffic to some destinations.", common.into_iter().chain(fields)), &["targetRef"]),
            [(
                "anyOf",
                json!([
                    {"required": ["rules"]},
                    {"required": ["default"], "properties": {"default": {"required": ["rules"]}}},
                ]),
            )],
        )
    }

    pub(in crate::compile::mesh) fn backends(description: &str) -> Value {
        list(description, backend_ref("One destination."))
    }
}
