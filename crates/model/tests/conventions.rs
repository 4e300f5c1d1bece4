//! Checkpoints of one model in every published shape: names, files, nesting and storage differ, the weights do not.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use kinglet_model::source::{LoadOptions, Model, Precision, Source};
use kinglet_model::{ErrorKind, Mixer, MixerWeights, Weights};
use safetensors::tensor::{Dtype, TensorView};
use serde_json::{Value, json};

const TIED: &str = "text-ratio2";
const UNTIED: &str = "text-untied-8layer";

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/golden/ckpt").join(name)
}

#[derive(Clone)]
struct Tensor {
    dtype: Dtype,
    shape: Vec<usize>,
    data: Vec<u8>,
}

impl Tensor {
    fn values(&self) -> Vec<f32> {
        match self.dtype {
            Dtype::F32 => self.data.as_chunks::<4>().0.iter().map(|b| f32::from_le_bytes(*b)).collect(),
            Dtype::BF16 => {
                self.data.as_chunks::<2>().0.iter().map(|b| half::bf16::from_le_bytes(*b).to_f32()).collect()
            }
            other => panic!("the goldens have no {other:?}"),
        }
    }

    fn stored_as_f32(&self, values: Vec<f32>) -> Tensor {
        let data = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        Tensor { dtype: Dtype::F32, data, shape: self.shape.clone() }
    }

    /// In half precision, if that holds every value.
    fn stored_as_f16(&self) -> Option<Tensor> {
        let values = self.values();
        let halves: Vec<half::f16> = values.iter().map(|v| half::f16::from_f32(*v)).collect();
        let exact = values.iter().zip(&halves).all(|(v, h)| v.to_bits() == h.to_f32().to_bits());
        let data = halves.iter().flat_map(|h| h.to_le_bytes()).collect();
        exact.then(|| Tensor { dtype: Dtype::F16, data, shape: self.shape.clone() })
    }
}

/// A checkpoint in memory, to be changed and written.
#[derive(Clone)]
struct Parts {
    config: Value,
    tensors: BTreeMap<String, Tensor>,
}

impl Parts {
    fn golden(name: &str) -> Parts {
        let directory = golden(name);
        let config = std::fs::read(directory.join("config.json")).expect("a fixture");
        let mut tensors = BTreeMap::new();
        for entry in std::fs::read_dir(directory).expect("a fixture") {
            let path = entry.expect("an entry").path();
            if path.extension().is_none_or(|extension| extension != "safetensors") {
                continue;
            }
            let bytes = std::fs::read(path).expect("a fixture");
            for (name, view) in safetensors::SafeTensors::deserialize(&bytes).expect("sound").iter() {
                let tensor = Tensor { dtype: view.dtype(), shape: view.shape().to_vec(), data: view.data().to_vec() };
                tensors.insert(name.to_owned(), tensor);
            }
        }
        Parts { config: serde_json::from_slice(&config).expect("json"), tensors }
    }

    fn renamed(mut self, rename: impl Fn(&str) -> String) -> Parts {
        self.tensors = self.tensors.into_iter().map(|(name, tensor)| (rename(&name), tensor)).collect();
        self
    }

    fn changed(mut self, change: impl Fn(&str, &Tensor) -> Tensor) -> Parts {
        self.tensors.iter_mut().for_each(|(name, tensor)| *tensor = change(name, tensor));
        self
    }

    fn nested(mut self) -> Parts {
        self.config = json!({ "model_type": "qwen3_5", "text_config": self.config, "vision_config": { "depth": 2 } });
        self
    }

    /// Tensors that a text run does not use.
    fn extended(mut self, names: &[&str]) -> Parts {
        let extra = Tensor { dtype: Dtype::BF16, shape: vec![2, 3], data: vec![1; 12] };
        self.tensors.extend(names.iter().map(|name| ((*name).to_owned(), extra.clone())));
        self
    }

