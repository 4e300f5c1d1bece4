//! Bounds-checked FlatBuffers: bytes go in, tables, vectors and strings inside them come out, each checked before it is
//! handed out; reading never copies, never allocates but for an error, and never trusts an offset.
//! [`mod@write`] is the way back.
//!
//! A schema is a list of [`Field`]s. Errors name the path of fields that led to the fault and its byte offset.
//!
//! ```
//! use kinglet_flat::{Field, Flat};
//!
//! const VERSION: Field = Field::new("version", 0);
//!
//! // A root table with one `u32` field that holds 3.
//! let bytes = [12, 0, 0, 0, 0, 0, 6, 0, 8, 0, 4, 0, 6, 0, 0, 0, 3, 0, 0, 0];
//! let flat = Flat::new(&bytes, "Model");
//! assert_eq!(flat.root()?.scalar(VERSION, 0u32)?, 3);
//!
//! let short = Flat::new(&bytes[..19], "Model");
//! assert_eq!(
//!     short.root().expect_err("cut").to_string(),
//!     "Model at byte 12: table ends at byte 20, the buffer has 19"
//! );
//! # Ok::<(), kinglet_flat::Error>(())
//! ```

mod error;
mod scalar;
mod table;
mod trail;
mod vector;
pub mod write;

use std::cell::Cell;

pub use error::{Error, Problem};
pub use scalar::Scalar;
pub use table::{Field, Table};
pub use trail::DEPTH;
use trail::{Place, Trail};
pub use vector::{Bytes, Scalars, Tables};

/// Result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Bytes of a FlatBuffer, and how much reading they are still good for.
///
/// A buffer can point at one table from many places, so that a small file unfolds into an endless tree. Every table
/// and every scalar vector read is therefore charged its size, up to 32 times the length of the buffer: a file that
/// shares nothing is read within one, and one whose dozen signatures share their scales within a dozen.
#[derive(Debug)]
pub struct Flat<'a> {
    bytes: &'a [u8],
    name: &'static str,
    budget: Cell<u64>,
}

/// Most bytes of tables and vectors read from one buffer, however long it is.
const BUDGET_LIMIT: u64 = 1 << 30;

/// Bytes a table takes at least: its link to the vtable, and the link of whoever points at it.
const TABLE_COST: u64 = 8;

impl<'a> Flat<'a> {
    /// A buffer whose root table is called `name` in messages. Nothing is read.
    pub fn new(bytes: &'a [u8], name: &'static str) -> Flat<'a> {
        let budget = (bytes.len() as u64).saturating_mul(32).saturating_add(4096).min(BUDGET_LIMIT);
        Flat { bytes, name, budget: Cell::new(budget) }
    }

    /// The four identifier bytes after the root offset; `None` when the buffer is shorter.
    pub fn identifier(&self) -> Option<[u8; 4]> {
        self.bytes.get(4..8).map(|id| [id[0], id[1], id[2], id[3]])
    }

    /// The root table.
    pub fn root(&self) -> Result<Table<'_>> {
        let trail = Trail::new(self.name);
        let position = self.offset(0, trail.here(), "root offset")?;
        Table::read(self, position, trail)
    }

    /// Length of the buffer in bytes.
    fn len(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// Bytes `start..start + len`.
    fn take(&self, start: u64, len: u64, place: Place<'_>, what: &'static str) -> Result<&[u8]> {
        let end = start.saturating_add(len);
        if end > self.len() {
            return Err(place.error(start, Problem::Outside { what, end, len: self.len() }));
        }
        // Both fit: they are at most the length of a slice.
        Ok(&self.bytes[start as usize..end as usize])
    }

    fn read<S: Scalar>(&self, start: u64, place: Place<'_>, what: &'static str) -> Result<S> {
        Ok(S::read(self.take(start, S::SIZE, place, what)?))
    }

    /// Follows the unsigned offset stored at `start`.
    fn offset(&self, start: u64, place: Place<'_>, what: &'static str) -> Result<u64> {
        let distance: u32 = self.read(start, place, what)?;
        if distance == 0 {
            return Err(place.error(start, Problem::ZeroOffset { what }));
        }
        Ok(start + u64::from(distance))
    }

    fn charge(&self, position: u64, cost: u64, place: Place<'_>) -> Result<()> {
        match self.budget.get().checked_sub(cost) {
            Some(rest) => {
                self.budget.set(rest);
                Ok(())
            }
            None => Err(place.error(position, Problem::Budget)),
        }
    }
}
