//! Tiers: the list of kernel tables, and which of them the running CPU can execute; it holds no arithmetic.
//!
//! A new instruction set is one file under `tier/` with one table, and one line in the list of tiers.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512vnni;
#[cfg(target_arch = "x86_64")]
mod avxvnni;
#[cfg(target_arch = "aarch64")]
mod dotprod;
#[cfg(target_arch = "aarch64")]
mod i8mm;
#[cfg(target_arch = "aarch64")]
mod neon;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod table;

use crate::FloatRows;
#[cfg(target_arch = "aarch64")]
use std::arch::is_aarch64_feature_detected;

use crate::portable;
use crate::quantized::{Precision, QuantizedRow};

/// The kernels of one tier. Only [`available`] hands these out, so holding one proves that the running CPU can execute
/// it. Every method checks the lengths of its slices once, and panics when they disagree.
#[expect(clippy::type_complexity, reason = "a name for each signature would say less than the signature")]
pub struct Kernels {
    /// `portable`, `avx2`, ... as printed by `doctor`.
    pub name: &'static str,
    pub(crate) quantize: fn(&[f32], Precision, &mut QuantizedRow),
    pub(crate) project_i8: fn(&[i8], &[f32], &[QuantizedRow], &mut [f32]),
    pub(crate) project_i8_f32: fn(&[i8], &[f32], &[f32], &mut [f32]),
    pub(crate) project_float: fn(FloatRows<'_>, usize, &[f32], &mut [f32]),
    pub(crate) rms_norm: fn(&[f32], &[f32], f32, &mut [f32]),
    pub(crate) gated_norm: fn(&mut [f32], &[f32], &[f32], f32),
    pub(crate) l2_normalize: fn(&mut [f32], f32),
    pub(crate) add: fn(&mut [f32], &[f32]),
    pub(crate) silu_mul: fn(&mut [f32], &[f32]),
    pub(crate) sigmoid_mul: fn(&mut [f32], &[f32]),
    pub(crate) rope: fn(&mut [f32], &[f32], &[f32]),
    pub(crate) conv_silu: fn(&[&[f32]], &[f32], &mut [f32]),
    pub(crate) delta_step: fn(&mut [f32], &[f32], &[f32], &[f32], f32, f32, &mut [f32]),
    pub(crate) attend: fn(&[f32], &[f32], &[f32], f32, &mut Softmax, &mut [f32]),
}

impl std::fmt::Debug for Kernels {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Kernels({})", self.name)
    }
}

/// A tier that was compiled, and whether the running CPU has what it needs.
type Tier = (&'static Kernels, fn() -> bool);

/// All tiers of this architecture, slowest first.
#[cfg(target_arch = "x86_64")]
static TIERS: &[Tier] = &[
    (&portable::TABLE, || true),
    (&avx2::TABLE, has_avx2),
    (&avxvnni::TABLE, || has_avx2() && is_x86_feature_detected!("avxvnni")),
    (&avx512vnni::TABLE, || has_avx2() && has_avx512() && is_x86_feature_detected!("avx512vnni")),
];

#[cfg(target_arch = "x86_64")]
fn has_avx2() -> bool {
    is_x86_feature_detected!("avx2") && is_x86_feature_detected!("f16c")
}

#[cfg(target_arch = "x86_64")]
fn has_avx512() -> bool {
    is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512bw") && is_x86_feature_detected!("avx512vl")
}

/// All tiers of this architecture, slowest first.
#[cfg(target_arch = "aarch64")]
static TIERS: &[Tier] = &[
    (&portable::TABLE, || true),
    (&neon::TABLE, || is_aarch64_feature_detected!("neon")),
    (&dotprod::TABLE, has_dotprod),
    (&i8mm::TABLE, || has_dotprod() && is_aarch64_feature_detected!("i8mm")),
];

#[cfg(target_arch = "aarch64")]
fn has_dotprod() -> bool {
    is_aarch64_feature_detected!("neon") && is_aarch64_feature_detected!("dotprod")
}

/// All tiers of this architecture.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
static TIERS: &[Tier] = &[(&portable::TABLE, || true)];

/// All tiers that the running CPU can execute, slowest first. The first is always `portable`.
pub fn available() -> Vec<&'static Kernels> {
    TIERS.iter().filter(|(_, detected)| detected()).map(|(kernels, _)| *kernels).collect()
}

