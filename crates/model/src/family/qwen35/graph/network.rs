//! The graph of a signature as relations: who makes a tensor, which linears it depends on; constants are not read.

use std::collections::HashSet;

use kinglet_tflite::{Kind, Model, Options, Signature, Subgraph, Tensor, builtin_name};

use crate::error::{Error, Result};

/// Numbers of builtin operators.
pub(super) mod op {
    pub(in super::super) const ADD: u32 = 0;
    pub(in super::super) const CONCATENATION: u32 = 2;
    pub(in super::super) const DEPTHWISE_CONV: u32 = 4;
    pub(in super::super) const DEQUANTIZE: u32 = 6;
    pub(in super::super) const EMBEDDING_LOOKUP: u32 = 7;
    pub(in super::super) const FULLY_CONNECTED: u32 = 9;
    pub(in super::super) const LOGISTIC: u32 = 14;
    pub(in super::super) const MUL: u32 = 18;
    pub(in super::super) const RESHAPE: u32 = 22;
    pub(in super::super) const TRANSPOSE: u32 = 39;
    pub(in super::super) const MEAN: u32 = 40;
    pub(in super::super) const SQUEEZE: u32 = 43;
    pub(in super::super) const CAST: u32 = 53;
    pub(in super::super) const SIN: u32 = 66;
    pub(in super::super) const EXPAND_DIMS: u32 = 70;
    pub(in super::super) const NOT_EQUAL: u32 = 72;
    pub(in super::super) const SUM: u32 = 74;
    pub(in super::super) const RSQRT: u32 = 76;
    pub(in super::super) const COS: u32 = 108;
}

/// Operators that either dialect, or another exporter in its place, writes the family with.
const FAMILY: &str = "ABS ADD BATCH_MATMUL BROADCAST_TO CAST CONCATENATION COS CUMSUM DEPTHWISE_CONV_2D DEQUANTIZE DIV \
    DYNAMIC_UPDATE_SLICE EMBEDDING_LOOKUP EQUAL EXP EXPAND_DIMS FULLY_CONNECTED GATHER GREATER GREATER_EQUAL LESS LOG \
    LOGICAL_AND LOGICAL_NOT LOGICAL_OR LOGISTIC MAXIMUM MEAN MINIMUM MUL NEG NOT_EQUAL PACK PAD RESHAPE RSQRT SELECT \
    SELECT_V2 SIN SLICE SOFTMAX SPLIT SPLIT_V SQUEEZE STRIDED_SLICE SUB SUM TILE TRANSPOSE UNPACK";

/// What the family calls its norm and its delta rule when a runtime may bring them whole.
pub(super) const NORM_COMPOSITE: &str = "odml.rms_norm";
const DELTA_CUSTOM: &str = "gated_delta_update";

/// Most operators, tensors and linears of a `decode` graph; 4B has 2300, 3000 and 250.
const NODE_LIMIT: usize = 1 << 16;
const LINEAR_LIMIT: usize = 4096;

/// An operator.
#[derive(Clone, Debug)]
pub(super) struct Node<'m> {
    pub(super) kind: &'m Kind,
    pub(super) options: Options,
    pub(super) inputs: Vec<Option<usize>>,
    pub(super) outputs: Vec<usize>,
}

impl Node<'_> {
    /// Input `n`, if there is one and it is not left out.
    pub(super) fn input(&self, n: usize) -> Option<usize> {
        self.inputs.get(n).copied().flatten()
    }

    pub(super) fn is(&self, number: u32) -> bool {
        *self.kind == Kind::Builtin(number)
    }

    /// Whether its output holds the values of its first input, in another shape or order.
    pub(super) fn is_view(&self) -> bool {
        [op::RESHAPE, op::TRANSPOSE, op::SQUEEZE, op::EXPAND_DIMS, op::CAST].iter().any(|number| self.is(*number))
    }
}

/// A FULLY_CONNECTED whose weights are constant.
#[derive(Clone, Copy, Debug)]
pub(super) struct Linear {
    pub(super) input: usize,
    pub(super) output: usize,
    pub(super) weight: usize,
    pub(super) bias: Option<usize>,
}

/// Linears that a tensor is computed from without another linear between: indices in order.
pub(super) type Sources = Vec<usize>;

/// A subgraph, indexed.
#[derive(Debug)]
pub(super) struct Network<'m> {
    pub(super) model: &'m Model,
    pub(super) signature: &'m Signature,
    subgraph: &'m Subgraph,
    nodes: Vec<Node<'m>>,
    producers: Vec<Option<usize>>,
    linears: Vec<Linear>,
    /// For each tensor a set of linears, `words` words each.
    sources: Vec<u64>,
    words: usize,
}

