//! Shards, index and layout: what a checkpoint's files may look like, and which contradictions are found.

mod support;

use kinglet_checkpoint::{Checkpoint, Convention, Dtype, ErrorKind};
use support::{EMBEDDING, INDEX, Scratch, golden, raw, shard};

/// Asserts kind and content of an error that names its directory.
fn assert_error(scratch: &Scratch, kind: ErrorKind, expected: &str) {
    let error = scratch.error();
    assert!(error.to_string().contains(expected), "{error} / {expected}");
    assert_eq!(error.kind(), kind, "{error}");
}

#[test]
fn all_golden_checkpoints_open() {
    for name in ["text-ratio1", "text-ratio2", "text-untied-8layer", "vl-ratio1", "vl-ratio2-sharded"] {
        let checkpoint = Checkpoint::open(&golden(name)).expect(name);
        assert_eq!(checkpoint.layout().ignored.visual > 0, name.starts_with("vl"), "{name}");
        assert_eq!(checkpoint.config().tie_word_embeddings, name != "text-untied-8layer", "{name}");
        for tensor in checkpoint.tensors() {
            let found = checkpoint.tensor(tensor).expect(tensor);
            let bytes = if found.dtype == Dtype::F32 { 4 } else { 2 };
            assert_eq!(found.data.len(), bytes * found.shape.iter().product::<usize>(), "{tensor}");
            assert!(found.data.is_mapped(), "{tensor}");
        }
    }
}

#[test]
fn an_index_is_followed_whatever_its_files_are_called() {
    let scratch = Scratch::new()
        .write("part one.bin", shard(&[("b", &[3]), (EMBEDDING, &[2, 2])]))
        .write("z", shard(&[("a", &[1]), ("not in the index", &[5])]))
        .write("unrelated.safetensors", "not read")
        .index(&[("a", "z"), (EMBEDDING, "part one.bin"), ("b", "part one.bin")]);
    let checkpoint = scratch.open().expect("sound");
    assert_eq!(checkpoint.tensors().collect::<Vec<_>>(), ["a", "b", EMBEDDING, "not in the index"]);
    assert_eq!(checkpoint.tensor("not in the index").expect("there").shape, [5]);
}

#[test]
fn an_index_and_its_shards_must_agree() {
    let embedding: (&str, &[usize]) = (EMBEDDING, &[2, 2]);
    let cases: [(&[(&str, &str)], &str); 5] = [
        (&[(EMBEDDING, "one"), ("a", "one"), ("x", "two")], "index.json: a: expected it in one, found no such tensor"),
        (&[(EMBEDDING, "one"), ("x", "one"), ("a", "two")], "index.json: x: expected it in one, found no such tensor"),
        (&[(EMBEDDING, "one"), ("a", "three")], "three: a: expected a tensor in one shard, found it in one too"),
        (&[("y", "one"), (EMBEDDING, "two")], "index.json: model.embed_tokens.weight: expected it in two"),
        (&[(EMBEDDING, "two")], "index.json: model.embed_tokens.weight: expected it in two"),
    ];
    for (i, (index, expected)) in cases.into_iter().enumerate() {
        let mut first = vec![embedding, ("y", &[1])];
        first.extend((i == 2).then_some(("a", &[1usize] as &[usize])));
        let scratch = Scratch::new()
            .write("one", shard(&first))
            .write("two", shard(&[("a", &[1]), ("x", &[1])]))
            .write("three", shard(&[("a", &[1])]))
            .index(index);
        assert_error(&scratch, ErrorKind::Invalid, expected);
    }
}

#[test]
fn a_shard_that_is_missing_is_named_with_what_to_do() {
    let scratch = Scratch::new().write("one", shard(&[(EMBEDDING, &[1])])).index(&[(EMBEDDING, "one"), ("a", "two")]);
    assert_error(&scratch, ErrorKind::NotFound, ": two: no such file in the checkpoint");
    assert_eq!(scratch.error().hint().expect("known"), "the download looks incomplete; fetch two again");
}

