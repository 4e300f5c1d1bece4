//! `config.json`: JSON bytes go in, the checked dimensions of the text model come out; what would be computed wrongly is
//! refused by name.

mod fields;

use serde_json::Value;

use crate::error::{Error, Result};
use fields::Fields;

pub(crate) const FILE: &str = "config.json";
/// Largest `config.json` that is parsed, in bytes; the released ones have 3 KiB.
const MAX_BYTES: usize = 1 << 20;

/// What a layer's mixer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LayerType {
    /// Full attention.
    FullAttention,
    /// Gated delta rule.
    LinearAttention,
}

/// The text model's configuration, with the field names of the file.
///
/// Fields may stand at the top level or in `text_config`; where they stand at both, the text model's own count. Fields
/// that are absent have the defaults of the reference's configuration class, as its writer leaves those out, but for
/// `rope_theta`: readers disagree about its default, and a wrong one would not be seen in any tensor's shape.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "the names are the file's own")]
pub struct Config {
    pub vocab_size: usize,
    pub hidden_size: usize,
    pub intermediate_size: usize,
    pub layer_types: Vec<LayerType>,
    pub num_attention_heads: usize,
    pub num_key_value_heads: usize,
    pub head_dim: usize,
    pub rope_theta: f64,
    /// Leading dimensions of a head that are rotated; even.
    pub rotary_dim: usize,
    pub linear_num_key_heads: usize,
    pub linear_num_value_heads: usize,
    pub linear_key_head_dim: usize,
    pub linear_value_head_dim: usize,
    pub linear_conv_kernel_dim: usize,
    pub rms_norm_eps: f64,
    pub max_position_embeddings: usize,
    /// Whether the embedding is the head too. A checkpoint that does not say, or says both, is taken by its tensors: it
    /// is tied if it has no head of its own.
    pub tie_word_embeddings: bool,
    /// Ids that end a text.
    pub eos_token_ids: Vec<u32>,
    /// What the file says of `tie_word_embeddings`, if it says one thing.
    stated_tie: Option<bool>,
}

impl Config {
    /// Reads `config.json`.
    ///
    /// # Errors
    /// Bad JSON, an absurd or contradictory field, or another kind of model.
    pub fn parse(json: &[u8]) -> Result<Config> {
        if json.len() > MAX_BYTES {
            return Err(Error::invalid(FILE, "size", format!("at most {MAX_BYTES} bytes"), json.len()));
        }
        let top: Value = serde_json::from_slice(json).map_err(|e| Error::invalid(FILE, "JSON", "a valid text", e))?;
        let fields = Fields::new(&top)?;
        fields.refuse_others()?;
        let head_dim = fields.size("head_dim", 4096, 256)?;
        let stated_tie = fields.tied()?;
        let config = Config {
            vocab_size: fields.size("vocab_size", 1 << 22, 248_320)?,
            hidden_size: fields.size("hidden_size", 1 << 16, 4096)?,
            intermediate_size: fields.size("intermediate_size", 1 << 17, 12_288)?,
            layer_types: fields.layer_types()?,
            num_attention_heads: fields.size("num_attention_heads", 4096, 16)?,
            num_key_value_heads: fields.size("num_key_value_heads", 4096, 4)?,
            head_dim,
            rope_theta: fields.rope_number("rope_theta", None)?,
            rotary_dim: rotary_dim(head_dim, fields.rope_number("partial_rotary_factor", Some(0.25))?)?,
            linear_num_key_heads: fields.size("linear_num_key_heads", 4096, 16)?,
            linear_num_value_heads: fields.size("linear_num_value_heads", 4096, 32)?,
            linear_key_head_dim: fields.size("linear_key_head_dim", 4096, 128)?,
            linear_value_head_dim: fields.size("linear_value_head_dim", 4096, 128)?,
            linear_conv_kernel_dim: fields.size("linear_conv_kernel_dim", 8, 4)?,
            rms_norm_eps: fields.number("rms_norm_eps", 1e-6)?,
            max_position_embeddings: fields.size("max_position_embeddings", 1 << 30, 32_768)?,
            tie_word_embeddings: stated_tie.unwrap_or(true),
            eos_token_ids: fields.end_ids()?,
            stated_tie,
        };
        config.check()?;
        Ok(config)
    }

    fn check(&self) -> Result<()> {
        let pairs = [
            ("num_attention_heads", self.num_attention_heads, self.num_key_value_heads),
            ("linear_num_value_heads", self.linear_num_value_heads, self.linear_num_key_heads),
        ];
        for (key, heads, groups) in pairs {
            if heads % groups != 0 {
                return Err(Error::invalid(FILE, key, format!("a multiple of {groups}"), heads));
            }
        }
        Ok(())
    }

    /// Decides whether the embedding is the head, now that it is known whether there is another.
    pub(crate) fn settle_head(&mut self, has_head: bool) -> Result<()> {
        self.tie_word_embeddings = self.stated_tie.unwrap_or(!has_head);
        if !self.tie_word_embeddings && !has_head {
            return Err(Error::invalid(
                FILE,
                "tie_word_embeddings",
                "a tensor `lm_head.weight`, as it is false",
                "none",
            ));
        }
        Ok(())
    }
}

fn rotary_dim(head_dim: usize, factor: f64) -> Result<usize> {
    let dims = (head_dim as f64 * factor) as usize;
    if factor > 1.0 || !dims.is_multiple_of(2) || dims == 0 {
        let expected = format!("an even part of head_dim {head_dim}");
        return Err(Error::invalid(FILE, "partial_rotary_factor", expected, factor));
    }
    Ok(dims)
}

/// An id or a list of ids; what is neither is left out.
pub fn ids(value: Option<&Value>) -> Vec<u32> {
    match value {
        Some(Value::Array(list)) => list.iter().filter_map(id).collect(),
        Some(value) => id(value).into_iter().collect(),
        None => Vec::new(),
    }
}

fn id(value: &Value) -> Option<u32> {
    value.as_u64().and_then(|id| u32::try_from(id).ok())
}
