//! `config.json` in the shapes that are published: which value counts, what absence means, what is refused by name.

mod support;

use kinglet_checkpoint::{Config, ErrorKind, LayerType, Result};
use serde_json::{Value, json};
use support::{EMBEDDING, Scratch, golden, shard};

/// A flat configuration: what stands in the file of a golden checkpoint.
fn flat() -> Value {
    let bytes = std::fs::read(golden("text-ratio2").join("config.json")).expect("a fixture");
    serde_json::from_slice(&bytes).expect("json")
}

fn nested(text: Value) -> Value {
    json!({ "model_type": "qwen3_5", "architectures": ["Qwen3_5ForConditionalGeneration"], "text_config": text })
}

fn parse(value: &Value) -> Result<Config> {
    Config::parse(value.to_string().as_bytes())
}

/// `value` with the members of `changes` in place of its own; null removes one.
fn with(mut value: Value, changes: &Value) -> Value {
    let object = value.as_object_mut().expect("an object");
    for (key, change) in changes.as_object().expect("an object") {
        if change.is_null() {
            object.remove(key)
        } else {
            object.insert(key.clone(), change.clone())
        };
    }
    value
}

#[test]
fn nested_and_flat_files_say_the_same() {
    assert_eq!(parse(&flat()).expect("flat"), parse(&nested(flat())).expect("nested"));
    let null = with(flat(), &json!({ "extra": 1 }));
    assert_eq!(parse(&flat()).expect("flat"), parse(&null).expect("fields that nobody knows are passed over"));
}

#[test]
fn each_way_to_write_a_field_means_the_same() {
    let rope = |parameters: Value| with(json!({ "rope_parameters": null }), &json!({ "rope_scaling": parameters }));
    let cases = [
        ("sizes with a point", json!({ "hidden_size": 64.0, "num_hidden_layers": 4.0 })),
        ("layer types by interval", json!({ "layer_types": null })),
        ("layer types without their number", json!({ "num_hidden_layers": null })),
        ("the default interval", json!({ "layer_types": null, "full_attention_interval": null })),
        ("convolution taps by default", json!({ "linear_conv_kernel_dim": null })),
        ("epsilon by default", json!({ "rms_norm_eps": null })),
        ("a whole theta", json!({ "rope_parameters": { "rope_theta": 10_000_000, "partial_rotary_factor": 0.25 } })),
        ("a theta with exponent", json!({ "rope_parameters": { "rope_theta": 1e7, "partial_rotary_factor": 0.25 } })),
        ("the factor by default", json!({ "rope_parameters": { "rope_type": "default", "rope_theta": 1e7 } })),
        ("type for rope_type", json!({ "rope_parameters": { "type": "default", "rope_theta": 1e7 } })),
        ("the older name", rope(json!({ "type": "default", "rope_theta": 1e7 }))),
        ("all beside", json!({ "rope_parameters": null, "rope_theta": 1e7, "partial_rotary_factor": 0.25 })),
        ("the factor beside", json!({ "rope_parameters": { "rope_theta": 1e7 }, "partial_rotary_factor": 0.25 })),
        ("among them before beside", json!({ "partial_rotary_factor": 0.5, "rope_theta": 5 })),
        ("an id in a list", json!({ "eos_token_id": [607] })),
        ("the type of values", json!({ "dtype": null, "torch_dtype": "float16" })),
        ("flags by default", json!({ "attention_bias": null, "attn_output_gate": null, "hidden_act": null })),
        ("no experts", json!({ "num_experts": 0 })),
        ("no architecture", json!({ "architectures": null })),
        ("the other family name", json!({ "model_type": "qwen3_5" })),
    ];
    let expected = parse(&flat()).expect("flat");
    for (what, changes) in cases {
        let changed = with(flat(), &changes);
        assert_ne!(changed, flat(), "{what}");
        assert_eq!(parse(&changed).expect(what), expected, "{what}");
        assert_eq!(parse(&nested(changed)).expect(what), expected, "{what}, nested");
    }
}

