//! The dot product extension of Arm: the lanes of NEON, integer dots by bytes.

use std::arch::aarch64::*;
use std::arch::asm;

use super::neon::{self, Neon};
use super::table::{forward, table};
use crate::integer::{Block, Bytes, Dots, ROWS, WeightBlocks, byte_dots};
use crate::quantized::BLOCK;

table! {
    name: "dotprod",
    features: "neon,dotprod",
    lanes: Neon::new(),
    dots: DotProd::new(),
    tokens: 4,
    paired_rows: 2,
    delta_panel: 2,
    value_panel: 4,
}

/// Proof that the CPU has the dot product extension.
#[derive(Clone, Copy)]
pub(super) struct DotProd(());

impl DotProd {
    #[target_feature(enable = "neon,dotprod")]
    #[inline]
    pub(super) fn new() -> DotProd {
        DotProd(())
    }
}

impl Dots for DotProd {
    #[inline(always)]
    fn block<const T: usize>(self, w: WeightBlocks<'_>, x: [Block<'_>; T]) -> [[i32; ROWS]; T] {
        byte_dots(self, w, x)
    }

    forward! {
        fn prefetch(from: &[i8; BLOCK], ahead: usize) -> () = neon::prefetch;
    }
}

impl Bytes for DotProd {
    type Weights = int8x16_t;
    type Sums = int32x4_t;
    const STEP: usize = 16;
    const OFFSET: i32 = 0;

    forward! {
        fn zero() -> int32x4_t = neon::zero;
        fn weights(w: &[i8; BLOCK], step: usize) -> int8x16_t = neon::load;
        fn add(sums: int32x4_t, w: int8x16_t, x: &[i8; BLOCK], step: usize) -> int32x4_t = add;
        fn shift(sums: int32x4_t) -> int32x4_t = shift;
        fn total(sums: [int32x4_t; ROWS]) -> [i32; ROWS] = neon::total;
    }
}

/// The intrinsic for it is not stable yet.
#[target_feature(enable = "neon,dotprod")]
#[inline]
fn add(mut sums: int32x4_t, w: int8x16_t, x: &[i8; BLOCK], step: usize) -> int32x4_t {
    let x = neon::load(x, step);
    // SAFETY: this function is compiled for the extension, and the instruction touches nothing but its registers.
    unsafe {
        asm!(
            "sdot {0:v}.4s, {1:v}.16b, {2:v}.16b",
            inout(vreg) sums, in(vreg) w, in(vreg) x,
            options(pure, nomem, nostack, preserves_flags)
        );
    }
    sums
}

#[target_feature(enable = "neon")]
#[inline]
pub(super) fn shift(sums: int32x4_t) -> int32x4_t {
    vshlq_n_s32::<8>(sums)
}
