//! The choice of activation roundings, on the demo model: what `docs/numerics.md` promises of the default.

mod support;

use kinglet_engine::{Activation, Activations};
use kinglet_model::source::Precision;
use support::study::{distance, log_probabilities, round_eight, texts};

/// Mean divergence of the official runtime's int8 graph of this model from float, on the same 249 positions.
const OFFICIAL: f64 = 1.157_788e-3;

#[test]
fn the_default_is_ten_times_closer_than_one_scale_per_row() {
    let (_, texts) = texts();
    let model = support::load("models/demo", Precision::Int8);
    let float = log_probabilities(&model, Activations::all(Activation::Float), &texts);
    let per_row = Activations::all(Activation::Study(|x| round_eight(x, x.len())));
    let per_row = distance(&float, &log_probabilities(&model, per_row, &texts));
    let ours = distance(&float, &log_probabilities(&model, Activations::default(), &texts));
    println!("default {ours:?}, one scale per row {per_row:?}");
    assert!(10.0 * ours.mean < per_row.mean, "{ours:?} against {per_row:?}");
    assert!(ours.top1 > per_row.top1);
}

#[test]
fn the_default_is_closer_to_float_weights_than_the_official_runtime() {
    let (peers, texts) = texts();
    let float = support::load("models/demo", Precision::Stored);
    let int8 = support::load("models/demo", Precision::Int8);
    let truth = log_probabilities(&float, Activations::all(Activation::Float), &texts[..peers]);
    assert_eq!(truth.len(), 249);
    let ours = distance(&truth, &log_probabilities(&int8, Activations::default(), &texts[..peers]));
    println!("ours {ours:?}, the official runtime's mean {OFFICIAL}");
    assert!(3.0 * ours.mean < OFFICIAL, "{ours:?}");
}
