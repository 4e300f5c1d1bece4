//! Integer weights times integer activations, written once over [`Dots`]: four rows of weights by a few tokens at a time;
//! it never reads outside the weights, which may end where a mapped file ends.

mod bytes;
mod words;

pub(crate) use bytes::{Bytes, byte_dots};
pub(crate) use words::{Words, word_dots};

use crate::quantized::{BLOCK, Precision, QuantizedRow};

/// One block of weights of four rows.
pub(crate) type WeightBlocks<'a> = [&'a [i8; BLOCK]; ROWS];

/// Rows that are computed together: their horizontal sums share instructions.
pub(crate) const ROWS: usize = 4;

/// Four rows shorter than a page share pages, and the hardware, which follows one stream in each, does not see where they
/// lead. They are then asked for in the order of their addresses, so far ahead (measured on Zen 3). Long rows are better
/// left to the hardware.
const PAGE: usize = 4096;
const AHEAD: usize = 8192;

/// One block of activations, in all layouts of a [`QuantizedRow`].
#[derive(Clone, Copy)]
pub(crate) struct Block<'a> {
    pub(crate) wide: &'a [i16; BLOCK],
    pub(crate) high: &'a [i8; BLOCK],
    pub(crate) low: &'a [i8; BLOCK],
    pub(crate) sum: i32,
    pub(crate) precision: Precision,
}

/// What an instruction set contributes: the exact dots of one block. A value of an implementing type is a proof that the
/// running CPU has the instructions.
pub(crate) trait Dots: Copy {
    /// `w[r] . x[t]` for four rows and `T` tokens.
    fn block<const T: usize>(self, w: WeightBlocks<'_>, x: [Block<'_>; T]) -> [[i32; ROWS]; T];

    /// Asks for the [`BLOCK`] bytes at `from + ahead`, which need not exist.
    fn prefetch(self, from: &[i8; BLOCK], ahead: usize);
}

/// See [`Kernels::project_i8`](crate::Kernels::project_i8). Takes `T` tokens at a time while there are as many,
/// then two, then one.
#[inline(always)]
pub(crate) fn project_i8<D: Dots, const T: usize>(d: D, w: &[i8], scales: &[f32], x: &[QuantizedRow], out: &mut [f32]) {
    let (rows, k) = (scales.len(), x.first().map_or(0, |x| x.len));
    for first in (0..rows).step_by(ROWS) {
        // Where fewer than four rows are left, the last stands in for those that are missing.
        let mut group = [&w[..0]; ROWS];
        for (r, row) in group.iter_mut().enumerate() {
            *row = &w[(first + r).min(rows - 1) * k..][..k];
        }
        let (many, rest) = x.as_chunks::<T>();
        let (pairs, single) = rest.as_chunks::<2>();
        let mut token = 0;
        for x in many {
            finish(tile(d, group, x), token, first, scales, out);
            token += T;
        }
        for x in pairs {
            finish(tile(d, group, x), token, first, scales, out);
            token += 2;
        }
        for x in single {
            finish(tile(d, group, std::array::from_ref(x)), token, first, scales, out);
        }
    }
}

/// Scales the sums of `T` tokens from `token` on, of the rows from `first` on, of which there may be fewer than four.
#[inline(always)]
fn finish<const T: usize>(sums: [[f32; ROWS]; T], token: usize, first: usize, scales: &[f32], out: &mut [f32]) {
    let rows = scales.len();
    for (t, sums) in sums.iter().enumerate() {
        let out = &mut out[(token + t) * rows..][..rows];
        for ((out, scale), sum) in out[first..].iter_mut().zip(&scales[first..]).zip(sums) {
            *out = sum * scale;
        }
    }
}

/// The sums over all blocks, in order, of the dots times the scales of the activations.
#[inline(always)]
fn tile<D: Dots, const T: usize>(d: D, w: [&[i8]; ROWS], x: &[QuantizedRow; T]) -> [[f32; ROWS]; T] {
    let k = w[0].len();
    let whole = k / BLOCK;
    let mut blocks = [&w[0].as_chunks::<BLOCK>().0[..0]; ROWS];
    for (blocks, row) in blocks.iter_mut().zip(w) {
        *blocks = &row.as_chunks().0[..whole];
    }
    let mut rows = [Planes::of(&x[0], k.div_ceil(BLOCK)); T];
    for t in 1..T {
        rows[t] = Planes::of(&x[t], k.div_ceil(BLOCK));
    }
    let mut sums = [[0.0f32; ROWS]; T];
    for b in 0..whole {
        let w = [&blocks[0][b], &blocks[1][b], &blocks[2][b], &blocks[3][b]];
        if T == 1 && k < PAGE {
            for line in 0..ROWS {
                d.prefetch(&blocks[0][0], AHEAD + (ROWS * b + line) * BLOCK);
            }
        }
        add_block(d, w, &rows, b, &mut sums);
    }
    if whole * BLOCK < k {
        let mut last = [[0; BLOCK]; ROWS];
        for (last, row) in last.iter_mut().zip(w) {
            last[..k - whole * BLOCK].copy_from_slice(&row[whole * BLOCK..]);
        }
        add_block(d, last.each_ref(), &rows, whole, &mut sums);
    }
    sums
}

/// The layouts of a row, cut into blocks.
#[derive(Clone, Copy)]
struct Planes<'a> {
    wide: &'a [[i16; BLOCK]],
    high: &'a [[i8; BLOCK]],
    low: &'a [[i8; BLOCK]],
    sums: &'a [i32],
    scales: &'a [f32],
    precision: Precision,
}

impl<'a> Planes<'a> {
    #[inline(always)]
    fn of(row: &'a QuantizedRow, blocks: usize) -> Planes<'a> {
        Planes {
            wide: &row.wide.as_chunks().0[..blocks],
            high: &row.high.as_chunks().0[..blocks],
            low: &row.low.as_chunks().0[..blocks],
            sums: &row.sums[..blocks],
            scales: &row.scales[..blocks],
            precision: row.precision,
        }
    }

    #[inline(always)]
    fn block(&self, b: usize) -> Block<'a> {
        Block {
            wide: &self.wide[b],
            high: &self.high[b],
            low: &self.low[b],
            sum: self.sums[b],
            precision: self.precision,
        }
    }
}

#[inline(always)]
fn add_block<D: Dots, const T: usize>(
    d: D,
    w: WeightBlocks<'_>,
    rows: &[Planes<'_>; T],
    b: usize,
    sums: &mut [[f32; ROWS]; T],
) {
    let mut x = [rows[0].block(b); T];
    for t in 1..T {
        x[t] = rows[t].block(b);
    }
    let dots = d.block(w, x);
    for t in 0..T {
        let scale = rows[t].scales[b];
        for r in 0..ROWS {
            sums[t][r] += dots[t][r] as f32 * scale;
        }
    }
}
