//! What `random()` draws from: HMAC-SHA-256 in counter mode. Whoever does not know the seed cannot guess a draw, and other
//! draws of the same seed do not help.

use std::fmt;

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

const SEED_BYTES: usize = 32;

/// What a sequence of draws starts from. It is never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Seed([u8; SEED_BYTES]);

/// The sequence of one evaluation.
#[derive(Clone)]
pub(super) struct Chance {
    keyed: Hmac<Sha256>,
    blocks: u64,
    block: [u8; SEED_BYTES],
    used: usize,
}

impl Seed {
    /// Nothing if `bytes` has the wrong length for a seed.
    pub fn new(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Self)
    }

    /// The seed of something that these texts name. One derived seed tells nothing of another.
    #[must_use]
    pub fn derive(&self, parts: &[&str]) -> Self {
        let mut code = self.keyed();
        for part in parts {
            // The length comes first: `a`, `bc` and `ab`, `c` must differ.
            code.update(&(part.len() as u64).to_be_bytes());
            code.update(part.as_bytes());
        }
        Self(code.finalize().into_bytes().into())
    }

    fn keyed(&self) -> Hmac<Sha256> {
        <Hmac<Sha256> as KeyInit>::new_from_slice(&self.0).expect("HMAC takes keys of any length")
    }
}

/// For evaluations whose draws need not be secret.
impl From<u64> for Seed {
    fn from(number: u64) -> Self {
        let mut bytes = [0; SEED_BYTES];
        bytes[..8].copy_from_slice(&number.to_be_bytes());
        Self(bytes)
    }
}

impl fmt::Debug for Seed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Seed(…)")
    }
}

impl Chance {
    pub(super) fn new(seed: &Seed) -> Self {
        Self { keyed: seed.keyed(), blocks: 0, block: [0; SEED_BYTES], used: SEED_BYTES }
    }

    /// The next 64 bits.
    pub(super) fn next(&mut self) -> u64 {
        if self.used == SEED_BYTES {
            let mut code = self.keyed.clone();
            code.update(&self.blocks.to_be_bytes());
            self.block = code.finalize().into_bytes().into();
            self.blocks += 1;
            self.used = 0;
        }
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&self.block[self.used..self.used + 8]);
        self.used += 8;
        u64::from_be_bytes(bytes)
    }
}

impl fmt::Debug for Chance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Chance(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(seed: &Seed) -> Vec<u64> {
        let mut chance = Chance::new(seed);
        (0..9).map(|_| chance.next()).collect()
    }

    #[test]
    fn the_sequence_is_hmac_sha256_in_counter_mode() {
        let seed = Seed::new(&[7; SEED_BYTES]).expect("32 bytes");
        let expected: Vec<u64> = (0_u64..3)
            .flat_map(|counter| {
                let mut code = seed.keyed();
                code.update(&counter.to_be_bytes());
                let block: [u8; SEED_BYTES] = code.finalize().into_bytes().into();
                block.chunks(8).map(|bytes| u64::from_be_bytes(bytes.try_into().expect("8 bytes"))).collect::<Vec<_>>()
            })
            .take(9)
            .collect();
        assert_eq!(drawn(&seed), expected);
        assert_ne!(drawn(&seed), drawn(&Seed::from(7)));
    }

    #[test]
    fn derived_seeds_depend_on_every_part_and_on_the_root() {
        let root = Seed::from(1);
        assert_eq!(root.derive(&["a", "bc"]), root.derive(&["a", "bc"]));
        for other in [root.derive(&["ab", "c"]), root.derive(&["a", "bc", ""]), Seed::from(2).derive(&["a", "bc"])] {
            assert!(other != root.derive(&["a", "bc"]));
        }
    }

    #[test]
    fn a_seed_has_one_length_and_is_not_shown() {
        assert!(Seed::new(&[7; 31]).is_none() && Seed::new(&[]).is_none());
        assert!(!format!("{:?}{:?}", Seed::from(7), Chance::new(&Seed::from(7))).contains('7'));
    }
}
