//! The official tools' own bundles: their float graphs give the reference's logits, and what those graphs or their
//! runtime get wrong does not happen here.

mod support;

use kinglet_engine::sampler::largest;
use kinglet_engine::{Options, Want};
use kinglet_model::Model;
use kinglet_model::source::Precision;
use support::{bits, engine, float_options, load, max_difference, repository};

struct Case {
    name: String,
    ids: Vec<u32>,
    last_logits: Vec<f32>,
    greedy: Vec<u32>,
}

fn numbers(value: &serde_json::Value) -> Vec<f64> {
    value.as_array().expect("a list").iter().map(|v| v.as_f64().expect("a number")).collect()
}

fn ids(value: &serde_json::Value) -> Vec<u32> {
    numbers(value).into_iter().map(|v| v as u32).collect()
}

/// What transformers says in fp32 of the checkpoint that the bundles were made from.
fn reference(folder: &str) -> Vec<Case> {
    let path = repository().join(format!("fixtures/bundles/{folder}/golden_transformers_fp32.json"));
    let json: serde_json::Value = serde_json::from_slice(&std::fs::read(path).expect("golden")).expect("json");
    let cases = json["cases"].as_object().expect("cases");
    let case = |(name, case): (&String, &serde_json::Value)| Case {
        name: name.clone(),
        ids: ids(&case["ids"]),
        last_logits: numbers(&case["last_logits"]).into_iter().map(|v| v as f32).collect(),
        greedy: ids(&case["greedy"]),
    };
    cases.iter().map(case).collect()
}

fn last_logits(model: &Model, options: &Options, prompt: &[u32]) -> Vec<f32> {
    let mut engine = engine(model, options);
    let mut session = engine.session(prompt.len());
    let mut logits = vec![0.0; model.plan.vocab];
    engine.advance(&mut session, prompt, Want::Last(&mut logits)).expect("fits");
    logits
}

fn greedy(model: &Model, options: &Options, prompt: &[u32], count: usize) -> Vec<u32> {
    let mut engine = engine(model, options);
    let mut session = engine.session(prompt.len() + count);
    let mut logits = vec![0.0; model.plan.vocab];
    engine.advance(&mut session, prompt, Want::Last(&mut logits)).expect("fits");
    let mut out = vec![largest(&logits)];
    while out.len() < count {
        engine.advance(&mut session, &out[out.len() - 1..], Want::Last(&mut logits)).expect("fits");
        out.push(largest(&logits));
    }
    out
}

#[test]
fn float_bundles_give_the_reference_logits_and_ids() {
    // tiny4b has grouped value heads, which the official runtime computes wrongly in this dialect.
    for (folder, file) in [("tiny", "tiny_float"), ("tiny", "tinyc_float"), ("tiny4b", "tiny4b_float")] {
        let model = load(&format!("fixtures/bundles/{folder}/{file}.litertlm"), Precision::Int8);
        for case in reference(folder) {
            let ours = last_logits(&model, &float_options(), &case.ids);
            let worst = max_difference(&ours, &case.last_logits);
            assert!(worst < 1e-3, "{file}, {}: logits differ by {worst}", case.name);
            let ids = greedy(&model, &float_options(), &case.ids, case.greedy.len());
            assert_eq!(ids, case.greedy, "{file}, {}", case.name);
        }
    }
}

/// The prompts that each dialect's pad guard damages are in the reference: `long` ends in `!`, which is id 0.
#[test]
fn no_id_is_lost_to_a_pad_guard() {
    for (file, pad) in [("tiny_float", 998), ("tinyc_float", 0)] {
        let bundle = load(&format!("fixtures/bundles/tiny/{file}.litertlm"), Precision::Int8);
        let checkpoint = load("fixtures/bundles/tiny/ckpt", Precision::Stored);
        let prompt = [40, pad, 41, pad, pad, 42];
        let (a, b) =
            (last_logits(&bundle, &float_options(), &prompt), last_logits(&checkpoint, &float_options(), &prompt));
        assert!(max_difference(&a, &b) < 1e-3, "{file}");
        let without = last_logits(&bundle, &float_options(), &[40, 41, 42]);
        assert!(max_difference(&a, &without) > 0.1, "{file}: the id must count");
    }
}

#[test]
fn both_dialects_of_one_checkpoint_give_the_same_bits() {
    for kind in ["float", "wi8fc"] {
        let official = load(&format!("fixtures/bundles/tiny/tiny_{kind}.litertlm"), Precision::Int8);
        let community = load(&format!("fixtures/bundles/tiny/tinyc_{kind}.litertlm"), Precision::Int8);
        for case in reference("tiny") {
            let (a, b) = (
                last_logits(&official, &Options::new(2), &case.ids),
                last_logits(&community, &Options::new(2), &case.ids),
            );
            assert!(bits(&a) == bits(&b), "{kind}, {}", case.name);
        }
    }
}

