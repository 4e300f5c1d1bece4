//! Operators: what they are, the options a reader needs, and names for people.

use std::borrow::Cow;
use std::fmt::{Display, Formatter};

/// What an operator does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A builtin operator, by its number in the schema.
    Builtin(u32),
    /// An operator that the runtime must bring, by name.
    Custom(String),
    /// A named group of operators, spelled out in a subgraph of its own.
    Composite {
        /// What a runtime that knows it calls it, such as `odml.rms_norm`.
        name: String,
        /// The subgraph that spells it out.
        decomposition: usize,
    },
}

impl Display for Kind {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        match self {
            Kind::Builtin(number) => f.pad(&builtin_name(*number)),
            Kind::Custom(name) => f.pad(&format!("CUSTOM:{name}")),
            Kind::Composite { name, .. } => f.pad(&format!("COMPOSITE:{name}")),
        }
    }
}

/// The builtin number of a custom operator.
pub(crate) const CUSTOM: u32 = 32;
/// The builtin number of a composite.
pub(crate) const COMPOSITE: u32 = 206;
/// The value in `deprecated_builtin_code` that refers to `builtin_code`.
pub(crate) const LAST_DEPRECATED: u32 = 127;

/// Options of those operators whose weights or layout a reader must understand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Options {
    /// Not read, or none.
    #[default]
    Unread,
    /// Of FULLY_CONNECTED.
    FullyConnected {
        /// Whether an activation function is fused into it.
        activation: bool,
        /// Whether the weights are stored row by row, not shuffled for one kernel.
        plain_weights: bool,
    },
    /// Of DEPTHWISE_CONV_2D.
    DepthwiseConv {
        /// Whether the output is only where the kernel fits, without padding.
        valid_padding: bool,
        /// Output channels per input channel.
        multiplier: i32,
        /// Whether an activation function is fused into it.
        activation: bool,
    },
    /// Of BATCH_MATMUL.
    BatchMatmul {
        /// Whether the left operand is transposed.
        adjoint_x: bool,
        /// Whether the right operand is transposed.
        adjoint_y: bool,
    },
}

/// The name of a builtin operator: those of language models by name, others as `BUILTIN_<number>`.
pub fn builtin_name(number: u32) -> Cow<'static, str> {
    match NAMES.binary_search_by_key(&number, |(n, _)| *n) {
        Ok(found) => Cow::Borrowed(NAMES[found].1),
        Err(_) => Cow::Owned(format!("BUILTIN_{number}")),
    }
}

const NAMES: &[(u32, &str)] = &[
    (0, "ADD"),
    (2, "CONCATENATION"),
    (3, "CONV_2D"),
    (4, "DEPTHWISE_CONV_2D"),
    (6, "DEQUANTIZE"),
    (7, "EMBEDDING_LOOKUP"),
    (8, "FLOOR"),
    (9, "FULLY_CONNECTED"),
    (14, "LOGISTIC"),
    (18, "MUL"),
    (19, "RELU"),
    (22, "RESHAPE"),
    (25, "SOFTMAX"),
    (28, "TANH"),
    (32, "CUSTOM"),
    (34, "PAD"),
    (36, "GATHER"),
    (39, "TRANSPOSE"),
    (40, "MEAN"),
    (41, "SUB"),
    (42, "DIV"),
    (43, "SQUEEZE"),
    (45, "STRIDED_SLICE"),
    (47, "EXP"),
    (48, "TOPK_V2"),
    (49, "SPLIT"),
    (53, "CAST"),
    (55, "MAXIMUM"),
    (56, "ARG_MAX"),
    (57, "MINIMUM"),
    (58, "LESS"),
    (59, "NEG"),
    (60, "PADV2"),
    (61, "GREATER"),
    (62, "GREATER_EQUAL"),
    (63, "LESS_EQUAL"),
    (64, "SELECT"),
    (65, "SLICE"),
    (66, "SIN"),
    (69, "TILE"),
    (70, "EXPAND_DIMS"),
    (71, "EQUAL"),
    (72, "NOT_EQUAL"),
    (73, "LOG"),
    (74, "SUM"),
    (75, "SQRT"),
    (76, "RSQRT"),
    (77, "SHAPE"),
    (78, "POW"),
    (82, "REDUCE_MAX"),
    (83, "PACK"),
    (84, "LOGICAL_OR"),
    (85, "ONE_HOT"),
    (86, "LOGICAL_AND"),
    (87, "LOGICAL_NOT"),
    (88, "UNPACK"),
    (90, "FLOOR_DIV"),
    (92, "SQUARE"),
    (94, "FILL"),
    (95, "FLOOR_MOD"),
    (96, "RANGE"),
    (99, "SQUARED_DIFFERENCE"),
    (101, "ABS"),
    (102, "SPLIT_V"),
    (106, "ADD_N"),
    (107, "GATHER_ND"),
    (108, "COS"),
    (114, "QUANTIZE"),
    (122, "SCATTER_ND"),
    (123, "SELECT_V2"),
    (126, "BATCH_MATMUL"),
    (128, "CUMSUM"),
    (130, "BROADCAST_TO"),
    (145, "BROADCAST_ARGS"),
    (150, "GELU"),
    (151, "DYNAMIC_UPDATE_SLICE"),
    (206, "STABLEHLO_COMPOSITE"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_sorted_so_that_each_is_found() {
        assert!(NAMES.is_sorted_by(|a, b| a.0 < b.0));
        assert_eq!(builtin_name(9), "FULLY_CONNECTED");
        assert_eq!(builtin_name(206), "STABLEHLO_COMPOSITE");
        assert_eq!(builtin_name(9999), "BUILTIN_9999");
    }
}
