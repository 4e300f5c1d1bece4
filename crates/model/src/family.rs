//! The registry of model families: one file each, one line here.

pub mod qwen35;
