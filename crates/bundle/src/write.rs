//! Writing: items and sections go in, a bundle comes out in one pass, with the digest of each section; it never holds a
//! section, and never leaves half a file under the name that was asked for.
//!
//! ```
//! use kinglet_bundle::write::{Part, Writer};
//! use kinglet_bundle::{Bundle, Item, LlmMetadata, SectionKind, metadata::Token};
//!
//! let metadata = LlmMetadata { stop_tokens: vec![Token::from_text("<|im_end|>")], ..LlmMetadata::default() };
//! let mut writer = Writer::new(vec![Item::text("Authors", "somebody")]);
//! writer.add(Part::bytes(SectionKind::LlmMetadata, Vec::new(), metadata.encode()));
//! let mut file = Vec::new();
//! let receipt = writer.write("model.litertlm", &mut file, &mut kinglet_bundle::write::watch_nothing)?;
//! assert_eq!(receipt.size_bytes, file.len() as u64);
//!
//! let bundle = Bundle::from_blob(kinglet_blob::Blob::from_vec(file), "model.litertlm")?;
//! assert_eq!(bundle.llm_metadata()?, metadata);
//! # Ok::<(), kinglet_bundle::Error>(())
//! ```

mod digest;
mod header;
mod output;
mod part;
mod sink;
mod writer;

use std::ops::ControlFlow;

pub use digest::{Digest, Hasher};
pub use output::Output;
pub use part::Part;
pub use sink::Full;
pub use writer::{Receipt, Writer, Written};

/// Called while writing with the bytes written and those to be written in all; ends the writing with a `Break`.
pub type Watch<'w> = dyn FnMut(u64, u64) -> ControlFlow<()> + 'w;

/// A [`Watch`] that lets everything pass.
pub fn watch_nothing(_written: u64, _needed: u64) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

/// The section of kind `HF_Tokenizer_Zlib` that unpacks to `json`: one text gives one section, on every machine.
pub fn tokenizer_section(json: &[u8]) -> Vec<u8> {
    crate::tokenizer::deflate(json)
}
