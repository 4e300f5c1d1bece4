//! NEON, which every 64-bit Arm has: sixteen lanes in four registers, integer dots by words.

use std::arch::aarch64::*;
use std::arch::asm;

use super::table::{forward, table};
use crate::integer::{Block, Dots, ROWS, WeightBlocks, Words, word_dots};
use crate::lanes::Lanes;
use crate::portable::LANES;
use crate::quantized::BLOCK;

table! {
    name: "neon",
    features: "neon",
    lanes: Neon::new(),
    dots: Neon::new(),
    tokens: 4,
    paired_rows: 2,
    delta_panel: 2,
    value_panel: 4,
}

/// Proof that the CPU has NEON.
#[derive(Clone, Copy)]
pub(super) struct Neon(());

impl Neon {
    #[target_feature(enable = "neon")]
    #[inline]
    pub(super) fn new() -> Neon {
        Neon(())
    }
}

type Quad = [float32x4_t; 4];

impl Lanes for Neon {
    type Vector = Quad;

    forward! {
        fn splat(x: f32) -> Quad = lanes::splat;
        fn load(x: &[f32; LANES]) -> Quad = lanes::load;
        fn load_bf16(x: &[u16; LANES]) -> Quad = lanes::load_bf16;
        fn load_f16(x: &[u16; LANES]) -> Quad = lanes::load_f16;
        fn load_i8(x: &[i8; LANES]) -> Quad = lanes::load_i8;
        fn store(v: Quad, to: &mut [f32; LANES]) -> () = lanes::store;
        fn add(a: Quad, b: Quad) -> Quad = lanes::add;
        fn sub(a: Quad, b: Quad) -> Quad = lanes::sub;
        fn mul(a: Quad, b: Quad) -> Quad = lanes::mul;
        fn div(a: Quad, b: Quad) -> Quad = lanes::div;
        fn max(a: Quad, b: Quad) -> Quad = lanes::max;
        fn min(a: Quad, b: Quad) -> Quad = lanes::min;
        fn select_gt(a: Quad, b: Quad, then: Quad, otherwise: Quad) -> Quad = lanes::select_gt;
        fn max_magnitude(largest: Quad, x: Quad) -> Quad = lanes::max_magnitude;
        fn exponent(a: Quad) -> Quad = lanes::exponent;
        fn reduce(v: Quad) -> f32 = lanes::reduce;
        fn reduce_four(v: [Quad; 4]) -> [f32; 4] = lanes::reduce_four;
    }
}

/// The operations of [`Lanes`].
mod lanes {
    use super::*;

    /// Applies an operation to each of the four registers.
    macro_rules! each {
        ($i:ident => $operation:expr) => {{
            let part = |$i: usize| $operation;
            [part(0), part(1), part(2), part(3)]
        }};
    }

    #[target_feature(enable = "neon")]
    #[inline]
    pub(super) fn splat(x: f32) -> Quad {
        [vdupq_n_f32(x); 4]
    }

    #[target_feature(enable = "neon")]
    #[inline]
    pub(super) fn load(x: &[f32; LANES]) -> Quad {
        let x = x.as_chunks::<4>().0;
        // SAFETY: `x[i]` has the four values that are read.
        each!(i => unsafe { vld1q_f32(x[i].as_ptr()) })
    }

    #[target_feature(enable = "neon")]
    #[inline]
    fn load_words(x: &[u16; LANES], i: usize) -> uint16x4_t {
        let x = &x.as_chunks::<4>().0[i];
        // SAFETY: `x` has the four values that are read.
        unsafe { vld1_u16(x.as_ptr()) }
    }

    #[target_feature(enable = "neon")]
    #[inline]
    pub(super) fn load_bf16(x: &[u16; LANES]) -> Quad {
        each!(i => vreinterpretq_f32_u32(vshll_n_u16::<16>(load_words(x, i))))
    }

    #[target_feature(enable = "neon")]
    #[inline]
    pub(super) fn load_f16(x: &[u16; LANES]) -> Quad {
        each!(i => widen_f16(load_words(x, i)))
    }