#[test]
fn the_text_models_own_value_counts_and_null_is_no_value() {
    let cases = [
        ("only at the top", json!({ "max_position_embeddings": null }), json!({ "max_position_embeddings": 77 }), 77),
        ("at both", json!({ "max_position_embeddings": 88 }), json!({ "max_position_embeddings": 77 }), 88),
        ("at neither", json!({ "max_position_embeddings": null }), json!({}), 32_768),
    ];
    for (what, text, top, expected) in cases {
        let value = with(nested(with(flat(), &text)), &top);
        assert_eq!(parse(&value).expect(what).max_position_embeddings, expected, "{what}");
    }
    let mut null = with(nested(flat()), &json!({ "max_position_embeddings": 77, "eos_token_id": 5 }));
    null["text_config"]["max_position_embeddings"] = Value::Null;
    null["text_config"]["eos_token_id"] = Value::Null;
    let config = parse(&null).expect("null");
    assert_eq!((config.max_position_embeddings, config.eos_token_ids), (77, vec![5]));
    let flat_null = with(flat(), &json!({ "text_config": {} }));
    assert!(parse(&flat_null).is_ok(), "an empty text level leaves the top level");
}

/// The writer of the reference leaves out nested fields that have its class's defaults.
#[test]
fn absent_fields_have_the_defaults_of_the_references_class() {
    let sparse = nested(json!({ "model_type": "qwen3_5_text", "rope_parameters": { "rope_theta": 1e7 } }));
    let config = parse(&sparse).expect("all by default");
    let sizes = [
        (config.vocab_size, 248_320),
        (config.hidden_size, 4096),
        (config.intermediate_size, 12_288),
        (config.layer_types.len(), 32),
        (config.num_attention_heads, 16),
        (config.num_key_value_heads, 4),
        (config.head_dim, 256),
        (config.rotary_dim, 64),
        (config.linear_num_key_heads, 16),
        (config.linear_num_value_heads, 32),
        (config.linear_key_head_dim, 128),
        (config.linear_value_head_dim, 128),
        (config.linear_conv_kernel_dim, 4),
        (config.max_position_embeddings, 32_768),
    ];
    for (i, (found, expected)) in sizes.into_iter().enumerate() {
        assert_eq!(found, expected, "size {i}");
    }
    assert_eq!((config.rms_norm_eps, config.eos_token_ids.len()), (1e-6, 0));
    let full: Vec<usize> = (0..32).filter(|i| config.layer_types[*i] == LayerType::FullAttention).collect();
    assert_eq!(full, [3, 7, 11, 15, 19, 23, 27, 31]);
}

#[test]
fn ids_that_end_a_text_may_be_one_or_several() {
    let cases = [(json!(7), vec![7]), (json!([7, 9]), vec![7, 9]), (json!([]), vec![]), (Value::Null, vec![])];
    for (value, expected) in cases {
        assert_eq!(parse(&with(flat(), &json!({ "eos_token_id": value }))).expect("ids").eos_token_ids, expected);
    }
}

#[test]
fn absurd_and_contradictory_values_are_named() {
    let cases = [
        (json!({ "hidden_size": 0 }), "hidden_size: expected 1 to 65536, found 0"),
        (json!({ "hidden_size": -64 }), "hidden_size: expected 1 to 65536, found -64"),
        (json!({ "hidden_size": 64.5 }), "hidden_size: expected 1 to 65536, found 64.5"),
        (json!({ "hidden_size": "64" }), "hidden_size: expected 1 to 65536, found \"64\""),
        (json!({ "hidden_size": true }), "hidden_size: expected 1 to 65536, found true"),
        (json!({ "vocab_size": 1u64 << 40 }), "vocab_size: expected 1 to 4194304, found 1099511627776"),
        (json!({ "vocab_size": 1e300 }), "vocab_size: expected 1 to 4194304, found 1e+300"),
        (json!({ "num_hidden_layers": 7 }), "layer_types: expected 7 entries, as num_hidden_layers has it, found 4"),
        (json!({ "layer_types": [] }), "layer_types: expected 1 to 1024 entries, found 0"),
        (json!({ "layer_types": "full" }), "layer_types: expected a list, found \"full\""),
        (json!({ "layer_types": null, "full_attention_interval": 0 }), "full_attention_interval: expected 1 to 1024"),
        (json!({ "num_key_value_heads": 3 }), "num_attention_heads: expected a multiple of 3, found 4"),
        (json!({ "linear_num_key_heads": 3 }), "linear_num_value_heads: expected a multiple of 3, found 4"),
        (json!({ "rms_norm_eps": -1 }), "rms_norm_eps: expected a positive number, found -1"),
        (json!({ "rope_parameters": {} }), "rope_theta: expected a positive number, found nothing"),
        (json!({ "rope_parameters": { "rope_theta": "x" } }), "rope_theta: expected a positive number, found \"x\""),
        (json!({ "head_dim": 6 }), "partial_rotary_factor: expected an even part of head_dim 6, found 0.25"),
        (json!({ "eos_token_id": [7, -1] }), "eos_token_id: expected an id, or a list of ids, found -1"),
        (json!({ "eos_token_id": "</s>" }), "eos_token_id: expected an id, or a list of ids, found \"</s>\""),
        (json!({ "tie_word_embeddings": "yes" }), "tie_word_embeddings: expected true or false, found \"yes\""),
    ];
    for (changes, expected) in cases {
        for value in [with(flat(), &changes), nested(with(flat(), &changes))] {
            let error = parse(&value).expect_err(expected);
            assert!(error.to_string().starts_with(&format!("config.json: {expected}")), "{error} / {expected}");
            assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
        }
    }
}

