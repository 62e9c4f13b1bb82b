//! Readiness as a list of named conditions, each with the reason why it does not hold.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// All conditions of the process. Ready means that every one of them holds.
#[derive(Clone, Debug, Default)]
pub struct Health(Arc<Mutex<Vec<Entry>>>);

/// A condition by its name, and why it does not hold.
#[derive(Debug)]
struct Entry {
    name: &'static str,
    because: Option<String>,
}

/// One part's own condition in [`Health`].
#[derive(Clone, Debug)]
pub struct Condition {
    health: Health,
    index: usize,
}

impl Health {
    /// A new condition that does not hold yet, and why.
    pub fn condition(&self, name: &'static str, because: &str) -> Condition {
        let mut conditions = self.lock();
        conditions.push(Entry { name, because: Some(because.to_owned()) });
        Condition { health: self.clone(), index: conditions.len() - 1 }
    }

    /// What keeps the process from being ready: names and reasons, in the order of their making.
    pub fn missing(&self) -> Vec<(&'static str, String)> {
        self.lock().iter().filter_map(|entry| Some((entry.name, entry.because.clone()?))).collect()
    }

    /// A panic elsewhere leaves the list whole: each write replaces one entry.
    fn lock(&self) -> MutexGuard<'_, Vec<Entry>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Condition {
    pub fn holds(&self) {
        self.health.lock()[self.index].because = None;
    }

    pub fn fails(&self, because: impl Into<String>) {
        self.health.lock()[self.index].because = Some(because.into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ready_when_every_condition_holds() {
        let health = Health::default();
        let (certificate, caches) = (health.condition("certificate", "none yet"), health.condition("caches", "empty"));
        certificate.holds();
        assert_eq!(health.missing(), [("caches", "empty".to_owned())]);
        caches.holds();
        assert_eq!(health.missing(), []);
        certificate.fails("expired");
        assert_eq!(health.missing(), [("certificate", "expired".to_owned())]);
    }
}
