//! Bundles taken apart and put together: a `.litertlm` file of any family goes in, its parts, another bundle or a list of
//! differences comes out; it never looks into a graph's weights and never changes a byte that it was not asked to.
//!
//! Rooms, in reading order: [`unpack`] and [`pack`] (a folder with a file per section, and back), `manifest` (what the
//! folder says of itself), [`diff`] (two bundles), [`set`] (what a bundle says of itself), `copy` (a bundle as parts of
//! another).

#![forbid(unsafe_code)]

mod copy;
pub mod diff;

mod error;
mod manifest;
pub mod pack;
pub mod set;

pub mod unpack;

pub use error::{Error, ErrorKind, Result};
