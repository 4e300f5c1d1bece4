//! Taking apart: a bundle goes in, a folder with a file per section comes out, whole or not at all.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use kinglet_bundle::write::{Digest, Hasher};
use kinglet_bundle::{Bundle, LlmMetadata, Section, SectionKind};

use crate::copy::fillings;
use crate::error::{Error, Result};
use crate::manifest::{self, Manifest, ManifestFile, ManifestFilling, ManifestItem, ManifestSection};

/// Bytes that are copied at once.
const STEP: usize = 1 << 22;

/// Unpacks `bundle` into `folder`, which is made. With `replace`, a folder that was unpacked before gives way.
///
/// # Errors
/// There is such a folder; no room; a section that cannot be read.
pub fn unpack(bundle: &Bundle, folder: &Path, replace: bool) -> Result<()> {
    if fs::symlink_metadata(folder).is_ok() && !(replace && folder.join(manifest::FILE).is_file()) {
        return Err(Error::exists(folder));
    }
    let temporary = Temporary::beside(folder)?;
    write_all(bundle, &temporary.0).map_err(|error| error.moved(&temporary.0, folder))?;
    if fs::symlink_metadata(folder).is_ok() {
        fs::remove_dir_all(folder).map_err(|error| Error::io(folder, error))?;
    }
    fs::rename(&temporary.0, folder).map_err(|error| Error::io(folder, error))
}

/// A folder in the making, removed unless it was renamed.
struct Temporary(PathBuf);

impl Temporary {
    fn beside(folder: &Path) -> Result<Temporary> {
        let Some(name) = folder.file_name() else {
            return Err(Error::invalid(folder.display(), "a name for the folder", "none"));
        };
        let hidden = format!(".{}.{}.partial", name.to_string_lossy(), std::process::id());
        let path = folder.with_file_name(hidden);
        fs::create_dir(&path).map_err(|error| Error::io(folder, error))?;
        Ok(Temporary(path))
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        // After the renaming it is not there, and nobody can be told of another failure.
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn write_all(bundle: &Bundle, folder: &Path) -> Result<()> {
    let mut manifest = Manifest::new(bundle.size_bytes(), bundle.system_metadata());
    write(&folder.join(manifest::HEADER), bundle.header_bytes())?;
    for section in bundle.sections() {
        manifest.sections.push(write_section(bundle, section, folder)?);
    }
    for (at, blob) in fillings(bundle) {
        let file = format!("between-{at}.bin");
        write(&folder.join(&file), &blob)?;
        manifest.fillings.push(ManifestFilling { at, file });
    }
    write(&folder.join(manifest::FILE), manifest.to_json().as_bytes())
}

fn write_section(bundle: &Bundle, section: &Section, folder: &Path) -> Result<ManifestSection> {
    let ending = match section.kind {
        SectionKind::TfLiteModel => "tflite",
        SectionKind::HfTokenizerZlib => "zlib",
        SectionKind::SpTokenizer => "model",
        SectionKind::LlmMetadata | SectionKind::ExecutorMetadata | SectionKind::EmbeddingMetadata => "pb",
        _ => "bin",
    };
    let kind = section.kind.to_string().replace(' ', "-");
    let of = section.model_type().filter(|of| of.chars().all(|c| c.is_ascii_alphanumeric() || c == '_'));
    let of = of.map(|of| format!("-{of}")).unwrap_or_default();
    let file = format!("{:02}-{kind}{of}.{ending}", section.index);
    let sha256 = copy(section, &folder.join(&file))?.to_string();
    let readable = match readable(bundle, section) {
        Some((name, bytes)) => {
            let file = format!("{:02}-{name}", section.index);
            write(&folder.join(&file), &bytes)?;
            Some(ManifestFile { file, sha256: Digest::of(&bytes).to_string() })
        }
        None => None,
    };
    let items = section.items.iter().map(ManifestItem::from).collect();
    Ok(ManifestSection { kind: section.kind.to_string(), file, sha256, items, readable })
}

/// What people want to read and change of a section; none where it cannot be read.
fn readable(bundle: &Bundle, section: &Section) -> Option<(&'static str, Vec<u8>)> {
    match section.kind {
        SectionKind::HfTokenizerZlib => Some(("tokenizer.json", bundle.tokenizer_json().ok()?)),
        SectionKind::LlmMetadata => {
            let metadata = LlmMetadata::decode(&section.data).ok()?;
            Some(("chat_template.jinja", metadata.jinja_prompt_template?.into_bytes()))
        }
        _ => None,
    }
}

/// Copies in steps, so that little of a large section is in memory.
fn copy(section: &Section, path: &Path) -> Result<Digest> {
    let failed = |error| Error::io(path, error);
    let mut file = BufWriter::new(File::create_new(path).map_err(failed)?);
    let mut hasher = Hasher::default();
    for start in (0..section.data.len()).step_by(STEP) {
        let part = section.data.slice(start..(start + STEP).min(section.data.len())).expect("inside the section");
        hasher.update(&part);
        file.write_all(&part).map_err(failed)?;
        part.release();
    }
    file.flush().map_err(failed)?;
    Ok(hasher.finish())
}

fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    fs::write(path, bytes).map_err(|error| Error::io(path, error))
}
