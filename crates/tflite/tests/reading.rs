//! What sound models yield, and what each unsound one is refused for.

#[path = "../../flat/tests/builder/mod.rs"]
mod builder;

use std::path::Path;

use builder::{Node, build, table, text};
use kinglet_blob::Blob;
use kinglet_tflite::{ElementType, Error, Kind, Model, Options, builtin_name};

/// A model that multiplies a `[2, 3]` matrix with what it is given; a test changes one node of it.
#[derive(Clone)]
struct Draft {
    version: u32,
    codes: Vec<Node>,
    tensors: Vec<Node>,
    operators: Vec<Node>,
    inputs: Vec<i32>,
    buffers: Vec<Node>,
    signatures: Vec<Node>,
    externals: Vec<Node>,
    groups: Vec<Node>,
}

fn tensor(shape: &[i32], element: i8, buffer: u32, name: &str) -> Vec<(u16, Node)> {
    vec![(0, Node::I32s(shape.to_vec())), (1, Node::I8(element)), (2, Node::U32(buffer)), (3, text(name))]
}

fn floats(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|v| v.to_le_bytes()).collect()
}

fn names(pairs: &[(&str, u32)]) -> Node {
    Node::Tables(pairs.iter().map(|(name, tensor)| table([(0, text(name)), (1, Node::U32(*tensor))])).collect())
}

fn signature(key: &str, subgraph: u32) -> Node {
    table([(0, names(&[("x", 0)])), (1, names(&[("y", 2)])), (2, text(key)), (4, Node::U32(subgraph))])
}

fn linear(code: u32) -> Vec<(u16, Node)> {
    vec![
        (0, Node::U32(code)),
        (1, Node::I32s(vec![0, 1, -1])),
        (2, Node::I32s(vec![2])),
        (3, Node::U8(8)),
        (4, table([(0, Node::I8(0)), (1, Node::I8(0))])),
    ]
}

fn code(number: i32) -> Node {
    table([(0, Node::I8(number.min(127) as i8)), (2, Node::I32(5)), (3, Node::I32(number))])
}

fn draft() -> Draft {
    Draft {
        version: 3,
        codes: vec![code(9)],
        tensors: vec![
            Node::Table(tensor(&[1, 3], 0, 0, "x")),
            Node::Table(tensor(&[2, 3], 0, 1, "a/very/long/name;1")),
            Node::Table(tensor(&[1, 2], 0, 0, "y")),
        ],
        operators: vec![Node::Table(linear(0))],
        inputs: vec![0],
        buffers: vec![table([]), table([(0, Node::Bytes(floats(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0])))])],
        signatures: vec![signature("decode", 0)],
        externals: Vec::new(),
        groups: Vec::new(),
    }
}

impl Draft {
    fn bytes(&self) -> Vec<u8> {
        let subgraph = table([
            (0, Node::Tables(self.tensors.clone())),
            (1, Node::I32s(self.inputs.clone())),
            (2, Node::I32s(vec![2])),
            (3, Node::Tables(self.operators.clone())),
            (4, text("main")),
        ]);
        let root = table([
            (0, Node::U32(self.version)),
            (1, Node::Tables(self.codes.clone())),
            (2, Node::Tables(vec![subgraph])),
            (3, text("made for a test")),
            (4, Node::Tables(self.buffers.clone())),
            (6, Node::Tables(vec![table([(0, text("note")), (1, Node::U32(1))])])),
            (7, Node::Tables(self.signatures.clone())),
            (8, Node::Tables(self.groups.clone())),
            (9, Node::Tables(self.externals.clone())),
        ]);
        build(&root, Some(b"TFL3"))
    }

    fn parse(&self) -> Result<Model, Error> {
        Model::parse(Blob::from_vec(self.bytes()), None)
    }
}

