//! A bundle as the parts of another: sections, and what lies between them where it is not zeros.

use std::ops::Range;

use kinglet_blob::Blob;
use kinglet_bundle::write::{Part, Writer};
use kinglet_bundle::{Bundle, Section, SectionKind};

use crate::error::Result;

/// Kind under which fillings are written; they stand in no header.
const FILLING: SectionKind = SectionKind::GenericBinaryData;

/// A writer whose bundle is `bundle` again, byte for byte, unless a part is exchanged.
pub(crate) fn writer<'a>(bundle: &Bundle, mut part: impl FnMut(&Section) -> Result<Part<'a>>) -> Result<Writer<'a>> {
    let mut writer = Writer::like(bundle.name(), bundle.header_bytes(), bundle.size_bytes())?;
    for section in bundle.sections() {
        writer.add(part(section)?);
    }
    for (at, blob) in fillings(bundle) {
        writer.fill(at, Part::blob(FILLING, Vec::new(), blob));
    }
    Ok(writer)
}

/// The section as it is.
pub(crate) fn unchanged<'a>(section: &Section) -> Part<'a> {
    Part::blob(section.kind, section.items.clone(), section.data.clone())
}

/// What lies outside of all sections and is not zeros, with the byte of the file at which it begins.
pub(crate) fn fillings(bundle: &Bundle) -> Vec<(u64, Blob)> {
    let sections = bundle.sections().iter().map(|section| section.range.clone());
    let (header, end) = (0..bundle.header_bytes().len() as u64, bundle.size_bytes()..bundle.size_bytes());
    let mut taken: Vec<Range<u64>> = std::iter::once(header).chain(sections).chain([end]).collect();
    taken.sort_by_key(|range| (range.start, range.end));
    let mut end = 0;
    let mut fillings = Vec::new();
    for range in taken {
        if range.start > end {
            let blob = bundle.file().slice(end as usize..range.start as usize);
            let blob = blob.filter(|bytes| bytes.iter().any(|byte| *byte != 0));
            fillings.extend(blob.map(|blob| (end, blob)));
        }
        end = end.max(range.end);
    }
    fillings
}
