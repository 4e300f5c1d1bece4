//! Every tier that this CPU can run, held against the definitions in `portable`, bit for bit.

use std::io::Write;

use kinglet_kernels::{
    ATTENTION_BLOCK, BLOCK, FloatRows, Kernels, Precision, QuantizedRow, Softmax, available, by_name, compiled,
};
use proptest::prelude::*;

/// Emulated CPUs are slow: there, every so many sizes are tried, an odd number so that all remainders still occur.
const STRIDE: usize = if cfg!(target_arch = "aarch64") { 7 } else { 1 };

/// `all`, or `few` in an interpreter, which also runs tiers that the CPU under it cannot.
fn sizes(all: impl IntoIterator<Item = usize>, few: &[usize]) -> Vec<usize> {
    if cfg!(miri) { few.to_vec() } else { all.into_iter().collect() }
}

/// Fast numbers that are the same in every run.
struct Random(u64);

impl Random {
    fn bits(&mut self) -> u32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 32) as u32
    }

    /// Between -1 and 1.
    fn unit(&mut self) -> f32 {
        self.bits() as i32 as f32 / 2_147_483_648.0
    }

    fn values(&mut self, n: usize) -> Vec<f32> {
        (0..n).map(|_| self.unit()).collect()
    }

    /// Values of all sizes and kinds that `f32` has, one in eight of them.
    fn wild(&mut self, n: usize) -> Vec<f32> {
        let kinds = [0.0, -0.0, f32::NAN, f32::INFINITY, f32::NEG_INFINITY, f32::MAX, 1e-40, -1e-45];
        (0..n)
            .map(|_| match self.bits() % 16 {
                0 => kinds[self.bits() as usize % kinds.len()],
                1 => f32::from_bits(self.bits()),
                _ => 4.0 * self.unit(),
            })
            .collect()
    }

    fn bytes(&mut self, n: usize) -> Vec<i8> {
        (0..n).map(|_| self.bits() as i8).collect()
    }

    fn halves(&mut self, n: usize) -> Vec<u16> {
        (0..n).map(|_| self.bits() as u16).collect()
    }
}

fn portable() -> &'static Kernels {
    by_name("portable").expect("every CPU can run it")
}

/// The bits of a result; all kinds of NaN are one.
fn bits(x: &[f32]) -> Vec<u32> {
    x.iter().map(|v| if v.is_nan() { f32::NAN.to_bits() } else { v.to_bits() }).collect()
}

/// Runs `kernel` on every tier and requires of all what the portable tier gives.
fn all_equal(what: &str, kernel: impl Fn(&Kernels) -> Vec<f32>) {
    let expected = bits(&kernel(portable()));
    for tier in available() {
        let found = bits(&kernel(tier));
        if let Some(at) = expected.iter().zip(&found).position(|(a, b)| a != b) {
            panic!(
                "{}: {what}: value {at} is {:e}, not {:e}",
                tier.name,
                f32::from_bits(found[at]),
                f32::from_bits(expected[at])
            );
        }
    }
}

fn lengths() -> Vec<usize> {
    let all = (1..200).step_by(STRIDE).chain([255, 256, 257, 1023, 1024, 1025, 2048, 6144]);
    sizes(all, &[1, 16, 37, 128, 257])
}

fn quantized(kernels: &Kernels, x: &[f32], k: usize, precision: Precision) -> Vec<QuantizedRow> {
    x.chunks_exact(k)
        .map(|x| {
            let mut row = QuantizedRow::new(k);
            kernels.quantize(x, precision, &mut row);
            row
        })
        .collect()
}

/// Prints where the test harness does not capture it.
fn say(what: &str) {
    writeln!(std::io::stderr(), "{what}").expect("stderr is open");
}

/// A tier that was not tested must not look tested.
#[test]
fn tiers_that_this_cpu_cannot_run_are_named() {
    let can: Vec<_> = available().iter().map(|tier| tier.name).collect();
    assert_eq!(can.first(), Some(&"portable"));
    for name in compiled() {
        if !can.contains(&name) {
            say(&format!("NOT TESTED: this CPU cannot run the tier {name}"));
        }
    }
    say(&format!("tested: {can:?}"));
    assert!(can.iter().all(|name| compiled().contains(name)));
}

