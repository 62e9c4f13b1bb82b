//! Strict semantic versions and the range language of `semver_compare`.
//!
//! A range is a list of comparators: all of those between two `||` must hold, of the groups one. `x` at the end of a
//! comparator stands for any number, with the meaning that existing policies rely on: `4.x.x` is `4.0.x`, and `!4.x`
//! is never true.

use std::cmp::Ordering;

use semver::Version;

/// A disjunction of conjunctions of comparators.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VersionRange(Vec<Vec<Comparator>>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Comparator {
    relation: Relation,
    version: Version,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Relation {
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    Equal,
    NotEqual,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum VersionRangeError {
    #[error("the version range is empty")]
    Empty,
    #[error("`{piece}` in version range `{range}` is not a comparator such as >=1.2.3 or 1.2.x")]
    Comparator { range: String, piece: String },
    #[error("version range `{range}` has nothing on one side of `||`")]
    EmptyGroup { range: String },
}

impl VersionRangeError {
    /// The message without the text that was read, which may be the content of a Secret.
    pub fn words(&self) -> &'static str {
        match self {
            Self::Empty => "is no version range: it is empty",
            Self::Comparator { .. } => "is no version range: a part is not a comparator such as >=1.2.3 or 1.2.x",
            Self::EmptyGroup { .. } => "is no version range: one side of `||` is empty",
        }
    }
}

/// Reads `major.minor.patch[-pre][+build]`, nothing looser.
pub fn parse(text: &str) -> Option<Version> {
    Version::parse(text).ok()
}

/// Orders by precedence: a pre-release comes before its release, build metadata does not count.
pub fn compare(a: &Version, b: &Version) -> Ordering {
    a.cmp_precedence(b)
}

impl VersionRange {
    pub fn parse(text: &str) -> Result<Self, VersionRangeError> {
        let mut groups = vec![Vec::new()];
        // An operator that stands alone belongs to the version after the space.
        let mut waiting: Option<&str> = None;
        for piece in text.split_whitespace() {
            let bad = || VersionRangeError::Comparator { range: text.to_owned(), piece: piece.to_owned() };
            if piece == "||" {
                if waiting.is_some() {
                    return Err(bad());
                }
                groups.push(Vec::new());
                continue;
            }
            let end = piece.find(|c: char| !"<>=!".contains(c)).unwrap_or(piece.len());
            let (operator, version) = piece.split_at(end);
            if version.is_empty() {
                if waiting.replace(operator).is_some() {
                    return Err(bad());
                }
                continue;
            }
            let operator = match waiting.take() {
                Some(operator) if end == 0 => operator,
                Some(_) => return Err(bad()),
                None => operator,
            };
            let relation = Relation::parse(operator).ok_or_else(bad)?;
            let group = groups.last_mut().expect("there is always a group");
            if !push(group, relation, version) {
                return Err(bad());
            }
        }
        if let Some(operator) = waiting {
            return Err(VersionRangeError::Comparator { range: text.to_owned(), piece: operator.to_owned() });
        }
        if groups.iter().all(Vec::is_empty) && groups.len() == 1 {
            return Err(VersionRangeError::Empty);
        }
        if groups.iter().any(Vec::is_empty) {
            return Err(VersionRangeError::EmptyGroup { range: text.to_owned() });
        }
        Ok(Self(groups))
    }

    pub fn contains(&self, version: &Version) -> bool {
        self.0.iter().any(|group| group.iter().all(|comparator| comparator.accepts(version)))
    }
}

impl Relation {
    fn parse(operator: &str) -> Option<Self> {
        Some(match operator {
            "<" => Self::Less,
            "<=" => Self::LessOrEqual,
            ">" => Self::Greater,
            ">=" => Self::GreaterOrEqual,
            "" | "=" | "==" => Self::Equal,
            "!" | "!=" => Self::NotEqual,
            _ => return None,
        })
    }
}

impl Comparator {
    fn accepts(&self, version: &Version) -> bool {
        let order = compare(version, &self.version);
        match self.relation {
            Relation::Less => order.is_lt(),
            Relation::LessOrEqual => order.is_le(),
            Relation::Greater => order.is_gt(),
            Relation::GreaterOrEqual => order.is_ge(),
            Relation::Equal => order.is_eq(),
            Relation::NotEqual => order.is_ne(),
        }
    }
}

/// Adds what a comparator stands for; false if its version is none.
fn push(group: &mut Vec<Comparator>, relation: Relation, text: &str) -> bool {
    if let Some(version) = parse(text) {
        group.push(Comparator { relation, version });
        return true;
    }
    let Some((flat, next)) = expand_wildcard(text) else {
        return false;
    };
    let mut add = |relation, version: &Version| group.push(Comparator { relation, version: version.clone() });
    match relation {
        Relation::GreaterOrEqual => add(Relation::GreaterOrEqual, &flat),
        Relation::Less => add(Relation::Less, &flat),
        Relation::Greater => add(Relation::GreaterOrEqual, &next),
        Relation::LessOrEqual => add(Relation::Less, &next),
        Relation::Equal => {
            add(Relation::GreaterOrEqual, &flat);
            add(Relation::Less, &next);
        }
        // Both at once, hence never: that is what the range means to the policies that use it.
        Relation::NotEqual => {
            add(Relation::Less, &flat);
            add(Relation::GreaterOrEqual, &next);
        }
    }
    true
}

