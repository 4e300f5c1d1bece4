//! The protocol buffers: what the official writer's hold, what is kept of those that are not known, what is refused.

mod support;

use kinglet_bundle::metadata::{SamplerKind, StateKind};
use kinglet_bundle::{Bundle, LlmMetadata, Tokenizer};
use support::{file, fixture, open, part, real_bundles};

fn llm(bytes: &[u8]) -> Result<LlmMetadata, String> {
    let bundle = open(file(&[part(5, bytes)])).expect("sound");
    bundle.llm_metadata().map_err(|error| error.to_string())
}

#[test]
fn the_official_writers_metadata_is_read() {
    let bundle = Bundle::open(&fixture("tiny/tiny_float.litertlm")).expect("sound");
    let metadata = bundle.llm_metadata().expect("sound");
    assert_eq!(metadata.model_type.as_ref().and_then(|t| t.name()), Some("qwen3"));
    assert_eq!(metadata.max_num_tokens, 256);
    let ids: Vec<&[i32]> = metadata.stop_tokens.iter().map(|t| &t.ids[..]).filter(|ids| !ids.is_empty()).collect();
    assert!(ids.contains(&&[998][..]) && ids.contains(&&[1000][..]), "{ids:?}");
    let texts = metadata.stop_tokens.iter().filter_map(|t| t.text.as_deref());
    assert_eq!(texts.filter(|text| text.ends_with("<|im_end|>\n")).count(), 14);
    assert_eq!(metadata.pad_token.and_then(|t| t.text).as_deref(), Some("<|endoftext|>"));
    assert!(metadata.jinja_prompt_template.expect("a template").contains("<|im_start|>"));
    assert!(metadata.unknown.bytes().is_empty());

    let executor = bundle.executor_metadata().expect("sound").expect("there").llm.expect("there");
    assert_eq!(executor.max_history_size, Some(0));
    let buffers: Vec<_> = executor.state_buffers.iter().map(|b| (&*b.decode_input, b.kind, b.sequence_axis)).collect();
    assert_eq!(buffers[0], ("kv_cache_c_0", StateKind::LinearAttention, None));
    assert_eq!(buffers[6], ("kv_cache_k_3", StateKind::GlobalKeys, Some(2)));
    assert_eq!(buffers[7], ("kv_cache_v_3", StateKind::GlobalValues, Some(3)));
    assert_eq!(executor.state_buffers[6].maximum_length, Some(256));
}

#[test]
fn every_real_bundle_is_read_whole() {
    for path in real_bundles() {
        if !path.exists() {
            println!("SKIPPED: {} is absent", path.display());
            continue;
        }
        let bundle = Bundle::open(&path).expect("sound");
        bundle.llm_metadata().expect("sound");
        bundle.executor_metadata().expect("sound").expect("every hybrid bundle has one");
        assert_eq!(bundle.tokenizer(), Some(Tokenizer::HuggingFace));
        let json = bundle.tokenizer_json().expect("sound");
        assert!(json.starts_with(b"{") && json.ends_with(b"}"), "{}", path.display());
        let model = bundle.model().expect("sound");
        let keys: Vec<&str> = model.signatures().iter().map(|s| s.key.as_str()).collect();
        assert!(keys.contains(&"decode") && keys.contains(&"prefill_8"), "{keys:?}");
        assert!(bundle.embedder().expect("optional").is_none());
        assert_eq!(bundle.sections().last().map(|s| s.range.end), Some(bundle.size_bytes()));
    }
}

#[test]
fn the_tokenizer_of_a_bundle_is_its_checkpoints() {
    for folder in ["tiny", "tiny4b"] {
        let bundle = Bundle::open(&fixture(folder).join(format!("{folder}_float.litertlm"))).expect("sound");
        let stored = std::fs::read(fixture(folder).join("ckpt/tokenizer.json")).expect("a fixture");
        let vocabulary = |json: &[u8]| {
            let json: serde_json::Value = serde_json::from_slice(json).expect("json");
            (json["model"]["vocab"].clone(), json["model"]["merges"].clone(), json["added_tokens"].clone())
        };
        let found = vocabulary(&bundle.tokenizer_json().expect("sound"));
        assert!(found.0.as_object().is_some_and(|tokens| tokens.len() == 998), "{folder}");
        assert_eq!(found, vocabulary(&stored), "{folder}");
    }
}

#[test]
fn unknown_fields_are_kept_as_they_were_written() {
    // max_num_tokens 7, field 99 "ab", supports_thinking, field 200 = 1.
    let metadata = llm(b"\x28\x07\x9a\x06\x02ab\x58\x01\xc0\x0c\x01").expect("sound");
    assert_eq!(metadata.max_num_tokens, 7);
    assert_eq!(metadata.supports_thinking, Some(true));
    assert_eq!(metadata.unknown.bytes(), b"\x9a\x06\x02ab\xc0\x0c\x01");
    assert_eq!(metadata.unknown.numbers(), [99, 200]);
}

#[test]
fn numbers_and_lists_are_read_in_every_encoding() {
    // sampler: type 3, k -1, p 0.5, seed 9.
    let sampler = b"\x22\x14\x08\x03\x10\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x1d\0\0\0\x3f\x28\x09";
    let found = llm(sampler).expect("sound").sampler.expect("there");
    assert_eq!((found.kind, found.k, found.p, found.seed), (SamplerKind::Greedy, -1, 0.5, Some(9)));
    // suppress_tokens: one number, then a packed run, in two pieces of one message.
    let found = llm(b"\x4a\x02\x08\x05\x4a\x05\x0a\x03\x06\xac\x02").expect("sound");
    assert_eq!(found.suppress_tokens.expect("there").ids, [5, 6, 300]);
    // A token that is stored as ids and then as text is the text.
    let found = llm(b"\x0a\x08\x0a\x02\x08\x05\x12\x02hi").expect("sound").start_token.expect("there");
    assert_eq!((found.ids.len(), found.text.as_deref()), (0, Some("hi")));
}

#[test]
fn a_damaged_field_is_named_with_its_byte() {
    let cases: [(&[u8], &str); 9] = [
        (b"\x28", "LlmMetadata at byte 1: the message ends inside a number"),
        (b"\x2a\x01x", "LlmMetadata.max_num_tokens at byte 2: expected a number, found a length and bytes"),
        (b"\x3a\x05ab", "LlmMetadata at byte 2: a field of 5 bytes in a message that has 2 left"),
        (b"\x3a\x02\xff\xfe", "LlmMetadata.jinja_prompt_template at byte 2: the string is not utf-8"),
        (
            b"\x12\0\x12\x03\x0a\x01\x08",
            "LlmMetadata.stop_tokens[1].token_ids at byte 7: the message ends inside a number",
        ),
        (b"\x28\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f", "a number has more than 64 bits"),
        (b"\x2b", "field 5 has the unknown wire type 3"),
        (b"\x00\x01", "expected a field number, found 0"),
        (b"\x3a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", "a field of 18446744073709551615 bytes"),
    ];
    for (bytes, expected) in cases {
        let error = llm(bytes).expect_err(expected);
        assert!(error.contains(expected), "{error} / {expected}");
    }
}

#[test]
fn endless_lists_and_sections_are_refused() {
    let error = llm(&b"\x12\0".repeat((1 << 16) + 1)).expect_err("too many");
    assert!(error.contains("stop_tokens") && error.contains("at most 65536"), "{error}");
    let error = llm(&vec![0; (4 << 20) + 1]).expect_err("too long");
    assert!(error.contains("expected at most 4194304 bytes, found 4194305"), "{error}");
}
