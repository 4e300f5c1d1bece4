//! Known fault: int8 weights in the projections that make the gates of the delta rule.

use std::collections::HashSet;

use kinglet_tflite::ElementType;

use super::Rule;
use crate::op;
use crate::relations::Relations;
use crate::states;
use crate::subject::{Part, Site, Subject};

/// Gate projections have one output per value head; no known model has more than this.
const WIDTH_LIMIT: u32 = 64;
/// Reads that are followed from a projection to the function that makes it a gate, with room to spare.
const STEPS: usize = 64;

/// `in_proj_a` and `in_proj_b` in int8.
pub(super) const INT8_GATES: Rule = Rule {
    id: "int8-gates",
    meaning: "known fault: with int8 weights in the gate projections of the delta rule the CPU runtime rounds their input \
              rows too, the error of every token stays in the state, and replies of several steps loop",
    hint: Some("leave in_proj_a and in_proj_b in float"),
    check: |subject, sink| {
        for part in &subject.parts {
            for signature in part.signatures() {
                let heads = value_heads(subject, part, signature);
                if heads.is_empty() {
                    continue;
                }
                let relations = Relations::new(part, signature.subgraph);
                for site in part.sites(signature.subgraph).filter(|site| site.is(op::FULLY_CONNECTED)) {
                    let Some((outputs, function)) = gate(&site, &heads, &relations) else { continue };
                    let weight = site.input(1).map_or(ElementType::I8, |weight| weight.element);
                    sink.fault(site.spot().tensor(site.operator.input(1)), || {
                        format!("{weight} weights make the {outputs} values of a gate, through {function}")
                    });
                }
            }
        }
    },
};

/// Heads of the recurrent states `[1, heads, key width, value width]`.
fn value_heads(subject: &Subject<'_>, part: &Part<'_>, signature: &kinglet_tflite::Signature) -> HashSet<u32> {
    let tensors = part.model.subgraph_of(signature).tensors();
    let recurrent = signature.inputs.iter().filter(|(name, _)| states::is_recurrent(name, subject));
    let shapes = recurrent.map(|(_, tensor)| &tensors[*tensor].shape).filter(|shape| shape.len() == 4);
    shapes.map(|shape| shape[1]).filter(|heads| (1..=WIDTH_LIMIT).contains(heads)).collect()
}

/// Outputs of a projection with integer weights that makes a gate, and the function it goes through.
fn gate(site: &Site<'_>, heads: &HashSet<u32>, relations: &Relations<'_>) -> Option<(u32, &'static str)> {
    let weight = site.input(1).filter(|weight| weight.is_constant() && weight.shape.len() == 2)?;
    let is_integer = matches!(weight.element, ElementType::I8 | ElementType::I4 | ElementType::I2);
    let outputs = weight.shape[0];
    if !is_integer || !heads.contains(&outputs) {
        return None;
    }
    let mut open: Vec<usize> = site.operator.outputs().collect();
    let mut seen: HashSet<usize> = HashSet::new();
    let mut steps = 0..STEPS;
    while let Some(tensor) = open.pop() {
        for (reader, _) in relations.readers(tensor) {
            steps.next()?;
            if reader.is(op::LOGISTIC) {
                return Some((outputs, "a sigmoid"));
            }
            if reader.is(op::EXP) {
                return Some((outputs, "an exponential"));
            }
            if (reader.is_any(op::VIEWS) || reader.is_any(op::ELEMENTWISE)) && seen.insert(reader.node) {
                open.extend(reader.operator.outputs().take(STEPS));
            }
        }
    }
    None
}
