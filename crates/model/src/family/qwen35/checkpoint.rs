//! Qwen3.5 from a Hugging Face checkpoint: its configuration becomes the plan, its tensors the weights.

use kinglet_checkpoint::{Checkpoint, Config, Convention, Dtype, LayerType, Tensor};

use crate::assets::{Assets, SamplingAdvice, Stop};
use crate::error::{Error, Result};
use crate::plan::{Attention, DeltaNet, Mixer, Plan, inverse_frequencies};
use crate::quantize::to_int8;
use crate::source::{LoadOptions, Precision};
use crate::weights::{AttentionWeights, DeltaWeights, Format, Layer, Matrix, MixerWeights, Mlp, Weights};

/// The plan that a configuration describes.
pub(crate) fn plan(config: &Config) -> Result<Plan> {
    let mixer = |kind: &LayerType| match kind {
        LayerType::FullAttention => Mixer::GatedAttention,
        LayerType::LinearAttention => Mixer::GatedDeltaNet,
    };
    let plan = Plan {
        vocab: config.vocab_size,
        hidden: config.hidden_size,
        ffn: config.intermediate_size,
        layers: config.layer_types.iter().map(mixer).collect(),
        attention: Attention {
            heads: config.num_attention_heads,
            kv_heads: config.num_key_value_heads,
            head_dim: config.head_dim,
            inverse_frequencies: inverse_frequencies(config.rope_theta, config.rotary_dim),
        },
        delta: DeltaNet {
            key_heads: config.linear_num_key_heads,
            value_heads: config.linear_num_value_heads,
            key_dim: config.linear_key_head_dim,
            value_dim: config.linear_value_head_dim,
            taps: config.linear_conv_kernel_dim,
        },
        eps: config.rms_norm_eps as f32,
        max_positions: config.max_position_embeddings,
    };
    plan.validate()?;
    Ok(plan)
}

/// The name of a head of its own, if the checkpoint has one.
fn head_name(checkpoint: &Checkpoint) -> Option<&str> {
    checkpoint.layout().head.as_deref().filter(|_| !checkpoint.config().tie_word_embeddings)
}

/// Whether the head is a matrix of its own.
pub(crate) fn has_head(checkpoint: &Checkpoint) -> bool {
    head_name(checkpoint).is_some()
}

/// All weights, converted as `options` says.
pub(crate) fn weights(checkpoint: &Checkpoint, plan: &Plan, options: LoadOptions<'_>) -> Result<Weights> {
    let total = plan.parameters(!has_head(checkpoint)).0;
    let mut reader = Reader { checkpoint, options, done: 0, total };
    let (vocab, hidden) = (plan.vocab, plan.hidden);
    let prefix = checkpoint.layout().text_prefix.clone();
    let embedding = reader.linear(&format!("{prefix}embed_tokens.weight"), vocab, hidden)?;
    let mut layers = Vec::with_capacity(plan.layers.len());
    for (i, mixer) in plan.layers.iter().enumerate() {
        layers.push(reader.layer(&format!("{prefix}layers.{i}."), *mixer, plan)?);
    }
    let final_norm = reader.norm(&format!("{prefix}norm.weight"), hidden)?;
    let head = match head_name(checkpoint) {
        Some(name) => Some(reader.linear(name, vocab, hidden)?),
        None => None,
    };
    Ok(Weights { embedding, layers, final_norm, head })
}

struct Reader<'a, 'o> {
    checkpoint: &'a Checkpoint,
    options: LoadOptions<'o>,
    done: u64,
    total: u64,
}

impl Reader<'_, '_> {
    fn layer(&mut self, p: &str, mixer: Mixer, plan: &Plan) -> Result<Layer> {
        let (hidden, ffn) = (plan.hidden, plan.ffn);
        Ok(Layer {
            input_norm: self.norm(&format!("{p}input_layernorm.weight"), hidden)?,
            mixer: match mixer {
                Mixer::GatedAttention => MixerWeights::Attention(self.attention(&format!("{p}self_attn."), plan)?),
                Mixer::GatedDeltaNet => MixerWeights::Delta(self.delta(&format!("{p}linear_attn."), plan)?),
            },
            mlp_norm: self.norm(&format!("{p}post_attention_layernorm.weight"), hidden)?,
            mlp: Mlp {
                gate: self.linear(&format!("{p}mlp.gate_proj.weight"), ffn, hidden)?,
                up: self.linear(&format!("{p}mlp.up_proj.weight"), ffn, hidden)?,
                down: self.linear(&format!("{p}mlp.down_proj.weight"), hidden, ffn)?,
            },
        })
    }

