//! FlatBuffers writing: a tree of tables goes in, the bytes of one buffer come out, the same bytes for the same tree.
//!
//! What is pointed at always follows what points at it, tables of one shape share a vtable, and byte vectors begin on a
//! multiple of 16, as TFLite asks of its constants. Fields that hold their default are written like any other: whoever
//! builds the tree leaves them out.
//!
//! ```
//! use kinglet_flat::write::{Table, finish};
//! use kinglet_flat::{Field, Flat};
//!
//! const VERSION: Field = Field::new("version", 0);
//! const NAME: Field = Field::new("name", 1);
//!
//! let root = Table::new().with(VERSION, 3u32).with(NAME, "demo");
//! let bytes = finish(&root, Some(b"TFL3"))?;
//! let flat = Flat::new(&bytes, "Model");
//! assert_eq!(flat.root()?.scalar(VERSION, 0u32)?, 3);
//! assert_eq!(flat.root()?.string(NAME)?, Some("demo"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::collections::HashMap;
use std::sync::Arc;

use crate::Field;

/// A buffer would be longer than its offsets can reach.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("the FlatBuffer would have {0} bytes, its offsets reach 2147483647")]
pub struct TooLong(pub usize);

/// A value of a field.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "the variants are the scalar types of FlatBuffers and vectors of them")]
pub enum Value {
    Bool(bool),
    U8(u8),
    I8(i8),
    U16(u16),
    I16(i16),
    U32(u32),
    I32(i32),
    U64(u64),
    I64(i64),
    F32(f32),
    F64(f64),
    Text(String),
    Bytes(Vec<u8>),
    I32s(Vec<i32>),
    I64s(Vec<i64>),
    F32s(Vec<f32>),
    Table(Table),
    Tables(Vec<Table>),
    /// A table or a vector of numbers that is written once, however many fields hold it.
    Shared(Arc<Value>),
}

macro_rules! from {
    ($($variant:ident $type:ty),* $(,)?) => {$(
        impl From<$type> for Value {
            fn from(value: $type) -> Value {
                Value::$variant(value)
            }
        }
    )*};
}

from! {
    Bool bool, U8 u8, I8 i8, U16 u16, I16 i16, U32 u32, I32 i32, U64 u64, I64 i64, F32 f32, F64 f64, Text String,
    Bytes Vec<u8>, I32s Vec<i32>, I64s Vec<i64>, F32s Vec<f32>, Table Table, Tables Vec<Table>, Shared Arc<Value>,
}

impl From<&str> for Value {
    fn from(value: &str) -> Value {
        Value::Text(value.to_owned())
    }
}

/// A table: values by field, in any order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    fields: Vec<(u16, Value)>,
}

impl Table {
    /// A table without fields.
    pub fn new() -> Table {
        Table::default()
    }

    /// The table with one more field. A field is given once.
    #[must_use]
    pub fn with(mut self, field: Field, value: impl Into<Value>) -> Table {
        debug_assert!(self.fields.iter().all(|(slot, _)| *slot != field.slot()), "a field is given once");
        self.fields.push((field.slot(), value.into()));
        self
    }

    /// The table with one more field, where there is a value for it.
    #[must_use]
    pub fn with_some(self, field: Field, value: Option<impl Into<Value>>) -> Table {
        match value {
            Some(value) => self.with(field, value),
            None => self,
        }
    }
}

/// The buffer whose root is `root`, with a file identifier if there is one.
///
/// # Errors
/// It would exceed 2 GiB.
pub fn finish(root: &Table, identifier: Option<&[u8; 4]>) -> Result<Vec<u8>, TooLong> {
    let mut writer = Writer { bytes: vec![0; 4], vtables: HashMap::new(), shared: Vec::new(), links: HashMap::new() };
    writer.bytes.extend_from_slice(identifier.map_or(&[][..], |id| id));
    let position = writer.table(root);
    writer.link(0, position);
    writer.write_shared();
    match i32::try_from(writer.bytes.len()) {
        Ok(_) => Ok(writer.bytes),
        Err(_) => Err(TooLong(writer.bytes.len())),
    }
}

struct Writer {
    bytes: Vec<u8>,
    vtables: HashMap<Vec<u16>, usize>,
    /// Shared values in the order in which they were met. They come last, so that they follow all that point at them.
    shared: Vec<Arc<Value>>,
    /// Fields that point at each of them, by its address.
    links: HashMap<*const Value, Vec<usize>>,
}

impl Writer {
    /// Appends a value that is pointed at and says where it begins.
    fn target(&mut self, value: &Value) -> usize {
        match value {
            Value::Table(table) => self.table(table),
            Value::Tables(tables) => {
                let start = self.vector(tables.len(), 4, std::iter::repeat_n([0; 4], tables.len()));
                for (n, table) in tables.iter().enumerate() {
                    let target = self.table(table);
                    self.link(start + 4 + 4 * n, target);
                }
                start
            }
            Value::Text(text) => {
                let start = self.vector(text.len(), 4, std::iter::once(text.as_bytes()));
                self.bytes.push(0);
                start
            }
            Value::Bytes(data) => self.vector(data.len(), 16, std::iter::once(data)),
            Value::I32s(values) => self.vector(values.len(), 4, values.iter().map(|v| v.to_le_bytes())),
            Value::F32s(values) => self.vector(values.len(), 4, values.iter().map(|v| v.to_le_bytes())),
            Value::I64s(values) => self.vector(values.len(), 8, values.iter().map(|v| v.to_le_bytes())),
            scalar => unreachable!("{scalar:?} lies in its table"),
        }
    }

