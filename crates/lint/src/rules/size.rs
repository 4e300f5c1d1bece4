//! Bytes that a bundle could do without.

use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};

use super::Rule;
use crate::report::Sink;
use crate::subject::Part;

/// Bytes of names that no graph of the family needs, at 12 signatures of 2000 operators.
const NAMES_LIMIT: u64 = 2_000_000;

/// Names of tensors that are a good part of the file.
pub(super) const TENSOR_NAMES: Rule = Rule {
    id: "tensor-names",
    meaning: "names of tensors should take less than 2 MB: they are read, kept and never used",
    hint: Some("give tensors short names when the graph is written"),
    check: |subject, sink| {
        for part in subject.parts.iter().filter(|part| part.names.total > NAMES_LIMIT) {
            let longest = part.names.longest;
            let spot =
                longest.map_or_else(|| part.spot(), |(graph, tensor, _)| part.spot_in(graph).tensor(Some(tensor)));
            sink.warning(spot, || {
                let (total, distinct) = (part.names.total, part.names.distinct);
                let longest = longest.map_or(0, |(_, _, len)| len);
                format!("{distinct} names take {total} bytes; the longest, this one, has {longest}")
            });
        }
    },
};

/// Constants that are stored twice.
pub(super) const DUPLICATES: Rule = Rule {
    id: "weights-stored-twice",
    meaning: "weights should be stored once and shared by all signatures",
    hint: Some("let both tensors name one buffer"),
    check: |subject, sink| subject.parts.iter().for_each(|part| duplicates(part, sink)),
};

/// Smaller constants, such as masks and norms, are not worth a word.
const WORTHWHILE: usize = 64 << 10;
/// Bytes at the start, in the middle and at the end that tell most constants apart.
const SAMPLE: usize = 256;

/// Different constants with one sample that are remembered.
const ALIKE: usize = 4;

struct Constant {
    graph: usize,
    index: usize,
    buffer: usize,
}

fn duplicates(part: &Part<'_>, sink: &mut Sink<'_>) {
    let mut firsts: HashMap<(usize, u64), Vec<Constant>> = HashMap::new();
    let mut seen = HashSet::new();
    // Each constant is compared in full with a few others at most, and all of them with no more than the section has.
    let mut budget = part.section.data.len();
    for (graph, subgraph) in part.model.subgraphs().iter().enumerate() {
        for (index, tensor) in subgraph.tensors().iter().enumerate() {
            let Some(data) = part.model.data(tensor).filter(|data| data.len() >= WORTHWHILE) else { continue };
            if !seen.insert((data.as_ptr() as usize, data.len())) {
                continue;
            }
            let alike = firsts.entry((data.len(), digest(&data))).or_default();
            let twin = alike.iter().find(|other| {
                let other = &part.model.subgraphs()[other.graph].tensors()[other.index];
                let Some(rest) = budget.checked_sub(data.len()) else { return false };
                budget = rest;
                part.model.data(other).is_some_and(|other| *other == *data)
            });
            match twin {
                Some(first) => sink.warning(part.spot_in(graph).tensor(Some(index)), || {
                    let label = part.label(first.graph, first.index);
                    let (bytes, buffer) = (data.len(), tensor.buffer);
                    format!("{bytes} bytes in buffer {buffer} equal those of {label} in buffer {}", first.buffer)
                }),
                None if alike.len() < ALIKE => alike.push(Constant { graph, index, buffer: tensor.buffer }),
                None => {}
            }
        }
    }
}

fn digest(data: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    for start in [0, data.len() / 2, data.len() - SAMPLE] {
        data[start..start + SAMPLE].hash(&mut hasher);
    }
    hasher.finish()
}
