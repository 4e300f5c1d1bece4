//! `LlmMetadataProto`: tokens, templates and sampling of a language model.

use serde::Serialize;

use crate::wire::{Fault, Field, Message, Unknown};

/// What a bundle says of its language model. Absent fields are `None` or empty.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct LlmMetadata {
    /// Put before every prompt.
    pub start_token: Option<Token>,
    /// Each ends an answer.
    pub stop_tokens: Vec<Token>,
    /// Texts around messages, used where there is no template.
    pub prompt_templates: Option<PromptTemplates>,
    /// Sampling that the publisher advises.
    pub sampler: Option<Sampler>,
    /// Positions that the graph holds; 0 where it is not stated.
    pub max_num_tokens: i32,
    /// The family that the runtime should treat it as.
    pub model_type: Option<ModelType>,
    /// The chat template.
    pub jinja_prompt_template: Option<String>,
    /// Parts of an answer that are not shown as its text, such as thoughts.
    pub channels: Vec<Channel>,
    /// Tokens that must never be sampled.
    pub suppress_tokens: Option<TokenIds>,
    /// What caches are filled with at the start.
    pub kv_cache_init_value: Option<i64>,
    /// Whether the model can think aloud.
    pub supports_thinking: Option<bool>,
    /// Whether the model can call tools.
    pub supports_function_calling: Option<bool>,
    /// What fills a chunk that is too short.
    pub pad_token: Option<Token>,
    /// The oldest runtime that can run the bundle.
    pub min_runtime_version: Option<String>,
    /// Fields that this version does not know.
    pub unknown: Unknown,
}

impl Message for LlmMetadata {
    fn field(&mut self, field: Field<'_>) -> Result<bool, Fault> {
        match field.number {
            1 => field.message("start_token", self.start_token.get_or_insert_default())?,
            2 => field.push("stop_tokens", &mut self.stop_tokens)?,
            3 => field.message("prompt_templates", self.prompt_templates.get_or_insert_default())?,
            4 => field.message("sampler_params", self.sampler.get_or_insert_default())?,
            5 => self.max_num_tokens = field.int32("max_num_tokens")?,
            6 => field.message("llm_model_type", self.model_type.get_or_insert_default())?,
            7 => self.jinja_prompt_template = Some(field.text("jinja_prompt_template")?),
            8 => field.push("channels", &mut self.channels)?,
            9 => field.message("suppress_tokens", self.suppress_tokens.get_or_insert_default())?,
            10 => self.kv_cache_init_value = Some(field.int64("kv_cache_init_value")?),
            11 => self.supports_thinking = Some(field.bool("supports_thinking")?),
            12 => self.supports_function_calling = Some(field.bool("supports_function_calling")?),
            13 => field.message("pad_token", self.pad_token.get_or_insert_default())?,
            14 => self.min_runtime_version = Some(field.text("min_runtime_version")?),
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn unknown(&mut self) -> &mut Unknown {
        &mut self.unknown
    }
}

/// A token, by its ids or its text; the last one stored counts.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Token {
    /// Ids, one after another; empty where the text says it.
    pub ids: Vec<i32>,
    /// The text, to be looked up in the tokenizer.
    pub text: Option<String>,
    /// Fields beside the ids that this version does not know.
    pub ids_unknown: Unknown,
    /// Fields that this version does not know.
    pub unknown: Unknown,
}

impl Token {
    /// A token by its id.
    pub fn from_id(id: i32) -> Token {
        Token { ids: vec![id], ..Token::default() }
    }

