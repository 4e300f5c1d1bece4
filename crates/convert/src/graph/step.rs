//! A signature: tokens, positions, mask and states go in, states come out, and from `decode` logits.

use kinglet_model::{Mixer, Plan};
use kinglet_tflite::ElementType::{F32, I32};
use kinglet_tflite::build::{Builder, Graph, Tensor};

use super::constants::Constants;
use crate::error::Result;

/// A subgraph under construction with what all its layers share.
pub(super) struct Step<'b, 'c> {
    pub(super) graph: Graph<'b>,
    pub(super) plan: &'c Plan,
    pub(super) constants: &'c Constants,
    /// Tokens that it takes.
    pub(super) rows: usize,
    /// Positions in the caches of attention layers.
    pub(super) positions: usize,
    /// Added to attention scores, `[1, 1, rows, positions]`: 0 where a row may look, very negative elsewhere.
    pub(super) mask: Tensor,
    /// Position of the first row, `[1]`.
    pub(super) start: Tensor,
    /// `[1, rows, 1, frequencies]`.
    pub(super) cosines: Tensor,
    /// `[1, rows, 1, frequencies]`.
    pub(super) sines: Tensor,
    /// 1 for rows that hold a token and 0 for padding, `[1, rows, 1]`; none where there can be no padding.
    pub(super) valid: Option<Tensor>,
    /// Number of the layer under construction.
    pub(super) layer: usize,
}

/// `prefill_<rows>`: everything that the states need, and nothing more.
pub(super) fn prefill(
    b: &mut Builder,
    plan: &Plan,
    constants: &Constants,
    rows: usize,
    positions: usize,
) -> Result<()> {
    let (mut step, hidden) = Step::begin(b.graph(format!("prefill_{rows}")), plan, constants, rows, positions);
    let mut x = step.embed(hidden)?;
    for layer in 0..plan.layers.len() {
        // What the last layer adds to `x` is needed by no state, and so is left out with all that makes it.
        x = step.layer(layer, x)?;
    }
    step.graph.finish();
    Ok(())
}

/// `decode`: one token, with logits.
pub(super) fn decode(b: &mut Builder, plan: &Plan, constants: &Constants, positions: usize) -> Result<()> {
    let (mut step, hidden) = Step::begin(b.graph("decode"), plan, constants, 1, positions);
    let mut x = step.embed(hidden)?;
    for layer in 0..plan.layers.len() {
        x = step.layer(layer, x)?;
    }
    step.graph.scope("head");
    let x = step.norm(x, "final_norm")?;
    let head = if constants.has("lm_head") { "lm_head" } else { "embed_tokens" };
    let logits = step.linear(x, head, plan.vocab)?;
    step.graph.output("logits", logits);
    step.graph.finish();
    Ok(())
}

impl<'b, 'c> Step<'b, 'c> {
    /// Declares what every signature takes, and computes what its layers share. Gives the ids as well.
    fn begin(
        mut graph: Graph<'b>,
        plan: &'c Plan,
        constants: &'c Constants,
        rows: usize,
        positions: usize,
    ) -> (Step<'b, 'c>, Tensor) {
        graph.scope("in");
        let tokens = graph.input("tokens", I32, &[1, rows]);
        let input_pos = graph.input("input_pos", I32, &[rows]);
        let mask = graph.input("mask", F32, &[1, 1, rows, positions]);
        let start = graph.slice(input_pos, 0, 0, 1);
        let float_positions = graph.cast_to_float(input_pos);
        let (cosines, sines) = rotations(&mut graph, plan, float_positions, rows);
        let valid = (rows > 1).then(|| validity(&mut graph, float_positions, rows));
        let step = Step { graph, plan, constants, rows, positions, mask, start, cosines, sines, valid, layer: 0 };
        (step, tokens)
    }

    /// The embedding's rows, `[1, rows, hidden]`.
    fn embed(&mut self, tokens: Tensor) -> Result<Tensor> {
        let shape = [self.plan.vocab, self.plan.hidden];
        let table = self.constants.matrix(&mut self.graph, "embed_tokens", shape)?;
        let ids = self.graph.reshape(tokens, &[self.rows]);
        let rows = self.graph.embedding_lookup(ids, table);
        Ok(self.graph.reshape(rows, &[1, self.rows, shape[1]]))
    }

