//! Sixteen `f32` at a time, whatever the registers: what a float kernel may ask of an instruction set. Nothing here fuses
//! a multiplication with an addition, and nothing rounds differently from one `f32` operation per lane.

use crate::portable::{EXP_HIGHEST, EXP_LOWEST, EXP_POLYNOMIAL, LANES, LN_2_HIGH, LN_2_LOW, ROUND};

/// Sixteen lanes of one instruction set. A value of an implementing type is a proof that the running CPU has the
/// instructions: it can only be made inside a function compiled for them.
pub(crate) trait Lanes: Copy {
    /// Sixteen values.
    type Vector: Copy;

    fn splat(self, x: f32) -> Self::Vector;
    fn load(self, x: &[f32; LANES]) -> Self::Vector;
    fn load_bf16(self, x: &[u16; LANES]) -> Self::Vector;
    fn load_f16(self, x: &[u16; LANES]) -> Self::Vector;
    fn load_i8(self, x: &[i8; LANES]) -> Self::Vector;
    fn store(self, v: Self::Vector, to: &mut [f32; LANES]);
    fn add(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;
    fn sub(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;
    fn mul(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;
    fn div(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;
    /// `a > b ? a : b`, so `b` where one of them is NaN.
    fn max(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;
    /// `a < b ? a : b`, so `b` where one of them is NaN.
    fn min(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;
    /// `a > b ? then : otherwise`.
    fn select_gt(self, a: Self::Vector, b: Self::Vector, then: Self::Vector, otherwise: Self::Vector) -> Self::Vector;
    /// The larger of the bit patterns of `largest`, whose signs are clear, and of `|x|`, as integers: NaN is larger than
    /// infinity, and infinity larger than what is finite.
    fn max_magnitude(self, largest: Self::Vector, x: Self::Vector) -> Self::Vector;
    /// The values whose bit patterns are those of `a`, moved left by the 23 bits of the mantissa.
    fn exponent(self, a: Self::Vector) -> Self::Vector;
    /// The sum of the lanes in the order of the contract.
    fn reduce(self, v: Self::Vector) -> f32;
    /// [`reduce`](Self::reduce) of four.
    fn reduce_four(self, v: [Self::Vector; 4]) -> [f32; 4] {
        [self.reduce(v[0]), self.reduce(v[1]), self.reduce(v[2]), self.reduce(v[3])]
    }
}

/// How slices are read and written from a place on: [`Full`] or [`Last`].
pub(crate) trait Part {
    fn load<S: Lanes>(s: S, x: &[f32], at: usize) -> S::Vector;
    fn store<S: Lanes>(s: S, v: S::Vector, x: &mut [f32], at: usize);
}

/// All sixteen values are there.
pub(crate) struct Full;

/// Fewer are there: zeros are read, and nothing is written, beyond the end.
pub(crate) struct Last;

impl Part for Full {
    #[inline(always)]
    fn load<S: Lanes>(s: S, x: &[f32], at: usize) -> S::Vector {
        s.load(x[at..].first_chunk().expect("the caller counted whole chunks"))
    }

    #[inline(always)]
    fn store<S: Lanes>(s: S, v: S::Vector, x: &mut [f32], at: usize) {
        s.store(v, x[at..].first_chunk_mut().expect("the caller counted whole chunks"));
    }
}

impl Part for Last {
    #[inline(always)]
    fn load<S: Lanes>(s: S, x: &[f32], at: usize) -> S::Vector {
        s.load(&padded(&x[at..]))
    }

    #[inline(always)]
    fn store<S: Lanes>(s: S, v: S::Vector, x: &mut [f32], at: usize) {
        let mut values = [0.0; LANES];
        s.store(v, &mut values);
        let rest = &mut x[at..];
        rest.copy_from_slice(&values[..rest.len()]);
    }
}

/// For `$n` values, sixteen at a time, `$body` with `$part` as [`Full`], and for what is left as [`Last`].
macro_rules! chunks {
    ($n:expr, |$part:ident, $at:ident| $body:block) => {{
        let whole = $n / $crate::portable::LANES * $crate::portable::LANES;
        for $at in (0..whole).step_by($crate::portable::LANES) {
            use $crate::lanes::Full as $part;
            $body
        }
        if whole < $n {
            use $crate::lanes::Last as $part;
            let $at = whole;
            $body
        }
    }};
}

pub(crate) use chunks;

/// Fewer than sixteen values, and zeros.
#[inline(always)]
pub(crate) fn padded<T: Copy + Default>(x: &[T]) -> [T; LANES] {
    let mut full = [T::default(); LANES];
    full[..x.len()].copy_from_slice(x);
    full
}

/// [`exp`](crate::portable::exp) of every lane. NaN passes through the clamps (their second operand) and the polynomial.
#[inline(always)]
pub(crate) fn exp<S: Lanes>(s: S, x: S::Vector) -> S::Vector {
    let (lowest, highest, round) = (s.splat(EXP_LOWEST), s.splat(EXP_HIGHEST), s.splat(ROUND));
    let clamped = s.min(highest, s.max(lowest, x));
    let n = s.sub(s.add(s.mul(clamped, s.splat(std::f32::consts::LOG2_E)), round), round);
    let r = s.sub(clamped, s.mul(n, s.splat(LN_2_HIGH)));
    let r = s.sub(r, s.mul(n, s.splat(LN_2_LOW)));
    let mut p = s.splat(EXP_POLYNOMIAL[0]);
    for c in &EXP_POLYNOMIAL[1..] {
        p = s.add(s.mul(p, r), s.splat(*c));
    }
    let y = s.add(s.add(s.mul(p, s.mul(r, r)), r), s.splat(1.0));
    // 2^n in two factors. Any two will do: the first product is exact, so that only the second rounds.
    let half = s.sub(s.add(s.mul(n, s.splat(0.5)), round), round);
    let scaled = s.mul(s.mul(y, power_of_two(s, half)), power_of_two(s, s.sub(n, half)));
    let bounded = s.select_gt(x, highest, s.splat(f32::INFINITY), scaled);
    s.select_gt(lowest, x, s.splat(0.0), bounded)
}

/// `2^e` for integers of the exponent range: adding `ROUND + 127` leaves the biased exponent in the low mantissa bits.
#[inline(always)]
fn power_of_two<S: Lanes>(s: S, e: S::Vector) -> S::Vector {
    s.exponent(s.add(e, s.splat(ROUND + 127.0)))
}

/// [`sigmoid`](crate::portable::sigmoid) of every lane.
#[inline(always)]
pub(crate) fn sigmoid<S: Lanes>(s: S, x: S::Vector) -> S::Vector {
    let one = s.splat(1.0);
    s.div(one, s.add(one, exp(s, s.sub(s.splat(0.0), x))))
}

/// [`silu`](crate::portable::silu) of every lane.
#[inline(always)]
pub(crate) fn silu<S: Lanes>(s: S, x: S::Vector) -> S::Vector {
    s.mul(x, sigmoid(s, x))
}