    #[target_feature(enable = "neon")]
    #[inline]
    fn widen_f16(x: uint16x4_t) -> float32x4_t {
        let widened;
        // SAFETY: the instruction is part of the baseline, and touches nothing but its registers.
        unsafe {
            asm!("fcvtl {0:v}.4s, {1:v}.4h", out(vreg) widened, in(vreg) x, options(pure, nomem, nostack, preserves_flags));
        }
        widened
    }

    #[target_feature(enable = "neon")]
    #[inline]
    pub(super) fn load_i8(x: &[i8; LANES]) -> Quad {
        // SAFETY: `x` has the sixteen values that are read.
        let bytes = unsafe { vld1q_s8(x.as_ptr()) };
        let words = [vmovl_s8(vget_low_s8(bytes)), vmovl_high_s8(bytes)];
        let low = |i: usize| vcvtq_f32_s32(vmovl_s16(vget_low_s16(words[i])));
        let high = |i: usize| vcvtq_f32_s32(vmovl_high_s16(words[i]));
        [low(0), high(0), low(1), high(1)]
    }

    #[target_feature(enable = "neon")]
    #[inline]
    pub(super) fn store(v: Quad, to: &mut [f32; LANES]) {
        for (to, v) in to.as_chunks_mut::<4>().0.iter_mut().zip(v) {
            // SAFETY: `to` has room for the four values that are written.
            unsafe { vst1q_f32(to.as_mut_ptr(), v) };
        }
    }

    #[target_feature(enable = "neon")]
    #[inline]
    pub(super) fn add(a: Quad, b: Quad) -> Quad {
        each!(i => vaddq_f32(a[i], b[i]))
    }

    #[target_feature(enable = "neon")]
    #[inline]
    pub(super) fn sub(a: Quad, b: Quad) -> Quad {
        each!(i => vsubq_f32(a[i], b[i]))
    }

    #[target_feature(enable = "neon")]
    #[inline]
    pub(super) fn mul(a: Quad, b: Quad) -> Quad {
        each!(i => vmulq_f32(a[i], b[i]))
    }

    #[target_feature(enable = "neon")]
    #[inline]
    pub(super) fn div(a: Quad, b: Quad) -> Quad {
        each!(i => vdivq_f32(a[i], b[i]))
    }

    #[target_feature(enable = "neon")]
    #[inline]
    pub(super) fn max(a: Quad, b: Quad) -> Quad {
        select_gt(a, b, a, b)
    }

    #[target_feature(enable = "neon")]
    #[inline]
    pub(super) fn min(a: Quad, b: Quad) -> Quad {
        select_gt(b, a, a, b)
    }

    #[target_feature(enable = "neon")]
    #[inline]
    pub(super) fn select_gt(a: Quad, b: Quad, then: Quad, otherwise: Quad) -> Quad {
        each!(i => vbslq_f32(vcgtq_f32(a[i], b[i]), then[i], otherwise[i]))
    }

    #[target_feature(enable = "neon")]
    #[inline]
    pub(super) fn max_magnitude(largest: Quad, x: Quad) -> Quad {
        each!(i => {
            let magnitude = vreinterpretq_u32_f32(vabsq_f32(x[i]));
            vreinterpretq_f32_u32(vmaxq_u32(vreinterpretq_u32_f32(largest[i]), magnitude))
        })
    }

    #[target_feature(enable = "neon")]
    #[inline]
    pub(super) fn exponent(a: Quad) -> Quad {
        each!(i => vreinterpretq_f32_u32(vshlq_n_u32::<23>(vreinterpretq_u32_f32(a[i]))))
    }

    /// Lanes `l` and `l + 8`, then `l` and `l + 4`: four are left.
    #[target_feature(enable = "neon")]
    #[inline]
    fn fold(v: Quad) -> float32x4_t {
        vaddq_f32(vaddq_f32(v[0], v[2]), vaddq_f32(v[1], v[3]))
    }

    #[target_feature(enable = "neon")]
    #[inline]
    pub(super) fn reduce(v: Quad) -> f32 {
        let four = fold(v);
        let two = vadd_f32(vget_low_f32(four), vget_high_f32(four));
        vget_lane_f32::<0>(vpadd_f32(two, two))
    }

