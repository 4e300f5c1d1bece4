//! One chunk of ids through all layers, top to bottom.

use kinglet_model::weights::Mlp;
use kinglet_model::{MixerWeights, Plan};

use crate::linear::Linears;
use crate::session::{LayerState, Session};
use crate::{Engine, Want};

/// What a mixer needs of the engine besides its own weights and state.
pub(crate) struct Step<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) linears: Linears<'a>,
    pub(crate) activations: &'a crate::Activations,
    /// Tokens in the chunk.
    pub(crate) tokens: usize,
    /// Position of the first one.
    pub(crate) position: usize,
}

impl Engine {
    /// `ids` fit one chunk and the session, and `want` has the right length: `advance` checked it.
    pub(crate) fn forward(&mut self, session: &mut Session, ids: &[u32], want: Want<'_>) {
        let step = Step {
            plan: &self.plan,
            linears: Linears { kernels: self.kernels, pool: &self.pool },
            activations: &self.activations,
            tokens: ids.len(),
            position: session.position,
        };
        let (s, weights) = (&mut self.scratch, &self.weights);
        let (t, hidden) = (ids.len(), step.plan.hidden);
        let kernels = step.linears.kernels;
        let embedding = &weights.embedding;
        step.linears.pool.rows(&mut s.x[..t * hidden], hidden, &|i, row: &mut [f32]| {
            embedding.read_row(ids[i] as usize, row);
        });
        step.rotary_angles(s);
        for (layer, state) in weights.layers.iter().zip(&mut session.layers) {
            step.normalize(&s.x, &layer.input_norm, &mut s.normed);
            match (&layer.mixer, state) {
                (MixerWeights::Attention(w), LayerState::Attention(pages)) => step.attention(w, pages, s),
                (MixerWeights::Delta(w), LayerState::Delta { tail, state }) => step.delta_rule(w, tail, state, s),
                _ => unreachable!("a session's layers follow its plan, and so do the weights"),
            }
            kernels.add(&mut s.x[..t * hidden], &s.delta[..t * hidden]);
            step.normalize(&s.x, &layer.mlp_norm, &mut s.normed);
            step.mlp(&layer.mlp, s);
            kernels.add(&mut s.x[..t * hidden], &s.delta[..t * hidden]);
            if self.releases_weights {
                layer.release();
            }
        }
        session.position += t;
        let (first, out) = match want {
            Want::Nothing => return,
            Want::Last(out) => (t - 1, out),
            Want::Every(out) => (0, out),
        };
        let head = weights.head();
        step.normalize(&s.x, &weights.final_norm, &mut s.normed);
        let normed = &mut s.normed[first * hidden..t * hidden];
        step.linears.prepare(step.activations.head, &[head], normed, &mut s.inputs);
        step.linears.project(head, normed, &s.inputs, out);
    }
}

impl Step<'_> {
    /// `out = rms_norm(x) * w` for every token.
    fn normalize(&self, x: &[f32], w: &[f32], out: &mut [f32]) {
        let d = w.len();
        let (kernels, eps) = (self.linears.kernels, self.plan.eps);
        self.linears.pool.rows(&mut out[..self.tokens * d], d, &|t, row: &mut [f32]| {
            kernels.rms_norm(&x[t * d..(t + 1) * d], w, eps, row);
        });
    }

    fn mlp(&self, w: &Mlp, s: &mut crate::scratch::Scratch) {
        let (t, hidden, ffn) = (self.tokens, self.plan.hidden, self.plan.ffn);
        let (l, kernels) = (&self.linears, self.linears.kernels);
        let x = &mut s.normed[..t * hidden];
        l.prepare(self.activations.mlp_in, &[&w.gate, &w.up], x, &mut s.inputs);
        l.project(&w.gate, x, &s.inputs, &mut s.gate[..t * ffn]);
        l.project(&w.up, x, &s.inputs, &mut s.up[..t * ffn]);
        let (gate, up) = (&mut s.gate[..t * ffn], &s.up[..t * ffn]);
        l.pool.rows(gate, ffn, &|i, row: &mut [f32]| kernels.silu_mul(row, &up[i * ffn..(i + 1) * ffn]));
        l.prepare(self.activations.mlp_down, &[&w.down], gate, &mut s.inputs);
        l.project(&w.down, gate, &s.inputs, &mut s.delta[..t * hidden]);
    }
}
