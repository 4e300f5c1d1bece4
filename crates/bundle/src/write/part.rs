//! Sections to be: a kind, items, a length and a source of exactly that many bytes.

use std::io::{self, Read, Write};

use kinglet_blob::Blob;

use crate::section::{Item, SectionKind};

/// A section to be. Its bytes are asked for once, when their turn has come.
pub struct Part<'a> {
    /// What it holds.
    pub kind: SectionKind,
    /// What is said of it.
    pub items: Vec<Item>,
    pub(super) len: u64,
    pub(super) source: Source<'a>,
}

pub(super) enum Source<'a> {
    Blob(Blob),
    Reader(Box<dyn Read + 'a>),
    Producer(Box<Producer<'a>>),
}

type Producer<'a> = dyn FnOnce(&mut dyn Write) -> io::Result<()> + 'a;

impl<'a> Part<'a> {
    /// Bytes that lie in memory or in a mapped file.
    pub fn blob(kind: SectionKind, items: Vec<Item>, blob: Blob) -> Part<'a> {
        Part { kind, items, len: blob.len() as u64, source: Source::Blob(blob) }
    }

    /// Few bytes.
    pub fn bytes(kind: SectionKind, items: Vec<Item>, bytes: Vec<u8>) -> Part<'a> {
        Part::blob(kind, items, Blob::from_vec(bytes))
    }

    /// `len` bytes that are read when they are needed.
    pub fn reader(kind: SectionKind, items: Vec<Item>, len: u64, reader: impl Read + 'a) -> Part<'a> {
        Part { kind, items, len, source: Source::Reader(Box::new(reader)) }
    }

    /// `len` bytes that `producer` makes when they are needed. An error of its own reaches the caller of
    /// [`Writer::write`](super::Writer::write) through [`Error::of_source`](crate::Error::of_source).
    pub fn producer(
        kind: SectionKind,
        items: Vec<Item>,
        len: u64,
        producer: impl FnOnce(&mut dyn Write) -> io::Result<()> + 'a,
    ) -> Part<'a> {
        Part { kind, items, len, source: Source::Producer(Box::new(producer)) }
    }

    /// Bytes that it takes.
    pub fn size_bytes(&self) -> u64 {
        self.len
    }
}

/// Bytes that are handed on at once.
const CHUNK: usize = 1 << 20;

impl Source<'_> {
    /// Writes everything, and no more than one byte beyond `len`.
    pub(super) fn write(self, len: u64, out: &mut dyn Write) -> io::Result<()> {
        match self {
            Source::Blob(blob) => blob.chunks(CHUNK).try_for_each(|chunk| out.write_all(chunk)),
            Source::Producer(producer) => producer(out),
            Source::Reader(reader) => {
                let mut reader = reader.take(len.saturating_add(1));
                let mut chunk = vec![0; CHUNK.min(usize::try_from(len).unwrap_or(CHUNK) + 1)];
                loop {
                    match reader.read(&mut chunk) {
                        Ok(0) => return Ok(()),
                        Ok(count) => out.write_all(&chunk[..count])?,
                        Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                        Err(error) => return Err(error),
                    }
                }
            }
        }
    }
}
