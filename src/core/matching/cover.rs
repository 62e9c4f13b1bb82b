//! Whether an exclude block leaves anything of a match block.
//!
//! Only what is sure counts: two filters are compared by what they ask for, not by what their patterns could match.

use super::{Block, Filter};

/// Whether the exclude block surely takes out all that the match block selects.
pub(super) fn swallows(exclude: &Block, matching: &Block) -> bool {
    let covered = |filter: &Filter| match exclude {
        Block::Any(filters) => filters.iter().any(|excluding| covers(excluding, filter)),
        Block::All(filters) => !filters.is_empty() && filters.iter().all(|excluding| covers(excluding, filter)),
    };
    match matching {
        Block::Any(filters) => !filters.is_empty() && filters.iter().all(covered),
        Block::All(filters) => filters.iter().any(covered),
    }
}

/// Whether one filter accepts all that the other accepts: it asks for the same or for less, but for something.
fn covers(wide: &Filter, narrow: &Filter) -> bool {
    fn looser<T: PartialEq + Default>(wide: &T, narrow: &T) -> bool {
        *wide == T::default() || wide == narrow
    }
    *wide != Filter::default()
        && looser(&wide.operations, &narrow.operations)
        && looser(&wide.kinds, &narrow.kinds)
        && looser(&wide.names, &narrow.names)
        && looser(&wide.namespaces, &narrow.namespaces)
        && looser(&wide.annotations, &narrow.annotations)
        && looser(&wide.selector, &narrow.selector)
        && looser(&wide.namespace_selector, &narrow.namespace_selector)
        && looser(&wide.subjects, &narrow.subjects)
        && looser(&wide.roles, &narrow.roles)
        && looser(&wide.cluster_roles, &narrow.cluster_roles)
}

#[cfg(test)]
mod tests {
    use super::super::KindSelector;
    use super::*;

    fn filter(kinds: &[&str], names: &[&str]) -> Filter {
        Filter {
            kinds: kinds.iter().map(|kind| KindSelector::parse(kind).expect(kind)).collect(),
            names: names.iter().map(|name| (*name).to_owned()).collect(),
            ..Filter::default()
        }
    }

    #[test]
    fn a_block_is_swallowed_if_nothing_can_be_left() {
        let (pods, named, other) = (filter(&["Pod"], &[]), filter(&["Pod"], &["a"]), filter(&["Secret"], &[]));
        let any = |filters: &[&Filter]| Block::Any(filters.iter().copied().cloned().collect());
        let all = |filters: &[&Filter]| Block::All(filters.iter().copied().cloned().collect());
        assert!(swallows(&any(&[&pods]), &any(&[&pods])));
        assert!(swallows(&any(&[&pods]), &any(&[&named])));
        assert!(!swallows(&any(&[&named]), &any(&[&pods])));
        assert!(!swallows(&any(&[&pods]), &any(&[&named, &other])));
        assert!(swallows(&any(&[&other, &pods]), &any(&[&named, &other])));
        assert!(swallows(&any(&[&pods]), &all(&[&named, &other])));
        assert!(!swallows(&all(&[&pods, &other]), &any(&[&named])));
        assert!(swallows(&all(&[&pods, &named]), &any(&[&named])));
        assert!(!swallows(&any(&[&Filter::default()]), &any(&[&pods])));
        assert!(!swallows(&all(&[]), &any(&[&pods])));
    }
}
