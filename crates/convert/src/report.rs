//! The report: what became of each tensor, as numbers; it never sees a tensor whole.

use serde::Serialize;

use crate::recipe::Kind;

/// What became of one tensor.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TensorReport {
    /// What it is called in the graph.
    pub name: String,
    /// What kind of tensor it is.
    pub kind: Kind,
    /// Its dimensions.
    pub shape: Vec<usize>,
    /// `i8` or `f32`.
    pub format: &'static str,
    /// Bytes in the bundle, scales included.
    pub bytes: u64,
    /// Smallest and largest scale of a row.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scales: Option<[f32; 2]>,
    /// Root of the mean square of the error over that of the values.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub relative_rms: Option<f64>,
    /// Largest error of a value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_error: Option<f32>,
}

/// The tensors of one kind together.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct KindReport {
    /// The kind.
    pub kind: Kind,
    /// How many tensors there are.
    pub tensors: usize,
    /// `i8` or `f32`.
    pub format: &'static str,
    /// Bytes in the bundle, scales included.
    pub bytes: u64,
    /// The largest of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worst_relative_rms: Option<f64>,
    /// The largest of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_error: Option<f32>,
}

/// The tensors by kind.
pub fn by_kind(tensors: &[TensorReport]) -> Vec<KindReport> {
    let mut kinds: Vec<KindReport> = Vec::new();
    for tensor in tensors {
        let at = kinds.iter().position(|k| k.kind == tensor.kind && k.format == tensor.format).unwrap_or_else(|| {
            let (kind, format) = (tensor.kind, tensor.format);
            kinds.push(KindReport { kind, tensors: 0, format, bytes: 0, worst_relative_rms: None, max_error: None });
            kinds.len() - 1
        });
        let kind = &mut kinds[at];
        kind.tensors += 1;
        kind.bytes += tensor.bytes;
        kind.worst_relative_rms = larger(kind.worst_relative_rms, tensor.relative_rms);
        kind.max_error = larger(kind.max_error, tensor.max_error);
    }
    kinds
}

fn larger<T: PartialOrd>(a: Option<T>, b: Option<T>) -> Option<T> {
    match (a, b) {
        (Some(a), Some(b)) => Some(if b > a { b } else { a }),
        (a, b) => a.or(b),
    }
}
