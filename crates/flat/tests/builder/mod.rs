//! FlatBuffers for tests: a tree of values goes in, bytes come out; sound ones, so that a test can spoil one thing.

#![allow(dead_code, unreachable_pub, missing_docs, reason = "each test binary uses a part of it")]

/// A value of a field or an element of a vector.
#[derive(Clone, Debug)]
pub enum Node {
    Bool(bool),
    U8(u8),
    I8(i8),
    I32(i32),
    U32(u32),
    U64(u64),
    F32(f32),
    Text(String),
    Bytes(Vec<u8>),
    I32s(Vec<i32>),
    I64s(Vec<i64>),
    F32s(Vec<f32>),
    Tables(Vec<Node>),
    /// Slots with values.
    Table(Vec<(u16, Node)>),
}

pub fn text(text: &str) -> Node {
    Node::Text(text.to_owned())
}

pub fn table<const N: usize>(slots: [(u16, Node); N]) -> Node {
    Node::Table(slots.to_vec())
}

/// A buffer with `root`, and an identifier if there is one.
pub fn build(root: &Node, identifier: Option<&[u8; 4]>) -> Vec<u8> {
    let mut bytes = vec![0; 4];
    bytes.extend_from_slice(identifier.map_or(&[][..], |id| id));
    let position = write(&mut bytes, root);
    bytes[..4].copy_from_slice(&(position as u32).to_le_bytes());
    bytes
}

fn align(bytes: &mut Vec<u8>, to: usize) {
    bytes.resize(bytes.len().next_multiple_of(to), 0);
}

/// Appends a value that others point at, and says where it begins.
fn write(bytes: &mut Vec<u8>, node: &Node) -> usize {
    match node {
        Node::Table(slots) => write_table(bytes, slots),
        Node::Tables(tables) => {
            let start = write_vector(bytes, tables.len(), &vec![0; 4 * tables.len()], 4);
            for (n, element) in tables.iter().enumerate() {
                let target = write(bytes, element);
                link(bytes, start + 4 + 4 * n, target);
            }
            start
        }
        Node::Text(text) => {
            let start = write_vector(bytes, text.len(), text.as_bytes(), 4);
            bytes.push(0);
            start
        }
        Node::Bytes(data) => write_vector(bytes, data.len(), data, 16),
        Node::I32s(v) => write_vector(bytes, v.len(), &v.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<_>>(), 4),
        Node::F32s(v) => write_vector(bytes, v.len(), &v.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<_>>(), 4),
        Node::I64s(v) => write_vector(bytes, v.len(), &v.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<_>>(), 8),
        scalar => panic!("{scalar:?} is stored in its table"),
    }
}

fn write_vector(bytes: &mut Vec<u8>, len: usize, data: &[u8], alignment: usize) -> usize {
    while !(bytes.len() + 4).is_multiple_of(alignment) {
        bytes.push(0);
    }
    let start = bytes.len();
    bytes.extend_from_slice(&(len as u32).to_le_bytes());
    bytes.extend_from_slice(data);
    start
}

fn write_table(bytes: &mut Vec<u8>, slots: &[(u16, Node)]) -> usize {
    let count = slots.iter().map(|(slot, _)| slot + 1).max().unwrap_or(0) as usize;
    let mut vtable = vec![0u16; 2 + count];
    let mut fields = vec![0u8; 4];
    let mut links = Vec::new();
    for (slot, node) in slots {
        let value = match node {
            Node::Bool(v) => vec![u8::from(*v)],
            Node::U8(v) => vec![*v],
            Node::I8(v) => v.to_le_bytes().to_vec(),
            Node::I32(v) => v.to_le_bytes().to_vec(),
            Node::U32(v) => v.to_le_bytes().to_vec(),
            Node::F32(v) => v.to_le_bytes().to_vec(),
            Node::U64(v) => v.to_le_bytes().to_vec(),
            _ => vec![0; 4],
        };
        align(&mut fields, value.len());
        vtable[2 + *slot as usize] = fields.len() as u16;
        if matches!(node, Node::Text(_) | Node::Bytes(_) | Node::Table(_) | Node::Tables(_))
            || matches!(node, Node::I32s(_) | Node::I64s(_) | Node::F32s(_))
        {
            links.push((fields.len(), node));
        }
        fields.extend(value);
    }
    vtable[0] = 2 * vtable.len() as u16;
    vtable[1] = fields.len() as u16;
    align(bytes, 2);
    while !(bytes.len() + 2 * vtable.len()).is_multiple_of(8) {
        bytes.extend([0, 0]);
    }
    bytes.extend(vtable.iter().flat_map(|entry| entry.to_le_bytes()));
    let start = bytes.len();
    fields[..4].copy_from_slice(&(2 * vtable.len() as i32).to_le_bytes());
    bytes.extend(fields);
    for (field, node) in links {
        let target = write(bytes, node);
        link(bytes, start + field, target);
    }
    start
}

fn link(bytes: &mut [u8], from: usize, to: usize) {
    bytes[from..from + 4].copy_from_slice(&((to - from) as u32).to_le_bytes());
}
