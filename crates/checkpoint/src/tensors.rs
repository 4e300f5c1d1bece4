//! Shards: safetensors files go in, checked tensors as ranges of them come out.

use std::collections::BTreeMap;

use kinglet_blob::Blob;
use safetensors::SafeTensors;
use serde_json::Value;

use crate::error::{Error, Result};
use crate::files::Files;

const INDEX: &str = "model.safetensors.index.json";
/// Largest header that is parsed, in bytes.
const MAX_HEADER: u64 = 100_000_000;

/// How a tensor's values are stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Dtype {
    /// IEEE single precision.
    F32,
    /// IEEE half precision.
    F16,
    /// bfloat16.
    Bf16,
    /// Another, by its name.
    Other(String),
}

/// A tensor as a range of its file.
#[derive(Clone, Debug)]
pub struct Tensor {
    /// How its values are stored.
    pub dtype: Dtype,
    /// Its dimensions.
    pub shape: Vec<usize>,
    /// Its bytes, little-endian, row-major.
    pub data: Blob,
}

/// How a checkpoint stores norms and convolutions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Convention {
    /// Norms centred on zero, convolutions `[channels, 1, taps]`.
    HuggingFace,
    /// Norms with the 1 added, convolutions `[channels, taps, 1]`.
    Mlx,
}

/// Tensors that a text run does not use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ignored {
    /// Of the vision tower.
    pub visual: usize,
    /// Of the draft head.
    pub mtp: usize,
}

/// How tensors are named and stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// What stands before `embed_tokens.weight`.
    pub text_prefix: String,
    /// How norms and convolutions are stored.
    pub convention: Convention,
    /// The name of a head of its own.
    pub head: Option<String>,
    /// What a text run does not use.
    pub ignored: Ignored,
}

impl Layout {
    pub(crate) fn detect<'a>(names: impl Iterator<Item = &'a str> + Clone) -> Result<Layout> {
        let prefixes = ["model.language_model.", "language_model.model.", "model."];
        let has = |name: &str| names.clone().any(|n| n == name);
        let Some(prefix) = prefixes.into_iter().find(|p| has(&format!("{p}embed_tokens.weight"))) else {
            let found: Vec<&str> = names.take(3).collect();
            return Err(Error::invalid(
                "safetensors",
                "tensors",
                "`model.embed_tokens.weight` or a known prefix of it",
                found.join(", "),
            ));
        };
        let count = |part: &str| names.clone().filter(|n| n.split('.').any(|p| p == part)).count();
        Ok(Layout {
            text_prefix: prefix.to_owned(),
            convention: if prefix.starts_with("language_model.") { Convention::Mlx } else { Convention::HuggingFace },
            head: ["lm_head.weight", "language_model.lm_head.weight", "model.lm_head.weight"]
                .into_iter()
                .find(|n| has(n))
                .map(str::to_owned),
            ignored: Ignored { visual: count("visual") + count("vision_tower"), mtp: count("mtp") },
        })
    }
}

/// All tensors of a checkpoint.
#[derive(Debug)]
pub(crate) struct Shards {
    tensors: BTreeMap<String, Tensor>,
}

impl Shards {
    pub(crate) fn open(files: &Files) -> Result<Shards> {
        let mut tensors = BTreeMap::new();
        for name in shard_names(files)? {
            read_shard(&name, &files.required(&name)?, &mut tensors)?;
        }
        Ok(Shards { tensors })
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &str> + Clone {
        self.tensors.keys().map(String::as_str)
    }

    pub(crate) fn tensor(&self, name: &str) -> Result<Tensor> {
        let missing = || Error::invalid("safetensors", name, "a tensor of that name", "none");
        self.tensors.get(name).cloned().ok_or_else(missing)
    }
}

/// The files that hold weights: those that the index names, or the only one.
fn shard_names(files: &Files) -> Result<Vec<String>> {
    if let Some(index) = files.get(INDEX)? {
        let index: Value =
            serde_json::from_slice(&index).map_err(|e| Error::invalid(INDEX, "JSON", "a valid text", e))?;
        let map = index.get("weight_map").and_then(Value::as_object);
        let map = map.ok_or_else(|| Error::invalid(INDEX, "weight_map", "an object", "none"))?;
        let mut names: Vec<String> = Vec::new();
        for (tensor, file) in map {
            let plain = file.as_str().filter(|f| !f.is_empty() && !f.contains(['/', '\\', ':']) && *f != "..");
            let plain = plain.ok_or_else(|| Error::invalid(INDEX, tensor, "a plain file name", file))?;
            names.push(plain.to_owned());
        }
        names.sort();
        names.dedup();
        return Ok(names);
    }
    let found = files.weights();
    if found.len() == 1 || found.iter().any(|n| n == "model.safetensors") {
        let name = found.iter().find(|n| *n == "model.safetensors").unwrap_or(&found[0]);
        return Ok(vec![name.clone()]);
    }
    match found.is_empty() {
        true => Err(Error::Missing { file: "model.safetensors".into() }),
        false => Err(Error::Missing { file: INDEX.into() }),
    }
}

fn read_shard(file: &str, blob: &Blob, tensors: &mut BTreeMap<String, Tensor>) -> Result<()> {
    if blob.starts_with(b"version https://git-lfs") {
        return Err(Error::invalid(file, "content", "weights", "a Git LFS pointer"));
    }
    let header = blob.get(..8).and_then(|b| b.try_into().ok()).map(u64::from_le_bytes);
    if header.is_none_or(|n| n > MAX_HEADER || n.saturating_add(8) > blob.len() as u64) {
        return Err(Error::invalid(
            file,
            "header",
            "a length inside the file",
            format!("{header:?} of {} bytes", blob.len()),
        ));
    }
    let shard =
        SafeTensors::deserialize(blob).map_err(|e| Error::invalid(file, "header", "sound offsets and shapes", e))?;
    for (name, view) in shard.iter() {
        let start = view.data().as_ptr() as usize - blob.as_ptr() as usize;
        let data = blob.slice(start..start + view.data().len()).expect("a view lies inside its file");
        let dtype = match view.dtype() {
            safetensors::Dtype::F32 => Dtype::F32,
            safetensors::Dtype::F16 => Dtype::F16,
            safetensors::Dtype::BF16 => Dtype::Bf16,
            other => Dtype::Other(format!("{other:?}")),
        };
        let tensor = Tensor { dtype, shape: view.shape().to_vec(), data };
        if tensors.insert(name.to_owned(), tensor).is_some() {
            return Err(Error::invalid(file, name, "a tensor in one shard", "it is in two"));
        }
    }
    Ok(())
}
