//! Conversion: a checkpoint and a recipe go in, a `.litertlm` bundle that the official runtime runs comes out; it never
//! holds the weights of a model in memory, and never writes anything but what was asked for.

#![forbid(unsafe_code)]

mod error;
pub mod graph;

pub use error::{Error, Result};
