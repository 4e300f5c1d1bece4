//! AVX-512 with VNNI: sixteen lanes in one register, integer dots by bytes in 512 bits.

use std::arch::x86_64::*;

use super::avx2::{self, Avx2};
use super::table::{forward, table};
use crate::integer::{Block, Bytes, Dots, ROWS, WeightBlocks, byte_dots};
use crate::lanes::Lanes;
use crate::portable::LANES;
use crate::quantized::BLOCK;

table! {
    name: "avx512vnni",
    features: "avx2,f16c,avx512f,avx512bw,avx512vl,avx512vnni",
    lanes: Avx512::new(),
    dots: Avx512::new(),
    tokens: 4,
    paired_rows: 4,
    delta_panel: 4,
    value_panel: 4,
}

/// Proof that the CPU has AVX-512 F, BW, VL and VNNI, and with them AVX2 and F16C.
#[derive(Clone, Copy)]
struct Avx512(());

impl Avx512 {
    #[target_feature(enable = "avx2,f16c,avx512f,avx512bw,avx512vl,avx512vnni")]
    #[inline]
    fn new() -> Avx512 {
        Avx512(())
    }
}

impl Lanes for Avx512 {
    type Vector = __m512;

    forward! {
        fn splat(x: f32) -> __m512 = lanes::splat;
        fn load(x: &[f32; LANES]) -> __m512 = lanes::load;
        fn load_bf16(x: &[u16; LANES]) -> __m512 = lanes::load_bf16;
        fn load_f16(x: &[u16; LANES]) -> __m512 = lanes::load_f16;
        fn load_i8(x: &[i8; LANES]) -> __m512 = lanes::load_i8;
        fn store(v: __m512, to: &mut [f32; LANES]) -> () = lanes::store;
        fn add(a: __m512, b: __m512) -> __m512 = _mm512_add_ps;
        fn sub(a: __m512, b: __m512) -> __m512 = _mm512_sub_ps;
        fn mul(a: __m512, b: __m512) -> __m512 = _mm512_mul_ps;
        fn div(a: __m512, b: __m512) -> __m512 = _mm512_div_ps;
        fn max(a: __m512, b: __m512) -> __m512 = _mm512_max_ps;
        fn min(a: __m512, b: __m512) -> __m512 = _mm512_min_ps;
        fn select_gt(a: __m512, b: __m512, then: __m512, otherwise: __m512) -> __m512 = lanes::select_gt;
        fn max_magnitude(largest: __m512, x: __m512) -> __m512 = lanes::max_magnitude;
        fn exponent(a: __m512) -> __m512 = lanes::exponent;
        fn reduce(v: __m512) -> f32 = lanes::reduce;
        fn reduce_four(v: [__m512; 4]) -> [f32; 4] = lanes::reduce_four;
    }
}

/// The operations of [`Lanes`].
mod lanes {
    use super::*;

    #[target_feature(enable = "avx512f")]
    #[inline]
    pub(super) fn splat(x: f32) -> __m512 {
        _mm512_set1_ps(x)
    }

    #[target_feature(enable = "avx512f")]
    #[inline]
    pub(super) fn load(x: &[f32; LANES]) -> __m512 {
        // SAFETY: `x` has the sixteen values that are read.
        unsafe { _mm512_loadu_ps(x.as_ptr()) }
    }

    #[target_feature(enable = "avx512f")]
    #[inline]
    fn load_words(x: &[u16; LANES]) -> __m256i {
        // SAFETY: `x` has the sixteen values that are read.
        unsafe { _mm256_loadu_si256(x.as_ptr().cast()) }
    }

    #[target_feature(enable = "avx512f")]
    #[inline]
    pub(super) fn load_bf16(x: &[u16; LANES]) -> __m512 {
        _mm512_castsi512_ps(_mm512_slli_epi32::<16>(_mm512_cvtepu16_epi32(load_words(x))))
    }

    #[target_feature(enable = "avx512f")]
    #[inline]
    pub(super) fn load_f16(x: &[u16; LANES]) -> __m512 {
        _mm512_cvtph_ps(load_words(x))
    }

