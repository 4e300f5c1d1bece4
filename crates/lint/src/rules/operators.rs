//! Operators that a backend or a runtime does not have.

use kinglet_tflite::{ElementType, Kind};

use super::Rule;
use crate::op;
use crate::report::Severity::Warning;
use crate::report::Sink;
use crate::subject::{Site, Subject};

/// BROADCAST_TO and the arithmetic on shapes that comes with it.
pub(super) const BROADCAST_TO: Rule = Rule {
    id: "broadcast-to",
    meaning: "GPU backends have no BROADCAST_TO",
    hint: Some("let the arithmetic that follows broadcast, or concatenate copies"),
    check: |subject, sink| each(subject, sink, &[op::BROADCAST_TO, op::BROADCAST_ARGS]),
};

/// GATHER_ND.
pub(super) const GATHER_ND: Rule = Rule {
    id: "gather-nd",
    meaning: "GPU backends have no GATHER_ND",
    hint: Some("take slices, or multiply with a one-hot matrix"),
    check: |subject, sink| each(subject, sink, &[op::GATHER_ND]),
};

/// TOPK_V2.
pub(super) const TOPK: Rule = Rule {
    id: "topk",
    meaning: "GPU backends have no TOPK_V2",
    hint: Some("leave the choice of tokens or experts to the runtime"),
    check: |subject, sink| each(subject, sink, &[op::TOPK_V2]),
};

fn each(subject: &Subject<'_>, sink: &mut Sink<'_>, numbers: &[u32]) {
    for site in subject.sites().filter(|site| site.is_any(numbers)) {
        let output = site.operator.outputs().next();
        sink.on_gpu(Warning, site.spot().tensor(output), || {
            let shape = output.map_or_else(String::new, |output| format!(" makes {}", site.tensor(output).shape));
            format!("{}{shape}", site.name())
        });
    }
}

/// Arithmetic on 64-bit integers; a cast to or from them is none.
pub(super) const INT64: Rule = Rule {
    id: "int64-arithmetic",
    meaning: "GPU backends do not compute with 64-bit integers",
    hint: Some("cast to i32 where the value comes in"),
    check: |subject, sink| {
        for site in subject.sites().filter(|site| site.is_any(op::BROADCASTING) || site.is_any(op::COMPUTING)) {
            if let Some(tensor) = wide_operand(&site) {
                sink.on_gpu(Warning, site.spot().tensor(Some(tensor)), || {
                    format!("{} of {}{}", site.name(), site.tensor(tensor).element, site.tensor(tensor).shape)
                });
            }
        }
    },
};

fn wide_operand(site: &Site<'_>) -> Option<usize> {
    let mut operands = site.operator.inputs().flatten().chain(site.operator.outputs());
    operands.find(|tensor| matches!(site.tensor(*tensor).element, ElementType::I64 | ElementType::U64))
}

/// Operators of StableHLO that were left over by the converter.
pub(super) const STABLEHLO: Rule = Rule {
    id: "stablehlo-operator",
    meaning: "runtimes have no kernels for operators of StableHLO",
    hint: Some(
        "replace what it computes by a constant or by plain operators: IOTA comes from an identity matrix or a range",
    ),
    check: |subject, sink| {
        let is_left_over = |kind: &Kind| matches!(kind, Kind::Builtin(number) if op::stablehlo(*number).is_some());
        for site in subject.sites().filter(|site| is_left_over(site.operator.kind())) {
            sink.warning(site.spot().tensor(site.operator.outputs().next()), || {
                format!("{} is left over", site.name())
            });
        }
    },
};

/// Operators that a runtime must bring.
pub(super) const CUSTOM: Rule = Rule {
    id: "custom-operator",
    meaning: "custom operators run only where the runtime brings them, and delegates split the graph at each",
    hint: Some("write the computation in builtin operators"),
    check: |subject, sink| {
        for site in subject.sites() {
            let Kind::Custom(name) = site.operator.kind() else { continue };
            sink.warning(site.spot().tensor(site.operator.outputs().next()), || {
                let name = crate::names::head(name);
                match name.strip_prefix("Flex") {
                    Some(flex) => format!("`{name}` is TensorFlow's {flex}, which LiteRT-LM does not link"),
                    None => format!("`{name}` is a custom operator"),
                }
            });
        }
    },
};
