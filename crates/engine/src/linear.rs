//! Linear layers: a matrix and the current inputs go in, their products come out, rows split over the pool.

use kinglet_kernels::{FloatRows, Kernels, QuantizedRow};
use kinglet_model::{Format, Matrix, Rows};
use kinglet_pool::Pool;

use crate::activation::Activation;

/// Weight rows that are computed together, so that they stay in the cache for all tokens of a chunk.
const ROW_TILE: usize = 16;
/// Tokens per call of a kernel.
const TOKEN_TILE: usize = 32;

/// The inputs of a linear as integers, rounded once for all matrices that read them.
pub(crate) struct Inputs {
    rows: Vec<QuantizedRow>,
    quantized: bool,
}

impl Inputs {
    pub(crate) fn new(tokens: usize, widest: usize) -> Inputs {
        Inputs { rows: (0..tokens).map(|_| QuantizedRow::new(widest)).collect(), quantized: false }
    }
}

/// What linear layers need of an engine.
#[derive(Clone, Copy)]
pub(crate) struct Linears<'a> {
    pub(crate) kernels: &'static Kernels,
    pub(crate) pool: &'a Pool,
}

impl Linears<'_> {
    /// Rounds `x` `[t, k]` for `readers`, the matrices that will read it, as `activation` says; float weights take it
    /// unrounded.
    pub(crate) fn prepare(&self, activation: Activation, readers: &[&Matrix], x: &mut [f32], inputs: &mut Inputs) {
        let (kernels, k) = (self.kernels, readers[0].columns());
        inputs.quantized = false;
        if readers.iter().all(|matrix| matrix.format() != Format::I8) {
            return;
        }
        match activation {
            Activation::Float => {}
            Activation::Study(round) => x.chunks_exact_mut(k).for_each(round),
            Activation::Integer(precision) => {
                let x = &*x;
                let rows = &mut inputs.rows[..x.len() / k];
                self.pool.each(rows, &|t, row: &mut QuantizedRow| {
                    kernels.quantize(&x[t * k..(t + 1) * k], precision, row);
                });
                inputs.quantized = true;
            }
        }
    }

    /// `out[t, rows] = x[t, k] w'`, where `inputs` holds what [`prepare`](Self::prepare) made of `x`.
    pub(crate) fn project(&self, w: &Matrix, x: &[f32], inputs: &Inputs, out: &mut [f32]) {
        let tokens = x.len() / w.columns();
        self.pool.columns(out, w.rows(), ROW_TILE, &|mut columns| {
            if tokens == 1 {
                let (first, len) = (columns.first(), columns.len());
                self.tile(w, first, len, x, inputs, 0, columns.row_mut(0));
                return;
            }
            let mut tile = [0.0; ROW_TILE * TOKEN_TILE];
            for first in (0..columns.len()).step_by(ROW_TILE) {
                let rows = ROW_TILE.min(columns.len() - first);
                for token in (0..tokens).step_by(TOKEN_TILE) {
                    let count = TOKEN_TILE.min(tokens - token);
                    let out = &mut tile[..rows * count];
                    let x = &x[token * w.columns()..(token + count) * w.columns()];
                    self.tile(w, columns.first() + first, rows, x, inputs, token, out);
                    for (t, values) in out.chunks_exact(rows).enumerate() {
                        columns.row_mut(token + t)[first..first + rows].copy_from_slice(values);
                    }
                }
            }
        });
    }

    /// `out[t, r]` of `rows` weight rows and the tokens of `x`, which begin at `token` in the chunk.
    #[expect(clippy::too_many_arguments, reason = "the coordinates of one tile")]
    fn tile(&self, w: &Matrix, first: usize, rows: usize, x: &[f32], inputs: &Inputs, token: usize, out: &mut [f32]) {
        let k = w.columns();
        match w.slice(first, rows) {
            Rows::I8(w, scales) if inputs.quantized => {
                self.kernels.project_i8(w, scales, &inputs.rows[token..token + x.len() / k], out);
            }
            Rows::I8(w, scales) => self.kernels.project_i8_f32(w, scales, x, out),
            Rows::F32(w) => self.kernels.project_float(FloatRows::F32(w), k, x, out),
            Rows::Bf16(w) => self.kernels.project_float(FloatRows::Bf16(w), k, x, out),
            Rows::F16(w) => self.kernels.project_float(FloatRows::F16(w), k, x, out),
        }
    }
}
