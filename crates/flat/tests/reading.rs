//! What sound buffers yield, and what each kind of unsound one is refused for.

mod builder;

use builder::{Node, build, table, text};
use kinglet_flat::{Field, Flat, Problem};

const NUMBER: Field = Field::new("number", 0);
const NAME: Field = Field::new("name", 1);
const CHILDREN: Field = Field::new("children", 2);
const SHAPE: Field = Field::new("shape", 3);
const CHILD: Field = Field::new("child", 4);
const WIDE: Field = Field::new("wide", 5);
const ABSENT: Field = Field::new("absent", 40);

fn sample() -> Vec<u8> {
    let child = |n: i32, name: &str| table([(0, Node::I32(n)), (1, text(name))]);
    let root = table([
        (0, Node::I32(-7)),
        (1, text("größe")),
        (2, Node::Tables(vec![child(1, "one"), child(2, "two")])),
        (3, Node::I32s(vec![1, -1, 3])),
        (4, child(3, "three")),
        (5, Node::U64(u64::MAX)),
    ]);
    build(&root, Some(b"TEST"))
}

#[test]
fn a_sound_buffer_yields_what_was_written() {
    let bytes = sample();
    let flat = Flat::new(&bytes, "Root");
    assert_eq!(flat.identifier(), Some(*b"TEST"));
    let root = flat.root().expect("sound");
    assert_eq!(root.scalar(NUMBER, 0i32).expect("sound"), -7);
    assert_eq!(root.scalar(WIDE, 0u64).expect("sound"), u64::MAX);
    assert_eq!(root.string(NAME).expect("sound"), Some("größe"));
    assert_eq!(root.scalars::<i32>(SHAPE).expect("sound").iter().collect::<Vec<_>>(), [1, -1, 3]);
    assert_eq!(root.required_table(CHILD).expect("sound").required_string(NAME).expect("sound"), "three");
    let names: Vec<_> =
        root.tables(CHILDREN).expect("sound").iter().map(|t| t.expect("sound").string(NAME).expect("sound")).collect();
    assert_eq!(names, [Some("one"), Some("two")]);
}

#[test]
fn an_absent_field_is_its_default() {
    let bytes = sample();
    let flat = Flat::new(&bytes, "Root");
    let root = flat.root().expect("sound");
    assert_eq!(root.scalar(ABSENT, 42u16).expect("default"), 42);
    assert!(root.string(ABSENT).expect("default").is_none());
    assert!(root.tables(ABSENT).expect("default").is_empty());
    assert!(root.scalars::<f32>(ABSENT).expect("default").is_empty());
    assert!(root.table(ABSENT).expect("default").is_none());
    assert!(!root.has(ABSENT).expect("default"));
    let error = root.required_string(ABSENT).expect_err("required");
    assert_eq!(error.problem(), &Problem::Missing);
}

#[test]
fn errors_name_the_path_and_the_byte() {
    let bytes = sample();
    let flat = Flat::new(&bytes, "Root");
    let children = flat.root().expect("sound").tables(CHILDREN).expect("sound");
    let second = children.get(1).expect("sound");
    let error = second.field_error(NAME, "expected a better name");
    assert_eq!(error.path(), "Root.children[1].name");
    assert!(error.to_string().ends_with(": expected a better name"), "{error}");
    assert!(error.offset() > second.position(), "the byte is that of the field");
    let error = children.get(2).expect_err("two children");
    assert_eq!(error.problem(), &Problem::Index { index: 2, len: 2 });
    assert_eq!(error.path(), "Root.children");
}

/// Reads everything that the sample's schema can reach.
fn read_all(bytes: &[u8]) -> kinglet_flat::Result<usize> {
    fn walk(table: kinglet_flat::Table<'_>) -> kinglet_flat::Result<usize> {
        table.scalar(NUMBER, 0i32)?;
        table.scalar(WIDE, 0u64)?;
        let mut seen = 1 + table.scalars::<i32>(SHAPE)?.len() + table.string(NAME)?.map_or(0, str::len);
        for child in table.tables(CHILDREN)?.iter() {
            seen += walk(child?)?;
        }
        if let Some(child) = table.table(CHILD)? {
            seen += walk(child)?;
        }
        Ok(seen)
    }
    walk(Flat::new(bytes, "Root").root()?)
}