/// The names of all tiers that were compiled for this architecture, slowest first, whether or not the running CPU can
/// execute them.
pub fn compiled() -> Vec<&'static str> {
    TIERS.iter().map(|(kernels, _)| kernels.name).collect()
}

/// The fastest tier that the running CPU can execute.
pub fn best() -> &'static Kernels {
    available().last().copied().unwrap_or(&portable::TABLE)
}

/// The available tier of that name.
pub fn by_name(name: &str) -> Option<&'static Kernels> {
    available().into_iter().find(|tier| tier.name == name)
}

impl Kernels {
    /// Rounds `x` into `into`, one scale per block: `scale = max|x| / limit`, `q = round_half_even(x * (limit / max|x|))`.
    ///
    /// A block that holds a value which is not finite gets the scale NaN, so that what is computed from it shows.
    pub fn quantize(&self, x: &[f32], precision: Precision, into: &mut QuantizedRow) {
        assert!(x.len() <= into.wide.len(), "quantize: row is longer than its room");
        (self.quantize)(x, precision, into);
    }

    /// `out[t, r] = scales[r] * sum over blocks b, in order, of (x[t].scales[b] * f32(dot of block b))`; the dots are exact.
    ///
    /// `w` is `[r, k]` with `k = x[t].len()` for every `t`, `scales` `[r]`, `out` `[t, r]`.
    pub fn project_i8(&self, w: &[i8], scales: &[f32], x: &[QuantizedRow], out: &mut [f32]) {
        for row in x {
            assert_eq!(w.len(), scales.len() * row.len, "project_i8: weights are not [r, k]");
            assert_eq!(row.precision, x[0].precision, "project_i8: rows differ in precision");
        }
        assert_eq!(out.len(), scales.len() * x.len(), "project_i8: out is not [t, r]");
        (self.project_i8)(w, scales, x, out);
    }

    /// `out[t, r] = scales[r] * sum_i w[r, i] * x[t, i]` in `f32`, 16 lanes: integer weights, float activations.
    pub fn project_i8_f32(&self, w: &[i8], scales: &[f32], x: &[f32], out: &mut [f32]) {
        let k = if scales.is_empty() { 0 } else { w.len() / scales.len() };
        assert_eq!(w.len(), scales.len() * k, "project_i8_f32: weights are not [r, k]");
        assert_eq!(out.len() * k, scales.len() * x.len(), "project_i8_f32: out is not [t, r]");
        (self.project_i8_f32)(w, scales, x, out);
    }

    /// `out[t, r] = sum_i w[r, i] * x[t, i]` in `f32`, 16 lanes. `w` is `[r, k]`, `x` `[t, k]`, `out` `[t, r]`.
    pub fn project_float(&self, w: FloatRows<'_>, k: usize, x: &[f32], out: &mut [f32]) {
        assert!(
            k > 0 && w.len().is_multiple_of(k) && x.len().is_multiple_of(k),
            "project_float: rows are not of length k"
        );
        assert_eq!(out.len(), (w.len() / k) * (x.len() / k), "project_float: out is not [t, r]");
        (self.project_float)(w, k, x, out);
    }

    /// `out = x * (1 / sqrt(mean(x^2) + eps)) * w`, all `[d]`.
    pub fn rms_norm(&self, x: &[f32], w: &[f32], eps: f32, out: &mut [f32]) {
        assert!(x.len() == w.len() && x.len() == out.len(), "rms_norm: lengths differ");
        (self.rms_norm)(x, w, eps, out);
    }

    /// `x = w * (x / sqrt(mean(x^2) + eps)) * silu(z)`, all `[dv]`.
    pub fn gated_norm(&self, x: &mut [f32], z: &[f32], w: &[f32], eps: f32) {
        assert!(x.len() == w.len() && x.len() == z.len(), "gated_norm: lengths differ");
        (self.gated_norm)(x, z, w, eps);
    }

    /// `x = x * (scale / sqrt(sum(x^2) + 1e-6))`.
    pub fn l2_normalize(&self, x: &mut [f32], scale: f32) {
        (self.l2_normalize)(x, scale);
    }

    /// `x += y`.
    pub fn add(&self, x: &mut [f32], y: &[f32]) {
        assert_eq!(x.len(), y.len(), "add: lengths differ");
        (self.add)(x, y);
    }

