//! The model: subgraphs of operators over tensors, and the signatures that name their inputs and outputs.

use std::borrow::Cow;
use std::ops::Range;

use kinglet_blob::Blob;

use crate::quantization::Quantization;
use crate::tensor::{Data, Tensor};
use crate::{Kind, Options};

/// A TFLite model whose every index, offset and size has been checked.
///
/// It keeps the file's bytes and hands out slices of them, so cloning a constant or a model copies nothing large.
#[derive(Clone, Debug)]
pub struct Model {
    pub(crate) blob: Blob,
    pub(crate) external: Option<Blob>,
    pub(crate) description: Range<u32>,
    pub(crate) kinds: Vec<Code>,
    pub(crate) subgraphs: Vec<Subgraph>,
    pub(crate) signatures: Vec<Signature>,
    pub(crate) metadata: Vec<(String, Range<u64>)>,
}

/// An operator code: kind and version.
#[derive(Clone, Debug)]
pub(crate) struct Code {
    pub(crate) kind: Kind,
    pub(crate) version: i32,
}

/// Tensors and operators, operators in an order in which they can run.
#[derive(Clone, Debug, Default)]
pub struct Subgraph {
    pub(crate) name: String,
    pub(crate) tensors: Vec<Tensor>,
    pub(crate) operators: Vec<OperatorRecord>,
    /// Operands of all operators: inputs, then outputs of each; -1 for an input left out.
    pub(crate) operands: Vec<i32>,
    pub(crate) inputs: Vec<usize>,
    pub(crate) outputs: Vec<usize>,
}

#[derive(Clone, Debug)]
pub(crate) struct OperatorRecord {
    pub(crate) code: u32,
    /// Composites differ in their options, so each has a kind of its own.
    pub(crate) composite: Option<Box<Kind>>,
    pub(crate) inputs: Range<u32>,
    pub(crate) outputs: Range<u32>,
    pub(crate) options: Options,
    pub(crate) attributes: Range<u32>,
}

/// A named entry point: a subgraph, and names for its inputs and outputs.
#[derive(Clone, Debug)]
pub struct Signature {
    /// Its name, such as `decode` or `prefill_128`.
    pub key: String,
    /// Index of the subgraph it runs.
    pub subgraph: usize,
    /// Names and tensor indices, in the order of the file.
    pub inputs: Vec<(String, usize)>,
    /// Names and tensor indices, in the order of the file.
    pub outputs: Vec<(String, usize)>,
}

impl Signature {
    /// The tensor index of an input.
    pub fn input(&self, name: &str) -> Option<usize> {
        self.inputs.iter().find(|(n, _)| n == name).map(|(_, tensor)| *tensor)
    }

    /// The tensor index of an output.
    pub fn output(&self, name: &str) -> Option<usize> {
        self.outputs.iter().find(|(n, _)| n == name).map(|(_, tensor)| *tensor)
    }
}

