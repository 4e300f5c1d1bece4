//! What is written is read back, and laid out as other readers ask.

use std::sync::Arc;

use kinglet_flat::write::{Table, Value, finish};
use kinglet_flat::{Field, Flat};

const SMALL: Field = Field::new("small", 0);
const LARGE: Field = Field::new("large", 1);
const TEXT: Field = Field::new("text", 2);
const CHILDREN: Field = Field::new("children", 3);
const DATA: Field = Field::new("data", 4);
const WIDE: Field = Field::new("wide", 5);

fn child(n: u8) -> Table {
    Table::new().with(SMALL, n).with(LARGE, u64::from(n) << 40).with(TEXT, format!("child {n}"))
}

fn sample() -> Table {
    Table::new()
        .with(TEXT, "root")
        .with(CHILDREN, vec![child(1), child(2), child(3)])
        .with(DATA, vec![7u8; 33])
        .with(WIDE, vec![1i64, -2, 3])
        .with_some(SMALL, None::<u8>)
}

#[test]
fn a_tree_is_read_back() {
    let bytes = finish(&sample(), Some(b"TEST")).expect("short");
    let flat = Flat::new(&bytes, "Sample");
    assert_eq!(flat.identifier(), Some(*b"TEST"));
    let root = flat.root().expect("a root");
    assert_eq!(root.string(TEXT).expect("sound"), Some("root"));
    assert_eq!(root.scalar(SMALL, 9u8).expect("sound"), 9, "a field left out has its default");
    let children = root.tables(CHILDREN).expect("sound");
    assert_eq!(children.len(), 3);
    for (n, read) in (1u8..).zip(children.iter()) {
        let read = read.expect("sound");
        assert_eq!(read.scalar(SMALL, 0u8).expect("sound"), n);
        assert_eq!(read.scalar(LARGE, 0u64).expect("sound"), u64::from(n) << 40);
        assert_eq!(read.string(TEXT).expect("sound"), Some(&*format!("child {n}")));
    }
}

#[test]
fn numbers_lie_on_their_size_and_constants_on_sixteen() {
    let bytes = finish(&sample(), None).expect("short");
    let at = |needle: &[u8]| bytes.windows(needle.len()).position(|w| w == needle).expect("stored");
    assert_eq!(at(&[7; 33]) % 16, 0);
    assert_eq!(at(&1i64.to_le_bytes()) % 8, 0);
    assert_eq!(at(&(2u64 << 40).to_le_bytes()) % 8, 0);
    assert_eq!(bytes[at(b"child 3") + 7], 0, "texts end in a zero that is not counted");
}

#[test]
fn tables_of_one_shape_share_a_vtable() {
    let many = |n: usize| Table::new().with(CHILDREN, vec![child(1); n]);
    let (ten, twenty) = (finish(&many(10), None).expect("short"), finish(&many(20), None).expect("short"));
    let (one, two) = (ten.len(), twenty.len());
    // A link, a table of 4 + 8 + 4 + 1 bytes on a multiple of 8, and a text of 4 + 7 + 1: no vtable among them.
    assert!((two - one).div_ceil(10) <= 4 + 24 + 4 + 12, "{one} and {two} bytes");
}

#[test]
fn one_tree_gives_one_sequence_of_bytes() {
    assert_eq!(finish(&sample(), None).expect("short"), finish(&sample(), None).expect("short"));
}

#[test]
fn what_is_shared_is_written_once() {
    let scales: Arc<Value> = Arc::new(vec![0.5f32; 1000].into());
    let root = Table::new().with(CHILDREN, vec![Table::new().with(WIDE, scales.clone()); 10]).with(DATA, scales);
    let bytes = finish(&root, None).expect("short");
    assert!(bytes.len() < 2 * 4000, "{} bytes", bytes.len());
    let flat = Flat::new(&bytes, "Sample");
    let root = flat.root().expect("a root");
    for child in root.tables(CHILDREN).expect("sound").iter() {
        let read: Vec<f32> = child.expect("sound").scalars(WIDE).expect("sound").iter().collect();
        assert_eq!(read, vec![0.5f32; 1000]);
    }
}
