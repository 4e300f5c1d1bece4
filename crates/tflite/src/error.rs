//! What is wrong with a TFLite model.

/// Why bytes are not a TFLite model that this crate can vouch for.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct Error(#[from] Inner);

#[derive(Debug, thiserror::Error)]
pub(crate) enum Inner {
    #[error("expected a tflite model (`TFL3` at byte 4), found {found}")]
    NotTflite { found: String },
    #[error(transparent)]
    Flat(kinglet_flat::Error),
    #[error("{what} has bytes {start} to {end}, {place} has {len}")]
    Outside { what: String, start: u64, end: u64, place: &'static str, len: u64 },
    #[error("{what}")]
    External { what: String },
}

impl From<kinglet_flat::Error> for Error {
    fn from(error: kinglet_flat::Error) -> Error {
        Inner::Flat(error).into()
    }
}

impl Error {
    /// What the user can do about it, where that is known.
    pub fn hint(&self) -> Option<String> {
        match &self.0 {
            Inner::Outside { .. } => Some("the file looks truncated; compare its size with the source's".to_owned()),
            _ => None,
        }
    }
}
