//! Who reads a tensor: a subgraph goes in, its consumers come out; built in one pass, whatever the order of operators.

use kinglet_tflite::Operator;

use crate::subject::{Part, Site};

/// Readers of every tensor of a subgraph.
pub(crate) struct Relations<'s> {
    part: &'s Part<'s>,
    graph: usize,
    operators: Vec<Operator<'s>>,
    /// Node and operand of each read, those of one tensor side by side.
    reads: Vec<(u32, u32)>,
    /// Where the reads of a tensor begin.
    starts: Vec<u32>,
}

impl<'s> Relations<'s> {
    pub(crate) fn new(part: &'s Part<'s>, graph: usize) -> Relations<'s> {
        let subgraph = &part.model.subgraphs()[graph];
        let operators: Vec<Operator<'s>> = part.model.operators(subgraph).collect();
        let mut starts = vec![0u32; subgraph.tensors().len() + 1];
        for tensor in operators.iter().flat_map(|operator| operator.inputs().flatten()) {
            starts[tensor + 1] += 1;
        }
        for n in 1..starts.len() {
            starts[n] += starts[n - 1];
        }
        let mut next = starts.clone();
        let mut reads = vec![(0, 0); *starts.last().expect("one more than tensors") as usize];
        for (node, operator) in operators.iter().enumerate() {
            for (operand, tensor) in operator.inputs().enumerate().filter_map(|(n, input)| Some((n, input?))) {
                reads[next[tensor] as usize] = (node as u32, operand as u32);
                next[tensor] += 1;
            }
        }
        Relations { part, graph, operators, reads, starts }
    }

    /// Readers of a tensor: the operator, and which of its operands it is.
    pub(crate) fn readers(&self, tensor: usize) -> impl Iterator<Item = (Site<'s>, usize)> {
        let reads = &self.reads[self.starts[tensor] as usize..self.starts[tensor + 1] as usize];
        reads.iter().map(|(node, operand)| (self.site(*node as usize), *operand as usize))
    }

    /// Operator `node`.
    pub(crate) fn site(&self, node: usize) -> Site<'s> {
        Site { part: self.part, graph: self.graph, node, operator: self.operators[node] }
    }

    /// Every tensor that is computed from one of `from`, these included, along reads that `follows` says yes to.
    pub(crate) fn reached(
        &self,
        from: impl IntoIterator<Item = usize>,
        follows: impl Fn(&Site<'s>, usize) -> bool,
    ) -> Vec<bool> {
        let mut reached = vec![false; self.starts.len() - 1];
        let mut open: Vec<usize> = Vec::new();
        for tensor in from {
            if !std::mem::replace(&mut reached[tensor], true) {
                open.push(tensor);
            }
        }
        // Each node passes on once, so that an operator of many operands costs no more than their number.
        let mut passed = vec![false; self.operators.len()];
        while let Some(tensor) = open.pop() {
            for (site, operand) in self.readers(tensor) {
                if passed[site.node] || !follows(&site, operand) {
                    continue;
                }
                passed[site.node] = true;
                for output in site.operator.outputs() {
                    if !std::mem::replace(&mut reached[output], true) {
                        open.push(output);
                    }
                }
            }
        }
        reached
    }
}