#[test]
fn every_truncation_is_refused() {
    let bytes = sample();
    assert!(read_all(&bytes).is_ok());
    // The last bytes are those of the last string, whose terminating zero nobody reads.
    for len in 0..bytes.len() - 1 {
        assert!(read_all(&bytes[..len]).is_err(), "{len} of {} bytes", bytes.len());
    }
}

#[test]
fn every_damaged_byte_is_survived() {
    let bytes = sample();
    for at in 0..bytes.len() {
        for value in [0, 1, 3, 0x7f, 0x80, 0xff] {
            let mut damaged = bytes.clone();
            damaged[at] = value;
            let _ = read_all(&damaged);
        }
    }
}

#[test]
fn tables_that_nest_without_end_are_refused() {
    let mut node = table([(0, Node::I32(0))]);
    for _ in 1..kinglet_flat::DEPTH {
        node = table([(4, node)]);
    }
    assert!(read_all(&build(&node, None)).is_ok(), "as deep as is allowed");
    let error = read_all(&build(&table([(4, node)]), None)).expect_err("one deeper");
    assert_eq!(error.problem(), &Problem::Depth);
    assert_eq!(error.path().matches(".child").count(), kinglet_flat::DEPTH);
}

/// A vector whose every element is one table with such a vector: a few kilobytes unfold into more than can be read.
#[test]
fn a_buffer_that_unfolds_without_end_is_refused() {
    const WIDTH: usize = 300;
    let level = |inner: Node| table([(2, Node::Tables(vec![inner; 1]))]);
    let mut node = table([(0, Node::I32(0))]);
    for _ in 0..5 {
        node = level(node);
    }
    let mut bytes = build(&node, None);
    widen_vectors(&mut bytes, WIDTH);
    let error = read_all(&bytes).expect_err("300 to the fifth tables");
    assert_eq!(error.problem(), &Problem::Budget);
}

/// Replaces the vector of one table in each level by one of `width` links to that same table.
fn widen_vectors(bytes: &mut Vec<u8>, width: usize) {
    let word = |bytes: &[u8], at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four")) as usize;
    let mut table = word(bytes, 0);
    loop {
        let vtable = table - word(bytes, table);
        let size = u16::from_le_bytes([bytes[vtable], bytes[vtable + 1]]) as usize;
        let slot = vtable + 4 + 2 * 2;
        if slot + 2 > vtable + size || bytes[slot] == 0 {
            return;
        }
        let field = table + bytes[slot] as usize;
        let vector = field + word(bytes, field);
        let child = vector + 4 + word(bytes, vector + 4);
        // Links only lead forward, so the widened vector and a copy of everything behind it go to the end.
        let start = bytes.len();
        let tail = bytes[child..start].to_vec();
        let moved = start + 4 + 4 * width;
        // The child's vtable stands before it; keep the distance by moving the vtable along.
        let vtable = child - word(bytes, child);
        let front = bytes[vtable..child].to_vec();
        bytes.extend((width as u32).to_le_bytes());
        for n in 0..width {
            bytes.extend(((moved + front.len() - (start + 4 + 4 * n)) as u32).to_le_bytes());
        }
        bytes.extend(&front);
        bytes.extend(&tail);
        bytes[field..field + 4].copy_from_slice(&((start - field) as u32).to_le_bytes());
        table = moved + front.len();
    }
}

#[test]
fn text_that_is_not_utf8_is_refused_and_its_bytes_are_readable() {
    let mut bytes = build(&table([(1, text("abcdef"))]), None);
    let at = bytes.windows(6).position(|w| w == b"abcdef").expect("stored");
    bytes[at] = 0xff;
    let flat = Flat::new(&bytes, "Root");
    let root = flat.root().expect("sound");
    let error = root.string(NAME).expect_err("not text");
    assert_eq!((error.problem(), error.offset()), (&Problem::NotUtf8, at as u64));
    let raw = root.bytes(NAME, 1).expect("bytes").expect("stored");
    assert_eq!((raw.start, raw.bytes), (at as u64, &b"\xffbcdef"[..]));
}
