//! The gated delta rule: a head's state and one token's vectors go in, the output and the new state come out.

use super::dots::dot;
use crate::lanes::Lanes;
use crate::portable::{self, LANES};

/// What all columns share.
struct Step<'a> {
    q: &'a [f32],
    k: &'a [f32],
    decay: f32,
    beta: f32,
    kq: f32,
}

/// Panels of `16 * N` columns, whose sums stay in registers: each panel of the state is read for the sums, and again,
/// from the cache, for the update.
#[expect(clippy::too_many_arguments, reason = "the rule has that many operands")]
#[inline(always)]
pub(crate) fn delta_step<S: Lanes, const N: usize>(
    s: S,
    state: &mut [f32],
    q: &[f32],
    k: &[f32],
    v: &[f32],
    decay: f32,
    beta: f32,
    out: &mut [f32],
) {
    let step = Step { q, k, decay, beta, kq: dot(s, k, q) };
    let mut at = 0;
    while at + N * LANES <= v.len() {
        panel::<S, N>(s, &step, at, state, v, out);
        at += N * LANES;
    }
    while at + LANES <= v.len() {
        panel::<S, 1>(s, &step, at, state, v, out);
        at += LANES;
    }
    portable::delta_columns(at, state, q, k, v, decay, beta, step.kq, out);
}

#[inline(always)]
fn panel<S: Lanes, const N: usize>(s: S, step: &Step<'_>, at: usize, state: &mut [f32], v: &[f32], out: &mut [f32]) {
    let (dv, width) = (v.len(), N * LANES);
    let (decay, beta, kq) = (s.splat(step.decay), s.splat(step.beta), s.splat(step.kq));
    let mut r = [s.splat(0.0); N];
    let mut p = [s.splat(0.0); N];
    for (row, (k, q)) in state.chunks_exact(dv).zip(step.k.iter().zip(step.q)) {
        let row = row[at..at + width].as_chunks().0;
        let (k, q) = (s.splat(*k), s.splat(*q));
        for n in 0..N {
            let x = s.load(&row[n]);
            r[n] = s.add(r[n], s.mul(x, k));
            p[n] = s.add(p[n], s.mul(x, q));
        }
    }
    let (v, out) = (v[at..at + width].as_chunks().0, out[at..at + width].as_chunks_mut().0);
    let mut d = r;
    for n in 0..N {
        d[n] = s.mul(beta, s.sub(s.load(&v[n]), s.mul(decay, r[n])));
        s.store(s.add(s.mul(decay, p[n]), s.mul(d[n], kq)), &mut out[n]);
    }
    for (row, k) in state.chunks_exact_mut(dv).zip(step.k) {
        let row = row[at..at + width].as_chunks_mut().0;
        let k = s.splat(*k);
        for n in 0..N {
            s.store(s.add(s.mul(decay, s.load(&row[n])), s.mul(k, d[n])), &mut row[n]);
        }
    }
}
