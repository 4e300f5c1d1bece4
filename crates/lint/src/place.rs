//! Where a finding is: a cheap pointer into the bundle while rules run, plain values for whoever reads the report.

use std::fmt::{Display, Formatter};

use kinglet_bundle::Section;
use kinglet_tflite::Operator;
use serde::Serialize;

use crate::names::head;
use crate::subject::Part;

/// Where something was found. Absent parts play no role.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Place {
    /// The section.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub section: Option<SectionPlace>,
    /// The first signature that runs the subgraph.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signature: Option<String>,
    /// Index of the subgraph.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subgraph: Option<usize>,
    /// Index of the operator in the subgraph.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<usize>,
    /// What the operator is called.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operator: Option<String>,
    /// The tensor.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tensor: Option<TensorPlace>,
}

/// A section, as messages name it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SectionPlace {
    /// Its place in the header's list, from 0.
    pub index: usize,
    /// What it holds, such as `TFLiteModel`.
    pub kind: String,
    /// What a model is for, such as `prefill_decode`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model_type: Option<String>,
}

/// A tensor, as messages name it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TensorPlace {
    /// Index in the subgraph.
    pub index: usize,
    /// The end of its name.
    pub name: String,
    /// Type of its elements, such as `f32`.
    pub element: String,
    /// Its dimensions.
    pub shape: Vec<u32>,
}

impl Display for Place {
    /// `section 3, prefill_32, subgraph 0, node 5 NOT_EQUAL, tensor mask f32[1, 32]`, as far as it is known.
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        let mut parts = Vec::new();
        parts.extend(self.section.as_ref().map(|s| format!("section {} ({})", s.index, s.kind)));
        parts.extend(self.signature.clone());
        parts.extend(self.subgraph.map(|graph| format!("subgraph {graph}")));
        match (self.node, &self.operator) {
            (Some(node), Some(operator)) => parts.push(format!("node {node} {operator}")),
            (Some(node), None) => parts.push(format!("node {node}")),
            _ => {}
        }
        parts.extend(self.tensor.as_ref().map(|t| format!("tensor {} {}{:?}", t.name, t.element, t.shape)));
        f.write_str(&parts.join(", "))
    }
}

/// Where something is, while the bundle is at hand.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Spot<'s> {
    pub(crate) section: Option<&'s Section>,
    pub(crate) part: Option<&'s Part<'s>>,
    pub(crate) graph: Option<usize>,
    pub(crate) node: Option<(usize, Operator<'s>)>,
    pub(crate) tensor: Option<usize>,
}

impl<'s> Spot<'s> {
    /// A section as a whole.
    pub(crate) fn section(section: &'s Section) -> Spot<'s> {
        Spot { section: Some(section), ..Spot::default() }
    }

    /// The same place, at a tensor of the subgraph.
    pub(crate) fn tensor(self, tensor: Option<usize>) -> Spot<'s> {
        Spot { tensor, ..self }
    }

    /// The signature and the section, to count by.
    pub(crate) fn entry(&self) -> (Option<usize>, Option<usize>) {
        let entry = self.part.zip(self.graph).and_then(|(part, graph)| part.entry(graph));
        (self.section.map(|section| section.index), entry)
    }

    /// The name of the signature that runs it.
    pub(crate) fn signature(&self) -> Option<String> {
        let part = self.part?;
        part.entry(self.graph?).map(|entry| head(&part.model.signatures()[entry].key))
    }

    pub(crate) fn place(&self) -> Place {
        let tensor = self.part.zip(self.graph).zip(self.tensor).map(|((part, graph), index)| {
            let tensor = &part.model.subgraphs()[graph].tensors()[index];
            TensorPlace {
                index,
                name: part.label(graph, index),
                element: tensor.element.to_string(),
                shape: tensor.shape.to_vec(),
            }
        });
        Place {
            section: self.section.map(|section| SectionPlace {
                index: section.index,
                kind: section.kind.to_string(),
                model_type: section.model_type().map(head),
            }),
            signature: self.signature(),
            subgraph: self.graph,
            node: self.node.map(|(node, _)| node),
            operator: self.node.map(|(_, operator)| crate::subject::operator_name(operator.kind())),
            tensor,
        }
    }
}
