//! States: names of tensors that a signature takes and gives go in; which of them are caches of positions and which are
//! recurrent comes out.

use std::collections::HashSet;

use kinglet_bundle::ExecutorMetadata;
use kinglet_bundle::metadata::{StateBuffer, StateKind};
use kinglet_tflite::Signature;

use crate::subject::Subject;

/// Names of both an input and an output of a signature, in its order.
pub(crate) fn names(signature: &Signature) -> Vec<&str> {
    let outputs: HashSet<&str> = signature.outputs.iter().map(|(name, _)| name.as_str()).collect();
    signature.inputs.iter().map(|(name, _)| name.as_str()).filter(|name| outputs.contains(name)).collect()
}

/// The dimension of a cache that positions run along, by its name: keys `[1, n, s, d]`, values `[1, n, d, s]`.
pub(crate) fn cache_axis(name: &str) -> Option<usize> {
    let (kind, layer) = name.strip_prefix("kv_cache_")?.split_once('_')?;
    match kind {
        "k" | "v" if layer.is_empty() || !layer.bytes().all(|b| b.is_ascii_digit()) => None,
        "k" => Some(2),
        "v" => Some(3),
        _ => None,
    }
}

/// Whether a state is of constant size: by the executor's metadata, else by a name that is no cache's.
pub(crate) fn is_recurrent(name: &str, subject: &Subject<'_>) -> bool {
    match subject.state_kind(name) {
        Some(StateKind::LinearAttention) => true,
        Some(StateKind::Unspecified | StateKind::Unknown(_)) | None => {
            name.starts_with("kv_cache_") && cache_axis(name).is_none()
        }
        Some(_) => false,
    }
}

/// State buffers of the executor's metadata.
pub(crate) fn buffers(executor: Option<&ExecutorMetadata>) -> &[StateBuffer] {
    executor.and_then(|executor| executor.llm.as_ref()).map_or(&[], |llm| &llm.state_buffers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn caches_of_positions_are_told_by_their_names() {
        let cases = [
            ("kv_cache_k_3", Some(2)),
            ("kv_cache_v_31", Some(3)),
            ("kv_cache_c_0", None),
            ("kv_cache_lr_0", None),
            ("kv_cache_k_", None),
            ("kv_cache_k_scale", None),
            ("mask", None),
        ];
        for (name, axis) in cases {
            assert_eq!(cache_axis(name), axis, "{name}");
        }
    }
}