    /// Writes config, tokenizer and one file for each name, the tensors dealt out in turn.
    fn write(&self, files: &[&str]) -> Scratch {
        let scratch = Scratch::new();
        let write = |name: &str, bytes: &[u8]| std::fs::write(scratch.0.join(name), bytes).expect("written");
        write("config.json", self.config.to_string().as_bytes());
        write("tokenizer.json", &std::fs::read(golden(TIED).join("tokenizer.json")).expect("a fixture"));
        for (i, file) in files.iter().enumerate() {
            let dealt = self.tensors.iter().skip(i).step_by(files.len());
            let views =
                dealt.map(|(name, t)| (name, TensorView::new(t.dtype, t.shape.clone(), &t.data).expect("sound")));
            write(file, &safetensors::serialize(views, None).expect("sound"));
        }
        if files.len() > 1 {
            let map: BTreeMap<&String, &&str> = self.tensors.keys().zip(files.iter().cycle()).collect();
            write("model.safetensors.index.json", json!({ "metadata": {}, "weight_map": map }).to_string().as_bytes());
        }
        scratch
    }
}

/// A directory that is removed when dropped.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Scratch {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let name = format!("kinglet-conventions-{}-{}", std::process::id(), COUNT.fetch_add(1, Relaxed));
        let directory = std::env::temp_dir().join(name);
        std::fs::create_dir(&directory).expect("a new directory");
        Scratch(directory)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn load(directory: &Path, precision: Precision) -> kinglet_model::Result<Model> {
    Source::open(directory)?.load(LoadOptions { precision, threads: 1, progress: &mut |_, _| () })
}

/// Every number, as its bits, under a name.
fn numbers(weights: &Weights) -> BTreeMap<String, Vec<u32>> {
    let bits = |values: &[f32]| values.iter().map(|v| v.to_bits()).collect::<Vec<u32>>();
    let mut all = BTreeMap::new();
    for (name, matrix) in weights.matrices() {
        let mut values = vec![0.0; matrix.rows() * matrix.columns()];
        values.chunks_mut(matrix.columns()).enumerate().for_each(|(row, out)| matrix.read_row(row, out));
        all.insert(name, bits(&values));
    }
    let mut vector = |name: String, values: &[f32]| {
        assert!(all.insert(name.clone(), bits(values)).is_none(), "{name} is there twice");
    };
    vector("final_norm".into(), &weights.final_norm);
    for (i, layer) in weights.layers.iter().enumerate() {
        vector(format!("{i}.input_norm"), &layer.input_norm);
        vector(format!("{i}.mlp_norm"), &layer.mlp_norm);
        match &layer.mixer {
            MixerWeights::Attention(w) => {
                vector(format!("{i}.query_norm"), &w.query_norm);
                vector(format!("{i}.key_norm"), &w.key_norm);
            }
            MixerWeights::Delta(w) => {
                vector(format!("{i}.conv"), &w.conv);
                vector(format!("{i}.decay_rate"), &w.decay_rate);
                vector(format!("{i}.dt_bias"), &w.dt_bias);
                vector(format!("{i}.norm"), &w.norm);
            }
        }
    }
    all
}

/// Both checkpoints must hold the same plan and, as stored and as integers, the same numbers.
fn assert_same(what: &str, directory: &Path, original: &str) {
    for precision in [Precision::Stored, Precision::Int8] {
        let (found, expected) =
            (load(directory, precision).expect(what), load(&golden(original), precision).expect(original));
        assert_eq!(found.plan, expected.plan, "{what}");
        let (found, expected) = (numbers(&found.weights), numbers(&expected.weights));
        assert_eq!(found.keys().collect::<Vec<_>>(), expected.keys().collect::<Vec<_>>(), "{what} {precision:?}");
        for (name, values) in expected {
            assert!(found[&name] == values, "{what} {precision:?}: {name} differs");
        }
    }
}

fn nested_name(name: &str) -> String {
    name.replacen("model.", "model.language_model.", 1)
}

/// As converted for MLX: norms with the 1 added, the last two dimensions of convolutions swapped.
fn mlx(name: &str, tensor: &Tensor) -> Tensor {
    if name.ends_with("norm.weight") && !name.ends_with("linear_attn.norm.weight") {
        return tensor.stored_as_f32(tensor.values().into_iter().map(|w| w + 1.0).collect());
    }
    let mut tensor = tensor.clone();
    if name.ends_with("conv1d.weight") {
        tensor.shape.swap(1, 2);
    }
    tensor
}

