//! Generate rules: when a trigger appears, these objects are to exist.
//!
//! Everything a rule computes, as values: [`evaluate`] takes a [`Rule`], a [`Trigger`] and [`Facts`] and gives a [`Plan`], or
//! names what it has to know first. It never reads a cluster and never writes to one.
//!
//! | file | subject |
//! |---|---|
//! | `rule` | policies and rules, compiled |
//! | `trigger` | the object and the request that set a rule off |
//! | `gate`, `fetch`, `api_path` | what a rule may look up and write |
//! | `facts` | what has been looked up |
//! | `context` | named values of a rule |
//! | `evaluate` | match, preconditions, targets |
//! | `expand`, `body` | patterns to targets |
//! | `labels`, `plan` | the result |
//! | `downstream`, `diff` | generated objects, read back and compared |
//! | `way` | how a rule gets to know of its triggers |
//! | `registration` | what the API server must send for it |
//! | `progress` | which triggers are news |
//! | `retention`, `brake` | what is deleted, and what is not |
//! | `request` | work that is stored in the cluster |

pub mod api_path;
mod brake;
mod body;
pub mod context;
pub mod diff;
pub mod downstream;
mod error;
mod evaluate;
mod expand;
mod facts;
mod fetch;
pub mod gate;
pub mod labels;
mod plan;
pub mod progress;
pub mod registration;
pub mod request;
pub mod retention;
mod rule;
mod trigger;
mod way;

use serde_json::Value;

pub use brake::Brake;
pub use downstream::{Marks, TriggerRef};
pub use error::{Cause, PolicyKey, RuleError};
pub use evaluate::{Applicability, Evaluation, drive, evaluate, judge};
pub use facts::{Answer, Facts};
pub use fetch::{ApiFetch, Fetch, ImageFetch, ListFetch, ObjectFetch, ServiceFetch};
pub use gate::{Gate, Outbound, Reach};
pub use plan::{Failure, Mode, Place, Plan, Source, Target};
pub use rule::{Apply, Loop, Output, Pattern, Policy, Rule, TargetKind, Targets, Webhook};
pub use trigger::Trigger;
pub use way::Way;

/// How many bytes a value has as compact JSON.
fn json_bytes(value: &Value) -> usize {
    struct Count(usize);
    impl std::io::Write for Count {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut count = Count(0);
    // Neither a value nor a counter can fail to be written.
    let _ = serde_json::to_writer(&mut count, value);
    count.0
}
