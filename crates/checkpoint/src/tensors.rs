//! Shards: safetensors files go in, checked tensors as ranges of them come out; each header is parsed once, and no
//! tensor's bytes are read.

use std::collections::BTreeMap;

use kinglet_blob::Blob;
use safetensors::tensor::TensorInfo;
use safetensors::{SafeTensorError, SafeTensors};

use crate::error::{Error, Result};
use crate::files::Files;

const INDEX: &str = "model.safetensors.index.json";
const SINGLE: &str = "model.safetensors";
/// Largest header or index that is parsed, in bytes. Parsing takes some twenty times as much memory; a checkpoint of a
/// thousand tensors has one of 0.1 MiB.
const MAX_HEADER: u64 = 4 << 20;

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
    /// Its bytes, little-endian, row-major: as many as type and shape say.
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
    /// The name of the tensor of a head of its own, whether or not the configuration has it used.
    pub head: Option<String>,
    /// What a text run does not use.
    pub ignored: Ignored,
}

impl Layout {
    pub(crate) fn detect(shards: &Shards) -> Result<Layout> {
        let prefixes = ["model.language_model.", "language_model.model.", "model."];
        let has = |name: &str| shards.tensors.contains_key(name);
        let Some(prefix) = prefixes.into_iter().find(|p| has(&format!("{p}embed_tokens.weight"))) else {
            let found: Vec<&str> = shards.names().take(3).collect();
            let expected = "`model.embed_tokens.weight`, or a known prefix of it";
            return Err(Error::invalid(&shards.listed_in, "tensors", expected, format!("[{}]", found.join(", "))));
        };
        let count = |rooms: &[&str]| shards.names().filter(|n| n.split('.').any(|part| rooms.contains(&part))).count();
        let heads = ["lm_head.weight", "language_model.lm_head.weight", "model.lm_head.weight"];
        Ok(Layout {
            text_prefix: prefix.to_owned(),
            convention: convention(shards, prefix),
            head: heads.into_iter().find(|name| has(name)).map(str::to_owned),
            ignored: Ignored { visual: count(&["visual", "vision_tower"]), mtp: count(&["mtp"]) },
        })
    }
}

/// The program that adds 1 to the norms also swaps the last two dimensions of the convolutions, which can be seen.
fn convention(shards: &Shards, prefix: &str) -> Convention {
    let mut shapes = shards
        .tensors
        .iter()
        .filter(|(name, _)| name.starts_with(prefix) && name.ends_with(".conv1d.weight"))
        .map(|(_, entry)| entry.tensor.shape.as_slice());
    match shapes.next() {
        Some([_, taps, 1]) if *taps != 1 => Convention::Mlx,
        Some(_) => Convention::HuggingFace,
        None if prefix.starts_with("language_model.") => Convention::Mlx,
        None => Convention::HuggingFace,
    }
}

#[derive(Debug)]
struct Entry {
    /// Which of the shards it is in.
    shard: usize,
    tensor: Tensor,
}

/// All tensors of a checkpoint.
#[derive(Debug)]
pub(crate) struct Shards {
    /// The file that says which tensors there are.
    listed_in: String,
    /// The files that hold weights.
    files: Vec<String>,
    tensors: BTreeMap<String, Entry>,
}