#[test]
fn the_nested_shape_holds_the_same_model_and_tells_what_it_does_not_use() {
    let extra = ["model.visual.blocks.0.attn.qkv.weight", "model.visual.pos_embed.weight", "mtp.fc.weight"];
    for original in [TIED, UNTIED] {
        let parts = Parts::golden(original).renamed(nested_name).nested().extended(&extra);
        let scratch = parts.write(&["model.safetensors"]);
        assert_same("nested", &scratch.0, original);
        let notices = load(&scratch.0, Precision::Stored).expect("sound").notices;
        assert_eq!(notices, ["2 vision and 1 draft-head tensors are not used for text"]);
    }
}

#[test]
fn an_mlx_conversion_holds_the_same_model() {
    for original in [TIED, UNTIED] {
        let rename = |name: &str| format!("language_model.{name}");
        let parts = Parts::golden(original).changed(mlx).renamed(rename).nested().extended(&["vision_tower.a.weight"]);
        assert_eq!(parts.tensors.contains_key("language_model.lm_head.weight"), original == UNTIED);
        assert_same("mlx", &parts.write(&["model.safetensors"]).0, original);
    }
}

#[test]
fn the_convention_is_told_by_the_tensors_and_not_by_their_prefix() {
    let rename = |name: &str| format!("language_model.{name}");
    let parts = Parts::golden(TIED).renamed(rename).nested();
    assert_same("an old name, norms about zero", &parts.write(&["model.safetensors"]).0, TIED);
    let parts = Parts::golden(TIED).changed(mlx);
    assert_same("the usual name, norms about one", &parts.write(&["model.safetensors"]).0, TIED);
}

#[test]
fn files_may_have_any_names_and_number() {
    let cases: [&[&str]; 3] = [
        &["model.safetensors-00001-of-00003.safetensors", "b b.safetensors", "weights.bin"],
        &["model.safetensors-00001-of-00001.safetensors"],
        &["fine-tuned (2).safetensors"],
    ];
    for original in [TIED, UNTIED] {
        for files in cases {
            assert_same(files[0], &Parts::golden(original).write(files).0, original);
        }
    }
}

#[test]
fn storage_in_other_float_types_holds_the_same_numbers() {
    let as_f32 = Parts::golden(TIED).changed(|_, t| t.stored_as_f32(t.values()));
    assert_same("f32", &as_f32.write(&["model.safetensors"]).0, TIED);
    let as_f16 = Parts::golden(TIED).changed(|_, t| t.stored_as_f16().unwrap_or_else(|| t.clone()));
    assert!(as_f16.tensors.values().any(|t| t.dtype == Dtype::F16), "some tensors are exact in f16");
    assert_same("f16", &as_f16.write(&["model.safetensors"]).0, TIED);
    // Values that are multiples of 1/64 up to 2 are exact in every type: then whole models can be compared.
    let coarse =
        |t: &Tensor| t.values().into_iter().map(|v| (v * 64.0).round().clamp(-128.0, 128.0) / 64.0 + 0.0).collect();
    let coarse = Parts::golden(TIED).changed(|_, t| t.stored_as_f32(coarse(t)));
    let halves = coarse.clone().changed(|_, t| t.stored_as_f16().expect("exact"));
    let (coarse, halves) = (coarse.write(&["model.safetensors"]), halves.write(&["model.safetensors"]));
    for precision in [Precision::Stored, Precision::Int8] {
        let read = |scratch: &Scratch| numbers(&load(&scratch.0, precision).expect("sound").weights);
        assert!(read(&coarse) == read(&halves), "{precision:?}");
    }
}

