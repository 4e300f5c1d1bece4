//! Softmax attention of one query over a block of cached positions.

use super::dots::{F32, dots};
use crate::lanes::{self, Lanes};
use crate::portable::LANES;
use crate::tier::{ATTENTION_BLOCK, Softmax};

/// `N`: how many times 16 columns of the values are summed in registers.
#[inline(always)]
pub(crate) fn attend<S: Lanes, const N: usize>(
    s: S,
    q: &[f32],
    keys: &[f32],
    values: &[f32],
    scale: f32,
    softmax: &mut Softmax,
    out: &mut [f32],
) {
    // What is not overwritten has the exponential 0, or NaN where all others have, too.
    let mut scores = [f32::NEG_INFINITY; ATTENTION_BLOCK];
    let positions = keys.len() / q.len();
    score(s, q, keys, scale, &mut scores);
    let (chunks, _) = scores[..positions.next_multiple_of(LANES)].as_chunks_mut::<LANES>();
    let largest = largest(s, chunks, softmax.max);
    let correction = lanes::exp(s, s.splat(softmax.max - largest));
    for chunk in chunks.iter_mut() {
        s.store(lanes::exp(s, s.sub(s.load(chunk), s.splat(largest))), chunk);
    }
    let mut sum = s.splat(0.0);
    for chunk in chunks.iter() {
        sum = s.add(sum, s.load(chunk));
    }
    let mut factor = [0.0; LANES];
    s.store(correction, &mut factor);
    *softmax = Softmax { max: largest, sum: softmax.sum * factor[0] + s.reduce(sum) };
    add_values::<S, N>(s, &scores[..positions], values, factor[0], out);
}

#[inline(always)]
fn score<S: Lanes>(s: S, q: &[f32], keys: &[f32], scale: f32, scores: &mut [f32; ATTENTION_BLOCK]) {
    let d = q.len();
    let mut fours = keys.chunks_exact(4 * d);
    let mut at = 0;
    for four in &mut fours {
        let four = [&four[..d], &four[d..2 * d], &four[2 * d..3 * d], &four[3 * d..]];
        let [dots] = dots::<S, F32, 4, 1>(s, four, [q]);
        for dot in dots {
            scores[at] = dot * scale;
            at += 1;
        }
    }
    for key in fours.remainder().chunks_exact(d) {
        scores[at] = dots::<S, F32, 1, 1>(s, [key], [q])[0][0] * scale;
        at += 1;
    }
}

/// The largest score, `so_far` included; a score that is NaN is passed over.
#[inline(always)]
fn largest<S: Lanes>(s: S, scores: &[[f32; LANES]], so_far: f32) -> f32 {
    let mut largest = s.splat(so_far);
    for chunk in scores {
        largest = s.max(s.load(chunk), largest);
    }
    let mut lanes = [0.0; LANES];
    s.store(largest, &mut lanes);
    let mut largest = so_far;
    for lane in lanes {
        largest = if lane > largest { lane } else { largest };
    }
    // So that it does not show which of two zeros was met first.
    largest + 0.0
}

/// `out = out * factor`, then `out += scores[j] * values[j]` in the order of `j`.
#[inline(always)]
fn add_values<S: Lanes, const N: usize>(s: S, scores: &[f32], values: &[f32], factor: f32, out: &mut [f32]) {
    let d = out.len();
    let mut at = 0;
    while at + N * LANES <= d {
        panel::<S, N>(s, scores, values, factor, at, out);
        at += N * LANES;
    }
    while at + LANES <= d {
        panel::<S, 1>(s, scores, values, factor, at, out);
        at += LANES;
    }
    for (c, o) in out.iter_mut().enumerate().skip(at) {
        let mut sum = *o * factor;
        for (score, value) in scores.iter().zip(values.chunks_exact(d)) {
            sum += score * value[c];
        }
        *o = sum;
    }
}

#[inline(always)]
fn panel<S: Lanes, const N: usize>(s: S, scores: &[f32], values: &[f32], factor: f32, at: usize, out: &mut [f32]) {
    let (d, width) = (out.len(), N * LANES);
    let out = out[at..at + width].as_chunks_mut().0;
    let mut sums = [s.splat(0.0); N];
    for n in 0..N {
        sums[n] = s.mul(s.load(&out[n]), s.splat(factor));
    }
    for (score, row) in scores.iter().zip(values.chunks_exact(d)) {
        let (score, row) = (s.splat(*score), row[at..at + width].as_chunks().0);
        for n in 0..N {
            sums[n] = s.add(sums[n], s.mul(score, s.load(&row[n])));
        }
    }
    for n in 0..N {
        s.store(sums[n], &mut out[n]);
    }
}
