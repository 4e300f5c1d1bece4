//! Why a checkpoint was not converted: one type, with a class for exit codes and a hint where the cure is known.

/// Why a checkpoint was not converted.
#[derive(Debug, thiserror::Error)]
#[error("{inner}")]
pub struct Error {
    inner: Box<Inner>,
}

/// The class of an [`Error`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// An option asks for what cannot be.
    Option,
    /// A file does not exist or cannot be read or written.
    Io,
    /// There is such a file already.
    Exists,
    /// The disk is full.
    Full,
    /// The checkpoint is damaged or contradicts itself.
    Invalid,
    /// The checkpoint is sound, but of a kind that is not converted.
    Unsupported,
    /// Whoever watched asked to stop.
    Interrupted,
    /// The check of the new bundle failed.
    SelfCheck,
}

#[derive(Debug, thiserror::Error)]
enum Inner {
    #[error("{0}")]
    Option(String),
    #[error("{message}")]
    Unsupported { message: String, hint: Option<String> },
    #[error("{what}: expected {expected}, found {found}")]
    Invalid { what: String, expected: String, found: String },
    #[error(transparent)]
    Model(kinglet_model::Error),
    #[error(transparent)]
    Bundle(kinglet_bundle::Error),
    #[error("tokenizer.json: {0}")]
    Tokenizer(kinglet_text::Error),
    #[error("{0}")]
    Template(kinglet_text::proof::Refusal),
    #[error("interrupted")]
    Interrupted,
    #[error("the new bundle does not run: {0}")]
    SelfCheck(String),
}

/// Result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    pub(crate) fn option(problem: impl Into<String>) -> Error {
        Inner::Option(problem.into()).into()
    }

    pub(crate) fn graph(problem: String) -> Error {
        Error::option(problem)
    }

    pub(crate) fn unsupported(message: impl Into<String>, hint: Option<&str>) -> Error {
        Inner::Unsupported { message: message.into(), hint: hint.map(str::to_owned) }.into()
    }

    pub(crate) fn invalid(what: impl Into<String>, expected: impl Into<String>, found: impl Into<String>) -> Error {
        Inner::Invalid { what: what.into(), expected: expected.into(), found: found.into() }.into()
    }

    pub(crate) fn interrupted() -> Error {
        Inner::Interrupted.into()
    }

    pub(crate) fn self_check(problem: impl Into<String>) -> Error {
        Inner::SelfCheck(problem.into()).into()
    }

    /// The class of this error.
    pub fn kind(&self) -> ErrorKind {
        use kinglet_bundle::ErrorKind as B;
        use kinglet_model::ErrorKind as M;
        match &*self.inner {
            Inner::Option(_) => ErrorKind::Option,
            Inner::Unsupported { .. } => ErrorKind::Unsupported,
            Inner::Invalid { .. } | Inner::Tokenizer(_) | Inner::Template(_) => ErrorKind::Invalid,
            Inner::SelfCheck(_) => ErrorKind::SelfCheck,
            Inner::Interrupted => ErrorKind::Interrupted,
            Inner::Model(error) => match error.kind() {
                M::NotFound => ErrorKind::Io,
                M::Unsupported => ErrorKind::Unsupported,
                _ => ErrorKind::Invalid,
            },
            Inner::Bundle(error) => match error.kind() {
                B::Exists => ErrorKind::Exists,
                B::Full => ErrorKind::Full,
                B::Interrupted => ErrorKind::Interrupted,
                B::Io | B::Source => ErrorKind::Io,
                _ => ErrorKind::Unsupported,
            },
        }
    }

    /// What the user can do about it, where that is known.
    pub fn hint(&self) -> Option<String> {
        match &*self.inner {
            Inner::Unsupported { hint, .. } => hint.clone(),
            Inner::Model(error) => error.hint(),
            Inner::Bundle(error) => error.hint(),
            Inner::Tokenizer(error) => error.hint(),
            Inner::Template(refusal) => refusal.hint(),
            _ => None,
        }
    }
}

impl From<Inner> for Error {
    fn from(inner: Inner) -> Error {
        Error { inner: Box::new(inner) }
    }
}

impl From<kinglet_model::Error> for Error {
    fn from(error: kinglet_model::Error) -> Error {
        Inner::Model(error).into()
    }
}

impl From<kinglet_bundle::Error> for Error {
    /// An error that this crate's own producers raised comes back as it was.
    fn from(error: kinglet_bundle::Error) -> Error {
        Inner::Bundle(error).into()
    }
}

impl From<kinglet_text::Error> for Error {
    fn from(error: kinglet_text::Error) -> Error {
        Inner::Tokenizer(error).into()
    }
}

impl From<kinglet_text::proof::Refusal> for Error {
    fn from(refusal: kinglet_text::proof::Refusal) -> Error {
        Inner::Template(refusal).into()
    }
}
