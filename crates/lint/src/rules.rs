//! Rules: a subject goes into each, findings come out into a sink. A new rule is a constant in a file of its group and a
//! line in [`RULES`].

mod gates;
mod guards;
mod heads;
mod lengths;
mod metadata;
mod operators;
mod padding;
mod reading;
mod shapes;
mod size;
mod state_buffers;

use crate::report::Sink;
use crate::subject::Subject;

/// One thing that a bundle should keep to.
pub(crate) struct Rule {
    /// What findings call it.
    pub(crate) id: &'static str,
    /// What it says, in one sentence.
    pub(crate) meaning: &'static str,
    /// What can be done about a finding.
    pub(crate) hint: Option<&'static str>,
    /// Looks at the whole bundle, in time that is linear in its size.
    pub(crate) check: fn(&Subject<'_>, &mut Sink<'_>),
}

/// All rules, those that concern a user most first.
pub(crate) const RULES: &[&Rule] = &[
    &reading::UNREADABLE,
    &guards::TOKEN_ZERO,
    &guards::PAD_TOKEN,
    &gates::INT8_GATES,
    &heads::GROUPED_HEADS,
    &state_buffers::MISSING,
    &state_buffers::MISMATCH,
    &lengths::CACHE_LENGTH,
    &padding::PAD_AXIS,
    &metadata::STOP_TOKENS,
    &metadata::GREEDY_SAMPLER,
    &metadata::START_TOKEN,
    &metadata::GENERATION_PROMPT,
    &metadata::ACTIVATION_TYPE,
    &shapes::RANK,
    &shapes::SCALAR_OPERAND,
    &shapes::RANK_2_CONSTANT,
    &operators::BROADCAST_TO,
    &operators::INT64,
    &operators::GATHER_ND,
    &operators::TOPK,
    &operators::STABLEHLO,
    &operators::CUSTOM,
    &size::TENSOR_NAMES,
    &size::DUPLICATES,
    &lengths::LADDER,
];