#[test]
fn elementwise_kernels_are_equal_at_every_length() {
    let mut random = Random(1);
    for n in lengths() {
        for wild in [false, true] {
            let mut next = || if wild { random.wild(n) } else { random.values(n) };
            let (x, y, z) = (next(), next(), next());
            all_equal(&format!("rms_norm {n}"), |k| {
                let mut out = vec![0.0; n];
                k.rms_norm(&x, &y, 1e-6, &mut out);
                out
            });
            let in_place = |what: &str, kernel: &dyn Fn(&Kernels, &mut [f32])| {
                all_equal(&format!("{what} {n}"), |k| {
                    let mut x = x.clone();
                    kernel(k, &mut x);
                    x
                });
            };
            in_place("gated_norm", &|k, x| k.gated_norm(x, &y, &z, 1e-6));
            in_place("l2_normalize", &|k, x| k.l2_normalize(x, 0.125));
            in_place("add", &|k, x| k.add(x, &y));
            in_place("silu_mul", &|k, x| k.silu_mul(x, &y));
            in_place("sigmoid_mul", &|k, x| k.sigmoid_mul(x, &y));
            in_place("rope", &|k, x| k.rope(x, &y[..n / 2], &z[..n / 2]));
            in_place("rope of a part", &|k, x| k.rope(x, &y[..n / 5], &z[..n / 5]));
            for taps in 1..=4 {
                let w: Vec<f32> = (0..taps).flat_map(|_| z.clone()).collect();
                let rows = &[x.as_slice(), &y, &z, &x][..taps];
                all_equal(&format!("conv_silu {n} {taps}"), |k| {
                    let mut out = vec![0.0; n];
                    k.conv_silu(rows, &w, &mut out);
                    out
                });
            }
        }
    }
}

/// `sigmoid_mul` of ones shows all bits of `exp`, except where it is large; `attend` of one position per block does there.
#[test]
fn exponentials_are_equal_for_bit_patterns_of_all_sizes() {
    let stride = match () {
        _ if cfg!(miri) => 16_777_213,
        _ if cfg!(target_arch = "aarch64") => 1_048_573,
        _ => 65_521,
    };
    let x: Vec<f32> = (0..=u32::MAX).step_by(stride).map(f32::from_bits).collect();
    let near: Vec<f32> =
        (-2000..2000).map(|i| if i < 0 { -87.336_54 } else { 88.722_83 } * (1.0 + i as f32 * 6e-8)).collect();
    for x in [x, near] {
        for sign in [1.0, -1.0] {
            let gate: Vec<f32> = x.iter().map(|x| sign * x).collect();
            all_equal("sigmoid", |k| {
                let mut ones = vec![1.0; gate.len()];
                k.sigmoid_mul(&mut ones, &gate);
                ones
            });
            all_equal("silu", |k| {
                let mut gate = gate.clone();
                k.silu_mul(&mut gate, &vec![1.0; x.len()]);
                gate
            });
        }
    }
}

#[test]
fn rounding_to_integers_is_equal_at_every_length() {
    let mut random = Random(2);
    for n in lengths() {
        for precision in [Precision::Eight, Precision::Sixteen] {
            let ties: Vec<f32> =
                (0..n).map(|i| if i % BLOCK == 0 { precision.limit() } else { i as f32 - 63.5 }).collect();
            let tiny: Vec<f32> = random.values(n).iter().map(|v| v * 1e-39).collect();
            let huge: Vec<f32> = random.values(n).iter().map(|v| v * 3e38).collect();
            for x in [random.values(n), random.wild(n), ties, tiny, huge, vec![0.0; n], vec![-0.0; n]] {
                all_equal(&format!("quantize {n} {precision:?}"), |k| {
                    // What an earlier, longer row left must not show.
                    let mut row = QuantizedRow::new(n + BLOCK);
                    k.quantize(&vec![1.0; n + BLOCK], Precision::Sixteen, &mut row);
                    k.quantize(&x, precision, &mut row);
                    let mut out: Vec<f32> = row.values().iter().map(|v| f32::from(*v)).collect();
                    out.extend(row.scales());
                    // Shows the layouts that have no accessor.
                    let mut dot = [0.0];
                    k.project_i8(&vec![-128; n], &[1.0], &[row], &mut dot);
                    out.extend(dot);
                    out
                });
            }
        }
    }
}

