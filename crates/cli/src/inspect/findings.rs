//! What was found in a model: plain values, which JSON shows as they are and `text` writes out.

use std::collections::BTreeMap;

use kinglet_model::{Format, Matrix, Mixer, Plan, Weights};
use serde::Serialize;

use crate::load::Needs;

/// All of it. Absent parts were not asked for, or are not there.
#[derive(Debug, Default, Serialize)]
pub(super) struct Findings {
    /// `demo`, or the path.
    pub(super) name: String,
    /// `bundle` or `checkpoint`.
    pub(super) kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) bundle: Option<BundleFacts>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) checkpoint: Option<CheckpointFacts>,
    #[serde(flatten)]
    pub(super) runs: Runs,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) plan: Option<PlanFacts>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) weights: Option<WeightFacts>,
    /// Positions that the memory is computed for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) context: Option<usize>,
    /// With the weights as they are stored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) memory: Option<Needs>,
    /// With the weights of a checkpoint turned into int8.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) memory_int8: Option<Needs>,
    pub(super) notices: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) tensors: Option<Vec<TensorFacts>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) metadata: Option<serde_json::Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) template: Option<String>,
}

/// Whether this program runs it.
#[derive(Debug, Default, Serialize)]
#[serde(tag = "runs", rename_all = "lowercase")]
pub(super) enum Runs {
    #[default]
    Yes,
    No {
        reason: String,
    },
}

/// The container.
#[derive(Debug, Serialize)]
pub(super) struct BundleFacts {
    pub(super) size_bytes: u64,
    pub(super) version: String,
    pub(super) sections: Vec<SectionFacts>,
    pub(super) signatures: Vec<SignatureFacts>,
}

/// The directory.
#[derive(Debug, Serialize)]
pub(super) struct CheckpointFacts {
    pub(super) shards: Vec<ShardFacts>,
    /// All of them, those that are left out included.
    pub(super) tensors: usize,
    /// Left out: they are of the vision tower.
    pub(super) vision_tensors: usize,
    /// Left out: they are of the head that drafts tokens.
    pub(super) draft_tensors: usize,
    /// What the names of the text model's tensors begin with.
    pub(super) prefix: String,
    /// Whose way of storing norms and convolutions it follows.
    pub(super) convention: &'static str,
}

#[derive(Debug, Serialize)]
pub(super) struct ShardFacts {
    pub(super) name: String,
    pub(super) size_bytes: u64,
}

#[derive(Debug, Serialize)]
pub(super) struct SectionFacts {
    pub(super) index: usize,
    #[serde(rename = "type")]
    pub(super) kind: String,
    pub(super) model_type: Option<String>,
    pub(super) begin: u64,
    pub(super) end: u64,
}

/// An entry point of the graph.
#[derive(Debug, Serialize)]
pub(super) struct SignatureFacts {
    pub(super) key: String,
    pub(super) tensors: usize,
    /// `name type[shape]`.
    pub(super) inputs: Vec<String>,
    pub(super) outputs: Vec<String>,
    /// How often each operator occurs, most frequent first.
    pub(super) operators: serde_json::Map<String, serde_json::Value>,
}

/// Dimensions of what would be run.
#[derive(Debug, Serialize)]
pub(super) struct PlanFacts {
    pub(super) parameters: u64,
    pub(super) vocabulary: usize,
    pub(super) hidden: usize,
    pub(super) ffn: usize,
    /// `d` for the delta rule, `a` for attention, first layer first.
    pub(super) layers: String,
    pub(super) attention: AttentionFacts,
    pub(super) delta_rule: DeltaFacts,
    pub(super) epsilon: f32,
    pub(super) positions: usize,
}

#[derive(Debug, Serialize)]
pub(super) struct AttentionFacts {
    pub(super) heads: usize,
    pub(super) key_value_heads: usize,
    pub(super) head_width: usize,
    pub(super) rotated: usize,
}

#[derive(Debug, Serialize)]
pub(super) struct DeltaFacts {
    pub(super) key_heads: usize,
    pub(super) value_heads: usize,
    pub(super) key_width: usize,
    pub(super) value_width: usize,
    pub(super) taps: usize,
}

impl PlanFacts {
    pub(super) fn new(plan: &Plan, parameters: u64) -> PlanFacts {
        let letter = |mixer: &Mixer| match mixer {
            Mixer::GatedAttention => 'a',
            Mixer::GatedDeltaNet => 'd',
        };
        PlanFacts {
            parameters,
            vocabulary: plan.vocab,
            hidden: plan.hidden,
            ffn: plan.ffn,
            layers: plan.layers.iter().map(letter).collect(),
            attention: AttentionFacts {
                heads: plan.attention.heads,
                key_value_heads: plan.attention.kv_heads,
                head_width: plan.attention.head_dim,
                rotated: 2 * plan.attention.inverse_frequencies.len(),
            },
            delta_rule: DeltaFacts {
                key_heads: plan.delta.key_heads,
                value_heads: plan.delta.value_heads,
                key_width: plan.delta.key_dim,
                value_width: plan.delta.value_dim,
                taps: plan.delta.taps,
            },
            epsilon: plan.eps,
            positions: plan.max_positions,
        }
    }
}

/// How the weights are stored.
#[derive(Debug, Serialize)]
pub(super) struct WeightFacts {
    /// Matrices of each format.
    pub(super) matrices: BTreeMap<&'static str, usize>,
    pub(super) mapped_bytes: u64,
    pub(super) owned_bytes: u64,
    /// Whether the embedding serves as head.
    pub(super) tied: bool,
}

impl WeightFacts {
    pub(super) fn new(weights: &Weights) -> WeightFacts {
        let mut matrices = BTreeMap::new();
        for (_, matrix) in weights.matrices() {
            *matrices.entry(format_name(matrix.format())).or_insert(0) += 1;
        }
        let footprint = weights.footprint();
        WeightFacts {
            matrices,
            mapped_bytes: footprint.mapped,
            owned_bytes: footprint.owned,
            tied: weights.head.is_none(),
        }
    }
}

/// One weight matrix.
#[derive(Debug, Serialize)]
pub(super) struct TensorFacts {
    pub(super) name: String,
    pub(super) format: &'static str,
    pub(super) rows: usize,
    pub(super) columns: usize,
}

impl TensorFacts {
    pub(super) fn new(name: String, matrix: &Matrix) -> TensorFacts {
        TensorFacts { name, format: format_name(matrix.format()), rows: matrix.rows(), columns: matrix.columns() }
    }
}

fn format_name(format: Format) -> &'static str {
    match format {
        Format::F32 => "f32",
        Format::Bf16 => "bf16",
        Format::F16 => "f16",
        Format::I8 => "int8",
    }
}
