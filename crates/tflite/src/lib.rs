//! A picture of a TFLite model: the bytes of a `.tflite` go in, its subgraphs, signatures and constants come out,
//! every index and size checked; it never copies a constant or a name and never runs an operator.
//!
//! Rooms, in reading order: [`Model`] and its parts, then `parse` and `buffers` (the only places that follow offsets),
//! `schema` (fields and limits), `operators` (names for people) and `listing` (text for people); [`build`] is the way
//! back.

mod buffers;
pub mod build;
mod error;
mod listing;
mod model;
mod operators;
mod parse;
mod quantization;
mod schema;
mod tensor;

pub use error::Error;
pub use listing::Listing;
pub use model::{Model, Operator, Signature, Subgraph};
pub use operators::{Kind, Options, builtin_name};
pub use quantization::Quantization;
pub use schema::limits;
pub use tensor::{ElementType, Shape, Tensor};

/// Result of this crate.
pub type Result<T> = std::result::Result<T, Error>;
