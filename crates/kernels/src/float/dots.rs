//! Sums of products in 16 lanes: rows of a matrix in any format and rows of activations go in, dots come out.

use crate::FloatRows;
use crate::lanes::{Lanes, padded};
use crate::portable::LANES;

/// A format of weights that can be read as `f32`.
pub(super) trait Format {
    type Item: Copy + Default;
    fn load<S: Lanes>(s: S, x: &[Self::Item; LANES]) -> S::Vector;
}

/// Formats of [`FloatRows`], and integers without their scale.
pub(super) struct F32;
struct Bf16;
struct F16;
struct I8;

impl Format for F32 {
    type Item = f32;
    #[inline(always)]
    fn load<S: Lanes>(s: S, x: &[f32; LANES]) -> S::Vector {
        s.load(x)
    }
}

impl Format for Bf16 {
    type Item = u16;
    #[inline(always)]
    fn load<S: Lanes>(s: S, x: &[u16; LANES]) -> S::Vector {
        s.load_bf16(x)
    }
}

impl Format for F16 {
    type Item = u16;
    #[inline(always)]
    fn load<S: Lanes>(s: S, x: &[u16; LANES]) -> S::Vector {
        s.load_f16(x)
    }
}

impl Format for I8 {
    type Item = i8;
    #[inline(always)]
    fn load<S: Lanes>(s: S, x: &[i8; LANES]) -> S::Vector {
        s.load_i8(x)
    }
}

/// The dots of `x` with itself or another row of its length.
#[inline(always)]
pub(super) fn dot<S: Lanes>(s: S, a: &[f32], b: &[f32]) -> f32 {
    dots::<S, F32, 1, 1>(s, [a], [b])[0][0]
}

/// The dots of `T` rows of activations with `R` rows of weights, all of one length. `R * T` sums are in flight, which
/// hides the latency of their additions.
///
/// Zeros after the end change nothing: a lane starts at `+0`, so that it never is `-0`.
#[inline(always)]
pub(super) fn dots<S: Lanes, W: Format, const R: usize, const T: usize>(
    s: S,
    w: [&[W::Item]; R],
    x: [&[f32]; T],
) -> [[f32; R]; T] {
    let mut sums = [[s.splat(0.0); R]; T];
    let chunks = x[0].len() / LANES;
    let (mut weights, mut values) = ([&w[0].as_chunks().0[..0]; R], [&x[0].as_chunks().0[..0]; T]);
    for r in 0..R {
        weights[r] = &w[r].as_chunks().0[..chunks];
    }
    for t in 0..T {
        values[t] = &x[t].as_chunks().0[..chunks];
    }
    for i in 0..chunks {
        let mut row = [s.splat(0.0); R];
        for r in 0..R {
            row[r] = W::load(s, &weights[r][i]);
        }
        for t in 0..T {
            add_products(s, &mut sums[t], row, s.load(&values[t][i]));
        }
    }
    let done = chunks * LANES;
    if done < x[0].len() {
        let mut row = [s.splat(0.0); R];
        for r in 0..R {
            row[r] = W::load(s, &padded(&w[r][done..]));
        }
        for t in 0..T {
            add_products(s, &mut sums[t], row, s.load(&padded(&x[t][done..])));
        }
    }
    let mut out = [[0.0; R]; T];
    for t in 0..T {
        out[t] = reduce(s, sums[t]);
    }
    out
}

#[inline(always)]
fn add_products<S: Lanes, const R: usize>(s: S, sums: &mut [S::Vector; R], w: [S::Vector; R], x: S::Vector) {
    for r in 0..R {
        sums[r] = s.add(sums[r], s.mul(w[r], x));
    }
}

#[inline(always)]
fn reduce<S: Lanes, const R: usize>(s: S, sums: [S::Vector; R]) -> [f32; R] {
    let mut out = [0.0; R];
    let (fours, rest) = sums.as_chunks::<4>();
    for (out, four) in out.chunks_exact_mut(4).zip(fours) {
        out.copy_from_slice(&s.reduce_four(*four));
    }
    for (out, one) in out[R - rest.len()..].iter_mut().zip(rest) {
        *out = s.reduce(*one);
    }
    out
}

/// `out[t, r]` for all rows, each row of weights read from memory once: four rows for a single token, `PAIRED` for two.
#[inline(always)]
fn project<S: Lanes, W: Format, const PAIRED: usize>(
    s: S,
    w: &[W::Item],
    k: usize,
    scales: Option<&[f32]>,
    x: &[f32],
    out: &mut [f32],
) {
    let rows = w.len() / k;
    let tokens = x.len() / k;
    let mut first = 0;
    while first + 4 <= rows {
        let mut token = 0;
        while token + 2 <= tokens {
            let pair = [&x[token * k..][..k], &x[(token + 1) * k..][..k]];
            for part in (0..4).step_by(PAIRED) {
                let dots = dots::<S, W, PAIRED, 2>(s, rows_from::<W, PAIRED>(w, k, first + part), pair);
                for (t, dots) in dots.iter().enumerate() {
                    out[(token + t) * rows + first + part..][..PAIRED].copy_from_slice(dots);
                }
            }
            token += 2;
        }
        if token < tokens {
            let [dots] = dots::<S, W, 4, 1>(s, rows_from::<W, 4>(w, k, first), [&x[token * k..][..k]]);
            out[token * rows + first..][..4].copy_from_slice(&dots);
        }
        first += 4;
    }
    for row in first..rows {
        for token in 0..tokens {
            let [[dot]] = dots::<S, W, 1, 1>(s, rows_from::<W, 1>(w, k, row), [&x[token * k..][..k]]);
            out[token * rows + row] = dot;
        }
    }
    if let Some(scales) = scales {
        for out in out.chunks_exact_mut(rows) {
            for (o, scale) in out.iter_mut().zip(scales) {
                *o *= scale;
            }
        }
    }
}

#[inline(always)]
fn rows_from<W: Format, const R: usize>(w: &[W::Item], k: usize, first: usize) -> [&[W::Item]; R] {
    let mut rows = [&w[..0]; R];
    for (r, row) in rows.iter_mut().enumerate() {
        *row = &w[(first + r) * k..][..k];
    }
    rows
}

#[inline(always)]
pub(crate) fn project_float<S: Lanes, const PAIRED: usize>(
    s: S,
    w: FloatRows<'_>,
    k: usize,
    x: &[f32],
    out: &mut [f32],
) {
    match w {
        FloatRows::F32(w) => project::<S, F32, PAIRED>(s, w, k, None, x, out),
        FloatRows::Bf16(w) => project::<S, Bf16, PAIRED>(s, w, k, None, x, out),
        FloatRows::F16(w) => project::<S, F16, PAIRED>(s, w, k, None, x, out),
    }
}

#[inline(always)]
pub(crate) fn project_i8_f32<S: Lanes, const PAIRED: usize>(
    s: S,
    w: &[i8],
    scales: &[f32],
    x: &[f32],
    out: &mut [f32],
) {
    if w.is_empty() {
        out.fill(0.0);
        return;
    }
    project::<S, I8, PAIRED>(s, w, w.len() / scales.len(), Some(scales), x, out);
}