/// Weights and their end are at an odd address, so that an aligned load or one beyond the end has a chance to fail.
fn projections_are_equal(k: usize, rows: usize, tokens: usize, w: &[i8], x: &[f32]) {
    let scales: Vec<f32> = (0..rows).map(|r| 0.01 * (r as f32 - 1.5)).collect();
    let mut shifted = vec![0];
    shifted.extend_from_slice(w);
    for precision in [Precision::Eight, Precision::Sixteen] {
        all_equal(&format!("project_i8 k={k} r={rows} t={tokens} {precision:?}"), |kernels| {
            let x = quantized(kernels, x, k, precision);
            let mut out = vec![0.0; rows * tokens];
            kernels.project_i8(&shifted[1..], &scales, &x, &mut out);
            out
        });
    }
    all_equal(&format!("project_i8_f32 k={k} r={rows} t={tokens}"), |kernels| {
        let mut out = vec![0.0; rows * tokens];
        kernels.project_i8_f32(&shifted[1..], &scales, x, &mut out);
        out
    });
}

#[test]
fn integer_projections_are_equal_around_all_borders() {
    let mut random = Random(3);
    for (i, k) in lengths().into_iter().enumerate() {
        let (rows, tokens) = (i % 9 + 1, i * 4 % 9 + 1);
        projections_are_equal(k, rows, tokens, &random.bytes(k * rows), &random.values(k * tokens));
        projections_are_equal(k, 3, 1, &random.bytes(k * 3), &random.values(k));
    }
    for rows in sizes(1..=9, &[1, 4, 6]) {
        for tokens in sizes(1..=9, &[1, 4, 7]) {
            projections_are_equal(150, rows, tokens, &random.bytes(150 * rows), &random.values(150 * tokens));
        }
    }
}

#[test]
fn the_largest_integers_do_not_overflow() {
    for k in sizes([16, 127, 128, 129, 2048], &[16, 128]) {
        for weight in [-128, 127] {
            for x in [1.0, -1.0] {
                projections_are_equal(k, 5, 5, &vec![weight; 5 * k], &vec![x; 5 * k]);
            }
        }
    }
}

#[test]
fn values_that_are_not_finite_reach_the_results_of_all_tiers() {
    let mut random = Random(4);
    for k in [1, 17, 128, 300] {
        projections_are_equal(k, 5, 3, &random.bytes(5 * k), &random.wild(3 * k));
    }
}

/// The interpreter does not know the conversion of half precision in 512 bits.
fn without_f16_in_an_interpreter<'a>(formats: &[FloatRows<'a>]) -> Vec<FloatRows<'a>> {
    formats.iter().copied().filter(|w| !(cfg!(miri) && matches!(w, FloatRows::F16(_)))).collect()
}

#[test]
fn float_projections_are_equal_around_all_borders() {
    let mut random = Random(5);
    let mut check = |k: usize, rows: usize, tokens: usize, wild: bool| {
        let x = random.values(k * tokens);
        let (single, halves) = match wild {
            true => (random.wild(k * rows), random.halves(k * rows)),
            // Finite in both half formats.
            false => (random.values(k * rows), random.halves(k * rows).iter().map(|h| h & 0xbbff).collect()),
        };
        for w in
            without_f16_in_an_interpreter(&[FloatRows::F32(&single), FloatRows::Bf16(&halves), FloatRows::F16(&halves)])
        {
            all_equal(&format!("project_float k={k} r={rows} t={tokens}"), |kernels| {
                let mut out = vec![0.0; rows * tokens];
                kernels.project_float(w, k, &x, &mut out);
                out
            });
        }
    };
    for (i, k) in lengths().into_iter().enumerate() {
        check(k, i % 9 + 1, i * 4 % 9 + 1, false);
    }
    for rows in sizes(1..=9, &[1, 4, 6]) {
        for tokens in sizes(1..=5, &[1, 3]) {
            check(37, rows, tokens, false);
        }
    }
    check(1, 64, 1, true);
    check(33, 7, 3, true);
}

