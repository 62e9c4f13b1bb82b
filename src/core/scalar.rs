//! The small texts inside policies: numbers, durations, quantities, versions, times, image references, wildcards.
//!
//! One grammar per file, each a pure function of its text. What an operator or a JMESPath function does with them is not
//! known here.

pub mod duration;
pub mod go_time;
pub mod image;
pub mod json_text;
pub mod number;
pub mod quantity;
pub mod range;
pub mod semver;
pub mod wildcard;
