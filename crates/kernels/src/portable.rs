//! The definition of every kernel, in plain Rust: what all other tiers must equal bit for bit.

use crate::FloatRows;
use crate::quantized::{self, BLOCK, Precision, QuantizedRow};
use crate::tier::{ATTENTION_BLOCK, Kernels, Softmax};

pub(crate) static TABLE: Kernels = Kernels {
    name: "portable",
    quantize,
    project_i8,
    project_i8_f32,
    project_float,
    rms_norm,
    gated_norm,
    l2_normalize,
    add,
    silu_mul,
    sigmoid_mul,
    rope,
    conv_silu,
    delta_step,
    attend,
};

/// Number of virtual lanes of an `f32` sum.
pub const LANES: usize = 16;

/// 1.5 * 2^23: adding it leaves the nearest integer in the low mantissa bits.
pub(crate) const ROUND: f32 = 12_582_912.0;
/// `ln 2` in two parts; the product of the first with an integer exponent is exact.
pub(crate) const LN_2_HIGH: f32 = 0.693_359_4;
pub(crate) const LN_2_LOW: f32 = -2.121_944_4e-4;
/// Below it `exp` is 0, as the result would be denormal.
pub(crate) const EXP_LOWEST: f32 = -87.336_54;
/// Above it `exp` is infinite.
pub(crate) const EXP_HIGHEST: f32 = 88.722_83;
/// `(e^r - 1 - r) / r^2` on `-ln(2)/2..ln(2)/2`, highest power first.
pub(crate) const EXP_POLYNOMIAL: [f32; 6] =
    [1.987_569_1e-4, 1.398_199_9e-3, 8.333_452e-3, 4.166_579_6e-2, 1.666_666_5e-1, 0.5];

fn reduce(mut lanes: [f32; LANES]) -> f32 {
    for half in [8, 4, 2, 1] {
        for l in 0..half {
            lanes[l] += lanes[l + half];
        }
    }
    lanes[0]
}

fn sum_products(n: usize, product: impl Fn(usize) -> f32) -> f32 {
    let mut lanes = [0.0; LANES];
    for i in 0..n {
        lanes[i % LANES] += product(i);
    }
    reduce(lanes)
}

fn dot(a: &[f32], b: &[f32]) -> f32 {
    sum_products(a.len(), |i| a[i] * b[i])
}

/// `e^x`: `2^n * p(r)` with `n = round(x / ln 2)` and a degree-6 polynomial; 0 below -87.3, infinite above 88.7.
///
/// Argument reduction and polynomial after Cephes (`expf`).
pub fn exp(x: f32) -> f32 {
    let clamped = x.clamp(EXP_LOWEST, EXP_HIGHEST);
    let n = (clamped * std::f32::consts::LOG2_E + ROUND) - ROUND;
    let r = clamped - n * LN_2_HIGH;
    let r = r - n * LN_2_LOW;
    let mut p = EXP_POLYNOMIAL[0];
    for c in &EXP_POLYNOMIAL[1..] {
        p = p * r + c;
    }
    let y = p * (r * r) + r + 1.0;
    // Two factors, since 2^n alone overflows for n = 128 where the product does not.
    let n = n as i32;
    let first = n >> 1;
    let power = |e: i32| f32::from_bits(((e + 127) as u32) << 23);
    let scaled = y * power(first) * power(n - first);
    if x.is_nan() {
        x
    } else if x < EXP_LOWEST {
        0.0
    } else if x > EXP_HIGHEST {
        f32::INFINITY
    } else {
        scaled
    }
}

/// `1 / (1 + e^-x)`.
pub fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + exp(-x))
}

/// `x * sigmoid(x)`.
pub fn silu(x: f32) -> f32 {
    x * sigmoid(x)
}

/// `ln(1 + e^x)`: softplus; `x` itself above 20, where the difference is below `f32` resolution.
pub fn ln_1p_exp(x: f32) -> f32 {
    if x > 20.0 {
        return x;
    }
    let e = exp(x);
    let u = 1.0 + e;
    // ln(u) * e / (u - 1) gives back what rounding 1 + e lost (Kahan's log1p).
    if u == 1.0 { e } else { ln(u) * (e / (u - 1.0)) }
}

/// Natural logarithm of a normal positive number: exponent and a polynomial on `sqrt(1/2)..sqrt(2)`, after Cephes
/// (`logf`).
fn ln(x: f32) -> f32 {
    let bits = x.to_bits();
    let mut n = (bits >> 23) as i32 - 126;
    let mut m = f32::from_bits((bits & 0x007f_ffff) | 0x3f00_0000);
    if m < std::f32::consts::FRAC_1_SQRT_2 {
        n -= 1;
        m += m;
    }
    let r = m - 1.0;
    let z = r * r;
    let mut p = 7.037_683_6e-2;
    for c in [
        -1.151_461e-1,
        1.167_699_9e-1,
        -1.242_014_1e-1,
        1.424_932_3e-1,
        -1.666_805_7e-1,
        2.000_071_5e-1,
        -2.499_999_4e-1,
        3.333_333e-1,
    ] {
        p = p * r + c;
    }
    let n = n as f32;
    let y = r * z * p + n * LN_2_LOW - 0.5 * z;
    r + y + n * LN_2_HIGH
}

