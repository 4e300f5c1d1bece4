//! What a bundle says of itself: changes go in, the bundle with them comes out; every other byte of its sections stays.

use kinglet_bundle::metadata::{LlmField, Sampler, SamplerKind, Token};
use kinglet_bundle::write::{Output, Part, Receipt, Watch};
use kinglet_bundle::{Bundle, Item, LlmMetadata, Section, SectionKind, Value};

use crate::copy;
use crate::error::{Error, Result};

/// What is to be said instead.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Changes {
    /// The chat template.
    pub template: Option<String>,
    /// The tokens that end a reply, all of them, by id or text.
    pub stop_tokens: Option<Vec<StopToken>>,
    /// What the runtime computes activations in, for all models in the bundle: `fp32`, `fp16` or `fp32_fp16`.
    pub activation_type: Option<String>,
    /// Positions of a conversation.
    pub max_num_tokens: Option<i32>,
    /// Divides the logits; 0 takes the likeliest token.
    pub temperature: Option<f32>,
    /// Candidates.
    pub top_k: Option<i32>,
    /// Share of the probability that candidates reach together.
    pub top_p: Option<f32>,
    /// Texts said of the whole bundle, by key.
    pub items: Vec<(String, String)>,
}

/// A token that ends a reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StopToken {
    /// By its id.
    Id(i32),
    /// By its text.
    Text(String),
}

/// The items of a TFLite section that this changes, and what they may say.
const ACTIVATION: &str = "prefer_activation_type";
const ACTIVATIONS: [&str; 3] = ["fp32", "fp16", "fp32_fp16"];

/// Writes `bundle` with `changes` into `output`, which the caller commits.
///
/// # Errors
/// A value that cannot be; a bundle without the section that says it.
pub fn set(bundle: &Bundle, changes: &Changes, output: &mut Output, watch: &mut Watch<'_>) -> Result<Receipt> {
    check(bundle, changes)?;
    let mut writer = copy::writer(bundle, |section| match section.kind {
        SectionKind::LlmMetadata => llm(bundle, section, changes),
        SectionKind::TfLiteModel => Ok(model(section, changes)),
        _ => Ok(copy::unchanged(section)),
    })?;
    for (key, value) in &changes.items {
        put(writer.system_mut(), key, value);
    }
    let name = output.target().display().to_string();
    output.expect(writer.size_bytes(&name)?)?;
    Ok(writer.write(&name, output, watch)?)
}

impl Changes {
    fn fields(&self) -> Vec<LlmField> {
        let samples = self.temperature.is_some() || self.top_k.is_some() || self.top_p.is_some();
        let asked = [
            (self.stop_tokens.is_some(), LlmField::StopTokens),
            (samples, LlmField::Sampler),
            (self.max_num_tokens.is_some(), LlmField::MaxNumTokens),
            (self.template.is_some(), LlmField::Template),
        ];
        asked.into_iter().filter(|(is_asked, _)| *is_asked).map(|(_, field)| field).collect()
    }
}

fn check(bundle: &Bundle, changes: &Changes) -> Result<()> {
    let wrong = |what: &str, expected: &str, found: String| Err(Error::option(what, expected, found));
    if let Some(found) = changes.activation_type.as_deref().filter(|found| !ACTIVATIONS.contains(found)) {
        return wrong("activation type", "fp32, fp16 or fp32_fp16", format!("`{found}`"));
    }
    if let Some(found) = changes.temperature.filter(|t| !(t.is_finite() && *t >= 0.0)) {
        return wrong("temperature", "0 or more", found.to_string());
    }
    if let Some(found) = changes.top_p.filter(|p| !(*p > 0.0 && *p <= 1.0)) {
        return wrong("top-p", "above 0 and at most 1", found.to_string());
    }
    if let Some(found) = changes.top_k.filter(|k| *k < 1) {
        return wrong("top-k", "1 or more", found.to_string());
    }
    if let Some(found) = changes.max_num_tokens.filter(|n| *n < 1) {
        return wrong("positions", "1 or more", found.to_string());
    }
    if changes.stop_tokens.as_ref().is_some_and(Vec::is_empty) {
        return wrong("stop tokens", "one or more", "none".to_owned());
    }
    let has = |kind| bundle.section(kind, None).is_some();
    if !changes.fields().is_empty() && !has(SectionKind::LlmMetadata) {
        return Err(Error::unsupported(bundle.name(), "there is no LlmMetadataProto section to say it in"));
    }
    if changes.activation_type.is_some() && !has(SectionKind::TfLiteModel) {
        return Err(Error::unsupported(bundle.name(), "there is no TFLiteModel section to say it of"));
    }
    Ok(())
}

fn llm<'a>(bundle: &Bundle, section: &Section, changes: &Changes) -> Result<Part<'a>> {
    let fields = changes.fields();
    if fields.is_empty() {
        return Ok(copy::unchanged(section));
    }
    let fault = |fault: kinglet_bundle::Fault| {
        Error::invalid(
            format!("{}: {}", bundle.name(), section.label()),
            "metadata that can be read",
            fault.to_string(),
        )
    };
    let mut metadata = LlmMetadata::decode(&section.data).map_err(fault)?;
    if let Some(template) = &changes.template {
        metadata.jinja_prompt_template = Some(template.clone());
    }
    if let Some(tokens) = &changes.stop_tokens {
        let token = |token: &StopToken| match token {
            StopToken::Id(id) => Token::from_id(*id),
            StopToken::Text(text) => Token::from_text(text.clone()),
        };
        metadata.stop_tokens = tokens.iter().map(token).collect();
    }
    metadata.max_num_tokens = changes.max_num_tokens.unwrap_or(metadata.max_num_tokens);
    sample(metadata.sampler.get_or_insert_with(every_token), changes);
    let bytes = metadata.replace_in(&section.data, &fields).map_err(fault)?;
    Ok(Part::bytes(section.kind, section.items.clone(), bytes))
}

/// A sampler that leaves the distribution as it is.
fn every_token() -> Sampler {
    Sampler { kind: SamplerKind::TopP, k: 40, p: 1.0, temperature: 1.0, ..Sampler::default() }
}

fn sample(sampler: &mut Sampler, changes: &Changes) {
    sampler.k = changes.top_k.unwrap_or(sampler.k);
    sampler.p = changes.top_p.unwrap_or(sampler.p);
    match changes.temperature {
        // The runtime as of 0.18.1 has no greedy kind; one candidate comes to the same.
        Some(0.0) => (sampler.kind, sampler.k, sampler.temperature) = (SamplerKind::TopP, 1, 1.0),
        Some(temperature) => (sampler.kind, sampler.temperature) = (SamplerKind::TopP, temperature),
        None => {}
    }
}

fn model<'a>(section: &Section, changes: &Changes) -> Part<'a> {
    let mut part = copy::unchanged(section);
    if let Some(activation) = &changes.activation_type {
        put(&mut part.items, ACTIVATION, activation);
    }
    part
}

fn put(items: &mut Vec<Item>, key: &str, value: &str) {
    match items.iter_mut().find(|item| item.key == key) {
        Some(item) => item.value = Value::Text(value.to_owned()),
        None => items.push(Item::text(key, value)),
    }
}
