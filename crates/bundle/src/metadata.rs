//! What a bundle says of its model: protocol buffers go in, typed values come out, with the fields that this version
//! does not know beside them.

mod encode;
mod executor;
mod llm;

pub use encode::LlmField;
pub use executor::{AttentionMask, ExecutorMetadata, LlmExecutor, StateBuffer, StateKind};
pub use llm::{Affixes, Channel, LlmMetadata, ModelType, PromptTemplates, Sampler, SamplerKind, Token, TokenIds};

/// Most bytes of a metadata section: a thousand times what is usual.
pub const METADATA_LIMIT: u64 = 4 << 20;
