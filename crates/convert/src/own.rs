//! Kinglet's own section: what the format has no place for goes in, JSON of a length that is known beforehand comes out;
//! other runtimes pass over it.

use kinglet_model::assets::SamplingAdvice;
use kinglet_model::{Mixer, Plan};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::error::{Error, Result};
use crate::inputs::InputFile;
use crate::lock::{Choices, Program, RecipeName};

/// Bytes that are kept free for the self-check.
const SELF_CHECK_ROOM: usize = 4096;

/// What the finished bundle answered, on the machine that made it: the same bits must come out everywhere.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SelfCheck {
    /// The ids that were read, from an empty state.
    pub ids: Vec<u32>,
    /// SHA-256 of the logits of the last id, as little-endian `f32`.
    pub logits_sha256: String,
    /// The likeliest ids after them, with their logits.
    pub top: Vec<(u32, f32)>,
}

/// What is said before any weight is looked at.
pub(crate) struct Statement<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) sampling: &'a SamplingAdvice,
    pub(crate) recipe: &'a RecipeName,
    pub(crate) choices: &'a Choices,
    pub(crate) inputs: &'a [InputFile],
}

impl Statement<'_> {
    /// Length of the section, the same with and without a self-check.
    pub(crate) fn len(&self) -> u64 {
        (self.text(None).len() + SELF_CHECK_ROOM) as u64
    }

    /// The section.
    pub(crate) fn encode(&self, check: &SelfCheck) -> Result<Vec<u8>> {
        let mut bytes = self.text(Some(check)).into_bytes();
        let len = self.len() as usize;
        if bytes.len() >= len {
            return Err(Error::self_check(format!("it says {} bytes, expected fewer than {len}", bytes.len())));
        }
        bytes.resize(len - 1, b' ');
        bytes.push(b'\n');
        Ok(bytes)
    }

    fn text(&self, check: Option<&SelfCheck>) -> String {
        json!({
            "program": Program::this(),
            "recipe": self.recipe,
            "options": self.choices,
            "model": model(self.plan),
            "sampling": sampling(self.sampling),
            "inputs": self.inputs,
            "self_check": check,
        })
        .to_string()
    }
}

fn model(plan: &Plan) -> Value {
    let (a, d) = (&plan.attention, &plan.delta);
    let mixer = |mixer: &Mixer| match mixer {
        Mixer::GatedAttention => "full_attention",
        Mixer::GatedDeltaNet => "linear_attention",
    };
    json!({
        "vocab_size": plan.vocab,
        "hidden_size": plan.hidden,
        "intermediate_size": plan.ffn,
        "layer_types": plan.layers.iter().map(mixer).collect::<Vec<_>>(),
        "num_attention_heads": a.heads,
        "num_key_value_heads": a.kv_heads,
        "head_dim": a.head_dim,
        "rotary_dim": 2 * a.inverse_frequencies.len(),
        "linear_num_key_heads": d.key_heads,
        "linear_num_value_heads": d.value_heads,
        "linear_key_head_dim": d.key_dim,
        "linear_value_head_dim": d.value_dim,
        "linear_conv_kernel_dim": d.taps,
        "rms_norm_eps": decimal(plan.eps),
        "max_position_embeddings": plan.max_positions,
    })
}

fn sampling(advice: &SamplingAdvice) -> Value {
    json!({
        "temperature": advice.temperature.map(decimal),
        "top_k": advice.top_k,
        "top_p": advice.top_p.map(decimal),
        "min_p": advice.min_p.map(decimal),
        "presence_penalty": advice.presence_penalty.map(decimal),
        "repetition_penalty": advice.repetition_penalty.map(decimal),
    })
}

/// The number as it was written: 0.7, not the double nearest to the single nearest to it.
fn decimal(value: f32) -> Value {
    value.to_string().parse::<f64>().map_or(Value::Null, Value::from)
}