#[test]
fn a_damaged_index_is_refused() {
    let cases = [
        ("", "JSON: expected a weight_map of tensors and their files, found EOF"),
        ("[]", "JSON: expected a weight_map of tensors and their files, found invalid"),
        ("{}", "JSON: expected a weight_map of tensors and their files, found missing field `weight_map`"),
        (r#"{"weight_map":[]}"#, "found invalid type: sequence, expected a map at line 1 column 14"),
        (r#"{"weight_map":{}}"#, "weight_map: expected tensors and their files, found none"),
        (r#"{"weight_map":{"a":7}}"#, "found invalid type: integer `7`, expected a string at line 1 column 20"),
    ];
    for (index, expected) in cases {
        assert_error(&Scratch::new().write(INDEX, index), ErrorKind::Invalid, expected);
    }
    let long = Scratch::new().write(INDEX, vec![b' '; (4 << 20) + 1]);
    assert_error(&long, ErrorKind::Invalid, "size: expected at most 4194304 bytes, found 4194305");
}

#[test]
fn an_index_cannot_leave_the_directory() {
    for bad in ["../x", "/etc/passwd", "", "..", "a/b", "c:x", "a\\\\b", "a\\u0000b"] {
        assert_error(&Scratch::new().index(&[("a", bad)]), ErrorKind::Invalid, "a: expected a plain file name");
    }
}

#[test]
fn without_an_index_there_must_be_one_file() {
    let good = || shard(&[(EMBEDDING, &[1])]);
    let one = Scratch::new().write("model.safetensors-00001-of-00001.safetensors", good());
    assert!(one.open().is_ok(), "whatever it is called");
    let beside = one.write("._model.safetensors-00001-of-00001.safetensors", "what a file system leaves");
    assert!(beside.open().is_ok(), "hidden files do not count");
    let two = beside.write("adapter.safetensors", shard(&[("a", &[1])]));
    assert_error(&two, ErrorKind::NotFound, "model.safetensors.index.json: no such file in the checkpoint");
    let named = two.write("model.safetensors", good());
    assert_eq!(named.open().expect("the usual name goes first").tensors().count(), 1);
    assert_error(&Scratch::new(), ErrorKind::NotFound, "model.safetensors: no such file in the checkpoint");
}

#[test]
fn a_single_file_goes_before_an_index_that_does_not_know_it() {
    let scratch =
        Scratch::new().write("old.safetensors", shard(&[(EMBEDDING, &[1])])).index(&[(EMBEDDING, "old.safetensors")]);
    assert_eq!(scratch.open().expect("sound").tensor(EMBEDDING).expect("there").shape, [1]);
    let scratch = scratch.write("model.safetensors", shard(&[(EMBEDDING, &[2])]));
    assert_eq!(scratch.open().expect("sound").tensor(EMBEDDING).expect("there").shape, [2]);
    let scratch = scratch.index(&[(EMBEDDING, "model.safetensors"), ("a", "model.safetensors")]);
    assert_error(&scratch, ErrorKind::Invalid, "a: expected it in model.safetensors");
}

#[test]
fn damaged_shards_are_refused() {
    let header = |entries: &str| format!("{{{entries}}}");
    let entry = |name: &str, shape: &str, from: usize, to: usize| {
        format!(r#""{name}":{{"dtype":"BF16","shape":{shape},"data_offsets":[{from},{to}]}}"#)
    };
    let two = |a: String, b: String| header(&format!("{a},{b}"));
    let cases = [
        ("an overlap", raw(two(entry("a", "[2]", 0, 4), entry("b", "[2]", 2, 6)), 6), "invalid offset for tensor `b`"),
        ("a hole", raw(two(entry("a", "[2]", 0, 4), entry("b", "[2]", 6, 10)), 10), "invalid offset for tensor `b`"),
        ("a late start", raw(header(&entry("a", "[2]", 2, 6)), 6), "invalid offset for tensor `a`"),
        ("one place for two", raw(two(entry("a", "[2]", 0, 4), entry("b", "[2]", 0, 4)), 4), "invalid offset"),
        ("a reversed range", raw(header(&entry("a", "[0]", 4, 0)), 4), "invalid offset"),
        ("too few bytes", raw(header(&entry("a", "[2]", 0, 4)), 3), "expected the bytes that the header describes"),
        ("too many bytes", raw(header(&entry("a", "[2]", 0, 4)), 5), "expected the bytes that the header describes"),
        ("another size", raw(header(&entry("a", "[3]", 0, 4)), 4), "invalid shape"),
        ("a size beyond count", raw(header(&entry("a", "[4294967296,4294967296,2]", 0, 4)), 4), "overflow"),
        ("a negative shape", raw(header(&entry("a", "[-1]", 0, 4)), 4), "invalid JSON in header"),
        ("an unknown type", raw(header(&entry("a", "[2]", 0, 4)).replace("BF16", "XY"), 4), "invalid JSON in header"),
        ("no JSON", raw("nonsense", 0), "invalid JSON in header"),
        ("no text", raw([0xff; 4], 0), "invalid UTF-8 in header"),
        ("no header", vec![0; 7], "expected 8 bytes that hold a length, found 7 bytes"),
        ("nothing", vec![], "expected 8 bytes that hold a length, found 0 bytes"),
        ("a cut header", raw("{}", 0)[..9].to_vec(), "expected a header of 2 bytes, found 9 bytes"),
        ("a huge length", u64::MAX.to_le_bytes().to_vec(), "header: expected at most 4194304 bytes"),
        ("a pointer", b"version https://git-lfs.github.com/spec/v1\n".to_vec(), "found a Git LFS pointer"),
        ("no embedding", shard(&[("a", &[1])]), "tensors: expected `model.embed_tokens.weight`, or a known prefix"),
    ];
    for (what, bytes, expected) in cases {
        let scratch = Scratch::new().write("model.safetensors", bytes);
        let error = scratch.error();
        assert!(error.to_string().contains(": model.safetensors: "), "{what}: {error}");
        assert!(error.to_string().contains(expected), "{what}: {error} / {expected}");
        assert_eq!(error.kind(), ErrorKind::Invalid, "{what}");
    }
}

#[test]
fn a_truncated_download_and_a_pointer_get_a_hint() {
    let sound = shard(&[(EMBEDDING, &[4])]);
    let cut = Scratch::new().write("model.safetensors", &sound[..sound.len() - 1]);
    assert!(cut.error().hint().expect("known").contains("truncated"));
    let pointer = Scratch::new().write("model.safetensors", "version https://git-lfs.github.com/spec/v1\n");
    assert!(pointer.error().hint().expect("known").contains("git lfs pull"));
}

#[test]
fn empty_tensors_are_tensors() {
    let bytes = shard(&[("a", &[0]), (EMBEDDING, &[2]), ("b", &[0, 7]), ("scalar", &[])]);
    let scratch = Scratch::new().write("model.safetensors", bytes);
    let checkpoint = scratch.open().expect("sound");
    for (name, shape, len) in [("a", &[0usize] as &[usize], 0), ("b", &[0, 7], 0), ("scalar", &[], 2)] {
        let tensor = checkpoint.tensor(name).expect(name);
        assert_eq!((tensor.shape.as_slice(), tensor.data.len()), (shape, len), "{name}");
    }
}

#[test]
fn a_tensor_that_is_not_there_is_named() {
    let scratch = Scratch::new().write("weights.safetensors", shard(&[(EMBEDDING, &[1])]));
    let error = scratch.open().expect("sound").tensor("model.x").expect_err("there is none");
    let expected = format!("{}: weights.safetensors: model.x: expected a tensor", scratch.0.display());
    assert!(error.to_string().starts_with(&expected), "{error}");
    assert_eq!(error.kind(), ErrorKind::Invalid);
}

#[test]
fn a_tensor_is_the_range_that_the_header_gives_it() {
    let header = r#"{"b":{"dtype":"F32","shape":[1],"data_offsets":[2,6]},"model.embed_tokens.weight":{"dtype":"F16","shape":[1],"data_offsets":[0,2]},"c":{"dtype":"I32","shape":[1],"data_offsets":[6,10]}}"#;
    let mut bytes = raw(header, 0);
    bytes.extend(0..10u8);
    let scratch = Scratch::new().write("model.safetensors", bytes);
    let checkpoint = scratch.open().expect("sound");
    let cases: [(&str, Dtype, &[u8]); 3] = [
        (EMBEDDING, Dtype::F16, &[0, 1]),
        ("b", Dtype::F32, &[2, 3, 4, 5]),
        ("c", Dtype::Other("I32".into()), &[6, 7, 8, 9]),
    ];
    for (name, dtype, data) in cases {
        let tensor = checkpoint.tensor(name).expect(name);
        assert_eq!((tensor.dtype, &*tensor.data), (dtype, data), "{name}");
    }
}

#[test]
fn names_and_shapes_tell_the_layout() {
    use Convention::{HuggingFace, Mlx};
    let (swapped, usual): (&[usize], &[usize]) = (&[8, 4, 1], &[8, 1, 4]);
    let cases = [
        ("model.", Some(usual), "lm_head.weight", HuggingFace),
        ("model.", Some(swapped), "model.lm_head.weight", Mlx),
        ("model.language_model.", Some(usual), "lm_head.weight", HuggingFace),
        ("language_model.model.", Some(swapped), "language_model.lm_head.weight", Mlx),
        ("language_model.model.", Some(usual), "lm_head.weight", HuggingFace),
        ("language_model.model.", None, "lm_head.weight", Mlx),
        ("model.language_model.", None, "lm_head.weight", HuggingFace),
    ];
    for (prefix, convolution, head, convention) in cases {
        let (embedding, name) =
            (format!("{prefix}embed_tokens.weight"), format!("{prefix}layers.0.linear_attn.conv1d.weight"));
        let mut tensors: Vec<(&str, &[usize])> = vec![(&embedding, &[1]), (head, &[1])];
        tensors.extend(convolution.map(|shape| (name.as_str(), shape)));
        tensors.extend([("model.visual.conv1d.weight", &[8usize, 4, 1] as &[usize]), ("vision_tower.a", &[1])]);
        tensors.extend([("mtp.a", &[1usize] as &[usize]), ("mtp.visually.b", &[1]), ("mtp.c", &[1])]);
        let scratch = Scratch::new().write("model.safetensors", shard(&tensors));
        let checkpoint = scratch.open().expect(prefix);
        let layout = checkpoint.layout();
        assert_eq!((layout.text_prefix.as_str(), layout.convention), (prefix, convention));
        assert_eq!(layout.head.as_deref(), Some(head));
        assert_eq!((layout.ignored.visual, layout.ignored.mtp), (2, 3));
    }
}

#[test]
fn embedded_files_are_read_as_a_directory_is() {
    let leaked = |bytes: Vec<u8>| -> &'static [u8] { bytes.leak() };
    let config = leaked(std::fs::read(golden("text-ratio2").join("config.json")).expect("a fixture"));
    let weights = leaked(shard(&[(EMBEDDING, &[1])]));
    let files = Box::leak(Box::new([("config.json", config), ("some.safetensors", weights)]));
    let checkpoint = Checkpoint::embedded(files).expect("sound");
    assert!(checkpoint.tensor(EMBEDDING).expect("there").data.is_mapped(), "not copied");
    assert!(checkpoint.file("tokenizer.json").expect("readable").is_none());
    let error = Checkpoint::embedded(&[]).expect_err("no files");
    assert_eq!(error.to_string(), "config.json: no such file in the checkpoint");
}
