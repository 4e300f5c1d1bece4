//! The container: what a sound one yields, and what each unsound one is refused for, in numbers.

mod support;

use kinglet_bundle::{ErrorKind, SectionKind, Value};
use support::builder::{Node, build, table, text};
use support::{Part, file, model_part, open, part};

fn sample() -> Vec<Part> {
    let graph = Part {
        items: vec![
            ("model_type", text("tf_lite_prefill_decode"), 9),
            ("wide", Node::U64(1 << 40), 10),
            ("small", Node::I8(-3), 2),
            ("half", Node::F32(0.5), 7),
            ("yes", Node::Bool(true), 8),
        ],
        ..part(3, b"graph")
    };
    vec![part(5, b"meta"), part(200, &[7; 20_000]), graph]
}

#[test]
fn a_sound_container_yields_its_sections() {
    let bundle = open(file(&sample())).expect("sound");
    assert_eq!(bundle.version().to_string(), "1.7.0");
    assert_eq!(bundle.system_metadata()[0].value, Value::Text("test".into()));
    let kinds: Vec<SectionKind> = bundle.sections().iter().map(|s| s.kind).collect();
    assert_eq!(kinds, [SectionKind::LlmMetadata, SectionKind::Unknown(200), SectionKind::TfLiteModel]);
    let ranges: Vec<_> = bundle.sections().iter().map(|s| s.range.clone()).collect();
    assert_eq!(ranges, [16384..16388, 32768..52768, 65536..65541]);
    let graph = bundle.section(SectionKind::TfLiteModel, Some("prefill_decode")).expect("there");
    assert_eq!(&*graph.data, b"graph");
    let values: Vec<String> = graph.items.iter().map(|i| format!("{} {}", i.key, i.value)).collect();
    assert_eq!(values[1..], ["wide 1099511627776", "small -3", "half 0.5", "yes true"]);
    assert_eq!(bundle.sections()[1].label(), "section 1 (type 200)");
}

#[test]
fn sections_may_lie_in_any_order() {
    let mut parts = sample();
    let sound = open(file(&parts)).expect("sound");
    let ranges: Vec<_> = sound.sections().iter().map(|s| s.range.clone()).collect();
    parts[0].range = Some((ranges[2].start, ranges[2].end));
    parts[2].range = Some((ranges[0].start, ranges[0].end));
    let swapped = open(file(&parts)).expect("order is the header's own");
    assert_eq!(&*swapped.sections()[0].data, b"graph");
    assert_eq!(&*swapped.sections()[2].data, b"meta");
}

#[test]
fn a_section_with_an_impossible_place_is_refused_by_its_numbers() {
    let end = file(&sample()).len() as u64;
    let cases: [(usize, (u64, u64), &str); 7] = [
        (0, (16000, 16400), "section 0 (LlmMetadataProto): begins at byte 16000, expected a multiple of 16384"),
        (0, (0, 16), "section 0 (LlmMetadataProto): begins at byte 0, inside the header of "),
        (2, (65536, 60000), "section 2 (TFLiteModel): begins at byte 65536 and ends before it, at 60000"),
        (2, (49152, 49200), "section 2 (TFLiteModel): begins at byte 49152, before section 1 (type 200) ends at 52768"),
        (1, (32768, 32768 + (1 << 40)), "section 1 (type 200): ends at byte 1099511660544, the file has 65541"),
        (1, (32768, u64::MAX), "ends at byte 18446744073709551615, the file has 65541"),
        (0, (u64::MAX - 16383, u64::MAX), "section 0 (LlmMetadataProto): ends at byte 18446744073709551615"),
    ];
    assert_eq!(end, 65541);
    for (section, range, expected) in cases {
        let mut parts = sample();
        parts[section].range = Some(range);
        let error = open(file(&parts)).expect_err(expected);
        assert!(error.to_string().starts_with("test.litertlm: "), "{error}");
        assert!(error.to_string().contains(expected), "{error} / {expected}");
    }
}

#[test]
fn a_truncated_file_names_the_section_and_gives_a_hint() {
    let whole = file(&sample());
    for len in [65540, 65536, 52767, 32768, 20000] {
        let error = open(whole[..len].to_vec()).expect_err("cut");
        assert_eq!(error.kind(), ErrorKind::Truncated);
        assert!(error.to_string().contains(&format!("the file has {len}")), "{error}");
        assert!(error.hint().expect("a hint").contains("looks truncated"));
    }
    for len in [31, 40] {
        let error = open(whole[..len].to_vec()).expect_err("cut");
        assert!(error.to_string().contains("header: ends at byte"), "{error}");
        assert_eq!(error.kind(), ErrorKind::Truncated);
    }
}

