//! Why a checkpoint could not be read: each error names the directory, the file, the place in it, what was expected and
//! what was found.

use std::fmt::{Display, Formatter};
use std::path::{Path, PathBuf};

/// Result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Most characters of a name or value from a file that a message repeats.
const SHOWN: usize = 120;

/// Why a checkpoint could not be read. Messages begin with the directory, where there is one, and the file.
#[derive(Debug, thiserror::Error)]
#[error("{}{}{inner}", Part(directory.as_ref().map(|d| d.display())), Part(file.as_ref()))]
pub struct Error {
    directory: Option<PathBuf>,
    file: Option<String>,
    inner: Box<Inner>,
}

/// The class of an [`Error`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A file that must be there is not, or cannot be read.
    NotFound,
    /// A file is damaged, or contradicts itself or another.
    Invalid,
    /// The files are sound, but of a model that is not run.
    Unsupported,
}

#[derive(Debug, thiserror::Error)]
enum Inner {
    #[error("{0}")]
    Unreadable(std::io::Error),
    #[error("no such file in the checkpoint")]
    Missing,
    #[error("{place}: expected {expected}, found {found}")]
    Invalid { place: String, expected: String, found: String },
    #[error("{field}: kinglet runs {expected}, found {found}")]
    Unsupported { field: String, expected: String, found: String },
    #[error("expected weights, found a Git LFS pointer")]
    Pointer,
    #[error("expected at most {most} bytes, found {found}")]
    TooLarge { most: u64, found: u64 },
    #[error("expected {expected}, found {len} bytes")]
    Size { expected: String, len: u64 },
}

/// What stands before the rest of a message, and the colon after it.
struct Part<T>(Option<T>);

impl<T: Display> Display for Part<T> {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        self.0.as_ref().map_or(Ok(()), |part| write!(f, "{part}: "))
    }
}

fn shortened(text: impl ToString) -> String {
    let mut text = text.to_string();
    if let Some((cut, _)) = text.char_indices().nth(SHOWN) {
        text.truncate(cut);
        text.push_str("...");
    }
    text
}

impl Error {
    fn of(file: &str, inner: Inner) -> Error {
        Error { directory: None, file: Some(shortened(file)), inner: Box::new(inner) }
    }

    pub(crate) fn invalid(file: &str, place: &str, expected: impl ToString, found: impl ToString) -> Error {
        let (place, expected, found) = (shortened(place), shortened(expected), shortened(found));
        Error::of(file, Inner::Invalid { place, expected, found })
    }

    pub(crate) fn unsupported(file: &str, field: &str, expected: impl ToString, found: impl ToString) -> Error {
        let (field, expected, found) = (shortened(field), shortened(expected), shortened(found));
        Error::of(file, Inner::Unsupported { field, expected, found })
    }

    pub(crate) fn missing(file: &str) -> Error {
        Error::of(file, Inner::Missing)
    }

    pub(crate) fn pointer(file: &str) -> Error {
        Error::of(file, Inner::Pointer)
    }

    pub(crate) fn too_large(file: &str, most: usize, found: usize) -> Error {
        Error::of(file, Inner::TooLarge { most: most as u64, found: found as u64 })
    }

    pub(crate) fn size(file: &str, expected: impl ToString, len: usize) -> Error {
        Error::of(file, Inner::Size { expected: shortened(expected), len: len as u64 })
    }

    pub(crate) fn unreadable(file: &str, problem: std::io::Error) -> Error {
        Error::of(file, Inner::Unreadable(problem))
    }

    pub(crate) fn unreadable_directory(problem: std::io::Error) -> Error {
        Error { directory: None, file: None, inner: Box::new(Inner::Unreadable(problem)) }
    }

    pub(crate) fn within(self, directory: &Path) -> Error {
        Error { directory: Some(directory.to_owned()), ..self }
    }

    /// The class of this error.
    pub fn kind(&self) -> ErrorKind {
        match &*self.inner {
            Inner::Unreadable(_) | Inner::Missing => ErrorKind::NotFound,
            Inner::TooLarge { .. } | Inner::Invalid { .. } | Inner::Pointer | Inner::Size { .. } => ErrorKind::Invalid,
            Inner::Unsupported { .. } => ErrorKind::Unsupported,
        }
    }

    /// What the user can do about it, where that is known.
    pub fn hint(&self) -> Option<String> {
        match (&*self.inner, self.file.as_deref()) {
            (Inner::Missing, Some("config.json")) => {
                Some("give the directory that holds config.json and the .safetensors files".into())
            }
            (Inner::Missing, Some(file)) => Some(format!("the download looks incomplete; fetch {file} again")),
            (Inner::Pointer, _) => Some("run `git lfs pull` in the checkpoint's directory".into()),
            (Inner::Size { .. }, _) => Some("the file looks truncated; compare its size with the source's".into()),
            (Inner::Unsupported { field, .. }, _) if field.starts_with("quantization") => {
                Some("give the checkpoint that it was made from, in BF16, F16 or F32".into())
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_begin_with_directory_and_file_and_each_kind_has_its_class() {
        let io = || std::io::Error::other("refused");
        let cases = [
            (Error::missing("a.json"), ErrorKind::NotFound, "a.json: no such file in the checkpoint"),
            (Error::unreadable("a.json", io()), ErrorKind::NotFound, "a.json: refused"),
            (Error::unreadable_directory(io()), ErrorKind::NotFound, "refused"),
            (Error::invalid("a.json", "b", 1, 2), ErrorKind::Invalid, "a.json: b: expected 1, found 2"),
            (Error::pointer("a"), ErrorKind::Invalid, "a: expected weights, found a Git LFS pointer"),
            (Error::size("a", "more", 2), ErrorKind::Invalid, "a: expected more, found 2 bytes"),
            (Error::unsupported("a", "b", 1, 2), ErrorKind::Unsupported, "a: b: kinglet runs 1, found 2"),
        ];
        for (error, kind, text) in cases {
            assert_eq!((error.kind(), error.to_string().as_str()), (kind, text));
            assert_eq!(error.within(Path::new("some/dir")).to_string(), format!("some/dir: {text}"));
        }
    }

    #[test]
    fn a_message_is_short_whatever_the_file_holds() {
        let long = "é".repeat(1 << 20);
        assert!(Error::invalid(&long, &long, &long, &long).to_string().len() < 1200);
    }
}
