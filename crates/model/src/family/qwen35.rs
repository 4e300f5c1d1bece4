//! Qwen3.5: recognised in checkpoints ([`checkpoint`]) and in bundles ([`graph`], [`metadata`]).

pub mod checkpoint;
pub mod graph;
pub mod metadata;
