//! Conversions of the small checkpoints in the repository: what comes out is bound to the same weights, the same on every
//! number of threads, and refused by name where the checkpoint is damaged.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use kinglet_bundle::write::{Digest, Output};
use kinglet_bundle::{Bundle, SectionKind};
use kinglet_convert::recipe::{Kind, RECIPES, Recipe};
use kinglet_convert::{Conversion, ErrorKind, Outcome, Request, SelfCheck, TemplateChoice, quantized};
use kinglet_engine::{Engine, Options, Want};
use kinglet_model::source::{LoadOptions, Precision, Source};
use kinglet_model::{Matrix, MixerWeights, Rows, Weights};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn tiny(name: &str) -> PathBuf {
    root().join("fixtures/bundles").join(name).join("ckpt")
}

/// A folder of a test's own, removed with it.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("kinglet-convert-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).expect("writable");
        Folder(path)
    }

    /// A copy of a checkpoint that can be damaged.
    fn checkpoint(&self, from: &Path) -> PathBuf {
        let to = self.0.join("checkpoint");
        std::fs::create_dir_all(&to).expect("writable");
        for entry in std::fs::read_dir(from).expect("there").flatten() {
            std::fs::copy(entry.path(), to.join(entry.file_name())).expect("writable");
        }
        to
    }

    fn names(&self) -> Vec<String> {
        let names = std::fs::read_dir(&self.0).expect("there").flatten().map(|e| e.file_name());
        names.map(|name| name.to_string_lossy().into_owned()).filter(|name| name != "checkpoint").collect()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn request(recipe: &str, threads: usize) -> Request {
    Request {
        recipe: Recipe::named(recipe).expect("there"),
        ladder: Some(vec![64, 4, 1]),
        cache_length: 128,
        template: TemplateChoice::Simple,
        name: None,
        threads,
    }
}

fn open(checkpoint: &Path, request: &Request) -> kinglet_convert::Result<Conversion> {
    Conversion::open(Source::open(checkpoint)?, request)
}

fn no_check(_: &Bundle) -> Result<SelfCheck, String> {
    Ok(SelfCheck { ids: vec![1], logits_sha256: "0".repeat(64), top: vec![(2, 0.5)] })
}

fn convert(checkpoint: &Path, to: &Path, request: &Request) -> kinglet_convert::Result<Outcome> {
    let conversion = open(checkpoint, request)?;
    let mut output = Output::create(to, true)?;
    let outcome = conversion.write(&mut output, &mut no_check, &mut |_, _, _| ControlFlow::Continue(()))?;
    output.commit()?;
    Ok(outcome)
}

fn load(path: &Path, precision: Precision) -> Weights {
    let load = LoadOptions { precision, threads: 2, progress: &mut |_, _| () };
    let model = Source::open(path).and_then(|source| source.load(load)).expect("a model");
    (*model.weights).clone()
}

/// Values and scales of a matrix, as bits.
fn bits(matrix: &Matrix) -> (Vec<i8>, Vec<u32>) {
    if let Rows::I8(values, scales) = matrix.slice(0, matrix.rows()) {
        return (values.to_vec(), scales.iter().map(|s| s.to_bits()).collect());
    }
    let mut all = Vec::new();
    let mut row = vec![0.0; matrix.columns()];
    for r in 0..matrix.rows() {
        matrix.read_row(r, &mut row);
        all.extend(row.iter().map(|value| value.to_bits()));
    }
    (Vec::new(), all)
}

fn vectors(weights: &Weights) -> Vec<&[f32]> {
    let mut all = vec![&weights.final_norm[..]];
    for layer in &weights.layers {
        all.extend([&layer.input_norm[..], &layer.mlp_norm]);
        match &layer.mixer {
            MixerWeights::Attention(w) => all.extend([&w.query_norm[..], &w.key_norm]),
            MixerWeights::Delta(w) => all.extend([&w.conv[..], &w.decay_rate, &w.dt_bias, &w.norm]),
        }
    }
    all
}

#[test]
fn a_bundle_is_bound_to_the_weights_of_its_checkpoint_bit_for_bit() {
    let folder = Folder::new("bits");
    for checkpoint in [tiny("tiny"), tiny("tiny4b"), root().join("models/demo")] {
        for recipe in RECIPES {
            let path = folder.0.join("model.litertlm");
            convert(&checkpoint, &path, &request(recipe.name, 2)).expect("a bundle");
            let found = load(&path, Precision::Int8);
            let expected = quantized(&load(&checkpoint, Precision::Stored), recipe.int8, 1).expect("finite");
            for ((name, a), (_, b)) in expected.matrices().zip(found.matrices()) {
                assert!(bits(a) == bits(b), "{} {name}", recipe.name);
            }
            assert_eq!(expected.matrices().count(), found.matrices().count());
            assert!(vectors(&expected) == vectors(&found), "{}", recipe.name);
        }
    }
}

/// Logits behind every id, as bits.
fn logits(path: &Path, precision: Precision, ids: &[u32]) -> Vec<u32> {
    let load = LoadOptions { precision, threads: 2, progress: &mut |_, _| () };
    let model = Source::open(path).and_then(|source| source.load(load)).expect("a model");
    let mut engine = Engine::new(model.plan, model.weights, &Options::new(2));
    let mut logits = vec![0.0; ids.len() * engine.plan().vocab];
    let mut session = engine.session(ids.len());
    engine.advance(&mut session, ids, Want::Every(&mut logits)).expect("fits");
    logits.iter().map(|logit| logit.to_bits()).collect()
}

#[test]
fn a_bundle_and_its_checkpoint_answer_with_the_same_bits() {
    let folder = Folder::new("answers");
    let path = folder.0.join("model.litertlm");
    // With ids that other graphs take for padding.
    let ids: Vec<u32> = [0, 998, 1, 0, 0].into_iter().chain((0..60).map(|i| (i * 37) % 1000)).collect();
    for checkpoint in [tiny("tiny"), tiny("tiny4b"), root().join("models/demo")] {
        for (recipe, precision) in [("int8", Precision::Int8), ("float", Precision::Stored)] {
            convert(&checkpoint, &path, &request(recipe, 2)).expect("a bundle");
            let expected = logits(&checkpoint, precision, &ids);
            assert!(logits(&path, Precision::Int8, &ids) == expected, "{recipe} {}", checkpoint.display());
        }
    }
}

#[test]
fn int8_is_what_loading_the_checkpoint_gives() {
    let stored = load(&tiny("tiny4b"), Precision::Stored);
    let loaded = load(&tiny("tiny4b"), Precision::Int8);
    let made = quantized(&stored, RECIPES[0].int8, 3).expect("finite");
    for ((name, a), (_, b)) in made.matrices().zip(loaded.matrices()) {
        assert!(bits(a) == bits(b), "{name}");
    }
}

#[test]
fn the_same_bytes_come_out_whatever_the_number_of_threads_and_the_name_of_the_file() {
    let folder = Folder::new("same");
    let mut seen = Vec::new();
    for (threads, name) in [(1, "a.litertlm"), (2, "b.litertlm"), (7, "c.litertlm")] {
        let path = folder.0.join(name);
        let outcome = convert(&root().join("models/demo"), &path, &request("int8", threads)).expect("a bundle");
        let bytes = std::fs::read(path).expect("written");
        assert_eq!(Digest::of(&bytes).to_string(), outcome.lock.bundle.sha256);
        assert_eq!(bytes.len() as u64, outcome.lock.bundle.size_bytes);
        seen.push((bytes, outcome.lock, outcome.tensors));
    }
    assert!(seen.windows(2).all(|pair| pair[0] == pair[1]));
}

#[test]
fn what_is_outlined_is_what_is_written() {
    let folder = Folder::new("outline");
    let path = folder.0.join("model.litertlm");
    for recipe in RECIPES {
        let request = request(recipe.name, 1);
        let (sections, total) = open(&tiny("tiny"), &request).expect("sound").outline().expect("fits");
        let lock = convert(&tiny("tiny"), &path, &request).expect("a bundle").lock;
        assert_eq!(total, lock.bundle.size_bytes);
        let written: Vec<(String, u64)> =
            lock.bundle.sections.iter().map(|section| (section.kind.clone(), section.size_bytes)).collect();
        assert_eq!(sections.into_iter().map(|s| (s.kind, s.size_bytes)).collect::<Vec<_>>(), written);
    }
}

#[test]
fn a_bundle_says_what_its_model_needs() {
    let folder = Folder::new("metadata");
    let path = folder.0.join("model.litertlm");
    let named = Request { name: Some("Tiny".to_owned()), ..request("int8", 1) };
    convert(&tiny("tiny"), &path, &named).expect("a bundle");
    let bundle = Bundle::open(&path).expect("sound");
    let kinds: Vec<SectionKind> = bundle.sections().iter().map(|section| section.kind).collect();
    use SectionKind::*;
    assert_eq!(kinds, [LlmMetadata, ExecutorMetadata, HfTokenizerZlib, TfLiteModel, GenericBinaryData]);
    let tokenizer = std::fs::read(tiny("tiny").join("tokenizer.json")).expect("there");
    assert!(bundle.tokenizer_json().expect("there") == tokenizer, "byte for byte");
    let llm = bundle.llm_metadata().expect("there");
    assert_eq!(llm.max_num_tokens, 128);
    assert_eq!(llm.jinja_prompt_template.as_deref(), Some(kinglet_text::proof::SIMPLE));
    let stops: Vec<i32> = llm.stop_tokens.iter().flat_map(|token| token.ids.clone()).collect();
    let config = std::fs::read_to_string(tiny("tiny").join("generation_config.json")).expect("there");
    let config: serde_json::Value = serde_json::from_str(&config).expect("JSON");
    for id in config["eos_token_id"].as_array().expect("a list") {
        assert!(stops.contains(&(id.as_i64().expect("an id") as i32)), "{stops:?}");
    }
    let states = bundle.executor_metadata().expect("sound").expect("there").llm.expect("there").state_buffers;
    assert_eq!(states.len(), 8);
    let own = bundle.own().expect("there");
    let own: serde_json::Value = serde_json::from_slice(&own.data).expect("JSON");
    assert_eq!(own["self_check"]["top"][0][0], 2);
    assert_eq!(own["recipe"]["name"], "int8");
    assert_eq!(own["options"]["name"], "Tiny");
}

#[test]
fn the_report_tells_bytes_scales_and_errors_of_every_tensor() {
    let folder = Folder::new("report");
    let outcome = convert(&tiny("tiny"), &folder.0.join("m"), &request("int8", 2)).expect("a bundle");
    let find = |name: &str| outcome.tensors.iter().find(|tensor| tensor.name == name).expect(name);
    let linear = find("layers.0.in_proj_qkv");
    assert_eq!((linear.kind, linear.format, linear.bytes), (Kind::DeltaNet, "i8", 192 * 64 + 4 * 192));
    let [least, most] = linear.scales.expect("int8 has scales");
    assert!(0.0 < least && least <= most && most < 1.0);
    let rms = linear.relative_rms.expect("int8 has an error");
    assert!((0.001..0.02).contains(&rms), "{rms}");
    assert!(linear.max_error.expect("int8 has an error") <= most * 0.5001);
    let gate = find("layers.0.in_proj_a");
    assert_eq!((gate.kind, gate.format, gate.bytes, gate.scales), (Kind::Gates, "f32", 4 * 64 * 4, None));
    let legacy = convert(&tiny("tiny"), &folder.0.join("m"), &request("int8-legacy", 2)).expect("a bundle");
    assert_eq!(legacy.tensors.iter().find(|t| t.name == "layers.0.in_proj_a").expect("there").format, "i8");
}

/// What is done to a checkpoint, and the words that the error must hold.
type Damage = (&'static str, fn(&Path), ErrorKind, &'static [&'static str]);

fn edit(file: &Path, from: &str, to: &str) {
    let text = std::fs::read_to_string(file).expect("text");
    assert!(text.contains(from), "{from}");
    std::fs::write(file, text.replacen(from, to, 1)).expect("writable");
}

fn write(checkpoint: &Path, name: &str, bytes: Vec<u8>) {
    std::fs::write(checkpoint.join(name), bytes).expect("writable");
}

/// Overwrites a value of the first matrix in the file, which is bf16.
fn set_weight(checkpoint: &Path, bits: u16) {
    let path = checkpoint.join("model.safetensors");
    let mut bytes = std::fs::read(&path).expect("there");
    let header = u64::from_le_bytes(bytes[..8].try_into().expect("eight")) as usize;
    let json: serde_json::Value = serde_json::from_slice(&bytes[8..8 + header]).expect("JSON");
    let tensor =
        json.as_object().expect("an object").iter().find(|(name, _)| name.ends_with("layers.1.mlp.up_proj.weight"));
    let at = 8
        + header
        + tensor.expect("there").1["data_offsets"][0].as_u64().expect("a number") as usize
        + 2 * (3 * 64 + 5);
    bytes[at..at + 2].copy_from_slice(&bits.to_le_bytes());
    std::fs::write(path, bytes).expect("writable");
}

const DAMAGES: &[Damage] = &[
    (
        "sampling",
        |c| write(c, "generation_config.json", b"{\"temperature\": -1}".to_vec()),
        ErrorKind::Invalid,
        &["generation_config.json: temperature", "0 to 100", "-1"],
    ),
    (
        "long template",
        |c| write(c, "chat_template.jinja", vec![b' '; (1 << 20) + 1]),
        ErrorKind::Invalid,
        &["chat_template.jinja", "at most 1048576 bytes"],
    ),
    (
        "long settings",
        |c| write(c, "generation_config.json", vec![b' '; (4 << 20) + 1]),
        ErrorKind::Invalid,
        &["generation_config.json", "at most 4194304 bytes"],
    ),
    (
        "long tokenizer",
        |c| write(c, "tokenizer.json", vec![b' '; (64 << 20) + 1]),
        ErrorKind::Invalid,
        &["tokenizer.json", "at most 67108864 bytes"],
    ),
    ("nan", |c| set_weight(c, 0x7fc0), ErrorKind::Invalid, &["layers.1.up_proj", "row 3", "finite"]),
    ("infinity", |c| set_weight(c, 0xff80), ErrorKind::Invalid, &["layers.1.up_proj", "row 3", "finite"]),
    ("no config", |c| std::fs::remove_file(c.join("config.json")).expect("there"), ErrorKind::Io, &["config.json"]),
    (
        "no weights",
        |c| std::fs::remove_file(c.join("model.safetensors")).expect("there"),
        ErrorKind::Io,
        &["safetensors"],
    ),
    (
        "no tokenizer",
        |c| std::fs::remove_file(c.join("tokenizer.json")).expect("there"),
        ErrorKind::Invalid,
        &["tokenizer.json"],
    ),
    ("family", |c| edit(&c.join("config.json"), "qwen3_5", "llama"), ErrorKind::Unsupported, &["config.json", "llama"]),
    (
        "quantized",
        |c| edit(&c.join("config.json"), "{", "{\"quantization_config\": {\"quant_method\": \"gptq\"},"),
        ErrorKind::Unsupported,
        &["quantization"],
    ),
    (
        "tokenizer",
        |c| edit(&c.join("tokenizer.json"), "\"id\": 998", "\"id\": 5000"),
        ErrorKind::Invalid,
        &["tokenizer"],
    ),
    (
        "truncated",
        |c| {
            let path = c.join("model.safetensors");
            let bytes = std::fs::read(&path).expect("there");
            std::fs::write(path, &bytes[..bytes.len() - 10]).expect("writable");
        },
        ErrorKind::Invalid,
        &["model.safetensors"],
    ),
];

#[test]
fn a_damaged_checkpoint_is_refused_by_name_and_leaves_nothing() {
    for (name, damage, kind, words) in DAMAGES {
        let folder = Folder::new(&format!("damage-{}", name.replace(' ', "-")));
        let checkpoint = folder.checkpoint(&tiny("tiny"));
        damage(&checkpoint);
        let error = convert(&checkpoint, &folder.0.join("model.litertlm"), &request("int8", 2)).expect_err(name);
        let text = error.to_string();
        assert_eq!(error.kind(), *kind, "{name}: {text}");
        assert!(words.iter().all(|word| text.contains(word)), "{name}: {text}");
        assert!(folder.names().is_empty(), "{name}: {:?}", folder.names());
    }
}

type Change = fn(&mut Request);

#[test]
fn what_cannot_be_asked_for_is_refused() {
    let simple = request("int8", 1);
    let folder = Folder::new("options");
    let checkpoint = folder.checkpoint(&tiny("tiny"));
    edit(&checkpoint.join("tokenizer_config.json"), "\"chat_template\"", "\"another\"");
    let asked = |change: Change, expected: &str| {
        let mut request = simple.clone();
        change(&mut request);
        open(&checkpoint, &request).map(drop).expect_err(expected)
    };
    let cases: &[(Change, ErrorKind, &str)] = &[
        (|r| r.ladder = Some(vec![256, 1]), ErrorKind::Option, "128 positions, expected 256"),
        (|r| r.ladder = Some(vec![]), ErrorKind::Option, "empty"),
        (
            |r| r.template = TemplateChoice::Source("{{ messages[0].content }}".into()),
            ErrorKind::Invalid,
            "chat template",
        ),
        (|r| r.template = TemplateChoice::Source("{% if %}".into()), ErrorKind::Invalid, "chat template"),
        (|r| r.template = TemplateChoice::Stock, ErrorKind::Unsupported, "no chat template"),
    ];
    for (change, kind, expected) in cases {
        let error = asked(*change, expected);
        assert_eq!(error.kind(), *kind, "{error}");
        assert!(error.to_string().contains(expected), "{error}");
    }
    let bundle = root().join("fixtures/bundles/tiny/tiny_float.litertlm");
    let error = open(&bundle, &simple).map(drop).expect_err("a bundle already");
    assert!(error.to_string().contains("already"), "{error}");
}

#[test]
fn whoever_watches_can_stop_it_and_nothing_is_left() {
    let folder = Folder::new("stop");
    let conversion = open(&tiny("tiny"), &request("int8", 2)).expect("sound");
    for calls in [1, 3, 12] {
        let mut output = Output::create(&folder.0.join("model.litertlm"), false).expect("writable");
        let mut left = calls;
        let error = conversion.write(&mut output, &mut no_check, &mut |_, _, _| {
            left -= 1;
            if left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        assert_eq!(error.expect_err("stopped").kind(), ErrorKind::Interrupted);
        drop(output);
        assert!(folder.names().is_empty());
    }
}

#[test]
fn a_bundle_that_does_not_run_is_not_written() {
    let folder = Folder::new("check");
    let conversion = open(&tiny("tiny"), &request("int8", 1)).expect("sound");
    let mut output = Output::create(&folder.0.join("model.litertlm"), false).expect("writable");
    let mut bad = |bundle: &Bundle| -> Result<SelfCheck, String> {
        assert!(Source::of_bundle(bundle.clone()).is_ok(), "all but the last section is there");
        Err("the logit of id 7 is NaN".to_owned())
    };
    let error = conversion.write(&mut output, &mut bad, &mut |_, _, _| ControlFlow::Continue(())).expect_err("refused");
    assert_eq!(error.kind(), ErrorKind::SelfCheck);
    assert!(error.to_string().contains("id 7 is NaN"), "{error}");
    drop(output);
    assert!(folder.names().is_empty());
}
