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
