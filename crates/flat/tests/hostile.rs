//! Random damage: whatever the bytes, reading ends with a value or an error.

mod builder;
#[path = "builder/mutation.rs"]
mod mutation;

use builder::{Node, build, table, text};
use kinglet_flat::{Field, Flat, Table};
use mutation::{Numbers, damage};

fn sample() -> Vec<u8> {
    let leaf = |n: i32| {
        let quantization = table([(2, Node::F32s(vec![0.5; 4])), (3, Node::I64s(vec![0; 4]))]);
        table([(0, Node::I32s(vec![n, 2, 3])), (1, Node::I8(9)), (3, text("a name")), (4, quantization)])
    };
    let graph = table([(0, Node::Tables((0..8).map(leaf).collect())), (1, Node::I32s(vec![0, 1])), (4, text("graph"))]);
    build(&table([(0, Node::U32(3)), (2, Node::Tables(vec![graph; 3])), (4, Node::Bytes(vec![7; 40]))]), Some(b"TFL3"))
}

/// Reads every field as everything it could be, three levels deep.
fn read_as_anything(table: Table<'_>, depth: usize) -> usize {
    let mut read = 0;
    for slot in 0..8 {
        let field = Field::new("field", slot);
        read += usize::from(table.scalar(field, 0u64).is_ok()) + usize::from(table.scalar(field, 0u8).is_ok());
        read += usize::from(table.string(field).is_ok()) + usize::from(table.bytes(field, 8).is_ok());
        read += table.scalars::<i32>(field).map_or(0, |v| v.iter().count());
        if depth > 0 {
            read += table.table(field).ok().flatten().map_or(0, |t| read_as_anything(t, depth - 1));
            let tables = table.tables(field);
            read += tables.map_or(0, |v| v.iter().take(64).flatten().map(|t| read_as_anything(t, depth - 1)).sum());
        }
    }
    read
}

#[test]
fn damaged_buffers_never_panic() {
    let sound = sample();
    for seed in 0..4000 {
        let mut numbers = Numbers::new(seed);
        let mut bytes = sound.clone();
        let whole = 0..bytes.len();
        damage(&mut bytes, whole, &mut numbers);
        if numbers.below(8) == 0 {
            bytes.truncate(numbers.below(sound.len()));
        }
        let flat = Flat::new(&bytes, "Root");
        if let Ok(root) = flat.root() {
            read_as_anything(root, 3);
        }
    }
}

#[test]
fn noise_never_panics() {
    for seed in 0..4000 {
        let mut numbers = Numbers::new(seed);
        let bytes: Vec<u8> =
            (0..numbers.below(200)).map(|_| [0, 4, 8, numbers.below(256) as u8][numbers.below(4)]).collect();
        let flat = Flat::new(&bytes, "Root");
        if let Ok(root) = flat.root() {
            read_as_anything(root, 3);
        }
    }
}
