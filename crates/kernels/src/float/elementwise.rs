//! Kernels that work value by value: norms, gates, rotation, convolution, rounding to integers.

use super::dots::dot;
use crate::lanes::{self, Lanes, Part, chunks};
use crate::portable::{LANES, ROUND};
use crate::quantized::{BLOCK, Precision, QuantizedRow};

#[inline(always)]
pub(crate) fn rms_norm<S: Lanes>(s: S, x: &[f32], w: &[f32], eps: f32, out: &mut [f32]) {
    let inverse = s.splat(1.0 / (dot(s, x, x) / x.len() as f32 + eps).sqrt());
    chunks!(x.len(), |P, at| {
        let v = s.mul(s.mul(P::load(s, x, at), inverse), P::load(s, w, at));
        P::store(s, v, out, at);
    });
}

#[inline(always)]
pub(crate) fn gated_norm<S: Lanes>(s: S, x: &mut [f32], z: &[f32], w: &[f32], eps: f32) {
    let inverse = s.splat(1.0 / (dot(s, x, x) / x.len() as f32 + eps).sqrt());
    chunks!(x.len(), |P, at| {
        let v = s.mul(s.mul(P::load(s, x, at), inverse), P::load(s, w, at));
        P::store(s, s.mul(v, lanes::silu(s, P::load(s, z, at))), x, at);
    });
}

#[inline(always)]
pub(crate) fn l2_normalize<S: Lanes>(s: S, x: &mut [f32], scale: f32) {
    let factor = s.splat(scale / (dot(s, x, x) + 1e-6).sqrt());
    chunks!(x.len(), |P, at| {
        P::store(s, s.mul(P::load(s, x, at), factor), x, at);
    });
}

#[inline(always)]
pub(crate) fn add<S: Lanes>(s: S, x: &mut [f32], y: &[f32]) {
    chunks!(x.len(), |P, at| {
        P::store(s, s.add(P::load(s, x, at), P::load(s, y, at)), x, at);
    });
}

#[inline(always)]
pub(crate) fn silu_mul<S: Lanes>(s: S, gate: &mut [f32], up: &[f32]) {
    chunks!(gate.len(), |P, at| {
        P::store(s, s.mul(lanes::silu(s, P::load(s, gate, at)), P::load(s, up, at)), gate, at);
    });
}

#[inline(always)]
pub(crate) fn sigmoid_mul<S: Lanes>(s: S, x: &mut [f32], gate: &[f32]) {
    chunks!(x.len(), |P, at| {
        P::store(s, s.mul(P::load(s, x, at), lanes::sigmoid(s, P::load(s, gate, at))), x, at);
    });
}

#[inline(always)]
pub(crate) fn rope<S: Lanes>(s: S, x: &mut [f32], cos: &[f32], sin: &[f32]) {
    let half = cos.len();
    let (first, rest) = x.split_at_mut(half);
    let second = &mut rest[..half];
    chunks!(half, |P, at| {
        let (a, b) = (P::load(s, first, at), P::load(s, second, at));
        let (cos, sin) = (P::load(s, cos, at), P::load(s, sin, at));
        P::store(s, s.sub(s.mul(a, cos), s.mul(b, sin)), first, at);
        P::store(s, s.add(s.mul(b, cos), s.mul(a, sin)), second, at);
    });
}

#[inline(always)]
pub(crate) fn conv_silu<S: Lanes>(s: S, rows: &[&[f32]], w: &[f32], out: &mut [f32]) {
    let channels = out.len();
    chunks!(channels, |P, at| {
        let mut sum = s.splat(0.0);
        for (j, row) in rows.iter().enumerate() {
            let w = P::load(s, &w[j * channels..][..channels], at);
            sum = s.add(sum, s.mul(w, P::load(s, row, at)));
        }
        P::store(s, lanes::silu(s, sum), out, at);
    });
}

#[inline(always)]
pub(crate) fn quantize<S: Lanes>(s: S, x: &[f32], precision: Precision, into: &mut QuantizedRow) {
    into.start(x.len(), precision);
    for (block, values) in x.chunks(BLOCK).enumerate() {
        let mut largest = s.splat(0.0);
        chunks!(values.len(), |P, at| {
            largest = s.max_magnitude(largest, P::load(s, values, at));
        });
        let mut lanes = [0.0f32; LANES];
        s.store(largest, &mut lanes);
        let mut largest = 0;
        for lane in lanes {
            largest = largest.max(lane.to_bits());
        }
        let Some((scale, inverse)) = precision.scales(f32::from_bits(largest)) else {
            into.store_block(block, &[0; BLOCK], f32::NAN);
            continue;
        };
        let (inverse, round) = (s.splat(inverse), s.splat(ROUND));
        let mut rounded = [0; BLOCK];
        chunks!(values.len(), |P, at| {
            // The sum's low mantissa bits are the nearest integer, ties to even, as a two's complement.
            s.store(s.add(s.mul(P::load(s, values, at), inverse), round), &mut lanes);
            for l in 0..LANES {
                rounded[at + l] = lanes[l].to_bits() as i16;
            }
        });
        into.store_block(block, &rounded, scale);
    }
}
