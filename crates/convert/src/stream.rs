//! The second pass: parts with their scales go in, the bytes of the TFLite section come out from front to back; workers
//! round batches of rows ahead of the writer, and never hold more than two batches each.

use std::io::{self, Write};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};

use kinglet_model::quantize::quantize_row;

use crate::graph::Written;
use crate::parts::{Part, Values};
use crate::report::TensorReport;

/// Values of a batch, where a row is not longer.
const BATCH: usize = 1 << 20;

/// What the section is made of.
pub(crate) struct Section<'s, 'w> {
    pub(crate) graph: &'s Written,
    pub(crate) parts: &'s [Part<'w>],
    /// One list per part.
    pub(crate) scales: &'s [Vec<f32>],
    pub(crate) threads: usize,
}

/// Some rows of a part.
#[derive(Clone, Copy)]
struct Batch {
    part: usize,
    first: usize,
    rows: usize,
}

/// How far integers are from the values that they stand for.
#[derive(Clone, Copy, Default)]
struct Errors {
    squares: f64,
    error_squares: f64,
    max: f32,
}

/// A worker's finished batch.
struct Done {
    bytes: Vec<u8>,
    errors: Errors,
}

impl Section<'_, '_> {
    /// Writes all of it. The result does not depend on the number of threads.
    pub(crate) fn write(&self, out: &mut dyn Write, reports: &mut Vec<TensorReport>) -> io::Result<()> {
        out.write_all(&self.graph.flatbuffer)?;
        let batches = self.batches();
        let workers = self.threads.max(1);
        std::thread::scope(|scope| {
            let mut lines = Vec::new();
            for worker in 0..workers {
                let (send, done) = sync_channel(1);
                let (give_back, spare) = channel();
                let batches = &batches;
                scope.spawn(move || self.work(batches.iter().skip(worker).step_by(workers), &send, &spare));
                lines.push((done, give_back));
            }
            self.collect(&batches, &lines, out, reports)
        })
    }

    fn batches(&self) -> Vec<Batch> {
        let mut batches = Vec::new();
        for (part, values) in self.parts.iter().map(|part| part.values).enumerate() {
            match values {
                Values::Vector(_) => batches.push(Batch { part, first: 0, rows: 1 }),
                Values::Matrix(matrix) => {
                    let most = (BATCH / matrix.columns()).max(1);
                    let firsts = (0..matrix.rows()).step_by(most);
                    batches.extend(firsts.map(|first| Batch { part, first, rows: most.min(matrix.rows() - first) }));
                }
            }
        }
        batches
    }

