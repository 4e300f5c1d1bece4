//! A subgraph under construction: tensors of known shape and the operators that make them.

use kinglet_flat::write::Table;

use super::{Buffer, Builder, Scales};
use crate::ElementType;

/// A tensor of the [`Graph`] that gave it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tensor(pub(super) u32);

#[derive(Debug)]
pub(super) struct TensorRecord {
    pub(super) name: String,
    pub(super) element: ElementType,
    pub(super) shape: Vec<usize>,
    pub(super) buffer: Buffer,
    pub(super) scales: Option<Scales>,
}

#[derive(Debug)]
pub(super) struct Node {
    pub(super) code: u32,
    pub(super) inputs: Vec<i32>,
    pub(super) output: u32,
    /// Number in `builtin_options_type`, and the table.
    pub(super) options: Option<(u8, Table)>,
}

/// A subgraph with its signature, complete.
#[derive(Debug)]
pub(super) struct Finished {
    pub(super) key: String,
    pub(super) tensors: Vec<TensorRecord>,
    pub(super) nodes: Vec<Node>,
    pub(super) inputs: Vec<(String, u32)>,
    pub(super) outputs: Vec<(String, u32)>,
}

/// A subgraph under construction.
///
/// Operators are methods (see the file `operators.rs`). Shapes are checked as they are added.
///
/// # Panics
/// A method panics when shapes do not fit its operator: who builds a graph knows the shapes, so this is a mistake in
/// the caller, never in its input.
#[derive(Debug)]
pub struct Graph<'b> {
    pub(super) builder: &'b mut Builder,
    key: String,
    scope: String,
    tensors: Vec<TensorRecord>,
    nodes: Vec<Node>,
    inputs: Vec<(String, u32)>,
    outputs: Vec<(String, u32)>,
}

