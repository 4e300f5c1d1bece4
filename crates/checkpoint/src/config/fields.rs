//! Fields of `config.json`: a name goes in; its value comes out of the level that counts, checked.

use serde_json::Value;

use super::{FILE, LayerType, id, ids};
use crate::error::{Error, Result};

const MAX_LAYERS: usize = 1024;

pub(super) struct Fields<'a> {
    top: &'a Value,
    /// The text model's level, which is the top one in flat files.
    text: &'a Value,
}

fn stated<'a>(level: &'a Value, key: &str) -> Option<&'a Value> {
    level.get(key).filter(|value| !value.is_null())
}

/// A whole number, however it is written: `64` and `64.0` are the same.
fn whole(value: &Value) -> Option<u64> {
    let float = || value.as_f64().filter(|v| v.fract() == 0.0 && (0.0..1e15).contains(v)).map(|v| v as u64);
    value.as_u64().or_else(float)
}

fn positive(key: &str, value: &Value) -> Result<f64> {
    let number = value.as_f64().filter(|v| v.is_finite() && *v > 0.0);
    number.ok_or_else(|| Error::invalid(FILE, key, "a positive number", value))
}

impl<'a> Fields<'a> {
    pub(super) fn new(top: &'a Value) -> Result<Fields<'a>> {
        let text = stated(top, "text_config").unwrap_or(top);
        for (place, level) in [("JSON", top), ("text_config", text)] {
            if !level.is_object() {
                return Err(Error::invalid(FILE, place, "an object", level));
            }
        }
        Ok(Fields { top, text })
    }

    fn get(&self, key: &str) -> Option<&'a Value> {
        stated(self.text, key).or_else(|| stated(self.top, key))
    }

    pub(super) fn size(&self, key: &str, most: usize, default: usize) -> Result<usize> {
        let Some(value) = self.get(key) else { return Ok(default) };
        match whole(value) {
            Some(n) if n >= 1 && n <= most as u64 => Ok(n as usize),
            _ => Err(Error::invalid(FILE, key, format!("1 to {most}"), value)),
        }
    }

    pub(super) fn number(&self, key: &str, default: f64) -> Result<f64> {
        self.get(key).map_or(Ok(default), |value| positive(key, value))
    }

    /// A number from among the rotary parameters, or from beside them, where older files have it.
    pub(super) fn rope_number(&self, key: &str, default: Option<f64>) -> Result<f64> {
        match self.rope(key).next().or_else(|| self.get(key)) {
            Some(value) => positive(key, value),
            None => default.ok_or_else(|| Error::invalid(FILE, key, "a positive number", "nothing")),
        }
    }

    /// What the rotary parameters say, of which a file may have two sets under two names.
    fn rope(&self, key: &str) -> impl Iterator<Item = &'a Value> {
        ["rope_parameters", "rope_scaling"].into_iter().filter_map(move |set| stated(self.get(set)?, key))
    }

    pub(super) fn layer_types(&self) -> Result<Vec<LayerType>> {
        let Some(types) = self.get("layer_types") else {
            let interval = self.size("full_attention_interval", MAX_LAYERS, 4)?;
            let kind = |i: usize| match (i + 1) % interval {
                0 => LayerType::FullAttention,
                _ => LayerType::LinearAttention,
            };
            return Ok((0..self.size("num_hidden_layers", MAX_LAYERS, 32)?).map(kind).collect());
        };
        let types = types.as_array().ok_or_else(|| Error::invalid(FILE, "layer_types", "a list", types))?;
        if types.is_empty() || types.len() > MAX_LAYERS {
            return Err(Error::invalid(FILE, "layer_types", format!("1 to {MAX_LAYERS} entries"), types.len()));
        }
        let layers = self.size("num_hidden_layers", MAX_LAYERS, types.len())?;
        if types.len() != layers {
            let expected = format!("{layers} entries, as num_hidden_layers has it");
            return Err(Error::invalid(FILE, "layer_types", expected, types.len()));
        }
        let kind = |value: &Value| match value.as_str() {
            Some("full_attention") => Ok(LayerType::FullAttention),
            Some("linear_attention") => Ok(LayerType::LinearAttention),
            _ => Err(Error::unsupported(FILE, "layer_types", "full_attention and linear_attention", value)),
        };
        types.iter().map(kind).collect()
    }

    /// Whether embedding and head are one, if the file says one thing of it. Releases of the reference differ in which
    /// level they read, so that none counts more where both speak.
    pub(super) fn tied(&self) -> Result<Option<bool>> {
        let key = "tie_word_embeddings";
        let flag = |level: &'a Value| match stated(level, key) {
            None => Ok(None),
            Some(Value::Bool(tied)) => Ok(Some(*tied)),
            Some(other) => Err(Error::invalid(FILE, key, "true or false", other)),
        };
        Ok(match (flag(self.text)?, flag(self.top)?) {
            (Some(text), Some(top)) if text != top => None,
            (text, top) => text.or(top),
        })
    }

    pub(super) fn end_ids(&self) -> Result<Vec<u32>> {
        let Some(value) = self.get("eos_token_id") else { return Ok(Vec::new()) };
        let entries = value.as_array().map_or(std::slice::from_ref(value), Vec::as_slice);
        match entries.iter().find(|entry| id(entry).is_none()) {
            Some(bad) => Err(Error::invalid(FILE, "eos_token_id", "an id, or a list of ids", bad)),
            None => Ok(ids(Some(value))),
        }
    }

    /// Refuses what this program would compute wrongly.
    pub(super) fn refuse_others(&self) -> Result<()> {
        self.refuse_other_kinds()?;
        let wanted = [
            ("hidden_act", Value::from("silu")),
            ("attention_bias", Value::from(false)),
            ("attn_output_gate", Value::from(true)),
        ];
        for (key, expected) in wanted {
            if let Some(found) = self.get(key).filter(|found| **found != expected) {
                return Err(Error::unsupported(FILE, key, expected, found));
            }
        }
        for key in ["rope_type", "type"] {
            if let Some(found) = self.rope(key).find(|found| *found != "default") {
                return Err(Error::unsupported(FILE, key, "default rotary embeddings", found));
            }
        }
        for key in ["quantization_config", "quantization", "num_experts", "num_local_experts"] {
            if let Some(found) = self.get(key).filter(|found| **found != 0) {
                return Err(Error::unsupported(FILE, key, "models without it", found));
            }
        }
        Ok(())
    }

    fn refuse_other_kinds(&self) -> Result<()> {
        let expected = "qwen3_5";
        let levels = [self.text, self.top].map(|level| stated(level, "model_type"));
        if let Some(other) = levels.into_iter().flatten().find(|kind| *kind != expected && *kind != "qwen3_5_text") {
            return Err(Error::unsupported(FILE, "model_type", expected, other));
        }
        if levels == [None, None] {
            return Err(Error::unsupported(FILE, "model_type", expected, "nothing"));
        }
        let classes = stated(self.top, "architectures").and_then(Value::as_array).into_iter().flatten();
        match classes.filter_map(Value::as_str).find(|class| class.contains("Classification")) {
            Some(class) => Err(Error::unsupported(FILE, "architectures", "language models", class)),
            None => Ok(()),
        }
    }
}
