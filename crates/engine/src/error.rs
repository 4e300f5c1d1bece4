//! What a caller can do wrong.

/// Result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Why the engine refused a call. Nothing was changed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The ids do not fit the session.
    #[error("context is full: {used} of {limit} positions are used and {asked} more are asked for")]
    ContextFull {
        /// Positions used.
        used: usize,
        /// Ids in the call.
        asked: usize,
        /// Positions in all.
        limit: usize,
    },
    /// An id the model does not have.
    #[error("id {id} at index {index}: expected less than {vocab}, the model's vocabulary")]
    IdOutOfRange {
        /// Where in the call.
        index: usize,
        /// The id.
        id: u32,
        /// Rows of the embedding.
        vocab: usize,
    },
    /// An empty call.
    #[error("no ids were given")]
    NoIds,
    /// The session was made for another model.
    #[error("the session or snapshot belongs to another model")]
    ForeignSession,
    /// The logits slice does not fit.
    #[error("logits: expected room for {expected} values, found {found}")]
    LogitsLength {
        /// Values to be written.
        expected: usize,
        /// Values given.
        found: usize,
    },
    /// The model produced infinite or undefined numbers.
    #[error("logit {id} is {value}: the model's numbers are not finite")]
    NotFinite {
        /// The first such logit.
        id: usize,
        /// Its value.
        value: f32,
    },
}
