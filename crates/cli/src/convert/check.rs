//! The self-check: a new bundle goes in, what its model answers to a fixed text comes out.

use std::io;

use kinglet_bundle::Bundle;
use kinglet_bundle::write::Hasher;
use kinglet_convert::SelfCheck;
use kinglet_engine::{Engine, Options, Want};
use kinglet_model::Source;
use kinglet_model::source::{LoadOptions, Precision};
use kinglet_text::{Specials, Tokenizer};

/// Read by every bundle after its conversion.
const TEXT: &str = "The capital of France is";
/// Likeliest ids that are kept.
const TOP: usize = 8;

pub(super) fn run(bundle: &Bundle, threads: usize) -> Result<SelfCheck, String> {
    answer(bundle, threads).map_err(|error| format!("{error:#}"))
}

fn answer(bundle: &Bundle, threads: usize) -> anyhow::Result<SelfCheck> {
    let load = LoadOptions { precision: Precision::Int8, threads, progress: &mut |_, _| () };
    let model = Source::of_bundle(bundle.clone())?.load(load)?;
    let ids = Tokenizer::from_json(&model.assets.tokenizer)?.encode(TEXT, Specials::AsText)?;
    let options = Options { chunk: ids.len(), releases_weights: true, ..Options::new(threads) };
    let mut engine = Engine::new(model.plan, model.weights, &options);
    let mut logits = vec![0.0; engine.plan().vocab];
    let mut session = engine.session(ids.len());
    engine.advance(&mut session, &ids, Want::Last(&mut logits))?;
    if let Some(id) = logits.iter().position(|logit| !logit.is_finite()) {
        return Err(io::Error::other(format!("the logit of id {id} is {}", logits[id])).into());
    }
    let mut hasher = Hasher::default();
    logits.iter().for_each(|logit| hasher.update(&logit.to_le_bytes()));
    let mut order: Vec<u32> = (0..logits.len() as u32).collect();
    order.sort_by(|a, b| logits[*b as usize].total_cmp(&logits[*a as usize]).then(a.cmp(b)));
    let top = order.into_iter().take(TOP).map(|id| (id, logits[id as usize])).collect();
    Ok(SelfCheck { ids, logits_sha256: hasher.finish().to_string(), top })
}