    fn work<'b>(&self, batches: impl Iterator<Item = &'b Batch>, send: &SyncSender<Done>, spare: &Receiver<Vec<u8>>) {
        let mut row = Vec::new();
        for batch in batches {
            let mut bytes = spare.try_recv().unwrap_or_default();
            bytes.clear();
            let errors = self.convert(*batch, &mut row, &mut bytes);
            // Nobody listens after an error of the writer.
            if send.send(Done { bytes, errors }).is_err() {
                return;
            }
        }
    }

    fn convert(&self, batch: Batch, row: &mut Vec<f32>, bytes: &mut Vec<u8>) -> Errors {
        let mut errors = Errors::default();
        match self.parts[batch.part].values {
            Values::Vector(values) => extend_with_floats(bytes, values),
            Values::Matrix(matrix) => {
                row.resize(matrix.columns(), 0.0);
                for r in batch.first..batch.first + batch.rows {
                    matrix.read_row(r, row);
                    if self.parts[batch.part].int8 {
                        let (scale, at) = (self.scales[batch.part][r], bytes.len());
                        bytes.resize(at + row.len(), 0);
                        quantize_row(row, scale, &mut bytes[at..]);
                        errors.add(row, scale, &bytes[at..]);
                    } else {
                        extend_with_floats(bytes, row);
                    }
                }
            }
        }
        errors
    }

    fn collect(
        &self,
        batches: &[Batch],
        lines: &[(Receiver<Done>, Sender<Vec<u8>>)],
        out: &mut dyn Write,
        reports: &mut Vec<TensorReport>,
    ) -> io::Result<()> {
        let mut at = self.graph.flatbuffer.len() as u64;
        let mut errors = Errors::default();
        for (n, batch) in batches.iter().enumerate() {
            if batch.first == 0 {
                at = zeros(out, at, self.graph.placements[batch.part])?;
                errors = Errors::default();
            }
            let (done, give_back) = &lines[n % lines.len()];
            let gone = |_| io::Error::other("a worker has gone");
            let batch_done = done.recv().map_err(gone)?;
            out.write_all(&batch_done.bytes)?;
            at += batch_done.bytes.len() as u64;
            errors.join(batch_done.errors);
            // A worker that is done needs no spare.
            let _ = give_back.send(batch_done.bytes);
            if batches.get(n + 1).is_none_or(|next| next.part != batch.part) {
                reports.push(self.report(batch.part, errors));
                if let Values::Matrix(matrix) = self.parts[batch.part].values {
                    matrix.release();
                }
            }
        }
        zeros(out, at, self.graph.length).map(drop)
    }

    fn report(&self, part: usize, errors: Errors) -> TensorReport {
        let (part, scales) = (&self.parts[part], &self.scales[part]);
        let least = scales.iter().copied().fold(f32::INFINITY, f32::min);
        let most = scales.iter().copied().fold(0.0, f32::max);
        let relative = if errors.squares > 0.0 { (errors.error_squares / errors.squares).sqrt() } else { 0.0 };
        TensorReport {
            name: part.name.clone(),
            kind: part.kind,
            shape: part.shape.clone(),
            format: if part.int8 { "i8" } else { "f32" },
            bytes: part.bytes() + 4 * scales.len() as u64,
            scales: part.int8.then_some([least, most]),
            relative_rms: part.int8.then_some(relative),
            max_error: part.int8.then_some(errors.max),
        }
    }
}

impl Errors {
    /// Sums of a row in `f32`, by lanes: a row is short, and the report is no result that anything depends on.
    fn add(&mut self, row: &[f32], scale: f32, integers: &[u8]) {
        const LANES: usize = 8;
        let (mut squares, mut errors, mut max) = ([0.0f32; LANES], [0.0f32; LANES], [0.0f32; LANES]);
        for (row, integers) in row.chunks(LANES).zip(integers.chunks(LANES)) {
            for (lane, (w, q)) in row.iter().zip(integers).enumerate() {
                let error = (w - f32::from(*q as i8) * scale).abs();
                squares[lane] += w * w;
                errors[lane] += error * error;
                max[lane] = if error > max[lane] { error } else { max[lane] };
            }
        }
        self.squares += squares.iter().map(|s| f64::from(*s)).sum::<f64>();
        self.error_squares += errors.iter().map(|s| f64::from(*s)).sum::<f64>();
        self.max = max.iter().copied().fold(self.max, f32::max);
    }

    fn join(&mut self, other: Errors) {
        self.squares += other.squares;
        self.error_squares += other.error_squares;
        self.max = self.max.max(other.max);
    }
}

fn extend_with_floats(bytes: &mut Vec<u8>, values: &[f32]) {
    bytes.extend(values.iter().flat_map(|value| value.to_le_bytes()));
}

/// Zeros from `at` to `end`; gives `end`.
fn zeros(out: &mut dyn Write, at: u64, end: u64) -> io::Result<u64> {
    const ZEROS: [u8; 4096] = [0; 4096];
    let mut left = end - at;
    while left > 0 {
        let count = left.min(ZEROS.len() as u64);
        out.write_all(&ZEROS[..count as usize])?;
        left -= count;
    }
    Ok(end)
}
