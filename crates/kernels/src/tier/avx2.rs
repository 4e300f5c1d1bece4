//! AVX2 with F16C: sixteen lanes in two registers, integer dots by words.

use std::arch::asm;
use std::arch::x86_64::*;

use crate::integer::{Block, Dots, ROWS, WeightBlocks, Words, word_dots};
use crate::lanes::Lanes;
use crate::portable::LANES;
use crate::quantized::BLOCK;
use crate::tier::table::{forward, table};

table! {
    name: "avx2",
    features: "avx2,f16c",
    lanes: Avx2::new(),
    dots: Avx2::new(),
    tokens: 4,
    paired_rows: 2,
    delta_panel: 2,
    value_panel: 4,
}

/// Proof that the CPU has AVX2 and F16C.
#[derive(Clone, Copy)]
pub(super) struct Avx2(());

impl Avx2 {
    #[target_feature(enable = "avx2,f16c")]
    #[inline]
    pub(super) fn new() -> Avx2 {
        Avx2(())
    }
}

type Pair = [__m256; 2];

impl Lanes for Avx2 {
    type Vector = Pair;

    forward! {
        fn splat(x: f32) -> Pair = lanes::splat;
        fn load(x: &[f32; LANES]) -> Pair = lanes::load;
        fn load_bf16(x: &[u16; LANES]) -> Pair = lanes::load_bf16;
        fn load_f16(x: &[u16; LANES]) -> Pair = lanes::load_f16;
        fn load_i8(x: &[i8; LANES]) -> Pair = lanes::load_i8;
        fn store(v: Pair, to: &mut [f32; LANES]) -> () = lanes::store;
        fn add(a: Pair, b: Pair) -> Pair = lanes::add;
        fn sub(a: Pair, b: Pair) -> Pair = lanes::sub;
        fn mul(a: Pair, b: Pair) -> Pair = lanes::mul;
        fn div(a: Pair, b: Pair) -> Pair = lanes::div;
        fn max(a: Pair, b: Pair) -> Pair = lanes::max;
        fn min(a: Pair, b: Pair) -> Pair = lanes::min;
        fn select_gt(a: Pair, b: Pair, then: Pair, otherwise: Pair) -> Pair = lanes::select_gt;
        fn max_magnitude(largest: Pair, x: Pair) -> Pair = lanes::max_magnitude;
        fn exponent(a: Pair) -> Pair = lanes::exponent;
        fn reduce(v: Pair) -> f32 = lanes::reduce;
        fn reduce_four(v: [Pair; 4]) -> [f32; 4] = lanes::reduce_four;
    }
}

/// The operations of [`Lanes`].
mod lanes {
    use super::*;

    #[target_feature(enable = "avx2")]
    #[inline]
    pub(super) fn splat(x: f32) -> Pair {
        [_mm256_set1_ps(x); 2]
    }

    #[target_feature(enable = "avx2")]
    #[inline]
    pub(super) fn load(x: &[f32; LANES]) -> Pair {
        let half = |i: usize| {
            let x = &x.as_chunks::<8>().0[i];
            // SAFETY: `x` has the eight values that are read.
            unsafe { _mm256_loadu_ps(x.as_ptr()) }
        };
        [half(0), half(1)]
    }

    #[target_feature(enable = "avx2")]
    #[inline]
    fn load_words(x: &[u16; LANES], i: usize) -> __m128i {
        let x = &x.as_chunks::<8>().0[i];
        // SAFETY: `x` has the eight values that are read.
        unsafe { _mm_loadu_si128(x.as_ptr().cast()) }
    }

    #[target_feature(enable = "avx2")]
    #[inline]
    pub(super) fn load_bf16(x: &[u16; LANES]) -> Pair {
        let half = |i| _mm256_castsi256_ps(_mm256_slli_epi32::<16>(_mm256_cvtepu16_epi32(load_words(x, i))));
        [half(0), half(1)]
    }

    #[target_feature(enable = "avx2,f16c")]
    #[inline]
    pub(super) fn load_f16(x: &[u16; LANES]) -> Pair {
        [_mm256_cvtph_ps(load_words(x, 0)), _mm256_cvtph_ps(load_words(x, 1))]
    }

