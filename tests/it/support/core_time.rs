//! Time on a core.

use std::sync::LazyLock;
use std::time::Instant;

/// Seconds that this thread has spent on a core: what others do on a shared machine is not in it. Where the system does not
/// tell, the clock on the wall has to do.
pub(crate) fn spent() -> f64 {
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    let told = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanoseconds = told.split(' ').next().and_then(|first| first.parse::<f64>().ok());
    nanoseconds.map_or_else(|| START.elapsed().as_secs_f64(), |nanoseconds| nanoseconds / 1e9)
}
