//! Tag maps: `kuma.io/service: backend`. Keys and values have a small character set; selectors may say `*`.

use std::collections::BTreeMap;

use super::Findings;
use super::reader::Node;
use crate::core::problem::Reason;

/// Reads a map of tags for a selector: values may hold a slash or be the single `*`.
pub(super) fn read_selector(tags: &Node<'_>, findings: &mut Findings) -> BTreeMap<String, String> {
    let mut read = BTreeMap::new();
    for (key, value) in tags.entries(findings) {
        if key.is_empty() {
            findings.refuse(&tags.path, Reason::Empty, "a tag name may not be empty");
        } else if !key.chars().all(is_key_character) {
            let message = "malformed tag name: only letters, digits and `.-_:/` may stand in it";
            findings.refuse(&value.path, Reason::Format, message);
        }
        let text = value.text(findings).unwrap_or_default();
        if text.is_empty() {
            if !key.is_empty() {
                findings.refuse(&value.path, Reason::Empty, "a tag value may not be empty");
            }
        } else if text != "*" && !text.chars().all(is_key_character) {
            let message = "malformed tag value: only letters, digits and `.-_:/` may stand in it, or a single `*`";
            findings.refuse(&value.path, Reason::Format, message);
        }
        read.insert(key.to_owned(), text.into_owned());
    }
    read
}

fn is_key_character(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | ':' | '/')
}
