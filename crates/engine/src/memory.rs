//! What running a model will cost in memory, from its plan alone, before anything is loaded.

use kinglet_model::{Mixer, Plan};

use crate::scratch::Scratch;

/// Bytes that an engine and one session take beside the weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryUse {
    /// Cached keys and values at the full context.
    pub key_values: u64,
    /// Delta states and convolution tails: the same at every position.
    pub states: u64,
    /// Scratch of the forward pass.
    pub scratch: u64,
}

impl MemoryUse {
    /// Of one session of `context` positions and an engine that reads at most `chunk` ids at once.
    pub fn of(plan: &Plan, context: usize, chunk: usize) -> MemoryUse {
        let pages = context.div_ceil(crate::session::PAGE).saturating_mul(crate::session::PAGE);
        let states = plan.session_bytes(0);
        MemoryUse { key_values: plan.session_bytes(pages) - states, states, scratch: Scratch::bytes(plan, chunk) }
    }

    /// All of it.
    pub fn total(&self) -> u64 {
        self.key_values.saturating_add(self.states).saturating_add(self.scratch)
    }

    /// Bytes that each further position of context takes.
    pub fn per_position(plan: &Plan) -> u64 {
        let a = &plan.attention;
        8 * (plan.count(Mixer::GatedAttention) * a.kv_heads * a.head_dim) as u64
    }
}
