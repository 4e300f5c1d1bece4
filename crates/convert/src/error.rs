//! What can go wrong with a conversion: one type, with a class for exit codes and a hint where the cure is known.

/// Why a checkpoint was not converted.
#[derive(Debug, thiserror::Error)]
#[error("{inner}")]
pub struct Error {
    inner: Inner,
}

#[derive(Debug, thiserror::Error)]
enum Inner {
    #[error("{0}")]
    Graph(String),
}

/// Result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    pub(crate) fn graph(problem: String) -> Error {
        Error { inner: Inner::Graph(problem) }
    }
}
