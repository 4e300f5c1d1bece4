//! The gated delta rule: queries, keys, values and gates of a call go in, its outputs come out, and the state moves on.
//!
//! One row takes the recurrence. More take it by chunks of `c` rows (Yang et al., 2024, "Parallelizing Linear
//! Transformers with the Delta Rule"), with `G` the running sum of the decay's logarithm in a chunk and
//! `D[t, s] = exp(G[t] - G[s])` for `s <= t`, else 0:
//!
//! ```text
//! A  = I + strictly_lower(beta k k^T * D)        U = A^-1 (beta v)        W = A^-1 (beta k exp(G))
//! v' = U - W S        o = (q exp(G)) S + (q k^T * D) v'        S' = exp(G[c-1]) S + (k exp(G[c-1] - G))^T v'
//! ```
//!
//! All but the line with `S` is one batch over chunks and heads. Only differences of `G` that are not positive are
//! exponentiated, so nothing overflows.

use kinglet_tflite::ElementType::F32;
use kinglet_tflite::build::{Graph, Tensor};

use super::CHUNK;
use super::delta::RuleInputs;
use super::step::Step;

impl Step<'_, '_> {
    /// Outputs `[1, rows, value_heads, value_dim]`.
    pub(super) fn rule(&mut self, inputs: &RuleInputs) -> Tensor {
        let d = &self.plan.delta;
        let name = format!("kv_cache_r_{}", self.layer);
        let state = self.graph.input(&name, F32, &[1, d.value_heads, d.key_dim, d.value_dim]);
        let (o, state) = if self.rows == 1 { self.recurrence(inputs, state) } else { self.chunks(inputs, state) };
        self.graph.output(&name, state);
        o
    }

    fn recurrence(&mut self, inputs: &RuleInputs, state: Tensor) -> (Tensor, Tensor) {
        let d = &self.plan.delta;
        let (heads, dk, dv) = (d.value_heads, d.key_dim, d.value_dim);
        let g = &mut self.graph;
        let decay = g.exp(inputs.decay);
        let decay = g.reshape(decay, &[1, heads, 1, 1]);
        let beta = g.reshape(inputs.beta, &[1, heads, 1, 1]);
        let query = g.reshape(inputs.query, &[1, heads, 1, dk]);
        let key = g.reshape(inputs.key, &[1, heads, 1, dk]);
        let value = g.reshape(inputs.value, &[1, heads, 1, dv]);
        let state = g.mul(state, decay);
        let known = g.matmul(key, state, false);
        let news = g.sub(value, known);
        let news = g.mul(news, beta);
        let column = g.reshape(key, &[1, heads, dk, 1]);
        let written = g.mul(column, news);
        let state = g.add(state, written);
        let o = g.matmul(query, state, false);
        (g.reshape(o, &[1, 1, heads, dv]), state)
    }

    fn chunks(&mut self, inputs: &RuleInputs, state: Tensor) -> (Tensor, Tensor) {
        let heads = self.plan.delta.value_heads;
        let shape = Shape { heads, chunk: self.rows.min(CHUNK), chunks: self.rows.div_ceil(CHUNK) };
        let g = &mut self.graph;
        let query = shape.vectors(g, inputs.query);
        let key = shape.vectors(g, inputs.key);
        let value = shape.vectors(g, inputs.value);
        let beta = shape.scalars(g, inputs.beta);
        let decay = shape.scalars(g, inputs.decay);
        let running = running_sum(g, decay, shape.chunk);
        let column = g.reshape(running, &[1, shape.batch(), shape.chunk, 1]);
        let decays = decays(g, running, column, shape.chunk);
        let beta = g.reshape(beta, &[1, shape.batch(), shape.chunk, 1]);
        let inverse = {
            let overlaps = g.matmul(key, key, true);
            let overlaps = g.mul(overlaps, decays);
            let overlaps = g.mul(overlaps, beta);
            inverse(g, overlaps, shape.chunk)
        };
        let grown = g.exp(column);
        let value = g.mul(value, beta);
        let fresh = g.matmul(inverse, value, false);
        let read = g.mul(beta, grown);
        let read = g.mul(key, read);
        let read = g.matmul(inverse, read, false);
        let seen = g.mul(query, grown);
        let last = g.slice(running, 3, shape.chunk - 1, 1);
        let left = g.sub(last, column);
        let left = g.exp(left);
        let written = g.mul(key, left);
        let written = g.transpose(written, &[0, 1, 3, 2]);
        let faded = g.exp(last);
        let (changes, seen, state) = shape.scan(g, state, &Scan { fresh, read, seen, written, faded });
        let scores = g.matmul(query, key, true);
        let scores = g.mul(scores, decays);
        let within = g.matmul(scores, changes, false);
        let o = g.add(seen, within);
        (shape.rows(g, o), state)
    }
}

