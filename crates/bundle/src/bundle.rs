//! A bundle: a path or bytes go in; its sections, metadata, tokenizer and models come out on request.

use std::path::Path;

use kinglet_blob::Blob;

use crate::container::{Header, Version};
use crate::error::{Error, Inner};
use crate::metadata::METADATA_LIMIT;
use crate::section::{Item, Section, SectionKind};
use crate::{ExecutorMetadata, LlmMetadata, Result, tokenizer, wire};

/// A `.litertlm` file whose header has been checked. Sections are read when they are asked for.
///
/// ```no_run
/// let bundle = kinglet_bundle::Bundle::open("model.litertlm".as_ref())?;
/// for section in bundle.sections() {
///     println!("{} {}..{}", section.label(), section.range.start, section.range.end);
/// }
/// let model = bundle.model()?;
/// println!("{}", model.listing(false));
/// # Ok::<(), kinglet_bundle::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Bundle {
    name: String,
    file: Blob,
    header: Header,
    sections: Vec<Section>,
}

/// The kind of tokenizer that a bundle carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Tokenizer {
    /// `tokenizer.json` of Hugging Face.
    HuggingFace,
    /// SentencePiece.
    SentencePiece,
}

impl Bundle {
    /// Maps a file and checks its header. The file must not change while the bundle or a part of it lives.
    pub fn open(path: &Path) -> Result<Bundle> {
        let blob = Blob::map(path)
            .map_err(|error| Error { file: error.path.display().to_string(), inner: Inner::Open(error.source) })?;
        Bundle::from_blob(blob, &path.display().to_string())
    }

    /// Checks the header of a bundle in memory; messages call it `name`.
    pub fn from_blob(blob: Blob, name: &str) -> Result<Bundle> {
        let header = Header::parse(&blob, blob.len() as u64).map_err(|inner| Error { file: name.to_owned(), inner })?;
        let sections = header.entries.iter().enumerate().map(|(index, entry)| {
            let range = entry.range.start as usize..entry.range.end as usize;
            let data = blob.slice(range).expect("the header's ranges lie inside the file");
            Section { index, kind: entry.kind, items: entry.items.clone(), range: entry.range.clone(), data }
        });
        Ok(Bundle { name: name.to_owned(), sections: sections.collect(), file: blob, header })
    }

    /// What the header of a file of `len` bytes says of the whole bundle, and of each section; `start` holds the header.
    pub fn items_of(name: &str, start: &[u8], len: u64) -> Result<(Vec<Item>, Vec<Vec<Item>>)> {
        let header = Header::parse(start, len).map_err(|inner| Error { file: name.to_owned(), inner })?;
        Ok((header.system, header.entries.into_iter().map(|entry| entry.items).collect()))
    }

    /// What messages call it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Length of the file in bytes.
    pub fn size_bytes(&self) -> u64 {
        self.file.len() as u64
    }

    /// Version of the container.
    pub fn version(&self) -> Version {
        self.header.version
    }

    /// What the writer said of the whole bundle.
    pub fn system_metadata(&self) -> &[Item] {
        &self.header.system
    }

    /// The first bytes of the file, up to the end of the header.
    pub fn header_bytes(&self) -> &[u8] {
        &self.file[..self.header.len as usize]
    }

    /// All bytes of the file.
    pub fn file(&self) -> &Blob {
        &self.file
    }

    /// Kinglet's own section, which other runtimes pass over: [`OWN_ITEM`](crate::OWN_ITEM) tells it, and holds the
    /// version of its format.
    pub fn own(&self) -> Option<&Section> {
        let is_own = |s: &&Section| s.kind == SectionKind::GenericBinaryData && s.item(crate::OWN_ITEM).is_some();
        self.sections().iter().find(is_own)
    }

    /// All sections in the order of the header, which need not be that of the file.
    pub fn sections(&self) -> &[Section] {
        &self.sections
    }

    /// The section of a kind; for models and weights, that of a model type such as `prefill_decode`.
    pub fn section(&self, kind: SectionKind, model_type: Option<&str>) -> Option<&Section> {
        let wanted = |s: &&Section| s.kind == kind && (model_type.is_none() || s.model_type() == model_type);
        self.sections().iter().find(wanted)
    }

