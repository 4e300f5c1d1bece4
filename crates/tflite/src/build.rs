//! Building a TFLite model: typed operators over tensors of known shape go in, the bytes of a `.tflite` come out; it
//! never holds the large constants, which the caller stores where [`Written`] says.
//!
//! Rooms: [`Graph`] (a subgraph and its tensors), `operators` (one method each, which computes the output's shape),
//! `encode` (the tree of tables).

mod encode;
mod graph;
mod operators;

use std::collections::HashMap;
use std::sync::Arc;

use kinglet_flat::write::{TooLong, Value};

pub use encode::Written;
pub use graph::{Graph, Tensor};

use graph::Finished;

/// Large constants begin on a multiple of this, so that a mapped file serves every instruction set.
pub const ALIGNMENT: u64 = 64;

/// Where a constant's bytes lie: in the FlatBuffer, or behind it. Subgraphs that hold the same buffer share its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Buffer(u32);

/// Scales of an int8 constant, one per row, all zero points zero. Clones share their place in the file.
#[derive(Clone, Debug)]
pub struct Scales {
    values: Arc<Value>,
    zero_points: Arc<Value>,
}

#[derive(Clone, Debug)]
enum Stored {
    Inside(Vec<u8>),
    Outside(u64),
}

/// A model under construction.
#[derive(Debug)]
pub struct Builder {
    description: String,
    buffers: Vec<Stored>,
    inside: HashMap<Vec<u8>, Buffer>,
    zero_points: HashMap<usize, Arc<Value>>,
    /// Builtin operators in use, with the version of each.
    codes: Vec<(u32, i32)>,
    subgraphs: Vec<Finished>,
    metadata: Vec<(String, Buffer)>,
}

impl Builder {
    /// An empty model.
    pub fn new(description: impl Into<String>) -> Builder {
        Builder {
            description: description.into(),
            // Buffer 0 stands for tensors without data.
            buffers: vec![Stored::Inside(Vec::new())],
            inside: HashMap::new(),
            zero_points: HashMap::new(),
            codes: Vec::new(),
            subgraphs: Vec::new(),
            metadata: Vec::new(),
        }
    }

    /// A buffer of `bytes` bytes behind the FlatBuffer. [`Written::outside`] tells the place, in the order of calls.
    pub fn outside(&mut self, bytes: u64) -> Buffer {
        self.buffers.push(Stored::Outside(bytes));
        Buffer((self.buffers.len() - 1) as u32)
    }

    /// A small buffer in the FlatBuffer; equal ones are stored once.
    pub fn inside(&mut self, data: Vec<u8>) -> Buffer {
        if let Some(known) = self.inside.get(&data) {
            return *known;
        }
        let buffer = Buffer(self.buffers.len() as u32);
        self.buffers.push(Stored::Inside(data.clone()));
        self.inside.insert(data, buffer);
        buffer
    }

    /// Scales for an int8 constant with as many rows.
    pub fn scales(&mut self, values: Vec<f32>) -> Scales {
        let rows = values.len();
        let zero_points = self.zero_points.entry(rows).or_insert_with(|| Arc::new(vec![0i64; rows].into()));
        Scales { values: Arc::new(values.into()), zero_points: zero_points.clone() }
    }

    /// Begins a subgraph that the signature `key` runs.
    pub fn graph(&mut self, key: impl Into<String>) -> Graph<'_> {
        Graph::new(self, key.into())
    }

    /// Adds an entry of metadata.
    pub fn metadata(&mut self, name: impl Into<String>, data: Vec<u8>) {
        let buffer = Buffer(self.buffers.len() as u32);
        self.buffers.push(Stored::Inside(data));
        self.metadata.push((name.into(), buffer));
    }

    /// The model's FlatBuffer, and where the large constants go.
    ///
    /// # Errors
    /// The FlatBuffer would exceed 2 GiB.
    pub fn finish(&self) -> Result<Written, TooLong> {
        encode::encode(self)
    }

    fn code(&mut self, number: u32, version: i32) -> u32 {
        let place = self.codes.iter().position(|code| *code == (number, version));
        place.unwrap_or_else(|| {
            self.codes.push((number, version));
            self.codes.len() - 1
        }) as u32
    }
}

#[cfg(test)]
mod tests;
