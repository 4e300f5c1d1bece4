//! Gated DeltaNet around its rule: projections, convolution, gates, and the gated norm behind it.

use kinglet_tflite::ElementType::F32;
use kinglet_tflite::build::Tensor;

use super::step::Step;
use crate::error::Result;

/// Added to the sums of squares that make queries and keys unit vectors.
const UNIT_EPSILON: f32 = 1e-6;
/// From here on softplus is linear in single precision.
const SOFTPLUS_LINEAR: f32 = 20.0;

/// What the delta rule reads, a row per token.
pub(super) struct RuleInputs {
    /// Unit vectors over the root of their width, `[1, rows, value_heads, key_dim]`.
    pub(super) query: Tensor,
    /// Unit vectors, `[1, rows, value_heads, key_dim]`.
    pub(super) key: Tensor,
    /// `[1, rows, value_heads, value_dim]`.
    pub(super) value: Tensor,
    /// Write strength, `[1, rows, value_heads]`; 0 on padding.
    pub(super) beta: Tensor,
    /// Logarithm of the decay, `[1, rows, value_heads]`; 0 on padding.
    pub(super) decay: Tensor,
}

impl Step<'_, '_> {
    pub(super) fn delta(&mut self, h: Tensor) -> Result<Tensor> {
        let d = self.plan.delta.clone();
        let rows = self.rows;
        let mixed = self.linear(h, &self.name("in_proj_qkv"), d.channels())?;
        let mixed = self.convolve(mixed)?;
        let mixed = self.silu(mixed);
        let keys = d.key_heads * d.key_dim;
        let query = self.graph.slice(mixed, 2, 0, keys);
        let key = self.graph.slice(mixed, 2, keys, keys);
        let value = self.graph.slice(mixed, 2, 2 * keys, d.values());
        let value = self.graph.reshape(value, &[1, rows, d.value_heads, d.value_dim]);
        let query = self.unit(query, (d.key_dim as f32).powf(-0.5));
        let key = self.unit(key, 1.0);
        let (beta, decay) = self.gates(h)?;
        let o = self.rule(&RuleInputs { query, key, value, beta, decay });
        let z = self.linear(h, &self.name("in_proj_z"), d.values())?;
        let z = self.graph.reshape(z, &[1, rows, d.value_heads, d.value_dim]);
        let o = self.norm(o, &self.name("norm"))?;
        let z = self.silu(z);
        let o = self.graph.mul(o, z);
        let o = self.graph.reshape(o, &[1, rows, d.values()]);
        self.linear(o, &self.name("out_proj"), self.plan.hidden)
    }

    /// Causal convolution per channel over `[1, rows, channels]`; the last inputs are the next call's first.
    fn convolve(&mut self, x: Tensor) -> Result<Tensor> {
        let (channels, kept) = (self.plan.delta.channels(), self.plan.delta.taps - 1);
        let name = self.name("conv1d");
        let taps = self.constants.floats(&mut self.graph, &name, &[1, 1, kept + 1, channels])?;
        let name = format!("kv_cache_c_{}", self.layer);
        let g = &mut self.graph;
        let state = g.input(&name, F32, &[1, channels, kept]);
        let before = g.transpose(state, &[0, 2, 1]);
        let window = g.concatenate(&[before, x], 1);
        let bias = g.floats(&[channels], &vec![0.0; channels]);
        let image = g.reshape(window, &[1, 1, self.rows + kept, channels]);
        let y = g.convolution(image, taps, bias);
        let y = g.reshape(y, &[1, self.rows, channels]);
        let last = self.last_inputs(window, kept);
        let g = &mut self.graph;
        let state = g.transpose(last, &[0, 2, 1]);
        g.output(&name, state);
        Ok(y)
    }

    /// The `kept` rows of the window that end with the last token, padding aside, `[1, kept, channels]`.
    ///
    /// A product with rows that hold a single one picks them exactly.
    fn last_inputs(&mut self, window: Tensor, kept: usize) -> Tensor {
        let g = &mut self.graph;
        let Some(valid) = self.valid else { return g.slice(window, 1, self.rows, kept) };
        let len = self.rows + kept;
        let count = g.sum(valid, 1);
        let offsets: Vec<f32> = (0..kept).flat_map(|row| (0..len).map(move |at| row as f32 - at as f32)).collect();
        let offsets = g.floats(&[1, kept, len], &offsets);
        let distance = g.add(offsets, count);
        let distance = g.abs(distance);
        let one = g.scalar(distance, 1.0);
        let near = g.sub(one, distance);
        let picked = g.relu(near);
        g.matmul(picked, window, false)
    }

    /// Heads of `[1, rows, key_heads * key_dim]` over their lengths, times `factor`, each repeated for its value heads.
    fn unit(&mut self, x: Tensor, factor: f32) -> Tensor {
        let d = &self.plan.delta;
        let g = &mut self.graph;
        let x = g.reshape(x, &[1, self.rows, d.key_heads, d.key_dim]);
        let squares = g.mul(x, x);
        let sum = g.sum(squares, 3);
        let shifted = g.shift(sum, UNIT_EPSILON);
        let scale = g.rsqrt(shifted);
        let scale = if factor == 1.0 { scale } else { g.scale(scale, factor) };
        let unit = g.mul(x, scale);
        let repeated = g.concatenate(&vec![unit; d.value_heads / d.key_heads], 3);
        g.reshape(repeated, &[1, self.rows, d.value_heads, d.key_dim])
    }

    /// Write strength and logarithm of the decay, `[1, rows, value_heads]` each.
    fn gates(&mut self, h: Tensor) -> Result<(Tensor, Tensor)> {
        let heads = self.plan.delta.value_heads;
        let b = self.linear(h, &self.name("in_proj_b"), heads)?;
        let bias = self.name("dt_bias");
        let a = self.linear_with_bias(h, &self.name("in_proj_a"), heads, Some(&bias))?;
        let rate = self.name("A_log");
        let rate = self.constants.floats(&mut self.graph, &rate, &[1, 1, heads])?;
        let g = &mut self.graph;
        let beta = g.logistic(b);
        let limit = g.scalar(a, SOFTPLUS_LINEAR);
        let small = g.minimum(a, limit);
        let exponential = g.exp(small);
        let shifted = g.shift(exponential, 1.0);
        let soft = g.log(shifted);
        // Below the limit softplus is never under its argument, above it they are equal.
        let soft = g.maximum(soft, a);
        let decay = g.mul(soft, rate);
        Ok(match self.valid {
            Some(valid) => (g.mul(beta, valid), g.mul(decay, valid)),
            None => (beta, decay),
        })
    }
}