    #[target_feature(enable = "neon")]
    #[inline]
    pub(super) fn reduce_four(v: [Quad; 4]) -> [f32; 4] {
        // Lanes l and l + 2 of two of them; neighbours are lanes l and l + 1.
        let two = |a: float32x4_t, b: float32x4_t| {
            let low = vcombine_f32(vget_low_f32(a), vget_low_f32(b));
            vaddq_f32(low, vcombine_f32(vget_high_f32(a), vget_high_f32(b)))
        };
        let sums = vpaddq_f32(two(fold(v[0]), fold(v[1])), two(fold(v[2]), fold(v[3])));
        let mut out = [0.0; 4];
        // SAFETY: `out` has room for the four values that are written.
        unsafe { vst1q_f32(out.as_mut_ptr(), sums) };
        out
    }
}

impl Dots for Neon {
    #[inline(always)]
    fn block<const T: usize>(self, w: WeightBlocks<'_>, x: [Block<'_>; T]) -> [[i32; ROWS]; T] {
        word_dots(self, w, x)
    }

    forward! {
        fn prefetch(from: &[i8; BLOCK], ahead: usize) -> () = prefetch;
    }
}

impl Words for Neon {
    type Weights = int16x8x2_t;
    type Sums = int32x4_t;
    const STEP: usize = 16;
    const SUMS: usize = 16;

    forward! {
        fn zero() -> int32x4_t = zero;
        fn weights(w: &[i8; BLOCK], step: usize) -> int16x8x2_t = words::weights;
        fn add(sums: int32x4_t, w: int16x8x2_t, x: &[i16; BLOCK], step: usize) -> int32x4_t = words::add;
        fn total(sums: [int32x4_t; ROWS]) -> [i32; ROWS] = total;
    }
}

/// The operations of [`Words`].
mod words {
    use super::*;

    #[target_feature(enable = "neon")]
    #[inline]
    pub(super) fn weights(w: &[i8; BLOCK], step: usize) -> int16x8x2_t {
        let w = load(w, step);
        int16x8x2_t(vmovl_s8(vget_low_s8(w)), vmovl_high_s8(w))
    }

    #[target_feature(enable = "neon")]
    #[inline]
    pub(super) fn add(sums: int32x4_t, w: int16x8x2_t, x: &[i16; BLOCK], step: usize) -> int32x4_t {
        let x = &x.as_chunks::<16>().0[step];
        // SAFETY: `x` has the sixteen words that are read.
        let x = unsafe { vld1q_s16_x2(x.as_ptr()) };
        let sums = vmlal_s16(sums, vget_low_s16(w.0), vget_low_s16(x.0));
        let sums = vmlal_high_s16(sums, w.0, x.0);
        let sums = vmlal_s16(sums, vget_low_s16(w.1), vget_low_s16(x.1));
        vmlal_high_s16(sums, w.1, x.1)
    }
}

/// The bytes from `16 * step` on.
#[target_feature(enable = "neon")]
#[inline]
pub(super) fn load(x: &[i8; BLOCK], step: usize) -> int8x16_t {
    let x = &x.as_chunks::<16>().0[step];
    // SAFETY: `x` has the sixteen bytes that are read.
    unsafe { vld1q_s8(x.as_ptr()) }
}

#[target_feature(enable = "neon")]
#[inline]
pub(super) fn zero() -> int32x4_t {
    vdupq_n_s32(0)
}

/// The sums of the lanes of four registers.
#[target_feature(enable = "neon")]
#[inline]
pub(super) fn total(sums: [int32x4_t; ROWS]) -> [i32; ROWS] {
    to_array(vpaddq_s32(vpaddq_s32(sums[0], sums[1]), vpaddq_s32(sums[2], sums[3])))
}

#[target_feature(enable = "neon")]
#[inline]
pub(super) fn to_array(v: int32x4_t) -> [i32; ROWS] {
    let mut out = [0; ROWS];
    // SAFETY: `out` has room for the four values that are written.
    unsafe { vst1q_s32(out.as_mut_ptr(), v) };
    out
}

#[target_feature(enable = "neon")]
#[inline]
pub(super) fn prefetch(from: &[i8; BLOCK], ahead: usize) {
    let base = from.as_ptr().wrapping_add(ahead);
    for line in [0, 64] {
        // SAFETY: a prefetch reads nothing, whatever the address.
        unsafe { asm!("prfm pldl1keep, [{0}]", in(reg) base.wrapping_add(line), options(nostack, preserves_flags)) };
    }
}
