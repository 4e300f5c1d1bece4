//! What a checkpoint holds beside what is run: its shards, how its tensors are named, which are left out.

use std::path::Path;

use kinglet_checkpoint::{Checkpoint, Convention};

use super::findings::{CheckpointFacts, Findings, ShardFacts};
use crate::demo;

/// Fills in what the directory says.
pub(super) fn describe(checkpoint: &Checkpoint, path: Option<&Path>, findings: &mut Findings) -> std::io::Result<()> {
    let layout = checkpoint.layout();
    findings.kind = "checkpoint";
    findings.checkpoint = Some(CheckpointFacts {
        shards: match path {
            Some(path) => shards(path)?,
            None => demo::FILES.iter().filter_map(|(name, bytes)| shard(name, bytes.len() as u64)).collect(),
        },
        tensors: checkpoint.tensors().count(),
        vision_tensors: layout.ignored.visual,
        draft_tensors: layout.ignored.mtp,
        prefix: layout.text_prefix.clone(),
        convention: match layout.convention {
            Convention::HuggingFace => "Hugging Face",
            Convention::Mlx => "MLX",
        },
    });
    Ok(())
}

fn shards(directory: &Path) -> std::io::Result<Vec<ShardFacts>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory)? {
        let entry = entry?;
        found.extend(shard(&entry.file_name().to_string_lossy(), std::fs::metadata(entry.path())?.len()));
    }
    found.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(found)
}

fn shard(name: &str, size_bytes: u64) -> Option<ShardFacts> {
    name.ends_with(".safetensors").then(|| ShardFacts { name: name.to_owned(), size_bytes })
}
