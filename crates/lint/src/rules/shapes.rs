//! Ranks that GPU backends do not take.

use super::Rule;
use crate::op;
use crate::report::Severity::Warning;
use crate::subject::Site;

/// Dimensions that every backend has.
const RANK_LIMIT: usize = 4;

/// A tensor of five dimensions or more.
pub(super) const RANK: Rule = Rule {
    id: "rank-above-4",
    meaning: "GPU backends take tensors of at most 4 dimensions",
    hint: Some("fold dimensions with RESHAPE before the operator"),
    check: |subject, sink| {
        for part in &subject.parts {
            for (graph, subgraph) in part.model.subgraphs().iter().enumerate() {
                let mut seen = vec![false; subgraph.tensors().len()];
                for site in part.sites(graph) {
                    for tensor in site.operator.inputs().flatten().chain(site.operator.outputs()) {
                        let shape = &site.tensor(tensor).shape;
                        if shape.len() > RANK_LIMIT && !std::mem::replace(&mut seen[tensor], true) {
                            sink.on_gpu(Warning, site.spot().tensor(Some(tensor)), || {
                                format!("{} has a tensor of {} dimensions", site.name(), shape.len())
                            });
                        }
                    }
                }
            }
        }
    },
};

/// `x * s`, where `s` has no dimension at all.
pub(super) const SCALAR_OPERAND: Rule = Rule {
    id: "scalar-in-broadcast",
    meaning: "GPU backends do not broadcast an operand of rank 0",
    hint: Some("give the operand a dimension of 1, and keep dimensions in reductions"),
    check: |subject, sink| {
        for site in subject.sites().filter(|site| site.is_any(op::BROADCASTING)) {
            let Some((a, b)) = operands(&site) else { continue };
            let rank = |index: usize| site.tensor(index).shape.len();
            if let Some((scalar, other)) = match (rank(a), rank(b)) {
                (0, 1..) => Some((a, b)),
                (1.., 0) => Some((b, a)),
                _ => None,
            } {
                sink.on_gpu(Warning, site.spot().tensor(Some(scalar)), || {
                    format!("{} of {} and a scalar of rank 0", site.name(), site.tensor(other).shape)
                });
            }
        }
    },
};

/// `[a, b]` with a constant `[c, d]`.
pub(super) const RANK_2_CONSTANT: Rule = Rule {
    id: "rank-2-constant",
    meaning: "the Metal backend does not compute element by element with a constant of rank 2",
    hint: Some("give both operands a leading dimension of 1"),
    check: |subject, sink| {
        for site in subject.sites().filter(|site| site.is_any(op::BROADCASTING)) {
            let Some((a, b)) = operands(&site) else { continue };
            let (left, right) = (site.tensor(a), site.tensor(b));
            if left.shape.len() == 2 && right.shape.len() == 2 && (left.is_constant() != right.is_constant()) {
                let constant = if left.is_constant() { a } else { b };
                sink.on_gpu(Warning, site.spot().tensor(Some(constant)), || {
                    format!("{} of {} and {}, one of them constant", site.name(), left.shape, right.shape)
                });
            }
        }
    },
};

fn operands(site: &Site<'_>) -> Option<(usize, usize)> {
    site.operator.input(0).zip(site.operator.input(1))
}
