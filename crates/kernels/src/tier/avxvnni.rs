//! AVX-VNNI: the lanes of AVX2, integer dots by bytes in 256 bits.

use std::arch::x86_64::*;

use super::avx2::{self, Avx2};
use super::table::{forward, table};
use crate::integer::{Block, Bytes, Dots, ROWS, WeightBlocks, byte_dots};
use crate::quantized::BLOCK;

table! {
    name: "avxvnni",
    features: "avx2,f16c,avxvnni",
    lanes: Avx2::new(),
    dots: AvxVnni::new(),
    tokens: 2,
    paired_rows: 2,
    delta_panel: 2,
    value_panel: 4,
}

/// Proof that the CPU has AVX-VNNI.
#[derive(Clone, Copy)]
struct AvxVnni(());

impl AvxVnni {
    #[target_feature(enable = "avx2,avxvnni")]
    #[inline]
    fn new() -> AvxVnni {
        AvxVnni(())
    }
}

impl Dots for AvxVnni {
    #[inline(always)]
    fn block<const T: usize>(self, w: WeightBlocks<'_>, x: [Block<'_>; T]) -> [[i32; ROWS]; T] {
        byte_dots(self, w, x)
    }

    forward! {
        fn prefetch(from: &[i8; BLOCK], ahead: usize) -> () = avx2::prefetch;
    }
}

impl Bytes for AvxVnni {
    type Weights = __m256i;
    type Sums = __m256i;
    const STEP: usize = 32;
    const OFFSET: i32 = 128;

    forward! {
        fn zero() -> __m256i = avx2::zero;
        fn weights(w: &[i8; BLOCK], step: usize) -> __m256i = weights;
        fn add(sums: __m256i, w: __m256i, x: &[i8; BLOCK], step: usize) -> __m256i = add;
        fn shift(sums: __m256i) -> __m256i = shift;
        fn total(sums: [__m256i; ROWS]) -> [i32; ROWS] = avx2::total;
    }
}

#[target_feature(enable = "avx2")]
#[inline]
fn load(x: &[i8; BLOCK], step: usize) -> __m256i {
    let x = &x.as_chunks::<32>().0[step];
    // SAFETY: `x` has the 32 bytes that are read.
    unsafe { _mm256_loadu_si256(x.as_ptr().cast()) }
}

/// Turning the sign bit adds 128, as unsigned.
#[target_feature(enable = "avx2")]
#[inline]
fn weights(w: &[i8; BLOCK], step: usize) -> __m256i {
    _mm256_xor_si256(load(w, step), _mm256_set1_epi8(i8::MIN))
}

#[target_feature(enable = "avx2,avxvnni")]
#[inline]
fn add(sums: __m256i, w: __m256i, x: &[i8; BLOCK], step: usize) -> __m256i {
    _mm256_dpbusd_avx_epi32(sums, w, load(x, step))
}

#[target_feature(enable = "avx2")]
#[inline]
fn shift(sums: __m256i) -> __m256i {
    _mm256_slli_epi32::<8>(sums)
}
