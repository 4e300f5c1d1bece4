//! `ExecutorMetadataProto`: the state tensors that a runtime carries from call to call.

use serde::Serialize;

use crate::wire::{Fault, Field, Message, Unknown};

/// How a runtime must drive the model.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ExecutorMetadata {
    /// For language models.
    pub llm: Option<LlmExecutor>,
    /// Fields that this version does not know.
    pub unknown: Unknown,
}

impl Message for ExecutorMetadata {
    fn field(&mut self, field: Field<'_>) -> Result<bool, Fault> {
        match field.number {
            1 => field.message("llm_executor_metadata", self.llm.get_or_insert_default())?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn unknown(&mut self) -> &mut Unknown {
        &mut self.unknown
    }
}

/// How a runtime must drive a language model.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct LlmExecutor {
    /// Positions by which the state can be rolled back; 0 for states that cannot be.
    pub max_history_size: Option<i32>,
    /// The state tensors.
    pub state_buffers: Vec<StateBuffer>,
    /// Which positions see each other.
    pub attention_mask: Option<AttentionMask>,
    /// Fields that this version does not know.
    pub unknown: Unknown,
}

impl Message for LlmExecutor {
    fn field(&mut self, field: Field<'_>) -> Result<bool, Fault> {
        match field.number {
            1 => self.max_history_size = Some(field.int32("max_history_size")?),
            2 => field.push("state_buffers", &mut self.state_buffers)?,
            3 => field.message("attention_mask_settings", self.attention_mask.get_or_insert_default())?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn unknown(&mut self) -> &mut Unknown {
        &mut self.unknown
    }
}

/// What a state tensor holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub enum StateKind {
    /// Not stated.
    #[default]
    Unspecified,
    /// Keys of all positions.
    GlobalKeys,
    /// Values of all positions.
    GlobalValues,
    /// Keys of a window.
    LocalKeys,
    /// Values of a window.
    LocalValues,
    /// A state of constant size.
    LinearAttention,
    /// Another, by its number.
    Unknown(i32),
}

/// A state tensor: an output of one call that is an input of the next.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct StateBuffer {
    /// Name of the input of prefill signatures.
    pub prefill_input: String,
    /// Name of the output of prefill signatures.
    pub prefill_output: String,
    /// Name of the input of the decode signature.
    pub decode_input: String,
    /// Name of the output of the decode signature.
    pub decode_output: String,
    /// How the runtime may store it; 0 is the usual way.
    pub policy: i32,
    /// What it holds.
    pub kind: StateKind,
    /// The dimension that grows with positions.
    pub sequence_axis: Option<i32>,
    /// Fewest positions.
    pub minimum_length: Option<i32>,
    /// Most positions.
    pub maximum_length: Option<i32>,
    /// Fields that this version does not know.
    pub unknown: Unknown,
}

impl Message for StateBuffer {
    fn field(&mut self, field: Field<'_>) -> Result<bool, Fault> {
        match field.number {
            1 => self.prefill_input = field.text("prefill_input_name")?,
            2 => self.prefill_output = field.text("prefill_output_name")?,
            3 => self.decode_input = field.text("decode_input_name")?,
            4 => self.decode_output = field.text("decode_output_name")?,
            5 => self.policy = field.int32("policy")?,
            6 => {
                self.kind = match field.int32("type")? {
                    0 => StateKind::Unspecified,
                    1 => StateKind::GlobalKeys,
                    2 => StateKind::GlobalValues,
                    3 => StateKind::LocalKeys,
                    4 => StateKind::LocalValues,
                    5 => StateKind::LinearAttention,
                    other => StateKind::Unknown(other),
                }
            }
            7 => self.sequence_axis = Some(field.int32("sequence_axis")?),
            8 => self.minimum_length = Some(field.int32("minimum_sequence_length")?),
            9 => self.maximum_length = Some(field.int32("maximum_sequence_length")?),
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn unknown(&mut self) -> &mut Unknown {
        &mut self.unknown
    }
}

/// Which positions see each other. Kinds: 0 not stated, 1 causal, 2 all, 3 all inside an image.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct AttentionMask {
    /// Kind in global layers.
    pub kind: Option<i32>,
    /// Kind in layers with a window.
    pub local_kind: Option<i32>,
    /// Length of the window.
    pub window: Option<i32>,
    /// Fields that this version does not know.
    pub unknown: Unknown,
}

impl Message for AttentionMask {
    fn field(&mut self, field: Field<'_>) -> Result<bool, Fault> {
        match field.number {
            1 => self.kind = Some(field.int32("attention_mask_type")?),
            2 => self.local_kind = Some(field.int32("local_attention_mask_type")?),
            3 => self.window = Some(field.int32("sliding_window_size")?),
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn unknown(&mut self) -> &mut Unknown {
        &mut self.unknown
    }
}