fn quantize(x: &[f32], precision: Precision, into: &mut QuantizedRow) {
    into.start(x.len(), precision);
    for (block, values) in x.chunks(BLOCK).enumerate() {
        let finite = values.iter().all(|v| v.is_finite());
        let largest = values.iter().fold(0.0f32, |m, v| m.max(v.abs()));
        match precision.scales(largest) {
            Some((scale, inverse)) if finite => into.store_block(block, &quantized::round(values, inverse), scale),
            _ => into.store_block(block, &[0; BLOCK], f32::NAN),
        }
    }
}

fn project_i8(w: &[i8], scales: &[f32], x: &[QuantizedRow], out: &mut [f32]) {
    let r = scales.len();
    for (t, row) in x.iter().enumerate() {
        for (i, scale) in scales.iter().enumerate() {
            let weights = &w[i * row.len..(i + 1) * row.len];
            let mut sum = 0.0f32;
            for (b, block) in weights.chunks(BLOCK).enumerate() {
                let values = &row.wide[b * BLOCK..];
                let dot: i32 = block.iter().zip(values).map(|(w, x)| i32::from(*w) * i32::from(*x)).sum();
                sum += dot as f32 * row.scales[b];
            }
            out[t * r + i] = sum * scale;
        }
    }
}

fn project_i8_f32(w: &[i8], scales: &[f32], x: &[f32], out: &mut [f32]) {
    if w.is_empty() {
        out.fill(0.0);
        return;
    }
    let r = scales.len();
    let k = w.len() / r;
    for (t, row) in x.chunks_exact(k).enumerate() {
        for (i, scale) in scales.iter().enumerate() {
            let weights = &w[i * k..(i + 1) * k];
            out[t * r + i] = sum_products(k, |j| f32::from(weights[j]) * row[j]) * scale;
        }
    }
}

fn project_float(w: FloatRows<'_>, k: usize, x: &[f32], out: &mut [f32]) {
    let r = w.len() / k;
    for (t, row) in x.chunks_exact(k).enumerate() {
        for i in 0..r {
            let at = i * k..(i + 1) * k;
            out[t * r + i] = match w {
                FloatRows::F32(w) => dot(&w[at], row),
                FloatRows::Bf16(w) => {
                    let w = &w[at];
                    sum_products(k, |j| bf16(w[j]) * row[j])
                }
                FloatRows::F16(w) => {
                    let w = &w[at];
                    sum_products(k, |j| f16(w[j]) * row[j])
                }
            };
        }
    }
}

/// The value of a bfloat16 bit pattern.
pub fn bf16(bits: u16) -> f32 {
    f32::from_bits(u32::from(bits) << 16)
}

/// The value of an IEEE half-precision bit pattern; exact.
pub fn f16(bits: u16) -> f32 {
    let sign = u32::from(bits & 0x8000) << 16;
    let (exponent, fraction) = (u32::from(bits >> 10) & 0x1f, u32::from(bits & 0x3ff));
    let magnitude = match exponent {
        0 => (fraction as f32 * (1.0 / 16_777_216.0)).to_bits(),
        31 => 0x7f80_0000 | (fraction << 13) | if fraction != 0 { 0x0040_0000 } else { 0 },
        _ => ((exponent + 112) << 23) | (fraction << 13),
    };
    f32::from_bits(sign | magnitude)
}

fn rms_norm(x: &[f32], w: &[f32], eps: f32, out: &mut [f32]) {
    let inverse = 1.0 / (dot(x, x) / x.len() as f32 + eps).sqrt();
    for ((o, v), w) in out.iter_mut().zip(x).zip(w) {
        *o = v * inverse * w;
    }
}

fn gated_norm(x: &mut [f32], z: &[f32], w: &[f32], eps: f32) {
    let inverse = 1.0 / (dot(x, x) / x.len() as f32 + eps).sqrt();
    for ((v, z), w) in x.iter_mut().zip(z).zip(w) {
        *v = *v * inverse * w * silu(*z);
    }
}

fn l2_normalize(x: &mut [f32], scale: f32) {
    let factor = scale / (dot(x, x) + 1e-6).sqrt();
    for v in x {
        *v *= factor;
    }
}

fn add(x: &mut [f32], y: &[f32]) {
    for (x, y) in x.iter_mut().zip(y) {
        *x += y;
    }
}

fn silu_mul(gate: &mut [f32], up: &[f32]) {
    for (g, u) in gate.iter_mut().zip(up) {
        *g = silu(*g) * u;
    }
}

fn sigmoid_mul(x: &mut [f32], gate: &[f32]) {
    for (x, g) in x.iter_mut().zip(gate) {
        *x *= sigmoid(*g);
    }
}

