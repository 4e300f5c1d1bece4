//! Constants: tensors of a graph become matrices over the file or small vectors, and every one must find its place.

use std::collections::{HashMap, HashSet};

use kinglet_tflite::{ElementType, Model, Quantization, Tensor};

use super::UNIT_EPSILON;
use super::network::Network;
use crate::error::{Error, Result};
use crate::plan::Plan;
use crate::weights::{Format, Matrix};

/// The constants of a graph, and which of them have found their place.
#[derive(Debug)]
pub(super) struct Constants<'n, 'm> {
    network: &'n Network<'m>,
    bound: HashSet<usize>,
    /// Which part of the model each buffer that is a matrix plays.
    matrices: HashMap<usize, String>,
}

impl<'n, 'm> Constants<'n, 'm> {
    pub(super) fn new(network: &'n Network<'m>) -> Constants<'n, 'm> {
        Constants { network, bound: HashSet::new(), matrices: HashMap::new() }
    }

    /// A matrix that has one part to play.
    pub(super) fn matrix(&mut self, tensor: usize, name: &str) -> Result<Matrix> {
        let buffer = self.network.tensor(tensor).buffer;
        if let Some(other) = self.matrices.insert(buffer, name.to_owned()) {
            return Err(Error::tensor(name, "weights of its own", format!("those of {other}")));
        }
        self.shared_matrix(tensor, name)
    }

    /// A matrix that may have another part too.
    pub(super) fn shared_matrix(&mut self, tensor: usize, name: &str) -> Result<Matrix> {
        self.bound.insert(tensor);
        let (model, tensor) = (self.network.model, self.network.tensor(tensor));
        let [rows, columns] = *tensor.shape else {
            return Err(Error::tensor(name, "[rows, columns]", tensor.shape.to_string()));
        };
        let (rows, columns) = (rows as usize, columns as usize);
        let Some(data) = model.data(tensor) else {
            return Err(Error::tensor(name, "a constant", "a computed tensor"));
        };
        let format = match tensor.element {
            ElementType::F32 => Format::F32,
            ElementType::F16 => Format::F16,
            ElementType::Bf16 => Format::Bf16,
            ElementType::I8 => {
                let scales = row_scales(name, model.quantization(tensor), rows)?;
                return Matrix::int8(name, rows, columns, data, scales);
            }
            other => return Err(Error::tensor(name, "type f32, f16, bf16 or i8", other.to_string())),
        };
        Matrix::float(name, rows, columns, format, data)
    }

    /// A small constant as `f32`, in the order of the file, whatever its type; `len` values if that is said.
    pub(super) fn vector(&mut self, tensor: usize, name: &str, len: Option<usize>) -> Result<Vec<f32>> {
        self.bound.insert(tensor);
        let tensor = self.network.tensor(tensor);
        let Some(values) = values(self.network.model, tensor) else {
            return Err(Error::tensor(name, "constant numbers", format!("{}{}", tensor.element, tensor.shape)));
        };
        if len.is_some_and(|len| len != values.len()) {
            return Err(Error::tensor(name, format!("{} values", len.unwrap_or(0)), tensor.shape.to_string()));
        }
        if let Some(bad) = values.iter().find(|value| !value.is_finite()) {
            return Err(Error::tensor(name, "finite values", bad.to_string()));
        }
        Ok(values)
    }

    /// Refuses a graph that computes with a number that has no place in the plan.
    pub(super) fn refuse_unbound(&self, plan: &Plan) -> Result<()> {
        let scale = |dim: usize| (dim as f64).powf(-0.5) as f32;
        let known = [0.0, 1.0, -1.0, 20.0, 50.0, plan.eps, UNIT_EPSILON];
        let known = known.into_iter().chain([scale(plan.attention.head_dim), scale(plan.delta.key_dim)]);
        let known: Vec<f32> = known.collect();
        for node in self.network.nodes() {
            for input in node.inputs.iter().flatten().filter(|input| !self.bound.contains(input)) {
                let tensor = self.network.tensor(*input);
                if !tensor.is_constant() || !is_number(tensor) {
                    continue;
                }
                match scalar(self.network.model, tensor) {
                    Some(value) if known.iter().any(|k| (value - k).abs() <= 1e-6 * k.abs()) => {}
                    Some(value) => {
                        let what = format!("the graph computes {} with the constant {value}", node.kind);
                        return Err(Error::unsupported(format!("{what}, which has no place in Qwen3.5"), None));
                    }
                    None => {
                        let name = self.network.name(*input);
                        let found = format!("{}{} in {}", tensor.element, tensor.shape, node.kind);
                        return Err(Error::tensor(&name, "a known part in the model", found));
                    }
                }
            }
        }
        Ok(())
    }
}

/// Whether a constant is one that the model computes with, not an index or a shape.
fn is_number(tensor: &Tensor) -> bool {
    use ElementType::*;
    !matches!(tensor.element, I32 | I64 | U32 | U64 | Bool)
}

/// The value of a constant with one element.
pub(super) fn scalar(model: &Model, tensor: &Tensor) -> Option<f32> {
    (tensor.is_constant() && is_number(tensor) && tensor.shape.elements() == 1).then_some(())?;
    values(model, tensor)?.first().copied()
}

/// One scale per row of a matrix; one for all is repeated.
fn row_scales(name: &str, found: Option<Quantization>, rows: usize) -> Result<Vec<f32>> {
    let Some(found) = found else {
        return Err(Error::tensor(name, "scales beside the integers", "none"));
    };
    if !found.is_symmetric() {
        return Err(Error::tensor(name, "zero points of 0", "others"));
    }
    match found.scales.len() {
        1 => Ok(vec![found.scales[0]; rows]),
        n if n == rows && found.dimension == 0 => Ok(found.scales),
        n => Err(Error::tensor(
            name,
            format!("{rows} scales along dimension 0"),
            format!("{n} along {}", found.dimension),
        )),
    }
}

/// The numbers of a constant; `None` for a type that is not read, or a tensor that is computed.
fn values(model: &Model, tensor: &Tensor) -> Option<Vec<f32>> {
    let data = model.data(tensor)?;
    let pairs = |convert: fn([u8; 2]) -> f32| data.as_chunks::<2>().0.iter().map(|b| convert(*b)).collect();
    Some(match tensor.element {
        ElementType::F32 => data.as_chunks::<4>().0.iter().map(|b| f32::from_le_bytes(*b)).collect(),
        ElementType::F16 => pairs(|b| half::f16::from_le_bytes(b).to_f32()),
        ElementType::Bf16 => pairs(|b| half::bf16::from_le_bytes(b).to_f32()),
        ElementType::I8 => dequantize(&data, &tensor.shape, &model.quantization(tensor)?),
        _ => return None,
    })
}

fn dequantize(data: &[u8], shape: &[u32], found: &Quantization) -> Vec<f32> {
    // Elements that share an index of the scaled dimension lie in runs of this length.
    let run: usize = shape.iter().skip(found.dimension + 1).map(|d| *d as usize).product();
    let pick = |i: usize, len: usize| i / run.max(1) % len;
    let value = |(i, byte): (usize, &u8)| {
        let zero = if found.zero_points.is_empty() { 0 } else { found.zero_points[pick(i, found.zero_points.len())] };
        (i64::from(*byte as i8) - zero) as f32 * found.scales[pick(i, found.scales.len())]
    };
    data.iter().enumerate().map(value).collect()
}
