//! What a comparison costs before it is done. `AnyIn` and its relatives compare each key with each value, and a wildcard visits
//! a text once per character of the pattern, so the cost is a product that a rule can make large.

use serde_json::Value;

use crate::core::scalar::json_text::json_bytes;
use crate::core::scalar::wildcard;

/// The members of an operand and the size of their texts.
#[derive(Default)]
struct Extent {
    members: usize,
    bytes: usize,
    /// Bytes of the members that are patterns.
    pattern_bytes: usize,
}

/// Bytes that are read for the price of one step.
const BYTES_PER_STEP: usize = 16;

/// The steps that a comparison of these operands takes at most.
pub(super) fn of(key: &Value, value: &Value) -> usize {
    let (key, value) = (Extent::of(key), Extent::of(value));
    let pairs = key.members.saturating_mul(value.members);
    let patterns = key.pattern_bytes.saturating_mul(value.bytes);
    let patterns = patterns.saturating_add(value.pattern_bytes.saturating_mul(key.bytes));
    let read = key.bytes.saturating_add(value.bytes).saturating_add(patterns);
    pairs.saturating_add(read / BYTES_PER_STEP)
}

impl Extent {
    fn of(value: &Value) -> Self {
        let mut extent = Self::default();
        match value {
            Value::Array(members) => members.iter().for_each(|member| extent.add(member)),
            other => extent.add(other),
        }
        extent
    }

    fn add(&mut self, member: &Value) {
        match member {
            Value::String(text) => {
                // A text may be a list in JSON.
                self.members += 1 + text.matches(',').count();
                self.bytes += text.len();
                if wildcard::is_pattern(text) {
                    self.pattern_bytes += text.len();
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {
                self.members += 1;
                self.bytes += BYTES_PER_STEP;
            }
            // Compared as JSON text, in which any text may be a pattern.
            Value::Array(_) | Value::Object(_) => {
                let bytes = json_bytes(member);
                self.members += 1;
                self.bytes += bytes;
                self.pattern_bytes += bytes;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_list_is_priced_by_its_pairs_and_patterns() {
        assert!(of(&json!("a"), &json!("b")) < 10);
        let many: Vec<_> = (0..1000).map(|index| index.to_string()).collect();
        assert!(of(&json!("a"), &json!(many)) < 2_000);
        assert!(of(&json!(many), &json!(many)) >= 1_000_000);
        let stars = "a*".repeat(1000);
        assert!(of(&json!(stars), &json!("a".repeat(2000))) >= 250_000);
        assert!(of(&json!([{"a": stars}]), &json!("a".repeat(2000))) >= 250_000);
    }
}
