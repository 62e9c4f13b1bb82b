//! The names that expressions of a rule or an exception use: declared, allowed there, and known when the rule runs.

use std::collections::BTreeSet;

use serde_json::Value;

use super::Node;
use super::rule::Surroundings;
use crate::compile::Findings;
use crate::compile::way::Way;
use crate::core::expr::{Expression, Template};
use crate::core::nearest::nearest;
use crate::core::problem::Reason;

/// What the expressions of a rule look at.
pub(super) struct Usage {
    /// Something that only admission knows: requester, operation, old object.
    pub(super) reads_admission: bool,
    /// Without a request the rule would make something else.
    pub(super) needs_request: bool,
}

/// Where an expression gets what it reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Reads {
    /// The object as it is stored.
    Stored,
    /// What is empty where nobody asked: operation, old object.
    PerhapsEmpty,
    /// What is not there unless somebody asked.
    Request,
}

const BUILT_IN: [&str; 5] = ["request", "serviceAccountName", "serviceAccountNamespace", "images", "target"];
const OF_LOOPS: [&str; 4] = ["element", "elementIndex", "element0", "elementIndex0"];
const OF_REQUESTER: [&str; 5] =
    ["request.userInfo", "request.roles", "request.clusterRoles", "serviceAccountName", "serviceAccountNamespace"];
/// Texts that make an unknown name a matter of taste: functions and filters may well expect it to be absent.
const LOOSE: [&str; 7] = ["request", "serviceAccount", "element", "@", "image", "(", "||"];

pub(super) fn check(rule: &Node<'_>, around: &Surroundings<'_>, findings: &mut Findings) -> Usage {
    let names = declared(&rule.below("context"));
    let usage = Usage { reads_admission: false, needs_request: false };
    let mut check = Check {
        names,
        config_maps: config_maps(&rule.below("context")),
        in_loop: false,
        in_conditions: true,
        background: around.background,
        undeclared: "is not declared in a context of this rule",
        usage,
        findings,
    };
    check.document(&rule.below("preconditions"));
    check.in_conditions = false;
    check.context(&rule.below("context"));
    let generate = rule.below("generate");
    check.fields(&generate, &["foreach"]);
    let foreach = generate.below("foreach");
    for (index, entry) in foreach.value().and_then(Value::as_array).into_iter().flatten().enumerate() {
        let entry = Node::new(Some(entry), foreach.path.index(index));
        check.bare(&entry.below("list"));
        let outer = (check.names.clone(), check.config_maps.clone());
        let own = declared(&entry.below("context"));
        check.config_maps.retain(|name| !own.contains(name));
        check.config_maps.extend(config_maps(&entry.below("context")));
        check.names.extend(own);
        check.in_loop = true;
        check.context(&entry.below("context"));
        check.fields(&entry, &["list", "context"]);
        check.in_loop = false;
        (check.names, check.config_maps) = outer;
    }
    check.usage
}

/// The conditions of an exception: what rules declare is unknown there.
pub(super) fn check_exception(conditions: &Node<'_>, background: bool, findings: &mut Findings) -> Usage {
    let mut check = Check {
        names: BTreeSet::new(),
        config_maps: BTreeSet::new(),
        in_loop: false,
        in_conditions: true,
        background,
        undeclared: "is not known in an exception",
        usage: Usage { reads_admission: false, needs_request: false },
        findings,
    };
    check.document(conditions);
    check.usage
}

fn declared<'v>(context: &Node<'v>) -> BTreeSet<&'v str> {
    let entries = context.value().and_then(Value::as_array).into_iter().flatten();
    // A name one level too deep is told elsewhere; its uses are not wrong as well.
    let name = |entry: &'v Value| entry.get("name").or_else(|| entry.get("variable")?.get("name"))?.as_str();
    entries.filter_map(name).collect()
}

/// The entries that are ConfigMaps.
fn config_maps<'v>(context: &Node<'v>) -> BTreeSet<&'v str> {
    let entries = context.value().and_then(Value::as_array).into_iter().flatten();
    entries.filter(|entry| entry.get("configMap").is_some()).filter_map(|entry| entry.get("name")?.as_str()).collect()
}

struct Check<'c, 'v> {
    names: BTreeSet<&'v str>,
    /// Those of the names of which only `data` and `metadata` are known.
    config_maps: BTreeSet<&'v str>,
    in_loop: bool,
    in_conditions: bool,
    background: bool,
    /// What is said of a name that is not known.
    undeclared: &'static str,
    usage: Usage,
    findings: &'c mut Findings,
}

impl Check<'_, '_> {
    /// All fields of an object but some.
    fn fields(&mut self, node: &Node<'_>, except: &[&str]) {
        for (key, value) in node.value().and_then(Value::as_object).into_iter().flatten() {
            if !except.contains(&key.as_str()) {
                self.document(&Node::new(Some(value), node.path.found(key)));
            }
        }
    }

    /// Context entries: their texts, and the bare expressions in them.
    fn context(&mut self, node: &Node<'_>) {
        self.document(node);
        for (index, entry) in node.value().and_then(Value::as_array).into_iter().flatten().enumerate() {
            for source in ["variable", "apiCall", "imageRegistry", "globalReference"] {
                let source = Node::new(entry.get(source), node.path.index(index).field(source));
                // What a call gives is no concern of the request.
                if entry.get("variable").is_some_and(|variable| variable.get("value").is_none()) {
                    self.bare(&source.below("jmesPath"));
                }
            }
        }
    }