#[test]
fn a_sound_model_yields_what_was_written() {
    let model = draft().parse().expect("sound");
    assert_eq!(model.description(), "made for a test");
    let decode = model.signature("decode").expect("there");
    assert_eq!((decode.input("x"), decode.output("y"), decode.input("y")), (Some(0), Some(2), None));
    let subgraph = model.subgraph_of(decode);
    assert_eq!((subgraph.name(), subgraph.inputs(), subgraph.outputs()), ("main", &[0][..], &[2][..]));
    let weight = &subgraph.tensors()[1];
    assert_eq!((&*weight.shape, weight.element), (&[2, 3][..], ElementType::F32));
    assert_eq!(model.name(weight), "a/very/long/name;1");
    assert_eq!(&*model.data(weight).expect("constant"), floats(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]));
    assert!(model.data(&subgraph.tensors()[0]).is_none());
    let operator = model.operators(subgraph).next().expect("one");
    assert_eq!((operator.kind(), operator.version()), (&Kind::Builtin(9), 5));
    assert_eq!(operator.inputs().collect::<Vec<_>>(), [Some(0), Some(1), None]);
    assert_eq!(operator.outputs().collect::<Vec<_>>(), [2]);
    assert_eq!(operator.options(), Options::FullyConnected { activation: false, plain_weights: true });
    assert_eq!(model.metadata().map(|(name, bytes)| (name, bytes.len())).collect::<Vec<_>>(), [("note", 24)]);
    let listing = model.listing(true).to_string();
    assert_eq!(
        listing,
        "decode: 1 operators, 3 tensors\n  in  x f32[1, 3]\n  out y f32[1, 2]\n       1 FULLY_CONNECTED\n"
    );
}

/// Numbers above 126 are in the wider field; old files have only the narrow one.
#[test]
fn operator_numbers_are_read_from_the_field_that_holds_them() {
    let cases = [
        (table([(0, Node::I8(18))]), Some(18)),
        (table([(0, Node::I8(9)), (3, Node::I32(9))]), Some(9)),
        (table([(0, Node::I8(127)), (3, Node::I32(151))]), Some(151)),
        (table([(3, Node::I32(150))]), Some(150)),
        (table([(0, Node::I8(127))]), None),
        (table([(0, Node::I8(-1)), (3, Node::I32(-1))]), None),
    ];
    for (code, expected) in cases {
        let mut draft = draft();
        draft.codes = vec![code];
        let found = draft.parse().ok();
        let found = found.as_ref().and_then(|model| model.operators(&model.subgraphs()[0]).next());
        assert_eq!(found.map(|o| o.kind().clone()), expected.map(Kind::Builtin));
    }
}

#[test]
fn custom_operators_and_composites_have_names() {
    let mut draft = draft();
    draft.codes = vec![table([(0, Node::I8(32)), (1, text("delta")), (3, Node::I32(32))]), code(206)];
    let composite = |subgraph: i32| {
        let details = table([(0, text("odml.rms_norm")), (1, Node::I32(subgraph))]);
        table([
            (0, Node::U32(1)),
            (1, Node::I32s(vec![0])),
            (2, Node::I32s(vec![2])),
            (11, Node::U8(21)),
            (12, details),
        ])
    };
    draft.operators = vec![table([(0, Node::U32(0)), (5, Node::Bytes(vec![1, 2]))]), composite(0)];
    let model = draft.parse().expect("sound");
    let operators: Vec<_> = model.operators(&model.subgraphs()[0]).collect();
    assert_eq!(operators[0].kind().to_string(), "CUSTOM:delta");
    assert_eq!(model.attributes(&operators[0]), [1, 2]);
    assert_eq!(*operators[1].kind(), Kind::Composite { name: "odml.rms_norm".into(), decomposition: 0 });
    draft.operators[1] = composite(1);
    let error = draft.parse().expect_err("there is one subgraph").to_string();
    assert!(error.contains("decomposition_subgraph_index") && error.contains("below 1, found 1"), "{error}");
}

#[test]
fn a_constant_may_lie_behind_the_flatbuffer() {
    let mut draft = draft();
    let outside = |offset: u64, size: u64| table([(1, Node::U64(offset)), (2, Node::U64(size))]);
    draft.buffers[1] = outside(1 << 20, 24);
    let at = draft.bytes().len().next_multiple_of(16) as u64;
    draft.buffers[1] = outside(at, 24);
    let mut bytes = draft.bytes();
    bytes.resize(at as usize, 0);
    bytes.extend(floats(&[6.0, 5.0, 4.0, 3.0, 2.0, 1.0]));
    let model = Model::parse(Blob::from_vec(bytes.clone()), None).expect("sound");
    let data = model.data(&model.subgraphs()[0].tensors()[1]).expect("constant");
    assert_eq!(&*data, &bytes[at as usize..]);
    bytes.pop();
    let error = Model::parse(Blob::from_vec(bytes), None).expect_err("cut");
    assert_eq!(
        error.to_string(),
        format!("Model.buffers[1] has bytes {at} to {}, the section has {}", at + 24, at + 23)
    );
    assert!(error.hint().expect("a hint").contains("truncated"));
    draft.buffers[1] = outside(u64::MAX - 3, 24);
    assert!(draft.parse().expect_err("far away").to_string().contains("18446744073709551615"));
}

