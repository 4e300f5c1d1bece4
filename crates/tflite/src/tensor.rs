//! Tensors: element types, shapes, and where a constant's bytes are.

use std::fmt::{Display, Formatter};
use std::ops::Range;

use crate::limits::RANK;

/// The type of a tensor's elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ElementType {
    /// IEEE single precision.
    F32,
    /// IEEE half precision.
    F16,
    /// bfloat16.
    Bf16,
    /// IEEE double precision.
    F64,
    /// Signed, 64 bits.
    I64,
    /// Signed, 32 bits.
    I32,
    /// Signed, 16 bits.
    I16,
    /// Signed, 8 bits.
    I8,
    /// Signed, 4 bits, two to a byte.
    I4,
    /// Signed, 2 bits, four to a byte.
    I2,
    /// Unsigned, 64 bits.
    U64,
    /// Unsigned, 32 bits.
    U32,
    /// Unsigned, 16 bits.
    U16,
    /// Unsigned, 8 bits.
    U8,
    /// Unsigned, 4 bits, two to a byte.
    U4,
    /// One byte, zero or one.
    Bool,
    /// Another, by its number in the schema.
    Other(i8),
}

impl ElementType {
    pub(crate) fn from_number(number: i8) -> ElementType {
        use ElementType::*;
        match number {
            0 => F32,
            1 => F16,
            2 => I32,
            3 => U8,
            4 => I64,
            6 => Bool,
            7 => I16,
            9 => I8,
            10 => F64,
            12 => U64,
            15 => U32,
            16 => U16,
            17 => I4,
            18 => Bf16,
            19 => I2,
            20 => U4,
            other => Other(other),
        }
    }

    /// Bits of one element; `None` for [`Other`](ElementType::Other) types.
    pub fn bits(self) -> Option<u64> {
        use ElementType::*;
        Some(match self {
            F64 | I64 | U64 => 64,
            F32 | I32 | U32 => 32,
            F16 | Bf16 | I16 | U16 => 16,
            I8 | U8 | Bool => 8,
            I4 | U4 => 4,
            I2 => 2,
            Other(_) => return None,
        })
    }
}

impl Display for ElementType {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        match self {
            ElementType::Other(number) => write!(f, "type{number}"),
            known => f.pad(&format!("{known:?}").to_lowercase()),
        }
    }
}

/// Dimensions of a tensor, at most [`RANK`], none negative; the product of them times 64 bits does not overflow `u64`.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Shape {
    dimensions: [u32; RANK],
    rank: u8,
}

impl Shape {
    /// `None` when there are more than [`RANK`] dimensions or the product overflows.
    pub(crate) fn new(dimensions: impl IntoIterator<Item = u32>) -> Option<Shape> {
        let mut shape = Shape { dimensions: [0; RANK], rank: 0 };
        let mut elements = 64u64;
        for dimension in dimensions {
            *shape.dimensions.get_mut(shape.rank as usize)? = dimension;
            shape.rank += 1;
            elements = elements.checked_mul(u64::from(dimension))?;
        }
        Some(shape)
    }

    /// Number of elements: the product of the dimensions, 1 for a scalar.
    pub fn elements(&self) -> u64 {
        self.iter().map(|d| u64::from(*d)).product()
    }
}

impl std::ops::Deref for Shape {
    type Target = [u32];

    fn deref(&self) -> &[u32] {
        &self.dimensions[..self.rank as usize]
    }
}

impl std::fmt::Debug for Shape {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl Display for Shape {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        write!(f, "{self:?}")
    }
}

/// A tensor of a subgraph. Its name, constant and scales are asked of the [`Model`](crate::Model).
#[derive(Clone, Debug)]
pub struct Tensor {
    /// Dimensions.
    pub shape: Shape,
    /// Type of its elements.
    pub element: ElementType,
    /// Index of its buffer. Tensors of several subgraphs that are one constant share a buffer.
    pub buffer: usize,
    /// Whether it keeps its value between runs.
    pub variable: bool,
    /// Where its bytes are, if it is a constant.
    pub(crate) data: Data,
    pub(crate) name: Range<u32>,
    pub(crate) scales: Option<Scales>,
}

impl Tensor {
    /// Whether it has bytes in the file.
    pub fn is_constant(&self) -> bool {
        self.data != Data::None
    }

    /// Whether it has quantisation scales.
    pub fn is_quantized(&self) -> bool {
        self.scales.is_some()
    }
}

/// Where a constant is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Data {
    None,
    /// In the model's own bytes.
    Inside(Range<u64>),
    /// In the companion file.
    External(Range<u64>),
}

/// Where the quantisation of a tensor is in the model's bytes.
#[derive(Clone, Debug)]
pub(crate) struct Scales {
    pub(crate) scales: Range<u32>,
    pub(crate) zero_points: Range<u32>,
    pub(crate) dimension: u32,
}
