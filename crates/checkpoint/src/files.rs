//! Where a checkpoint's files come from: names go in, mapped bytes come out; nothing is written, and a file that is there
//! but cannot be read is never taken for an absent one.

use std::io;
use std::path::{Path, PathBuf};

use kinglet_blob::Blob;

use crate::error::{Error, Result};

/// A directory, or files that are part of the program.
#[derive(Debug)]
pub(crate) enum Files {
    /// A directory on disk.
    Directory(PathBuf),
    /// `(name, bytes)`.
    Embedded(&'static [(&'static str, &'static [u8])]),
}

impl Files {
    /// The file of that name; `None` when there is none.
    pub(crate) fn get(&self, name: &str) -> Result<Option<Blob>> {
        let blob = match self {
            Files::Directory(directory) => {
                map(&directory.join(name)).map_err(|problem| Error::unreadable(name, problem))?
            }
            Files::Embedded(files) => files.iter().find(|(n, _)| *n == name).map(|(_, bytes)| Blob::from_static(bytes)),
        };
        match blob {
            Some(blob) if blob.len() > most_bytes(name) => Err(Error::too_large(name, most_bytes(name), blob.len())),
            blob => Ok(blob),
        }
    }

    pub(crate) fn required(&self, name: &str) -> Result<Blob> {
        self.get(name)?.ok_or_else(|| Error::missing(name))
    }

    /// Names that end in `.safetensors`, sorted. Hidden files are left out: some systems put their own beside each.
    pub(crate) fn weights(&self) -> Result<Vec<String>> {
        let mut names: Vec<String> = match self {
            Files::Directory(directory) => list(directory).map_err(Error::unreadable_directory)?,
            Files::Embedded(files) => files.iter().map(|(name, _)| (*name).to_owned()).collect(),
        };
        names.retain(|name| name.ends_with(".safetensors") && !name.starts_with('.'));
        names.sort();
        Ok(names)
    }

    /// Tells an error where it happened.
    pub(crate) fn locate(&self, error: Error) -> Error {
        match self {
            Files::Directory(directory) => error.within(directory),
            Files::Embedded(_) => error,
        }
    }
}

/// Most bytes of a file: what is parsed takes many times its length in memory.
fn most_bytes(name: &str) -> usize {
    match name {
        "tokenizer.json" => 64 << 20,
        _ if name.ends_with(".index.json") => 64 << 20,
        _ if name.ends_with(".json") => 4 << 20,
        _ if name.ends_with(".jinja") => 1 << 20,
        _ => usize::MAX,
    }
}

fn list(directory: &Path) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(directory)? {
        names.extend(entry?.file_name().into_string().ok());
    }
    Ok(names)
}

fn map(path: &Path) -> io::Result<Option<Blob>> {
    match path.symlink_metadata() {
        Err(problem) if problem.kind() == io::ErrorKind::NotFound => return Ok(None),
        facts => facts?,
    };
    let facts = path.metadata().map_err(|problem| match problem.kind() {
        io::ErrorKind::NotFound => io::Error::new(problem.kind(), "a link to a file that is not there"),
        _ => problem,
    })?;
    // Looked at before it is opened: opening a pipe waits for whoever writes into it.
    if !facts.is_file() {
        return Err(io::Error::other("not a regular file"));
    }
    Blob::map(path).map(Some).map_err(|error| error.source)
}
