//! Generate rules: when a trigger appears, these objects are to exist.
//!
//! Everything a rule computes, as values: [`evaluate`] takes a [`Rule`], a [`Trigger`] and [`Facts`] and gives a [`Plan`], or
//! names what it has to know first. It never reads a cluster and never writes to one.
//!
//! | file | subject |
//! |---|---|
//! | `rule` | policies and rules, compiled |
//! | `trigger` | the object and the request that set a rule off |
//! | `gate`, `bounds`, `fetch`, `api_path`, `service_url` | what a rule may look up and write |
//! | `facts` | what has been looked up |
//! | `exception` | triggers that are taken out of rules |
//! | `context` | named values of a rule |
//! | `global` | named values of all rules |
//! | `evaluate` | exceptions, match, preconditions, targets |
//! | `expand`, `identity`, `body` | patterns to targets |
//! | `labels`, `plan` | the result |
//! | `downstream`, `diff` | generated objects, read back and compared |
//! | `way` | how a rule gets to know of its triggers |
//! | `registration` | what the API server must send for it |
//! | `progress` | which triggers are news |
//! | `retention`, `brake` | what is deleted, and what is not |
//! | `request` | work that is stored in the cluster |

pub mod api_path;
mod body;
mod bounds;
mod brake;
pub mod context;
pub mod diff;
pub mod downstream;
mod error;
mod evaluate;
mod exception;
mod expand;
mod facts;
mod fetch;
pub mod gate;
pub mod global;
mod identity;
pub mod labels;
mod plan;
pub mod progress;
pub mod registration;
pub mod request;
pub mod retention;
mod rule;
mod service_url;
mod trigger;
mod way;

use serde_json::Value;

pub use bounds::InstallBounds;
pub use brake::Brake;
pub use downstream::{Marks, SourceRef, TriggerRef};
pub use error::{Cause, PolicyKey, RuleError};
pub use evaluate::{Applicability, Evaluation, drive, evaluate, judge};
pub use exception::{Exception, ExceptionEntry, ExceptionKey, Honoured};
pub use facts::{Answer, Facts, seed};
pub use fetch::{ApiFetch, Fetch, GlobalFetch, HostFetch, ImageFetch, ListFetch, ObjectFetch, ServiceFetch, readings};
pub use gate::{Gate, Outbound, Reach, WriteTarget};
pub use plan::{Failure, Mode, Place, Plan, Source, Target};
pub use rule::{Apply, Loop, Output, Pattern, Policy, Rule, TargetKind, Targets, Webhook};
pub use service_url::ServiceUrl;
pub use trigger::Trigger;
pub use way::Way;

/// How many bytes a value has as compact JSON, escapes not counted: a bound must cost less than what it bounds.
fn json_bytes(value: &Value) -> usize {
    let separators = |count: usize| 2 + count.saturating_sub(1);
    match value {
        Value::Null => 4,
        Value::Bool(flag) => 5 - usize::from(*flag),
        Value::Number(number) => number.to_string().len(),
        Value::String(text) => text.len() + 2,
        Value::Array(items) => separators(items.len()) + items.iter().map(json_bytes).sum::<usize>(),
        Value::Object(fields) => {
            let inside = fields.iter().map(|(key, value)| key.len() + 3 + json_bytes(value));
            separators(fields.len()) + inside.sum::<usize>()
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn bytes_are_those_of_compact_json() {
        for value in [
            json!(null),
            json!(true),
            json!(false),
            json!(-12.5),
            json!("text"),
            json!([]),
            json!({}),
            json!([1, [2, "x"], {"a": null, "b": {"c": []}}]),
        ] {
            assert_eq!(json_bytes(&value), value.to_string().len(), "{value}");
        }
    }
}