#[test]
fn an_unusable_tensor_is_named() {
    let matrix = "model.layers.0.mlp.up_proj.weight";
    let names = [
        matrix,
        "model.embed_tokens.weight",
        "model.norm.weight",
        "model.layers.0.linear_attn.in_proj_qkv.weight",
        "model.layers.1.linear_attn.conv1d.weight",
        "model.layers.2.linear_attn.A_log",
        "model.layers.3.self_attn.q_norm.weight",
        "model.layers.3.self_attn.o_proj.weight",
    ];
    let fail = |parts: &Parts, precision, name: &str, expected: &str| {
        let error = load(&parts.write(&["model.safetensors"]).0, precision).expect_err(name);
        assert!(error.to_string().contains(name) && error.to_string().contains(expected), "{error} / {expected}");
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    };
    for name in names {
        let mut missing = Parts::golden(TIED);
        let tensor = missing.tensors.remove(name).expect(name);
        // Without it nothing tells where the text model's tensors are.
        let absence = if name.contains("embed_tokens") { "a known prefix" } else { "a tensor of that name" };
        fail(&missing, Precision::Stored, name, absence);
        let with = |tensor: Tensor| {
            let mut parts = missing.clone();
            parts.tensors.insert(name.to_owned(), tensor);
            parts
        };
        let mut shape = tensor.shape.clone();
        shape.push(1);
        fail(&with(Tensor { shape, ..tensor.clone() }), Precision::Stored, name, "expected shape [");
        let integers = Tensor { dtype: Dtype::I32, ..tensor.stored_as_f32(tensor.values()) };
        fail(&with(integers), Precision::Stored, name, "I32");
    }
    for bad in [f32::NAN, f32::INFINITY] {
        let mut parts = Parts::golden(TIED);
        let tensor = parts.tensors.get_mut(matrix).expect(matrix);
        let mut values = tensor.values();
        values[70] = bad;
        *tensor = tensor.stored_as_f32(values);
        fail(&parts, Precision::Int8, matrix, "row 1");
        for vector in ["model.layers.2.linear_attn.A_log", "model.norm.weight"] {
            let mut parts = Parts::golden(TIED);
            let tensor = parts.tensors.get_mut(vector).expect(vector);
            let mut values = tensor.values();
            values[1] = bad;
            *tensor = tensor.stored_as_f32(values);
            fail(&parts, Precision::Stored, vector, "index 1");
        }
    }
}

/// A checkpoint of the released size whose weights are a hole in a file: all zero, and taking no room.
fn hollow(specs: &Path, size: &str) -> Option<(Scratch, usize)> {
    let config = std::fs::read(specs.join(format!("config-{size}.json"))).ok()?;
    let tensors = std::fs::read(specs.join(format!("tensors-{size}.json"))).ok()?;
    let tensors: BTreeMap<String, Vec<u64>> = serde_json::from_slice(&tensors).expect("names and shapes");
    let (mut header, mut end) = (serde_json::Map::new(), 0);
    for (name, shape) in &tensors {
        let single = name.ends_with("A_log") || name.ends_with("linear_attn.norm.weight");
        let (dtype, bytes) = if single { ("F32", 4) } else { ("BF16", 2) };
        let start = end;
        end += bytes * shape.iter().product::<u64>();
        header.insert(name.clone(), json!({ "dtype": dtype, "shape": shape, "data_offsets": [start, end] }));
    }
    let mut header = Value::from(header).to_string().into_bytes();
    header.resize(header.len().next_multiple_of(8), b' ');
    let scratch = Scratch::new();
    std::fs::write(scratch.0.join("config.json"), config).expect("written");
    std::fs::copy(golden(TIED).join("tokenizer.json"), scratch.0.join("tokenizer.json")).expect("written");
    let path = scratch.0.join("model.safetensors-00001-of-00001.safetensors");
    std::fs::write(&path, [&(header.len() as u64).to_le_bytes()[..], &header].concat()).expect("written");
    let file = std::fs::File::options().write(true).open(path).expect("just written");
    file.set_len(8 + header.len() as u64 + end).expect("a hole");
    Some((scratch, tensors.len()))
}

/// The released lists are a third party's, so they are not part of this repository.
#[test]
fn released_checkpoints_have_every_tensor_that_is_asked_for_and_no_other_of_text() {
    let specs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/golden/specs");
    let cases = [("0.8B", 488, 752_393_024, 6), ("2B", 632, 1_881_825_088, 6), ("4B", 738, 4_205_751_296, 8)];
    for (size, tensors, parameters, attention) in cases {
        let Some((scratch, found)) = hollow(&specs, size) else {
            println!("SKIPPED: {} has no {size}", specs.display());
            continue;
        };
        let model = load(&scratch.0, Precision::Stored).expect(size);
        let (linears, rest) = model.plan.parameters(model.weights.head.is_none());
        assert_eq!((found, linears + rest), (tensors, parameters), "{size}");
        assert_eq!(model.plan.count(Mixer::GatedAttention), attention, "{size}");
        assert_eq!(model.weights.footprint().owned, 0, "{size}: matrices stay in the file");
        assert_eq!(model.notices.len(), 1, "{size}: vision and draft head are told");
        assert!(model.weights.final_norm.iter().all(|w| *w == 1.0), "{size}");
    }
}
