//! What is wrong with a FlatBuffer, and where.

/// A fault in a FlatBuffer: the fields that led to it, the byte, and the problem.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path} at byte {offset}: {problem}")]
pub struct Error {
    pub(crate) path: String,
    pub(crate) offset: u64,
    pub(crate) problem: Problem,
}

/// The kind of fault.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// Something reaches beyond the buffer.
    #[error("{what} ends at byte {end}, the buffer has {len}")]
    Outside {
        /// What was read.
        what: &'static str,
        /// One past its last byte.
        end: u64,
        /// Length of the buffer.
        len: u64,
    },
    /// An offset points at itself.
    #[error("{what} is zero")]
    ZeroOffset {
        /// Which offset.
        what: &'static str,
    },
    /// The link from a table to its vtable leaves the buffer.
    #[error("the link to the vtable is {distance} bytes back")]
    VtableLink {
        /// The stored distance.
        distance: i64,
    },
    /// A vtable says an impossible size.
    #[error(
        "expected a vtable of an even number of 4 bytes or more for a table of 4 or more, found {vtable} and {table}"
    )]
    VtableSize {
        /// Stated bytes of the vtable.
        vtable: u16,
        /// Stated bytes of the table.
        table: u16,
    },
    /// A field does not lie in its table.
    #[error("the field takes bytes {start} to {end} of a table of {len}")]
    FieldOutside {
        /// First byte, counted from the table.
        start: u64,
        /// One past the last.
        end: u64,
        /// Stated bytes of the table.
        len: u64,
    },
    /// A required field is absent.
    #[error("a required field is absent")]
    Missing,
    /// A string is not UTF-8.
    #[error("the string is not utf-8")]
    NotUtf8,
    /// An index beyond a vector.
    #[error("index {index} of a vector of {len}")]
    Index {
        /// The index asked for.
        index: u64,
        /// Elements there are.
        len: u64,
    },
    /// Tables nest deeper than [`DEPTH`](crate::DEPTH).
    #[error("tables nest deeper than {}", crate::DEPTH)]
    Depth,
    /// More was read than an honest buffer of this length holds.
    #[error("the buffer unfolds into more than it can hold: tables or vectors are shared without end")]
    Budget,
    /// A value that the caller refuses.
    #[error("{0}")]
    Value(String),
}

impl Error {
    /// The fields that led to the fault, such as `Model.subgraphs[3].tensors[7].shape`.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Byte in the buffer.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// The kind of fault.
    pub fn problem(&self) -> &Problem {
        &self.problem
    }
}
