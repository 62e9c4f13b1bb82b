//! The keys of the install.

use std::sync::Arc;

use tokio::sync::watch;

use crate::core::integrity::MacKey;

/// The keys at one moment. None of them is ever shown.
#[derive(Clone, Debug)]
pub struct Keys {
    pub mac: MacKey,
}

/// The keys as they are now, for those who use them.
#[derive(Clone, Debug)]
pub struct KeyReader(watch::Receiver<Option<Arc<Keys>>>);

impl KeyReader {
    /// Keys that never change: for tests and for tools without a cluster.
    pub fn fixed(keys: Keys) -> Self {
        Self(watch::channel(Some(Arc::new(keys))).1)
    }

    /// Nothing before the Secret was read for the first time.
    pub fn current(&self) -> Option<Arc<Keys>> {
        self.0.borrow().clone()
    }

    /// Waits until the Secret was read.
    pub async fn ready(&self) -> Arc<Keys> {
        let mut receiver = self.0.clone();
        loop {
            if let Some(keys) = receiver.borrow_and_update().clone() {
                return keys;
            }
            if receiver.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }
}
