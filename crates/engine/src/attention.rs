//! The gated attention mixer: normalised inputs and cached keys and values go in, what the layer adds comes out.

use std::sync::Arc;

use kinglet_kernels::Softmax;
use kinglet_model::weights::AttentionWeights;

use crate::forward::Step;
use crate::scratch::Scratch;
use crate::session::{PAGE, Page};

impl Step<'_> {
    /// Cosine and sine of `position * inverse_frequency`, the product rounded to `f32` as the reference does.
    pub(crate) fn rotary_angles(&self, s: &mut Scratch) {
        let frequencies = &self.plan.attention.inverse_frequencies;
        for t in 0..self.tokens {
            for (i, frequency) in frequencies.iter().enumerate() {
                let angle = f64::from((self.position + t) as f32 * frequency);
                s.cos[t * frequencies.len() + i] = libm::cos(angle) as f32;
                s.sin[t * frequencies.len() + i] = libm::sin(angle) as f32;
            }
        }
    }

    /// Reads `s.normed`, appends to `pages`, leaves the layer's contribution in `s.delta`.
    pub(crate) fn attention(&self, w: &AttentionWeights, pages: &mut [Arc<Page>], s: &mut Scratch) {
        let (a, t) = (&self.plan.attention, self.tokens);
        let (d, l) = (a.head_dim, &self.linears);
        let (wide, kv) = (a.heads * d, a.kv_heads * d);
        let x = &mut s.normed[..t * self.plan.hidden];
        l.prepare(self.activations.mixer_in, &[&w.query, &w.key, &w.value], x, &mut s.inputs);
        l.project(&w.query, x, &s.inputs, &mut s.query_gate[..t * 2 * wide]);
        l.project(&w.key, x, &s.inputs, &mut s.key[..t * kv]);
        l.project(&w.value, x, &s.inputs, &mut s.value[..t * kv]);
        self.remember(w, pages, s);
        self.rotate_queries(w, s);
        self.attend(pages, s);
        let mixed = &mut s.mixed[..t * wide];
        l.prepare(self.activations.mixer_out, &[&w.output], mixed, &mut s.inputs);
        l.project(&w.output, mixed, &s.inputs, &mut s.delta[..t * self.plan.hidden]);
    }

    /// Normalises and rotates the new keys, and stores keys and values.
    fn remember(&self, w: &AttentionWeights, pages: &mut [Arc<Page>], s: &Scratch) {
        let a = &self.plan.attention;
        let (d, kernels) = (a.head_dim, self.linears.kernels);
        let half = a.inverse_frequencies.len();
        for t in 0..self.tokens {
            let position = self.position + t;
            let page = Arc::get_mut(&mut pages[position / PAGE]).expect("a page that is not full has one owner");
            for head in 0..a.kv_heads {
                let from = (t * a.kv_heads + head) * d;
                let to = (head * PAGE + position % PAGE) * d;
                let key = &mut page.keys[to..to + d];
                kernels.rms_norm(&s.key[from..from + d], &w.key_norm, self.plan.eps, key);
                kernels.rope(key, &s.cos[t * half..(t + 1) * half], &s.sin[t * half..(t + 1) * half]);
                page.values[to..to + d].copy_from_slice(&s.value[from..from + d]);
            }
        }
    }

    fn rotate_queries(&self, w: &AttentionWeights, s: &mut Scratch) {
        let a = &self.plan.attention;
        let (d, kernels, eps) = (a.head_dim, self.linears.kernels, self.plan.eps);
        let half = a.inverse_frequencies.len();
        let (from, cos, sin) = (&s.query_gate, &s.cos, &s.sin);
        self.linears.pool.rows(&mut s.query[..self.tokens * a.heads * d], a.heads * d, &|t, row: &mut [f32]| {
            for (head, q) in row.chunks_exact_mut(d).enumerate() {
                let at = (t * a.heads + head) * 2 * d;
                kernels.rms_norm(&from[at..at + d], &w.query_norm, eps, q);
                kernels.rope(q, &cos[t * half..(t + 1) * half], &sin[t * half..(t + 1) * half]);
            }
        });
    }

    /// `s.mixed = softmax(q k' / sqrt(d)) v * sigmoid(gate)`, one head of one token at a time.
    fn attend(&self, pages: &[Arc<Page>], s: &mut Scratch) {
        let a = &self.plan.attention;
        let (d, kernels) = (a.head_dim, self.linears.kernels);
        let group = a.heads / a.kv_heads;
        let scale = 1.0 / (d as f32).sqrt();
        let (queries, gates) = (&s.query, &s.query_gate);
        self.linears.pool.rows(&mut s.mixed[..self.tokens * a.heads * d], d, &|i, out: &mut [f32]| {
            let (t, head) = (i / a.heads, i % a.heads);
            let query = &queries[i * d..(i + 1) * d];
            let seen = self.position + t + 1;
            let mut softmax = Softmax::default();
            out.fill(0.0);
            for (block, page) in pages[..seen.div_ceil(PAGE)].iter().enumerate() {
                let first = (head / group) * PAGE * d;
                let len = PAGE.min(seen - block * PAGE) * d;
                let (keys, values) = (&page.keys[first..first + len], &page.values[first..first + len]);
                kernels.attend(query, keys, values, scale, &mut softmax, out);
            }
            let inverse = 1.0 / softmax.sum;
            out.iter_mut().for_each(|o| *o *= inverse);
            kernels.sigmoid_mul(out, &gates[i * 2 * d + d..(i + 1) * 2 * d]);
        });
    }
}
