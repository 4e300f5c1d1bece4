//! Why a model could not be loaded.

use std::path::PathBuf;

/// Result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a model could not be loaded.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct Error(#[from] Inner);

/// The class of an [`Error`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The path does not exist or cannot be read.
    NotFound,
    /// The file is damaged or contradicts itself.
    Invalid,
    /// The file is sound, but another family or format than this program runs.
    Unsupported,
}

#[derive(Debug, thiserror::Error)]
enum Inner {
    #[error("{}: no such file or directory", .0.display())]
    NotFound(PathBuf),
    #[error("{what}: expected {expected}, found {found}")]
    Plan { what: String, expected: String, found: String },
    #[error("{place}: {source}")]
    Within { place: String, source: Box<Error> },
    #[error("tensor `{tensor}`: expected {expected}, found {found}")]
    Tensor { tensor: String, expected: String, found: String },
    #[error("{what}")]
    Unsupported { what: String, hint: Option<String> },
    #[error(transparent)]
    Checkpoint(kinglet_checkpoint::Error),
    #[error(transparent)]
    Bundle(kinglet_bundle::Error),
}

impl Error {
    /// A dimension that cannot be.
    pub fn plan(what: &str, expected: String, found: impl ToString) -> Error {
        Inner::Plan { what: what.to_owned(), expected, found: found.to_string() }.into()
    }

    /// A tensor that is missing or of another shape or type.
    pub fn tensor(tensor: &str, expected: impl Into<String>, found: impl Into<String>) -> Error {
        Inner::Tensor { tensor: tensor.to_owned(), expected: expected.into(), found: found.into() }.into()
    }

    /// The error with the model's path before it, where it does not begin with one yet.
    pub(crate) fn within(self, place: &str) -> Error {
        match self.0 {
            Inner::Plan { .. } | Inner::Tensor { .. } if !place.is_empty() => {
                Inner::Within { place: place.to_owned(), source: Box::new(self) }.into()
            }
            _ => self,
        }
    }

    /// A sound file that is not for this program.
    pub fn unsupported(what: impl Into<String>, hint: Option<String>) -> Error {
        Inner::Unsupported { what: what.into(), hint }.into()
    }

    /// A path that is not there.
    pub fn not_found(path: impl Into<PathBuf>) -> Error {
        Inner::NotFound(path.into()).into()
    }

    /// An error of the checkpoint reader.
    pub fn checkpoint(error: kinglet_checkpoint::Error) -> Error {
        Inner::Checkpoint(error).into()
    }

    /// An error of the bundle reader.
    pub fn bundle(error: kinglet_bundle::Error) -> Error {
        Inner::Bundle(error).into()
    }

    /// The class of this error.
    pub fn kind(&self) -> ErrorKind {
        match &self.0 {
            Inner::NotFound(_) => ErrorKind::NotFound,
            Inner::Unsupported { .. } => ErrorKind::Unsupported,
            Inner::Plan { .. } | Inner::Tensor { .. } => ErrorKind::Invalid,
            Inner::Within { source, .. } => source.kind(),
            Inner::Checkpoint(error) => match error.kind() {
                kinglet_checkpoint::ErrorKind::NotFound => ErrorKind::NotFound,
                kinglet_checkpoint::ErrorKind::Unsupported => ErrorKind::Unsupported,
                _ => ErrorKind::Invalid,
            },
            Inner::Bundle(error) => match error.kind() {
                kinglet_bundle::ErrorKind::Io => ErrorKind::NotFound,
                kinglet_bundle::ErrorKind::NotABundle | kinglet_bundle::ErrorKind::Unsupported => {
                    ErrorKind::Unsupported
                }
                _ => ErrorKind::Invalid,
            },
        }
    }

    /// What the user can do about it, where that is known.
    pub fn hint(&self) -> Option<String> {
        match &self.0 {
            Inner::Unsupported { hint, .. } => hint.clone(),
            Inner::Checkpoint(error) => error.hint(),
            Inner::Bundle(error) => error.hint(),
            Inner::Within { source, .. } => source.hint(),
            _ => None,
        }
    }
}
