//! Parts: the weights of a model go in, the constants of its graph in their order in the file come out, each with its
//! kind and where its values are; no value is read.

use kinglet_model::quantize::to_int8;
use kinglet_model::weights::Mlp;
use kinglet_model::{Format, Layer, Matrix, MixerWeights, Plan, Weights};

use crate::error::Result;
use crate::graph::Constant;
use crate::recipe::{Kind, Recipe};

/// A constant of the graph to be.
#[derive(Clone, Debug)]
pub struct Part<'w> {
    /// What it is called in the graph, such as `layers.0.in_proj_qkv`.
    pub name: String,
    /// What kind of tensor it is.
    pub kind: Kind,
    /// Whether it becomes int8.
    pub int8: bool,
    pub(crate) shape: Vec<usize>,
    pub(crate) values: Values<'w>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Values<'w> {
    Matrix(&'w Matrix),
    Vector(&'w [f32]),
}

impl Part<'_> {
    /// Its dimensions.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// Bytes that it takes in the bundle, without scales.
    pub fn bytes(&self) -> u64 {
        let values: usize = self.shape.iter().product();
        values as u64 * if self.int8 { 1 } else { 4 }
    }

    /// Scales that it has: one per row if it is int8.
    pub(crate) fn scale_count(&self) -> usize {
        if self.int8 { self.shape[0] } else { 0 }
    }

    /// The constant for the graph, with these scales.
    pub(crate) fn constant(&self, scales: Vec<f32>) -> Constant {
        Constant { name: self.name.clone(), shape: self.shape.clone(), scales: self.int8.then_some(scales) }
    }
}

/// All constants of a model.
pub(crate) fn parts<'w>(plan: &Plan, weights: &'w Weights, recipe: &Recipe) -> Vec<Part<'w>> {
    let mut list = List { recipe, parts: Vec::new(), prefix: String::new() };
    list.matrix("embed_tokens", Kind::Embedding, &weights.embedding);
    for (i, layer) in weights.layers.iter().enumerate() {
        list.prefix = format!("layers.{i}.");
        list.layer(plan, layer);
    }
    list.prefix.clear();
    list.vector("final_norm", &[plan.hidden], &weights.final_norm);
    if let Some(head) = &weights.head {
        list.matrix("lm_head", Kind::Head, head);
    }
    list.parts
}

struct List<'r, 'w> {
    recipe: &'r Recipe,
    parts: Vec<Part<'w>>,
    prefix: String,
}

impl<'w> List<'_, 'w> {
    fn layer(&mut self, plan: &Plan, layer: &'w Layer) {
        self.vector("input_layernorm", &[plan.hidden], &layer.input_norm);
        match &layer.mixer {
            MixerWeights::Delta(w) => {
                let d = &plan.delta;
                self.matrix("in_proj_qkv", Kind::DeltaNet, &w.qkv);
                self.matrix("in_proj_z", Kind::DeltaNet, &w.z);
                self.matrix("in_proj_b", Kind::Gates, &w.b);
                self.matrix("in_proj_a", Kind::Gates, &w.a);
                self.vector("dt_bias", &[d.value_heads], &w.dt_bias);
                self.vector("A_log", &[d.value_heads], &w.decay_rate);
                self.vector("conv1d", &[d.taps, d.channels()], &w.conv);
                self.vector("norm", &[d.value_dim], &w.norm);
                self.matrix("out_proj", Kind::DeltaNet, &w.output);
            }
            MixerWeights::Attention(w) => {
                self.matrix("q_proj", Kind::Attention, &w.query);
                self.matrix("k_proj", Kind::Attention, &w.key);
                self.matrix("v_proj", Kind::Attention, &w.value);
                self.vector("q_norm", &[plan.attention.head_dim], &w.query_norm);
                self.vector("k_norm", &[plan.attention.head_dim], &w.key_norm);
                self.matrix("o_proj", Kind::Attention, &w.output);
            }
        }
        self.vector("post_attention_layernorm", &[plan.hidden], &layer.mlp_norm);
        let Mlp { gate, up, down } = &layer.mlp;
        for (name, matrix) in [("gate_proj", gate), ("up_proj", up), ("down_proj", down)] {
            self.matrix(name, Kind::Mlp, matrix);
        }
    }

    fn matrix(&mut self, name: &str, kind: Kind, matrix: &'w Matrix) {
        self.parts.push(Part {
            name: format!("{}{name}", self.prefix),
            kind,
            int8: self.recipe.makes_int8(kind),
            shape: vec![matrix.rows(), matrix.columns()],
            values: Values::Matrix(matrix),
        });
    }

    fn vector(&mut self, name: &str, shape: &[usize], values: &'w [f32]) {
        self.parts.push(Part {
            name: format!("{}{name}", self.prefix),
            kind: Kind::Vectors,
            int8: false,
            shape: shape.to_vec(),
            values: Values::Vector(values),
        });
    }
}

/// `weights` with all matrices of `kinds` in int8, in memory; the others stay mapped.
///
/// # Errors
/// A value that is not finite.
pub fn quantized(weights: &Weights, kinds: &[Kind], threads: usize) -> Result<Weights> {
    let change = |name: &str, kind: Kind, matrix: &mut Matrix| -> Result<()> {
        if kinds.contains(&kind) && matrix.format() != Format::I8 {
            *matrix = to_int8(name, matrix, threads, &mut |_| ())?;
        }
        Ok(())
    };
    let mut weights = weights.clone();
    change("embed_tokens", Kind::Embedding, &mut weights.embedding)?;
    if let Some(head) = &mut weights.head {
        change("lm_head", Kind::Head, head)?;
    }
    for layer in &mut weights.layers {
        match &mut layer.mixer {
            MixerWeights::Attention(w) => {
                for matrix in [&mut w.query, &mut w.key, &mut w.value, &mut w.output] {
                    change("attention", Kind::Attention, matrix)?;
                }
            }
            MixerWeights::Delta(w) => {
                for matrix in [&mut w.qkv, &mut w.z, &mut w.output] {
                    change("delta-net", Kind::DeltaNet, matrix)?;
                }
                for matrix in [&mut w.a, &mut w.b] {
                    change("gates", Kind::Gates, matrix)?;
                }
            }
        }
        for matrix in [&mut layer.mlp.gate, &mut layer.mlp.up, &mut layer.mlp.down] {
            change("mlp", Kind::Mlp, matrix)?;
        }
    }
    Ok(weights)
}
