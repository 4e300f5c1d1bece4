//! Putting together: an unpacked folder goes in, the bundle comes out: the same bytes where nothing was changed, else with
//! the changed files in place of the old.

use std::path::Path;

use kinglet_blob::Blob;
use kinglet_bundle::write::{Digest, Output, Part, Receipt, Watch, Writer, tokenizer_section};
use kinglet_bundle::{Bundle, Item, LlmMetadata, SectionKind, metadata::LlmField};

use crate::error::{Error, Result};
use crate::manifest::{self, Manifest, ManifestItem, ManifestSection};

/// What a packed bundle consists of, and which sections are not as they were when the folder was unpacked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packed {
    /// Lengths and digests.
    pub receipt: Receipt,
    /// Files of sections that were changed since.
    pub changed: Vec<String>,
}

/// Packs `folder` into `output`, which the caller commits.
///
/// # Errors
/// A manifest that names files outside its folder, or none that are there; a section whose bytes and readable file were
/// both changed; items that cannot be stored.
pub fn pack(folder: &Path, output: &mut Output, watch: &mut Watch<'_>) -> Result<Packed> {
    let manifest = Manifest::read(folder)?;
    let header = map(&folder.join(manifest::HEADER))?;
    let shown = folder.join(manifest::HEADER).display().to_string();
    let mut writer = Writer::like(&shown, &header, manifest.size_bytes)?;
    let known = Known::read(&shown, &header, manifest.size_bytes)?;
    let mut changed = Vec::new();
    for (index, section) in manifest.sections.iter().enumerate() {
        writer.add(part(folder, section, known.items(index), &mut changed)?);
    }
    *writer.system_mut() = items(folder, &manifest.system, &known.system)?;
    for filling in &manifest.fillings {
        let blob = map(&folder.join(&filling.file))?;
        writer.fill(filling.at, Part::blob(SectionKind::GenericBinaryData, Vec::new(), blob));
    }
    let name = output.target().display().to_string();
    output.expect(writer.size_bytes(&name)?)?;
    let receipt = writer.write(&name, output, watch)?;
    Ok(Packed { receipt, changed })
}

/// The items of the header as it was, which hold more than JSON can.
struct Known {
    system: Vec<Item>,
    sections: Vec<Vec<Item>>,
}

impl Known {
    fn read(name: &str, header: &Blob, len: u64) -> Result<Known> {
        let (system, sections) = Bundle::items_of(name, header, len)?;
        Ok(Known { system, sections })
    }

    fn items(&self, index: usize) -> &[Item] {
        self.sections.get(index).map_or(&[], Vec::as_slice)
    }
}

fn part(folder: &Path, section: &ManifestSection, known: &[Item], changed: &mut Vec<String>) -> Result<Part<'static>> {
    let path = folder.join(&section.file);
    let Some(kind) = SectionKind::from_name(&section.kind) else {
        return Err(Error::invalid(folder.join(manifest::FILE).display(), "kinds of sections", &section.kind));
    };
    let blob = map(&path)?;
    let bytes_changed = Digest::of_blob(&blob).to_string() != section.sha256;
    let blob = match &section.readable {
        Some(readable) => {
            let readable_path = folder.join(&readable.file);
            let text = map(&readable_path)?;
            let is_as_it_was = Digest::of_blob(&text).to_string() == readable.sha256;
            if !is_as_it_was && bytes_changed {
                let expected = format!("a change of it or of {}, not of both", readable.file);
                return Err(Error::invalid(path.display(), expected, "both changed"));
            }
            if is_as_it_was { blob } else { exchanged(kind, &readable_path, &blob, &text, &mut *changed)? }
        }
        None => blob,
    };
    if bytes_changed {
        changed.push(section.file.clone());
    }
    Ok(Part::blob(kind, items(folder, &section.items, known)?, blob))
}

/// The section `old` with `text` in place of what was readable of it.
fn exchanged(kind: SectionKind, path: &Path, old: &Blob, text: &Blob, changed: &mut Vec<String>) -> Result<Blob> {
    changed.push(path.file_name().unwrap_or_default().to_string_lossy().into_owned());
    let bytes = match kind {
        SectionKind::HfTokenizerZlib => tokenizer_section(text),
        SectionKind::LlmMetadata => {
            let template = std::str::from_utf8(text)
                .map_err(|error| Error::invalid(path.display(), "UTF-8", format!("{error}")))?;
            let metadata = LlmMetadata { jinja_prompt_template: Some(template.to_owned()), ..LlmMetadata::default() };
            metadata
                .replace_in(old, &[LlmField::Template])
                .map_err(|fault| Error::invalid(path.display(), "metadata that can be read", fault.to_string()))?
        }
        _ => return Err(Error::unsupported(path.display(), "this kind of section has no readable form")),
    };
    Ok(Blob::from_vec(bytes))
}

fn items(folder: &Path, said: &[ManifestItem], known: &[Item]) -> Result<Vec<Item>> {
    let item = |(index, item): (usize, &ManifestItem)| {
        let original = known.get(index).filter(|known| known.key == item.key);
        item.to_item(original).map_err(|found| {
            let place = format!("{}: item `{}`", folder.join(manifest::FILE).display(), item.key.escape_debug());
            Error::invalid(place, "a value of its type", found)
        })
    };
    said.iter().enumerate().map(item).collect()
}

fn map(path: &Path) -> Result<Blob> {
    let facts = std::fs::symlink_metadata(path).map_err(|error| Error::io(path, error))?;
    if !facts.is_file() {
        return Err(Error::invalid(path.display(), "a regular file", "something else"));
    }
    Blob::map(path).map_err(|error| Error::io(path, error.source))
}
