//! Waiting for conditions, and names that nobody else uses.

use std::fmt::Display;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Asks again until the closure has an answer. Fails with its last refusal when `within` is over.
#[track_caller]
pub(crate) fn eventually<T, E: Display>(within: Duration, what: &str, mut ask: impl FnMut() -> Result<T, E>) -> T {
    let start = Instant::now();
    loop {
        match ask() {
            Ok(answer) => return answer,
            Err(why) if start.elapsed() >= within => panic!("{what}: not within {within:?}: {why}"),
            Err(_) => sleep(Duration::from_millis(50)),
        }
    }
}

/// A name for an object of one test.
pub(crate) fn unique(prefix: &str) -> String {
    format!("{prefix}-{:08x}", RandomState::new().build_hasher().finish() as u32)
}
