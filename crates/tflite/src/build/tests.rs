//! What is built is read back by this crate's own reader; the official interpreter runs it in `conformance/`.

use kinglet_blob::Blob;

use super::*;
use crate::{ElementType, Kind, Model};

fn parse(written: &Written, fill: u8) -> Model {
    let mut bytes = written.flatbuffer.clone();
    bytes.resize(written.length as usize, fill);
    Model::parse(Blob::from_vec(bytes), None).expect("what was built is sound")
}

/// `y = x W^T`, shared by two signatures, with a branch that nothing needs.
fn sample() -> Builder {
    let mut builder = Builder::new("sample");
    let weights = builder.outside(6);
    let scales = builder.scales(vec![0.5, 0.25]);
    for rows in [1, 4] {
        let mut graph = builder.graph(format!("run_{rows}"));
        let x = graph.input("x", ElementType::F32, &[1, rows, 3]);
        let w = graph.int8("w", &[2, 3], weights, scales.clone());
        let unused = graph.exp(x);
        graph.logistic(unused);
        let y = graph.fully_connected(x, w, None);
        let y = graph.scale(y, 2.0);
        graph.output("y", y);
        graph.finish();
    }
    builder
}

#[test]
fn a_model_is_read_back() {
    let model = parse(&sample().finish().expect("short"), 7);
    assert_eq!(model.signatures().len(), 2);
    for (signature, rows) in model.signatures().iter().zip([1, 4]) {
        let graph = model.subgraph_of(signature);
        let kinds: Vec<String> = model.operators(graph).map(|operator| operator.kind().to_string()).collect();
        assert_eq!(kinds, ["FULLY_CONNECTED", "MUL"], "what no output needs is left out");
        let linear = model.operators(graph).next().expect("two operators");
        assert_eq!(*linear.kind(), Kind::Builtin(9));
        let weight = &graph.tensors()[linear.input(1).expect("a weight")];
        assert_eq!(model.data(weight).expect("a constant")[..], [7; 6]);
        let quantization = model.quantization(weight).expect("scales");
        assert_eq!((quantization.scales, quantization.zero_points), (vec![0.5, 0.25], vec![0, 0]));
        let output = &graph.tensors()[signature.output("y").expect("named")];
        assert_eq!(output.shape[..], [1, rows, 2]);
    }
}

#[test]
fn large_constants_lie_behind_the_flatbuffer_on_their_alignment() {
    let mut builder = sample();
    builder.outside(10);
    let written = builder.finish().expect("short");
    let places = &written.outside;
    assert_eq!(places.len(), 2);
    assert!(places[0].start >= written.flatbuffer.len() as u64 && places[1].start >= places[0].end);
    assert!(places.iter().all(|place| place.start.is_multiple_of(ALIGNMENT)));
    assert_eq!((places[1].end - places[1].start, written.length), (10, places[1].end));
}

#[test]
fn scales_do_not_change_where_things_lie() {
    let build = |scale: f32| {
        let mut builder = Builder::new("sample");
        let weights = builder.outside(64);
        let scales = builder.scales(vec![scale; 4]);
        let mut graph = builder.graph("run");
        let x = graph.input("x", ElementType::F32, &[1, 16]);
        let w = graph.int8("w", &[4, 16], weights, scales);
        let y = graph.fully_connected(x, w, None);
        graph.output("y", y);
        graph.finish();
        builder.finish().expect("short")
    };
    let (zero, real) = (build(0.0), build(0.125));
    assert_eq!((zero.flatbuffer.len(), zero.outside), (real.flatbuffer.len(), real.outside));
    assert_ne!(zero.flatbuffer, real.flatbuffer);
}

#[test]
fn many_parts_are_joined_four_at_a_time() {
    let mut builder = Builder::new("sample");
    let mut graph = builder.graph("run");
    let parts: Vec<Tensor> = (0..33).map(|n| graph.input(&format!("x{n}"), ElementType::F32, &[1, 2])).collect();
    let whole = graph.concatenate(&parts, 1);
    assert_eq!(graph.shape(whole), [1, 66]);
    graph.output("y", whole);
    graph.finish();
    let model = parse(&builder.finish().expect("short"), 0);
    let graph = &model.subgraphs()[0];
    assert!(model.operators(graph).all(|operator| (2..=4).contains(&operator.inputs().len())));
}