    /// What the bundle says of its language model.
    pub fn llm_metadata(&self) -> Result<LlmMetadata> {
        self.proto(SectionKind::LlmMetadata, "LlmMetadata")
    }

    /// What the bundle says of the state tensors; `None` where it says nothing.
    pub fn executor_metadata(&self) -> Result<Option<ExecutorMetadata>> {
        match self.section(SectionKind::ExecutorMetadata, None) {
            Some(_) => self.proto(SectionKind::ExecutorMetadata, "ExecutorMetadata").map(Some),
            None => Ok(None),
        }
    }

    /// The kind of tokenizer in the bundle.
    pub fn tokenizer(&self) -> Option<Tokenizer> {
        let has = |kind| self.section(kind, None).is_some();
        if has(SectionKind::HfTokenizerZlib) {
            return Some(Tokenizer::HuggingFace);
        }
        has(SectionKind::SpTokenizer).then_some(Tokenizer::SentencePiece)
    }

    /// `tokenizer.json`, unpacked: at most [`TOKENIZER_LIMIT`](crate::TOKENIZER_LIMIT) bytes.
    pub fn tokenizer_json(&self) -> Result<Vec<u8>> {
        if self.tokenizer() == Some(Tokenizer::SentencePiece) {
            let what = "the tokenizer is a SentencePiece model, expected a tokenizer.json".to_owned();
            return Err(self.error(Inner::Unsupported { what }));
        }
        let section = self.required(SectionKind::HfTokenizerZlib, None)?;
        tokenizer::inflate(&section.data)
            .map_err(|problem| self.error(Inner::Invalid { what: section.label(), problem }))
    }

    /// The language model: the TFLite section of type `prefill_decode`, with its section of weights if there is one.
    pub fn model(&self) -> Result<kinglet_tflite::Model> {
        self.tflite(self.required(SectionKind::TfLiteModel, Some("prefill_decode"))?)
    }

    /// The embedding as a model of its own, where the language model takes embeddings instead of tokens.
    pub fn embedder(&self) -> Result<Option<kinglet_tflite::Model>> {
        let section = self.section(SectionKind::TfLiteModel, Some("embedder"));
        section.map(|section| self.tflite(section)).transpose()
    }

    fn tflite(&self, section: &Section) -> Result<kinglet_tflite::Model> {
        let weights = self.sections().iter();
        let weights = weights
            .filter(|s| s.kind == SectionKind::TfLiteWeights)
            .find(|s| s.model_type() == section.model_type())
            .map(|s| s.data.clone());
        kinglet_tflite::Model::parse(section.data.clone(), weights)
            .map_err(|source| self.error(Inner::Tflite { what: section.label(), source }))
    }

    fn proto<M: wire::Message>(&self, kind: SectionKind, name: &'static str) -> Result<M> {
        let section = self.required(kind, None)?;
        let what = section.label();
        if section.data.len() as u64 > METADATA_LIMIT {
            let problem = format!("expected at most {METADATA_LIMIT} bytes, found {}", section.data.len());
            return Err(self.error(Inner::Invalid { what, problem }));
        }
        wire::decode(&section.data, name).map_err(|fault| self.error(Inner::Proto { what, fault }))
    }

    fn required(&self, kind: SectionKind, model_type: Option<&str>) -> Result<&Section> {
        self.section(kind, model_type).ok_or_else(|| {
            let describe = |kind: SectionKind, of: Option<&str>| match of {
                Some(of) => format!("{kind} of model_type `{of}`"),
                None => kind.to_string(),
            };
            let found: Vec<String> = self.sections().iter().map(|s| describe(s.kind, s.model_type())).collect();
            let found = if found.is_empty() { "no section".to_owned() } else { found.join(", ") };
            self.error(Inner::Absent { wanted: describe(kind, model_type), found })
        })
    }

    fn error(&self, inner: Inner) -> Error {
        Error { file: self.name.clone(), inner }
    }
}
