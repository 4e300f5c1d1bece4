//! State tensors of the graph against the buffers that the executor's metadata declares.

use std::collections::{BTreeSet, HashSet};

use kinglet_bundle::SectionKind;
use kinglet_tflite::Signature;

use super::Rule;
use super::lengths::prefills;
use crate::place::Spot;
use crate::report::Sink;
use crate::states;
use crate::subject::{Part, Subject};

/// Recurrent states without ExecutorMetadata.
pub(super) const MISSING: Rule = Rule {
    id: "executor-metadata",
    meaning: "a model with recurrent states needs ExecutorMetadata: without it the runtime fails at the first prefill",
    hint: Some("add a section that names every state tensor, recurrent ones with TYPE_LINEAR_ATTENTION"),
    check: |subject, sink| {
        let stated = subject.bundle.section(SectionKind::ExecutorMetadata, None).is_some();
        let Some((part, decode)) = decode(subject).filter(|_| !stated && subject.is_hybrid()) else { return };
        sink.fault(part.spot_in(decode.subgraph), || {
            format!("{} state tensors, some of them recurrent, and no ExecutorMetadata", states::names(decode).len())
        });
    },
};

/// State buffers and state tensors that have no counterpart.
pub(super) const MISMATCH: Rule = Rule {
    id: "state-buffers",
    meaning: "ExecutorMetadata should name every state tensor of every signature, and nothing else",
    hint: Some("a buffer's four names are those of an input and an output of the prefill signatures and of `decode`"),
    check: |subject, sink| {
        let Some((part, decode)) = decode(subject) else { return };
        let buffers = states::buffers(subject.executor.as_ref());
        let section = subject.bundle.section(SectionKind::ExecutorMetadata, None);
        let Some(section) = section.filter(|_| subject.executor.is_some()) else { return };
        let named = |which: fn(&kinglet_bundle::metadata::StateBuffer) -> [&str; 2]| {
            buffers.iter().map(which).collect::<Vec<[&str; 2]>>()
        };
        let of_prefill = named(|buffer| [&buffer.prefill_input, &buffer.prefill_output]);
        let of_decode = named(|buffer| [&buffer.decode_input, &buffer.decode_output]);
        compare(part, decode, &of_decode, Spot::section(section), sink);
        for signature in prefills(part) {
            compare(part, signature, &of_prefill, Spot::section(section), sink);
        }
        let kinds: Vec<&str> = of_decode.iter().map(|names| names[0]).collect();
        let recurrent = kinds.iter().filter(|name| states::is_recurrent(name, subject)).count();
        sink.note(Spot::section(section), || {
            format!("{} state buffers: {recurrent} recurrent, {} of positions", kinds.len(), kinds.len() - recurrent)
        });
    },
};

fn decode<'s>(subject: &'s Subject<'_>) -> Option<(&'s Part<'s>, &'s Signature)> {
    let part = subject.language()?;
    Some((part, part.model.signature("decode")?))
}

/// Reports what a signature and the declared names do not have in common.
fn compare(part: &Part<'_>, signature: &Signature, declared: &[[&str; 2]], executor: Spot<'_>, sink: &mut Sink<'_>) {
    let (inputs, outputs) = (names(&signature.inputs), names(&signature.outputs));
    for [input, output] in declared {
        for (name, found, direction) in [(*input, &inputs, "input"), (*output, &outputs, "output")] {
            if !found.contains(name) {
                sink.fault(executor, || {
                    let (name, key) = (crate::names::head(name), crate::names::head(&signature.key));
                    format!("state buffer `{name}` is declared, and no {direction} of `{key}`")
                });
            }
        }
    }
    let declared: BTreeSet<&str> = declared.iter().map(|names| names[0]).collect();
    for name in states::names(signature).into_iter().filter(|name| !declared.contains(name)) {
        sink.fault(part.spot_in(signature.subgraph).tensor(signature.input(name)), || {
            format!("`{}` goes in and comes out, and no state buffer is declared for it", crate::names::head(name))
        });
    }
}

fn names(tensors: &[(String, usize)]) -> HashSet<&str> {
    tensors.iter().map(|(name, _)| name.as_str()).collect()
}
