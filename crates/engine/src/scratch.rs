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

/// Lengths of the buffers, in values, for `t` tokens.
struct Lengths {
    stream: usize,
    ffn: usize,
    conv_in: usize,
    conv_out: usize,
    values: usize,
    heads: usize,
    mixed: usize,
    query: usize,
    key: usize,
    angles: usize,
    /// Values of the widest input of a linear: per token, not for all.
    widest: usize,
}

impl Lengths {
    fn of(plan: &Plan, t: usize) -> Lengths {
        let (a, d) = (&plan.attention, &plan.delta);
        let query = a.heads * a.head_dim;
        let mixed = query.max(d.values());
        Lengths {
            stream: t * plan.hidden,
            ffn: t * plan.ffn,
            conv_in: (d.taps - 1 + t) * d.channels(),
            conv_out: t * d.channels(),
            values: t * d.values(),
            heads: t * d.value_heads,
            mixed: t * mixed,
            query: t * query,
            key: t * a.kv_heads * a.head_dim,
            angles: t * a.inverse_frequencies.len(),
            widest: plan.hidden.max(plan.ffn).max(mixed),
        }
    }
}

impl Scratch {
    pub(crate) fn new(plan: &Plan, t: usize) -> Scratch {
        let n = Lengths::of(plan, t);
        let buffer = |len| vec![0.0; len];
        Scratch {
            x: buffer(n.stream),
            normed: buffer(n.stream),
            delta: buffer(n.stream),
            gate: buffer(n.ffn),
            up: buffer(n.ffn),
            conv_in: buffer(n.conv_in),
            conv_out: buffer(n.conv_out),
            z: buffer(n.values),
            decay: buffer(n.heads),
            beta: buffer(n.heads),
            heads_out: buffer(n.values),
            mixed: buffer(n.mixed),
            query_gate: buffer(2 * n.query),
            query: buffer(n.query),
            key: buffer(n.key),
            value: buffer(n.key),
            cos: buffer(n.angles),
            sin: buffer(n.angles),
            inputs: Inputs::new(t, n.widest),
        }
    }

    /// Bytes that `new` allocates.
    pub(crate) fn bytes(plan: &Plan, t: usize) -> u64 {
        let n = Lengths::of(plan, t);
        let mixers = n.conv_in + n.conv_out + 2 * n.values + 2 * n.heads + n.mixed + 3 * n.query + 2 * n.key;
        let floats = 3 * n.stream + 2 * n.ffn + mixers + 2 * n.angles;
        4 * floats as u64 + t as u64 * QuantizedRow::bytes(n.widest) as u64
    }
}
