//! Bundles for tests: a draft goes in, the bytes of a file come out; sound ones, so that a test can spoil one thing.

#![allow(dead_code, unreachable_pub, missing_docs, reason = "each test binary uses a part of it")]

#[path = "../../../flat/tests/builder/mod.rs"]
pub mod builder;
#[path = "../../../flat/tests/builder/mutation.rs"]
pub mod mutation;

use std::ops::Range;
use std::path::{Path, PathBuf};

use builder::{Node, build, table, text};
use kinglet_blob::Blob;
use kinglet_bundle::{BLOCK, Bundle, Error};

pub fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/bundles").join(name)
}

/// All fixtures, and the bundles beside the repository, which may be absent.
pub fn real_bundles() -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = Vec::new();
    for folder in ["tiny", "tiny4b"] {
        let entries =
            std::fs::read_dir(fixture(folder)).expect("fixtures").map(|entry| entry.expect("an entry").path());
        found.extend(entries.filter(|path| path.extension().is_some_and(|e| e == "litertlm")));
    }
    assert_eq!(found.len(), 7, "all fixtures");
    let demo = fixture("../../../shared/bundles/demo");
    found.extend(["demo_wi8fc.litertlm", "democ_wi8fc.litertlm"].map(|name| demo.join(name)));
    found
}

/// A section to be: its kind's number, its items, its bytes.
#[derive(Clone, Debug)]
pub struct Part {
    pub kind: u8,
    pub items: Vec<(&'static str, Node, u8)>,
    pub data: Vec<u8>,
    /// What the header says of its place, if not the truth.
    pub range: Option<(u64, u64)>,
}

pub fn part(kind: u8, data: &[u8]) -> Part {
    Part { kind, items: Vec::new(), data: data.to_vec(), range: None }
}

pub fn model_part(kind: u8, model_type: &str, data: &[u8]) -> Part {
    Part { items: vec![("model_type", text(model_type), 9)], ..part(kind, data) }
}

fn item(key: &str, value: &Node, kind: u8) -> Node {
    table([(0, text(key)), (1, Node::U8(kind)), (2, table([(0, value.clone())]))])
}

/// The bytes of a bundle.
pub fn file(parts: &[Part]) -> Vec<u8> {
    let place = |begin: u64, part: &Part| begin..begin + part.data.len() as u64;
    let header = |places: &[Range<u64>]| {
        let sections = parts.iter().zip(places).map(|(part, place)| {
            let (begin, end) = part.range.unwrap_or((place.start, place.end));
            let items = part.items.iter().map(|(key, value, kind)| item(key, value, *kind)).collect();
            table([(0, Node::Tables(items)), (1, Node::U64(begin)), (2, Node::U64(end)), (3, Node::U8(part.kind))])
        });
        let sections = table([(0, Node::Tables(sections.collect()))]);
        let system = table([(0, Node::Tables(vec![item("Authors", &text("test"), 9)]))]);
        build(&table([(0, system), (1, sections)]), None)
    };
    let places = vec![0..0; parts.len()];
    let header_end = 32 + header(&places).len() as u64;
    let mut at = header_end;
    let mut places = Vec::new();
    for part in parts {
        let begin = at.next_multiple_of(BLOCK);
        places.push(place(begin, part));
        at = begin + part.data.len() as u64;
    }
    let mut bytes = b"LITERTLM\x01\0\0\0\x07\0\0\0\0\0\0\0\0\0\0\0".to_vec();
    bytes.extend(header_end.to_le_bytes());
    bytes.extend(header(&places));
    for (part, place) in parts.iter().zip(places) {
        bytes.resize(place.start as usize, 0);
        bytes.extend(&part.data);
    }
    bytes
}

pub fn open(bytes: Vec<u8>) -> Result<Bundle, Error> {
    Bundle::from_blob(Blob::from_vec(bytes), "test.litertlm")
}
