//! Bundles for tests: a clean hybrid model, and whatever a test changes in it.
#![allow(dead_code, reason = "each test file uses a part of it")]

pub(crate) mod graph;
pub(crate) mod proto;

use std::io::Write;

use kinglet_blob::Blob;
use kinglet_bundle::Bundle;
use kinglet_flat::Field;
use kinglet_flat::write::{Table, finish};
use kinglet_lint::{Report, Severity};

pub(crate) use graph::{F32, Graph, I8, I32, floats, integers};
use proto::{message, text, varint};

/// Positions of the clean model's caches.
pub(crate) const POSITIONS: u32 = 32;
/// Value heads, head width, channels of the convolution, width of the model.
pub(crate) const HEADS: u32 = 4;
const WIDTH: u32 = 16;
const CHANNELS: u32 = 24;
const HIDDEN: u32 = 8;

/// What a bundle is made of.
#[derive(Clone)]
pub(crate) struct Made {
    pub(crate) graphs: Vec<Graph>,
    /// Items of the TFLite section.
    pub(crate) items: Vec<(&'static str, &'static str)>,
    pub(crate) llm: Option<Llm>,
    /// Names and kinds of state buffers.
    pub(crate) states: Option<Vec<(String, u64)>>,
    pub(crate) tokenizer: String,
    pub(crate) damage_model: bool,
}

#[derive(Clone)]
pub(crate) struct Llm {
    pub(crate) stops: Vec<u64>,
    pub(crate) sampler_kind: Option<u64>,
    pub(crate) start: Option<&'static str>,
    pub(crate) max_num_tokens: u64,
    pub(crate) template: Option<&'static str>,
    pub(crate) model_prefix: Option<&'static str>,
}

const TEMPLATE: &str = "{{ messages }}<|im_end|>{% if add_generation_prompt %}x{% endif %}";
const TOKENIZER: &str = r#"{"added_tokens":[{"id":6,"content":"<|endoftext|>"},{"id":7,"content":"<|im_end|>"}],
    "model":{"type":"BPE","vocab":{"!":0,"a":1},"merges":[]}}"#;

impl Made {
    /// A hybrid model that breaks no rule.
    pub(crate) fn clean() -> Made {
        let states = [("k", 1), ("v", 2), ("c", 5), ("r", 5)];
        Made {
            graphs: vec![hybrid("prefill_8", 8), hybrid("decode", 1)],
            items: vec![("model_type", "tf_lite_prefill_decode"), ("prefer_activation_type", "fp32")],
            llm: Some(Llm {
                stops: vec![6, 7],
                start: None,
                sampler_kind: None,
                max_num_tokens: POSITIONS.into(),
                template: Some(TEMPLATE),
                model_prefix: None,
            }),
            states: Some(states.map(|(kind, number)| (format!("kv_cache_{kind}_0"), number)).to_vec()),
            tokenizer: TOKENIZER.to_owned(),
            damage_model: false,
        }
    }

    /// The clean model, changed.
    pub(crate) fn with(change: impl FnOnce(&mut Made)) -> Made {
        let mut made = Made::clean();
        change(&mut made);
        made
    }

    /// The clean model, with something more in the graph of `decode`.
    pub(crate) fn with_decode(change: impl FnOnce(&mut Graph)) -> Made {
        Made::with(|made| change(&mut made.graphs[1]))
    }

    pub(crate) fn decode(&mut self) -> &mut Graph {
        self.graphs.last_mut().expect("decode is the last")
    }

    pub(crate) fn llm(&mut self) -> &mut Llm {
        self.llm.as_mut().expect("the clean model has metadata")
    }

    pub(crate) fn bundle(&self) -> Bundle {
        let mut sections = Vec::new();
        sections.extend(self.llm.as_ref().map(|llm| (5, vec![], llm.encode())));
        sections.extend(self.states.as_ref().map(|states| (9, vec![], executor(states))));
        sections.push((6, vec![], compressed(self.tokenizer.as_bytes())));
        let mut model = graph::model(&self.graphs);
        if self.damage_model {
            model.truncate(100);
        }
        sections.push((3, self.items.clone(), model));
        Bundle::from_blob(Blob::from_vec(container(&sections)), "made").expect("the container is sound")
    }

    pub(crate) fn lint(&self) -> Report {
        kinglet_lint::lint(&self.bundle())
    }
}

/// Rules that found more than a note, by severity.
pub(crate) fn broken(report: &Report) -> Vec<(Severity, &'static str)> {
    let groups = report.groups.iter().filter(|group| group.severity != Severity::Note);
    groups.map(|group| (group.severity, group.rule)).collect()
}

/// The only group of a rule.
pub(crate) fn group<'r>(report: &'r Report, rule: &'r str) -> &'r kinglet_lint::Group {
    let mut groups = report.of(rule);
    let group = groups.next().unwrap_or_else(|| panic!("{rule} finds nothing: {report:?}"));
    assert!(groups.next().is_none(), "{rule} finds several kinds");
    group
}

