//! Text for people: signatures with their inputs and outputs, and how often each operator occurs.

use std::collections::BTreeMap;
use std::fmt::{Display, Formatter};

use crate::{Model, Signature};

/// Writes a model out, one signature after another.
#[derive(Clone, Copy, Debug)]
pub struct Listing<'m> {
    model: &'m Model,
    operators: bool,
}

impl Model {
    /// The signatures as text; with `operators`, a count of each operator too.
    pub fn listing(&self, operators: bool) -> Listing<'_> {
        Listing { model: self, operators }
    }

    /// How often each operator occurs in the subgraph of a signature, most frequent first.
    pub fn operator_counts(&self, signature: &Signature) -> Vec<(String, usize)> {
        let mut counts = BTreeMap::new();
        for operator in self.operators(self.subgraph_of(signature)) {
            *counts.entry(operator.kind().to_string()).or_insert(0) += 1;
        }
        let mut counts: Vec<(String, usize)> = counts.into_iter().collect();
        counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        counts
    }
}

impl Display for Listing<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        for signature in self.model.signatures() {
            let subgraph = self.model.subgraph_of(signature);
            writeln!(
                f,
                "{}: {} operators, {} tensors",
                signature.key,
                subgraph.operator_count(),
                subgraph.tensors().len()
            )?;
            for (direction, names) in [("in ", &signature.inputs), ("out", &signature.outputs)] {
                for (name, index) in names {
                    let tensor = &subgraph.tensors()[*index];
                    writeln!(f, "  {direction} {name} {}{}", tensor.element, tensor.shape)?;
                }
            }
            if self.operators {
                for (kind, count) in self.model.operator_counts(signature) {
                    writeln!(f, "  {count:6} {kind}")?;
                }
            }
        }
        Ok(())
    }
}
