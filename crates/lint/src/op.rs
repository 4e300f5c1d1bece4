//! Builtin operators that rules ask for: their numbers, and which of them compute what.

macro_rules! numbers {
    ($($name:ident = $number:literal),* $(,)?) => { $(pub(crate) const $name: u32 = $number;)* };
}

numbers! {
    ADD = 0, CONCATENATION = 2, EMBEDDING_LOOKUP = 7, FULLY_CONNECTED = 9, LOGISTIC = 14, MUL = 18, RESHAPE = 22,
    PAD = 34, GATHER = 36, TRANSPOSE = 39, MEAN = 40, SUB = 41, DIV = 42, SQUEEZE = 43, STRIDED_SLICE = 45, EXP = 47,
    TOPK_V2 = 48, SPLIT = 49, CAST = 53, MAXIMUM = 55, ARG_MAX = 56, MINIMUM = 57, LESS = 58, NEG = 59, PADV2 = 60,
    GREATER = 61, GREATER_EQUAL = 62, LESS_EQUAL = 63, SELECT = 64, SLICE = 65, EXPAND_DIMS = 70, EQUAL = 71,
    NOT_EQUAL = 72, SUM = 74, POW = 78, REDUCE_PROD = 81, REDUCE_MAX = 82, PACK = 83, ONE_HOT = 85, UNPACK = 88,
    REDUCE_MIN = 89, FLOOR_DIV = 90, SQUARE = 92, FILL = 94, FLOOR_MOD = 95, RANGE = 96, SQUARED_DIFFERENCE = 99,
    MIRROR_PAD = 100, ABS = 101, ADD_N = 106, GATHER_ND = 107, SCATTER_ND = 122, SELECT_V2 = 123, CUMSUM = 128,
    BROADCAST_TO = 130, BROADCAST_ARGS = 145,
}

/// Two operands that are broadcast against each other.
pub(crate) const BROADCASTING: &[u32] = &[
    ADD,
    SUB,
    MUL,
    DIV,
    MAXIMUM,
    MINIMUM,
    POW,
    SQUARED_DIFFERENCE,
    FLOOR_DIV,
    FLOOR_MOD,
    LESS,
    LESS_EQUAL,
    GREATER,
    GREATER_EQUAL,
    EQUAL,
    NOT_EQUAL,
];

/// Comparisons.
pub(crate) const COMPARING: &[u32] = &[EQUAL, NOT_EQUAL, LESS, LESS_EQUAL, GREATER, GREATER_EQUAL];

/// Arithmetic beyond [`BROADCASTING`], look-ups by computed indices included.
pub(crate) const COMPUTING: &[u32] = &[
    SUM,
    MEAN,
    CUMSUM,
    NEG,
    ABS,
    SQUARE,
    REDUCE_MAX,
    REDUCE_MIN,
    REDUCE_PROD,
    ADD_N,
    RANGE,
    ONE_HOT,
    ARG_MAX,
    GATHER,
    SCATTER_ND,
    SELECT,
    SELECT_V2,
    TOPK_V2,
    FILL,
];

/// The same values in another shape, order or type, or a part of them.
pub(crate) const VIEWS: &[u32] =
    &[RESHAPE, TRANSPOSE, SQUEEZE, EXPAND_DIMS, CAST, SLICE, STRIDED_SLICE, SPLIT, PACK, UNPACK, CONCATENATION];

/// Element by element, whatever the other operand.
pub(crate) const ELEMENTWISE: &[u32] = &[ADD, SUB, MUL, DIV, MAXIMUM, MINIMUM, NEG, ABS, SELECT, SELECT_V2];

/// First number of the StableHLO operators, which no runtime of language models computes.
const STABLEHLO_FIRST: u32 = 162;
const STABLEHLO: &[&str] = &[
    "LOGISTIC",
    "ADD",
    "DIVIDE",
    "MULTIPLY",
    "MAXIMUM",
    "RESHAPE",
    "CLAMP",
    "CONCATENATE",
    "BROADCAST_IN_DIM",
    "CONVOLUTION",
    "SLICE",
    "CUSTOM_CALL",
    "REDUCE",
    "ABS",
    "AND",
    "COSINE",
    "EXPONENTIAL",
    "FLOOR",
    "LOG",
    "MINIMUM",
    "NEGATE",
    "OR",
    "POWER",
    "REMAINDER",
    "RSQRT",
    "SELECT",
    "SUBTRACT",
    "TANH",
    "SCATTER",
    "COMPARE",
    "CONVERT",
    "DYNAMIC_SLICE",
    "DYNAMIC_UPDATE_SLICE",
    "PAD",
    "IOTA",
    "DOT_GENERAL",
    "REDUCE_WINDOW",
    "SORT",
    "WHILE",
    "GATHER",
    "TRANSPOSE",
];
const STABLEHLO_LATER: &[(u32, &str)] =
    &[(204, "RNG_BIT_GENERATOR"), (207, "SHIFT_LEFT"), (208, "CBRT"), (209, "CASE")];

/// The name of a StableHLO operator, without its prefix; `None` for any other, composites included.
pub(crate) fn stablehlo(number: u32) -> Option<&'static str> {
    let first = number.checked_sub(STABLEHLO_FIRST).and_then(|n| STABLEHLO.get(n as usize)).copied();
    first.or_else(|| STABLEHLO_LATER.iter().find(|(later, _)| *later == number).map(|(_, name)| *name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stablehlo_numbers_are_those_of_the_schema() {
        let cases = [(161, None), (162, Some("LOGISTIC")), (196, Some("IOTA")), (202, Some("TRANSPOSE"))];
        for (number, name) in cases.into_iter().chain([(203, None), (206, None), (208, Some("CBRT")), (210, None)]) {
            assert_eq!(stablehlo(number), name, "{number}");
        }
    }
}