/// One delta-rule layer and one attention layer, as far as rules look at them. Padding is told by positions.
pub(crate) fn hybrid(key: &str, tokens: u32) -> Graph {
    let mut g = Graph::new(key);
    let ids = g.input("tokens", I32, &[1, tokens]);
    let positions = g.input("input_pos", I32, &[tokens]);
    g.input("mask", F32, &[1, 1, tokens, POSITIONS]);
    let keys = g.input("kv_cache_k_0", F32, &[1, 2, POSITIONS, WIDTH]);
    let values = g.input("kv_cache_v_0", F32, &[1, 2, WIDTH, POSITIONS]);
    let window = g.input("kv_cache_c_0", F32, &[1, CHANNELS, 3]);
    let state = g.input("kv_cache_r_0", F32, &[1, HEADS, WIDTH, WIDTH]);
    let table = g.constant("embed", F32, &[8, HIDDEN], floats(8 * HIDDEN));
    let x = g.operator(7, &[ids, table], F32, &[1, tokens, HIDDEN]);
    let zero = g.constant("zero", I32, &[1], integers(&[0]));
    let valid = g.operator(61, &[positions, zero], 6, &[tokens]);
    let valid = g.operator(53, &[valid], F32, &[tokens]);
    let valid = g.operator(22, &[valid], F32, &[1, tokens, 1]);
    let x = g.operator(18, &[x, valid], F32, &[1, tokens, HIDDEN]);
    let weight = g.constant("in_proj_b", F32, &[HEADS, HIDDEN], floats(HEADS * HIDDEN));
    let gate = g.operator(9, &[x, weight], F32, &[1, tokens, HEADS]);
    let gate = g.operator(14, &[gate], F32, &[1, tokens, HEADS]);
    let gate = g.operator(22, &[gate], F32, &[1, HEADS, tokens, 1]);
    let state = g.operator(18, &[state, gate], F32, &[1, HEADS, WIDTH, WIDTH]);
    for (name, tensor) in
        [("kv_cache_k_0", keys), ("kv_cache_v_0", values), ("kv_cache_c_0", window), ("kv_cache_r_0", state)]
    {
        g.output(name, tensor);
    }
    if key == "decode" {
        let logits = g.operator(9, &[x, table], F32, &[1, 1, 8]);
        g.output("logits", logits);
    }
    g
}

impl Llm {
    fn encode(&self) -> Vec<u8> {
        let stops = self.stops.iter().flat_map(|id| message(2, &message(1, &varint(1, *id))));
        let mut bytes: Vec<u8> = stops.collect();
        bytes.extend(self.start.iter().flat_map(|start| message(1, &text(2, start))));
        let affixes = |prefix: &&'static str| message(3, &message(2, &text(1, prefix)));
        bytes.extend(self.model_prefix.iter().flat_map(affixes));
        bytes.extend(self.sampler_kind.iter().flat_map(|kind| message(4, &varint(1, *kind))));
        bytes.extend(varint(5, self.max_num_tokens));
        bytes.extend(self.template.iter().flat_map(|template| text(7, template)));
        bytes
    }
}

fn executor(states: &[(String, u64)]) -> Vec<u8> {
    let buffer = |(name, kind): &(String, u64)| {
        let mut bytes: Vec<u8> = (1..=4).flat_map(|field| text(field, name)).collect();
        bytes.extend(varint(6, *kind));
        message(2, &bytes)
    };
    message(1, &states.iter().flat_map(buffer).collect::<Vec<u8>>())
}

fn compressed(text: &[u8]) -> Vec<u8> {
    let stated = (text.len() as u64).to_le_bytes().to_vec();
    let mut encoder = flate2::write::ZlibEncoder::new(stated, flate2::Compression::default());
    encoder.write_all(text).expect("memory");
    encoder.finish().expect("memory")
}

type Section = (u8, Vec<(&'static str, &'static str)>, Vec<u8>);

/// A container with these sections: kind, items, bytes.
pub(crate) fn container(sections: &[Section]) -> Vec<u8> {
    const BLOCK: usize = 16 * 1024;
    let mut begin = BLOCK;
    let mut objects = Vec::new();
    for (kind, items, bytes) in sections {
        let items = items.iter().map(|(key, value)| {
            let value = Table::new().with(Field::new("value", 0), *value);
            Table::new()
                .with(Field::new("key", 0), *key)
                .with(Field::new("value_type", 1), 9u8)
                .with(Field::new("value", 2), value)
        });
        objects.push(
            Table::new()
                .with(Field::new("items", 0), items.collect::<Vec<_>>())
                .with(Field::new("begin_offset", 1), begin as u64)
                .with(Field::new("end_offset", 2), (begin + bytes.len()) as u64)
                .with(Field::new("data_type", 3), *kind),
        );
        begin = (begin + bytes.len()).next_multiple_of(BLOCK);
    }
    let root = Table::new().with(Field::new("sections", 1), Table::new().with(Field::new("objects", 0), objects));
    let header = finish(&root, None).expect("short");
    let mut file = b"LITERTLM".to_vec();
    file.extend([1u32, 7, 0, 0].iter().flat_map(|word| word.to_le_bytes()));
    file.extend((32 + header.len() as u64).to_le_bytes());
    file.extend(header);
    for (_, _, bytes) in sections {
        file.resize(file.len().next_multiple_of(BLOCK), 0);
        file.extend_from_slice(bytes);
    }
    file
}
