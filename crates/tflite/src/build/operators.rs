//! Operators as methods of [`Graph`]: inputs and options go in, the output comes out with its shape.
//!
//! Numbers, versions and options are those of the TFLite schema, version 3.

use kinglet_flat::write::Table;

use super::{Graph, Tensor};
use crate::ElementType;
use crate::ElementType::{F32, I32};
use crate::schema::{batch_matmul, cast, concatenation, depthwise_conv, fully_connected, reducer, reshape, softmax};

/// Numbers in `builtin_options_type`.
mod options {
    pub(super) const DEPTHWISE_CONV: u8 = 2;
    pub(super) const FULLY_CONNECTED: u8 = 8;
    pub(super) const SOFTMAX: u8 = 9;
    pub(super) const CONCATENATION: u8 = 10;
    pub(super) const ADD: u8 = 11;
    pub(super) const RESHAPE: u8 = 17;
    pub(super) const MUL: u8 = 21;
    pub(super) const TRANSPOSE: u8 = 26;
    pub(super) const REDUCER: u8 = 27;
    pub(super) const SUB: u8 = 28;
    pub(super) const EXP: u8 = 33;
    pub(super) const CAST: u8 = 37;
    pub(super) const MAXIMUM_MINIMUM: u8 = 39;
    pub(super) const SLICE: u8 = 48;
    pub(super) const ABS: u8 = 78;
    pub(super) const COS: u8 = 84;
    pub(super) const BATCH_MATMUL: u8 = 101;
    pub(super) const DYNAMIC_UPDATE_SLICE: u8 = 117;
}

/// The shape of an elementwise operation: dimensions that differ are one on one side, ranks are equal.
fn broadcast(a: &[usize], b: &[usize]) -> Vec<usize> {
    assert_eq!(a.len(), b.len(), "operands of one rank: {a:?} and {b:?}");
    let fits = |(a, b): (&usize, &usize)| {
        assert!(a == b || *a == 1 || *b == 1, "shapes that broadcast: {a} and {b}");
        *a.max(b)
    };
    a.iter().zip(b).map(fits).collect()
}

