//! Where a checkpoint's files come from: names go in, mapped bytes come out.

use std::path::PathBuf;

use kinglet_blob::Blob;

use crate::error::{Error, Result};

/// A directory, or files that are part of the program.
#[derive(Debug)]
pub enum Files {
    /// A directory on disk.
    Directory(PathBuf),
    /// `(name, bytes)`.
    Embedded(&'static [(&'static str, &'static [u8])]),
}

impl Files {
    /// The file of that name; `None` when there is none.
    pub(crate) fn get(&self, name: &str) -> Result<Option<Blob>> {
        match self {
            Files::Directory(directory) => {
                let path = directory.join(name);
                if path.exists() { Ok(Some(Blob::map(&path)?)) } else { Ok(None) }
            }
            Files::Embedded(files) => {
                Ok(files.iter().find(|(n, _)| *n == name).map(|(_, bytes)| Blob::from_static(bytes)))
            }
        }
    }

    pub(crate) fn required(&self, name: &str) -> Result<Blob> {
        self.get(name)?.ok_or_else(|| Error::Missing { file: name.to_owned() })
    }

    /// Names that end in `.safetensors`, sorted.
    pub(crate) fn weights(&self) -> Vec<String> {
        let mut names: Vec<String> = match self {
            Files::Directory(directory) => std::fs::read_dir(directory)
                .into_iter()
                .flatten()
                .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
                .collect(),
            Files::Embedded(files) => files.iter().map(|(name, _)| (*name).to_owned()).collect(),
        };
        names.retain(|name| name.ends_with(".safetensors"));
        names.sort();
        names
    }
}