    #[target_feature(enable = "avx2")]
    #[inline]
    pub(super) fn load_i8(x: &[i8; LANES]) -> Pair {
        let half = |i: usize| {
            let x = &x.as_chunks::<8>().0[i];
            // SAFETY: `x` has the eight values that are read.
            let bytes = unsafe { _mm_loadl_epi64(x.as_ptr().cast()) };
            _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes))
        };
        [half(0), half(1)]
    }

    #[target_feature(enable = "avx2")]
    #[inline]
    pub(super) fn store(v: Pair, to: &mut [f32; LANES]) {
        for (to, v) in to.as_chunks_mut::<8>().0.iter_mut().zip(v) {
            // SAFETY: `to` has room for the eight values that are written.
            unsafe { _mm256_storeu_ps(to.as_mut_ptr(), v) };
        }
    }

    #[target_feature(enable = "avx2")]
    #[inline]
    pub(super) fn add(a: Pair, b: Pair) -> Pair {
        [_mm256_add_ps(a[0], b[0]), _mm256_add_ps(a[1], b[1])]
    }

    #[target_feature(enable = "avx2")]
    #[inline]
    pub(super) fn sub(a: Pair, b: Pair) -> Pair {
        [_mm256_sub_ps(a[0], b[0]), _mm256_sub_ps(a[1], b[1])]
    }

    #[target_feature(enable = "avx2")]
    #[inline]
    pub(super) fn mul(a: Pair, b: Pair) -> Pair {
        [_mm256_mul_ps(a[0], b[0]), _mm256_mul_ps(a[1], b[1])]
    }

    #[target_feature(enable = "avx2")]
    #[inline]
    pub(super) fn div(a: Pair, b: Pair) -> Pair {
        [_mm256_div_ps(a[0], b[0]), _mm256_div_ps(a[1], b[1])]
    }

    #[target_feature(enable = "avx2")]
    #[inline]
    pub(super) fn max(a: Pair, b: Pair) -> Pair {
        [_mm256_max_ps(a[0], b[0]), _mm256_max_ps(a[1], b[1])]
    }

    #[target_feature(enable = "avx2")]
    #[inline]
    pub(super) fn min(a: Pair, b: Pair) -> Pair {
        [_mm256_min_ps(a[0], b[0]), _mm256_min_ps(a[1], b[1])]
    }

    #[target_feature(enable = "avx2")]
    #[inline]
    pub(super) fn select_gt(a: Pair, b: Pair, then: Pair, otherwise: Pair) -> Pair {
        let half = |i: usize| _mm256_blendv_ps(otherwise[i], then[i], _mm256_cmp_ps::<_CMP_GT_OQ>(a[i], b[i]));
        [half(0), half(1)]
    }

    #[target_feature(enable = "avx2")]
    #[inline]
    pub(super) fn max_magnitude(largest: Pair, x: Pair) -> Pair {
        let magnitude = _mm256_set1_epi32(0x7fff_ffff);
        let half = |i: usize| {
            let bits = _mm256_and_si256(_mm256_castps_si256(x[i]), magnitude);
            _mm256_castsi256_ps(_mm256_max_epi32(_mm256_castps_si256(largest[i]), bits))
        };
        [half(0), half(1)]
    }

    #[target_feature(enable = "avx2")]
    #[inline]
    pub(super) fn exponent(a: Pair) -> Pair {
        let half = |i: usize| _mm256_castsi256_ps(_mm256_slli_epi32::<23>(_mm256_castps_si256(a[i])));
        [half(0), half(1)]
    }

    /// Lanes `l` and `l + 8`, then `l` and `l + 4`: four are left.
    #[target_feature(enable = "avx2")]
    #[inline]
    fn fold(v: Pair) -> __m128 {
        let eight = _mm256_add_ps(v[0], v[1]);
        _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps::<1>(eight))
    }

    #[target_feature(enable = "avx2")]
    #[inline]
    pub(super) fn reduce(v: Pair) -> f32 {
        let four = fold(v);
        let two = _mm_add_ps(four, _mm_movehl_ps(four, four));
        _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)))
    }

    #[target_feature(enable = "avx2")]
    #[inline]
    pub(super) fn reduce_four(v: [Pair; 4]) -> [f32; 4] {
        let [a, b, c, d] = [fold(v[0]), fold(v[1]), fold(v[2]), fold(v[3])];
        let (ab_low, ab_high) = (_mm_unpacklo_ps(a, b), _mm_unpackhi_ps(a, b));
        let (cd_low, cd_high) = (_mm_unpacklo_ps(c, d), _mm_unpackhi_ps(c, d));
        // Lanes l and l + 2 of a, b, c and d, then l and l + 1.
        let (ab, cd) = (_mm_add_ps(ab_low, ab_high), _mm_add_ps(cd_low, cd_high));
        let sums = _mm_add_ps(_mm_movelh_ps(ab, cd), _mm_movehl_ps(cd, ab));
        let mut out = [0.0; 4];
        // SAFETY: `out` has room for the four values that are written.
        unsafe { _mm_storeu_ps(out.as_mut_ptr(), sums) };
        out
    }
}

