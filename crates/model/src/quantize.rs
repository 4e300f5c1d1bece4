//! Float matrices to int8 with one scale per row, at load: `scale = max|w| / 127`, `q = round_half_even(w / scale)`, the
//! official quantiser's arithmetic. Rows are converted one after another, so nothing but the result is held.

use kinglet_blob::AlignedBytes;

use crate::error::{Error, Result};
use crate::weights::Matrix;
#[cfg(test)]
use crate::weights::{Format, Rows};

/// Values that one thread converts between two progress reports.
const BATCH: usize = 1 << 24;

/// The int8 form of a float matrix. `progress` is told the number of values done after each batch.
///
/// # Errors
/// A value that is not finite: the row cannot have a scale.
pub fn to_int8(name: &str, matrix: &Matrix, threads: usize, progress: &mut dyn FnMut(usize)) -> Result<Matrix> {
    let (rows, columns) = (matrix.rows(), matrix.columns());
    let mut values = AlignedBytes::zeroed(rows * columns);
    let mut scales = vec![0.0f32; rows];
    let batch = (BATCH / columns).max(1);
    for first in (0..rows).step_by(batch) {
        let count = batch.min(rows - first);
        let values = &mut values[first * columns..(first + count) * columns];
        convert(matrix, first, values, &mut scales[first..first + count], threads);
        progress(count * columns);
    }
    if let Some(row) = scales.iter().position(|scale| !scale.is_finite()) {
        return Err(Error::tensor(name, "finite values", format!("an infinite or undefined value in row {row}")));
    }
    Matrix::int8(name, rows, columns, values.into(), scales)
}

fn convert(matrix: &Matrix, first: usize, values: &mut [u8], scales: &mut [f32], threads: usize) {
    let columns = matrix.columns();
    let share = scales.len().div_ceil(threads.max(1));
    std::thread::scope(|scope| {
        let parts = values.chunks_mut(share * columns).zip(scales.chunks_mut(share));
        for (i, (values, scales)) in parts.enumerate() {
            let work = move || {
                let mut row = vec![0.0f32; columns];
                for (r, (out, scale)) in values.chunks_exact_mut(columns).zip(scales).enumerate() {
                    matrix.read_row(first + i * share + r, &mut row);
                    *scale = row_scale(&row);
                    quantize_row(&row, *scale, out);
                }
            };
            if threads <= 1 { work() } else { drop(scope.spawn(work)) }
        }
    });
}

/// 1.5 * 2^23: adding it to a number of up to 2^22 rounds half to even and leaves the integer in the low bits. The
/// platform's own rounding is a call on processors without the instruction.
const ROUND: f32 = 12_582_912.0;

/// The scale of a row, NaN when one of its values is not finite.
pub fn row_scale(row: &[f32]) -> f32 {
    // The magnitude's bits order like the magnitude, infinities and NaN above all numbers.
    let largest = row.iter().fold(0u32, |m, w| m.max(w.to_bits() & 0x7fff_ffff));
    let scale = f32::from_bits(largest) / 127.0;
    if scale.is_finite() { scale } else { f32::NAN }
}

/// Writes the row's integers, as two's complement; `scale` is its [`row_scale`]. A row of zeros leaves `out` as it is.
pub fn quantize_row(row: &[f32], scale: f32, out: &mut [u8]) {
    if scale > 0.0 {
        for (o, w) in out.iter_mut().zip(row) {
            *o = (w / scale + ROUND).to_bits() as u8;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kinglet_blob::Blob;

    fn matrix(rows: usize, columns: usize, values: &[f32]) -> Matrix {
        let bytes = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        Matrix::float("w", rows, columns, Format::F32, Blob::from_vec(bytes)).expect("shape fits")
    }

    #[test]
    fn rows_are_scaled_to_127_and_zero_rows_stay_zero() {
        let m = matrix(3, 2, &[1.0, -2.0, 0.0, 0.0, 0.25, 127.0]);
        let q = to_int8("w", &m, 2, &mut |_| ()).expect("finite");
        let Rows::I8(values, scales) = q.slice(0, 3) else { panic!("int8") };
        assert_eq!(values, [64, -127, 0, 0, 0, 127]);
        assert_eq!(scales, [2.0 / 127.0, 0.0, 1.0]);
    }

    #[test]
    fn halves_go_to_the_even_neighbour() {
        let m = matrix(1, 6, &[127.0, 0.5, 1.5, -0.5, -1.5, -2.5]);
        let q = to_int8("w", &m, 1, &mut |_| ()).expect("finite");
        let Rows::I8(values, _) = q.slice(0, 1) else { panic!("int8") };
        assert_eq!(values, [127, 0, 2, 0, -2, -2]);
    }

    #[test]
    fn the_number_of_threads_changes_nothing() {
        let values: Vec<f32> = (0..7 * 33).map(|i| ((i * 37) % 101) as f32 - 50.0).collect();
        let m = matrix(7, 33, &values);
        let one = to_int8("w", &m, 1, &mut |_| ()).expect("finite");
        for threads in 2..9 {
            let many = to_int8("w", &m, threads, &mut |_| ()).expect("finite");
            let (Rows::I8(a, s), Rows::I8(b, t)) = (one.slice(0, 7), many.slice(0, 7)) else { panic!("int8") };
            assert!(a == b && s == t, "{threads} threads");
        }
    }

    #[test]
    fn an_infinite_weight_is_named_with_its_row() {
        let error = to_int8("layers.0.up", &matrix(2, 1, &[1.0, f32::INFINITY]), 1, &mut |_| ()).expect_err("infinite");
        let text = error.to_string();
        assert!(text.contains("layers.0.up") && text.contains("row 1"), "{text}");
    }
}
