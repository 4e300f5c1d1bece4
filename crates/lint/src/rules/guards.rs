//! Known faults: padding that is told by token ids, so that a real token of that id never reaches the recurrent layers.

use kinglet_tflite::{ElementType, Signature};

use super::Rule;
use crate::op;
use crate::relations::Relations;
use crate::report::Sink;
use crate::states;
use crate::subject::{Part, Site, Subject};

/// Bytes of a constant that tokens are compared with: one value, or one for each token of the longest prefill.
const CONSTANT_LIMIT: usize = 4096;

const HINT: &str = "key the guard on positions: a row is valid if it is the first or its input_pos is above 0";

/// The guard of the published files.
pub(super) const TOKEN_ZERO: Rule = Rule {
    id: "guard-on-token-0",
    meaning: "known fault: the graph takes every token 0 for padding, because the runtime fills short chunks with zeros; a \
              real token 0 of a prompt, in Qwen's vocabulary `!`, never reaches the recurrent layers",
    hint: Some(HINT),
    check: |subject, sink| guards(subject, sink, |id| id == Some(0)),
};

/// The guard of the official exporter.
pub(super) const PAD_TOKEN: Rule = Rule {
    id: "guard-on-pad-token",
    meaning: "known fault: the graph tells padding by the id of a token; where that token stands in a prompt, as between \
              packed documents, it never reaches the recurrent layers",
    hint: Some(HINT),
    check: |subject, sink| guards(subject, sink, |id| id != Some(0)),
};

/// Reports what computes with token ids, and thereby with recurrent states, otherwise than by looking them up.
fn guards(subject: &Subject<'_>, sink: &mut Sink<'_>, is_meant: impl Fn(Option<i64>) -> bool) {
    for part in &subject.parts {
        for signature in part.signatures() {
            let Some(tokens) = signature.input("tokens") else { continue };
            let states = recurrent_outputs(subject, signature);
            if states.is_empty() {
                continue;
            }
            let relations = Relations::new(part, signature.subgraph);
            let guards = guards_of(part, &relations, tokens);
            let outputs = guards.iter().flat_map(|(site, _)| site.operator.outputs());
            let reached = relations.reached(outputs, |site, operand| !is_look_up(site, operand));
            let affected = states.iter().filter(|state| reached[**state]).count();
            if affected == 0 {
                continue;
            }
            for (site, id) in guards.iter().filter(|(_, id)| is_meant(*id)) {
                sink.fault(site.spot().tensor(Some(tokens)), || message(subject, site, *id, affected));
            }
        }
    }
}

fn message(subject: &Subject<'_>, site: &Site<'_>, id: Option<i64>, affected: usize) -> String {
    let Some(id) = id else {
        let name = site.name();
        return format!(
            "{name} of token ids decides what {affected} recurrent states see: the id should only be looked up"
        );
    };
    let text = subject.tokens().text(id).map(|text| format!(" (`{}`)", crate::names::head(text))).unwrap_or_default();
    format!("{} of tokens and {id}: token {id}{text} of a prompt is kept from {affected} recurrent states", site.name())
}

fn recurrent_outputs(subject: &Subject<'_>, signature: &Signature) -> Vec<usize> {
    let names = states::names(signature).into_iter().collect::<std::collections::HashSet<_>>();
    let outputs = signature.outputs.iter().filter(|(name, _)| names.contains(name.as_str()));
    outputs.filter(|(name, _)| states::is_recurrent(name, subject)).map(|(_, tensor)| *tensor).collect()
}

/// Operators that read token ids as numbers, and the constant that they compare them with, if it is that.
fn guards_of<'s>(part: &Part<'s>, relations: &Relations<'s>, tokens: usize) -> Vec<(Site<'s>, Option<i64>)> {
    let ids = relations.reached([tokens], |site, operand| is_view(site, operand));
    let mut found: Vec<(Site<'s>, Option<i64>)> = Vec::new();
    for (tensor, _) in ids.iter().enumerate().filter(|(_, is_ids)| **is_ids) {
        for (site, operand) in relations.readers(tensor) {
            if is_view(&site, operand) || is_look_up(&site, operand) || !site.is_any(op::BROADCASTING) {
                continue;
            }
            let constant = site.operator.input(1 - operand.min(1)).filter(|_| site.is_any(op::COMPARING));
            let id = constant.and_then(|constant| only_value(part, &site, constant));
            found.push((site, id));
        }
    }
    found
}

fn is_view(site: &Site<'_>, operand: usize) -> bool {
    site.is_any(op::VIEWS) && (operand == 0 || site.is_any(&[op::CONCATENATION, op::PACK]))
}

/// Whether an operand is an index into a table.
fn is_look_up(site: &Site<'_>, operand: usize) -> bool {
    match operand {
        0 => site.is(op::EMBEDDING_LOOKUP),
        1 => site.is_any(&[op::GATHER, op::GATHER_ND]),
        _ => false,
    }
}

/// The value that all elements of a small constant have.
fn only_value(part: &Part<'_>, site: &Site<'_>, tensor: usize) -> Option<i64> {
    let tensor = site.tensor(tensor);
    let data = part.model.data(tensor).filter(|data| data.len() <= CONSTANT_LIMIT)?;
    let width = tensor.element.bits().filter(|bits| *bits >= 8)? as usize / 8;
    let first = data.get(..width)?;
    if data.chunks(width).any(|value| value != first) {
        return None;
    }
    match tensor.element {
        ElementType::I32 => Some(i64::from(i32::from_le_bytes(first.try_into().ok()?))),
        ElementType::I64 => Some(i64::from_le_bytes(first.try_into().ok()?)),
        ElementType::F32 => Some(f32::from_le_bytes(first.try_into().ok()?) as i64),
        _ => None,
    }
}
