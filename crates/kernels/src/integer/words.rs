//! Dots of 16-bit words, for instruction sets without a product of bytes: weights are widened, activations are read from
//! the wide layout, which holds both precisions.

use super::{Block, ROWS, WeightBlocks};
use crate::quantized::BLOCK;

/// A product of signed words.
pub(crate) trait Words: Copy {
    /// Weights widened to words.
    type Weights: Copy;
    /// Partial sums.
    type Sums: Copy;
    /// How many words fit one register.
    const STEP: usize;
    /// How many sums can be held in registers.
    const SUMS: usize;

    fn zero(self) -> Self::Sums;
    /// The words from `STEP * step` on.
    fn weights(self, w: &[i8; BLOCK], step: usize) -> Self::Weights;
    /// `sums` and the products with the words from `STEP * step` on.
    fn add(self, sums: Self::Sums, w: Self::Weights, x: &[i16; BLOCK], step: usize) -> Self::Sums;
    /// The total of each of four.
    fn total(self, sums: [Self::Sums; ROWS]) -> [i32; ROWS];
}

#[inline(always)]
pub(crate) fn word_dots<W: Words, const T: usize>(isa: W, w: WeightBlocks<'_>, x: [Block<'_>; T]) -> [[i32; ROWS]; T] {
    let mut sums = [[isa.zero(); ROWS]; T];
    let group = ROWS.min(W::SUMS / T);
    for first in (0..ROWS).step_by(group) {
        for step in 0..BLOCK / W::STEP {
            for r in first..first + group {
                let weights = isa.weights(w[r], step);
                for t in 0..T {
                    sums[t][r] = isa.add(sums[t][r], weights, x[t].wide, step);
                }
            }
        }
    }
    let mut out = [[0; ROWS]; T];
    for t in 0..T {
        out[t] = isa.total(sums[t]);
    }
    out
}
