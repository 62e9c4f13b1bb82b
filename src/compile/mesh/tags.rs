//! Maps of tags and labels. Tags have a small character set, and selectors may say `*`; labels are taken as they are.

use std::collections::BTreeMap;

use crate::compile::Findings;
use crate::compile::reader::Node;
use crate::core::problem::Reason;

/// What the values of a map of tags may look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Values {
    /// Letters, digits and `.-_:`.
    Plain,
    /// A slash as well, or the single `*`.
    Selector,
}

/// Reads a map of tags.
pub(super) fn read(tags: &Node<'_>, values: Values, findings: &mut Findings) -> BTreeMap<String, String> {
    let mut read = BTreeMap::new();
    for (key, value) in tags.entries(findings) {
        if key.is_empty() {
            findings.refuse(tags.path, Reason::Empty, "a tag name may not be empty");
        } else if !key.chars().all(is_key_character) {
            let message = "malformed tag name: only letters, digits and `.-_:/` may stand in it";
            findings.refuse(value.path, Reason::Format, message);
        }
        let text = value.text(findings).unwrap_or_default();
        if text.is_empty() {
            if !key.is_empty() {
                findings.refuse(value.path, Reason::Empty, "a tag value may not be empty");
            }
        } else if !values.accept(&text) {
            findings.refuse(value.path, Reason::Format, values.complaint());
        }
        read.insert(key.to_owned(), text.into_owned());
    }
    read
}

/// Reads a map of labels.
pub(super) fn read_labels(labels: &Node<'_>, findings: &mut Findings) -> BTreeMap<String, String> {
    let entries = labels.entries(findings);
    let text = |value: &Node<'_>, findings: &mut Findings| value.text(findings).unwrap_or_default().into_owned();
    entries.iter().map(|(key, value)| ((*key).to_owned(), text(value, findings))).collect()
}

impl Values {
    fn accept(self, text: &str) -> bool {
        match self {
            Self::Plain => text.chars().all(|c| c != '/' && is_key_character(c)),
            Self::Selector => text == "*" || text.chars().all(is_key_character),
        }
    }

    fn complaint(self) -> &'static str {
        match self {
            Self::Plain => "malformed tag value: only letters, digits and `.-_:` may stand in it",
            Self::Selector => "malformed tag value: only letters, digits and `.-_:/` may stand in it, or a single `*`",
        }
    }
}

fn is_key_character(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | ':' | '/')
}
