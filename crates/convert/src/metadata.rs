//! What a bundle says of its model: plan, template and stop tokens go in, the metadata sections come out.

use kinglet_bundle::metadata::{
    Channel, ExecutorMetadata, LlmExecutor, LlmMetadata, ModelType, Sampler, SamplerKind, StateBuffer, StateKind, Token,
};
use kinglet_model::assets::{SamplingAdvice, Stop};
use kinglet_model::{Assets, Mixer, Plan};

/// Number of `qwen3` among the families of the official runtime: the one that it runs Qwen3.5 as.
const QWEN3: u32 = 5;

/// Tokens, template, sampling and limits.
pub(crate) fn llm(assets: &Assets, template: &str, cache_length: usize, sampling: &SamplingAdvice) -> LlmMetadata {
    let stop = |stop: &Stop| match stop {
        Stop::Id(id) => Token::from_id(*id as i32), // The tokenizer has it, and so it is below 2^31.
        Stop::Text(text) => Token::from_text(text.clone()),
    };
    let thought = Channel {
        name: "thought".to_owned(),
        start: "<think>".to_owned(),
        end: "</think>".to_owned(),
        ..Channel::default()
    };
    LlmMetadata {
        stop_tokens: assets.stops.iter().map(stop).collect(),
        sampler: Some(sampler(sampling)),
        max_num_tokens: cache_length as i32,
        model_type: Some(ModelType { number: QWEN3, ..ModelType::default() }),
        jinja_prompt_template: Some(template.to_owned()),
        channels: if template.contains("<think>") { vec![thought] } else { Vec::new() },
        ..LlmMetadata::default()
    }
}

fn sampler(advice: &SamplingAdvice) -> Sampler {
    match advice.temperature {
        Some(temperature) if temperature > 0.0 => Sampler {
            kind: SamplerKind::TopP,
            k: advice.top_k.map_or(0, |k| i32::try_from(k).unwrap_or(i32::MAX)),
            p: advice.top_p.unwrap_or(1.0),
            temperature,
            ..Sampler::default()
        },
        // Greedy has a kind of its own, which the runtime as of 0.18.1 refuses to run; one candidate comes to the same.
        _ => Sampler { kind: SamplerKind::TopP, k: 1, p: 1.0, temperature: 1.0, ..Sampler::default() },
    }
}

/// Sampling that the makers advise without thinking: what the checkpoint says, else what the family's cards say, which
/// publish none in a file.
pub(crate) fn sampling(advice: &SamplingAdvice, plan: &Plan, tied: bool) -> SamplingAdvice {
    if advice.temperature.is_some() || advice.top_k.is_some() || advice.top_p.is_some() {
        return advice.clone();
    }
    let (temperature, top_p, penalty) = if is_large(plan, tied) { (0.7, 0.8, 1.5) } else { (1.0, 1.0, 2.0) };
    SamplingAdvice {
        temperature: Some(temperature),
        top_k: Some(20),
        top_p: Some(top_p),
        min_p: Some(0.0),
        presence_penalty: Some(penalty),
        repetition_penalty: Some(1.0),
    }
}

/// Whether a model has more than 3 billion parameters.
pub(crate) fn is_large(plan: &Plan, tied: bool) -> bool {
    let (linears, rest) = plan.parameters(tied);
    linears + rest > 3_000_000_000
}

/// The states that the runtime carries from call to call.
pub(crate) fn executor(plan: &Plan, cache_length: usize) -> ExecutorMetadata {
    let buffer = |part: &str, layer: usize, kind: StateKind, axis: Option<i32>| {
        let name = format!("kv_cache_{part}_{layer}");
        StateBuffer {
            prefill_input: name.clone(),
            prefill_output: name.clone(),
            decode_input: name.clone(),
            decode_output: name,
            kind,
            sequence_axis: axis,
            maximum_length: axis.map(|_| cache_length as i32),
            ..StateBuffer::default()
        }
    };
    let of_layer = |(layer, mixer): (usize, &Mixer)| match mixer {
        Mixer::GatedDeltaNet => {
            [buffer("c", layer, StateKind::LinearAttention, None), buffer("r", layer, StateKind::LinearAttention, None)]
        }
        Mixer::GatedAttention => {
            [buffer("k", layer, StateKind::GlobalKeys, Some(2)), buffer("v", layer, StateKind::GlobalValues, Some(3))]
        }
    };
    let llm = LlmExecutor {
        // Recurrent states cannot be rolled back.
        max_history_size: Some(0),
        state_buffers: plan.layers.iter().enumerate().flat_map(of_layer).collect(),
        ..LlmExecutor::default()
    };
    ExecutorMetadata { llm: Some(llm), ..ExecutorMetadata::default() }
}
