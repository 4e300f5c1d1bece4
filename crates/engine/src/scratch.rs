//! The forward pass's working memory, allocated once for the largest chunk so that a step allocates nothing.

use kinglet_kernels::QuantizedRow;
use kinglet_model::Plan;

use crate::linear::Inputs;

/// Buffers for up to `t` tokens. `[t, n]` buffers are dense for the tokens of the current chunk.
pub(crate) struct Scratch {
    /// Residual stream, `[t, hidden]`.
    pub(crate) x: Vec<f32>,
    /// Normalised input of a mixer, MLP or head, `[t, hidden]`.
    pub(crate) normed: Vec<f32>,
    /// What a mixer or MLP adds, `[t, hidden]`.
    pub(crate) delta: Vec<f32>,
    /// MLP gate, `[t, ffn]`; holds the product after activation.
    pub(crate) gate: Vec<f32>,
    /// MLP up, `[t, ffn]`.
    pub(crate) up: Vec<f32>,
    /// Convolution inputs after the tail, `[taps - 1 + t, channels]`.
    pub(crate) conv_in: Vec<f32>,
    /// Convolution outputs, `[t, channels]`.
    pub(crate) conv_out: Vec<f32>,
    /// Output gate of the delta rule, `[t, value_heads * value_dim]`.
    pub(crate) z: Vec<f32>,
    /// Decay inputs, then `e^g`, `[t, value_heads]`.
    pub(crate) decay: Vec<f32>,
    /// Write strength, `[t, value_heads]`.
    pub(crate) beta: Vec<f32>,
    /// Delta-rule outputs, head-major `[value_heads, t, value_dim]`.
    pub(crate) heads_out: Vec<f32>,
    /// A mixer's result before its output projection, `[t, values]` or `[t, heads * head_dim]`.
    pub(crate) mixed: Vec<f32>,
    /// Query and gate per head, `[t, heads * 2 * head_dim]`.
    pub(crate) query_gate: Vec<f32>,
    /// Normalised, rotated queries, `[t, heads * head_dim]`.
    pub(crate) query: Vec<f32>,
    /// New keys, `[t, kv_heads * head_dim]`.
    pub(crate) key: Vec<f32>,
    /// New values, `[t, kv_heads * head_dim]`.
    pub(crate) value: Vec<f32>,
    /// Cosine and sine of the rotary angles, `[t, rotary / 2]` each.
    pub(crate) cos: Vec<f32>,
    pub(crate) sin: Vec<f32>,
    /// The current input as integers.
    pub(crate) inputs: Inputs,
}

/// Widths of the buffers, in values per token, and the widest input of a linear.
fn widths(plan: &Plan) -> ([usize; 16], usize) {
    let (a, d) = (&plan.attention, &plan.delta);
    let attention = a.heads * a.head_dim;
    let kv = a.kv_heads * a.head_dim;
    let mixed = attention.max(d.values());
    let rotary = a.inverse_frequencies.len();
    let widest = plan.hidden.max(plan.ffn).max(mixed);
    let (h, f, c, v, n) = (plan.hidden, plan.ffn, d.channels(), d.values(), d.value_heads);
    ([h, h, h, f, f, c, c, v, n, n, v, mixed, 2 * attention, attention, kv, kv + 2 * rotary], widest)
}

impl Scratch {
    pub(crate) fn new(plan: &Plan, t: usize) -> Scratch {
        let (w, widest) = widths(plan);
        let buffer = |i: usize| vec![0.0; t * w[i]];
        let rotary = plan.attention.inverse_frequencies.len();
        Scratch {
            x: buffer(0),
            normed: buffer(1),
            delta: buffer(2),
            gate: buffer(3),
            up: buffer(4),
            conv_in: vec![0.0; (plan.delta.taps - 1 + t) * plan.delta.channels()],
            conv_out: buffer(6),
            z: buffer(7),
            decay: buffer(8),
            beta: buffer(9),
            heads_out: buffer(10),
            mixed: buffer(11),
            query_gate: buffer(12),
            query: buffer(13),
            key: buffer(14),
            value: buffer(14),
            cos: vec![0.0; t * rotary],
            sin: vec![0.0; t * rotary],
            inputs: Inputs::new(t, widest),
        }
    }

    /// Bytes that `new` allocates.
    pub(crate) fn bytes(plan: &Plan, t: usize) -> u64 {
        let (w, widest) = widths(plan);
        let floats = t * w.iter().sum::<usize>() + (plan.delta.taps - 1) * plan.delta.channels();
        4 * floats as u64 + t as u64 * QuantizedRow::bytes(widest) as u64
    }
}
