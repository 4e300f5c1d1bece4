//! The tables of a finished model: a [`Builder`] goes in, its FlatBuffer and the places of the large constants come
//! out.

use std::ops::Range;

use kinglet_flat::write::{Table, TooLong, Value, finish};

use super::graph::{Finished, Node, TensorRecord};
use super::{ALIGNMENT, Builder, Stored};
use crate::schema::{
    IDENTIFIER, VERSION, buffer, metadata, model, operator, operator_code, quantization, signature, subgraph, tensor,
    tensor_map,
};

/// The largest builtin number that fits the deprecated field, which stands for all above it.
const DEPRECATED: u32 = 127;

/// A model's FlatBuffer.
#[derive(Clone, Debug)]
pub struct Written {
    /// The bytes from the start of the model on.
    pub flatbuffer: Vec<u8>,
    /// Where each large constant lies, counted from the start of the model; between them are zeros.
    pub outside: Vec<Range<u64>>,
    /// Length of the model.
    pub length: u64,
}

/// Offsets of large constants depend on the FlatBuffer's length and not the other way about: a first pass finds it.
pub(super) fn encode(builder: &Builder) -> Result<Written, TooLong> {
    let first = finish(&root(builder, 0), Some(&IDENTIFIER))?.len() as u64;
    let flatbuffer = finish(&root(builder, first), Some(&IDENTIFIER))?;
    debug_assert_eq!(flatbuffer.len() as u64, first, "offsets have one width");
    let outside: Vec<Range<u64>> = places(builder, first).flatten().collect();
    let length = outside.last().map_or(first, |last| last.end);
    Ok(Written { flatbuffer, outside, length })
}

/// For each buffer its place behind a FlatBuffer of `length` bytes, `None` for those inside.
fn places(builder: &Builder, length: u64) -> impl Iterator<Item = Option<Range<u64>>> {
    let mut end = length;
    builder.buffers.iter().map(move |stored| match stored {
        Stored::Inside(_) => None,
        Stored::Outside(bytes) => {
            let start = end.next_multiple_of(ALIGNMENT);
            end = start + bytes;
            Some(start..end)
        }
    })
}

fn root(builder: &Builder, length: u64) -> Table {
    let codes = builder.codes.iter().map(|(number, version)| {
        Table::new()
            .with(operator_code::DEPRECATED_BUILTIN, (*number).min(DEPRECATED) as i8)
            .with(operator_code::VERSION, *version)
            .with(operator_code::BUILTIN, *number as i32)
    });
    let buffers = builder.buffers.iter().zip(places(builder, length)).map(|(stored, place)| match (stored, place) {
        (Stored::Inside(data), _) if data.is_empty() => Table::new(),
        (Stored::Inside(data), _) => Table::new().with(buffer::DATA, data.clone()),
        (Stored::Outside(bytes), place) => {
            let start = place.map_or(0, |place| place.start);
            Table::new().with(buffer::OFFSET, start).with(buffer::SIZE, *bytes)
        }
    });
    let metadata = builder
        .metadata
        .iter()
        .map(|(name, buffer)| Table::new().with(metadata::NAME, name.clone()).with(metadata::BUFFER, buffer.0));
    let signatures = builder.subgraphs.iter().enumerate().map(|(index, graph)| signature_of(index, graph));
    Table::new()
        .with(model::VERSION, VERSION)
        .with(model::OPERATOR_CODES, codes.collect::<Vec<_>>())
        .with(model::SUBGRAPHS, builder.subgraphs.iter().map(subgraph_of).collect::<Vec<_>>())
        .with(model::DESCRIPTION, builder.description.clone())
        .with(model::BUFFERS, buffers.collect::<Vec<_>>())
        .with(model::METADATA, metadata.collect::<Vec<_>>())
        .with(model::SIGNATURES, signatures.collect::<Vec<_>>())
}

fn signature_of(index: usize, graph: &Finished) -> Table {
    let maps = |ports: &[(String, u32)]| -> Vec<Table> {
        let map = |(name, tensor): &(String, u32)| {
            Table::new().with(tensor_map::NAME, name.clone()).with(tensor_map::TENSOR, *tensor)
        };
        ports.iter().map(map).collect()
    };
    Table::new()
        .with(signature::INPUTS, maps(&graph.inputs))
        .with(signature::OUTPUTS, maps(&graph.outputs))
        .with(signature::KEY, graph.key.clone())
        .with(signature::SUBGRAPH, index as u32)
}

fn subgraph_of(graph: &Finished) -> Table {
    let ports = |ports: &[(String, u32)]| ports.iter().map(|(_, tensor)| *tensor as i32).collect::<Vec<i32>>();
    Table::new()
        .with(subgraph::TENSORS, graph.tensors.iter().map(tensor_of).collect::<Vec<_>>())
        .with(subgraph::INPUTS, ports(&graph.inputs))
        .with(subgraph::OUTPUTS, ports(&graph.outputs))
        .with(subgraph::OPERATORS, graph.nodes.iter().map(operator_of).collect::<Vec<_>>())
        .with(subgraph::NAME, graph.key.clone())
}

fn tensor_of(record: &TensorRecord) -> Table {
    let scales = record.scales.as_ref().map(|scales| {
        Value::from(
            Table::new()
                .with(quantization::SCALE, scales.values.clone())
                .with(quantization::ZERO_POINT, scales.zero_points.clone())
                .with(quantization::DIMENSION, 0i32),
        )
    });
    Table::new()
        .with(tensor::SHAPE, record.shape.iter().map(|d| *d as i32).collect::<Vec<i32>>())
        .with(tensor::TYPE, record.element.number())
        .with(tensor::BUFFER, record.buffer.0)
        .with(tensor::NAME, record.name.clone())
        .with_some(tensor::QUANTIZATION, scales)
}

fn operator_of(node: &Node) -> Table {
    let table = Table::new()
        .with(operator::CODE, node.code)
        .with(operator::INPUTS, node.inputs.clone())
        .with(operator::OUTPUTS, vec![node.output as i32]);
    match &node.options {
        None => table,
        Some((kind, options)) => table.with(operator::OPTIONS_TYPE, *kind).with(operator::OPTIONS, options.clone()),
    }
}
