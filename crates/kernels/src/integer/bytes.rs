//! Dots of bytes, four to a lane of 32 bits: the high plane first, if there is one, then times 256 the low plane.

use super::{Block, ROWS, WeightBlocks};
use crate::quantized::{BLOCK, Precision};

/// A product of bytes that adds up four neighbours.
pub(crate) trait Bytes: Copy {
    /// Weights as the product takes them.
    type Weights: Copy;
    /// Partial sums, which wrap around.
    type Sums: Copy;
    /// How many bytes fit one register.
    const STEP: usize;
    /// What [`weights`](Self::weights) adds to each weight, because the product wants them unsigned.
    const OFFSET: i32;

    fn zero(self) -> Self::Sums;
    /// The bytes from `STEP * step` on.
    fn weights(self, w: &[i8; BLOCK], step: usize) -> Self::Weights;
    /// `sums` and the products with the bytes from `STEP * step` on.
    fn add(self, sums: Self::Sums, w: Self::Weights, x: &[i8; BLOCK], step: usize) -> Self::Sums;
    /// `256 * sums`.
    fn shift(self, sums: Self::Sums) -> Self::Sums;
    /// The total of each of four.
    fn total(self, sums: [Self::Sums; ROWS]) -> [i32; ROWS];
}

/// Intermediate sums may wrap around; the result fits, so that it is exact.
#[inline(always)]
pub(crate) fn byte_dots<B: Bytes, const T: usize>(isa: B, w: WeightBlocks<'_>, x: [Block<'_>; T]) -> [[i32; ROWS]; T] {
    let mut sums = [[isa.zero(); ROWS]; T];
    if T > 0 && x[0].precision == Precision::Sixteen {
        add_plane(isa, &mut sums, w, x.map(|x| x.high));
        for sums in sums.as_flattened_mut() {
            *sums = isa.shift(*sums);
        }
    }
    add_plane(isa, &mut sums, w, x.map(|x| x.low));
    let mut out = [[0i32; ROWS]; T];
    for t in 0..T {
        let offset = B::OFFSET * x[t].sum;
        out[t] = isa.total(sums[t]).map(|total| total.wrapping_sub(offset));
    }
    out
}

#[inline(always)]
fn add_plane<B: Bytes, const T: usize>(
    isa: B,
    sums: &mut [[B::Sums; ROWS]; T],
    w: WeightBlocks<'_>,
    x: [&[i8; BLOCK]; T],
) {
    for step in 0..BLOCK / B::STEP {
        for r in 0..ROWS {
            let weights = isa.weights(w[r], step);
            for t in 0..T {
                sums[t][r] = isa.add(sums[t][r], weights, x[t], step);
            }
        }
    }
}
