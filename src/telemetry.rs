//! What operators see: logs, metrics, health. It knows nothing of what is logged, measured or checked.

mod generate;
mod health;
mod log;
mod metrics;
mod routes;

pub use generate::{GenerateMetrics, RuleInfo};
pub use health::{Condition, Health};
pub use log::{LogError, LogFormat, start_logging};
pub use metrics::{Metrics, Outcome};
pub use routes::answer;
