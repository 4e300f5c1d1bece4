//! Damaged models: whatever the bytes, reading ends with a model or an error.

#[path = "../../flat/tests/builder/mutation.rs"]
mod mutation;

use std::path::Path;

use kinglet_blob::Blob;
use kinglet_tflite::Model;
use mutation::{Numbers, damage};

/// Asks a model for everything it has.
fn read_all(model: &Model) -> usize {
    let mut read = model.listing(true).to_string().len() + model.description().len();
    for subgraph in model.subgraphs() {
        for tensor in subgraph.tensors() {
            read += model.name(tensor).len() + model.data(tensor).map_or(0, |data| data.len());
            read += model.quantization(tensor).map_or(0, |q| q.scales.len());
        }
        for operator in model.operators(subgraph) {
            read += operator.inputs().flatten().sum::<usize>() + operator.outputs().sum::<usize>();
            read += model.attributes(&operator).len();
        }
    }
    read + model.metadata().map(|(_, bytes)| bytes.len()).sum::<usize>()
}

#[test]
fn damaged_models_are_survived() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/bundles/tiny/tiny_wi8fc.litertlm");
    let file = Blob::map(&path).expect("a fixture");
    let sound = &file[65536..];
    let (mut models, mut errors) = (0, 0);
    for seed in 0..1000 {
        let mut numbers = Numbers::new(seed);
        let mut bytes = sound.to_vec();
        let region = if seed % 3 == 0 { 0..4096 } else { 0..bytes.len() };
        damage(&mut bytes, region, &mut numbers);
        if numbers.below(32) == 0 {
            bytes.truncate(numbers.below(sound.len()));
        }
        match Model::parse(Blob::from_vec(bytes), None) {
            Ok(model) => models += usize::from(read_all(&model) > 0),
            Err(error) => errors += usize::from(!error.to_string().is_empty()),
        }
    }
    assert!(models > 100 && errors > 100, "{models} were read, {errors} were refused");
}
