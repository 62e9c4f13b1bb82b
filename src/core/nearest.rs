//! The nearest known word to a mistyped one.

/// The known word that differs least from `word`, if it is near enough to be meant.
pub fn nearest<'k>(word: &str, known: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    let word = word.to_lowercase();
    let limit = (word.chars().count() / 3).clamp(1, 3);
    known
        .into_iter()
        .map(|candidate| (distance(&word, &candidate.to_lowercase()), candidate))
        .filter(|(distance, _)| *distance <= limit)
        .min()
        .map(|(_, candidate)| candidate)
}

/// Edits (insert, delete, replace, swap of neighbours) from one word to the other.
fn distance(from: &str, to: &str) -> usize {
    let (from, to): (Vec<char>, Vec<char>) = (from.chars().take(64).collect(), to.chars().take(64).collect());
    let mut before: Vec<usize> = Vec::new();
    let mut above: Vec<usize> = (0..=to.len()).collect();
    for (row, a) in from.iter().enumerate() {
        let mut current = vec![row + 1];
        for (column, b) in to.iter().enumerate() {
            let replaced = above[column] + usize::from(a != b);
            let mut best = replaced.min(above[column + 1] + 1).min(current[column] + 1);
            if row > 0 && column > 0 && *a == to[column - 1] && from[row - 1] == *b {
                best = best.min(before[column - 1] + 1);
            }
            current.push(best);
        }
        before = std::mem::replace(&mut above, current);
    }
    above[to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_words_are_found_and_far_ones_are_not() {
        let known = ["modifications", "imports", "resources", "match"];
        assert_eq!(nearest("modification", known), Some("modifications"));
        assert_eq!(nearest("mathc", known), Some("match"));
        assert_eq!(nearest("Imports", known), Some("imports"));
        assert_eq!(nearest("selectors", known), None);
        assert_eq!(nearest("", known), None);
    }
}