    /// A token by its text.
    pub fn from_text(text: impl Into<String>) -> Token {
        Token { text: Some(text.into()), ..Token::default() }
    }
}

impl Message for Token {
    fn field(&mut self, field: Field<'_>) -> Result<bool, Fault> {
        match field.number {
            1 => {
                let (ids, unknown) = (std::mem::take(&mut self.ids), std::mem::take(&mut self.ids_unknown));
                let mut tokens = TokenIds { ids, unknown };
                field.message("token_ids", &mut tokens)?;
                (self.ids, self.ids_unknown, self.text) = (tokens.ids, tokens.unknown, None);
            }
            2 => {
                (self.ids, self.ids_unknown) = Default::default();
                self.text = Some(field.text("token_str")?);
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn unknown(&mut self) -> &mut Unknown {
        &mut self.unknown
    }
}

/// Ids of tokens.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct TokenIds {
    /// The ids.
    pub ids: Vec<i32>,
    /// Fields that this version does not know.
    pub unknown: Unknown,
}

impl Message for TokenIds {
    fn field(&mut self, field: Field<'_>) -> Result<bool, Fault> {
        match field.number {
            1 => field.push_int32("ids", &mut self.ids)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn unknown(&mut self) -> &mut Unknown {
        &mut self.unknown
    }
}

/// Texts around the messages of each role.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct PromptTemplates {
    /// Around what the user says.
    pub user: Option<Affixes>,
    /// Around what the model says.
    pub model: Option<Affixes>,
    /// Around the instructions.
    pub system: Option<Affixes>,
    /// Fields that this version does not know.
    pub unknown: Unknown,
}

impl Message for PromptTemplates {
    fn field(&mut self, field: Field<'_>) -> Result<bool, Fault> {
        match field.number {
            1 => field.message("user", self.user.get_or_insert_default())?,
            2 => field.message("model", self.model.get_or_insert_default())?,
            3 => field.message("system", self.system.get_or_insert_default())?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn unknown(&mut self) -> &mut Unknown {
        &mut self.unknown
    }
}

/// Texts before and after a message.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Affixes {
    /// Before it.
    pub prefix: String,
    /// After it.
    pub suffix: String,
    /// Fields that this version does not know.
    pub unknown: Unknown,
}

impl Message for Affixes {
    fn field(&mut self, field: Field<'_>) -> Result<bool, Fault> {
        match field.number {
            1 => self.prefix = field.text("prefix")?,
            2 => self.suffix = field.text("suffix")?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn unknown(&mut self) -> &mut Unknown {
        &mut self.unknown
    }
}

/// A part of an answer with a name, between two texts.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Channel {
    /// Its name, such as `thought`.
    pub name: String,
    /// The text that opens it.
    pub start: String,
    /// The text that closes it.
    pub end: String,
    /// Whether it holds reasoning.
    pub is_reasoning: Option<bool>,
    /// Fields that this version does not know.
    pub unknown: Unknown,
}

impl Message for Channel {
    fn field(&mut self, field: Field<'_>) -> Result<bool, Fault> {
        match field.number {
            1 => self.name = field.text("channel_name")?,
            2 => self.start = field.text("start")?,
            3 => self.end = field.text("end")?,
            4 => self.is_reasoning = Some(field.bool("is_reasoning_channel")?),
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn unknown(&mut self) -> &mut Unknown {
        &mut self.unknown
    }
}

/// How tokens are chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub enum SamplerKind {
    /// Not stated.
    #[default]
    Unspecified,
    /// Among the `k` likeliest.
    TopK,
    /// Among the likeliest that together reach `p`.
    TopP,
    /// Always the likeliest.
    Greedy,
    /// Another, by its number.
    Unknown(i32),
}

/// Sampling that the publisher advises. Fields that are not stored are 0.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Sampler {
    /// How tokens are chosen.
    pub kind: SamplerKind,
    /// Number of candidates.
    pub k: i32,
    /// Probability that the candidates reach together, 0 to 1.
    pub p: f32,
    /// Divides the logits.
    pub temperature: f32,
    /// Seed of the generator.
    pub seed: Option<i32>,
    /// Where sampling runs: 0 not stated, 1 CPU, 2 GPU.
    pub backend: i32,
    /// Whether log-probabilities are computed exactly.
    pub exact_log_probs: bool,
    /// Fields that this version does not know.
    pub unknown: Unknown,
}

impl Message for Sampler {
    fn field(&mut self, field: Field<'_>) -> Result<bool, Fault> {
        match field.number {
            1 => {
                self.kind = match field.int32("type")? {
                    0 => SamplerKind::Unspecified,
                    1 => SamplerKind::TopK,
                    2 => SamplerKind::TopP,
                    3 => SamplerKind::Greedy,
                    other => SamplerKind::Unknown(other),
                }
            }
            2 => self.k = field.int32("k")?,
            3 => self.p = field.float("p")?,
            4 => self.temperature = field.float("temperature")?,
            5 => self.seed = Some(field.int32("seed")?),
            6 => self.backend = field.int32("backend")?,
            7 => self.exact_log_probs = field.bool("compute_exact_log_probs")?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn unknown(&mut self) -> &mut Unknown {
        &mut self.unknown
    }
}

/// The family of a model; what the families say beyond their name is kept, not read.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ModelType {
    /// Number of the field that is set; 0 where none is. The last one stored counts.
    pub number: u32,
    /// The encoded message of that field.
    #[serde(skip)]
    pub body: Vec<u8>,
}

impl ModelType {
    /// Its name in the schema, `None` for a family that this version does not know.
    pub fn name(&self) -> Option<&'static str> {
        Some(match self.number {
            1 => "generic_model",
            2 => "gemma3n",
            3 => "function_gemma",
            4 => "gemma3",
            5 => "qwen3",
            7 => "qwen2p5",
            8 => "gemma4",
            9 => "fast_vlm",
            11 => "lfm2",
            12 => "minicpm5",
            13 => "minicpmv4",
            _ => return None,
        })
    }
}

impl Message for ModelType {
    fn field(&mut self, field: Field<'_>) -> Result<bool, Fault> {
        self.number = field.number;
        self.body = field.bytes("model_type")?.to_vec();
        Ok(true)
    }

    fn unknown(&mut self) -> &mut Unknown {
        unreachable!("every field is taken")
    }
}
