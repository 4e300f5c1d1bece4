//! What a network is: a checkpoint or a bundle goes in, a plan with its weights comes out; it does no arithmetic on
//! activations.
//!
//! Rooms, in reading order: [`source`] (from a path to a model), [`plan`] (dimensions and layers), [`weights`] (matrices
//! over mapped files), [`assets`] (tokenizer, template, stops), [`family`] (who recognises which file), [`quantize`]
//! (int8 at load).

pub mod assets;
pub mod error;
pub mod family;
pub mod plan;
pub mod quantize;
pub mod source;
pub mod weights;

pub use assets::Assets;
pub use error::{Error, ErrorKind, Result};
pub use plan::{Attention, DeltaNet, Mixer, Plan};
pub use source::{Model, Source};
pub use weights::{Footprint, Format, Layer, Matrix, MixerWeights, Rows, Weights};
