//! Why a bundle could not be taken apart, put together or changed.

use std::path::Path;

/// Why a bundle could not be taken apart, put together or changed.
#[derive(Debug, thiserror::Error)]
#[error("{inner}")]
pub struct Error {
    inner: Box<Inner>,
}

/// The class of an [`Error`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A file cannot be read or written.
    Io,
    /// There is something of the name that was to be written.
    Exists,
    /// The disk is full.
    Full,
    /// A file contradicts itself or another.
    Invalid,
    /// A value that was asked for cannot be.
    Option,
    /// What was asked for cannot be done with this bundle.
    Unsupported,
    /// Whoever watched ended it.
    Interrupted,
}

#[derive(Debug, thiserror::Error)]
enum Inner {
    #[error("{path}: {source}")]
    Io { path: String, source: std::io::Error },
    #[error("{path}: there is such a folder already")]
    Exists { path: String },
    #[error("{path}: expected {expected}, found {found}")]
    Invalid { path: String, expected: String, found: String },
    #[error("{what}: expected {expected}, found {found}")]
    Option { what: String, expected: String, found: String },
    #[error("{path}: {what}")]
    Unsupported { path: String, what: String },
    #[error(transparent)]
    Bundle(kinglet_bundle::Error),
}

/// Result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    pub(crate) fn io(path: &Path, source: std::io::Error) -> Error {
        Inner::Io { path: path.display().to_string(), source }.into()
    }

    /// The same error, told with the path under which the user knows the file.
    pub(crate) fn moved(mut self, from: &Path, to: &Path) -> Error {
        if let Inner::Io { path, .. } = &mut *self.inner
            && let Ok(rest) = Path::new(&*path).strip_prefix(from)
        {
            *path = to.join(rest).display().to_string();
        }
        self
    }

    pub(crate) fn exists(path: &Path) -> Error {
        Inner::Exists { path: path.display().to_string() }.into()
    }

    pub(crate) fn invalid(path: impl ToString, expected: impl Into<String>, found: impl Into<String>) -> Error {
        Inner::Invalid { path: path.to_string(), expected: expected.into(), found: found.into() }.into()
    }

    pub(crate) fn option(what: &str, expected: &str, found: String) -> Error {
        Inner::Option { what: what.to_owned(), expected: expected.to_owned(), found }.into()
    }

    pub(crate) fn unsupported(path: impl ToString, what: impl Into<String>) -> Error {
        Inner::Unsupported { path: path.to_string(), what: what.into() }.into()
    }

    /// The class of this error.
    pub fn kind(&self) -> ErrorKind {
        use kinglet_bundle::ErrorKind as B;
        match &*self.inner {
            Inner::Io { source, .. } if source.kind() == std::io::ErrorKind::StorageFull => ErrorKind::Full,
            Inner::Io { .. } => ErrorKind::Io,
            Inner::Exists { .. } => ErrorKind::Exists,
            Inner::Invalid { .. } => ErrorKind::Invalid,
            Inner::Option { .. } => ErrorKind::Option,
            Inner::Unsupported { .. } => ErrorKind::Unsupported,
            Inner::Bundle(error) => match error.kind() {
                B::Io | B::Source => ErrorKind::Io,
                B::Exists => ErrorKind::Exists,
                B::Full => ErrorKind::Full,
                B::Interrupted => ErrorKind::Interrupted,
                B::Truncated | B::Invalid => ErrorKind::Invalid,
                _ => ErrorKind::Unsupported,
            },
        }
    }

    /// What the user can do about it, where that is known.
    pub fn hint(&self) -> Option<String> {
        match &*self.inner {
            Inner::Exists { .. } => Some("give another name, or --force to replace a folder that was unpacked".into()),
            Inner::Bundle(error) => error.hint(),
            _ => None,
        }
    }
}

impl From<Inner> for Error {
    fn from(inner: Inner) -> Error {
        Error { inner: Box::new(inner) }
    }
}

impl From<kinglet_bundle::Error> for Error {
    fn from(error: kinglet_bundle::Error) -> Error {
        Inner::Bundle(error).into()
    }
}
