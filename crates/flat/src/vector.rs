//! Vectors: a checked span of the buffer goes in, its elements come out.

use std::marker::PhantomData;

use crate::trail::Trail;
use crate::{Flat, Problem, Result, Scalar, Table};

/// A vector of tables, each read when it is asked for.
#[derive(Clone, Copy, Debug)]
pub struct Tables<'f> {
    pub(crate) flat: &'f Flat<'f>,
    pub(crate) trail: Trail,
    pub(crate) start: u64,
    pub(crate) len: u32,
}

impl<'f> Tables<'f> {
    /// Number of tables.
    pub fn len(&self) -> usize {
        self.len as usize
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Table `index`.
    pub fn get(&self, index: usize) -> Result<Table<'f>> {
        let Some(element) = u32::try_from(index).ok().filter(|index| *index < self.len) else {
            let problem = Problem::Index { index: index as u64, len: u64::from(self.len) };
            return Err(self.trail.here().error(self.start, problem));
        };
        let trail = self.trail.at(element);
        let position = self.flat.offset(self.start + 4 * u64::from(element), trail.here(), "table offset")?;
        Table::read(self.flat, position, trail)
    }

    /// All tables in order.
    pub fn iter(&self) -> impl Iterator<Item = Result<Table<'f>>> + use<'f> {
        let tables = *self;
        (0..self.len()).map(move |index| tables.get(index))
    }
}

/// A vector of numbers.
#[derive(Clone, Copy, Debug)]
pub struct Scalars<'f, S> {
    bytes: &'f [u8],
    number: PhantomData<S>,
}

impl<'f, S: Scalar> Scalars<'f, S> {
    /// `bytes` is a whole number of `S`.
    pub(crate) fn new(bytes: &'f [u8]) -> Scalars<'f, S> {
        Scalars { bytes, number: PhantomData }
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        self.bytes.len() / S::SIZE as usize
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// All elements in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = S> + use<'f, S> {
        self.bytes.chunks_exact(S::SIZE as usize).map(S::read)
    }
}

/// Bytes of a vector or string, and where they begin in the buffer.
#[derive(Clone, Copy, Debug)]
pub struct Bytes<'f> {
    /// First byte in the buffer.
    pub start: u64,
    /// The bytes.
    pub bytes: &'f [u8],
}