    #[target_feature(enable = "avx512f")]
    #[inline]
    pub(super) fn load_i8(x: &[i8; LANES]) -> __m512 {
        // SAFETY: `x` has the sixteen values that are read.
        let bytes = unsafe { _mm_loadu_si128(x.as_ptr().cast()) };
        _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(bytes))
    }

    #[target_feature(enable = "avx512f")]
    #[inline]
    pub(super) fn store(v: __m512, to: &mut [f32; LANES]) {
        // SAFETY: `to` has room for the sixteen values that are written.
        unsafe { _mm512_storeu_ps(to.as_mut_ptr(), v) };
    }

    #[target_feature(enable = "avx512f")]
    #[inline]
    pub(super) fn select_gt(a: __m512, b: __m512, then: __m512, otherwise: __m512) -> __m512 {
        _mm512_mask_blend_ps(_mm512_cmp_ps_mask::<_CMP_GT_OQ>(a, b), otherwise, then)
    }

    #[target_feature(enable = "avx512f")]
    #[inline]
    pub(super) fn max_magnitude(largest: __m512, x: __m512) -> __m512 {
        let magnitude = _mm512_and_si512(_mm512_castps_si512(x), _mm512_set1_epi32(0x7fff_ffff));
        _mm512_castsi512_ps(_mm512_max_epi32(_mm512_castps_si512(largest), magnitude))
    }

    #[target_feature(enable = "avx512f")]
    #[inline]
    pub(super) fn exponent(a: __m512) -> __m512 {
        _mm512_castsi512_ps(_mm512_slli_epi32::<23>(_mm512_castps_si512(a)))
    }

    /// The lanes as AVX2 holds them.
    #[target_feature(enable = "avx512f")]
    #[inline]
    fn halves(v: __m512) -> [__m256; 2] {
        let high = _mm512_extractf64x4_pd::<1>(_mm512_castps_pd(v));
        [_mm512_castps512_ps256(v), _mm256_castpd_ps(high)]
    }

    #[target_feature(enable = "avx2,f16c,avx512f")]
    #[inline]
    pub(super) fn reduce(v: __m512) -> f32 {
        Avx2::new().reduce(halves(v))
    }

    #[target_feature(enable = "avx2,f16c,avx512f")]
    #[inline]
    pub(super) fn reduce_four(v: [__m512; 4]) -> [f32; 4] {
        Avx2::new().reduce_four([halves(v[0]), halves(v[1]), halves(v[2]), halves(v[3])])
    }
}

impl Dots for Avx512 {
    #[inline(always)]
    fn block<const T: usize>(self, w: WeightBlocks<'_>, x: [Block<'_>; T]) -> [[i32; ROWS]; T] {
        byte_dots(self, w, x)
    }

    forward! {
        fn prefetch(from: &[i8; BLOCK], ahead: usize) -> () = avx2::prefetch;
    }
}

impl Bytes for Avx512 {
    type Weights = __m512i;
    type Sums = __m512i;
    const STEP: usize = 64;
    const OFFSET: i32 = 128;

    forward! {
        fn zero() -> __m512i = bytes::zero;
        fn weights(w: &[i8; BLOCK], step: usize) -> __m512i = bytes::weights;
        fn add(sums: __m512i, w: __m512i, x: &[i8; BLOCK], step: usize) -> __m512i = bytes::add;
        fn shift(sums: __m512i) -> __m512i = bytes::shift;
        fn total(sums: [__m512i; ROWS]) -> [i32; ROWS] = bytes::total;
    }
}

/// The operations of [`Bytes`].
mod bytes {
    use super::*;

    #[target_feature(enable = "avx512f")]
    #[inline]
    pub(super) fn zero() -> __m512i {
        _mm512_setzero_si512()
    }

    #[target_feature(enable = "avx512f")]
    #[inline]
    fn load(x: &[i8; BLOCK], step: usize) -> __m512i {
        let x = &x.as_chunks::<64>().0[step];
        // SAFETY: `x` has the 64 bytes that are read.
        unsafe { _mm512_loadu_si512(x.as_ptr().cast()) }
    }

    /// Turning the sign bit adds 128, as unsigned.
    #[target_feature(enable = "avx512f")]
    #[inline]
    pub(super) fn weights(w: &[i8; BLOCK], step: usize) -> __m512i {
        _mm512_xor_si512(load(w, step), _mm512_set1_epi8(i8::MIN))
    }

    #[target_feature(enable = "avx512f,avx512vnni")]
    #[inline]
    pub(super) fn add(sums: __m512i, w: __m512i, x: &[i8; BLOCK], step: usize) -> __m512i {
        _mm512_dpbusd_epi32(sums, w, load(x, step))
    }

    #[target_feature(enable = "avx512f")]
    #[inline]
    pub(super) fn shift(sums: __m512i) -> __m512i {
        _mm512_slli_epi32::<8>(sums)
    }

    #[target_feature(enable = "avx2,avx512f")]
    #[inline]
    pub(super) fn total(sums: [__m512i; ROWS]) -> [i32; ROWS] {
        let fold = |v: __m512i| _mm256_add_epi32(_mm512_castsi512_si256(v), _mm512_extracti64x4_epi64::<1>(v));
        avx2::total([fold(sums[0]), fold(sums[1]), fold(sums[2]), fold(sums[3])])
    }
}
