//! Norms in a graph, whether a runtime may bring them whole or they are spelled out.

use kinglet_tflite::Kind;

use super::UNIT_EPSILON;
use super::constants::scalar;
use super::network::{NORM_COMPOSITE, Network, Node, op};
use crate::error::{Error, Result};

/// A root-mean-square norm: `output = input * rsqrt(mean(input^2) + eps) * weight`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Norm {
    pub(super) input: usize,
    pub(super) output: usize,
    pub(super) weight: usize,
}

/// All norms of a graph.
#[derive(Debug)]
pub(super) struct Norms {
    norms: Vec<Norm>,
    /// Added to the mean square in all of them.
    pub(super) eps: f32,
}

impl Norms {
    pub(super) fn find(network: &Network<'_>) -> Result<Norms> {
        let mut norms = Vec::new();
        let mut eps: Vec<f32> = Vec::new();
        for node in network.nodes() {
            let (Some(Some(input)), Some(output)) = (node.inputs.first(), node.outputs.first()) else { continue };
            match node.kind {
                Kind::Composite { name, decomposition } if name == NORM_COMPOSITE => {
                    let weight = node.input(1).filter(|w| network.tensor(*w).is_constant());
                    let Some(weight) = weight else {
                        return Err(Error::unsupported("a norm without constant weights", None));
                    };
                    norms.push(Norm { input: *input, output: *output, weight });
                    eps.push(composite_eps(network, *decomposition)?);
                }
                Kind::Builtin(op::RSQRT) => match squares(network, *input) {
                    Some((op::SUM, UNIT_EPSILON)) => {}
                    Some((op::MEAN, added)) => eps.push(added),
                    found => {
                        let expected = format!("the mean square and an epsilon, or the sum and {UNIT_EPSILON}");
                        return Err(Error::plan("RSQRT", expected, format!("{found:?}")));
                    }
                },
                Kind::Builtin(op::MUL) => norms.extend(spelled_out(network, node)),
                _ => {}
            }
        }
        let Some(first) = eps.first().copied() else {
            return Err(Error::unsupported("the graph has no norms", None));
        };
        if let Some(other) = eps.iter().find(|e| **e != first) {
            return Err(Error::plan("norm epsilon", format!("{first} in every norm"), other));
        }
        Ok(Norms { norms, eps: first })
    }

    pub(super) fn get(&self, norm: usize) -> &Norm {
        &self.norms[norm]
    }

    /// The norm that makes `tensor`.
    pub(super) fn making(&self, network: &Network<'_>, tensor: usize) -> Option<usize> {
        let origin = network.origin(tensor);
        self.norms.iter().position(|norm| norm.output == origin)
    }

    /// The one norm whose input depends on exactly these linears.
    pub(super) fn of_sources(&self, network: &Network<'_>, sources: &[usize], what: &str) -> Result<usize> {
        let fits = |norm: &Norm| network.sources(norm.input) == sources;
        let mut found = self.norms.iter().enumerate().filter(|(_, norm)| fits(norm));
        match (found.next(), found.next()) {
            (Some((norm, _)), None) => Ok(norm),
            (None, _) => Err(Error::plan(what, "a norm".into(), "none")),
            _ => Err(Error::plan(what, "one norm".into(), "several")),
        }
    }
}

/// Whether the argument of an RSQRT is a sum or mean of squares, and what is added to it.
fn squares(network: &Network<'_>, argument: usize) -> Option<(u32, f32)> {
    let add = network.producer(network.origin(argument)).filter(|node| node.is(op::ADD))?;
    let (reduced, eps) = network.with_constant(add)?;
    let reduce = network.producer(network.origin(reduced))?;
    let kind = [op::SUM, op::MEAN].into_iter().find(|kind| reduce.is(*kind))?;
    let square = network.producer(network.origin(reduce.input(0)?)).filter(|node| node.is(op::MUL))?;
    (square.inputs.len() == 2 && square.inputs[0] == square.input(1)).then_some(())?;
    Some((kind, scalar(network.model, network.tensor(eps))?))
}

/// A norm whose last step is `node`: `(input * rsqrt(..)) * weight`.
fn spelled_out(network: &Network<'_>, node: &Node<'_>) -> Option<Norm> {
    let (scaled, weight) = network.with_constant(node)?;
    (network.tensor(weight).shape.elements() > 1).then_some(())?;
    let scale = network.producer(network.origin(scaled)).filter(|node| node.is(op::MUL))?;
    let [Some(a), Some(b)] = scale.inputs[..] else { return None };
    let mean_root = |tensor: usize| {
        let root = network.producer(network.origin(tensor)).filter(|node| node.is(op::RSQRT));
        let argument = root.and_then(|node| node.input(0));
        argument.and_then(|argument| squares(network, argument)).is_some_and(|(kind, _)| kind == op::MEAN)
    };
    let input = match (mean_root(a), mean_root(b)) {
        (false, true) => a,
        (true, false) => b,
        _ => return None,
    };
    Some(Norm { input, output: *node.outputs.first()?, weight })
}

/// The one scalar of a composite's spelled-out form is its epsilon.
fn composite_eps(network: &Network<'_>, decomposition: usize) -> Result<f32> {
    let subgraph = &network.model.subgraphs()[decomposition];
    let mut scalars = subgraph.tensors().iter().filter_map(|tensor| scalar(network.model, tensor));
    match (scalars.next(), scalars.next()) {
        (Some(eps), None) => Ok(eps),
        found => Err(Error::plan(NORM_COMPOSITE, "one scalar, its epsilon".into(), format!("{found:?}"))),
    }
}