/// `4.1.x` → (4.1.0, 4.2.0), `4.x` → (4.0.0, 5.0.0), `4.x.x` → (4.0.0, 4.1.0).
fn expand_wildcard(text: &str) -> Option<(Version, Version)> {
    let major: u64;
    let mut minor = 0;
    let parts: Vec<&str> = text.split('.').collect();
    match parts.as_slice() {
        [first, "x"] | [first, "x", "x"] => major = component(first)?,
        [first, second, "x"] => (major, minor) = (component(first)?, component(second)?),
        _ => return None,
    }
    let flat = Version::new(major, minor, 0);
    let next = match parts.len() {
        3 => Version::new(major, minor.checked_add(1)?, 0),
        _ => Version::new(major.checked_add(1)?, 0, 0),
    };
    Some((flat, next))
}

/// A number without leading zeros.
fn component(text: &str) -> Option<u64> {
    let canonical = text == "0" || !text.starts_with('0');
    (canonical && text.bytes().all(|byte| byte.is_ascii_digit())).then(|| text.parse().ok())?
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn ranges() {
        #[track_caller]
        fn check(version: &str, range: &str, expected: bool) {
            let range = VersionRange::parse(range).unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(range.contains(&parse(version).unwrap()), expected, "{version} in {range:?}");
        }
        check("4.1.3", ">=4.1.x", true);
        check("4.1.3", "!4.x.x", false);
        check("1.8.6", ">1.0.0 <2.0.0", true);
        check("2.1.5", "<2.0.0 || >=3.0.0", false);
        check("3.0.0", "<2.0.0 || >=3.0.0", true);
        check("1.2.3", "1.2.3", true);
        check("1.2.3", "==1.2.3", true);
        check("1.2.3", "= 1.2.3", true);
        check("1.2.3", "!=1.2.3", false);
        check("1.2.4", "! 1.2.3", true);
        check("1.2.3", "> 1.2.2 < 1.2.4", true);
        check("1.2.3+build", "1.2.3", true);
        check("1.2.3-rc.1", "<1.2.3", true);
        check("4.1.0", "4.x.x", false);
        check("4.0.9", "4.x.x", true);
        check("4.9.9", "4.x", true);
        check("5.0.0", "4.x", false);
        check("4.1.9", ">4.1.x", false);
        check("4.2.0", ">4.1.x", true);
        check("4.1.9", "<=4.1.x", true);
        check("4.1.0", "<4.1.x", false);
        check("9.0.0", "!4.x", false);
        check("1.2.3-next", "1.2.3-next", true);
    }

    #[test]
    fn refusals() {
        for range in [
            "1.0.0 - 3.0.0",
            "v1.2.3",
            "1.2",
            "*",
            "1.X",
            "x",
            ">",
            "1.0.0 >",
            "> > 1.0.0",
            "=>1.0.0",
            "01.2.x",
            "1.x.3",
            ">1.0.0<2.0.0",
        ] {
            assert!(matches!(VersionRange::parse(range), Err(VersionRangeError::Comparator { .. })), "{range}");
        }
        assert_eq!(VersionRange::parse(" "), Err(VersionRangeError::Empty));
        for range in ["1.0.0 ||", "|| 1.0.0", "1.0.0 || || 2.0.0"] {
            assert_eq!(VersionRange::parse(range), Err(VersionRangeError::EmptyGroup { range: range.into() }));
        }
    }

    #[test]
    fn versions_are_strict() {
        for text in ["v1.2.3", "1.2", "01.2.3", "1.2.3-01", "", "1.2.3 "] {
            assert_eq!(parse(text), None, "{text}");
        }
        assert!(compare(&parse("1.0.0-alpha").unwrap(), &parse("1.0.0").unwrap()).is_lt());
        assert!(compare(&parse("1.0.0+a").unwrap(), &parse("1.0.0+b").unwrap()).is_eq());
    }

    proptest! {
        #[test]
        fn a_version_is_on_one_side_of_another(a in 0_u64..4, b in 0_u64..4, c in 0_u64..4) {
            let version = Version::new(a, b, c);
            let holds = |range: &str| VersionRange::parse(range).unwrap().contains(&version);
            prop_assert!(holds("<2.1.1 || >=2.1.1"));
            prop_assert_ne!(holds(">2.1.1"), holds("<=2.1.1"));
            prop_assert_ne!(holds("2.1.1"), holds("!=2.1.1"));
        }
    }
}
