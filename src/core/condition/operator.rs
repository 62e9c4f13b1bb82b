//! The operators by name, and which family tests them.

use std::fmt;

use serde_json::Value;

use super::{equality, membership, order};
use membership::Member;
use order::Relation;

/// What a condition does with its two operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    Equals,
    NotEquals,
    In(Member),
    Compare(Relation),
    CompareDurations(Relation),
    /// A comparison in the wrong case. It is known and never true, so a rule that has lived with it goes on as before.
    Miscased(&'static str),
}

const NAMED: [(&str, Operator); 16] = [
    ("Equals", Operator::Equals),
    ("NotEquals", Operator::NotEquals),
    ("In", Operator::In(Member::In)),
    ("AnyIn", Operator::In(Member::AnyIn)),
    ("AllIn", Operator::In(Member::AllIn)),
    ("NotIn", Operator::In(Member::NotIn)),
    ("AnyNotIn", Operator::In(Member::AnyNotIn)),
    ("AllNotIn", Operator::In(Member::AllNotIn)),
    ("GreaterThanOrEquals", Operator::Compare(Relation::GreaterOrEqual)),
    ("GreaterThan", Operator::Compare(Relation::Greater)),
    ("LessThanOrEquals", Operator::Compare(Relation::LessOrEqual)),
    ("LessThan", Operator::Compare(Relation::Less)),
    ("DurationGreaterThanOrEquals", Operator::CompareDurations(Relation::GreaterOrEqual)),
    ("DurationGreaterThan", Operator::CompareDurations(Relation::Greater)),
    ("DurationLessThanOrEquals", Operator::CompareDurations(Relation::LessOrEqual)),
    ("DurationLessThan", Operator::CompareDurations(Relation::Less)),
];

impl Operator {
    /// The names to choose from.
    pub const NAMES: [&'static str; 16] = {
        let mut names = [""; 16];
        let mut index = 0;
        while index < NAMED.len() {
            names[index] = NAMED[index].0;
            index += 1;
        }
        names
    };

    /// Reads a name in any case; `Equal` and `NotEqual` are old spellings.
    pub fn parse(name: &str) -> Option<Self> {
        let name = match name {
            _ if name.eq_ignore_ascii_case("Equal") => "Equals",
            _ if name.eq_ignore_ascii_case("NotEqual") => "NotEquals",
            _ => name,
        };
        let (right, operator) = NAMED.iter().find(|(known, _)| known.eq_ignore_ascii_case(name))?;
        match operator {
            Self::Compare(_) | Self::CompareDurations(_) if *right != name => Some(Self::Miscased(right)),
            operator => Some(*operator),
        }
    }

    /// Whether the operator holds between the substituted key and value. Nothing holds for a null key.
    pub fn holds(self, key: &Value, value: &Value) -> bool {
        if key.is_null() {
            return false;
        }
        match self {
            Self::Equals => equality::equal(key, value),
            Self::NotEquals => !equality::equal(key, value),
            Self::In(member) => member.holds(key, value),
            Self::Compare(relation) => order::compare(key, value).is_some_and(|order| relation.accepts(order)),
            Self::CompareDurations(relation) => {
                order::compare_durations(key, value).is_some_and(|order| relation.accepts(order))
            }
            Self::Miscased(_) => false,
        }
    }
}

impl fmt::Display for Operator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self {
            Self::Miscased(right) => return write!(f, "{right} (in the wrong case)"),
            operator => NAMED.iter().find(|(_, known)| known == operator).map_or("", |(name, _)| name),
        };
        f.write_str(name)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn names_are_known_in_any_case() {
        for name in Operator::NAMES {
            let operator = Operator::parse(name).expect(name);
            assert_eq!(operator.to_string(), name);
            assert!(Operator::parse(&name.to_lowercase()).is_some());
        }
        assert_eq!(Operator::parse("equal"), Some(Operator::Equals));
        assert_eq!(Operator::parse("NotEqual"), Some(Operator::NotEquals));
        assert_eq!(Operator::parse("anyin"), Some(Operator::In(Member::AnyIn)));
        assert_eq!(Operator::parse("Is"), None);
        assert_eq!(Operator::parse(""), None);
    }

    #[test]
    fn comparisons_in_the_wrong_case_never_hold() {
        let operator = Operator::parse("greaterthan").unwrap();
        assert!(!operator.holds(&json!(2), &json!(1)));
        assert!(Operator::parse("GreaterThan").unwrap().holds(&json!(2), &json!(1)));
    }

    #[test]
    fn nothing_holds_for_a_null_key() {
        for name in Operator::NAMES {
            for value in [json!(null), json!("a"), json!(1), json!(["a"]), json!("1-2")] {
                assert!(!Operator::parse(name).unwrap().holds(&Value::Null, &value), "null {name} {value}");
            }
        }
    }
}