impl Model {
    /// What the writer said of the model.
    pub fn description(&self) -> Cow<'_, str> {
        self.text(&self.description)
    }

    /// All subgraphs.
    pub fn subgraphs(&self) -> &[Subgraph] {
        &self.subgraphs
    }

    /// All signatures.
    pub fn signatures(&self) -> &[Signature] {
        &self.signatures
    }

    /// The signature called `key`.
    pub fn signature(&self, key: &str) -> Option<&Signature> {
        self.signatures.iter().find(|signature| signature.key == key)
    }

    /// The subgraph that a signature of this model runs.
    pub fn subgraph_of(&self, signature: &Signature) -> &Subgraph {
        &self.subgraphs[signature.subgraph]
    }

    /// Operators of a subgraph of this model, in order.
    pub fn operators<'m>(&'m self, subgraph: &'m Subgraph) -> impl ExactSizeIterator<Item = Operator<'m>> {
        subgraph.operators.iter().map(move |record| Operator {
            record,
            subgraph,
            code: &self.kinds[record.code as usize],
        })
    }

    /// Name of a tensor of this model. It can be thousands of bytes long.
    pub fn name(&self, tensor: &Tensor) -> Cow<'_, str> {
        self.text(&tensor.name)
    }

    /// The bytes of a constant, `None` for a tensor that is computed: `shape.elements()` elements, little-endian.
    pub fn data(&self, tensor: &Tensor) -> Option<Blob> {
        let slice = |blob: &Blob, range: &Range<u64>| {
            blob.slice(range.start as usize..range.end as usize).expect("parse checked the range against this blob")
        };
        match &tensor.data {
            Data::None => None,
            Data::Inside(range) => Some(slice(&self.blob, range)),
            Data::External(range) => {
                let external = self.external.as_ref().expect("parse refuses external constants without a companion");
                Some(slice(external, range))
            }
        }
    }

    /// The quantisation of a tensor, decoded. A table of many rows has as many scales: ask once.
    pub fn quantization(&self, tensor: &Tensor) -> Option<Quantization> {
        let found = tensor.scales.as_ref()?;
        let scales = self.bytes(&found.scales).chunks_exact(4);
        let zero_points = self.bytes(&found.zero_points).chunks_exact(8);
        Some(Quantization {
            scales: scales.map(|b| f32::from_le_bytes(b.try_into().expect("chunks of four"))).collect(),
            zero_points: zero_points.map(|b| i64::from_le_bytes(b.try_into().expect("chunks of eight"))).collect(),
            dimension: found.dimension as usize,
        })
    }

    /// Names of metadata entries and their bytes.
    pub fn metadata(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.metadata.iter().map(|(name, range)| (&**name, &self.blob[range.start as usize..range.end as usize]))
    }

    /// The raw options of a custom operator, or the attributes of a composite.
    pub fn attributes(&self, operator: &Operator<'_>) -> &[u8] {
        self.bytes(&operator.record.attributes)
    }

    fn bytes(&self, range: &Range<u32>) -> &[u8] {
        &self.blob[range.start as usize..range.end as usize]
    }

    fn text(&self, range: &Range<u32>) -> Cow<'_, str> {
        String::from_utf8_lossy(self.bytes(range))
    }
}

impl Subgraph {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its tensors.
    pub fn tensors(&self) -> &[Tensor] {
        &self.tensors
    }

    /// Number of operators.
    pub fn operator_count(&self) -> usize {
        self.operators.len()
    }

    /// Indices of the tensors it is given.
    pub fn inputs(&self) -> &[usize] {
        &self.inputs
    }

    /// Indices of the tensors it yields.
    pub fn outputs(&self) -> &[usize] {
        &self.outputs
    }
}

/// An operator of a subgraph.
#[derive(Clone, Copy, Debug)]
pub struct Operator<'m> {
    record: &'m OperatorRecord,
    subgraph: &'m Subgraph,
    code: &'m Code,
}

impl<'m> Operator<'m> {
    /// What it does.
    pub fn kind(&self) -> &'m Kind {
        self.record.composite.as_deref().unwrap_or(&self.code.kind)
    }

    /// The version of the operator that it asks for.
    pub fn version(&self) -> i32 {
        self.code.version
    }

    /// The options that are read.
    pub fn options(&self) -> Options {
        self.record.options
    }

    /// Indices of its inputs; `None` for one left out.
    pub fn inputs(&self) -> impl ExactSizeIterator<Item = Option<usize>> + use<'m> {
        self.operands(&self.record.inputs).iter().map(|index| usize::try_from(*index).ok())
    }

    /// Index of input `n`; `None` if it is left out or there are fewer.
    pub fn input(&self, n: usize) -> Option<usize> {
        self.inputs().nth(n).flatten()
    }

    /// Indices of its outputs.
    pub fn outputs(&self) -> impl ExactSizeIterator<Item = usize> + use<'m> {
        self.operands(&self.record.outputs).iter().map(|index| usize::try_from(*index).expect("parse checked outputs"))
    }

    fn operands(&self, range: &Range<u32>) -> &'m [i32] {
        &self.subgraph.operands[range.start as usize..range.end as usize]
    }
}
