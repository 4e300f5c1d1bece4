//! `config.json`: JSON bytes go in, the checked dimensions of the text model come out.

use serde_json::Value;

use crate::error::{Error, Result};

const FILE: &str = "config.json";

/// What a layer's mixer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LayerType {
    /// Full attention.
    FullAttention,
    /// Gated delta rule.
    LinearAttention,
}

/// The text model's configuration, with the field names of the file.
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
    pub tie_word_embeddings: bool,
    /// Ids that end a text.
    pub eos_token_ids: Vec<u32>,
}

struct Fields<'a> {
    top: &'a Value,
    text: &'a Value,
}

impl Fields<'_> {
    fn get(&self, key: &str) -> Option<&Value> {
        self.text.get(key).or_else(|| self.top.get(key)).filter(|value| !value.is_null())
    }

    fn size_or(&self, key: &str, most: usize, default: Option<usize>) -> Result<usize> {
        let Some(value) = self.get(key) else {
            return default.ok_or_else(|| Error::invalid(FILE, key, "a number", "nothing"));
        };
        match value.as_u64() {
            Some(n) if n >= 1 && n <= most as u64 => Ok(n as usize),
            _ => Err(Error::invalid(FILE, key, format!("1 to {most}"), value)),
        }
    }

    fn size(&self, key: &str, most: usize) -> Result<usize> {
        self.size_or(key, most, None)
    }

    fn rope(&self, key: &str) -> Option<&Value> {
        let inner = self.get("rope_parameters").or_else(|| self.get("rope_scaling"));
        inner.and_then(|rope| rope.get(key)).or_else(|| self.get(key))
    }

    fn layer_types(&self) -> Result<Vec<LayerType>> {
        let layers = self.size("num_hidden_layers", 1024)?;
        let Some(types) = self.get("layer_types") else {
            let interval = self.size_or("full_attention_interval", 1024, Some(4))?;
            let kind = |i: usize| match (i + 1) % interval {
                0 => LayerType::FullAttention,
                _ => LayerType::LinearAttention,
            };
            return Ok((0..layers).map(kind).collect());
        };
        let types = types.as_array().ok_or_else(|| Error::invalid(FILE, "layer_types", "a list", types))?;
        if types.len() != layers {
            return Err(Error::invalid(FILE, "layer_types", format!("{layers} entries"), types.len()));
        }
        let kind = |value: &Value| match value.as_str() {
            Some("full_attention") => Ok(LayerType::FullAttention),
            Some("linear_attention") => Ok(LayerType::LinearAttention),
            _ => Err(Error::invalid(FILE, "layer_types", "full_attention or linear_attention", value)),
        };
        types.iter().map(kind).collect()
    }

    /// Refuses what this program would compute wrongly.
    fn refuse_others(&self) -> Result<()> {
        let refuse = |field: &str, expected: &str, found: &Value| {
            Err(Error::Unsupported { field: field.into(), expected: expected.into(), found: found.to_string() })
        };
        let kind = self.text.get("model_type").or_else(|| self.top.get("model_type")).unwrap_or(&Value::Null);
        if !matches!(kind.as_str(), Some("qwen3_5" | "qwen3_5_text")) {
            return refuse("model_type", "qwen3_5", kind);
        }
        let wanted = [
            ("hidden_act", Value::from("silu")),
            ("attention_bias", Value::from(false)),
            ("attn_output_gate", Value::from(true)),
        ];
        for (key, expected) in wanted {
            if let Some(found) = self.get(key).filter(|found| **found != expected) {
                return refuse(key, &expected.to_string(), found);
            }
        }
        if let Some(found) = self.rope("rope_type").or_else(|| self.rope("type")).filter(|v| *v != "default") {
            return refuse("rope_type", "default", found);
        }
        for key in ["quantization_config", "num_experts"] {
            if let Some(found) = self.get(key) {
                return refuse(key, "models without it", found);
            }
        }
        Ok(())
    }
}

