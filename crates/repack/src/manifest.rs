//! `bundle.json`: what an unpacked folder says of itself, checked before a file that it names is opened.

use std::path::Path;

use kinglet_bundle::{Item, Value};
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// The name of the manifest in its folder.
pub(crate) const FILE: &str = "bundle.json";
/// The name of the file with the first bytes of the bundle, up to the end of its header.
pub(crate) const HEADER: &str = "header.bin";
/// The version of manifests that is written and read.
const VERSION: u32 = 1;
/// Most bytes of a manifest.
const LIMIT: u64 = 16 << 20;

#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Manifest {
    pub(crate) unpacked: u32,
    /// Length of the bundle in bytes.
    pub(crate) size_bytes: u64,
    pub(crate) system: Vec<ManifestItem>,
    pub(crate) sections: Vec<ManifestSection>,
    /// What lies between sections.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) fillings: Vec<ManifestFilling>,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct ManifestSection {
    pub(crate) kind: String,
    /// The file with its bytes.
    pub(crate) file: String,
    pub(crate) sha256: String,
    pub(crate) items: Vec<ManifestItem>,
    /// A readable file that is taken instead once it is changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) readable: Option<ManifestFile>,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct ManifestFile {
    pub(crate) file: String,
    pub(crate) sha256: String,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct ManifestFilling {
    pub(crate) at: u64,
    pub(crate) file: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct ManifestItem {
    pub(crate) key: String,
    #[serde(rename = "type")]
    pub(crate) kind: String,
    pub(crate) value: serde_json::Value,
}

impl Manifest {
    pub(crate) fn new(size_bytes: u64, system: &[Item]) -> Manifest {
        let system = system.iter().map(ManifestItem::from).collect();
        Manifest { unpacked: VERSION, size_bytes, system, sections: Vec::new(), fillings: Vec::new() }
    }

    pub(crate) fn read(folder: &Path) -> Result<Manifest> {
        let path = folder.join(FILE);
        let facts = std::fs::metadata(&path).map_err(|error| Error::io(&path, error))?;
        if facts.len() > LIMIT || !facts.is_file() {
            return Err(Error::invalid(path.display(), format!("a file of at most {LIMIT} bytes"), "another"));
        }
        let json = std::fs::read(&path).map_err(|error| Error::io(&path, error))?;
        let wrong = |found: String| Error::invalid(path.display(), "the manifest of an unpacked bundle", found);
        let manifest: Manifest = serde_json::from_slice(&json).map_err(|error| wrong(error.to_string()))?;
        if manifest.unpacked != VERSION {
            return Err(wrong(format!("version {}", manifest.unpacked)));
        }
        for name in manifest.files() {
            check_name(name).map_err(|found| Error::invalid(path.display(), "names of files in its folder", found))?;
        }
        Ok(manifest)
    }

    pub(crate) fn to_json(&self) -> String {
        let mut text = serde_json::to_string_pretty(self).expect("a manifest is plain data");
        text.push('\n');
        text
    }

    fn files(&self) -> impl Iterator<Item = &str> {
        let sections = self.sections.iter().flat_map(|section| {
            let readable = section.readable.as_ref().map(|readable| readable.file.as_str());
            [Some(section.file.as_str()), readable].into_iter().flatten()
        });
        sections.chain(self.fillings.iter().map(|filling| filling.file.as_str()))
    }
}

/// A name must not lead out of the folder.
fn check_name(name: &str) -> std::result::Result<(), String> {
    let is_plain = !name.is_empty()
        && name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
        && !name.starts_with('.');
    if is_plain { Ok(()) } else { Err(format!("`{}`", name.escape_debug())) }
}

impl From<&Item> for ManifestItem {
    fn from(item: &Item) -> ManifestItem {
        let value = match &item.value {
            Value::Unknown(_) => serde_json::Value::Null,
            value => serde_json::to_value(value).expect("values are plain data"),
        };
        ManifestItem { key: item.key.clone(), kind: type_name(&item.value), value }
    }
}

fn type_name(value: &Value) -> String {
    match value {
        Value::None => "none",
        Value::U8(_) => "u8",
        Value::I8(_) => "i8",
        Value::U16(_) => "u16",
        Value::I16(_) => "i16",
        Value::U32(_) => "u32",
        Value::I32(_) => "i32",
        Value::F32(_) => "f32",
        Value::Bool(_) => "bool",
        Value::Text(_) => "string",
        Value::U64(_) => "u64",
        Value::I64(_) => "i64",
        Value::F64(_) => "f64",
        other => return format!("type {}", other.type_number()),
    }
    .to_owned()
}

impl ManifestItem {
    /// The item that this is; `original` where it says the same, so that nothing is lost that JSON cannot hold.
    pub(crate) fn to_item(&self, original: Option<&Item>) -> std::result::Result<Item, String> {
        if let Some(original) = original.filter(|item| ManifestItem::from(*item) == *self) {
            return Ok(original.clone());
        }
        let wrong = || format!("{} for an item of type {}", self.value, self.kind);
        fn of<T: serde::de::DeserializeOwned>(value: &serde_json::Value) -> Option<T> {
            serde_json::from_value(value.clone()).ok()
        }
        let value = match self.kind.as_str() {
            "none" => Some(Value::None),
            "u8" => of(&self.value).map(Value::U8),
            "i8" => of(&self.value).map(Value::I8),
            "u16" => of(&self.value).map(Value::U16),
            "i16" => of(&self.value).map(Value::I16),
            "u32" => of(&self.value).map(Value::U32),
            "i32" => of(&self.value).map(Value::I32),
            "f32" => of(&self.value).map(Value::F32),
            "bool" => of(&self.value).map(Value::Bool),
            "string" => of(&self.value).map(Value::Text),
            "u64" => of(&self.value).map(Value::U64),
            "i64" => of(&self.value).map(Value::I64),
            "f64" => of(&self.value).map(Value::F64),
            _ => None,
        };
        Ok(Item { key: self.key.clone(), value: value.ok_or_else(wrong)? })
    }
}