impl<'m> Network<'m> {
    /// The graph of the signature `decode`.
    pub(super) fn of_decode(model: &'m Model) -> Result<Network<'m>> {
        let Some(signature) = model.signature("decode") else {
            let found: Vec<&str> = model.signatures().iter().map(|s| s.key.as_str()).collect();
            let what = format!("expected a graph with a signature `decode`, found [{}]", found.join(", "));
            return Err(Error::unsupported(what, None));
        };
        Network::of_signature(model, signature)
    }

    pub(super) fn of_signature(model: &'m Model, signature: &'m Signature) -> Result<Network<'m>> {
        let subgraph = model.subgraph_of(signature);
        let tensors = subgraph.tensors().len();
        if tensors > NODE_LIMIT || subgraph.operator_count() > NODE_LIMIT {
            return Err(Error::plan("graph", format!("at most {NODE_LIMIT} tensors and operators"), tensors));
        }
        let nodes = model.operators(subgraph).map(|operator| Node {
            kind: operator.kind(),
            options: operator.options(),
            inputs: operator.inputs().collect(),
            outputs: operator.outputs().collect(),
        });
        let mut network = Network {
            model,
            signature,
            subgraph,
            nodes: nodes.collect(),
            producers: vec![None; tensors],
            linears: Vec::new(),
            sources: Vec::new(),
            words: 0,
        };
        network.index_producers()?;
        network.index_linears()?;
        network.index_sources();
        Ok(network)
    }

    /// Each tensor is made once, before it is used.
    fn index_producers(&mut self) -> Result<()> {
        let given: HashSet<usize> = self.subgraph.inputs().iter().copied().collect();
        for (n, node) in self.nodes.iter().enumerate() {
            for input in node.inputs.iter().flatten() {
                let tensor = &self.subgraph.tensors()[*input];
                // An empty constant, such as the shape of a scalar, has no bytes.
                let known = tensor.is_constant() || tensor.variable || tensor.shape.elements() == 0;
                if self.producers[*input].is_none() && !known && !given.contains(input) {
                    return Err(Error::tensor(&self.name(*input), "made before it is used", "not made"));
                }
            }
            for output in &node.outputs {
                if self.producers[*output].replace(n).is_some() || given.contains(output) {
                    return Err(Error::tensor(&self.name(*output), "made once", "made twice"));
                }
            }
        }
        Ok(())
    }

    fn index_linears(&mut self) -> Result<()> {
        for node in self.nodes.iter().filter(|node| node.is(op::FULLY_CONNECTED)) {
            let (Some(Some(input)), Some(Some(weight)), [output]) =
                (node.inputs.first(), node.inputs.get(1), &node.outputs[..])
            else {
                return Err(Error::unsupported("a FULLY_CONNECTED without input, weights or output", None));
            };
            let weight = self.through_dequantize(*weight);
            if !self.tensor(weight).is_constant() || self.tensor(weight).shape.len() != 2 {
                return Err(Error::tensor(&self.name(weight), "constant weights [rows, columns]", "others"));
            }
            if !matches!(node.options, Options::FullyConnected { activation: false, plain_weights: true }) {
                return Err(Error::tensor(
                    &self.name(weight),
                    "a linear without activation",
                    format!("{:?}", node.options),
                ));
            }
            let bias = node.input(2);
            self.linears.push(Linear { input: *input, output: *output, weight, bias });
        }
        if self.linears.len() > LINEAR_LIMIT {
            return Err(Error::plan("graph", format!("at most {LINEAR_LIMIT} linears"), self.linears.len()));
        }
        Ok(())
    }

    fn index_sources(&mut self) {
        self.words = self.linears.len().div_ceil(64);
        self.sources = vec![0; self.words * self.producers.len()];
        let mut linear = 0;
        let mut set = vec![0u64; self.words];
        for node in &self.nodes {
            set.fill(0);
            if node.is(op::FULLY_CONNECTED) {
                set[linear / 64] |= 1 << (linear % 64);
                linear += 1;
            } else {
                for input in node.inputs.iter().flatten() {
                    let from = &self.sources[input * self.words..(input + 1) * self.words];
                    set.iter_mut().zip(from).for_each(|(s, f)| *s |= f);
                }
            }
            for output in &node.outputs {
                self.sources[output * self.words..(output + 1) * self.words].copy_from_slice(&set);
            }
        }
    }

    /// Refuses a graph with an operator that no dialect of the family uses.
    pub(super) fn refuse_foreign_operators(&self) -> Result<()> {
        let foreign = self.nodes.iter().find(|node| match node.kind {
            Kind::Builtin(number) => !FAMILY.split(' ').any(|name| name == builtin_name(*number)),
            Kind::Custom(name) => name != DELTA_CUSTOM,
            Kind::Composite { name, .. } => name != NORM_COMPOSITE,
        });
        match foreign {
            Some(node) => {
                Err(Error::unsupported(format!("the graph computes {}, which Qwen3.5 does not", node.kind), None))
            }
            None => Ok(()),
        }
    }

