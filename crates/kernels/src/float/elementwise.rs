//! Kernels that work value by value: norms, gates, rotation, convolution, rounding to integers.

use super::dots::dot;
use crate::lanes::{self, Lanes, load_from, store_to};
use crate::portable::{LANES, ROUND};
use crate::quantized::{BLOCK, Precision, QuantizedRow};

#[inline(always)]
pub(crate) fn rms_norm<S: Lanes>(s: S, x: &[f32], w: &[f32], eps: f32, out: &mut [f32]) {
    let inverse = s.splat(1.0 / (dot(s, x, x) / x.len() as f32 + eps).sqrt());
    for at in (0..x.len()).step_by(LANES) {
        let v = s.mul(s.mul(load_from(s, x, at), inverse), load_from(s, w, at));
        store_to(s, v, out, at);
    }
}

#[inline(always)]
pub(crate) fn gated_norm<S: Lanes>(s: S, x: &mut [f32], z: &[f32], w: &[f32], eps: f32) {
    let inverse = s.splat(1.0 / (dot(s, x, x) / x.len() as f32 + eps).sqrt());
    for at in (0..x.len()).step_by(LANES) {
        let v = s.mul(s.mul(load_from(s, x, at), inverse), load_from(s, w, at));
        store_to(s, s.mul(v, lanes::silu(s, load_from(s, z, at))), x, at);
    }
}

#[inline(always)]
pub(crate) fn l2_normalize<S: Lanes>(s: S, x: &mut [f32], scale: f32) {
    let factor = s.splat(scale / (dot(s, x, x) + 1e-6).sqrt());
    for at in (0..x.len()).step_by(LANES) {
        store_to(s, s.mul(load_from(s, x, at), factor), x, at);
    }
}

#[inline(always)]
pub(crate) fn add<S: Lanes>(s: S, x: &mut [f32], y: &[f32]) {
    for at in (0..x.len()).step_by(LANES) {
        store_to(s, s.add(load_from(s, x, at), load_from(s, y, at)), x, at);
    }
}

#[inline(always)]
pub(crate) fn silu_mul<S: Lanes>(s: S, gate: &mut [f32], up: &[f32]) {
    for at in (0..gate.len()).step_by(LANES) {
        store_to(s, s.mul(lanes::silu(s, load_from(s, gate, at)), load_from(s, up, at)), gate, at);
    }
}

#[inline(always)]
pub(crate) fn sigmoid_mul<S: Lanes>(s: S, x: &mut [f32], gate: &[f32]) {
    for at in (0..x.len()).step_by(LANES) {
        store_to(s, s.mul(load_from(s, x, at), lanes::sigmoid(s, load_from(s, gate, at))), x, at);
    }
}

#[inline(always)]
pub(crate) fn rope<S: Lanes>(s: S, x: &mut [f32], cos: &[f32], sin: &[f32]) {
    let half = cos.len();
    let (first, rest) = x.split_at_mut(half);
    let second = &mut rest[..half];
    for at in (0..half).step_by(LANES) {
        let (a, b) = (load_from(s, first, at), load_from(s, second, at));
        let (cos, sin) = (load_from(s, cos, at), load_from(s, sin, at));
        store_to(s, s.sub(s.mul(a, cos), s.mul(b, sin)), first, at);
        store_to(s, s.add(s.mul(b, cos), s.mul(a, sin)), second, at);
    }
}

#[inline(always)]
pub(crate) fn conv_silu<S: Lanes>(s: S, rows: &[&[f32]], w: &[f32], out: &mut [f32]) {
    let channels = out.len();
    for at in (0..channels).step_by(LANES) {
        let mut sum = s.splat(0.0);
        for (j, row) in rows.iter().enumerate() {
            let w = load_from(s, &w[j * channels..][..channels], at);
            sum = s.add(sum, s.mul(w, load_from(s, row, at)));
        }
        store_to(s, lanes::silu(s, sum), out, at);
    }
}

#[inline(always)]
pub(crate) fn quantize<S: Lanes>(s: S, x: &[f32], precision: Precision, into: &mut QuantizedRow) {
    into.start(x.len(), precision);
    for (block, values) in x.chunks(BLOCK).enumerate() {
        let mut largest = s.splat(0.0);
        for at in (0..values.len()).step_by(LANES) {
            largest = s.max_magnitude(largest, load_from(s, values, at));
        }
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
        for at in (0..values.len()).step_by(LANES) {
            // The sum's low mantissa bits are the nearest integer, ties to even, as a two's complement.
            s.store(s.add(s.mul(load_from(s, values, at), inverse), round), &mut lanes);
            for l in 0..LANES {
                rounded[at + l] = lanes[l].to_bits() as i16;
            }
        }
        into.store_block(block, &rounded, scale);
    }
}
