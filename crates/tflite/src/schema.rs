//! The parts of the TFLite schema, version 3, that are read or written: fields by slot, and the limits set on them.

/// Most that a model may hold. A model of 4B parameters with a dozen signatures stays under a tenth of each.
pub mod limits {
    /// Tensors of all subgraphs.
    pub const TENSORS: usize = 1 << 20;
    /// Operators of all subgraphs.
    pub const OPERATORS: usize = 1 << 20;
    /// Inputs and outputs of all operators, subgraphs and signatures.
    pub const OPERANDS: usize = 1 << 22;
    /// Buffers.
    pub const BUFFERS: usize = 1 << 20;
    /// Subgraphs.
    pub const SUBGRAPHS: usize = 1 << 16;
    /// Operator codes, signatures, metadata entries and external buffers, each.
    pub const ENTRIES: usize = 1 << 16;
    /// Dimensions of a tensor.
    pub const RANK: usize = 8;
}

/// The schema version that is read.
pub(crate) const VERSION: u32 = 3;
/// The identifier at byte 4.
pub(crate) const IDENTIFIER: [u8; 4] = *b"TFL3";
/// A FlatBuffer's own offsets reach no further; constants stored behind it may.
pub(crate) const FLATBUFFER_LIMIT: usize = i32::MAX as usize;

macro_rules! fields {
    ($($table:ident { $($field:ident = $slot:literal $name:literal),* $(,)? })*) => {$(
        pub(crate) mod $table {
            use kinglet_flat::Field;
            $(pub(crate) const $field: Field = Field::new($name, $slot);)*
        }
    )*};
}

fields! {
    model {
        VERSION = 0 "version", OPERATOR_CODES = 1 "operator_codes", SUBGRAPHS = 2 "subgraphs",
        DESCRIPTION = 3 "description", BUFFERS = 4 "buffers", METADATA = 6 "metadata",
        SIGNATURES = 7 "signature_defs", EXTERNAL_GROUPS = 8 "external_buffer_groups",
        EXTERNAL_BUFFERS = 9 "external_buffers",
    }
    operator_code {
        DEPRECATED_BUILTIN = 0 "deprecated_builtin_code", CUSTOM = 1 "custom_code", VERSION = 2 "version",
        BUILTIN = 3 "builtin_code",
    }
    subgraph {
        TENSORS = 0 "tensors", INPUTS = 1 "inputs", OUTPUTS = 2 "outputs", OPERATORS = 3 "operators", NAME = 4 "name",
    }
    tensor {
        SHAPE = 0 "shape", TYPE = 1 "type", BUFFER = 2 "buffer", NAME = 3 "name", QUANTIZATION = 4 "quantization",
        VARIABLE = 5 "is_variable", SPARSITY = 6 "sparsity", EXTERNAL = 10 "external_buffer",
    }
    quantization {
        SCALE = 2 "scale", ZERO_POINT = 3 "zero_point", DETAILS = 4 "details_type",
        DIMENSION = 6 "quantized_dimension",
    }
    operator {
        CODE = 0 "opcode_index", INPUTS = 1 "inputs", OUTPUTS = 2 "outputs", OPTIONS_TYPE = 3 "builtin_options_type",
        OPTIONS = 4 "builtin_options", CUSTOM_OPTIONS = 5 "custom_options", OPTIONS_2_TYPE = 11 "builtin_options_2_type",
        OPTIONS_2 = 12 "builtin_options_2",
    }
    composite {
        NAME = 0 "name", DECOMPOSITION = 1 "decomposition_subgraph_index", ATTRIBUTES = 2 "composite_attributes",
    }
    fully_connected {
        ACTIVATION = 0 "fused_activation_function", WEIGHTS_FORMAT = 1 "weights_format",
        KEEP_DIMENSIONS = 2 "keep_num_dims",
    }
    depthwise_conv {
        PADDING = 0 "padding", STRIDE_W = 1 "stride_w", STRIDE_H = 2 "stride_h", MULTIPLIER = 3 "depth_multiplier",
        ACTIVATION = 4 "fused_activation_function",
    }
    concatenation { AXIS = 0 "axis" }
    softmax { BETA = 0 "beta" }
    reducer { KEEP_DIMENSIONS = 0 "keep_dims" }
    reshape { NEW_SHAPE = 0 "new_shape" }
    cast { INPUT = 0 "in_data_type", OUTPUT = 1 "out_data_type" }
    batch_matmul { ADJOINT_X = 0 "adj_x", ADJOINT_Y = 1 "adj_y" }
    buffer { DATA = 0 "data", OFFSET = 1 "offset", SIZE = 2 "size" }
    external_buffer {
        ID = 0 "id", GROUP = 1 "group", OFFSET = 2 "offset", LENGTH = 3 "length", PACKING = 4 "packing",
    }
    metadata { NAME = 0 "name", BUFFER = 1 "buffer" }
    signature { INPUTS = 0 "inputs", OUTPUTS = 1 "outputs", KEY = 2 "signature_key", SUBGRAPH = 4 "subgraph_index" }
    tensor_map { NAME = 0 "name", TENSOR = 1 "tensor_index" }
}

/// Numbers in `builtin_options_type`.
pub(crate) mod options {
    pub(crate) const DEPTHWISE_CONV: u8 = 2;
    pub(crate) const FULLY_CONNECTED: u8 = 8;
    pub(crate) const BATCH_MATMUL: u8 = 101;
    /// In `builtin_options_2_type`.
    pub(crate) const COMPOSITE: u8 = 21;
}
