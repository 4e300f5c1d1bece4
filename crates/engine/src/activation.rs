//! How the inputs of integer weights are rounded, per place in the network; no arithmetic.

use kinglet_kernels::Precision;

/// How one kind of input is handed to integer weights. Float weights always take floats.
#[derive(Clone, Copy, Debug)]
pub enum Activation {
    /// Not rounded at all: the reference, and slow.
    Float,
    /// Rounded to integers, one scale per [`kinglet_kernels::BLOCK`] inputs.
    Integer(Precision),
    /// Rounded in place by a function and then taken as floats: for studies of other schemes.
    Study(fn(&mut [f32])),
}

/// The roundings of a model's five kinds of input.
#[derive(Clone, Debug)]
pub struct Activations {
    /// Into the mixers: `qkv`, `z`, `q`, `k`, `v` (and `a`, `b` where they are integers).
    pub mixer_in: Activation,
    /// Into the mixers' output projections.
    pub mixer_out: Activation,
    /// Into the MLP: `gate`, `up`.
    pub mlp_in: Activation,
    /// Into the MLP's `down`.
    pub mlp_down: Activation,
    /// Into the head.
    pub head: Activation,
}

impl Activations {
    /// The same rounding everywhere.
    pub fn all(activation: Activation) -> Activations {
        Activations {
            mixer_in: activation,
            mixer_out: activation,
            mlp_in: activation,
            mlp_down: activation,
            head: activation,
        }
    }
}

impl Default for Activations {
    /// What `docs/numerics.md` chose by measurement: two planes wherever predictions feel a rounding error, one into the
    /// MLP's gate and up. Two at the head cost nothing in prefill, which asks for one position.
    fn default() -> Activations {
        let (one, two) = (Activation::Integer(Precision::Eight), Activation::Integer(Precision::Sixteen));
        Activations { mixer_in: two, mixer_out: two, mlp_in: one, mlp_down: two, head: two }
    }
}
