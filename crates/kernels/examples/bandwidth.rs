//! Prints how fast each tier streams integer weights from memory at one token, next to a plain read of the same memory.
//!
//! `cargo run --release -p kinglet-kernels --example bandwidth [tier]`
#![expect(clippy::print_stdout, reason = "an example that reports to its reader")]

use std::hint::black_box;
use std::time::Instant;

use kinglet_kernels::{Kernels, Precision, QuantizedRow, available};

const BYTES: usize = 512 << 20;

fn main() {
    let only = std::env::args().nth(1);
    let words: Vec<u64> = (0..BYTES as u64 / 8).map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15)).collect();
    let weights: Vec<i8> = words.iter().flat_map(|word| word.to_le_bytes()).map(|byte| byte as i8).collect();
    report("plain read", BYTES, || {
        black_box(words.iter().fold(0u64, |sum, word| sum ^ word));
    });
    for tier in available() {
        if only.as_ref().is_none_or(|name| name == tier.name) {
            measure(tier, &weights);
        }
    }
}

fn measure(tier: &Kernels, weights: &[i8]) {
    for k in [1024, 2048, 6144] {
        for precision in [Precision::Eight, Precision::Sixteen] {
            for (what, tokens, bytes) in [("memory", 1, BYTES), ("cache", 1, 1 << 18), ("cache", 32, 1 << 18)] {
                let rows = bytes / k;
                let x: Vec<f32> = (0..k).map(|i| (i as f32).sin()).collect();
                let mut row = QuantizedRow::new(k);
                tier.quantize(&x, precision, &mut row);
                let x = vec![row; tokens];
                let scales = vec![1e-3; rows];
                let mut out = vec![0.0; rows * tokens];
                let repeats = (BYTES / bytes / tokens).min(256);
                report(
                    &format!("{} k={k} {precision:?} from {what}, {tokens} tokens", tier.name),
                    bytes * tokens * repeats,
                    || {
                        for _ in 0..repeats {
                            tier.project_i8(&weights[..rows * k], &scales, &x, &mut out);
                            black_box(&out);
                        }
                    },
                );
            }
        }
    }
}

/// Best of five, in multiply-adds (at one token: bytes of weights) per second.
fn report(what: &str, work: usize, mut run: impl FnMut()) {
    let mut best = f64::INFINITY;
    for _ in 0..5 {
        let start = Instant::now();
        run();
        best = best.min(start.elapsed().as_secs_f64());
    }
    println!("{what:50} {:7.2} G/s", work as f64 / best / 1e9);
}