#[test]
fn a_constant_may_lie_in_a_companion_file() {
    let mut draft = draft();
    let mut weight = tensor(&[2, 3], 0, 0, "w");
    weight.push((10, Node::U32(7)));
    draft.tensors[1] = Node::Table(weight);
    draft.groups = vec![table([(0, text("weights"))])];
    let external = |id: u32, offset: u64, packing: &str| {
        table([(0, Node::U32(id)), (2, Node::U64(offset)), (3, Node::U64(24)), (4, text(packing))])
    };
    draft.externals = vec![external(7, 8, "unpacked")];
    let companion = Blob::from_vec((0..32).collect());
    let parse = |draft: &Draft| Model::parse(Blob::from_vec(draft.bytes()), Some(companion.clone()));
    let model = parse(&draft).expect("sound");
    assert_eq!(&*model.data(&model.subgraphs()[0].tensors()[1]).expect("constant"), &companion[8..]);
    let error = draft.parse().expect_err("no companion").to_string();
    assert!(error.contains("1 constants lie in a companion file of weights, which is absent"), "{error}");
    let cases = [
        (external(7, 9, ""), "Model.external_buffers[0] has bytes 9 to 33, the companion file has 32"),
        (external(7, 8, "shuffled"), "expected `unpacked`, found `shuffled`"),
        (external(6, 8, ""), "found no external buffer 7"),
        (external(0, 8, ""), "expected a new identifier above 0, found 0"),
    ];
    for (entry, expected) in cases {
        draft.externals = vec![entry];
        let error = parse(&draft).expect_err(expected).to_string();
        assert!(error.contains(expected), "{error} / {expected}");
    }
}

#[test]
fn quantisation_is_decoded_when_asked_for() {
    let quantized = |scales: Vec<f32>, zeros: Vec<i64>, dimension: i32| {
        let mut weight = tensor(&[2, 3], 9, 1, "w");
        weight.push((4, table([(2, Node::F32s(scales)), (3, Node::I64s(zeros)), (6, Node::I32(dimension))])));
        let mut draft = draft();
        draft.tensors[1] = Node::Table(weight);
        draft.buffers[1] = table([(0, Node::Bytes(vec![1, 2, 3, 4, 5, 6]))]);
        draft.parse()
    };
    let model = quantized(vec![0.5, 0.25], vec![0, 0], 0).expect("sound");
    let found = model.quantization(&model.subgraphs()[0].tensors()[1]).expect("quantised");
    assert_eq!((found.scales.clone(), found.dimension, found.is_symmetric()), (vec![0.5, 0.25], 0, true));
    assert!(quantized(vec![0.5], vec![3], 0).is_ok_and(|model| {
        !model.quantization(&model.subgraphs()[0].tensors()[1]).expect("quantised").is_symmetric()
    }));
    assert!(quantized(vec![], vec![], 0).is_ok(), "no scales are no quantisation");
    let cases = [
        (vec![0.5, 0.25], vec![0, 0], 1, "one scale for each index of dimension 1 of [2, 3], found 2"),
        (vec![0.5; 3], vec![0; 3], 0, "one scale for each index of dimension 0 of [2, 3], found 3"),
        (vec![0.5; 2], vec![0; 2], -1, "dimension -1"),
        (vec![0.5; 2], vec![0; 3], 0, "expected 2 zero points, found 3"),
    ];
    for (scales, zeros, dimension, expected) in cases {
        let error = quantized(scales, zeros, dimension).expect_err(expected).to_string();
        assert!(error.contains("Model.subgraphs[0].tensors[1].quantization") && error.contains(expected), "{error}");
    }
}