#[test]
fn all_bit_patterns_of_half_formats_convert_equally() {
    let all: Vec<u16> = (0..=u16::MAX).step_by(if cfg!(miri) { 2048 } else { 1 }).collect();
    for w in without_f16_in_an_interpreter(&[FloatRows::Bf16(&all), FloatRows::F16(&all)]) {
        // Each row is one value followed by zeros of `x`: NaN and infinity times zero show as NaN in all.
        all_equal("half formats", |kernels| {
            let mut out = vec![0.0; all.len() / 16];
            let mut sums = Vec::new();
            for lane in 0..16 {
                let mut x = [0.0; 16];
                x[lane] = 1.0;
                kernels.project_float(w, 16, &x, &mut out);
                sums.extend_from_slice(&out);
            }
            sums
        });
    }
}

#[test]
fn delta_steps_are_equal_for_all_shapes() {
    let mut random = Random(6);
    let all = [1, 2, 15, 16, 17, 31, 32, 33, 48, 63, 64, 65, 96, 127, 128, 129];
    for (i, dv) in sizes(all, &[1, 17, 36, 64, 83]).into_iter().enumerate() {
        for dk in sizes([1, 3, 16, 64, 128], &[3, 16]) {
            let wild = i % 3 == 2;
            let mut next = |n| if wild { random.wild(n) } else { random.values(n) };
            let (state, v) = (next(dk * dv), next(dv));
            let steps: Vec<_> = (0..3).map(|_| (next(dk), next(dk))).collect();
            all_equal(&format!("delta_step {dk}x{dv}"), |kernels| {
                let (mut state, mut out) = (state.clone(), vec![0.0; dv]);
                let mut all = Vec::new();
                for (q, k) in &steps {
                    kernels.delta_step(&mut state, q, k, &v, 0.9, 0.4, &mut out);
                    all.extend_from_slice(&out);
                }
                all.extend_from_slice(&state);
                all
            });
        }
    }
}

#[test]
fn attention_is_equal_for_all_shapes() {
    let mut random = Random(7);
    for d in sizes([1, 2, 15, 16, 17, 32, 63, 64, 65, 80, 128, 256], &[1, 17, 85]) {
        for positions in sizes([1, 2, 3, 4, 5, 15, 16, 17, 33, 127, 128], &[1, 5, 18]) {
            for (wild, scale) in [(false, 0.3), (true, 0.3), (false, 100.0), (false, 0.0), (false, -0.0)] {
                let mut next = |n| if wild { random.wild(n) } else { random.values(n) };
                let q = next(d);
                let caches: Vec<_> = (0..2).map(|_| (next(d * positions), next(d * positions))).collect();
                all_equal(&format!("attend d={d} p={positions} scale={scale}"), |kernels| {
                    let (mut softmax, mut out) = (Softmax::default(), vec![0.0; d]);
                    for (keys, values) in &caches {
                        kernels.attend(&q, keys, values, scale, &mut softmax, &mut out);
                    }
                    out.extend([softmax.max, softmax.sum]);
                    out
                });
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(sizes([if cfg!(target_arch = "aarch64") { 16 } else { 128 }], &[2])[0] as u32))]

    #[test]
    fn any_projection_is_equal(k in 1usize..700, rows in 1usize..12, tokens in 1usize..10, seed: u64) {
        let mut random = Random(seed);
        projections_are_equal(k, rows, tokens, &random.bytes(k * rows), &random.wild(k * tokens));
    }

    #[test]
    fn any_attention_is_equal(d in 1usize..300, positions in 1usize..=ATTENTION_BLOCK, seed: u64, sharp in 0f32..50.0) {
        let mut random = Random(seed);
        let (q, keys, values) = (random.values(d), random.values(d * positions), random.values(d * positions));
        all_equal("attend", |kernels| {
            let (mut softmax, mut out) = (Softmax::default(), vec![0.0; d]);
            kernels.attend(&q, &keys, &values, sharp, &mut softmax, &mut out);
            out.extend([softmax.max, softmax.sum]);
            out
        });
    }
}
