//! The TFLite graph of a Qwen3.5 text model: a plan and the constants' shapes go in, the FlatBuffer and the places of
//! the constants come out; it never sees a weight.
//!
//! One signature per rung of the prefill ladder and `decode`, all over the same constants, in plain operators: tensors
//! of rank four at most, no custom operator, nothing computed on int64. What a signature takes and gives is in
//! `docs/format.md`. Rooms: `step` (a signature from ids to states and logits), `attention`, `delta` (the mixers),
//! `rule` (the delta rule itself, step by step and by chunks), `constants`.

mod attention;
mod constants;
mod delta;
mod rule;
mod step;
#[cfg(test)]
mod tests;

use kinglet_model::Plan;
use kinglet_tflite::build::Builder;

use crate::error::{Error, Result};
use constants::Constants;

/// A constant of the graph.
#[derive(Clone, Debug)]
pub struct Constant {
    /// What it is, such as `layers.0.in_proj_qkv`.
    pub name: String,
    /// Its dimensions.
    pub shape: Vec<usize>,
    /// One scale per row makes it int8; without it is `f32`.
    pub scales: Option<Vec<f32>>,
}

impl Constant {
    /// Bytes that it takes.
    pub fn bytes(&self) -> u64 {
        let elements: usize = self.shape.iter().product();
        elements as u64 * if self.scales.is_some() { 1 } else { 4 }
    }
}

/// What a graph can be made for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GraphOptions {
    /// Tokens that a prefill signature takes, one signature each, largest first.
    pub ladder: Vec<usize>,
    /// Positions in the caches of attention layers.
    pub cache_length: usize,
}

/// The TFLite section but for its constants.
#[derive(Clone, Debug)]
pub struct Written {
    /// The section's first bytes.
    pub flatbuffer: Vec<u8>,
    /// Where each constant begins, from the start of the section; multiples of 64, in the order of the constants.
    pub placements: Vec<u64>,
    /// Length of the section.
    pub length: u64,
}

/// Tokens that the delta rule takes at once. Longer chunks cost more arithmetic within, shorter ones more operators.
pub(crate) const CHUNK: usize = 64;

/// The graph of a model. Lengths and placements do not depend on the values of scales.
///
/// # Errors
/// A ladder or cache length that no graph can be made for; a plan whose constants are not among those given.
pub fn write(plan: &Plan, constants: &[Constant], options: &GraphOptions) -> Result<Written> {
    check(options)?;
    let mut builder = Builder::new("kinglet");
    let constants = Constants::place(&mut builder, constants);
    for rows in &options.ladder {
        step::prefill(&mut builder, plan, &constants, *rows, options.cache_length)?;
    }
    step::decode(&mut builder, plan, &constants, options.cache_length)?;
    builder.metadata("min_runtime_version", b"2.17.0\0\0\0\0\0\0\0\0\0\0".to_vec());
    builder.metadata("buffer_location", b"outside flatbuffers".to_vec());
    let written = builder.finish().map_err(|error| Error::graph(error.to_string()))?;
    Ok(Written {
        flatbuffer: written.flatbuffer,
        placements: written.outside.iter().map(|place| place.start).collect(),
        length: written.length,
    })
}

fn check(options: &GraphOptions) -> Result<()> {
    let GraphOptions { ladder, cache_length } = options;
    if ladder.is_empty() {
        return Err(Error::graph("the ladder is empty, expected at least one number of tokens".to_owned()));
    }
    if !ladder.is_sorted_by(|a, b| a > b) {
        return Err(Error::graph(format!("the ladder {ladder:?} does not fall, expected the largest number first")));
    }
    let fits = |rows: usize| (1..=CHUNK).contains(&rows) || (rows > 0 && rows.is_multiple_of(CHUNK));
    if let Some(bad) = ladder.iter().find(|rows| !fits(**rows)) {
        return Err(Error::graph(format!(
            "the ladder has {bad}, expected 1 to {CHUNK} or a multiple of {CHUNK}, the chunk of the delta rule"
        )));
    }
    if ladder[0] > *cache_length || *cache_length > 1 << 20 {
        let what = format!("the cache has {cache_length} positions, expected {} to {}", ladder[0], 1 << 20);
        return Err(Error::graph(what));
    }
    Ok(())
}