#[test]
fn what_is_no_bundle_is_told_by_what_it_begins_with() {
    let cases: [(&[u8], &str); 4] = [
        (b"", "found an empty file"),
        (b"LITERT", "found `LITERT`"),
        (b"GGUF\x03\0\0\0", "found `GGUF\\x03\\x00"),
        (&[0; 64], "found `\\x00"),
    ];
    for (bytes, expected) in cases {
        let error = open(bytes.to_vec()).expect_err(expected);
        assert_eq!(error.kind(), ErrorKind::NotABundle);
        assert!(error.to_string().contains(expected), "{error}");
    }
}

#[test]
fn a_header_field_out_of_range_is_refused() {
    let cases: [(usize, u64, &str); 5] = [
        (8, 2, "expected container version 1, found 2.7.0"),
        (8, 0, "expected container version 1, found 0.7.0"),
        (24, 32, "expected an end between 32 and 4194304, found 32"),
        (24, u64::MAX, "found 18446744073709551615"),
        (24, 60, "header: LiteRTLMMetaData"),
    ];
    for (at, value, expected) in cases {
        let mut bytes = file(&sample());
        let width = if at == 8 { 4 } else { 8 };
        bytes[at..at + width].copy_from_slice(&value.to_le_bytes()[..width]);
        let error = open(bytes).expect_err(expected);
        assert!(error.to_string().contains(expected), "{error} / {expected}");
    }
}

#[test]
fn a_newer_minor_version_is_read() {
    let mut bytes = file(&sample());
    bytes[12] = 99;
    assert_eq!(open(bytes).expect("additions are allowed").version().to_string(), "1.99.0");
}

#[test]
fn a_second_section_of_a_kind_is_refused_unless_it_is_for_another_model() {
    let error = open(file(&[part(5, b"a"), part(5, b"b")])).expect_err("two");
    assert!(error.to_string().contains("section 1 (LlmMetadataProto): is the second of its kind"), "{error}");
    let twice = [model_part(3, "tf_lite_embedder", b"a"), model_part(3, "tf_lite_embedder", b"b")];
    let error = open(file(&twice)).expect_err("two");
    assert!(error.to_string().contains("second of its kind with model_type `embedder`"), "{error}");
    let other = [model_part(3, "tf_lite_embedder", b"a"), model_part(3, "tf_lite_prefill_decode", b"b")];
    assert!(open(file(&other)).is_ok());
    assert!(open(file(&[part(1, b"a"), part(1, b"b")])).is_ok(), "any number of sections without a kind");
}

#[test]
fn a_second_item_of_a_name_is_refused() {
    let mut twice = part(1, b"a");
    twice.items = vec![("key", text("a"), 9), ("key", text("b"), 9)];
    let error = open(file(&[twice])).expect_err("two");
    let text = error.to_string();
    assert!(text.contains("LiteRTLMMetaData.section_metadata.objects[0].items[1].key"), "{text}");
    assert!(text.contains("found a second item `key`"), "{text}");
}

#[test]
fn an_absent_part_is_told_with_those_there_are() {
    let bundle = open(file(&[part(5, b""), model_part(3, "tf_lite_embedder", b"x"), part(4, b"sp")])).expect("sound");
    let error = bundle.model().expect_err("no model");
    assert_eq!(error.kind(), ErrorKind::Absent);
    let expected = "expected a section TFLiteModel of model_type `prefill_decode`, found LlmMetadataProto, TFLiteModel of \
                    model_type `embedder`, SP_Tokenizer";
    assert!(error.to_string().contains(expected), "{error}");
    let error = bundle.tokenizer_json().expect_err("sentencepiece");
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    let error = bundle.embedder().expect_err("`x` is no tflite");
    assert!(error.to_string().contains("section 1 (TFLiteModel): expected a tflite model"), "{error}");
    assert!(bundle.executor_metadata().expect("optional").is_none());
}

#[test]
fn a_models_weights_may_lie_in_a_section_of_their_own() {
    let tensor = table([(0, Node::I32s(vec![3])), (1, Node::I8(3)), (10, Node::U32(1))]);
    let root = table([
        (0, Node::U32(3)),
        (2, Node::Tables(vec![table([(0, Node::Tables(vec![tensor]))])])),
        (4, Node::Tables(vec![table([])])),
        (9, Node::Tables(vec![table([(0, Node::U32(1)), (2, Node::U64(2)), (3, Node::U64(3))])])),
    ]);
    let graph = build(&root, Some(b"TFL3"));
    let parts = [
        model_part(7, "tf_lite_embedder", b"other"),
        model_part(3, "tf_lite_prefill_decode", &graph),
        model_part(7, "tf_lite_prefill_decode", b"..abc"),
    ];
    let model = open(file(&parts)).expect("sound").model().expect("sound");
    assert_eq!(&*model.data(&model.subgraphs()[0].tensors()[0]).expect("constant"), b"abc");
    let error = open(file(&parts[..2])).expect("sound").model().expect_err("no weights for it");
    assert!(error.to_string().contains("section 1 (TFLiteModel): 1 constants lie in a companion file"), "{error}");
}
