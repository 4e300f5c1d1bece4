//! Two bundles go in, what differs between them comes out: items, sections by digest, metadata field by field, signatures
//! and weights of graphs.

use std::collections::{BTreeMap, BTreeSet};

use kinglet_bundle::write::Digest;
use kinglet_bundle::{Bundle, ExecutorMetadata, Item, LlmMetadata, Section, SectionKind};
use serde::Serialize;
use serde_json::Value;

/// What differs between two bundles. Nothing differs where both files are the same bytes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// Whether the files are the same, byte for byte.
    pub same: bool,
    /// What is said of the whole bundles in different ways.
    pub system: Vec<Change>,
    /// All sections of both, in the order of the first.
    pub sections: Vec<SectionComparison>,
}

/// A section that is in one bundle or both.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SectionComparison {
    /// What it holds, and what a model is for.
    pub name: String,
    /// In which bundles it is, and whether it is the same.
    pub state: State,
    /// In the first bundle.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first: Option<Facts>,
    /// In the second bundle.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub second: Option<Facts>,
    /// What differs inside, as far as it can be told.
    pub changes: Vec<Change>,
}

/// Where a section is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// In both, with the same bytes and items.
    Same,
    /// In both, with other bytes or items.
    Changed,
    /// In the second only.
    Added,
    /// In the first only.
    Removed,
}

/// A section by length and digest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Facts {
    /// Length in bytes.
    pub size_bytes: u64,
    /// SHA-256.
    pub sha256: Digest,
}

/// A value that is another in the second bundle; absent where it is not there.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Change {
    /// What it is.
    pub what: String,
    /// In the first bundle.
    pub first: Option<Value>,
    /// In the second bundle.
    pub second: Option<Value>,
}

/// Compares two bundles.
pub fn diff(first: &Bundle, second: &Bundle) -> Comparison {
    let mut sections = Vec::new();
    let mut left: Vec<(String, &Section)> = named(second);
    for (name, a) in named(first) {
        let at = left.iter().position(|(other, _)| *other == name);
        let b = at.map(|at| left.remove(at).1);
        sections.push(compare(name, Some((first, a)), b.map(|b| (second, b))));
    }
    sections.extend(left.into_iter().map(|(name, b)| compare(name, None, Some((second, b)))));
    let mut system = Vec::new();
    values("", Some(&items(first.system_metadata())), Some(&items(second.system_metadata())), &mut system);
    Comparison { same: Digest::of_blob(first.file()) == Digest::of_blob(second.file()), system, sections }
}

/// Sections with names that tell those of a kind apart.
fn named(bundle: &Bundle) -> Vec<(String, &Section)> {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    let name = |section: &Section| match section.model_type() {
        Some(of) => format!("{} {of}", section.kind),
        None => section.kind.to_string(),
    };
    let mut numbered = |section| {
        let name = name(section);
        let count = counts.entry(name.clone()).or_default();
        *count += 1;
        if *count == 1 { name } else { format!("{name} {count}") }
    };
    bundle.sections().iter().map(|section| (numbered(section), section)).collect()
}

type Side<'b> = Option<(&'b Bundle, &'b Section)>;

fn compare(name: String, first: Side<'_>, second: Side<'_>) -> SectionComparison {
    let facts = |side: Side<'_>| {
        side.map(|(_, section)| Facts { size_bytes: section.data.len() as u64, sha256: Digest::of_blob(&section.data) })
    };
    let (a, b) = (facts(first), facts(second));
    let mut changes = Vec::new();
    let state = match (first, second) {
        (None, _) => State::Added,
        (_, None) => State::Removed,
        (Some(first), Some(second)) => {
            values("item", Some(&items(&first.1.items)), Some(&items(&second.1.items)), &mut changes);
            if a == b && changes.is_empty() {
                State::Same
            } else {
                inside(first, second, &mut changes);
                State::Changed
            }
        }
    };
    SectionComparison { name, state, first: a, second: b, changes }
}

fn inside(first: (&Bundle, &Section), second: (&Bundle, &Section), changes: &mut Vec<Change>) {
    if first.1.data[..] == second.1.data[..] {
        return;
    }
    let read = |(bundle, section): (&Bundle, &Section)| match section.kind {
        SectionKind::LlmMetadata => serde_json::to_value(LlmMetadata::decode(&section.data).ok()?).ok(),
        SectionKind::ExecutorMetadata => serde_json::to_value(ExecutorMetadata::decode(&section.data).ok()?).ok(),
        SectionKind::GenericBinaryData if section.item(kinglet_bundle::OWN_ITEM).is_some() => {
            serde_json::from_slice(&section.data).ok()
        }
        SectionKind::TfLiteModel => Some(graph(bundle, section)),
        _ => None,
    };
    values("", read(first).as_ref(), read(second).as_ref(), changes);
}

/// Signatures with their operators, and the large constants by digest: where and under which names they lie says nothing.
fn graph(bundle: &Bundle, section: &Section) -> Value {
    let model = match section.model_type() {
        Some("prefill_decode") => bundle.model().ok(),
        Some("embedder") => bundle.embedder().ok().flatten(),
        _ => None,
    };
    let Some(model) = model else { return Value::Null };
    let signatures = model.signatures().iter().map(|signature| {
        let graph = model.subgraph_of(signature);
        let operators: usize = model.operator_counts(signature).into_iter().map(|(_, count)| count).sum();
        let facts = serde_json::json!({ "tensors": graph.tensors().len(), "operators": operators });
        (signature.key.clone(), facts)
    });
    let signatures: serde_json::Map<String, Value> = signatures.collect();
    let mut seen = BTreeSet::new();
    let mut weights: BTreeMap<String, u64> = BTreeMap::new();
    for tensor in model.subgraphs().iter().flat_map(|graph| graph.tensors()) {
        let Some(data) = model.data(tensor).filter(|data| data.len() >= LARGE) else { continue };
        if seen.insert((data.as_ptr() as usize, data.len())) {
            let what = format!("{}{} {}", tensor.element, tensor.shape, &Digest::of_blob(&data).to_string()[..16]);
            *weights.entry(what).or_default() += 1;
        }
    }
    serde_json::json!({ "signature": signatures, "weight": weights })
}

/// Bytes of constants that are compared; smaller ones are numbers of the graph.
const LARGE: usize = 256;

fn items(items: &[Item]) -> Value {
    let value = |item: &Item| match &item.value {
        kinglet_bundle::Value::Unknown(_) => Value::String(item.value.to_string()),
        known => serde_json::to_value(known).unwrap_or_default(),
    };
    Value::Object(items.iter().map(|item| (item.key.clone(), value(item))).collect())
}

/// Notes where two values differ, down to the fields of objects.
fn values(what: &str, first: Option<&Value>, second: Option<&Value>, changes: &mut Vec<Change>) {
    match (first, second) {
        (Some(Value::Object(a)), Some(Value::Object(b))) => {
            let keys: BTreeSet<&String> = a.keys().chain(b.keys()).collect();
            for key in keys {
                let what = if what.is_empty() { key.clone() } else { format!("{what} {key}") };
                values(&what, a.get(key), b.get(key), changes);
            }
        }
        (a, b) if a != b => changes.push(Change { what: what.to_owned(), first: a.cloned(), second: b.cloned() }),
        _ => {}
    }
}
