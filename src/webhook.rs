//! Admission over HTTP, without the HTTP: a whole request in, a whole response out.
//!
//! `routes` picks by method and path, `review` reads and writes AdmissionReviews, `validate` judges the policies that
//! people apply. It knows no socket, no TLS, no cluster.

mod object;
mod review;
mod routes;
mod validate;

pub use review::{Operation, Request, Status, UserInfo, Verdict};
pub use routes::{Answer, Outcome, PATHS, handle};
pub use validate::validate;
