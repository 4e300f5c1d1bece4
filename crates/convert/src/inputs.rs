//! Input files: a checkpoint goes in, the names, lengths and digests of all files that a conversion reads come out.

use std::sync::atomic::{AtomicBool, Ordering};

use kinglet_blob::Blob;
use kinglet_bundle::write::{Digest, Hasher};
use kinglet_checkpoint::Checkpoint;
use serde::{Deserialize, Serialize};

use crate::error::Result;

/// Files beside the weights that a conversion may read.
const FILES: [&str; 6] = [
    "chat_template.jinja",
    "config.json",
    "generation_config.json",
    "model.safetensors.index.json",
    "tokenizer.json",
    "tokenizer_config.json",
];

/// A file that a conversion read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InputFile {
    /// Its name in the checkpoint.
    pub name: String,
    /// Length in bytes.
    pub size_bytes: u64,
    /// SHA-256, 64 hexadecimal digits.
    pub sha256: String,
}

/// The files, by name.
pub(crate) fn open(checkpoint: &Checkpoint) -> Result<Vec<(String, Blob)>> {
    let names = FILES.iter().map(|name| (*name).to_owned()).chain(checkpoint.weight_files().iter().cloned());
    let mut files = Vec::new();
    for name in names {
        if let Some(blob) = checkpoint.file(&name).map_err(kinglet_model::Error::checkpoint)? {
            files.push((name, blob));
        }
    }
    files.sort_by(|a, b| a.0.cmp(&b.0));
    Ok(files)
}

/// Bytes that are hashed between two looks at `stop`.
const STEP: usize = 1 << 24;

/// Their digests, which mean nothing once `stop` was set.
pub(crate) fn hash(files: &[(String, Blob)], stop: &AtomicBool) -> Vec<InputFile> {
    let hash = |(name, blob): &(String, Blob)| {
        let mut hasher = Hasher::default();
        for start in (0..blob.len()).step_by(STEP).take_while(|_| !stop.load(Ordering::Relaxed)) {
            let part = blob.slice(start..(start + STEP).min(blob.len())).expect("inside the file");
            hasher.update(&part);
            part.release();
        }
        InputFile { name: name.clone(), size_bytes: blob.len() as u64, sha256: hasher.finish().to_string() }
    };
    files.iter().map(hash).collect()
}

/// The digest of all files: what identifies a source.
pub(crate) fn source_digest(files: &[InputFile]) -> Digest {
    let mut hasher = Hasher::default();
    for file in files {
        hasher.update(format!("{} {} {}\n", file.sha256, file.size_bytes, file.name).as_bytes());
    }
    hasher.finish()
}
