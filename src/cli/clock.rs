//! What a command takes from the machine it runs on: the time, chance, and the addresses of hosts.

use std::net::{IpAddr, ToSocketAddrs};
use std::time::{SystemTime, UNIX_EPOCH};

use jiff::Timestamp;

/// Now, or the beginning of time on a machine whose clock is before it.
#[expect(clippy::disallowed_methods, reason = "a command asks the clock once, on behalf of the engine that never does")]
pub(super) fn now() -> Timestamp {
    Timestamp::try_from(SystemTime::now()).unwrap_or(Timestamp::UNIX_EPOCH)
}

/// A seed for `random()` that differs from run to run.
#[expect(clippy::disallowed_methods, reason = "a command asks the clock once, on behalf of the engine that never does")]
pub(super) fn seed() -> u64 {
    let nanoseconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos());
    (nanoseconds as u64) ^ (u64::from(std::process::id()) << 32)
}

/// The addresses of a host, or why there are none.
pub(super) fn addresses(host: &str) -> Result<Vec<IpAddr>, String> {
    let addresses = (host, 0).to_socket_addrs().map_err(|error| error.to_string())?;
    Ok(addresses.map(|address| address.ip()).collect())
}
