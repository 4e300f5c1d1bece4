//! Checkpoints of a few bytes, written into directories that are removed again.

#![allow(dead_code, reason = "each test file uses its part")]

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use kinglet_checkpoint::{Checkpoint, Error};

pub(crate) const INDEX: &str = "model.safetensors.index.json";
pub(crate) const EMBEDDING: &str = "model.embed_tokens.weight";

pub(crate) fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/golden/ckpt").join(name)
}

/// A directory with a sound `config.json`, removed when dropped.
pub(crate) struct Scratch(pub(crate) PathBuf);

impl Scratch {
    pub(crate) fn new() -> Scratch {
        let scratch = Scratch::empty();
        scratch.write("config.json", std::fs::read(golden("text-ratio2").join("config.json")).expect("a fixture"))
    }

    pub(crate) fn empty() -> Scratch {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let name = format!("kinglet-checkpoint-{}-{}", std::process::id(), COUNT.fetch_add(1, Relaxed));
        let directory = std::env::temp_dir().join(name);
        std::fs::create_dir(&directory).expect("a new directory");
        Scratch(directory)
    }

    pub(crate) fn write(self, name: &str, bytes: impl AsRef<[u8]>) -> Scratch {
        std::fs::write(self.0.join(name), bytes).expect("written");
        self
    }

    /// An index that maps these tensors to these files.
    pub(crate) fn index(self, entries: &[(&str, &str)]) -> Scratch {
        let map: Vec<String> = entries.iter().map(|(tensor, file)| format!(r#""{tensor}":"{file}""#)).collect();
        self.write(INDEX, format!(r#"{{"metadata":{{}},"weight_map":{{{}}}}}"#, map.join(",")))
    }

    pub(crate) fn open(&self) -> Result<Checkpoint, Error> {
        Checkpoint::open(&self.0)
    }

    /// The error of opening it, which must name the directory.
    pub(crate) fn error(&self) -> Error {
        let error = self.open().expect_err("not a sound checkpoint");
        assert!(error.to_string().starts_with(&format!("{}: ", self.0.display())), "{error}");
        error
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A safetensors file with this header and that many bytes of data, all zero.
pub(crate) fn raw(header: impl AsRef<[u8]>, data: usize) -> Vec<u8> {
    let header = header.as_ref();
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend_from_slice(header);
    bytes.resize(bytes.len() + data, 0);
    bytes
}

/// A sound safetensors file with bfloat16 tensors of these shapes, all zero.
pub(crate) fn shard(tensors: &[(&str, &[usize])]) -> Vec<u8> {
    let mut end = 0;
    let mut entries = Vec::new();
    for (name, shape) in tensors {
        let start = end;
        end += 2 * shape.iter().product::<usize>();
        entries.push(format!(r#""{name}":{{"dtype":"BF16","shape":{shape:?},"data_offsets":[{start},{end}]}}"#));
    }
    raw(format!("{{{}}}", entries.join(",")), end)
}
