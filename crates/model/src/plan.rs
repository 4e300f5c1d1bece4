//! The plan: what a model computes, as dimensions and a list of layers; it holds no weights and does no arithmetic on
//! activations.

use crate::error::{Error, Result};

/// Mixers of a layer: how tokens see each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mixer {
    /// Full attention over all earlier positions, gated per head.
    GatedAttention,
    /// The gated delta rule over a state of constant size.
    GatedDeltaNet,
}

/// Dimensions of the attention layers.
#[derive(Clone, Debug, PartialEq)]
pub struct Attention {
    /// Query heads.
    pub heads: usize,
    /// Key and value heads; divides `heads`.
    pub kv_heads: usize,
    /// Width of a head.
    pub head_dim: usize,
    /// Inverse frequencies of the rotary embedding, radians per position; `2 * len()` leading dimensions are rotated.
    pub inverse_frequencies: Vec<f32>,
}

/// Dimensions of the delta-rule layers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeltaNet {
    /// Key and query heads.
    pub key_heads: usize,
    /// Value heads; a multiple of `key_heads`. Value head `h` reads key head `h / (value_heads / key_heads)`.
    pub value_heads: usize,
    /// Width of a key or query head.
    pub key_dim: usize,
    /// Width of a value head.
    pub value_dim: usize,
    /// Taps of the causal convolution.
    pub taps: usize,
}

impl DeltaNet {
    /// Channels of the convolution: queries, keys, values.
    pub fn channels(&self) -> usize {
        2 * self.key_heads * self.key_dim + self.value_heads * self.value_dim
    }

    /// Width of all value heads.
    pub fn values(&self) -> usize {
        self.value_heads * self.value_dim
    }

    /// Values in one layer's recurrent state.
    pub fn state_len(&self) -> usize {
        self.value_heads * self.key_dim * self.value_dim
    }
}

/// What a model computes.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// Rows of the embedding and of the head.
    pub vocab: usize,
    /// Model width.
    pub hidden: usize,
    /// Width inside the MLP.
    pub ffn: usize,
    /// The mixer of each layer, first layer first.
    pub layers: Vec<Mixer>,
    /// Dimensions of attention layers.
    pub attention: Attention,
    /// Dimensions of delta-rule layers.
    pub delta: DeltaNet,
    /// Added to the mean square in every norm.
    pub eps: f32,
    /// Positions the model was made for.
    pub max_positions: usize,
}

impl Plan {
    /// Checks what the engine relies on. Readers call this once, after filling the plan from a file.
    pub fn validate(&self) -> Result<()> {
        let (a, d) = (&self.attention, &self.delta);
        let sizes = [
            ("vocabulary", self.vocab, 1 << 24),
            ("hidden size", self.hidden, 1 << 17),
            ("MLP size", self.ffn, 1 << 17),
            ("layer count", self.layers.len(), 4096),
            ("attention heads", a.heads, 4096),
            ("key/value heads", a.kv_heads, 4096),
            ("head size", a.head_dim, 4096),
            ("delta-rule key heads", d.key_heads, 4096),
            ("delta-rule value heads", d.value_heads, 4096),
            ("delta-rule key size", d.key_dim, 4096),
            ("delta-rule value size", d.value_dim, 4096),
            ("position count", self.max_positions, 1 << 30),
        ];
        for (what, found, most) in sizes {
            if found == 0 || found > most {
                return Err(Error::plan(what, format!("1 to {most}"), found));
            }
        }
        if !(2..=8).contains(&d.taps) {
            return Err(Error::plan("convolution taps", "2 to 8".into(), d.taps));
        }
        if a.heads % a.kv_heads != 0 {
            return Err(Error::plan("attention heads", format!("a multiple of {}", a.kv_heads), a.heads));
        }
        if d.value_heads % d.key_heads != 0 {
            return Err(Error::plan("delta-rule value heads", format!("a multiple of {}", d.key_heads), d.value_heads));
        }
        if 2 * a.inverse_frequencies.len() > a.head_dim {
            return Err(Error::plan("rotary size", format!("at most {}", a.head_dim), 2 * a.inverse_frequencies.len()));
        }
        if !(self.eps.is_finite() && self.eps > 0.0) {
            return Err(Error::plan("norm epsilon", "a positive number".into(), self.eps));
        }
        Ok(())
    }

    /// Number of layers with that mixer.
    pub fn count(&self, mixer: Mixer) -> usize {
        self.layers.iter().filter(|m| **m == mixer).count()
    }

    /// Bytes that one session's state takes at `context` positions: keys and values, convolution tails, delta states,
    /// all `f32`.
    pub fn session_bytes(&self, context: usize) -> u64 {
        let (a, d) = (&self.attention, &self.delta);
        // Each dimension may be within its limit and their product beyond all memory.
        let product = |factors: &[usize]| factors.iter().fold(1u64, |product, f| product.saturating_mul(*f as u64));
        let kv = product(&[8, a.kv_heads, a.head_dim, context, self.count(Mixer::GatedAttention)]);
        let delta = d.state_len() + (d.taps - 1) * d.channels();
        kv.saturating_add(product(&[4, delta, self.count(Mixer::GatedDeltaNet)]))
    }

    /// Weight values of all layers, embedding and untied head: `(linears that are stored as integers in an int8 model,
    /// the rest)`.
    pub fn parameters(&self, tied: bool) -> (u64, u64) {
        let (a, d) = (&self.attention, &self.delta);
        let (h, f) = (self.hidden as u64, self.ffn as u64);
        let (q, kv) = ((a.heads * a.head_dim) as u64, (a.kv_heads * a.head_dim) as u64);
        let (channels, values) = (d.channels() as u64, d.values() as u64);
        let attention = self.count(Mixer::GatedAttention) as u64;
        let delta = self.count(Mixer::GatedDeltaNet) as u64;
        let embedding = self.vocab as u64 * h * if tied { 1 } else { 2 };
        let linears = (attention + delta) * 3 * h * f
            + attention * h * (3 * q + 2 * kv)
            + delta * h * (channels + 2 * values)
            + embedding;
        let gates = 2 * d.value_heads as u64 * h;
        let rest = (attention + delta) * 2 * h
            + attention * 2 * a.head_dim as u64
            + delta * (gates + d.taps as u64 * channels + 2 * d.value_heads as u64 + d.value_dim as u64)
            + h;
        (linears, rest)
    }
}

/// `1 / theta^(2i / dims)` for `i` in `0..dims / 2`, rounded to `f32`: the reference computes the power in `f32`, so
/// the last bit may differ from it.
pub fn inverse_frequencies(theta: f64, dims: usize) -> Vec<f32> {
    (0..dims / 2).map(|i| (1.0 / libm::pow(theta, (2 * i) as f64 / dims as f64)) as f32).collect()
}