    fn attention(&mut self, p: &str, plan: &Plan) -> Result<AttentionWeights> {
        let (a, hidden) = (&plan.attention, plan.hidden);
        let (wide, kv) = (a.heads * a.head_dim, a.kv_heads * a.head_dim);
        Ok(AttentionWeights {
            query: self.linear(&format!("{p}q_proj.weight"), 2 * wide, hidden)?,
            key: self.linear(&format!("{p}k_proj.weight"), kv, hidden)?,
            value: self.linear(&format!("{p}v_proj.weight"), kv, hidden)?,
            output: self.linear(&format!("{p}o_proj.weight"), hidden, wide)?,
            query_norm: self.norm(&format!("{p}q_norm.weight"), a.head_dim)?,
            key_norm: self.norm(&format!("{p}k_norm.weight"), a.head_dim)?,
        })
    }

    fn delta(&mut self, p: &str, plan: &Plan) -> Result<DeltaWeights> {
        let (d, hidden) = (&plan.delta, plan.hidden);
        let heads = d.value_heads;
        let decay = self.vector(&format!("{p}A_log"), &[heads])?;
        Ok(DeltaWeights {
            qkv: self.linear(&format!("{p}in_proj_qkv.weight"), d.channels(), hidden)?,
            z: self.linear(&format!("{p}in_proj_z.weight"), d.values(), hidden)?,
            a: self.matrix(&format!("{p}in_proj_a.weight"), heads, hidden)?,
            b: self.matrix(&format!("{p}in_proj_b.weight"), heads, hidden)?,
            output: self.linear(&format!("{p}out_proj.weight"), hidden, d.values())?,
            conv: self.convolution(&format!("{p}conv1d.weight"), d)?,
            decay_rate: decay.into_iter().map(|a| -(libm::exp(f64::from(a)) as f32)).collect(),
            dt_bias: self.vector(&format!("{p}dt_bias"), &[heads])?,
            norm: self.vector(&format!("{p}norm.weight"), &[d.value_dim])?,
        })
    }

    fn tensor(&self, name: &str, shape: &[usize]) -> Result<Tensor> {
        let tensor = self.checkpoint.tensor(name).map_err(Error::checkpoint)?;
        if tensor.shape != shape {
            return Err(Error::tensor(name, format!("shape {shape:?}"), format!("{:?}", tensor.shape)));
        }
        Ok(tensor)
    }

    /// A matrix as stored.
    fn matrix(&self, name: &str, rows: usize, columns: usize) -> Result<Matrix> {
        let tensor = self.tensor(name, &[rows, columns])?;
        Matrix::float(name, rows, columns, format(name, &tensor)?, tensor.data)
    }

    /// A matrix that an int8 model holds as integers.
    fn linear(&mut self, name: &str, rows: usize, columns: usize) -> Result<Matrix> {
        let matrix = self.matrix(name, rows, columns)?;
        if self.options.precision == Precision::Stored {
            return Ok(matrix);
        }
        let (total, threads) = (self.total, self.options.threads);
        let (done, progress) = (&mut self.done, &mut *self.options.progress);
        to_int8(name, &matrix, threads, &mut |values| {
            *done += values as u64;
            progress(*done, total);
        })
    }

    /// A small tensor of that shape, as `f32`.
    fn vector(&self, name: &str, shape: &[usize]) -> Result<Vec<f32>> {
        let tensor = self.tensor(name, shape)?;
        let mut values = vec![0.0; shape.iter().product()];
        Matrix::float(name, 1, values.len(), format(name, &tensor)?, tensor.data)?.read_row(0, &mut values);
        match values.iter().position(|v| !v.is_finite()) {
            Some(bad) => Err(Error::tensor(name, "finite values", format!("{} at index {bad}", values[bad]))),
            None => Ok(values),
        }
    }

    /// A norm's full multiplier: `1 + w`, or `w` where the checkpoint folded the 1 already.
    fn norm(&self, name: &str, len: usize) -> Result<Vec<f32>> {
        let mut values = self.vector(name, &[len])?;
        if self.checkpoint.layout().convention == Convention::HuggingFace {
            values.iter_mut().for_each(|w| *w += 1.0);
        }
        Ok(values)
    }

