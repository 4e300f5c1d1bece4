//! Metadata on its way back: typed values go in, protocol buffers come out, fields by number and the unknown ones last.

use super::executor::{AttentionMask, ExecutorMetadata, LlmExecutor, StateBuffer, StateKind};
use super::llm::{Affixes, Channel, LlmMetadata, ModelType, PromptTemplates, Sampler, SamplerKind, Token, TokenIds};
use crate::wire::{self, Encode, Encoder, Fault};

/// A field of [`LlmMetadata`] that [`LlmMetadata::replace_in`] can exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the variants are the fields of the message")]
pub enum LlmField {
    StartToken = 1,
    StopTokens = 2,
    Sampler = 4,
    MaxNumTokens = 5,
    Template = 7,
    Channels = 8,
    SupportsThinking = 11,
    SupportsFunctionCalling = 12,
    PadToken = 13,
    MinRuntimeVersion = 14,
}

impl LlmMetadata {
    /// The section that says this. What was decoded from fields in the order of their numbers gives the same bytes.
    pub fn encode(&self) -> Vec<u8> {
        self.encoded()
    }

    /// What the bytes of a section say.
    pub fn decode(bytes: &[u8]) -> Result<LlmMetadata, Fault> {
        wire::decode(bytes, "LlmMetadata")
    }

    /// The section `bytes` with `fields` as they are here. Every other byte of it stays as it was written.
    pub fn replace_in(&self, bytes: &[u8], fields: &[LlmField]) -> Result<Vec<u8>, Fault> {
        let mine = self.encoded();
        let mut replaced = bytes.to_vec();
        for field in fields {
            replaced = wire::replace(&replaced, "LlmMetadata", *field as u32, &mine)?;
        }
        Ok(replaced)
    }
}

impl ExecutorMetadata {
    /// The section that says this. What was decoded from fields in the order of their numbers gives the same bytes.
    pub fn encode(&self) -> Vec<u8> {
        self.encoded()
    }

    /// What the bytes of a section say.
    pub fn decode(bytes: &[u8]) -> Result<ExecutorMetadata, Fault> {
        wire::decode(bytes, "ExecutorMetadata")
    }
}

impl Encode for LlmMetadata {
    fn encode(&self, to: &mut Encoder) {
        to.messages(1, &self.start_token);
        to.messages(2, &self.stop_tokens);
        to.messages(3, &self.prompt_templates);
        to.messages(4, &self.sampler);
        to.plain_int32(5, self.max_num_tokens);
        to.messages(6, &self.model_type);
        to.text(7, self.jinja_prompt_template.as_deref());
        to.messages(8, &self.channels);
        to.messages(9, &self.suppress_tokens);
        to.int64(10, self.kv_cache_init_value);
        to.bool(11, self.supports_thinking);
        to.bool(12, self.supports_function_calling);
        to.messages(13, &self.pad_token);
        to.text(14, self.min_runtime_version.as_deref());
        to.unknown(&self.unknown);
    }
}

impl Encode for Token {
    fn encode(&self, to: &mut Encoder) {
        match &self.text {
            Some(text) => to.text(2, Some(text)),
            None if self.ids.is_empty() && self.ids_unknown.bytes().is_empty() => {}
            None => to.messages(1, [&TokenIds { ids: self.ids.clone(), unknown: self.ids_unknown.clone() }]),
        }
        to.unknown(&self.unknown);
    }
}

impl Encode for TokenIds {
    fn encode(&self, to: &mut Encoder) {
        to.packed_int32s(1, &self.ids);
        to.unknown(&self.unknown);
    }
}

impl Encode for PromptTemplates {
    fn encode(&self, to: &mut Encoder) {
        to.messages(1, &self.user);
        to.messages(2, &self.model);
        to.messages(3, &self.system);
        to.unknown(&self.unknown);
    }
}

impl Encode for Affixes {
    fn encode(&self, to: &mut Encoder) {
        to.plain_text(1, &self.prefix);
        to.plain_text(2, &self.suffix);
        to.unknown(&self.unknown);
    }
}

impl Encode for Channel {
    fn encode(&self, to: &mut Encoder) {
        to.plain_text(1, &self.name);
        to.plain_text(2, &self.start);
        to.plain_text(3, &self.end);
        to.bool(4, self.is_reasoning);
        to.unknown(&self.unknown);
    }
}

impl Encode for Sampler {
    fn encode(&self, to: &mut Encoder) {
        to.plain_int32(
            1,
            match self.kind {
                SamplerKind::Unspecified => 0,
                SamplerKind::TopK => 1,
                SamplerKind::TopP => 2,
                SamplerKind::Greedy => 3,
                SamplerKind::Unknown(number) => number,
            },
        );
        to.plain_int32(2, self.k);
        to.plain_float(3, self.p);
        to.plain_float(4, self.temperature);
        to.int32(5, self.seed);
        to.plain_int32(6, self.backend);
        to.bool(7, self.exact_log_probs.then_some(true));
        to.unknown(&self.unknown);
    }
}

impl Encode for ModelType {
    fn encode(&self, to: &mut Encoder) {
        if self.number != 0 {
            to.bytes(self.number, &self.body);
        }
    }
}

impl Encode for ExecutorMetadata {
    fn encode(&self, to: &mut Encoder) {
        to.messages(1, &self.llm);
        to.unknown(&self.unknown);
    }
}

impl Encode for LlmExecutor {
    fn encode(&self, to: &mut Encoder) {
        to.int32(1, self.max_history_size);
        to.messages(2, &self.state_buffers);
        to.messages(3, &self.attention_mask);
        to.unknown(&self.unknown);
    }
}

impl Encode for StateBuffer {
    fn encode(&self, to: &mut Encoder) {
        to.plain_text(1, &self.prefill_input);
        to.plain_text(2, &self.prefill_output);
        to.plain_text(3, &self.decode_input);
        to.plain_text(4, &self.decode_output);
        to.plain_int32(5, self.policy);
        to.plain_int32(
            6,
            match self.kind {
                StateKind::Unspecified => 0,
                StateKind::GlobalKeys => 1,
                StateKind::GlobalValues => 2,
                StateKind::LocalKeys => 3,
                StateKind::LocalValues => 4,
                StateKind::LinearAttention => 5,
                StateKind::Unknown(number) => number,
            },
        );
        to.int32(7, self.sequence_axis);
        to.int32(8, self.minimum_length);
        to.int32(9, self.maximum_length);
        to.unknown(&self.unknown);
    }
}

impl Encode for AttentionMask {
    fn encode(&self, to: &mut Encoder) {
        to.int32(1, self.kind);
        to.int32(2, self.local_kind);
        to.int32(3, self.window);
        to.unknown(&self.unknown);
    }
}