    /// A vector whose first element lies on a multiple of `alignment`.
    fn vector(&mut self, len: usize, alignment: usize, elements: impl Iterator<Item = impl AsRef<[u8]>>) -> usize {
        let first = (self.bytes.len() + 4).next_multiple_of(alignment.max(4));
        self.bytes.resize(first - 4, 0);
        // A length beyond u32 makes the buffer too long, which `finish` reports.
        self.bytes.extend_from_slice(&(len as u32).to_le_bytes());
        elements.for_each(|element| self.bytes.extend_from_slice(element.as_ref()));
        first - 4
    }

    fn table(&mut self, table: &Table) -> usize {
        let slots = table.fields.iter().map(|(slot, _)| usize::from(*slot) + 1).max().unwrap_or(0);
        let mut fields: Vec<_> = table.fields.iter().map(|(slot, value)| (*slot, value, inline(value))).collect();
        // Large fields first leave no gaps after the link to the vtable but one.
        fields.sort_by_key(|(slot, _, inline)| (std::cmp::Reverse(inline.len()), *slot));
        let alignment = fields.first().map_or(4, |(_, _, inline)| inline.len().max(4));
        let mut vtable = vec![0u16; 2 + slots];
        let mut end = 4usize;
        for (slot, _, inline) in &fields {
            end = end.next_multiple_of(inline.len());
            vtable[2 + usize::from(*slot)] = end as u16;
            end += inline.len();
        }
        vtable[0] = 2 * vtable.len() as u16;
        vtable[1] = end as u16;
        let shape = self.vtable(vtable.clone());
        let start = self.bytes.len().next_multiple_of(alignment);
        self.bytes.resize(start + end, 0);
        self.bytes[start..start + 4].copy_from_slice(&((start - shape) as i32).to_le_bytes());
        let place = |slot: &u16| start + usize::from(vtable[2 + usize::from(*slot)]);
        for (slot, _, inline) in &fields {
            self.bytes[place(slot)..place(slot) + inline.len()].copy_from_slice(inline);
        }
        for (slot, value) in table.fields.iter().filter(|(_, value)| inline(value).is_link) {
            if let Value::Shared(value) = value {
                self.defer(place(slot), value);
                continue;
            }
            let target = self.target(value);
            self.link(place(slot), target);
        }
        start
    }

    fn defer(&mut self, from: usize, value: &Arc<Value>) {
        let links = self.links.entry(Arc::as_ptr(value)).or_default();
        if links.is_empty() {
            self.shared.push(value.clone());
        }
        links.push(from);
    }

    /// A shared value may itself share: the list grows while it is written.
    fn write_shared(&mut self) {
        let mut next = 0;
        while let Some(value) = self.shared.get(next).cloned() {
            let target = self.target(&value);
            for from in self.links.get(&Arc::as_ptr(&value)).cloned().unwrap_or_default() {
                self.link(from, target);
            }
            next += 1;
        }
    }

    /// Where the vtable lies: tables of one shape share it, unless it is too far back.
    fn vtable(&mut self, vtable: Vec<u16>) -> usize {
        if let Some(position) = self.vtables.get(&vtable) {
            return *position;
        }
        let position = self.bytes.len().next_multiple_of(2);
        self.bytes.resize(position, 0);
        vtable.iter().for_each(|entry| self.bytes.extend_from_slice(&entry.to_le_bytes()));
        self.vtables.insert(vtable, position);
        position
    }

    fn link(&mut self, from: usize, to: usize) {
        self.bytes[from..from + 4].copy_from_slice(&((to - from) as u32).to_le_bytes());
    }
}

/// The bytes of a value in its table; zeros for a link that is made later.
struct Inline {
    bytes: [u8; 8],
    len: usize,
    is_link: bool,
}

impl std::ops::Deref for Inline {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

fn inline(value: &Value) -> Inline {
    fn scalar(value: &[u8]) -> Inline {
        let mut bytes = [0; 8];
        bytes[..value.len()].copy_from_slice(value);
        Inline { bytes, len: value.len(), is_link: false }
    }
    match value {
        Value::Bool(v) => scalar(&[u8::from(*v)]),
        Value::U8(v) => scalar(&v.to_le_bytes()),
        Value::I8(v) => scalar(&v.to_le_bytes()),
        Value::U16(v) => scalar(&v.to_le_bytes()),
        Value::I16(v) => scalar(&v.to_le_bytes()),
        Value::U32(v) => scalar(&v.to_le_bytes()),
        Value::I32(v) => scalar(&v.to_le_bytes()),
        Value::U64(v) => scalar(&v.to_le_bytes()),
        Value::I64(v) => scalar(&v.to_le_bytes()),
        Value::F32(v) => scalar(&v.to_le_bytes()),
        Value::F64(v) => scalar(&v.to_le_bytes()),
        Value::Text(_) | Value::Bytes(_) | Value::I32s(_) | Value::I64s(_) | Value::F32s(_) => link(),
        Value::Table(_) | Value::Tables(_) | Value::Shared(_) => link(),
    }
}

fn link() -> Inline {
    Inline { bytes: [0; 8], len: 4, is_link: true }
}
