//! The gated delta-rule mixer: normalised inputs and a state of constant size go in, what the layer adds comes out.

use kinglet_kernels::portable::{exp, ln_1p_exp, sigmoid};
use kinglet_model::weights::DeltaWeights;

use crate::forward::Step;
use crate::scratch::Scratch;

/// Most taps of a convolution that a plan may have.
const MAX_TAPS: usize = 8;

impl Step<'_> {
    /// Reads `s.normed`, moves `tail` and `state` on, leaves the layer's contribution in `s.delta`.
    pub(crate) fn delta_rule(&self, w: &DeltaWeights, tail: &mut [f32], state: &mut [f32], s: &mut Scratch) {
        let (d, t) = (&self.plan.delta, self.tokens);
        let (l, channels, values) = (&self.linears, d.channels(), d.values());
        let x = &mut s.normed[..t * self.plan.hidden];
        l.prepare(self.activations.mixer_in, &[&w.qkv, &w.z, &w.a, &w.b], x, &mut s.inputs);
        l.project(&w.qkv, x, &s.inputs, &mut s.conv_in[tail.len()..][..t * channels]);
        l.project(&w.z, x, &s.inputs, &mut s.z[..t * values]);
        l.project(&w.a, x, &s.inputs, &mut s.decay[..t * d.value_heads]);
        l.project(&w.b, x, &s.inputs, &mut s.beta[..t * d.value_heads]);
        self.convolve(w, tail, s);
        self.gates(w, s);
        self.recur(state, s);
        self.gate_and_norm(w, s);
        let mixed = &mut s.mixed[..t * values];
        l.prepare(self.activations.mixer_out, &[&w.output], mixed, &mut s.inputs);
        l.project(&w.output, mixed, &s.inputs, &mut s.delta[..t * self.plan.hidden]);
    }

    /// Convolution and SiLU over all channels, then queries and keys to unit length.
    fn convolve(&self, w: &DeltaWeights, tail: &mut [f32], s: &mut Scratch) {
        let d = &self.plan.delta;
        let (t, kernels, channels) = (self.tokens, self.linears.kernels, d.channels());
        s.conv_in[..tail.len()].copy_from_slice(tail);
        let conv_in = &s.conv_in;
        let keys = d.key_heads * d.key_dim;
        let query_scale = 1.0 / (d.key_dim as f32).sqrt();
        self.linears.pool.rows(&mut s.conv_out[..t * channels], channels, &|i, out: &mut [f32]| {
            let mut rows = [&[][..]; MAX_TAPS];
            for (j, row) in rows[..d.taps].iter_mut().enumerate() {
                *row = &conv_in[(i + j) * channels..(i + j + 1) * channels];
            }
            kernels.conv_silu(&rows[..d.taps], &w.conv, out);
            let (queries, rest) = out.split_at_mut(keys);
            queries.chunks_exact_mut(d.key_dim).for_each(|q| kernels.l2_normalize(q, query_scale));
            rest[..keys].chunks_exact_mut(d.key_dim).for_each(|k| kernels.l2_normalize(k, 1.0));
        });
        tail.copy_from_slice(&conv_in[t * channels..(t + d.taps - 1) * channels]);
    }

    /// `decay = e^g` with `g = -exp(A_log) * softplus(a + dt_bias)`, and `beta = sigmoid(b)`.
    fn gates(&self, w: &DeltaWeights, s: &mut Scratch) {
        let heads = self.plan.delta.value_heads;
        for (i, (a, b)) in s.decay.iter_mut().zip(&mut s.beta).take(self.tokens * heads).enumerate() {
            let head = i % heads;
            *a = exp(w.decay_rate[head] * ln_1p_exp(*a + w.dt_bias[head]));
            *b = sigmoid(*b);
        }
    }

    /// The recurrence, each value head on its own.
    fn recur(&self, state: &mut [f32], s: &mut Scratch) {
        let d = &self.plan.delta;
        let (t, kernels, channels) = (self.tokens, self.linears.kernels, d.channels());
        let (dk, dv, heads) = (d.key_dim, d.value_dim, d.value_heads);
        let (keys, group) = (d.key_heads * dk, heads / d.key_heads);
        let (conv, decay, beta) = (&s.conv_out, &s.decay, &s.beta);
        let out = &mut s.heads_out[..heads * t * dv];
        self.linears.pool.pairs(state, dk * dv, out, t * dv, &|head, state: &mut [f32], out: &mut [f32]| {
            for (i, out) in out.chunks_exact_mut(dv).enumerate() {
                let row = &conv[i * channels..(i + 1) * channels];
                let q = &row[(head / group) * dk..][..dk];
                let k = &row[keys + (head / group) * dk..][..dk];
                let v = &row[2 * keys + head * dv..][..dv];
                kernels.delta_step(state, q, k, v, decay[i * heads + head], beta[i * heads + head], out);
            }
        });
    }

    /// Back to token-major, normalised per head and gated by `z`.
    fn gate_and_norm(&self, w: &DeltaWeights, s: &mut Scratch) {
        let d = &self.plan.delta;
        let (t, kernels, dv, values) = (self.tokens, self.linears.kernels, d.value_dim, d.values());
        let (heads_out, z, eps) = (&s.heads_out, &s.z, self.plan.eps);
        self.linears.pool.rows(&mut s.mixed[..t * values], values, &|i, row: &mut [f32]| {
            for (head, out) in row.chunks_exact_mut(dv).enumerate() {
                out.copy_from_slice(&heads_out[(head * t + i) * dv..][..dv]);
                kernels.gated_norm(out, &z[i * values + head * dv..][..dv], &w.norm, eps);
            }
        });
    }
}
