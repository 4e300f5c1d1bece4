//! Conversion: a checkpoint and a recipe go in, a `.litertlm` bundle that the official runtime runs comes out, with a lock
//! and a report; it never holds the weights of a model in memory, and the same checkpoint gives the same bytes.
//!
//! Rooms, in reading order: [`Conversion`] (from choices to the last byte), [`recipe`] (what becomes int8), `parts` (the
//! constants in their order), `scan` and `stream` (the two passes over the weights), [`graph`] (the TFLite graph),
//! `metadata`, `template`, `own` (the other sections), `inputs` and [`lock`] (what went in and came out), [`report`].

#![forbid(unsafe_code)]

mod conversion;
mod error;
pub mod graph;
mod inputs;
pub mod lock;
mod metadata;
mod own;
mod parts;
pub mod recipe;
pub mod report;
mod scan;
mod stream;
mod template;

pub use conversion::{Conversion, Outcome, Outlined, Request, SelfCheckRunner, Stage, Watch};
pub use error::{Error, ErrorKind, Result};
pub use inputs::InputFile;
pub use own::SelfCheck;
pub use parts::{Part, quantized};
pub use template::TemplateChoice;