impl<'b> Graph<'b> {
    pub(super) fn new(builder: &'b mut Builder, key: String) -> Graph<'b> {
        Graph {
            builder,
            key,
            scope: String::new(),
            tensors: Vec::new(),
            nodes: Vec::new(),
            inputs: Vec::new(),
            outputs: Vec::new(),
        }
    }

    /// What the names of computed tensors begin with from here on, such as `l3`.
    pub fn scope(&mut self, scope: impl Into<String>) {
        self.scope = scope.into();
    }

    /// An input of the signature.
    pub fn input(&mut self, name: &str, element: ElementType, shape: &[usize]) -> Tensor {
        let tensor = self.tensor(format!("{}_{name}", self.key), element, shape, Buffer(0), None);
        self.inputs.push((name.to_owned(), tensor.0));
        tensor
    }

    /// An output of the signature.
    pub fn output(&mut self, name: &str, tensor: Tensor) {
        self.tensors[tensor.0 as usize].name = format!("{}_{name}_output", self.key);
        self.outputs.push((name.to_owned(), tensor.0));
    }

    /// A constant; with scales it is int8 with one of them per row.
    pub fn constant(&mut self, name: &str, element: ElementType, shape: &[usize], buffer: Buffer) -> Tensor {
        self.tensor(name.to_owned(), element, shape, buffer, None)
    }

    /// An int8 constant with a scale per row.
    pub fn int8(&mut self, name: &str, shape: &[usize], buffer: Buffer, scales: Scales) -> Tensor {
        self.tensor(name.to_owned(), ElementType::I8, shape, buffer, Some(scales))
    }

    /// A small constant of `f32`.
    pub fn floats(&mut self, shape: &[usize], values: &[f32]) -> Tensor {
        assert_eq!(shape.iter().product::<usize>(), values.len(), "a constant's shape and values");
        let buffer = self.builder.inside(values.iter().flat_map(|v| v.to_le_bytes()).collect());
        self.small(ElementType::F32, shape, buffer)
    }

    /// A small constant of `i32`, of one dimension.
    pub fn integers(&mut self, values: &[i32]) -> Tensor {
        let buffer = self.builder.inside(values.iter().flat_map(|v| v.to_le_bytes()).collect());
        self.small(ElementType::I32, &[values.len()], buffer)
    }

    /// The shape of a tensor.
    pub fn shape(&self, tensor: Tensor) -> &[usize] {
        &self.tensors[tensor.0 as usize].shape
    }

    /// The element type of a tensor.
    pub fn element(&self, tensor: Tensor) -> ElementType {
        self.tensors[tensor.0 as usize].element
    }

    /// Ends the subgraph: operators that no output needs are left out, inputs and outputs go into the order of names.
    pub fn finish(self) {
        let Graph { builder, key, tensors, nodes, mut inputs, mut outputs, .. } = self;
        inputs.sort();
        outputs.sort();
        let nodes = live(nodes, &outputs);
        builder.subgraphs.push(compact(Finished { key, tensors, nodes, inputs, outputs }));
    }

    /// Constants of one content and shape are one tensor.
    fn small(&mut self, element: ElementType, shape: &[usize], buffer: Buffer) -> Tensor {
        let known = self.tensors.iter().position(|t| t.buffer == buffer && t.shape == shape && t.element == element);
        match known {
            Some(known) => Tensor(known as u32),
            None => self.tensor(format!("c{}", buffer.0), element, shape, buffer, None),
        }
    }

    fn tensor(
        &mut self,
        name: String,
        element: ElementType,
        shape: &[usize],
        buffer: Buffer,
        scales: Option<Scales>,
    ) -> Tensor {
        self.tensors.push(TensorRecord { name, element, shape: shape.to_vec(), buffer, scales });
        Tensor((self.tensors.len() - 1) as u32)
    }

    /// Adds an operator with one output.
    pub(super) fn node(
        &mut self,
        (number, version): (u32, i32),
        inputs: &[Option<Tensor>],
        (element, shape): (ElementType, &[usize]),
        options: Option<(u8, Table)>,
    ) -> Tensor {
        let code = self.builder.code(number, version);
        let name = format!("{}/{}", self.scope, self.nodes.len());
        let output = self.tensor(name, element, shape, Buffer(0), None);
        let inputs = inputs.iter().map(|tensor| tensor.map_or(-1, |tensor| tensor.0 as i32)).collect();
        self.nodes.push(Node { code, inputs, output: output.0, options });
        output
    }
}

/// The nodes that outputs depend on, in their order.
fn live(nodes: Vec<Node>, outputs: &[(String, u32)]) -> Vec<Node> {
    let mut needed: std::collections::HashSet<u32> = outputs.iter().map(|(_, tensor)| *tensor).collect();
    let mut kept: Vec<Node> = Vec::with_capacity(nodes.len());
    for node in nodes.into_iter().rev() {
        if needed.contains(&node.output) {
            needed.extend(node.inputs.iter().filter_map(|input| u32::try_from(*input).ok()));
            kept.push(node);
        }
    }
    kept.reverse();
    kept
}

/// Drops the tensors that nothing holds any more.
fn compact(mut graph: Finished) -> Finished {
    let mut used = vec![false; graph.tensors.len()];
    let ports = graph.inputs.iter().chain(&graph.outputs).map(|(_, tensor)| *tensor);
    let operands = graph
        .nodes
        .iter()
        .flat_map(|node| node.inputs.iter().filter_map(|input| u32::try_from(*input).ok()).chain([node.output]));
    ports.chain(operands).for_each(|tensor| used[tensor as usize] = true);
    let places: Vec<u32> = used
        .iter()
        .scan(0, |next, used| {
            *next += u32::from(*used);
            Some(*next - u32::from(*used))
        })
        .collect();
    let place = |tensor: u32| places[tensor as usize];
    for node in &mut graph.nodes {
        for input in node.inputs.iter_mut().filter(|input| **input >= 0) {
            *input = place(*input as u32) as i32;
        }
        node.output = place(node.output);
    }
    graph.inputs.iter_mut().chain(&mut graph.outputs).for_each(|(_, tensor)| *tensor = place(*tensor));
    let mut used = used.into_iter();
    graph.tensors.retain(|_| used.next() == Some(true));
    graph
}
