//! Hugging Face checkpoint directories: a path or embedded files go in, a typed configuration and mapped tensors come
//! out; no arithmetic, and no weight is read before it is asked for.
//!
//! Rooms: [`config`] (`config.json` in its published shapes), [`tensors`] (shards and their headers).

#![forbid(unsafe_code)]

pub mod config;
mod error;
mod files;
pub mod tensors;

use std::path::Path;

use kinglet_blob::Blob;

pub use config::{Config, LayerType};
pub use error::{Error, ErrorKind, Result};
pub use tensors::{Convention, Dtype, Ignored, Layout, Tensor};

use files::Files;
use tensors::Shards;

/// An opened checkpoint.
///
/// ```no_run
/// # fn main() -> kinglet_checkpoint::Result<()> {
/// let checkpoint = kinglet_checkpoint::Checkpoint::open("models/demo".as_ref())?;
/// let embedding = format!("{}embed_tokens.weight", checkpoint.layout().text_prefix);
/// let hidden = checkpoint.config().hidden_size;
/// assert_eq!(checkpoint.tensor(&embedding)?.shape, [checkpoint.config().vocab_size, hidden]);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Checkpoint {
    files: Files,
    config: Config,
    shards: Shards,
    layout: Layout,
}

impl Checkpoint {
    /// Opens a checkpoint directory.
    ///
    /// # Errors
    /// A missing, damaged or contradictory file, or a model of another kind.
    pub fn open(directory: &Path) -> Result<Checkpoint> {
        Checkpoint::read(Files::Directory(directory.to_owned()))
    }

    /// Opens a checkpoint whose files are part of the program, as `(name, bytes)`.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn embedded(files: &'static [(&'static str, &'static [u8])]) -> Result<Checkpoint> {
        Checkpoint::read(Files::Embedded(files))
    }

    fn read(files: Files) -> Result<Checkpoint> {
        let read = || {
            let mut config = Config::parse(&files.required(config::FILE)?)?;
            let shards = Shards::open(&files)?;
            let layout = Layout::detect(&shards)?;
            config.settle_head(layout.head.is_some())?;
            Ok((config, shards, layout))
        };
        match read() {
            Ok((config, shards, layout)) => Ok(Checkpoint { files, config, shards, layout }),
            Err(error) => Err(files.locate(error)),
        }
    }

    /// The text model's configuration.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// How tensors are named and stored.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The names of all tensors, sorted.
    pub fn tensors(&self) -> impl Iterator<Item = &str> {
        self.shards.names()
    }

    /// One tensor, as a range of its mapped file.
    ///
    /// # Errors
    /// There is no such tensor.
    pub fn tensor(&self, name: &str) -> Result<Tensor> {
        self.shards.tensor(name).map_err(|error| self.files.locate(error))
    }

    /// The names of the files that hold the tensors, sorted.
    pub fn weight_files(&self) -> &[String] {
        self.shards.files()
    }

    /// A file of the checkpoint; `None` when there is none of that name.
    ///
    /// # Errors
    /// It is there and cannot be read.
    pub fn file(&self, name: &str) -> Result<Option<Blob>> {
        self.files.get(name).map_err(|error| self.files.locate(error))
    }
}
