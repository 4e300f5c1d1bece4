//! How far a rounding of activations moves the demo model's predictions.

use kinglet_engine::{Activations, Engine, Options, Want};
use kinglet_model::Model;

/// Rounds a row to int8 with one scale per `block` values, in place.
pub(crate) fn round_eight(x: &mut [f32], block: usize) {
    for values in x.chunks_mut(block) {
        let largest = values.iter().fold(0.0f32, |m, v| m.max(v.abs()));
        if largest > 0.0 {
            let (scale, inverse) = (largest / 127.0, 127.0 / largest);
            values.iter_mut().for_each(|v| *v = (*v * inverse).round_ties_even() * scale);
        }
    }
}

/// Distances of one run from another at the same positions.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Distance {
    /// Mean Kullback-Leibler divergence, nats.
    pub(crate) mean: f64,
    /// Its largest value.
    pub(crate) max: f64,
    /// Share of positions whose likeliest id is the same.
    pub(crate) top1: f64,
}

/// Log-probabilities at every position of every text.
pub(crate) fn log_probabilities(model: &Model, activations: Activations, texts: &[Vec<u32>]) -> Vec<Vec<f64>> {
    let options = Options { activations, ..Options::new(2) };
    let mut engine: Engine = super::engine(model, &options);
    let vocab = model.plan.vocab;
    let mut rows = Vec::new();
    for ids in texts {
        let mut session = engine.session(ids.len());
        let mut logits = vec![0.0; ids.len() * vocab];
        engine.advance(&mut session, ids, Want::Every(&mut logits)).expect("fits");
        for row in logits.chunks_exact(vocab) {
            let largest = row.iter().fold(f32::NEG_INFINITY, |m, v| m.max(*v));
            let sum: f64 = row.iter().map(|v| f64::from(v - largest).exp()).sum();
            rows.push(row.iter().map(|v| f64::from(v - largest) - sum.ln()).collect());
        }
    }
    rows
}

pub(crate) fn distance(reference: &[Vec<f64>], subject: &[Vec<f64>]) -> Distance {
    let best = |row: &Vec<f64>| (0..row.len()).fold(0, |b, i| if row[i] > row[b] { i } else { b });
    let mut found = Distance::default();
    for (p, q) in reference.iter().zip(subject) {
        let kl: f64 = p.iter().zip(q).map(|(p, q)| p.exp() * (p - q)).sum();
        found.mean += kl / reference.len() as f64;
        found.max = found.max.max(kl);
        found.top1 += f64::from(best(p) == best(q)) / reference.len() as f64;
    }
    found
}

/// The study's texts, as ids; the first five are those of the official runtime's measurement.
pub(crate) fn texts() -> (usize, Vec<Vec<u32>>) {
    let path = super::repository().join("fixtures/golden/demo/study.json");
    let json: serde_json::Value = serde_json::from_slice(&std::fs::read(path).expect("study")).expect("json");
    let text = |ids: &serde_json::Value| {
        ids.as_array().expect("ids").iter().map(|id| id.as_u64().expect("id") as u32).collect()
    };
    let texts = json["ids"].as_array().expect("texts").iter().map(text).collect();
    (json["peer_texts"].as_u64().expect("a number") as usize, texts)
}
