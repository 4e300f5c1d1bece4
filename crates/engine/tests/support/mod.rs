//! Golden files and models for the tests of the engine.

#![allow(dead_code, reason = "each test binary uses its part")]

pub(crate) mod study;

use std::path::PathBuf;
use std::sync::Arc;

use kinglet_engine::{Activation, Activations, Engine, Options};
use kinglet_model::source::{LoadOptions, Precision};
use kinglet_model::{Model, Source};

pub(crate) fn repository() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..")
}

pub(crate) fn load(path: &str, precision: Precision) -> Model {
    let source = Source::open(&repository().join(path)).unwrap_or_else(|e| panic!("{path}: {e}"));
    source
        .load(LoadOptions { precision, threads: 2, progress: &mut |_, _| () })
        .unwrap_or_else(|e| panic!("{path}: {e}"))
}

pub(crate) fn engine(model: &Model, options: &Options) -> Engine {
    Engine::new(Arc::clone(&model.plan), Arc::clone(&model.weights), options)
}

/// No rounding at all, as the reference computes.
pub(crate) fn float_options() -> Options {
    Options { activations: Activations::all(Activation::Float), ..Options::new(2) }
}

/// Tensors of a golden file, as `f32`.
pub(crate) struct Golden {
    bytes: Vec<u8>,
}

impl Golden {
    pub(crate) fn open(path: &str) -> Golden {
        let path = repository().join(path);
        Golden { bytes: std::fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display())) }
    }

    pub(crate) fn f32(&self, name: &str) -> Vec<f32> {
        let file = safetensors::SafeTensors::deserialize(&self.bytes).expect("a golden file parses");
        let tensor = file.tensor(name).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(tensor.dtype(), safetensors::Dtype::F32, "{name}");
        tensor.data().chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().expect("four"))).collect()
    }

    pub(crate) fn ids(&self, name: &str) -> Vec<u32> {
        let file = safetensors::SafeTensors::deserialize(&self.bytes).expect("a golden file parses");
        let tensor = file.tensor(name).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(tensor.dtype(), safetensors::Dtype::I32, "{name}");
        tensor.data().chunks_exact(4).map(|b| u32::from_le_bytes(b.try_into().expect("four"))).collect()
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        let file = safetensors::SafeTensors::deserialize(&self.bytes).expect("a golden file parses");
        file.tensor(name).is_ok()
    }
}

pub(crate) fn max_difference(a: &[f32], b: &[f32]) -> f32 {
    assert_eq!(a.len(), b.len());
    a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
}

pub(crate) fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|v| v.to_bits()).collect()
}
