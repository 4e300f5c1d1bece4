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

#[cfg(test)]
mod tests {
    use super::super::{Dots, project_i8};
    use super::*;
    use crate::quantized::QuantizedRow;
    use crate::{Kernels, available};

    /// What VNNI and the dot product of Arm do, in plain Rust, so that the code above runs on every CPU for all shapes of
    /// it that a tier uses: only the one-line wrappers of instructions are left out.
    #[derive(Clone, Copy)]
    struct Emulated<const STEP: usize, const OFFSET: i32>;

    impl<const STEP: usize, const OFFSET: i32> Bytes for Emulated<STEP, OFFSET> {
        /// Unsigned bytes where there is an offset.
        type Weights = [i32; STEP];
        /// The lanes beyond a quarter of the bytes are not used.
        type Sums = [i32; STEP];
        const STEP: usize = STEP;
        const OFFSET: i32 = OFFSET;

        fn zero(self) -> [i32; STEP] {
            [0; STEP]
        }

        fn weights(self, w: &[i8; BLOCK], step: usize) -> [i32; STEP] {
            let at = |i: usize| w[step * STEP + i];
            match OFFSET {
                0 => std::array::from_fn(|i| i32::from(at(i))),
                _ => std::array::from_fn(|i| i32::from(at(i).cast_unsigned() ^ 0x80)),
            }
        }

        fn add(self, mut sums: [i32; STEP], w: [i32; STEP], x: &[i8; BLOCK], step: usize) -> [i32; STEP] {
            for i in 0..STEP {
                sums[i / 4] = sums[i / 4].wrapping_add(w[i] * i32::from(x[step * STEP + i]));
            }
            sums
        }

        fn shift(self, sums: [i32; STEP]) -> [i32; STEP] {
            sums.map(|sum| sum << 8)
        }

        fn total(self, sums: [[i32; STEP]; ROWS]) -> [i32; ROWS] {
            sums.map(|sums| sums.into_iter().fold(0, i32::wrapping_add))
        }
    }

    impl<const STEP: usize, const OFFSET: i32> Dots for Emulated<STEP, OFFSET> {
        fn block<const T: usize>(self, w: WeightBlocks<'_>, x: [Block<'_>; T]) -> [[i32; ROWS]; T] {
            byte_dots(self, w, x)
        }

        fn prefetch(self, _: &[i8; BLOCK], _: usize) {}
    }

    type Project = fn(&[i8], &[f32], &[QuantizedRow], &mut [f32]);

    fn shapes() -> [Project; 4] {
        [
            |w, scales, x, out| project_i8::<_, 2>(Emulated::<32, 128>, w, scales, x, out),
            |w, scales, x, out| project_i8::<_, 4>(Emulated::<64, 128>, w, scales, x, out),
            |w, scales, x, out| project_i8::<_, 4>(Emulated::<16, 0>, w, scales, x, out),
            |w, scales, x, out| project_i8::<_, 8>(Emulated::<16, 0>, w, scales, x, out),
        ]
    }

    fn check(portable: &Kernels, k: usize, rows: usize, tokens: usize, weight: impl Fn(usize) -> i8, x: &[f32]) {
        let w: Vec<i8> = (0..rows * k).map(weight).collect();
        let scales: Vec<f32> = (0..rows).map(|r| 0.5 + r as f32).collect();
        for precision in [Precision::Eight, Precision::Sixteen] {
            let mut quantized = vec![QuantizedRow::new(k); tokens];
            for (row, x) in quantized.iter_mut().zip(x.chunks_exact(k)) {
                portable.quantize(x, precision, row);
            }
            let mut expected = vec![0.0; rows * tokens];
            portable.project_i8(&w, &scales, &quantized, &mut expected);
            for (shape, project) in shapes().into_iter().enumerate() {
                let mut out = vec![f32::NAN; rows * tokens];
                project(&w, &scales, &quantized, &mut out);
                assert_eq!(out, expected, "shape {shape}, k={k} r={rows} t={tokens} {precision:?}");
            }
        }
    }

    #[test]
    fn products_of_bytes_are_exact_for_all_shapes() {
        let portable = available()[0];
        for k in [1, 15, 16, 17, 63, 64, 65, 127, 128, 129, 300] {
            for (rows, tokens) in [(1, 1), (2, 3), (4, 4), (5, 11), (9, 2)] {
                let x: Vec<f32> = (0..tokens * k).map(|i| (i as f32 * 0.7).sin()).collect();
                check(portable, k, rows, tokens, |i| (i * 89 + 3) as u8 as i8, &x);
            }
        }
    }

    #[test]
    fn products_of_bytes_are_exact_for_the_largest_integers() {
        let portable = available()[0];
        for k in [128, 256] {
            for sign in [1.0, -1.0] {
                check(portable, k, 4, 5, |_| i8::MIN, &vec![sign; 5 * k]);
                check(portable, k, 4, 5, |_| i8::MAX, &vec![sign; 5 * k]);
            }
        }
    }
}