impl Config {
    /// Reads `config.json`.
    ///
    /// # Errors
    /// Bad JSON, a missing, absurd or contradictory field, or another kind of model.
    pub fn parse(json: &[u8]) -> Result<Config> {
        let top: Value = serde_json::from_slice(json).map_err(|e| Error::invalid(FILE, "JSON", "a valid text", e))?;
        let fields = Fields { top: &top, text: top.get("text_config").unwrap_or(&top) };
        fields.refuse_others()?;
        let heads = fields.size("num_attention_heads", 4096)?;
        let hidden_size = fields.size("hidden_size", 1 << 16)?;
        let head_dim = fields.size_or("head_dim", 4096, Some((hidden_size / heads).max(1)))?;
        let number = |key: &str, value: Option<&Value>, default: f64| {
            let found = value.map_or(Some(default), Value::as_f64);
            found
                .filter(|v| v.is_finite() && *v > 0.0)
                .ok_or_else(|| Error::invalid(FILE, key, "a positive number", value.unwrap_or(&Value::Null)))
        };
        let factor = number("partial_rotary_factor", fields.rope("partial_rotary_factor"), 0.25)?;
        let rotary_dim = (head_dim as f64 * factor) as usize;
        if factor > 1.0 || !rotary_dim.is_multiple_of(2) || rotary_dim == 0 {
            return Err(Error::invalid(FILE, "partial_rotary_factor", "an even part of head_dim", factor));
        }
        let config = Config {
            vocab_size: fields.size("vocab_size", 1 << 22)?,
            hidden_size,
            intermediate_size: fields.size("intermediate_size", 1 << 17)?,
            layer_types: fields.layer_types()?,
            num_attention_heads: heads,
            num_key_value_heads: fields.size_or("num_key_value_heads", 4096, Some(heads))?,
            head_dim,
            rope_theta: number("rope_theta", fields.rope("rope_theta"), 1e7)?,
            rotary_dim,
            linear_num_key_heads: fields.size("linear_num_key_heads", 4096)?,
            linear_num_value_heads: fields.size("linear_num_value_heads", 4096)?,
            linear_key_head_dim: fields.size("linear_key_head_dim", 4096)?,
            linear_value_head_dim: fields.size("linear_value_head_dim", 4096)?,
            linear_conv_kernel_dim: fields.size_or("linear_conv_kernel_dim", 8, Some(4))?,
            rms_norm_eps: number("rms_norm_eps", fields.get("rms_norm_eps"), 1e-6)?,
            max_position_embeddings: fields.size_or("max_position_embeddings", 1 << 30, Some(262_144))?,
            tie_word_embeddings: fields.get("tie_word_embeddings").and_then(Value::as_bool).unwrap_or(true),
            eos_token_ids: ids(fields.get("eos_token_id")),
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
}

/// An id or a list of ids.
pub fn ids(value: Option<&Value>) -> Vec<u32> {
    let id = |value: &Value| value.as_u64().and_then(|id| u32::try_from(id).ok());
    match value {
        Some(Value::Array(list)) => list.iter().filter_map(id).collect(),
        Some(value) => id(value).into_iter().collect(),
        None => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn demo() -> Value {
        serde_json::from_slice(include_bytes!("../../../models/demo/config.json")).expect("json")
    }

    fn parse(value: &Value) -> Result<Config> {
        Config::parse(value.to_string().as_bytes())
    }

    #[test]
    fn nested_and_flat_shapes_say_the_same() {
        let flat = demo();
        let nested = serde_json::json!({ "model_type": "qwen3_5", "text_config": flat });
        assert_eq!(parse(&flat).expect("flat"), parse(&nested).expect("nested"));
    }

    #[test]
    fn layer_types_may_be_absent() {
        let mut value = demo();
        let with = parse(&value).expect("with");
        value.as_object_mut().expect("object").remove("layer_types");
        assert_eq!(parse(&value).expect("without"), with);
    }

    #[test]
    fn absurd_and_contradictory_values_are_named() {
        let cases: [(&str, Value); 8] = [
            ("hidden_size", 0.into()),
            ("vocab_size", (1u64 << 40).into()),
            ("num_hidden_layers", 7.into()),
            ("num_key_value_heads", 3.into()),
            ("linear_num_key_heads", 5.into()),
            ("model_type", "llama".into()),
            ("hidden_act", "gelu".into()),
            ("rms_norm_eps", (-1).into()),
        ];
        for (key, bad) in cases {
            let mut value = demo();
            value[key] = bad;
            let text = parse(&value).expect_err(key).to_string();
            let named = if key == "num_hidden_layers" { "layer_types" } else { &key[..10] };
            assert!(text.contains(named) || text.contains("heads"), "{key}: {text}");
        }
    }
}
