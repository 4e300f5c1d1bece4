//! Prints the study of `docs/numerics.md`: how far each rounding of activations moves the demo model.
//!
//! `cargo run --release -p kinglet-engine --example activations`

#[path = "../tests/support/mod.rs"]
mod support;

use kinglet_engine::{Activation, Activations};
use kinglet_kernels::Precision;
use kinglet_model::source::Precision as Weights;
use support::study::{distance, log_probabilities, round_eight, texts};

#[expect(clippy::print_stdout, reason = "the table is this program's result")]
fn main() {
    let (peers, texts) = texts();
    let int8 = support::load("models/demo", Weights::Int8);
    let stored = support::load("models/demo", Weights::Stored);
    let float = Activations::all(Activation::Float);
    let same_weights = log_probabilities(&int8, float.clone(), &texts);
    let truth = log_probabilities(&stored, float.clone(), &texts);
    let peer_positions: usize = texts[..peers].iter().map(Vec::len).sum();
    let eight = Activation::Integer(Precision::Eight);
    let sixteen = Activation::Integer(Precision::Sixteen);
    let per_row = Activation::Study(|x| round_eight(x, x.len()));
    let mix = |a: &str| {
        let pick = |c: char| if c == '2' { sixteen } else { eight };
        let mut c = a.chars().map(pick);
        let mut next = || c.next().expect("five places");
        Activations { mixer_in: next(), mixer_out: next(), mlp_in: next(), mlp_down: next(), head: next() }
    };
    let only = |place: usize| {
        let at = |i: usize| if i == place { per_row } else { Activation::Float };
        Activations { mixer_in: at(0), mixer_out: at(1), mlp_in: at(2), mlp_down: at(3), head: at(4) }
    };
    let mut rows = vec![
        ("float".to_owned(), float),
        ("int8, one scale per row".to_owned(), Activations::all(per_row)),
        ("int8, per 128".to_owned(), Activations::all(eight)),
        ("int8, per 64".to_owned(), Activations::all(Activation::Study(|x| round_eight(x, 64)))),
        ("int8, per 32".to_owned(), Activations::all(Activation::Study(|x| round_eight(x, 32)))),
        ("two planes, per 128".to_owned(), Activations::all(sixteen)),
    ];
    for (i, place) in ["mixer in", "mixer out", "MLP in", "MLP down", "head"].iter().enumerate() {
        rows.push((format!("int8 per row only at {place}"), only(i)));
    }
    for planes in ["11121", "12121", "12122", "11122", "22121", "12221", "22122", "12222", "22221", "21222"] {
        rows.push((format!("planes {planes} (mixer in, out, MLP in, down, head)"), mix(planes)));
    }
    println!(
        "| activations | KL to the same int8 weights | max | top-1 | KL to float weights, all | the 249 peer positions |"
    );
    println!("|---|---|---|---|---|---|");
    for (name, activations) in rows {
        let subject = log_probabilities(&int8, activations, &texts);
        let (a, b) = (distance(&same_weights, &subject), distance(&truth, &subject));
        let c = distance(&truth[..peer_positions], &subject[..peer_positions]);
        println!(
            "| {name} | {:.2e} | {:.1e} | {:.2} % | {:.2e} | {:.2e} |",
            a.mean,
            a.max,
            100.0 * a.top1,
            b.mean,
            c.mean
        );
    }
}