    pub(super) fn nodes(&self) -> &[Node<'m>] {
        &self.nodes
    }

    pub(super) fn tensor(&self, tensor: usize) -> &'m Tensor {
        &self.subgraph.tensors()[tensor]
    }

    /// The end of a tensor's name: its beginning repeats the modules that all tensors are in.
    pub(super) fn name(&self, tensor: usize) -> String {
        let name = self.model.name(self.tensor(tensor));
        let start = name.char_indices().rev().take(80).last().map_or(0, |(start, _)| start);
        let dots = if start > 0 { "..." } else { "" };
        format!("{dots}{}", &name[start..])
    }

    pub(super) fn linears(&self) -> &[Linear] {
        &self.linears
    }

    pub(super) fn linear(&self, linear: usize) -> &Linear {
        &self.linears[linear]
    }

    pub(super) fn sources(&self, tensor: usize) -> Sources {
        let words = &self.sources[tensor * self.words..(tensor + 1) * self.words];
        let bits =
            words.iter().enumerate().flat_map(|(w, word)| (0..64).map(move |bit| (64 * w + bit, word >> bit & 1)));
        bits.filter(|(_, set)| *set == 1).map(|(linear, _)| linear).collect()
    }

    pub(super) fn producer(&self, tensor: usize) -> Option<&Node<'m>> {
        self.producers[tensor].map(|node| &self.nodes[node])
    }

    /// The tensor of which `tensor` is a view.
    pub(super) fn origin(&self, mut tensor: usize) -> usize {
        while let Some(node) = self.producer(tensor).filter(|node| node.is_view()) {
            let Some(input) = node.input(0) else { break };
            tensor = input;
        }
        tensor
    }

    fn through_dequantize(&self, tensor: usize) -> usize {
        let node = self.producer(tensor).filter(|node| node.is(op::DEQUANTIZE));
        node.and_then(|node| node.input(0)).unwrap_or(tensor)
    }

    /// The operands of a MUL or ADD, the constant one second; `None` unless one of the two is constant.
    pub(super) fn with_constant(&self, node: &Node<'_>) -> Option<(usize, usize)> {
        let [Some(a), Some(b)] = node.inputs[..] else { return None };
        match (self.tensor(a).is_constant(), self.tensor(b).is_constant()) {
            (false, true) => Some((a, b)),
            (true, false) => Some((b, a)),
            _ => None,
        }
    }

    pub(super) fn same_constant(&self, a: usize, b: usize) -> bool {
        self.tensor(a).buffer == self.tensor(b).buffer
    }

    /// The constant that positions are multiplied with to make `angles`, which may be two copies side by side.
    pub(super) fn angle_factor(&self, angles: usize) -> Option<usize> {
        let mut tensor = self.origin(angles);
        let node = self.producer(tensor)?;
        if node.is(op::CONCATENATION) {
            let first = node.input(0)?;
            if node.inputs.iter().any(|input| *input != Some(first)) {
                return None;
            }
            tensor = self.origin(first);
        }
        let node = self.producer(tensor).filter(|node| node.is(op::MUL))?;
        let (positions, constant) = self.with_constant(node)?;
        self.sources(positions).is_empty().then_some(constant)
    }

    /// The constant table that token ids look up; `None` where the graph looks nothing up.
    pub(super) fn embedding_table(&self) -> Result<Option<usize>> {
        let mut found = None;
        for node in self.nodes.iter().filter(|node| node.is(op::EMBEDDING_LOOKUP)) {
            let table = node.input(1).map(|table| self.through_dequantize(table));
            let table = table.filter(|table| self.tensor(*table).is_constant());
            if found.is_some() || table.is_none() {
                return Err(Error::unsupported("expected one look-up in one constant table of embeddings", None));
            }
            found = table;
        }
        Ok(found)
    }

    /// Taps of a convolution whose weights are `[1, 1, taps, channels]` or `[1, taps, 1, channels]`.
    pub(super) fn convolution_taps(&self, node: usize) -> Result<usize> {
        let node = &self.nodes[node];
        let weight = node.input(1);
        let shape = weight.map(|weight| self.tensor(weight).shape);
        let plain = Options::DepthwiseConv { valid_padding: true, multiplier: 1, activation: false };
        match shape.as_deref() {
            Some([1, 1, taps, _] | [1, taps, 1, _]) if node.options == plain => Ok(*taps as usize),
            _ => Err(Error::plan(
                "convolution",
                "weights [1, 1, taps, channels] without padding or activation".into(),
                format!("{shape:?} with {:?}", node.options),
            )),
        }
    }
}
