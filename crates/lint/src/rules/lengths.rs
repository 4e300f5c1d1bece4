//! Positions: masks, caches and metadata that should agree, and the ladder of prefill lengths.

use std::collections::BTreeMap;

use kinglet_tflite::Signature;

use super::Rule;
use crate::names::head;
use crate::report::Sink;
use crate::states;
use crate::subject::{Part, Subject};

/// Prefill signatures that are looked at; the longest known ladder has 11.
const LADDER_LIMIT: usize = 64;

/// Prefill signatures, in the order of the file.
pub(super) fn prefills<'s>(part: &'s Part<'_>) -> impl Iterator<Item = &'s Signature> {
    part.signatures().filter(|signature| signature.key.starts_with("prefill")).take(LADDER_LIMIT)
}

/// Caches, mask and stated length that differ.
pub(super) const CACHE_LENGTH: Rule = Rule {
    id: "cache-length",
    meaning: "caches, mask and max_num_tokens should hold the same number of positions",
    hint: Some("set max_num_tokens to the length of the caches"),
    check: |subject, sink| {
        let Some(part) = subject.language() else { return };
        let mut lengths: BTreeMap<u32, &str> = BTreeMap::new();
        let decode = part.signatures().filter(|signature| signature.key == "decode");
        for signature in prefills(part).chain(decode) {
            positions(subject, part, signature, sink).into_iter().for_each(|(n, name)| {
                lengths.entry(n).or_insert(name);
            });
        }
        stated(subject, &lengths, sink);
    },
};

/// The lengths of a signature's caches and mask, each with a tensor that has it.
fn positions<'s>(
    subject: &Subject<'_>,
    part: &'s Part<'_>,
    signature: &'s Signature,
    sink: &mut Sink<'_>,
) -> Vec<(u32, &'s str)> {
    let tensors = part.model.subgraph_of(signature).tensors();
    let mut found: Vec<(u32, &str)> = Vec::new();
    for (name, tensor) in &signature.inputs {
        let shape = &tensors[*tensor].shape;
        let length = match (name.as_str(), states::cache_axis(name)) {
            ("mask", _) if shape.len() == 4 => shape.last(),
            (_, Some(axis)) if !states::is_recurrent(name, subject) => shape.get(axis),
            _ => None,
        };
        // A length of 1 stands for one that is only known when the model runs.
        let Some(length) = length.copied().filter(|length| *length > 1) else { continue };
        match found.first() {
            Some((first, other)) if *first != length => {
                sink.fault(part.spot_in(signature.subgraph).tensor(Some(*tensor)), || {
                    format!("`{}` holds {length} positions, `{}` holds {first}", head(name), head(other))
                });
            }
            Some(_) => {}
            None => found.push((length, name)),
        }
    }
    found
}

/// Compares the lengths of all signatures with each other and with what the metadata states.
fn stated(subject: &Subject<'_>, lengths: &BTreeMap<u32, &str>, sink: &mut Sink<'_>) {
    let (Some((least, _)), Some((most, _))) = (lengths.first_key_value(), lengths.last_key_value()) else { return };
    if least != most {
        let spot = subject.language().map(|part| part.spot()).unwrap_or_default();
        sink.fault(spot, || format!("signatures have caches of {least} to {most} positions"));
    }
    let stated = subject.llm.as_ref().map_or(0, |llm| llm.max_num_tokens);
    match u32::try_from(stated) {
        Ok(0) => {}
        Ok(stated) if stated > *least => sink.fault(subject.llm_spot(), || {
            format!("max_num_tokens is {stated}, the caches hold {least} positions: what comes later is lost")
        }),
        Ok(stated) if stated < *least => sink.note(subject.llm_spot(), || {
            format!("max_num_tokens is {stated}, the caches hold {least} positions: the rest is never used")
        }),
        Ok(_) => {}
        Err(_) => sink.fault(subject.llm_spot(), || format!("max_num_tokens is {stated}")),
    }
}

/// The lengths that prefill comes in.
pub(super) const LADDER: Rule = Rule {
    id: "prefill-ladder",
    meaning: "a language model needs `decode` and a prefill signature; each costs memory at run time, used or not",
    hint: None,
    check: |subject, sink| {
        let Some(part) = subject.language() else { return };
        let mut rungs: Vec<u64> = prefills(part).filter_map(|signature| rung(part, signature)).collect();
        rungs.sort_unstable_by_key(|rung| std::cmp::Reverse(*rung));
        let has_decode = part.model.signature("decode").is_some();
        if !has_decode || prefills(part).next().is_none() {
            sink.fault(part.spot(), || {
                let missing = if has_decode { "prefill signature" } else { "signature `decode`" };
                format!("the language model has no {missing}")
            });
        }
        if !rungs.is_empty() {
            let rungs: Vec<String> = rungs.iter().map(u64::to_string).collect();
            sink.note(part.spot(), || format!("prefill comes in chunks of {}", rungs.join(", ")));
        }
    },
};

/// Tokens that a prefill signature takes at a time.
fn rung(part: &Part<'_>, signature: &Signature) -> Option<u64> {
    let tensors = part.model.subgraph_of(signature).tensors();
    let positions = signature.input("input_pos").or_else(|| signature.input("tokens"));
    positions.map(|tensor| tensors[tensor].shape.elements())
}