impl Shards {
    pub(crate) fn open(files: &Files) -> Result<Shards> {
        let listing = Listing::read(files)?;
        let names = listing.shards.keys().cloned().collect();
        let mut shards = Shards { listed_in: listing.listed_in, files: names, tensors: BTreeMap::new() };
        for (i, (name, listed)) in listing.shards.iter().enumerate() {
            for (tensor, entry) in read_shard(name, i, &files.required(name)?)? {
                if let Some(other) = shards.tensors.get(&tensor) {
                    let found = format!("it in {} too", shards.files[other.shard]);
                    return Err(Error::invalid(name, &tensor, "a tensor in one shard", found));
                }
                shards.tensors.insert(tensor, entry);
            }
            let absent = |tensor: &&String| shards.tensors.get(*tensor).is_none_or(|entry| entry.shard != i);
            if let Some(tensor) = listed.iter().find(absent) {
                return Err(Error::invalid(INDEX, tensor, format!("it in {name}"), "no such tensor there"));
            }
        }
        Ok(shards)
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &str> + Clone {
        self.tensors.keys().map(String::as_str)
    }

    pub(crate) fn files(&self) -> &[String] {
        &self.files
    }

    pub(crate) fn tensor(&self, name: &str) -> Result<Tensor> {
        match self.tensors.get(name) {
            Some(entry) => Ok(entry.tensor.clone()),
            None => Err(Error::invalid(&self.listed_in, name, "a tensor of that name", "none")),
        }
    }
}

/// The files that hold weights, each with the tensors that it must have.
struct Listing {
    listed_in: String,
    shards: BTreeMap<String, Vec<String>>,
}

impl Listing {
    /// What the index lists, or the only file. A `model.safetensors` that the index does not know goes before it: it was
    /// saved later, into the same directory.
    fn read(files: &Files) -> Result<Listing> {
        if let Some(index) = files.get(INDEX)? {
            let shards = parse_index(&index)?;
            if shards.contains_key(SINGLE) || files.get(SINGLE)?.is_none() {
                return Ok(Listing { listed_in: INDEX.to_owned(), shards });
            }
        }
        let mut found = files.weights()?;
        if found.iter().any(|name| name == SINGLE) {
            found = vec![SINGLE.to_owned()];
        }
        match <[String; 1]>::try_from(found) {
            Ok([name]) => Ok(Listing { shards: BTreeMap::from([(name.clone(), Vec::new())]), listed_in: name }),
            Err(found) => Err(Error::missing(if found.is_empty() { SINGLE } else { INDEX })),
        }
    }
}

#[derive(serde::Deserialize)]
struct Index {
    weight_map: BTreeMap<String, String>,
}

fn parse_index(json: &[u8]) -> Result<BTreeMap<String, Vec<String>>> {
    if json.len() as u64 > MAX_HEADER {
        return Err(Error::invalid(INDEX, "size", format!("at most {MAX_HEADER} bytes"), json.len()));
    }
    let expected = "a weight_map of tensors and their files";
    let index: Index = serde_json::from_slice(json).map_err(|e| Error::invalid(INDEX, "JSON", expected, e))?;
    if index.weight_map.is_empty() {
        return Err(Error::invalid(INDEX, "weight_map", "tensors and their files", "none"));
    }
    let mut shards: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (tensor, file) in index.weight_map {
        if file.is_empty() || file.contains(['/', '\\', ':', '\0']) || file == ".." {
            return Err(Error::invalid(INDEX, &tensor, "a plain file name", format!("{file:?}")));
        }
        shards.entry(file).or_default().push(tensor);
    }
    Ok(shards)
}

fn read_shard(file: &str, shard: usize, blob: &Blob) -> Result<Vec<(String, Entry)>> {
    if blob.starts_with(b"version https://git-lfs") {
        return Err(Error::pointer(file));
    }
    let Some(header) = blob.first_chunk().map(|bytes| u64::from_le_bytes(*bytes)) else {
        return Err(Error::size(file, "8 bytes that hold a length", blob.len()));
    };
    if header > MAX_HEADER {
        return Err(Error::invalid(file, "header", format!("at most {MAX_HEADER} bytes"), header));
    }
    if header > blob.len() as u64 - 8 {
        return Err(Error::size(file, format!("a header of {header} bytes"), blob.len()));
    }
    let (header, metadata) = SafeTensors::read_metadata(blob).map_err(|problem| match problem {
        SafeTensorError::MetadataIncompleteBuffer => {
            Error::size(file, "the bytes that the header describes", blob.len())
        }
        problem => Error::invalid(file, "header", "sound names, shapes and offsets", problem),
    })?;
    let entry = |(name, info): (String, &TensorInfo)| {
        let dtype = match info.dtype {
            safetensors::Dtype::F32 => Dtype::F32,
            safetensors::Dtype::F16 => Dtype::F16,
            safetensors::Dtype::BF16 => Dtype::Bf16,
            other => Dtype::Other(format!("{other:?}")),
        };
        let (start, end) = info.data_offsets;
        let data = blob.slice(8 + header + start..8 + header + end).expect("offsets were checked against the file");
        (name, Entry { shard, tensor: Tensor { dtype, shape: info.shape.clone(), data } })
    };
    Ok(metadata.tensors().into_iter().map(entry).collect())
}
