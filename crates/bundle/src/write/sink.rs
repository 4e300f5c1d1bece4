//! Where the bytes of a bundle go: each is counted, hashed and handed on.

use std::io::{self, Write};

use super::{Digest, Hasher, Watch};

/// A disk is full: what was written, and what was to be written in all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full {
    /// Bytes that found room.
    pub written: u64,
    /// Bytes in all, where they are known.
    pub needed: Option<u64>,
}

impl std::fmt::Display for Full {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.needed.filter(|needed| *needed >= self.written) {
            Some(needed) => {
                let missing = needed - self.written;
                write!(f, "the disk is full: {needed} bytes are needed, {missing} of them found no room")
            }
            None => write!(f, "the disk is full after {} bytes", self.written),
        }
    }
}

impl std::error::Error for Full {}

/// Whether the system says that there is no room.
pub(super) fn is_full(error: &io::Error) -> bool {
    use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
    matches!(error.kind(), StorageFull | QuotaExceeded | FileTooLarge)
}

pub(super) struct Sink<'w> {
    out: &'w mut dyn Write,
    watch: &'w mut Watch<'w>,
    whole: Hasher,
    section: Hasher,
    /// Bytes written.
    pub(super) at: u64,
    needed: u64,
    /// Bytes that may come until the section is whole.
    room: u64,
    /// Why it takes no more.
    pub(super) refusal: Option<Refusal>,
}

pub(super) enum Refusal {
    Failed(io::Error),
    Interrupted,
    TooMany,
}

impl<'w> Sink<'w> {
    pub(super) fn new(out: &'w mut dyn Write, needed: u64, watch: &'w mut Watch<'w>) -> Sink<'w> {
        let (whole, section) = Default::default();
        Sink { out, watch, whole, section, at: 0, needed, room: u64::MAX, refusal: None }
    }

    /// A section of `len` bytes begins.
    pub(super) fn begin(&mut self, len: u64) {
        self.section = Hasher::default();
        self.room = len;
    }

    /// The section is over: its digest, and how many bytes it lacks.
    pub(super) fn end(&mut self) -> (Digest, u64) {
        (std::mem::take(&mut self.section).finish(), std::mem::replace(&mut self.room, u64::MAX))
    }

    /// Writes zeros up to the byte `at`, which was not yet written.
    pub(super) fn zeros(&mut self, at: u64) -> io::Result<()> {
        static ZEROS: [u8; 1 << 16] = [0; 1 << 16];
        while self.at < at {
            let count = (at - self.at).min(ZEROS.len() as u64) as usize;
            self.write_all(&ZEROS[..count])?;
        }
        Ok(())
    }

    pub(super) fn finish(self) -> Digest {
        self.whole.finish()
    }

    fn refuse<T>(&mut self, refusal: Refusal) -> io::Result<T> {
        self.refusal.get_or_insert(refusal);
        // The reason is in `refusal`, where no source can take it for its own.
        Err(io::Error::other("no more bytes are taken"))
    }
}

impl Write for Sink<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.refusal.is_some() || bytes.len() as u64 > self.room {
            return self.refuse(Refusal::TooMany);
        }
        let count = match self.out.write(bytes) {
            Ok(0) if !bytes.is_empty() => return self.refuse(Refusal::Failed(io::ErrorKind::WriteZero.into())),
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Err(error),
            Err(error) => return self.refuse(Refusal::Failed(error)),
        };
        self.whole.update(&bytes[..count]);
        self.section.update(&bytes[..count]);
        self.at += count as u64;
        self.room -= count as u64;
        match (self.watch)(self.at, self.needed) {
            std::ops::ControlFlow::Continue(()) => Ok(count),
            std::ops::ControlFlow::Break(()) => self.refuse(Refusal::Interrupted),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}
