//! Sections: what they are, where they lie, and the items that describe them.

use std::fmt::{Display, Formatter};
use std::ops::Range;

use kinglet_blob::Blob;

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
    pub(crate) fn from_number(number: u8) -> SectionKind {
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
        match self.item("model_type")? {
            Value::Text(text) => Some(text.strip_prefix("tf_lite_").unwrap_or(text)),
            _ => None,
        }
    }

    /// What messages call it: `section 3 (TFLiteModel)`.
    pub fn label(&self) -> String {
        label(self.index, self.kind)
    }
}

pub(crate) fn label(index: usize, kind: SectionKind) -> String {
    format!("section {index} ({kind})")
}

/// A key with its value.
#[derive(Clone, Debug, PartialEq)]
pub struct Item {
    /// The key.
    pub key: String,
    /// The value.
    pub value: Value,
}

/// A value of an [`Item`].
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Value {
    /// A string.
    Text(String),
    /// A truth value.
    Bool(bool),
    /// Unsigned, of 8 to 64 bits in the file.
    Unsigned(u64),
    /// Signed, of 8 to 64 bits in the file.
    Signed(i64),
    /// Single precision.
    Float(f32),
    /// Double precision.
    Double(f64),
    /// Nothing.
    None,
    /// A kind of value that this version does not know, by its number.
    Unknown(u8),
}

impl Display for Value {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        match self {
            Value::Text(text) => f.pad(text),
            Value::Bool(value) => Display::fmt(value, f),
            Value::Unsigned(value) => Display::fmt(value, f),
            Value::Signed(value) => Display::fmt(value, f),
            Value::Float(value) => Display::fmt(value, f),
            Value::Double(value) => Display::fmt(value, f),
            Value::None => f.pad("none"),
            Value::Unknown(number) => f.pad(&format!("value of type {number}")),
        }
    }
}
