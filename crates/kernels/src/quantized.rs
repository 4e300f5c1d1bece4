//! Activations as integers: one row of `f32` goes in, integers with a scale per [`BLOCK`] come out, in the three
//! layouts that the tiers read; it never sees a weight.

/// Inputs that share one scale.
pub const BLOCK: usize = 128;

/// How many bits an activation is rounded to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Precision {
    /// One signed byte, `-127..=127`: one integer multiply per weight.
    Eight,
    /// Sixteen bits in two byte planes, `-32512..=32512`: two integer multiplies per weight.
    Sixteen,
}

impl Precision {
    /// The magnitude that the largest value of a block is mapped to.
    pub fn limit(self) -> f32 {
        match self {
            Precision::Eight => 127.0,
            Precision::Sixteen => 32512.0,
        }
    }

    /// The scale of a block and its inverse, given its largest magnitude; `None` if that is not finite.
    pub(crate) fn scales(self, largest: f32) -> Option<(f32, f32)> {
        let (scale, inverse) = (largest / self.limit(), self.limit() / largest);
        match largest {
            0.0 => Some((0.0, 0.0)),
            _ if !largest.is_finite() => None,
            // Too small to be divided by: the block counts as zero.
            _ if inverse.is_infinite() => Some((scale, 0.0)),
            _ => Some((scale, inverse)),
        }
    }
}

/// One row of activations as integers: `x[i] ~ scales[i / BLOCK] * wide[i]`.
///
/// `wide[i] = 256 * high[i] + low[i]` at [`Precision::Sixteen`], and `wide[i] = low[i]` with `high[i] = 0` at
/// [`Precision::Eight`]. All planes are zero from `len` up to the next multiple of [`BLOCK`].
///
/// A dot product with `i8` weights over one block fits `i32`: `128 * 128 * 32512 < 2^31`.
#[derive(Clone, Debug)]
pub struct QuantizedRow {
    pub(crate) len: usize,
    pub(crate) precision: Precision,
    pub(crate) wide: Vec<i16>,
    pub(crate) high: Vec<i8>,
    pub(crate) low: Vec<i8>,
    pub(crate) scales: Vec<f32>,
    /// Sum of `wide` over each block, for kernels that offset the weights.
    pub(crate) sums: Vec<i32>,
}

impl QuantizedRow {
    /// Room for rows of up to `capacity` values.
    pub fn new(capacity: usize) -> QuantizedRow {
        let blocks = capacity.div_ceil(BLOCK);
        let padded = blocks * BLOCK;
        QuantizedRow {
            len: 0,
            precision: Precision::Eight,
            wide: vec![0; padded],
            high: vec![0; padded],
            low: vec![0; padded],
            scales: vec![0.0; blocks],
            sums: vec![0; blocks],
        }
    }

    /// Bytes that [`new`](Self::new) allocates.
    pub fn bytes(capacity: usize) -> usize {
        let blocks = capacity.div_ceil(BLOCK);
        blocks * (4 * BLOCK + 8)
    }

    /// Number of values held.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether no value is held.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The integer values, `[len]`.
    pub fn values(&self) -> &[i16] {
        &self.wide[..self.len]
    }

    /// The scales, one per block of [`BLOCK`].
    pub fn scales(&self) -> &[f32] {
        &self.scales[..self.len.div_ceil(BLOCK)]
    }

    /// Gives all blocks of the row the scale of its largest value and rounds again: what a runtime with one scale per
    /// row does. For studies; the engine does not use it.
    pub fn requantize_per_row(&mut self, x: &[f32], limit: f32) {
        assert_eq!(x.len(), self.len, "requantize_per_row: another row");
        let largest = x.iter().fold(0.0f32, |m, v| m.max(v.abs()));
        let (scale, inverse) = if largest > 0.0 { (largest / limit, limit / largest) } else { (0.0, 0.0) };
        for (block, values) in x.chunks(BLOCK).enumerate() {
            self.store_block(block, &round(values, inverse), scale);
        }
    }

    /// Sets what holds for the whole row; all blocks must be stored next.
    #[inline(always)]
    pub(crate) fn start(&mut self, len: usize, precision: Precision) {
        self.len = len;
        self.precision = precision;
    }

    /// Stores one block in all layouts.
    #[inline(always)]
    pub(crate) fn store_block(&mut self, block: usize, rounded: &[i16; BLOCK], scale: f32) {
        let at = block * BLOCK..(block + 1) * BLOCK;
        self.wide[at.clone()].copy_from_slice(rounded);
        let (high, low) = (&mut self.high[at.clone()], &mut self.low[at]);
        match self.precision {
            Precision::Eight => {
                high.fill(0);
                for (low, q) in low.iter_mut().zip(rounded) {
                    *low = *q as i8;
                }
            }
            Precision::Sixteen => {
                for ((high, low), q) in high.iter_mut().zip(low).zip(rounded) {
                    // The low byte is signed, so the high byte is what is left, rounded: q - low = 256 * high.
                    *high = ((q + 128) >> 8) as i8;
                    *low = *q as i8;
                }
            }
        }
        let mut sum = 0i32;
        for q in rounded {
            sum += i32::from(*q);
        }
        self.sums[block] = sum;
        self.scales[block] = scale;
    }
}

/// The nearest integers to `x * inverse`, ties to even, and zeros up to the end of the block.
pub(crate) fn round(x: &[f32], inverse: f32) -> [i16; BLOCK] {
    let mut rounded = [0; BLOCK];
    for (q, v) in rounded.iter_mut().zip(x) {
        *q = (v * inverse).round_ties_even() as i16;
    }
    rounded
}
