//! What a bundle holds, whether or not this program runs it.

use kinglet_bundle::tflite::{Model, Signature};
use kinglet_bundle::{Bundle, Item, Section, SectionKind, Value};
use serde_json::{Map, json};

use super::findings::{BundleFacts, Findings, SectionFacts, SignatureFacts};

/// Fills in what the container and its graph say.
pub(super) fn describe(bundle: &Bundle, metadata: bool, findings: &mut Findings) -> anyhow::Result<()> {
    findings.kind = "bundle";
    let model = match bundle.section(SectionKind::TfLiteModel, Some("prefill_decode")) {
        Some(_) => Some(bundle.model()?),
        None => None,
    };
    let signatures = model.iter().flat_map(|model| model.signatures().iter().map(|s| signature(model, s))).collect();
    findings.bundle = Some(BundleFacts {
        size_bytes: bundle.size_bytes(),
        version: bundle.version().to_string(),
        sections: bundle.sections().iter().map(section).collect(),
        signatures,
    });
    if metadata {
        findings.metadata = Some(said(bundle)?);
    }
    Ok(())
}

fn section(section: &Section) -> SectionFacts {
    SectionFacts {
        index: section.index,
        kind: section.kind.to_string(),
        model_type: section.model_type().map(str::to_owned),
        begin: section.range.start,
        end: section.range.end,
    }
}

fn signature(model: &Model, signature: &Signature) -> SignatureFacts {
    let subgraph = model.subgraph_of(signature);
    let named = |(name, index): &(String, usize)| {
        let tensor = &subgraph.tensors()[*index];
        format!("{name} {}{}", tensor.element, tensor.shape)
    };
    SignatureFacts {
        key: signature.key.clone(),
        tensors: subgraph.tensors().len(),
        inputs: signature.inputs.iter().map(named).collect(),
        outputs: signature.outputs.iter().map(named).collect(),
        operators: model.operator_counts(signature).into_iter().map(|(kind, count)| (kind, count.into())).collect(),
    }
}

/// The metadata as JSON: of the whole bundle, of each section, of the language model, of the executor, and what this
/// program said of a bundle that it made.
fn said(bundle: &Bundle) -> anyhow::Result<serde_json::Value> {
    let sections: Vec<_> = bundle.sections().iter().map(|section| items(&section.items)).collect();
    let llm = match bundle.section(SectionKind::LlmMetadata, None) {
        Some(_) => Some(bundle.llm_metadata()?),
        None => None,
    };
    Ok(json!({
        "system": items(bundle.system_metadata()),
        "sections": sections,
        "llm": llm,
        "executor": bundle.executor_metadata()?,
        "own": bundle.own().and_then(|own| serde_json::from_slice::<serde_json::Value>(&own.data).ok()),
    }))
}

fn items(items: &[Item]) -> serde_json::Value {
    let value = |value: &Value| match value {
        Value::Unknown(_) => json!(value.to_string()),
        known => json!(known),
    };
    items.iter().map(|item| (item.key.clone(), value(&item.value))).collect::<Map<_, _>>().into()
}
