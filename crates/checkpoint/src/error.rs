//! Why a checkpoint could not be read.

/// Result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a checkpoint could not be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The operating system refused a file.
    #[error(transparent)]
    File(#[from] kinglet_blob::Error),
    /// A file that must be there is not.
    #[error("{file}: no such file in the checkpoint")]
    Missing {
        /// Its name.
        file: String,
    },
    /// A file's content is not what it must be.
    #[error("{file}: {place}: expected {expected}, found {found}")]
    Invalid {
        /// The file.
        file: String,
        /// The field or tensor.
        place: String,
        /// What it must be.
        expected: String,
        /// What it is.
        found: String,
    },
    /// A sound file for another kind of model.
    #[error("config.json: {field}: kinglet runs {expected}, found {found}")]
    Unsupported {
        /// The field.
        field: String,
        /// What this program runs.
        expected: String,
        /// What the file asks for.
        found: String,
    },
}

impl Error {
    pub(crate) fn invalid(file: &str, place: &str, expected: impl ToString, found: impl ToString) -> Error {
        Error::Invalid {
            file: file.to_owned(),
            place: place.to_owned(),
            expected: expected.to_string(),
            found: found.to_string(),
        }
    }

    /// What the user can do about it, where that is known.
    pub fn hint(&self) -> Option<String> {
        match self {
            Error::Missing { file } if file == "config.json" => {
                Some("give the directory that holds config.json and the .safetensors files".into())
            }
            Error::Missing { file } => Some(format!("the download looks incomplete; fetch {file} again")),
            Error::Invalid { found, .. } if found.contains("Git LFS pointer") => {
                Some("run `git lfs pull` in the checkpoint's directory".into())
            }
            _ => None,
        }
    }
}
