//! A certificate pair kept in two files, and the authorities of clients in another, read again while the server runs.
//!
//! Whoever renews the files may be seen halfway through. A pair that does not fit together is therefore not taken, the one
//! in use stays, and the next look decides again.

use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::time::sleep;
use tracing::{info, warn};

use super::tls::{Pair, TlsError};

/// Two files and what was last read from them.
#[derive(Debug)]
pub struct PairFiles {
    chain: PathBuf,
    key: PathBuf,
    seen: (Vec<u8>, Vec<u8>),
}

/// Why the files could not be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FilesError {
    #[error("{path}: {source}")]
    Read { path: String, source: std::io::Error },
    #[error("{chain} with {key}: {reason}")]
    Pair { chain: String, key: String, reason: TlsError },
}

impl PairFiles {
    /// Reads the pair for the first time; bad files fail here, before anything is bound.
    pub async fn open(chain: PathBuf, key: PathBuf) -> Result<(Self, Pair), FilesError> {
        let mut files = Self { chain, key, seen: (Vec::new(), Vec::new()) };
        let pair = files.read_changed().await?.ok_or_else(|| FilesError::Pair {
            chain: files.chain.display().to_string(),
            key: files.key.display().to_string(),
            reason: TlsError::NoCertificate,
        })?;
        Ok((files, pair))
    }

    /// Looks every `interval` and calls `changed` with each new pair. Never returns.
    pub async fn follow(mut self, interval: Duration, mut changed: impl FnMut(Pair)) {
        loop {
            sleep(interval).await;
            match self.read_changed().await {
                Ok(None) => {}
                Ok(Some(pair)) => {
                    info!(file = %self.chain.display(), expires = pair.expires(), "Certificate files reloaded");
                    changed(pair);
                }
                Err(error) => warn!(%error, "Certificate files not usable, keeping the pair in use"),
            }
        }
    }

    /// The pair, if the files differ from what was read last and fit together.
    async fn read_changed(&mut self) -> Result<Option<Pair>, FilesError> {
        let found = (read(&self.chain).await?, read(&self.key).await?);
        if found == self.seen {
            return Ok(None);
        }
        let pair = Pair::from_pem(&found.0, &found.1).map_err(|reason| FilesError::Pair {
            chain: self.chain.display().to_string(),
            key: self.key.display().to_string(),
            reason,
        });
        // A bad pair is remembered too, so that it is reported once and not at every look.
        self.seen = found;
        pair.map(Some)
    }
}

/// A file with the authorities of clients, and what was last read from it.
#[derive(Debug)]
pub struct RootsFile {
    path: PathBuf,
    seen: Vec<u8>,
}

impl RootsFile {
    pub async fn open(path: PathBuf) -> Result<Self, FilesError> {
        let seen = read(&path).await?;
        Ok(Self { path, seen })
    }

    /// What was last read.
    pub fn pem(&self) -> &[u8] {
        &self.seen
    }

    /// Looks every `interval` and calls `changed` with what is new. Never returns.
    pub async fn follow(mut self, interval: Duration, mut changed: impl FnMut(&[u8]) -> Result<(), TlsError>) {
        let file = self.path.display().to_string();
        loop {
            sleep(interval).await;
            match read(&self.path).await {
                Ok(found) if found == self.seen => {}
                Ok(found) => {
                    match changed(&found) {
                        Ok(()) => info!(file, "Authorities of clients reloaded"),
                        Err(error) => warn!(file, %error, "Authorities of clients not usable, keeping those in use"),
                    }
                    self.seen = found;
                }
                Err(error) => warn!(%error, "Authorities of clients not readable, keeping those in use"),
            }
        }
    }
}

async fn read(path: &Path) -> Result<Vec<u8>, FilesError> {
    tokio::fs::read(path).await.map_err(|source| FilesError::Read { path: path.display().to_string(), source })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write_pair(folder: &Path, halves: [bool; 2]) {
        let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
        if halves[0] {
            std::fs::write(folder.join("tls.crt"), made.cert.pem()).unwrap();
        }
        if halves[1] {
            std::fs::write(folder.join("tls.key"), made.signing_key.serialize_pem()).unwrap();
        }
    }

    #[tokio::test]
    async fn half_a_renewal_is_not_taken() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        let open = || PairFiles::open(path.join("tls.crt"), path.join("tls.key"));
        assert!(matches!(open().await, Err(FilesError::Read { .. })));

        write_pair(path, [true, true]);
        let (mut files, _) = open().await.unwrap();
        assert!(files.read_changed().await.unwrap().is_none());

        write_pair(path, [true, false]);
        assert!(matches!(files.read_changed().await, Err(FilesError::Pair { .. })));
        assert!(files.read_changed().await.unwrap().is_none(), "the same bad pair is reported once");

        write_pair(path, [true, true]);
        assert!(files.read_changed().await.unwrap().is_some());
    }

    #[tokio::test]
    async fn authorities_are_read_again_and_bad_ones_told_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ca.crt");
        assert!(RootsFile::open(path.clone()).await.is_err());
        std::fs::write(&path, "one").unwrap();
        let roots = RootsFile::open(path.clone()).await.unwrap();
        assert_eq!(roots.pem(), b"one");
        let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
        let following = roots.follow(Duration::from_millis(1), |pem| {
            tell.send(pem.to_vec()).unwrap();
            Err(TlsError::NoCertificate)
        });
        let watching = async {
            for text in ["two", "three"] {
                std::fs::write(&path, text).unwrap();
                // A write may be seen half done.
                while told.recv().await.unwrap() != text.as_bytes() {}
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
            assert!(told.try_recv().is_err(), "what has not changed is not told again");
        };
        tokio::select! {
            () = following => {}
            () = watching => {}
        }
    }
}
