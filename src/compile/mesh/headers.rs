//! `{set, add}` lists of header names and values, where their content is not checked.

use crate::compile::Findings;
use crate::compile::reader::Node;

/// Warns of what is unknown in the lists.
pub(super) fn check(field: &Node<'_>, findings: &mut Findings) {
    let object = field.object(findings);
    for list in ["set", "add"] {
        for header in object.get(list).list(findings) {
            let header = header.object(findings);
            header.get("name").text(findings);
            header.get("value").text(findings);
            header.warn_of_unknown(findings);
        }
    }
    object.warn_of_unknown(findings);
}
