//! `.litertlm` bundles: a path or bytes go in, sections with their metadata come out, checked, and back; reading never
//! copies a section, writing never holds one, and neither asks a network.
//!
//! Rooms, in reading order: [`Bundle`] (what users hold), `container` (the header), `section` (what sections are),
//! [`metadata`] (the protocol buffers in it), `wire` (their encoding), `tokenizer` (the compressed tokenizer),
//! [`mod@write`] (the way back).
//! `docs/format.md` describes the bytes.

#![forbid(unsafe_code)]

mod bundle;
mod container;
mod error;
pub mod metadata;
mod section;
mod tokenizer;
mod wire;
pub mod write;

pub use bundle::{Bundle, Tokenizer};
pub use container::{BLOCK, Version};
pub use error::{Error, ErrorKind};
pub use kinglet_tflite as tflite;
pub use metadata::{ExecutorMetadata, LlmMetadata};
pub use section::{Item, Section, SectionKind, Value};
pub use tokenizer::TOKENIZER_LIMIT;
pub use wire::{Fault, Unknown};

/// The item that tells Kinglet's own section; its value is the version of what the section holds.
pub const OWN_ITEM: &str = "kinglet";

/// The version of Kinglet's own section that is written: JSON.
pub const OWN_VERSION: &str = "1";

/// Result of this crate.
pub type Result<T> = std::result::Result<T, Error>;
