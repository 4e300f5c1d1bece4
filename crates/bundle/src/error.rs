//! Why a bundle, or a part of one, could not be read or written.

use crate::wire::Fault;

/// Why a bundle, or a part of one, could not be read or written. Messages begin with the file's name.
#[derive(Debug, thiserror::Error)]
#[error("{file}: {inner}")]
pub struct Error {
    pub(crate) file: String,
    pub(crate) inner: Inner,
}

/// The class of an [`Error`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The file could not be opened, created or written.
    Io,
    /// The file is something else than a bundle.
    NotABundle,
    /// The file ends before its contents do.
    Truncated,
    /// The file contradicts itself.
    Invalid,
    /// The bundle lacks the part that was asked for.
    Absent,
    /// The bundle is sound, but of a kind that is not read or cannot be written.
    Unsupported,
    /// There is a file of the name that was to be written.
    Exists,
    /// There is no room on the disk for what was to be written.
    Full,
    /// What was to be written could not be had from its source.
    Source,
    /// Whoever watched the writing ended it.
    Interrupted,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum Inner {
    #[error("{0}")]
    Open(std::io::Error),
    #[error("expected a litert-lm bundle (`LITERTLM` at byte 0), found {found}")]
    NotABundle { found: String },
    #[error("{what}: ends at byte {end}, the file has {len}")]
    Truncated { what: String, end: u64, len: u64 },
    #[error("expected container version 1, found {found}")]
    Version { found: crate::Version },
    #[error("header: {0}")]
    Header(kinglet_flat::Error),
    #[error("{what}: {problem}")]
    Invalid { what: String, problem: String },
    #[error("{what}: {fault}")]
    Proto { what: String, fault: Fault },
    #[error("{what}: {source}")]
    Tflite { what: String, source: kinglet_tflite::Error },
    #[error("expected a section {wanted}, found {found}")]
    Absent { wanted: String, found: String },
    #[error("{what}")]
    Unsupported { what: String },
    #[error("{0}")]
    Write(std::io::Error),
    #[error("there is such a file already")]
    Exists,
    #[error("not a regular file, which is all that can be replaced")]
    Special,
    #[error("{0}")]
    Full(crate::write::Full),
    #[error("{what}: {source}")]
    Source { what: String, source: std::io::Error },
    #[error("interrupted after {written} of {needed} bytes")]
    Interrupted { written: u64, needed: u64 },
}

impl Error {
    /// The class of this error.
    pub fn kind(&self) -> ErrorKind {
        match &self.inner {
            Inner::Open(_) | Inner::Write(_) | Inner::Special => ErrorKind::Io,
            Inner::Exists => ErrorKind::Exists,
            Inner::Full(_) => ErrorKind::Full,
            Inner::Source { .. } => ErrorKind::Source,
            Inner::Interrupted { .. } => ErrorKind::Interrupted,
            Inner::NotABundle { .. } => ErrorKind::NotABundle,
            Inner::Truncated { .. } => ErrorKind::Truncated,
            Inner::Version { .. } | Inner::Unsupported { .. } => ErrorKind::Unsupported,
            Inner::Absent { .. } => ErrorKind::Absent,
            Inner::Header(_) | Inner::Invalid { .. } | Inner::Proto { .. } | Inner::Tflite { .. } => ErrorKind::Invalid,
        }
    }

    /// What the source of a section said, for an error of the class [`ErrorKind::Source`].
    pub fn of_source(&self) -> Option<&std::io::Error> {
        match &self.inner {
            Inner::Source { source, .. } => Some(source),
            _ => None,
        }
    }

    /// What the user can do about it, where that is known.
    pub fn hint(&self) -> Option<String> {
        match &self.inner {
            Inner::Truncated { .. } => Some("the file looks truncated; compare its size with the source's".to_owned()),
            Inner::Tflite { source, .. } => source.hint(),
            Inner::Exists => Some("give another name, or --force to replace it".to_owned()),
            _ => None,
        }
    }
}
