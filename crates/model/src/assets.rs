//! What comes with the weights and is not a number: tokenizer, template, stop tokens, sampling defaults.

/// Ends a reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stop {
    /// When the model chooses this id.
    Id(u32),
    /// When the reply's text contains this.
    Text(String),
}

/// Sampling values that the model's makers advise; absent where they say nothing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SamplingAdvice {
    /// See the engine's sampler for each.
    pub temperature: Option<f32>,
    /// Candidates kept.
    pub top_k: Option<usize>,
    /// Share of probability kept.
    pub top_p: Option<f32>,
    /// Smallest share of the best candidate's probability.
    pub min_p: Option<f32>,
    /// Penalty on ids that occurred in the reply.
    pub presence_penalty: Option<f32>,
    /// Penalty on ids seen.
    pub repetition_penalty: Option<f32>,
}

/// Everything beside the weights.
#[derive(Clone, Debug, Default)]
pub struct Assets {
    /// The bytes of `tokenizer.json`.
    pub tokenizer: Vec<u8>,
    /// Source of the chat template.
    pub template: Option<String>,
    /// What ends a reply.
    pub stops: Vec<Stop>,
    /// Sampling values that its makers advise.
    pub sampling: SamplingAdvice,
    /// Whether the makers let the model think by default.
    pub thinks_by_default: bool,
    /// Positions that the file was made for, where it says so: a default, not a limit of this program.
    pub context: Option<usize>,
}