    /// `gate = silu(gate) * up`.
    pub fn silu_mul(&self, gate: &mut [f32], up: &[f32]) {
        assert_eq!(gate.len(), up.len(), "silu_mul: lengths differ");
        (self.silu_mul)(gate, up);
    }

    /// `x = x * sigmoid(gate)`.
    pub fn sigmoid_mul(&self, x: &mut [f32], gate: &[f32]) {
        assert_eq!(x.len(), gate.len(), "sigmoid_mul: lengths differ");
        (self.sigmoid_mul)(x, gate);
    }

    /// Rotates the pairs `(x[i], x[i + h])`, `h = cos.len()`, by the given angles; `x[2h..]` stays.
    pub fn rope(&self, x: &mut [f32], cos: &[f32], sin: &[f32]) {
        assert!(cos.len() == sin.len() && x.len() >= 2 * cos.len(), "rope: lengths differ");
        (self.rope)(x, cos, sin);
    }

    /// `out[c] = silu(sum_j w[j, c] * rows[j][c])`, sequential in `j`; `w` is `[taps, c]`, the oldest row first.
    pub fn conv_silu(&self, rows: &[&[f32]], w: &[f32], out: &mut [f32]) {
        assert_eq!(w.len(), rows.len() * out.len(), "conv_silu: weights are not [taps, c]");
        assert!(rows.iter().all(|row| row.len() == out.len()), "conv_silu: row lengths differ");
        (self.conv_silu)(rows, w, out);
    }

    /// One step of the gated delta rule on one head's `state` `[dk, dv]`, `decay = e^g`:
    ///
    /// `r = S'k`, `p = S'q` (sums over `dk`, sequential), `d = beta * (v - decay * r)`, `out = decay * p + d * (k.q)`,
    /// `S = decay * S + k d'`; the same function as decaying first and reading the new state.
    #[expect(clippy::too_many_arguments, reason = "the rule has that many operands")]
    pub fn delta_step(
        &self,
        state: &mut [f32],
        q: &[f32],
        k: &[f32],
        v: &[f32],
        decay: f32,
        beta: f32,
        out: &mut [f32],
    ) {
        assert!(q.len() == k.len() && v.len() == out.len(), "delta_step: lengths differ");
        assert_eq!(state.len(), k.len() * v.len(), "delta_step: state is not [dk, dv]");
        (self.delta_step)(state, q, k, v, decay, beta, out);
    }

    /// Softmax attention of one query over the next `p <= ATTENTION_BLOCK` cached positions, added to what earlier calls
    /// left in `softmax` and `out` `[d]`; `keys` and `values` are `[p, d]`.
    ///
    /// `s_j = (q.k_j) * scale` in 16 lanes over `d`; `m = max(softmax.max, max_j s_j)`; `c = exp(softmax.max - m)`;
    /// `e_j = exp(s_j - m)`; `softmax.sum = softmax.sum * c + sum_j e_j` (16 lanes over `j`); `out = out * c`, then
    /// `out += e_j v_j`, sequential in `j`. The caller starts with `Softmax::default()` and zeros, cuts positions at
    /// multiples of [`ATTENTION_BLOCK`], and multiplies by `1 / softmax.sum` at the end.
    pub fn attend(&self, q: &[f32], keys: &[f32], values: &[f32], scale: f32, softmax: &mut Softmax, out: &mut [f32]) {
        assert!(q.len() == out.len() && !q.is_empty(), "attend: lengths differ");
        assert!(
            keys.len() == values.len() && keys.len().is_multiple_of(q.len()) && !keys.is_empty(),
            "attend: caches are not [p, d]"
        );
        assert!(keys.len() / q.len() <= ATTENTION_BLOCK, "attend: more than one block");
        (self.attend)(q, keys, values, scale, softmax, out);
    }
}

/// Positions that [`Kernels::attend`] takes at once: borders of the running softmax, part of the numerics contract.
pub const ATTENTION_BLOCK: usize = 128;

/// The running maximum and sum of a softmax taken in blocks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Softmax {
    /// Largest score so far.
    pub max: f32,
    /// Sum of `exp(score - max)` so far.
    pub sum: f32,
}

impl Default for Softmax {
    fn default() -> Softmax {
        Softmax { max: f32::NEG_INFINITY, sum: 0.0 }
    }
}