#[test]
fn each_index_and_size_out_of_range_is_refused_by_its_path() {
    type Change = fn(&mut Draft);
    let cases: [(Change, &str); 13] = [
        (|d| d.version = 2, "Model.version at byte "),
        (|d| d.tensors[1] = Node::Table(tensor(&[2, 4], 0, 1, "w")), "expected 32 bytes for f32[2, 4], found 24"),
        (|d| d.tensors[1] = Node::Table(tensor(&[2, 3], 1, 1, "w")), "expected 12 bytes for f16[2, 3], found 24"),
        (|d| d.tensors[1] = Node::Table(tensor(&[2, -3], 0, 1, "w")), "dimensions of 0 or more, found -3"),
        (|d| d.tensors[0] = Node::Table(tensor(&[i32::MAX; 3], 0, 0, "w")), "whose product fits 64 bits"),
        (|d| d.tensors[0] = Node::Table(tensor(&[1; 9], 0, 0, "w")), "expected at most 8 dimensions"),
        (|d| d.tensors[0] = Node::Table(tensor(&[1], 0, 2, "w")), "tensors[0].buffer at byte "),
        (|d| d.operators[0] = Node::Table(linear(1)), "operators[0].opcode_index at byte "),
        (|d| d.inputs = vec![3], "Model.subgraphs[0].inputs at byte "),
        (|d| d.operators[0] = table([(1, Node::I32s(vec![3]))]), "expected a tensor below 3, found 3"),
        (|d| d.operators[0] = table([(2, Node::I32s(vec![-1]))]), "expected a tensor below 3, found -1"),
        (|d| d.signatures = vec![signature("decode", 1)], "signature_defs[0].subgraph_index at byte "),
        (|d| d.signatures = vec![signature("a", 0), signature("a", 0)], "found a second signature `a`"),
    ];
    for (change, expected) in cases {
        let mut draft = draft();
        change(&mut draft);
        let error = draft.parse().expect_err(expected).to_string();
        assert!(error.contains(expected), "{error} / {expected}");
    }
}

#[test]
fn what_is_no_tflite_is_told_by_what_is_there() {
    let parse = |bytes: &[u8]| Model::parse(Blob::from_vec(bytes.to_vec()), None).expect_err("no model").to_string();
    assert_eq!(parse(b""), "expected a tflite model (`TFL3` at byte 4), found 0 bytes");
    assert_eq!(parse(b"\x10\0\0\0GGUF...."), "expected a tflite model (`TFL3` at byte 4), found `GGUF`");
}

/// The graphs of the fixtures, which the official converter wrote.
#[test]
fn real_models_are_read_whole() {
    let cases = [("tiny/tiny_float", 39, 301, "COMPOSITE:odml.rms_norm"), ("tiny/tinyc_wi8fc", 4, 374, "RSQRT")];
    for (name, subgraphs, operators, kind) in cases {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../fixtures/bundles/{name}.litertlm"));
        let file = Blob::map(&path).expect("a fixture");
        let model = Model::parse(file.slice(65536..file.len()).expect("the last section"), None).expect("sound");
        assert_eq!(model.subgraphs().len(), subgraphs);
        let decode = model.signature("decode").expect("there");
        assert_eq!(model.subgraph_of(decode).operator_count(), operators);
        let counts = model.operator_counts(decode);
        assert!(counts.iter().any(|(found, _)| found == kind), "{counts:?}");
        assert!(counts.iter().all(|(found, _)| !found.contains("BUILTIN_")), "every operator has a name: {counts:?}");
        assert_eq!(builtin_name(206), "STABLEHLO_COMPOSITE");
        let pairs: Vec<_> = model.metadata().map(|(name, _)| name.to_owned()).collect();
        assert_eq!(pairs, ["min_runtime_version", "keep_stablehlo_constant"]);
    }
}

/// A graph as large as that of an 0.8B model: 12 signatures of 1700 operators, names of 2 kB each.
#[test]
#[ignore = "a measurement: run it in release with --nocapture"]
fn time_to_parse_seventy_megabytes_of_names() {
    let mut draft = draft();
    let name = "module.path/".repeat(170);
    let tensors = |n: i32| Node::Table(tensor(&[1, n % 7 + 1], 0, 0, &name));
    draft.tensors.extend((0..2900 * 12).map(tensors));
    draft.operators.extend((0..1700 * 12).map(|_| Node::Table(linear(0))));
    let blob = Blob::from_vec(draft.bytes());
    for _ in 0..5 {
        let start = std::time::Instant::now();
        let model = Model::parse(blob.clone(), None).expect("sound");
        println!("{} bytes, {} tensors: {:?}", blob.len(), model.subgraphs()[0].tensors().len(), start.elapsed());
    }
}