    /// Every `{{ }}` in the keys and texts of a document.
    fn document(&mut self, node: &Node<'_>) {
        let Some(value) = node.value() else { return };
        let mut open = vec![(value, node.path)];
        while let Some((value, path)) = open.pop() {
            match value {
                Value::String(text) => self.text(text, path),
                Value::Array(items) => {
                    open.extend(items.iter().enumerate().map(|(index, item)| (item, path.index(index))));
                }
                Value::Object(fields) => {
                    for (key, item) in fields {
                        self.text(key, path);
                        open.push((item, path.found(key)));
                    }
                }
                _ => {}
            }
        }
    }

    fn text(&mut self, text: &str, path: Way<'_>) {
        if !text.contains("{{") {
            return;
        }
        let template = Template::compile(&Value::from(text));
        for expression in template.expressions() {
            if let Ok(compiled) = Expression::compile(expression) {
                self.expression(&compiled, path);
            }
        }
    }

    fn bare(&mut self, node: &Node<'_>) {
        let text = node.value().and_then(Value::as_str).unwrap_or_default();
        match Expression::compile(text) {
            Ok(compiled) if !text.contains("{{") => self.expression(&compiled, node.path),
            _ => self.text(text, node.path),
        }
    }

    fn expression(&mut self, expression: &Expression, path: Way<'_>) {
        let text = expression.text();
        let reads = reads(text);
        self.usage.reads_admission |= reads > Reads::Stored;
        // Conditions are asked with an empty operation as well; in an object it would be wrong.
        self.usage.needs_request |= reads == Reads::Request || reads == Reads::PerhapsEmpty && !self.in_conditions;
        if self.background
            && let Some(found) = OF_REQUESTER.iter().find(|name| text.contains(**name))
        {
            let message = format!("`{found}` is known only while a request is handled; set `background: false`");
            self.findings.refuse(path, Reason::Context, message);
        }
        let loose = LOOSE.iter().any(|loose| text.contains(loose));
        if let Some(name) = self.config_maps.iter().find(|name| reads_beside_data(text, name)) {
            let message = format!("a ConfigMap has `{name}.data` and `{name}.metadata` only");
            if loose {
                self.findings.warn(path, Reason::Suspicious, message);
            } else {
                self.findings.refuse(path, Reason::Unknown, message);
            }
        }
        for name in expression.names() {
            if OF_LOOPS.contains(&name) && !self.in_loop {
                self.findings.refuse(path, Reason::Context, format!("`{name}` exists only inside `foreach`"));
            } else if !self.is_known(name) {
                let message = match nearest(name, self.names.iter().copied().chain(BUILT_IN)) {
                    Some(near) => format!("variable `{name}` is not declared; did you mean `{near}`?"),
                    None => format!("variable `{name}` {}", self.undeclared),
                };
                if loose {
                    self.findings.warn(path, Reason::Suspicious, message);
                } else {
                    self.findings.refuse(path, Reason::Unknown, message);
                }
            }
        }
    }

    fn is_known(&self, name: &str) -> bool {
        self.names.contains(name) || BUILT_IN.contains(&name) || OF_LOOPS.contains(&name)
    }
}

/// Whether an expression begins with a ConfigMap, but with neither its data nor its metadata. Quotes do not matter.
fn reads_beside_data(text: &str, config_map: &str) -> bool {
    let text = text.trim().replace('"', "");
    let Some(rest) = text.strip_prefix(config_map) else { return false };
    if rest.starts_with(|letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-')) {
        return false;
    }
    let known = |part: &str| rest.strip_prefix(part).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
    !known(".data") && !known(".metadata")
}

/// What an expression reads of the request.
fn reads(text: &str) -> Reads {
    let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    if text.contains("serviceAccountName") {
        return Reads::Request;
    }
    let uses = text.match_indices("request").map(|(start, found)| {
        let before = text[..start].chars().next_back();
        let rest = &text[start + found.len()..];
        if before.is_some_and(|c| word(c) || c == '.') || rest.starts_with(word) {
            return Reads::Stored;
        }
        match rest.strip_prefix('.').map(|rest| rest.split(|c| !word(c)).next().unwrap_or_default()) {
            Some("object" | "namespace") => Reads::Stored,
            Some("operation" | "oldObject") => Reads::PerhapsEmpty,
            _ => Reads::Request,
        }
    });
    uses.max().unwrap_or(Reads::Stored)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_config_maps_only_data_and_metadata_are_known() {
        for text in [
            "d.data",
            "d.metadata",
            "d.data.a",
            "d.data.a.b",
            "d.metadata.labels.x",
            r#""d".data."a.b""#,
            "dd.x",
            "x.d",
        ] {
            assert!(!reads_beside_data(text, "d"), "{text}");
        }
        for text in ["d", "d.binaryData", "d.data2", "d.kind", "d | a", r#""d"."dat""#] {
            assert!(reads_beside_data(text, "d"), "{text}");
        }
    }

    #[test]
    fn what_only_admission_knows() {
        for text in ["request.operation", "a || request.oldObject.x", "[request.object, request.operation]"] {
            assert_eq!(reads(text), Reads::PerhapsEmpty, "{text}");
        }
        for text in ["request.userInfo.username", "request", "request.name", "serviceAccountName"] {
            assert_eq!(reads(text), Reads::Request, "{text}");
        }
        for text in ["request.object.metadata.name", "request.namespace", "my_request.x", "a.request.x", "requests"] {
            assert_eq!(reads(text), Reads::Stored, "{text}");
        }
    }
}