macro_rules! binary {
    ($($(#[$doc:meta])* $name:ident = $number:literal, $options:ident;)*) => {$(
        $(#[$doc])*
        pub fn $name(&mut self, a: Tensor, b: Tensor) -> Tensor {
            let shape = broadcast(self.shape(a), self.shape(b));
            assert_eq!(self.element(a), self.element(b), "operands of one type");
            let element = self.element(a);
            self.node(($number, 1), &[Some(a), Some(b)], (element, &shape), Some((options::$options, Table::new())))
        }
    )*};
}

macro_rules! unary {
    ($($(#[$doc:meta])* $name:ident = $number:literal, $options:expr;)*) => {$(
        $(#[$doc])*
        pub fn $name(&mut self, x: Tensor) -> Tensor {
            let shape = self.shape(x).to_vec();
            let options: Option<u8> = $options;
            self.node(($number, 1), &[Some(x)], (F32, &shape), options.map(|kind| (kind, Table::new())))
        }
    )*};
}

impl Graph<'_> {
    binary! {
        /// `a + b`.
        add = 0, ADD;
        /// `a - b`.
        sub = 41, SUB;
        /// `a * b`.
        mul = 18, MUL;
        /// The larger of both.
        maximum = 55, MAXIMUM_MINIMUM;
        /// The smaller of both.
        minimum = 57, MAXIMUM_MINIMUM;
    }

    unary! {
        /// `1 / (1 + exp(-x))`.
        logistic = 14, None;
        /// `max(x, 0)`.
        relu = 19, None;
        /// `exp(x)`.
        exp = 47, Some(options::EXP);
        /// The natural logarithm.
        log = 73, None;
        /// `1 / sqrt(x)`.
        rsqrt = 76, None;
        /// The sine of radians.
        sin = 66, None;
        /// The cosine of radians.
        cos = 108, Some(options::COS);
        /// `|x|`.
        abs = 101, Some(options::ABS);
    }

    /// Every element times `factor`.
    pub fn scale(&mut self, x: Tensor, factor: f32) -> Tensor {
        let factor = self.scalar(x, factor);
        self.mul(x, factor)
    }

    /// Every element plus `term`.
    pub fn shift(&mut self, x: Tensor, term: f32) -> Tensor {
        let term = self.scalar(x, term);
        self.add(x, term)
    }

    /// A number as a constant of the rank of `like`, every dimension one.
    pub fn scalar(&mut self, like: Tensor, value: f32) -> Tensor {
        let shape = vec![1; self.shape(like).len()];
        self.floats(&shape, &[value])
    }

    /// The mean over the last dimension, which stays as one.
    pub fn mean(&mut self, x: Tensor) -> Tensor {
        self.reduce(40, x, self.shape(x).len() - 1)
    }

    /// The sum over dimension `axis`, which stays as one.
    pub fn sum(&mut self, x: Tensor, axis: usize) -> Tensor {
        self.reduce(74, x, axis)
    }

    fn reduce(&mut self, number: u32, x: Tensor, axis: usize) -> Tensor {
        let mut shape = self.shape(x).to_vec();
        shape[axis] = 1;
        let axes = self.integers(&[axis as i32]);
        let options = Table::new().with(reducer::KEEP_DIMENSIONS, true);
        self.node((number, 1), &[Some(x), Some(axes)], (F32, &shape), Some((options::REDUCER, options)))
    }

    /// The softmax over the last dimension.
    pub fn softmax(&mut self, x: Tensor) -> Tensor {
        let shape = self.shape(x).to_vec();
        let options = Table::new().with(softmax::BETA, 1.0f32);
        self.node((25, 1), &[Some(x)], (F32, &shape), Some((options::SOFTMAX, options)))
    }

    /// The same elements in another shape.
    pub fn reshape(&mut self, x: Tensor, shape: &[usize]) -> Tensor {
        assert_eq!(self.shape(x).iter().product::<usize>(), shape.iter().product::<usize>(), "as many elements");
        if self.shape(x) == shape {
            return x;
        }
        let numbers: Vec<i32> = shape.iter().map(|d| *d as i32).collect();
        let wanted = self.integers(&numbers);
        let options = Table::new().with(reshape::NEW_SHAPE, numbers);
        let element = self.element(x);
        self.node((22, 1), &[Some(x), Some(wanted)], (element, shape), Some((options::RESHAPE, options)))
    }

    /// Dimension `n` of the output is dimension `order[n]` of the input.
    pub fn transpose(&mut self, x: Tensor, order: &[usize]) -> Tensor {
        let shape: Vec<usize> = order.iter().map(|d| self.shape(x)[*d]).collect();
        let numbers: Vec<i32> = order.iter().map(|d| *d as i32).collect();
        let wanted = self.integers(&numbers);
        let options = Some((options::TRANSPOSE, Table::new()));
        self.node((39, 1), &[Some(x), Some(wanted)], (F32, &shape), options)
    }

    /// `len` elements of dimension `axis` from `start` on.
    pub fn slice(&mut self, x: Tensor, axis: usize, start: usize, len: usize) -> Tensor {
        let mut shape = self.shape(x).to_vec();
        assert!(start + len <= shape[axis], "a slice within its tensor");
        if len == shape[axis] {
            return x;
        }
        let mut begin = vec![0i32; shape.len()];
        begin[axis] = start as i32;
        shape[axis] = len;
        let size: Vec<i32> = shape.iter().map(|d| *d as i32).collect();
        let (begin, size) = (self.integers(&begin), self.integers(&size));
        let inputs = [Some(x), Some(begin), Some(size)];
        let element = self.element(x);
        self.node((65, 1), &inputs, (element, &shape), Some((options::SLICE, Table::new())))
    }

    /// Parts one after another along dimension `axis`. More than four are joined in groups of four, since that is as
    /// many as delegates take at once.
    pub fn concatenate(&mut self, parts: &[Tensor], axis: usize) -> Tensor {
        match parts {
            [one] => *one,
            [_, ..] if parts.len() <= 4 => self.concatenate_few(parts, axis),
            _ => {
                let share = parts.len().div_ceil(4).next_power_of_two().max(4);
                let groups: Vec<Tensor> = parts.chunks(share).map(|part| self.concatenate(part, axis)).collect();
                self.concatenate(&groups, axis)
            }
        }
    }

    fn concatenate_few(&mut self, parts: &[Tensor], axis: usize) -> Tensor {
        let mut shape = self.shape(parts[0]).to_vec();
        shape[axis] = parts.iter().map(|part| self.shape(*part)[axis]).sum();
        let inputs: Vec<Option<Tensor>> = parts.iter().copied().map(Some).collect();
        let options = Table::new().with(concatenation::AXIS, axis as i32);
        let element = self.element(parts[0]);
        self.node((2, 1), &inputs, (element, &shape), Some((options::CONCATENATION, options)))
    }

    /// `x` times the transpose of `weight`, `[outputs, inputs]`, over the last dimension; `bias` is `[outputs]`.
    pub fn fully_connected(&mut self, x: Tensor, weight: Tensor, bias: Option<Tensor>) -> Tensor {
        let (outputs, inputs) = (self.shape(weight)[0], self.shape(weight)[1]);
        let mut shape = self.shape(x).to_vec();
        assert_eq!(shape.pop(), Some(inputs), "the width that the weights take");
        shape.push(outputs);
        let options = Table::new().with(fully_connected::KEEP_DIMENSIONS, true);
        let operands = [Some(x), Some(weight), bias];
        self.node((9, 5), &operands, (F32, &shape), Some((options::FULLY_CONNECTED, options)))
    }

    /// Matrix products over the last two dimensions of `a` and `b`, or of `b`'s transpose.
    pub fn matmul(&mut self, a: Tensor, b: Tensor, transpose_b: bool) -> Tensor {
        let (left, right) = (self.shape(a).to_vec(), self.shape(b).to_vec());
        let rank = left.len();
        let (inner, columns) =
            if transpose_b { (right[rank - 1], right[rank - 2]) } else { (right[rank - 2], right[rank - 1]) };
        assert_eq!(left[rank - 1], inner, "matrices that fit: {left:?} and {right:?}");
        let mut shape = broadcast(&left[..rank - 2], &right[..rank - 2]);
        shape.extend([left[rank - 2], columns]);
        let options = Table::new();
        let options = if transpose_b { options.with(batch_matmul::ADJOINT_Y, true) } else { options };
        self.node((126, 1), &[Some(a), Some(b)], (F32, &shape), Some((options::BATCH_MATMUL, options)))
    }

    /// A causal convolution per channel: `x` is `[1, 1, t + taps - 1, c]`, `taps` `[1, 1, taps, c]`.
    pub fn convolution(&mut self, x: Tensor, taps: Tensor, bias: Tensor) -> Tensor {
        let (input, filter) = (self.shape(x).to_vec(), self.shape(taps).to_vec());
        assert_eq!(input[3], filter[3], "a filter per channel");
        let shape = [1, 1, input[2] + 1 - filter[2], input[3]];
        let options = Table::new()
            .with(depthwise_conv::PADDING, 1i8)
            .with(depthwise_conv::STRIDE_W, 1i32)
            .with(depthwise_conv::STRIDE_H, 1i32)
            .with(depthwise_conv::MULTIPLIER, 1i32);
        let inputs = [Some(x), Some(taps), Some(bias)];
        self.node((4, 1), &inputs, (F32, &shape), Some((options::DEPTHWISE_CONV, options)))
    }

    /// Rows of `table`, `[rows, width]`, by `ids`, `[n]`, as `f32`.
    pub fn embedding_lookup(&mut self, ids: Tensor, table: Tensor) -> Tensor {
        let shape = [self.shape(ids)[0], self.shape(table)[1]];
        self.node((7, 1), &[Some(ids), Some(table)], (F32, &shape), None)
    }

    /// Integers as `f32`.
    pub fn cast_to_float(&mut self, x: Tensor) -> Tensor {
        assert_eq!(self.element(x), I32, "integers");
        let shape = self.shape(x).to_vec();
        let options = Table::new().with(cast::INPUT, I32.number()).with(cast::OUTPUT, F32.number());
        self.node((53, 1), &[Some(x)], (F32, &shape), Some((options::CAST, options)))
    }

    /// `into` with `update` written over it from position `start`, `[rank]` of `i32`.
    pub fn dynamic_update_slice(&mut self, into: Tensor, update: Tensor, start: Tensor) -> Tensor {
        let shape = self.shape(into).to_vec();
        assert_eq!(self.shape(start), [shape.len()], "a start in every dimension");
        let options = Some((options::DYNAMIC_UPDATE_SLICE, Table::new()));
        self.node((151, 1), &[Some(into), Some(update), Some(start)], (F32, &shape), options)
    }
}

impl ElementType {
    /// Its number in the schema.
    pub(super) fn number(self) -> i8 {
        match self {
            F32 => 0,
            I32 => 2,
            ElementType::I8 => 9,
            other => unreachable!("{other:?} is not built"),
        }
    }
}
