//! The first pass: parts go in, the scales of their rows come out; a value that is not finite is an error that names
//! tensor and row, found before anything is written.

use std::ops::ControlFlow;

use kinglet_model::quantize::row_scale;

use crate::error::{Error, Result};
use crate::parts::{Part, Values};

/// Values that are looked at between two calls of the watcher.
const BATCH: usize = 1 << 24;

/// Called with the values looked at and those there are in all; ends the pass with a `Break`.
pub(crate) type Watch<'w> = dyn FnMut(u64, u64) -> ControlFlow<()> + 'w;

/// One list of scales per part; empty for those that stay float.
pub(crate) fn scales(parts: &[Part<'_>], threads: usize, watch: &mut Watch<'_>) -> Result<Vec<Vec<f32>>> {
    let values = |part: &Part<'_>| part.shape.iter().product::<usize>() as u64;
    let total = parts.iter().map(values).sum();
    let mut done = 0;
    let mut all = Vec::with_capacity(parts.len());
    for part in parts {
        let scales = match part.values {
            Values::Vector(_) => Vec::new(), // The reader of the checkpoint has looked at every one.
            Values::Matrix(matrix) => {
                let mut scales = vec![0.0f32; matrix.rows()];
                let batch = (BATCH / matrix.columns()).max(1);
                for (n, scales) in scales.chunks_mut(batch).enumerate() {
                    scan_rows(matrix, n * batch, scales, threads);
                    if watch(done + ((n * batch + scales.len()) * matrix.columns()) as u64, total).is_break() {
                        return Err(Error::interrupted());
                    }
                }
                matrix.release();
                if let Some(row) = scales.iter().position(|scale| scale.is_nan()) {
                    let found = format!("an infinite or undefined value in row {row}");
                    return Err(Error::invalid(format!("tensor `{}`", part.name), "finite values", found));
                }
                scales
            }
        };
        done += values(part);
        all.push(if part.int8 { scales } else { Vec::new() });
    }
    Ok(all)
}

fn scan_rows(matrix: &kinglet_model::Matrix, first: usize, scales: &mut [f32], threads: usize) {
    let share = scales.len().div_ceil(threads.max(1));
    std::thread::scope(|scope| {
        for (i, scales) in scales.chunks_mut(share).enumerate() {
            let mut work = move || {
                let mut row = vec![0.0f32; matrix.columns()];
                for (r, scale) in scales.iter_mut().enumerate() {
                    matrix.read_row(first + i * share + r, &mut row);
                    *scale = row_scale(&row);
                }
            };
            if threads <= 1 { work() } else { drop(scope.spawn(work)) }
        }
    });
}