fn log_softmax(logits: &[f32], id: u32) -> f64 {
    let largest = logits.iter().fold(f32::NEG_INFINITY, |m, v| m.max(*v));
    let sum: f64 = logits.iter().map(|v| f64::from(v - largest).exp()).sum();
    f64::from(logits[id as usize] - largest) - sum.ln()
}

/// A case's name, prompt, target, and nats per target token.
type Scored = (String, Vec<u32>, Vec<u32>, Vec<f64>);

/// The official runtime's scores of the same prompts and targets, in nats per token.
fn runtime_scores(file: &str) -> Vec<Scored> {
    let path = repository().join(format!("fixtures/bundles/tiny/{file}.json"));
    let json: serde_json::Value = serde_json::from_slice(&std::fs::read(path).expect("golden")).expect("json");
    let cases = json["cases"].as_object().expect("cases");
    let case = |(name, case): (&String, &serde_json::Value)| {
        (name.clone(), ids(&case["ids"]), ids(&case["target_ids"]), numbers(&case["target_token_scores"][0]))
    };
    cases.iter().map(case).collect()
}

fn scores(model: &Model, options: &Options, prompt: &[u32], target: &[u32]) -> Vec<f64> {
    let all: Vec<u32> = prompt.iter().chain(target).copied().collect();
    let vocab = model.plan.vocab;
    let mut engine = engine(model, options);
    let mut session = engine.session(all.len());
    let mut logits = vec![0.0; all.len() * vocab];
    engine.advance(&mut session, &all, Want::Every(&mut logits)).expect("fits");
    let row = |i: usize| &logits[(prompt.len() - 1 + i) * vocab..(prompt.len() + i) * vocab];
    target.iter().enumerate().map(|(i, id)| log_softmax(row(i), *id)).collect()
}

/// The runtime's scoring is approximate: up to 0.16 nats from the fp32 log-softmax on these files.
#[test]
fn scores_of_the_float_bundles_agree_with_the_official_runtime() {
    for (bundle, golden) in [("tiny_float", "golden_litertlm_float"), ("tinyc_float", "golden_litertlm_c_float")] {
        let model = load(&format!("fixtures/bundles/tiny/{bundle}.litertlm"), Precision::Int8);
        for (name, prompt, target, expected) in runtime_scores(golden) {
            // The community graph drops `!` (id 0), so its runtime's numbers are not the model's there.
            if bundle == "tinyc_float" && prompt.contains(&0) {
                continue;
            }
            for (ours, theirs) in scores(&model, &float_options(), &prompt, &target).iter().zip(&expected) {
                assert!((ours - theirs).abs() < 0.2, "{bundle}, {name}: {ours} against {theirs}");
            }
        }
    }
}

fn distance(a: &[f32], b: &[f32]) -> f64 {
    a.iter().zip(b).map(|(a, b)| f64::from(a - b).powi(2)).sum::<f64>().sqrt()
}

/// The official int8 graph's logits, through the TFLite interpreter, and ours of the same file: beside float weights, and
/// beside the same int8 weights with float activations.
#[test]
fn an_int8_bundle_is_closer_to_float_than_the_official_graph_is() {
    let model = load("fixtures/bundles/tiny/tinyc_wi8fc.litertlm", Precision::Int8);
    let float = load("fixtures/bundles/tiny/ckpt", Precision::Stored);
    let path = repository().join("fixtures/bundles/tiny/golden_tflite_c_wi8fc.json");
    let json: serde_json::Value = serde_json::from_slice(&std::fs::read(path).expect("golden")).expect("json");
    let (mut ours, mut theirs) = ([0.0; 2], [0.0; 2]);
    for case in json["cases"].as_object().expect("cases").values() {
        let prompt = ids(&case["ids"]);
        // The graph drops `!` (id 0) from its delta-rule layers.
        if prompt.contains(&0) {
            continue;
        }
        let official: Vec<f32> = numbers(&case["exact_chunks"]["last_logits"]).into_iter().map(|v| v as f32).collect();
        let mine = last_logits(&model, &Options::new(2), &prompt);
        let truths = [&float, &model].map(|model| last_logits(model, &float_options(), &prompt));
        for (i, truth) in truths.iter().enumerate() {
            ours[i] += distance(&mine, truth);
            theirs[i] += distance(&official, truth);
        }
    }
    println!("distance of the last logits [from float weights, from float activations]: {ours:?}, official {theirs:?}");
    assert!(ours[0] < theirs[0] && 3.0 * ours[1] < theirs[1], "{ours:?} against {theirs:?}");
}
