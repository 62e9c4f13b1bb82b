//! The known word that a misspelt one probably meant.

/// The candidate that is fewest edits away, if it is near enough to be a likely slip; the first of several.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let letters = plain(word);
    if letters.len() > LONGEST {
        return None;
    }
    let allowed = (letters.len() / 3).clamp(1, 4);
    candidates
        .into_iter()
        .map(|candidate| (distance(&letters, &plain(candidate)), candidate))
        .filter(|(edits, _)| *edits <= allowed)
        .min_by_key(|(edits, _)| *edits)
        .map(|(_, candidate)| candidate)
}

/// What to tell the author of a word that is not known: the one that was probably meant, or all there are.
pub fn hint<'a>(word: &str, known: impl Iterator<Item = &'a str> + Clone) -> String {
    match nearest(word, known.clone()) {
        Some(known) => format!("did you mean `{known}`?"),
        None => format!("known here: {}", known.collect::<Vec<_>>().join(", ")),
    }
}

/// No key of Envoy's is nearly as long, and the work grows with the length.
const LONGEST: usize = 128;

/// Case and underscores are the least of all slips.
fn plain(word: &str) -> Vec<char> {
    word.chars().filter(|letter| *letter != '_').flat_map(char::to_lowercase).collect()
}

/// Insertions, deletions, replacements and swaps of neighbours.
fn distance(a: &[char], b: &[char]) -> usize {
    let mut before_last = vec![0; b.len() + 1];
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for (row, from) in a.iter().enumerate() {
        let mut current = vec![row + 1; b.len() + 1];
        for (column, to) in b.iter().enumerate() {
            let replaced = last[column] + usize::from(from != to);
            current[column + 1] = replaced.min(last[column + 1] + 1).min(current[column] + 1);
            if row > 0 && column > 0 && a[row - 1] == *to && *from == b[column - 1] {
                current[column + 1] = current[column + 1].min(before_last[column - 1] + 1);
            }
        }
        before_last = std::mem::replace(&mut last, current);
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(word: &str, expected: Option<&str>) {
        let known = ["connectTimeout", "name", "type", "lbPolicy"];
        assert_eq!(nearest(word, known.into_iter()), expected, "{word}");
    }

    #[test]
    fn slips_find_their_word() {
        check("conectTimeout", Some("connectTimeout"));
        check("connecttimeout", Some("connectTimeout"));
        check("Connect_Time_Out", Some("connectTimeout"));
        check("nmae", Some("name"));
        check("typ", Some("type"));
        check("lb-policy", Some("lbPolicy"));
        check("loadAssignment", None);
        check("", None);
        check(&"x".repeat(10_000), None);
    }
}
