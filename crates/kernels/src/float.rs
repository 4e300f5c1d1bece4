//! The float kernels, written once over [`Lanes`]: slices in, slices out, for any instruction set; nothing here is
//! compiled for one, which is what the thin functions under `tier/` are for.

mod attend;
mod delta;
mod dots;
mod elementwise;

pub(crate) use attend::attend;
pub(crate) use delta::delta_step;
pub(crate) use dots::{project_float, project_i8_f32};
pub(crate) use elementwise::{
    add, conv_silu, gated_norm, l2_normalize, quantize, rms_norm, rope, sigmoid_mul, silu_mul,
};