    /// One layer: its mixer and its MLP, each added to the residual stream.
    fn layer(&mut self, layer: usize, x: Tensor) -> Result<Tensor> {
        self.layer = layer;
        self.graph.scope(format!("l{layer}"));
        let h = self.norm(x, &self.name("input_layernorm"))?;
        let mixed = match self.plan.layers[layer] {
            Mixer::GatedAttention => self.attention(h)?,
            Mixer::GatedDeltaNet => self.delta(h)?,
        };
        let x = self.graph.add(x, mixed);
        let h = self.norm(x, &self.name("post_attention_layernorm"))?;
        let gate = self.linear(h, &self.name("gate_proj"), self.plan.ffn)?;
        let up = self.linear(h, &self.name("up_proj"), self.plan.ffn)?;
        let gate = self.silu(gate);
        let inner = self.graph.mul(gate, up);
        let down = self.linear(inner, &self.name("down_proj"), self.plan.hidden)?;
        Ok(self.graph.add(x, down))
    }

    /// What the constants of the present layer are called.
    pub(super) fn name(&self, part: &str) -> String {
        format!("layers.{}.{part}", self.layer)
    }

    /// A linear over the last dimension.
    pub(super) fn linear(&mut self, x: Tensor, name: &str, outputs: usize) -> Result<Tensor> {
        self.linear_with_bias(x, name, outputs, None)
    }

    /// A linear with a bias, a constant by name.
    pub(super) fn linear_with_bias(
        &mut self,
        x: Tensor,
        name: &str,
        outputs: usize,
        bias: Option<&str>,
    ) -> Result<Tensor> {
        let inputs = self.graph.shape(x).last().copied().unwrap_or(0);
        let weight = self.constants.matrix(&mut self.graph, name, [outputs, inputs])?;
        let bias = bias.map(|bias| self.constants.floats(&mut self.graph, bias, &[outputs])).transpose()?;
        Ok(self.graph.fully_connected(x, weight, bias))
    }

    /// `x * rsqrt(mean(x^2) + eps) * w` over the last dimension.
    pub(super) fn norm(&mut self, x: Tensor, name: &str) -> Result<Tensor> {
        let mut shape = vec![1; self.graph.shape(x).len()];
        shape[self.graph.shape(x).len() - 1] = self.graph.shape(x)[self.graph.shape(x).len() - 1];
        let weight = self.constants.floats(&mut self.graph, name, &shape)?;
        let g = &mut self.graph;
        let squares = g.mul(x, x);
        let mean = g.mean(squares);
        let shifted = g.shift(mean, self.plan.eps);
        let factor = g.rsqrt(shifted);
        let normed = g.mul(x, factor);
        Ok(g.mul(normed, weight))
    }

    /// `x * sigmoid(x)`.
    pub(super) fn silu(&mut self, x: Tensor) -> Tensor {
        let gate = self.graph.logistic(x);
        self.graph.mul(x, gate)
    }
}

/// Cosines and sines of every row's angles.
fn rotations(graph: &mut Graph<'_>, plan: &Plan, positions: Tensor, rows: usize) -> (Tensor, Tensor) {
    let frequencies = &plan.attention.inverse_frequencies;
    let positions = graph.reshape(positions, &[1, rows, 1, 1]);
    let frequencies = graph.floats(&[1, 1, 1, frequencies.len()], frequencies);
    let angles = graph.mul(positions, frequencies);
    (graph.cos(angles), graph.sin(angles))
}

/// Which rows hold a token: the runtime leaves the positions of padding at zero, and no row but the first of a
/// conversation has that position. Ids play no part, since every id can be a token of a prompt.
fn validity(graph: &mut Graph<'_>, positions: Tensor, rows: usize) -> Tensor {
    let positions = graph.reshape(positions, &[1, rows, 1]);
    let one = graph.scalar(positions, 1.0);
    let later = graph.minimum(positions, one);
    let mut first = vec![0.0; rows];
    first[0] = 1.0;
    let first = graph.floats(&[1, rows, 1], &first);
    graph.maximum(later, first)
}