#[test]
fn another_kind_of_file_is_told() {
    let cases: [(&[u8], &str); 5] = [
        (b"", "JSON: expected a valid text"),
        (b"[1]", "JSON: expected an object, found [1]"),
        (b"{\"text_config\":7}", "text_config: expected an object, found 7"),
        (b"{\"a\":\xff}", "JSON: expected a valid text"),
        (&[b' '; (1 << 20) + 1], "size: expected at most 1048576 bytes, found 1048577"),
    ];
    for (json, expected) in cases {
        let error = Config::parse(json).expect_err(expected);
        assert!(error.to_string().starts_with(&format!("config.json: {expected}")), "{error} / {expected}");
        assert_eq!(error.kind(), ErrorKind::Invalid);
    }
    let deep = "[".repeat(1 << 19);
    assert!(Config::parse(deep.as_bytes()).is_err(), "nesting has a limit");
}

#[test]
fn models_that_would_be_computed_wrongly_are_refused_by_name() {
    let cases = [
        (json!({ "model_type": "llama" }), "model_type: kinglet runs qwen3_5, found \"llama\""),
        (json!({ "model_type": "qwen3_5_moe_text" }), "model_type: kinglet runs qwen3_5, found \"qwen3_5_moe_text\""),
        (json!({ "hidden_act": "gelu" }), "hidden_act: kinglet runs \"silu\", found \"gelu\""),
        (json!({ "attention_bias": true }), "attention_bias: kinglet runs false, found true"),
        (json!({ "attn_output_gate": false }), "attn_output_gate: kinglet runs true, found false"),
        (json!({ "num_experts": 128 }), "num_experts: kinglet runs models without it, found 128"),
        (json!({ "num_local_experts": 8 }), "num_local_experts: kinglet runs models without it, found 8"),
        (json!({ "quantization": { "bits": 4 } }), "quantization: kinglet runs models without it, found {\"bits\":4}"),
        (json!({ "quantization_config": { "quant_method": "fp8" } }), "quantization_config: kinglet runs models"),
        (json!({ "rope_parameters": { "rope_type": "yarn" } }), "rope_type: kinglet runs default rotary embeddings"),
        (json!({ "rope_parameters": { "type": "linear" } }), "type: kinglet runs default rotary embeddings"),
        (json!({ "rope_scaling": { "rope_type": "dynamic", "factor": 4 } }), "rope_type: kinglet runs default rotary"),
        (
            json!({ "layer_types": ["full_attention", "linear_attention", "sliding_attention", "full_attention"] }),
            "layer_types: kinglet runs full_attention and linear_attention, found \"sliding_attention\"",
        ),
    ];
    for (changes, expected) in cases {
        for value in [with(flat(), &changes), nested(with(flat(), &changes))] {
            let error = parse(&value).expect_err(expected);
            assert!(error.to_string().starts_with(&format!("config.json: {expected}")), "{error} / {expected}");
            assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
            assert_eq!(error.hint().is_some(), expected.starts_with("quantization"), "{error}");
        }
    }
    let top = [
        (json!({ "model_type": "some_vl" }), "model_type: kinglet runs qwen3_5, found \"some_vl\""),
        (json!({ "quantization_config": { "bits": 4 } }), "quantization_config"),
        (
            json!({ "architectures": ["Qwen3_5ForSequenceClassification"] }),
            "architectures: kinglet runs language models",
        ),
    ];
    for (changes, expected) in top {
        let error = parse(&with(nested(flat()), &changes)).expect_err(expected);
        assert!(error.to_string().contains(expected), "{error} / {expected}");
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    }
    let error = parse(&with(flat(), &json!({ "model_type": null }))).expect_err("no family");
    assert!(error.to_string().contains("model_type: kinglet runs qwen3_5, found nothing"), "{error}");
}

