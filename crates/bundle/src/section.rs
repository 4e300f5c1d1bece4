//! Sections: what they are, where they lie, and the items that describe them.

use std::fmt::{Display, Formatter};
use std::ops::Range;

use kinglet_blob::Blob;
use serde::{Serialize, Serializer};

/// What a section holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum SectionKind {
    /// Bytes of no stated kind.
    GenericBinaryData,
    /// A TFLite model.
    TfLiteModel,
    /// A SentencePiece tokenizer.
    SpTokenizer,
    /// [`LlmMetadata`](crate::LlmMetadata).
    LlmMetadata,
    /// `tokenizer.json`, compressed.
    HfTokenizerZlib,
    /// Constants of the TFLite model with the same `model_type`.
    TfLiteWeights,
    /// Metadata of an embedding model; not read.
    EmbeddingMetadata,
    /// [`ExecutorMetadata`](crate::ExecutorMetadata).
    ExecutorMetadata,
    /// Metadata of a speech model; not read.
    TtsMetadata,
    /// Metadata of a speech recogniser; not read.
    AsrMetadata,
    /// A kind that this version does not know, by its number.
    Unknown(u8),
}

impl SectionKind {
    /// The kind of a number in the file.
    pub fn from_number(number: u8) -> SectionKind {
        use SectionKind::*;
        match number {
            1 => GenericBinaryData,
            3 => TfLiteModel,
            4 => SpTokenizer,
            5 => LlmMetadata,
            6 => HfTokenizerZlib,
            7 => TfLiteWeights,
            8 => EmbeddingMetadata,
            9 => ExecutorMetadata,
            10 => TtsMetadata,
            11 => AsrMetadata,
            other => Unknown(other),
        }
    }

    /// Its number in the file.
    pub fn number(self) -> u8 {
        use SectionKind::*;
        match self {
            GenericBinaryData => 1,
            TfLiteModel => 3,
            SpTokenizer => 4,
            LlmMetadata => 5,
            HfTokenizerZlib => 6,
            TfLiteWeights => 7,
            EmbeddingMetadata => 8,
            ExecutorMetadata => 9,
            TtsMetadata => 10,
            AsrMetadata => 11,
            Unknown(number) => number,
        }
    }

    /// The kind whose [`Display`] is `name`.
    pub fn from_name(name: &str) -> Option<SectionKind> {
        (0..=u8::MAX).map(SectionKind::from_number).find(|kind| kind.to_string() == name)
    }

    /// Whether a bundle holds at most one section of this kind and `model_type`.
    pub(crate) fn is_unique(self) -> bool {
        !matches!(self, SectionKind::GenericBinaryData | SectionKind::Unknown(_))
    }
}

impl Display for SectionKind {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        use SectionKind::*;
        let name = match self {
            GenericBinaryData => "GenericBinaryData",
            TfLiteModel => "TFLiteModel",
            SpTokenizer => "SP_Tokenizer",
            LlmMetadata => "LlmMetadataProto",
            HfTokenizerZlib => "HF_Tokenizer_Zlib",
            TfLiteWeights => "TFLiteWeights",
            EmbeddingMetadata => "EmbeddingMetadataProto",
            ExecutorMetadata => "ExecutorMetadataProto",
            TtsMetadata => "TtsMetadataProto",
            AsrMetadata => "AsrMetadataProto",
            Unknown(number) => return f.pad(&format!("type {number}")),
        };
        f.pad(name)
    }
}

impl Serialize for SectionKind {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// A section of a bundle.
#[derive(Clone, Debug)]
pub struct Section {
    /// Its place in the header's list, from 0.
    pub index: usize,
    /// What it holds.
    pub kind: SectionKind,
    /// What the writer said of it, in the order of the file.
    pub items: Vec<Item>,
    /// Bytes of the file; a section begins on a multiple of [`BLOCK`](crate::BLOCK).
    pub range: Range<u64>,
    /// Its bytes.
    pub data: Blob,
}

impl Section {
    /// The value of the item called `key`.
    pub fn item(&self, key: &str) -> Option<&Value> {
        self.items.iter().find(|item| item.key == key).map(|item| &item.value)
    }

    /// What a model or its weights are for, such as `prefill_decode`; the prefix `tf_lite_` is dropped.
    pub fn model_type(&self) -> Option<&str> {
        model_type(&self.items)
    }

    /// What messages call it: `section 3 (TFLiteModel)`.
    pub fn label(&self) -> String {
        label(self.index, self.kind)
    }
}

pub(crate) fn model_type(items: &[Item]) -> Option<&str> {
    match &items.iter().find(|item| item.key == "model_type")?.value {
        Value::Text(text) => Some(text.strip_prefix("tf_lite_").unwrap_or(text)),
        _ => None,
    }
}

pub(crate) fn label(index: usize, kind: SectionKind) -> String {
    format!("section {index} ({kind})")
}

/// A key with its value.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Item {
    /// The key.
    pub key: String,
    /// The value.
    pub value: Value,
}

impl Item {
    /// A key whose value is a string.
    pub fn text(key: impl Into<String>, value: impl Into<String>) -> Item {
        Item { key: key.into(), value: Value::Text(value.into()) }
    }
}

/// A value of an [`Item`], of the width that it has in the file.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the variants are the types of the format")]
pub enum Value {
    /// Nothing.
    None,
    U8(u8),
    I8(i8),
    U16(u16),
    I16(i16),
    U32(u32),
    I32(i32),
    F32(f32),
    Bool(bool),
    Text(String),
    U64(u64),
    I64(i64),
    F64(f64),
    /// A type that this version does not know, by its number.
    Unknown(u8),
}

impl Value {
    /// The number of the type in the file.
    pub fn type_number(&self) -> u8 {
        match self {
            Value::None => 0,
            Value::U8(_) => 1,
            Value::I8(_) => 2,
            Value::U16(_) => 3,
            Value::I16(_) => 4,
            Value::U32(_) => 5,
            Value::I32(_) => 6,
            Value::F32(_) => 7,
            Value::Bool(_) => 8,
            Value::Text(_) => 9,
            Value::U64(_) => 10,
            Value::I64(_) => 11,
            Value::F64(_) => 12,
            Value::Unknown(number) => *number,
        }
    }
}

impl Display for Value {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        match self {
            Value::None => f.pad("none"),
            Value::U8(value) => Display::fmt(value, f),
            Value::I8(value) => Display::fmt(value, f),
            Value::U16(value) => Display::fmt(value, f),
            Value::I16(value) => Display::fmt(value, f),
            Value::U32(value) => Display::fmt(value, f),
            Value::I32(value) => Display::fmt(value, f),
            Value::F32(value) => Display::fmt(value, f),
            Value::Bool(value) => Display::fmt(value, f),
            Value::Text(text) => f.pad(text),
            Value::U64(value) => Display::fmt(value, f),
            Value::I64(value) => Display::fmt(value, f),
            Value::F64(value) => Display::fmt(value, f),
            Value::Unknown(number) => f.pad(&format!("value of type {number}")),
        }
    }
}
