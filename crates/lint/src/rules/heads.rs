//! Known fault: grouped value heads behind the official delta-rule operator.

use kinglet_tflite::Kind;

use super::Rule;

/// What the official exporter calls the delta rule.
const DELTA_OPERATOR: &str = "gated_delta_update";

/// More value heads than key heads, which the operator's CPU kernel does not know.
pub(super) const GROUPED_HEADS: Rule = Rule {
    id: "grouped-heads",
    meaning: "known fault: the CPU kernel of gated_delta_update knows one number of heads, so that with fewer key heads than \
              value heads it reads past queries and keys, and every reply is wrong, silently",
    hint: Some(
        "repeat queries and keys for each value head in plain operators, or write the delta rule without the operator",
    ),
    check: |subject, sink| {
        for site in subject.sites() {
            if !matches!(site.operator.kind(), Kind::Custom(name) if name == DELTA_OPERATOR) {
                continue;
            }
            let heads = |n: usize| site.input(n).and_then(|tensor| tensor.shape.get(1).copied());
            // Operands are queries, keys and values, [1, heads, tokens, width] each.
            let (Some(queries), Some(keys), Some(values)) = (heads(0), heads(1), heads(2)) else { continue };
            if queries != values || keys != values {
                sink.fault(site.spot().tensor(site.operator.input(0)), || {
                    format!("gated_delta_update of {queries} query heads, {keys} key heads and {values} value heads")
                });
            }
        }
    },
};