/// Releases of the reference read different levels, and its writer leaves defaults out: then the tensors decide.
#[test]
fn the_tensors_decide_where_the_file_does_not_say_whether_the_head_is_tied() {
    let cases = [
        (json!(true), json!(true), Some(true), Some(true)),
        (json!(null), json!(true), Some(true), Some(true)),
        (json!(true), json!(null), Some(true), Some(true)),
        (json!(false), json!(false), Some(false), None),
        (json!(null), json!(false), Some(false), None),
        (json!(false), json!(null), Some(false), None),
        (json!(true), json!(false), Some(false), Some(true)),
        (json!(false), json!(true), Some(false), Some(true)),
        (json!(null), json!(null), Some(false), Some(true)),
    ];
    for (text, top, with_head, without_head) in cases {
        let text_config = with(flat(), &json!({ "tie_word_embeddings": text }));
        let config = with(nested(text_config), &json!({ "tie_word_embeddings": top }));
        for (heads, expected) in [(1, with_head), (0, without_head)] {
            let tensors: [(&str, &[usize]); 2] = [(EMBEDDING, &[1]), ("lm_head.weight", &[1])];
            let scratch = Scratch::new()
                .write("config.json", config.to_string())
                .write("model.safetensors", shard(&tensors[..1 + heads]));
            match expected {
                Some(tied) => {
                    let found = scratch.open().expect("sound").config().tie_word_embeddings;
                    assert_eq!(found, tied, "{text} {top} {heads}");
                }
                None => {
                    let error = scratch.error();
                    assert!(error.to_string().contains("tie_word_embeddings: expected a tensor `lm_head.weight`"));
                    assert_eq!(error.kind(), ErrorKind::Invalid);
                }
            }
        }
    }
}

/// The released files are a third party's, so they are not part of this repository.
#[test]
fn released_configurations_have_their_known_dimensions() {
    let specs = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/golden/specs");
    let cases = [
        ("0.8B", [1024, 3584, 24, 6, 8, 2, 16, 16]),
        ("2B", [2048, 6144, 24, 6, 8, 2, 16, 16]),
        ("4B", [2560, 9216, 32, 8, 16, 4, 16, 32]),
    ];
    for (size, expected) in cases {
        let path = specs.join(format!("config-{size}.json"));
        let Ok(bytes) = std::fs::read(&path) else {
            println!("SKIPPED: {} is absent", path.display());
            continue;
        };
        let config = Config::parse(&bytes).expect(size);
        let full = config.layer_types.iter().filter(|kind| **kind == LayerType::FullAttention).count();
        let found = [
            config.hidden_size,
            config.intermediate_size,
            config.layer_types.len(),
            full,
            config.num_attention_heads,
            config.num_key_value_heads,
            config.linear_num_key_heads,
            config.linear_num_value_heads,
        ];
        assert_eq!(found, expected, "{size}");
        let same = [config.head_dim, config.rotary_dim, config.linear_key_head_dim, config.linear_value_head_dim];
        assert_eq!(same, [256, 64, 128, 128], "{size}");
        assert_eq!((config.vocab_size, config.max_position_embeddings), (248_320, 262_144), "{size}");
        assert_eq!((config.linear_conv_kernel_dim, config.rope_theta, config.rms_norm_eps), (4, 1e7, 1e-6), "{size}");
        assert_eq!((config.tie_word_embeddings, config.eos_token_ids), (true, vec![248_044]), "{size}");
    }
}