impl Dots for Avx2 {
    #[inline(always)]
    fn block<const T: usize>(self, w: WeightBlocks<'_>, x: [Block<'_>; T]) -> [[i32; ROWS]; T] {
        word_dots(self, w, x)
    }

    forward! {
        fn prefetch(from: &[i8; BLOCK], ahead: usize) -> () = prefetch;
    }
}

impl Words for Avx2 {
    type Weights = __m256i;
    type Sums = __m256i;
    const STEP: usize = 16;
    const SUMS: usize = 8;

    forward! {
        fn zero() -> __m256i = zero;
        fn weights(w: &[i8; BLOCK], step: usize) -> __m256i = words::weights;
        fn add(sums: __m256i, w: __m256i, x: &[i16; BLOCK], step: usize) -> __m256i = words::add;
        fn total(sums: [__m256i; ROWS]) -> [i32; ROWS] = total;
    }
}

/// The operations of [`Words`].
mod words {
    use super::*;

    #[target_feature(enable = "avx2")]
    #[inline]
    pub(super) fn weights(w: &[i8; BLOCK], step: usize) -> __m256i {
        let w = &w.as_chunks::<16>().0[step];
        // SAFETY: `w` has the sixteen bytes that are read.
        let bytes = unsafe { _mm_loadu_si128(w.as_ptr().cast()) };
        _mm256_cvtepi8_epi16(bytes)
    }

    #[target_feature(enable = "avx2")]
    #[inline]
    pub(super) fn add(sums: __m256i, w: __m256i, x: &[i16; BLOCK], step: usize) -> __m256i {
        let x = &x.as_chunks::<16>().0[step];
        // SAFETY: `x` has the sixteen words that are read.
        let x = unsafe { _mm256_loadu_si256(x.as_ptr().cast()) };
        let sums = _mm256_add_epi32(sums, _mm256_madd_epi16(w, x));
        in_order(sums)
    }
}

#[target_feature(enable = "avx2")]
#[inline]
pub(super) fn zero() -> __m256i {
    _mm256_setzero_si256()
}

/// Nothing; but it keeps the compiler from turning a chain of sums into a tree, for which there are too few registers.
#[target_feature(enable = "avx2")]
#[inline]
fn in_order(mut sums: __m256i) -> __m256i {
    if cfg!(not(miri)) {
        // SAFETY: there is no instruction.
        unsafe { asm!("/* {0} */", inout(ymm_reg) sums, options(pure, nomem, nostack, preserves_flags)) };
    }
    sums
}

/// The sums of the lanes of four registers.
#[target_feature(enable = "avx2")]
#[inline]
pub(super) fn total(sums: [__m256i; ROWS]) -> [i32; ROWS] {
    let (ab, cd) = (_mm256_hadd_epi32(sums[0], sums[1]), _mm256_hadd_epi32(sums[2], sums[3]));
    let halves = _mm256_hadd_epi32(ab, cd);
    let total = _mm_add_epi32(_mm256_castsi256_si128(halves), _mm256_extracti128_si256::<1>(halves));
    let mut out = [0; ROWS];
    // SAFETY: `out` has room for the four values that are written.
    unsafe { _mm_storeu_si128(out.as_mut_ptr().cast(), total) };
    out
}

#[target_feature(enable = "avx2")]
#[inline]
pub(super) fn prefetch(from: &[i8; BLOCK], ahead: usize) {
    let base = from.as_ptr().wrapping_add(ahead);
    for line in [0, 64] {
        _mm_prefetch::<_MM_HINT_T0>(base.wrapping_add(line));
    }
}
