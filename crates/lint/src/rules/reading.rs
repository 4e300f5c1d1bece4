//! Parts of a bundle that cannot be read, and parts that are not there.

use kinglet_bundle::SectionKind;

use super::Rule;
use crate::place::Spot;

/// A section that this program cannot read, or a language model without metadata.
pub(super) const UNREADABLE: Rule = Rule {
    id: "unreadable",
    meaning: "every section should be readable, and a language model should have its metadata",
    hint: None,
    check: |subject, sink| {
        for (section, problem) in &subject.unreadable {
            sink.fault(section.map_or_else(Spot::default, Spot::section), || problem.clone());
        }
        let has_metadata = subject.bundle.section(SectionKind::LlmMetadata, None).is_some();
        if let Some(part) = subject.language().filter(|_| !has_metadata) {
            sink.fault(part.spot(), || "the bundle has a language model, and no LlmMetadata for it".to_owned());
        }
    },
};
