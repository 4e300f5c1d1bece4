//! The integer matrix extension of Arm: the lanes of NEON, integer dots of two rows and two tokens per instruction, and
//! those of the dot product extension for a single token.

use std::arch::aarch64::*;
use std::arch::asm;

use super::dotprod::{self, DotProd};
use super::neon::{self, Neon};
use super::table::{forward, table};
use crate::integer::{Block, Dots, ROWS, WeightBlocks, byte_dots};
use crate::quantized::{BLOCK, Precision};

table! {
    name: "i8mm",
    features: "neon,dotprod,i8mm",
    lanes: Neon::new(),
    dots: I8mm::new(),
    tokens: 8,
    paired_rows: 2,
    delta_panel: 2,
    value_panel: 4,
}

/// Proof that the CPU has the integer matrix extension.
#[derive(Clone, Copy)]
struct I8mm(DotProd);

impl I8mm {
    #[target_feature(enable = "neon,dotprod,i8mm")]
    #[inline]
    fn new() -> I8mm {
        I8mm(DotProd::new())
    }

    forward! {
        fn multiply(sums: int32x4_t, w: int8x16_t, x: int8x16_t) -> int32x4_t = multiply;
        fn pairs(a: &[i8; BLOCK], b: &[i8; BLOCK], step: usize) -> [int8x16_t; 2] = pairs;
        fn zero() -> int32x4_t = neon::zero;
        fn shift(sums: int32x4_t) -> int32x4_t = dotprod::shift;
        fn split(rows: [int32x4_t; 2]) -> [[i32; ROWS]; 2] = split;
    }

    /// Adds the products of rows `2i, 2i + 1` with tokens `2j, 2j + 1` to `sums[j][i]`.
    #[inline(always)]
    fn add_plane<const T: usize>(self, sums: &mut [[int32x4_t; 2]; T], w: WeightBlocks<'_>, x: [&[i8; BLOCK]; T]) {
        for step in 0..BLOCK / 16 {
            let rows = [self.pairs(w[0], w[1], step), self.pairs(w[2], w[3], step)];
            for j in 0..T / 2 {
                let tokens = self.pairs(x[2 * j], x[2 * j + 1], step);
                for i in 0..2 {
                    sums[j][i] = self.multiply(sums[j][i], rows[i][0], tokens[0]);
                    sums[j][i] = self.multiply(sums[j][i], rows[i][1], tokens[1]);
                }
            }
        }
    }
}

impl Dots for I8mm {
    #[inline(always)]
    fn block<const T: usize>(self, w: WeightBlocks<'_>, x: [Block<'_>; T]) -> [[i32; ROWS]; T] {
        if T % 2 == 1 {
            return byte_dots(self.0, w, x);
        }
        let mut sums = [[self.zero(); 2]; T];
        if x[0].precision == Precision::Sixteen {
            self.add_plane(&mut sums, w, x.map(|x| x.high));
            for sums in sums.as_flattened_mut() {
                *sums = self.shift(*sums);
            }
        }
        self.add_plane(&mut sums, w, x.map(|x| x.low));
        let mut out = [[0; ROWS]; T];
        for j in 0..T / 2 {
            [out[2 * j], out[2 * j + 1]] = self.split(sums[j]);
        }
        out
    }

    forward! {
        fn prefetch(from: &[i8; BLOCK], ahead: usize) -> () = neon::prefetch;
    }
}

/// Eight bytes of `a` next to eight of `b`, twice.
#[target_feature(enable = "neon")]
#[inline]
fn pairs(a: &[i8; BLOCK], b: &[i8; BLOCK], step: usize) -> [int8x16_t; 2] {
    let (a, b) = (vreinterpretq_s64_s8(neon::load(a, step)), vreinterpretq_s64_s8(neon::load(b, step)));
    [vreinterpretq_s8_s64(vzip1q_s64(a, b)), vreinterpretq_s8_s64(vzip2q_s64(a, b))]
}

/// Two rows by two tokens over eight bytes. The intrinsic for it is not stable yet.
#[target_feature(enable = "neon,i8mm")]
#[inline]
fn multiply(mut sums: int32x4_t, w: int8x16_t, x: int8x16_t) -> int32x4_t {
    // SAFETY: this function is compiled for the extension, and the instruction touches nothing but its registers.
    unsafe {
        asm!(
            "smmla {0:v}.4s, {1:v}.16b, {2:v}.16b",
            inout(vreg) sums, in(vreg) w, in(vreg) x,
            options(pure, nomem, nostack, preserves_flags)
        );
    }
    sums
}

/// Four rows of the first token, and of the second.
#[target_feature(enable = "neon")]
#[inline]
fn split(rows: [int32x4_t; 2]) -> [[i32; ROWS]; 2] {
    [neon::to_array(vuzp1q_s32(rows[0], rows[1])), neon::to_array(vuzp2q_s32(rows[0], rows[1]))]
}
