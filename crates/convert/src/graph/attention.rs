//! Gated attention over a cache: the normed stream goes in, what the layer adds to it comes out.

use kinglet_tflite::ElementType::F32;
use kinglet_tflite::build::Tensor;

use super::step::Step;
use crate::error::Result;

impl Step<'_, '_> {
    /// Caches are `[1, kv_heads, positions, head_dim]` for keys and `[1, kv_heads, head_dim, positions]` for values;
    /// the rows of this call are written at the first row's position.
    pub(super) fn attention(&mut self, h: Tensor) -> Result<Tensor> {
        let a = &self.plan.attention;
        let (heads, kv_heads, dim) = (a.heads, a.kv_heads, a.head_dim);
        let (rows, group) = (self.rows, heads / kv_heads);
        let both = self.linear(h, &self.name("q_proj"), 2 * heads * dim)?;
        let both = self.graph.reshape(both, &[1, rows, heads, 2 * dim]);
        let query = self.graph.slice(both, 3, 0, dim);
        let gate = self.graph.slice(both, 3, dim, dim);
        let query = self.norm(query, &self.name("q_norm"))?;
        let query = self.rotate(query);
        let query = self.graph.scale(query, (dim as f32).powf(-0.5));
        let query = self.graph.transpose(query, &[0, 2, 1, 3]);
        let query = self.graph.reshape(query, &[1, kv_heads, group * rows, dim]);
        let keys = self.keys(h)?;
        let values = self.values(h)?;
        let g = &mut self.graph;
        let scores = g.matmul(query, keys, true);
        let scores = g.reshape(scores, &[1, heads, rows, self.positions]);
        let scores = g.add(scores, self.mask);
        let weights = g.softmax(scores);
        let weights = g.reshape(weights, &[1, kv_heads, group * rows, self.positions]);
        let mixed = g.matmul(weights, values, true);
        let mixed = g.reshape(mixed, &[1, heads, rows, dim]);
        let mixed = g.transpose(mixed, &[0, 2, 1, 3]);
        let gate = g.logistic(gate);
        let mixed = g.mul(mixed, gate);
        let mixed = g.reshape(mixed, &[1, rows, heads * dim]);
        self.linear(mixed, &self.name("o_proj"), self.plan.hidden)
    }

    /// The cache of keys with this call's rows in it.
    fn keys(&mut self, h: Tensor) -> Result<Tensor> {
        let (heads, dim) = (self.plan.attention.kv_heads, self.plan.attention.head_dim);
        let key = self.linear(h, &self.name("k_proj"), heads * dim)?;
        let key = self.graph.reshape(key, &[1, self.rows, heads, dim]);
        let key = self.norm(key, &self.name("k_norm"))?;
        let key = self.rotate(key);
        let key = self.graph.transpose(key, &[0, 2, 1, 3]);
        self.update("k", &[1, heads, self.positions, dim], key, 2)
    }

    /// The cache of values with this call's rows in it.
    fn values(&mut self, h: Tensor) -> Result<Tensor> {
        let (heads, dim) = (self.plan.attention.kv_heads, self.plan.attention.head_dim);
        let value = self.linear(h, &self.name("v_proj"), heads * dim)?;
        let value = self.graph.reshape(value, &[1, self.rows, heads, dim]);
        let value = self.graph.transpose(value, &[0, 2, 3, 1]);
        self.update("v", &[1, heads, dim, self.positions], value, 3)
    }

    fn update(&mut self, part: &str, shape: &[usize], rows: Tensor, axis: usize) -> Result<Tensor> {
        let name = format!("kv_cache_{part}_{}", self.layer);
        let g = &mut self.graph;
        let cache = g.input(&name, F32, shape);
        let before = g.integers(&vec![0; axis]);
        let after = g.integers(&vec![0; 3 - axis]);
        let start = match axis {
            3 => g.concatenate(&[before, self.start], 0),
            _ => g.concatenate(&[before, self.start, after], 0),
        };
        let updated = g.dynamic_update_slice(cache, rows, start);
        g.output(&name, updated);
        Ok(updated)
    }

    /// Rotary embedding on the leading dimensions of `[1, rows, heads, head_dim]`; pairs lie half the rotated width
    /// apart.
    fn rotate(&mut self, x: Tensor) -> Tensor {
        let half = self.plan.attention.inverse_frequencies.len();
        let dim = self.plan.attention.head_dim;
        let g = &mut self.graph;
        let (low, high) = (g.slice(x, 3, 0, half), g.slice(x, 3, half, half));
        let (a, b) = (g.mul(low, self.cosines), g.mul(high, self.sines));
        let rotated_low = g.sub(a, b);
        let (a, b) = (g.mul(high, self.cosines), g.mul(low, self.sines));
        let rotated_high = g.add(a, b);
        if dim == 2 * half {
            return g.concatenate(&[rotated_low, rotated_high], 3);
        }
        let rest = g.slice(x, 3, 2 * half, dim - 2 * half);
        g.concatenate(&[rotated_low, rotated_high, rest], 3)
    }
}
