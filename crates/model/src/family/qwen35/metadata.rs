//! What a bundle holds beside its graph: tokenizer, template, stop tokens, sampling values.

use kinglet_bundle::Bundle;
use kinglet_bundle::metadata::SamplerKind;

use crate::assets::{Assets, SamplingAdvice, Stop};
use crate::error::{Error, Result};

/// Everything beside the weights.
pub(crate) fn assets(bundle: &Bundle) -> Result<Assets> {
    let metadata = bundle.llm_metadata().map_err(Error::bundle)?;
    let mut stops: Vec<Stop> = Vec::new();
    for token in &metadata.stop_tokens {
        match (&token.ids[..], &token.text) {
            ([id], _) => stops.extend(u32::try_from(*id).map(Stop::Id)),
            (_, Some(text)) => stops.push(Stop::Text(text.clone())),
            _ => {}
        }
    }
    let mut sampling = SamplingAdvice::default();
    if let Some(sampler) = &metadata.sampler {
        sampling.temperature = Some(if sampler.kind == SamplerKind::Greedy { 0.0 } else { sampler.temperature });
        sampling.top_k = usize::try_from(sampler.k).ok().filter(|k| *k > 0);
        sampling.top_p = Some(sampler.p).filter(|p| *p > 0.0);
    }
    Ok(Assets {
        tokenizer: bundle.tokenizer_json().map_err(Error::bundle)?,
        template: metadata.jinja_prompt_template.clone(),
        stops,
        sampling,
        thinks_by_default: false,
        context: usize::try_from(metadata.max_num_tokens).ok().filter(|n| *n > 0),
    })
}
