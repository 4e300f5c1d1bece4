//! SHA-256: bytes go in, a digest comes out.

use std::fmt::{Debug, Display, Formatter};

use kinglet_blob::Blob;
use serde::{Serialize, Serializer};
use sha2::Digest as _;

/// The SHA-256 of some bytes; shown as 64 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Digest(pub [u8; 32]);

impl Digest {
    /// The digest of the bytes of `blob`. Those of a mapped file are given back as it goes on, so that little of a large
    /// file is in memory.
    pub fn of_blob(blob: &Blob) -> Digest {
        const STEP: usize = 1 << 24;
        let mut hasher = Hasher::default();
        for start in (0..blob.len()).step_by(STEP) {
            let part = blob.slice(start..(start + STEP).min(blob.len())).expect("inside the blob");
            hasher.update(&part);
            part.release();
        }
        hasher.finish()
    }

    /// The digest of `bytes`.
    pub fn of(bytes: &[u8]) -> Digest {
        let mut hasher = Hasher::default();
        hasher.update(bytes);
        hasher.finish()
    }
}

impl Display for Digest {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl Debug for Digest {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        Display::fmt(self, f)
    }
}

impl Serialize for Digest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Takes bytes piece by piece.
#[derive(Clone, Debug, Default)]
pub struct Hasher(sha2::Sha256);

impl Hasher {
    /// Takes the next bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The digest of all bytes.
    pub fn finish(self) -> Digest {
        Digest(self.0.finalize().into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_blob_has_the_digest_of_its_bytes() {
        let bytes: Vec<u8> = (0..40_000_000u32).map(|i| (i % 253) as u8).collect();
        let expected = Digest::of(&bytes);
        assert_eq!(Digest::of_blob(&Blob::from_vec(bytes)), expected);
    }

    #[test]
    fn the_digest_is_that_of_the_standard() {
        let expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(Digest::of(b"abc").to_string(), expected);
        let mut hasher = Hasher::default();
        hasher.update(b"a");
        hasher.update(b"bc");
        assert_eq!(hasher.finish().to_string(), expected);
    }
}
