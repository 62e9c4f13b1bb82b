//! Finding the rules that could be for a request without looking at the others.

use std::collections::HashMap;

use super::{Block, KindSelector, Resource};
use crate::core::scalar::wildcard;

/// Rules by the kinds they match. A look-up costs what the rules for that kind cost; rules for other kinds are free.
#[derive(Clone, Debug)]
pub struct KindIndex<T> {
    rules: Vec<T>,
    /// Selectors that name their kind, by that kind.
    exact: HashMap<String, Vec<Entry>>,
    /// Selectors with a wildcard in the kind: few, so they are scanned.
    patterns: Vec<Entry>,
}

#[derive(Clone, Debug)]
struct Entry {
    selector: KindSelector,
    /// Position in `rules`.
    rule: usize,
}

impl<T> Default for KindIndex<T> {
    fn default() -> Self {
        Self { rules: Vec::new(), exact: HashMap::new(), patterns: Vec::new() }
    }
}

impl<T> KindIndex<T> {
    /// Adds a rule under every kind of its match block.
    pub fn insert(&mut self, block: &Block, rule: T) {
        let position = self.rules.len();
        self.rules.push(rule);
        for selector in block.kinds() {
            let entry = Entry { selector: selector.clone(), rule: position };
            if wildcard::is_pattern(&selector.kind) {
                self.patterns.push(entry);
            } else {
                self.exact.entry(selector.kind.clone()).or_default().push(entry);
            }
        }
    }

    /// The rules with a kind selector for this resource, each once, in the order of insertion.
    pub fn candidates(&self, resource: &Resource<'_>) -> impl Iterator<Item = &T> {
        let exact = self.exact.get(resource.kind).map(Vec::as_slice).unwrap_or_default();
        let matching = |entry: &&Entry| entry.selector.matches(resource);
        let mut found: Vec<usize> =
            exact.iter().chain(&self.patterns).filter(matching).map(|entry| entry.rule).collect();
        found.sort_unstable();
        found.dedup();
        found.into_iter().map(|rule| &self.rules[rule])
    }

    pub fn len(&self) -> usize {
        self.rules.len()
    }

    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }
}

impl<T> Extend<(Block, T)> for KindIndex<T> {
    fn extend<I: IntoIterator<Item = (Block, T)>>(&mut self, rules: I) {
        rules.into_iter().for_each(|(block, rule)| self.insert(&block, rule));
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::super::Filter;
    use super::*;

    fn block(kinds: &[&str]) -> Block {
        let kinds = kinds.iter().map(|kind| KindSelector::parse(kind).expect(kind)).collect();
        Block::Any(vec![Filter { kinds, ..Filter::default() }])
    }

    fn resource<'a>(group: &'a str, kind: &'a str, subresource: &'a str) -> Resource<'a> {
        Resource { group, version: "v1", kind, subresource }
    }

    #[test]
    fn candidates_come_once_and_in_order() {
        let mut index = KindIndex::default();
        index.extend([
            (block(&["Pod"]), "pod"),
            (block(&["P*", "Pod", "v1/Pod"]), "often"),
            (block(&["apps/v1/Deployment"]), "deployment"),
            (block(&["*/scale"]), "scale"),
            (block(&["Pod/status"]), "status"),
            (block(&["Secret"]), "secret"),
        ]);
        let candidates = |resource: Resource<'_>| index.candidates(&resource).copied().collect::<Vec<_>>();
        assert_eq!(candidates(resource("", "Pod", "")), ["pod", "often"]);
        assert_eq!(candidates(resource("", "Pod", "status")), ["status"]);
        assert_eq!(candidates(resource("apps", "Deployment", "")), ["deployment"]);
        assert_eq!(candidates(resource("apps", "Deployment", "scale")), ["scale"]);
        assert_eq!(candidates(resource("", "Deployment", "")), [""; 0]);
        assert_eq!(candidates(resource("", "Other", "")), [""; 0]);
        assert_eq!(index.len(), 6);
    }

    /// Generous bounds: what must not happen is a scan of everything.
    #[test]
    fn rules_for_other_kinds_cost_nothing() {
        let cost = |others: usize| {
            let mut index = KindIndex::default();
            for rule in 0..others {
                index.insert(&block(&[&format!("Kind{rule}")]), rule);
            }
            (0..10).for_each(|rule| index.insert(&block(&["Pod"]), others + rule));
            // The best of a few rounds, because other work on the machine only ever adds.
            let round = || {
                let start = Instant::now();
                for _ in 0..50 {
                    assert_eq!(index.candidates(&resource("", "Pod", "")).count(), 10);
                }
                start.elapsed()
            };
            (0..10).map(|_| round()).min().unwrap_or_default()
        };
        let (few, many) = (cost(10), cost(20_000));
        assert!(many < few * 20 + Duration::from_millis(5), "{few:?} grew to {many:?}");
    }
}