/// What the chunks of a call read and write of the state, `[1, chunks * heads, .., ..]` each, chunk by chunk.
struct Scan {
    /// `U`.
    fresh: Tensor,
    /// `W`.
    read: Tensor,
    /// `q exp(G)`.
    seen: Tensor,
    /// `(k exp(G[c-1] - G))^T`.
    written: Tensor,
    /// `exp(G[c-1])`.
    faded: Tensor,
}

/// How a call's rows are cut.
struct Shape {
    heads: usize,
    chunk: usize,
    chunks: usize,
}

impl Shape {
    fn batch(&self) -> usize {
        self.chunks * self.heads
    }

    /// `[1, rows, heads, width]` as `[1, chunks * heads, chunk, width]`.
    fn vectors(&self, g: &mut Graph<'_>, x: Tensor) -> Tensor {
        let width = g.shape(x)[3];
        let x = g.reshape(x, &[self.chunks, self.chunk, self.heads, width]);
        let x = g.transpose(x, &[0, 2, 1, 3]);
        g.reshape(x, &[1, self.batch(), self.chunk, width])
    }

    /// And back.
    fn rows(&self, g: &mut Graph<'_>, x: Tensor) -> Tensor {
        let width = g.shape(x)[3];
        let x = g.reshape(x, &[self.chunks, self.heads, self.chunk, width]);
        let x = g.transpose(x, &[0, 2, 1, 3]);
        g.reshape(x, &[1, self.chunks * self.chunk, self.heads, width])
    }

    /// `[1, rows, heads]` as `[1, chunks * heads, 1, chunk]`.
    fn scalars(&self, g: &mut Graph<'_>, x: Tensor) -> Tensor {
        let x = g.reshape(x, &[self.chunks, self.chunk, self.heads]);
        let x = g.transpose(x, &[0, 2, 1]);
        g.reshape(x, &[1, self.batch(), 1, self.chunk])
    }

    /// Chunk after chunk: `v'` and `(q exp(G)) S` of all, and the state behind the last.
    fn scan(&self, g: &mut Graph<'_>, mut state: Tensor, scan: &Scan) -> (Tensor, Tensor, Tensor) {
        let (mut changes, mut seen) = (Vec::new(), Vec::new());
        for chunk in 0..self.chunks {
            let mut part = |whole: Tensor| g.slice(whole, 1, chunk * self.heads, self.heads);
            let (fresh, read, query) = (part(scan.fresh), part(scan.read), part(scan.seen));
            let (written, faded) = (part(scan.written), part(scan.faded));
            let known = g.matmul(read, state, false);
            let change = g.sub(fresh, known);
            seen.push(g.matmul(query, state, false));
            let news = g.matmul(written, change, false);
            let old = g.mul(state, faded);
            state = g.add(old, news);
            changes.push(change);
        }
        (g.concatenate(&changes, 1), g.concatenate(&seen, 1), state)
    }
}

/// Sums over the last dimension, up to and with each element.
fn running_sum(g: &mut Graph<'_>, x: Tensor, chunk: usize) -> Tensor {
    let ones = lower(chunk, |row, column| column <= row);
    let ones = g.floats(&[chunk, chunk], &ones);
    g.fully_connected(x, ones, None)
}

/// `exp(G[t] - G[s])` for `s <= t`, else 0.
fn decays(g: &mut Graph<'_>, row: Tensor, column: Tensor, chunk: usize) -> Tensor {
    let differences = g.sub(column, row);
    let zero = g.scalar(differences, 0.0);
    let differences = g.minimum(differences, zero);
    let decays = g.exp(differences);
    let mask = g.floats(&[1, 1, chunk, chunk], &lower(chunk, |row, column| column <= row));
    g.mul(decays, mask)
}

/// The inverse of `I + strictly_lower(x)`.
///
/// With `X` the inverse of the diagonal blocks of size `s`, that of blocks twice the size is `X - X B X`, where `B`
/// holds what lies below the diagonal in them: block substitution, which keeps rounding errors as small as the serial
/// solve does. A series in powers of `x` would not: with equal keys its terms reach 1e17 and cancel.
fn inverse(g: &mut Graph<'_>, x: Tensor, chunk: usize) -> Tensor {
    let identity = g.floats(&[1, 1, chunk, chunk], &lower(chunk, |row, column| row == column));
    let mut inverse = None;
    let mut size = 1;
    while size < chunk {
        let below = lower(chunk, |row, column| row / (2 * size) == column / (2 * size) && row / size > column / size);
        let below = g.floats(&[1, 1, chunk, chunk], &below);
        let below = g.mul(x, below);
        inverse = Some(match inverse {
            None => g.sub(identity, below),
            Some(known) => {
                let product = g.matmul(below, known, false);
                let product = g.matmul(known, product, false);
                g.sub(known, product)
            }
        });
        size *= 2;
    }
    inverse.expect("chunks have two rows or more")
}

/// A matrix of ones where `holds(row, column)`.
fn lower(size: usize, holds: impl Fn(usize, usize) -> bool) -> Vec<f32> {
    let cell = |at: usize| f32::from(u8::from(holds(at / size, at % size)));
    (0..size * size).map(cell).collect()
}
