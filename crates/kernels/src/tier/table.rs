//! Makes the table of a tier: every kernel of [`float`](crate::float) and [`integer`](crate::integer), compiled for the
//! features of that tier.

/// A kernel compiled for `$features`, as a function pointer.
macro_rules! compiled {
    ($features:literal, |$($x:ident: $t:ty),+| $call:expr) => {{
        #[target_feature(enable = $features)]
        fn kernel($($x: $t),+) {
            $call
        }
        // SAFETY: `available` hands out the table only after it has found all features of the tier.
        |$($x: $t),+| unsafe { kernel($($x),+) }
    }};
}

/// `lanes` and `dots` are expressions for the tokens; they can be evaluated inside functions of these features only.
/// `tokens` are taken at once by the integer kernel; see [`float`](crate::float) for the other numbers.
macro_rules! table {
    (
        name: $name:literal,
        features: $features:literal,
        lanes: $lanes:expr,
        dots: $dots:expr,
        tokens: $tokens:literal,
        paired_rows: $paired:literal,
        delta_panel: $delta:literal,
        value_panel: $values:literal $(,)?
    ) => {
        pub(crate) static TABLE: $crate::tier::Kernels = {
            use $crate::quantized::{Precision, QuantizedRow};
            use $crate::tier::{Softmax, table::compiled};
            use $crate::{FloatRows, float, integer};
            $crate::tier::Kernels {
                name: $name,
                quantize: compiled!($features, |x: &[f32], precision: Precision, into: &mut QuantizedRow| {
                    float::quantize($lanes, x, precision, into)
                }),
                project_i8: compiled!($features, |w: &[i8], scales: &[f32], x: &[QuantizedRow], out: &mut [f32]| {
                    integer::project_i8::<_, $tokens>($dots, w, scales, x, out)
                }),
                project_i8_f32: compiled!($features, |w: &[i8], scales: &[f32], x: &[f32], out: &mut [f32]| {
                    float::project_i8_f32::<_, $paired>($lanes, w, scales, x, out)
                }),
                project_float: compiled!($features, |w: FloatRows<'_>, k: usize, x: &[f32], out: &mut [f32]| {
                    float::project_float::<_, $paired>($lanes, w, k, x, out)
                }),
                rms_norm: compiled!($features, |x: &[f32], w: &[f32], eps: f32, out: &mut [f32]| {
                    float::rms_norm($lanes, x, w, eps, out)
                }),
                gated_norm: compiled!($features, |x: &mut [f32], z: &[f32], w: &[f32], eps: f32| {
                    float::gated_norm($lanes, x, z, w, eps)
                }),
                l2_normalize: compiled!($features, |x: &mut [f32], scale: f32| {
                    float::l2_normalize($lanes, x, scale)
                }),
                add: compiled!($features, |x: &mut [f32], y: &[f32]| float::add($lanes, x, y)),
                silu_mul: compiled!($features, |gate: &mut [f32], up: &[f32]| float::silu_mul($lanes, gate, up)),
                sigmoid_mul: compiled!($features, |x: &mut [f32], gate: &[f32]| {
                    float::sigmoid_mul($lanes, x, gate)
                }),
                rope: compiled!($features, |x: &mut [f32], cos: &[f32], sin: &[f32]| {
                    float::rope($lanes, x, cos, sin)
                }),
                conv_silu: compiled!($features, |rows: &[&[f32]], w: &[f32], out: &mut [f32]| {
                    float::conv_silu($lanes, rows, w, out)
                }),
                delta_step: compiled!($features, |state: &mut [f32],
                                                  q: &[f32],
                                                  k: &[f32],
                                                  v: &[f32],
                                                  decay: f32,
                                                  beta: f32,
                                                  out: &mut [f32]| {
                    float::delta_step::<_, $delta>($lanes, state, q, k, v, decay, beta, out)
                }),
                attend: compiled!($features, |q: &[f32],
                                              keys: &[f32],
                                              values: &[f32],
                                              scale: f32,
                                              softmax: &mut Softmax,
                                              out: &mut [f32]| {
                    float::attend::<_, $values>($lanes, q, keys, values, scale, softmax, out)
                }),
            }
        };
    };
}

pub(crate) use {compiled, table};

/// Implements trait methods by safe functions that are compiled for the features of the tier.
macro_rules! forward {
    ($(fn $name:ident($($x:ident: $t:ty),*) -> $result:ty = $function:path;)+) => {$(
        #[inline(always)]
        fn $name(self, $($x: $t),*) -> $result {
            // SAFETY: `self` can only be made where the features of the tier are known to be there.
            unsafe { $function($($x),*) }
        }
    )+};
}

pub(crate) use forward;
