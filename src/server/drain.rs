//! The way out: [`Shutdown`] is held by the wiring, a [`Drain`] by every listener.
//!
//! `Serving` → `Leaving` (still serving; HTTP/1.1 answers say `Connection: close`, so that clients move on while the
//! endpoints of the Service are being updated) → `Stopping` (no new connections; what is in flight is finished).

use tokio::sync::watch;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    Serving,
    Leaving,
    Stopping,
}

/// Moves every listener that shares it through the phases.
#[derive(Debug)]
pub struct Shutdown(watch::Sender<Phase>);

/// A listener's view of the phase.
#[derive(Clone, Debug)]
pub struct Drain(watch::Receiver<Phase>);

impl Shutdown {
    pub fn new() -> (Self, Drain) {
        let (sender, receiver) = watch::channel(Phase::Serving);
        (Self(sender), Drain(receiver))
    }

    /// Moves on; there is no way back.
    pub fn enter(&self, phase: Phase) {
        self.0.send_if_modified(|current| {
            let later = phase > *current;
            *current = phase.max(*current);
            later
        });
    }
}

impl Drain {
    pub fn phase(&self) -> Phase {
        *self.0.borrow()
    }

    /// Returns once the phase is `Stopping`, or when the [`Shutdown`] is gone, which means the same.
    pub async fn stopping(&mut self) {
        let _ = self.0.wait_for(|phase| *phase == Phase::Stopping).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_no_way_back() {
        let (shutdown, drain) = Shutdown::new();
        assert_eq!(drain.phase(), Phase::Serving);
        shutdown.enter(Phase::Stopping);
        shutdown.enter(Phase::Leaving);
        assert_eq!(drain.phase(), Phase::Stopping);
    }
}
