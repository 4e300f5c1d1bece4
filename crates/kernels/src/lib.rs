//! CPU arithmetic: slices of numbers go in, slices of numbers come out; it never starts a thread, allocates, reads a
//! file or knows a model.
//!
//! Every function exists once per instruction-set *tier*, and all tiers give the same bits. The contract that makes
//! this true (`docs/numerics.md`):
//!
//! * integer dot products are exact, so their order is free;
//! * an `f32` sum over `n` products runs in 16 virtual lanes: element `i` goes to lane `i % 16`, in index order, multiply
//!   and add unfused; then lanes `l` and `l + 8` are added, `l` and `l + 4`, `l` and `l + 2`, `l` and `l + 1`;
//! * where a sum runs over rows (delta rule, attention values), it is sequential in the row index, per column;
//! * `exp` and its relatives are the polynomials of [`portable`], never the platform's.
//!
//! Rooms, in reading order: [`tier`] (which CPU can run what), [`quantized`] (activations as integers), [`portable`]
//! (the definition of every kernel), `lanes` and `float` (float kernels over any instruction set), `integer` (the same
//! for integer weights).

mod float;
mod integer;
mod lanes;
pub mod portable;
pub mod quantized;
pub mod tier;

pub use quantized::{BLOCK, Precision, QuantizedRow};
pub use tier::{ATTENTION_BLOCK, Kernels, Softmax, available, best, by_name, compiled};

/// Rows of a weight matrix in a float format, `[r, k]`, row-major.
#[derive(Clone, Copy, Debug)]
pub enum FloatRows<'a> {
    /// IEEE single precision.
    F32(&'a [f32]),
    /// Bit patterns of bfloat16: the upper half of an `f32`.
    Bf16(&'a [u16]),
    /// Bit patterns of IEEE half precision.
    F16(&'a [u16]),
}

impl FloatRows<'_> {
    /// Number of values.
    pub fn len(&self) -> usize {
        match self {
            FloatRows::F32(w) => w.len(),
            FloatRows::Bf16(w) | FloatRows::F16(w) => w.len(),
        }
    }

    /// Whether there is no value.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
