//! TFLite models for tests, of any operator: graphs go in, the bytes of a section come out.

use kinglet_flat::Field;
use kinglet_flat::write::{Table, Value, finish};

pub(crate) const F32: i8 = 0;
pub(crate) const I32: i8 = 2;
pub(crate) const I64: i8 = 4;
pub(crate) const I8: i8 = 9;

/// Numbers of an operator that is custom, and of one that is a composite.
const CUSTOM: i32 = 32;

/// A subgraph and the signature that runs it.
#[derive(Clone)]
pub(crate) struct Graph {
    pub(crate) key: String,
    /// More signatures that run the same subgraph.
    pub(crate) aliases: Vec<String>,
    tensors: Vec<Tensor>,
    operators: Vec<Operator>,
    inputs: Vec<(String, usize)>,
    outputs: Vec<(String, usize)>,
}

#[derive(Clone)]
struct Tensor {
    name: String,
    element: i8,
    shape: Vec<u32>,
    data: Vec<u8>,
}

#[derive(Clone)]
struct Operator {
    kind: Kind,
    inputs: Vec<usize>,
    outputs: Vec<usize>,
}

#[derive(Clone, PartialEq)]
enum Kind {
    Builtin(u32),
    Custom(String),
}

pub(crate) fn floats(count: u32) -> Vec<u8> {
    (0..count).flat_map(|n| (n as f32 + 0.5).to_le_bytes()).collect()
}

