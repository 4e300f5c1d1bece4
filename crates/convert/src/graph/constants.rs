//! The constants of all signatures: each is stored once, and is a tensor in every subgraph that uses it.

use std::collections::HashMap;

use kinglet_tflite::ElementType;
use kinglet_tflite::build::{Buffer, Builder, Graph, Scales, Tensor};

use super::Constant;
use crate::error::{Error, Result};

#[derive(Debug)]
struct Place {
    buffer: Buffer,
    shape: Vec<usize>,
    scales: Option<Scales>,
}

/// Constants by name.
#[derive(Debug)]
pub(super) struct Constants {
    places: HashMap<String, Place>,
}

impl Constants {
    /// Gives each constant a buffer behind the FlatBuffer, in order.
    pub(super) fn place(builder: &mut Builder, constants: &[Constant]) -> Constants {
        let place = |constant: &Constant| {
            let scales = constant.scales.clone().map(|scales| builder.scales(scales));
            let buffer = builder.outside(constant.bytes());
            (constant.name.clone(), Place { buffer, shape: constant.shape.clone(), scales })
        };
        Constants { places: constants.iter().map(place).collect() }
    }

    /// Whether there is a constant of that name.
    pub(super) fn has(&self, name: &str) -> bool {
        self.places.contains_key(name)
    }

    /// A matrix of weights, `[outputs, inputs]`.
    pub(super) fn matrix(&self, graph: &mut Graph<'_>, name: &str, shape: [usize; 2]) -> Result<Tensor> {
        let place = self.get(name, &shape)?;
        Ok(match &place.scales {
            Some(scales) => graph.int8(name, &shape, place.buffer, scales.clone()),
            None => graph.constant(name, ElementType::F32, &shape, place.buffer),
        })
    }

    /// A float constant seen in another shape.
    pub(super) fn floats(&self, graph: &mut Graph<'_>, name: &str, shape: &[usize]) -> Result<Tensor> {
        let place = self.get(name, shape)?;
        if place.scales.is_some() {
            return Err(Error::graph(format!("constant `{name}` is int8, expected f32")));
        }
        Ok(graph.constant(name, ElementType::F32, shape, place.buffer))
    }

    fn get(&self, name: &str, shape: &[usize]) -> Result<&Place> {
        let Some(place) = self.places.get(name) else {
            return Err(Error::graph(format!("the model has no constant `{name}`")));
        };
        let elements = |shape: &[usize]| shape.iter().product::<usize>();
        if elements(&place.shape) != elements(shape) {
            let what = format!("constant `{name}` is {:?}, expected {shape:?}", place.shape);
            return Err(Error::graph(what));
        }
        Ok(place)
    }
}