fn rope(x: &mut [f32], cos: &[f32], sin: &[f32]) {
    let (first, rest) = x.split_at_mut(cos.len());
    for (((a, b), cos), sin) in first.iter_mut().zip(rest).zip(cos).zip(sin) {
        (*a, *b) = (*a * cos - *b * sin, *b * cos + *a * sin);
    }
}

fn conv_silu(rows: &[&[f32]], w: &[f32], out: &mut [f32]) {
    let channels = out.len();
    for (c, o) in out.iter_mut().enumerate() {
        let mut sum = 0.0;
        for (j, row) in rows.iter().enumerate() {
            sum += w[j * channels + c] * row[c];
        }
        *o = silu(sum);
    }
}

fn delta_step(state: &mut [f32], q: &[f32], k: &[f32], v: &[f32], decay: f32, beta: f32, out: &mut [f32]) {
    delta_columns(0, state, q, k, v, decay, beta, dot(k, q), out);
}

/// The columns from `first` on of [`Kernels::delta_step`]; `kq` is the dot of `k` and `q`.
#[expect(clippy::too_many_arguments, reason = "the rule has that many operands")]
#[inline(always)]
pub(crate) fn delta_columns(
    first: usize,
    state: &mut [f32],
    q: &[f32],
    k: &[f32],
    v: &[f32],
    decay: f32,
    beta: f32,
    kq: f32,
    out: &mut [f32],
) {
    let dv = v.len();
    for c in first..dv {
        let (mut r, mut p) = (0.0, 0.0);
        for (row, (k, q)) in state.chunks_exact(dv).zip(k.iter().zip(q)) {
            r += row[c] * k;
            p += row[c] * q;
        }
        let d = beta * (v[c] - decay * r);
        out[c] = decay * p + d * kq;
        for (row, k) in state.chunks_exact_mut(dv).zip(k) {
            row[c] = decay * row[c] + k * d;
        }
    }
}

fn attend(q: &[f32], keys: &[f32], values: &[f32], scale: f32, softmax: &mut Softmax, out: &mut [f32]) {
    let d = q.len();
    let mut scores = [0.0; ATTENTION_BLOCK];
    let scores = &mut scores[..keys.len() / d];
    let mut largest = softmax.max;
    for (s, key) in scores.iter_mut().zip(keys.chunks_exact(d)) {
        *s = dot(q, key) * scale;
        // Not `f32::max`, which may return either zero, and either operand's NaN.
        largest = if *s > largest { *s } else { largest };
    }
    let largest = largest + 0.0;
    let correction = exp(softmax.max - largest);
    for s in scores.iter_mut() {
        *s = exp(*s - largest);
    }
    *softmax = Softmax { max: largest, sum: softmax.sum * correction + sum_products(scores.len(), |j| scores[j]) };
    for o in out.iter_mut() {
        *o *= correction;
    }
    for (s, value) in scores.iter().zip(values.chunks_exact(d)) {
        for (o, v) in out.iter_mut().zip(value) {
            *o += s * v;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exp_is_within_two_units_of_the_true_value() {
        let mut worst = 0.0f64;
        for i in -87_000..=88_000 {
            let x = i as f32 * 1e-3;
            let truth = f64::from(x).exp();
            worst = worst.max(((f64::from(exp(x)) - truth) / truth).abs());
        }
        assert!(worst < 2.4e-7, "{worst}");
        assert_eq!(exp(0.0), 1.0);
        assert_eq!(exp(-100.0), 0.0);
        assert_eq!(exp(100.0), f32::INFINITY);
        assert!(exp(f32::NAN).is_nan());
    }

    #[test]
    fn softplus_is_close_to_the_true_value() {
        for i in -30_000..=30_000 {
            let x = i as f32 * 1e-3;
            let truth = f64::from(x).exp().ln_1p();
            assert!(((f64::from(ln_1p_exp(x)) - truth) / truth).abs() < 5e-7, "{x}");
        }
    }

    #[test]
    fn half_formats_convert_exactly() {
        assert_eq!(bf16(0x3f80), 1.0);
        assert_eq!(f16(0x3c00), 1.0);
        assert_eq!(f16(0xc000), -2.0);
        assert_eq!(f16(0x0001), 5.960_464_5e-8);
        assert_eq!(f16(0x7bff), 65504.0);
        assert_eq!(f16(0xfc00), f32::NEG_INFINITY);
        assert!(f16(0x7e00).is_nan());
    }

    #[test]
    fn a_block_that_is_not_finite_shows_in_the_result() {
        let mut x = vec![1.0; 200];
        x[150] = f32::INFINITY;
        let mut row = QuantizedRow::new(200);
        TABLE.quantize(&x, Precision::Sixteen, &mut row);
        let mut out = [0.0];
        TABLE.project_i8(&[1; 200], &[1.0], &[row], &mut out);
        assert!(out[0].is_nan());
    }
}