    /// `[channels, 1, taps]` or `[channels, taps, 1]` to `[taps, channels]`.
    fn convolution(&self, name: &str, d: &DeltaNet) -> Result<Vec<f32>> {
        let (channels, taps) = (d.channels(), d.taps);
        let shape = match self.checkpoint.layout().convention {
            Convention::HuggingFace => [channels, 1, taps],
            Convention::Mlx => [channels, taps, 1],
        };
        let stored = self.vector(name, &shape)?;
        Ok((0..taps).flat_map(|j| stored.iter().skip(j).step_by(taps).copied()).collect())
    }
}

fn format(name: &str, tensor: &Tensor) -> Result<Format> {
    match &tensor.dtype {
        Dtype::F32 => Ok(Format::F32),
        Dtype::Bf16 => Ok(Format::Bf16),
        Dtype::F16 => Ok(Format::F16),
        other => Err(Error::tensor(name, "type F32, F16 or BF16", format!("{other:?}"))),
    }
}

/// Tokenizer, template, stops and sampling advice of the checkpoint's other files.
pub(crate) fn assets(checkpoint: &Checkpoint) -> Result<Assets> {
    let file = |name: &str| checkpoint.file(name).map_err(Error::checkpoint);
    let json = |name: &str| -> Result<serde_json::Value> {
        let Some(blob) = file(name)? else { return Ok(serde_json::Value::Null) };
        serde_json::from_slice(&blob).map_err(|e| Error::plan(name, "valid JSON".to_owned(), e))
    };
    let tokenizer = file("tokenizer.json")?
        .ok_or_else(|| Error::plan("tokenizer.json", "the checkpoint's tokenizer".to_owned(), "no such file"))?;
    let (generation, settings) = (json("generation_config.json")?, json("tokenizer_config.json")?);
    let template = match file("chat_template.jinja")? {
        Some(blob) => Some(String::from_utf8_lossy(&blob).into_owned()),
        None => settings["chat_template"].as_str().map(str::to_owned),
    };
    let mut ids = checkpoint.config().eos_token_ids.clone();
    ids.extend(kinglet_checkpoint::config::ids(generation.get("eos_token_id")));
    ids.extend(settings["eos_token"].as_str().and_then(|token| added_token(&tokenizer, token)));
    ids.sort_unstable();
    ids.dedup();
    Ok(Assets {
        tokenizer: tokenizer.to_vec(),
        template,
        stops: ids.into_iter().map(Stop::Id).collect(),
        sampling: sampling(&generation)?,
        thinks_by_default: false,
        context: Some(checkpoint.config().max_position_embeddings),
    })
}

/// The sampling values of `generation_config.json`, each within the range that a sampler can use.
fn sampling(generation: &serde_json::Value) -> Result<SamplingAdvice> {
    const FILE: &str = "generation_config.json";
    let number = |key: &str, least: f64, most: f64| match &generation[key] {
        serde_json::Value::Null => Ok(None),
        value => match value.as_f64().filter(|number| (least..=most).contains(number)) {
            Some(number) => Ok(Some(number as f32)),
            None => Err(Error::plan(&format!("{FILE}: {key}"), format!("{least} to {most}"), value)),
        },
    };
    let temperature = number("temperature", 0.0, 100.0)?;
    Ok(SamplingAdvice {
        // Temperature 0 is greedy, which is what a model wants that was made not to be sampled from.
        temperature: if generation["do_sample"] == false { Some(0.0) } else { temperature },
        top_k: number("top_k", 0.0, 1e9)?.map(|k| k as usize),
        top_p: number("top_p", 0.0, 1.0)?,
        min_p: number("min_p", 0.0, 1.0)?,
        presence_penalty: number("presence_penalty", -100.0, 100.0)?,
        repetition_penalty: number("repetition_penalty", 0.01, 100.0)?,
    })
}

fn added_token(tokenizer: &[u8], content: &str) -> Option<u32> {
    let json: serde_json::Value = serde_json::from_slice(tokenizer).ok()?;
    let token = json["added_tokens"].as_array()?.iter().find(|token| token["content"] == content)?;
    u32::try_from(token["id"].as_u64()?).ok()
}

/// What a user should know: the parts that a text run does not use.
pub(crate) fn notices(checkpoint: &Checkpoint) -> Vec<String> {
    let ignored = &checkpoint.layout().ignored;
    if ignored.visual + ignored.mtp == 0 {
        return Vec::new();
    }
    vec![format!("{} vision and {} draft-head tensors are not used for text", ignored.visual, ignored.mtp)]
}