pub(crate) fn integers(values: &[i32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

impl Graph {
    pub(crate) fn new(key: &str) -> Graph {
        let (aliases, tensors, operators, inputs, outputs) = Default::default();
        Graph { key: key.to_owned(), aliases, tensors, operators, inputs, outputs }
    }

    pub(crate) fn tensor(&mut self, name: &str, element: i8, shape: &[u32], data: Vec<u8>) -> usize {
        self.tensors.push(Tensor { name: name.to_owned(), element, shape: shape.to_vec(), data });
        self.tensors.len() - 1
    }

    pub(crate) fn input(&mut self, name: &str, element: i8, shape: &[u32]) -> usize {
        let tensor = self.tensor(&format!("{}_{name}", self.key), element, shape, Vec::new());
        self.inputs.push((name.to_owned(), tensor));
        tensor
    }

    pub(crate) fn constant(&mut self, name: &str, element: i8, shape: &[u32], data: Vec<u8>) -> usize {
        self.tensor(name, element, shape, data)
    }

    pub(crate) fn output(&mut self, name: &str, tensor: usize) {
        self.outputs.retain(|(known, _)| known != name);
        self.outputs.push((name.to_owned(), tensor));
    }

    pub(crate) fn operator(&mut self, number: u32, inputs: &[usize], element: i8, shape: &[u32]) -> usize {
        self.push(Kind::Builtin(number), inputs, element, shape)
    }

    pub(crate) fn custom(&mut self, name: &str, inputs: &[usize], element: i8, shape: &[u32]) -> usize {
        self.push(Kind::Custom(name.to_owned()), inputs, element, shape)
    }

    fn push(&mut self, kind: Kind, inputs: &[usize], element: i8, shape: &[u32]) -> usize {
        let output = self.tensor("t", element, shape, Vec::new());
        self.operators.push(Operator { kind, inputs: inputs.to_vec(), outputs: vec![output] });
        output
    }

    /// An operator whose output is a tensor that is there already.
    pub(crate) fn operator_into(&mut self, number: u32, inputs: &[usize], output: usize) {
        self.operators.push(Operator { kind: Kind::Builtin(number), inputs: inputs.to_vec(), outputs: vec![output] });
    }

    pub(crate) fn find(&self, name: &str) -> usize {
        self.tensors.iter().position(|tensor| tensor.name.ends_with(name)).expect("there is such a tensor")
    }

    pub(crate) fn output_of(&self, name: &str) -> usize {
        self.outputs.iter().find(|(known, _)| known == name).expect("there is such an output").1
    }

    /// Changes a tensor's type, shape and constant.
    pub(crate) fn retype(&mut self, name: &str, element: i8, shape: &[u32], data: Vec<u8>) {
        let tensor = self.find(name);
        self.tensors[tensor] = Tensor { name: name.to_owned(), element, shape: shape.to_vec(), data };
    }

    pub(crate) fn rename(&mut self, tensor: usize, name: String) {
        self.tensors[tensor].name = name;
    }

    pub(crate) fn remove_state(&mut self, name: &str) {
        self.inputs.retain(|(known, _)| known != name);
        self.outputs.retain(|(known, _)| known != name);
    }
}

fn field(name: &'static str, slot: u16) -> Field {
    Field::new(name, slot)
}

fn indices(tensors: &[usize]) -> Value {
    Value::I32s(tensors.iter().map(|tensor| *tensor as i32).collect())
}

/// The bytes of a model. Equal constants of several graphs share a buffer if `name` is the same.
pub(crate) fn model(graphs: &[Graph]) -> Vec<u8> {
    let mut kinds: Vec<Kind> = Vec::new();
    let mut buffers = vec![Table::new()];
    let mut shared: Vec<(String, Vec<u8>)> = vec![Default::default()];
    let mut subgraphs = Vec::new();
    let mut signatures = Vec::new();
    for (n, graph) in graphs.iter().enumerate() {
        let tensors = graph.tensors.iter().map(|tensor| {
            let buffer = if tensor.data.is_empty() { 0 } else { buffer_of(tensor, &mut shared, &mut buffers) };
            let shape = tensor.shape.iter().map(|d| *d as i32).collect::<Vec<i32>>();
            Table::new()
                .with(field("shape", 0), shape)
                .with(field("type", 1), tensor.element)
                .with(field("buffer", 2), buffer)
                .with(field("name", 3), tensor.name.as_str())
        });
        let tensors: Vec<Table> = tensors.collect();
        let operators = graph.operators.iter().map(|operator| {
            let known = kinds.iter().position(|kind| *kind == operator.kind);
            let code = known.unwrap_or_else(|| {
                kinds.push(operator.kind.clone());
                kinds.len() - 1
            });
            Table::new()
                .with(field("opcode_index", 0), code as u32)
                .with(field("inputs", 1), indices(&operator.inputs))
                .with(field("outputs", 2), indices(&operator.outputs))
        });
        let operators: Vec<Table> = operators.collect();
        let ends = |named: &[(String, usize)]| indices(&named.iter().map(|(_, tensor)| *tensor).collect::<Vec<_>>());
        subgraphs.push(
            Table::new()
                .with(field("tensors", 0), tensors)
                .with(field("inputs", 1), ends(&graph.inputs))
                .with(field("outputs", 2), ends(&graph.outputs))
                .with(field("operators", 3), operators),
        );
        for key in std::iter::once(&graph.key).chain(&graph.aliases) {
            signatures.push(
                Table::new()
                    .with(field("inputs", 0), named(&graph.inputs))
                    .with(field("outputs", 1), named(&graph.outputs))
                    .with(field("signature_key", 2), key.as_str())
                    .with(field("subgraph_index", 4), n as u32),
            );
        }
    }
    let root = Table::new()
        .with(field("version", 0), 3u32)
        .with(field("operator_codes", 1), kinds.iter().map(code).collect::<Vec<_>>())
        .with(field("subgraphs", 2), subgraphs)
        .with(field("buffers", 4), buffers)
        .with(field("signature_defs", 7), signatures);
    finish(&root, Some(b"TFL3")).expect("short")
}

fn code(kind: &Kind) -> Table {
    let number = |number: i32| {
        Table::new()
            .with(field("deprecated_builtin_code", 0), number.min(127) as i8)
            .with(field("builtin_code", 3), number)
    };
    match kind {
        Kind::Builtin(builtin) => number(*builtin as i32),
        Kind::Custom(name) => number(CUSTOM).with(field("custom_code", 1), name.as_str()),
    }
}

fn named(tensors: &[(String, usize)]) -> Vec<Table> {
    let entry = |(name, tensor): &(String, usize)| {
        Table::new().with(field("name", 0), name.as_str()).with(field("tensor_index", 1), *tensor as u32)
    };
    tensors.iter().map(entry).collect()
}

fn buffer_of(tensor: &Tensor, shared: &mut Vec<(String, Vec<u8>)>, buffers: &mut Vec<Table>) -> u32 {
    let known = shared.iter().position(|(name, data)| *name == tensor.name && *data == tensor.data);
    let index = known.unwrap_or_else(|| {
        shared.push((tensor.name.clone(), tensor.data.clone()));
        buffers.push(Table::new().with(field("data", 0), tensor.data.clone()));
        buffers.len() - 1
    });
    index as u32
}
