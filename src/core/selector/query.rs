//! The form that URLs and kubectl use: `app=web,tier in (front,back),!canary`.

use std::collections::BTreeSet;

use super::{LabelSelector, Requirement, Test};

impl LabelSelector {
    /// Reads a `labelSelector` parameter; `None` if it is not one.
    pub fn from_query(text: &str) -> Option<Self> {
        let mut selector = Self::default();
        let mut rest = text.trim();
        while !rest.is_empty() {
            // A comma inside parentheses separates values, not requirements.
            let list = rest.find('(').filter(|open| !rest[..*open].contains(','));
            let end = match list {
                Some(_) => rest.find(')')? + 1,
                None => rest.find(',').unwrap_or(rest.len()),
            };
            selector.requirements.push(parse_requirement(rest[..end].trim())?);
            let after = rest[end..].trim_start();
            rest = match after.strip_prefix(',') {
                Some(more) if !more.trim().is_empty() => more.trim_start(),
                None if after.is_empty() => after,
                _ => return None,
            };
        }
        Some(selector)
    }
}

fn parse_requirement(text: &str) -> Option<Requirement> {
    let requirement = |key: &str, test: Test| {
        let key = key.trim();
        let sound = !key.is_empty() && !key.contains(char::is_whitespace);
        sound.then(|| Requirement { key: key.to_owned(), test })
    };
    let one = |value: &str| BTreeSet::from([value.trim().to_owned()]);
    if let Some((key, value)) = text.split_once("!=") {
        return requirement(key, Test::NotIn(one(value)));
    }
    if let Some((key, value)) = text.split_once("==").or_else(|| text.split_once('=')) {
        return requirement(key, Test::In(one(value)));
    }
    if let Some((head, list)) = text.split_once('(') {
        let values = list.strip_suffix(')')?.split(',').map(|value| value.trim().to_owned()).collect();
        let (key, operator) = head.trim().rsplit_once(char::is_whitespace)?;
        return match operator {
            "in" => requirement(key, Test::In(values)),
            "notin" => requirement(key, Test::NotIn(values)),
            _ => None,
        };
    }
    match text.strip_prefix('!') {
        Some(key) => requirement(key, Test::DoesNotExist),
        None => requirement(text, Test::Exists),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn queries_are_read_as_kubectl_writes_them() {
        let labels = json!({"app": "web", "tier": "front"});
        let labels = labels.as_object().unwrap();
        for (query, expected) in [
            ("", true),
            ("app=web", true),
            ("app==web,tier!=back", true),
            ("app = web , tier in (front, back),!canary,app", true),
            ("tier notin (front)", false),
            ("!app", false),
            ("other", false),
            ("tier in (back),app=web", false),
        ] {
            let selector = LabelSelector::from_query(query).unwrap_or_else(|| panic!("{query}"));
            assert_eq!(selector.matches(labels), expected, "{query}");
        }
    }

    #[test]
    fn what_is_no_query_is_refused() {
        for query in ["app=web,", "tier in (a", "a b", "=x", "tier of (a)", "a (b)"] {
            assert_eq!(LabelSelector::from_query(query), None, "{query}");
        }
    }
}
