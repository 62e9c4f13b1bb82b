//! Wildcard patterns: `*` is any run of characters (also none), `?` exactly one, everything else itself.
//!
//! The matcher remembers only the last `*` it passed: when the text no longer fits it lets that star take one character
//! more. An earlier star never needs to be revisited, so the cost is at most pattern length times text length.

/// Whether the whole text matches the pattern, case-sensitively.
pub fn matches(pattern: &str, text: &str) -> bool {
    let (pattern, text) = (pattern.as_bytes(), text.as_bytes());
    let (mut p, mut t) = (0, 0);
    // Where to go on in the pattern after the last star, and where in the text it was left.
    let mut star: Option<(usize, usize)> = None;
    while t < text.len() {
        match pattern.get(p) {
            Some(b'*') => {
                p += 1;
                star = Some((p, t));
            }
            Some(b'?') => {
                p += 1;
                t += char_len(text[t]);
            }
            Some(byte) if *byte == text[t] => {
                p += 1;
                t += 1;
            }
            _ => match star {
                Some((after, left)) => {
                    let left = left + char_len(text[left]);
                    star = Some((after, left));
                    (p, t) = (after, left);
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|byte| *byte == b'*')
}

/// Whether the text holds a wildcard at all.
pub fn is_pattern(text: &str) -> bool {
    text.contains(['*', '?'])
}

/// The length of the UTF-8 character that starts with this byte.
fn char_len(first: u8) -> usize {
    match first {
        0xf0.. => 4,
        0xe0.. => 3,
        0xc0.. => 2,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn patterns() {
        #[track_caller]
        fn check(pattern: &str, text: &str, expected: bool) {
            assert_eq!(matches(pattern, text), expected, "{pattern} against {text}");
        }
        check("", "", true);
        check("", "a", false);
        check("*", "", true);
        check("*", "a/b", true);
        check("?", "", false);
        check("?", "é", true);
        check("??", "é", false);
        check("a?c", "a日c", true);
        check("*日", "本日", true);
        check("prefix-*", "prefix-foo", true);
        check("12*", "12", true);
        check("prod-*", "Prod-a", false);
        check("*-a", "b-a-a", true);
        check("*a*b", "xaxbxb", true);
        check("*a*b", "xaxbxc", false);
        check("1.5.*", "1.5.2", true);
        check("a*?", "a", false);
        check("a*?", "ab", true);
        check("[a-z]", "b", false);
        check("abc", "abc", true);
        check("abc", "ab", false);
        check("ab", "abc", false);
    }

    #[test]
    fn many_stars_stay_cheap() {
        let (pattern, text) = ("a*".repeat(2_000) + "b", "a".repeat(20_000));
        let start = Instant::now();
        assert!(!matches(&pattern, &text));
        assert!(start.elapsed() < Duration::from_secs(5));
    }

    /// The definition, for small inputs.
    fn reference(pattern: &[char], text: &[char]) -> bool {
        match pattern.split_first() {
            None => text.is_empty(),
            Some(('*', rest)) => (0..=text.len()).any(|skipped| reference(rest, &text[skipped..])),
            Some(('?', rest)) => !text.is_empty() && reference(rest, &text[1..]),
            Some((c, rest)) => text.first() == Some(c) && reference(rest, &text[1..]),
        }
    }

    proptest! {
        #[test]
        fn agrees_with_the_definition(pattern in "[aé*?]{0,7}", text in "[aé日]{0,8}") {
            let expected =
                reference(&pattern.chars().collect::<Vec<_>>(), &text.chars().collect::<Vec<_>>());
            prop_assert_eq!(matches(&pattern, &text), expected);
        }

        #[test]
        fn plain_text_matches_itself_only(a in "[a-c]{0,4}", b in "[a-c]{0,4}") {
            prop_assert_eq!(matches(&a, &b), a == b);
        }
    }
}
