//! What rules see: a bundle goes in, its models, metadata and tokenizer come out, read once, with what cannot be read.

use std::cell::OnceCell;
use std::collections::HashMap;

use kinglet_bundle::metadata::StateKind;
use kinglet_bundle::{Bundle, ExecutorMetadata, LlmMetadata, Section, SectionKind, Value};
use kinglet_tflite::{Kind, Model, Operator, Signature, Subgraph, Tensor};

use crate::names::{Names, head};
use crate::place::Spot;
use crate::tokenizer::Tokens;
use crate::{op, states};

/// A bundle, read.
pub(crate) struct Subject<'b> {
    pub(crate) bundle: &'b Bundle,
    /// Every TFLite section that can be read.
    pub(crate) parts: Vec<Part<'b>>,
    pub(crate) llm: Option<LlmMetadata>,
    pub(crate) executor: Option<ExecutorMetadata>,
    /// Sections that cannot be read, and why.
    pub(crate) unreadable: Vec<(Option<&'b Section>, String)>,
    state_kinds: HashMap<String, StateKind>,
    tokens: OnceCell<Tokens>,
}

/// A TFLite section.
#[derive(Debug)]
pub(crate) struct Part<'b> {
    pub(crate) section: &'b Section,
    pub(crate) model: Model,
    pub(crate) names: Names,
    /// Whether the section leaves GPUs free to run it.
    pub(crate) reaches_gpu: bool,
    /// For each subgraph the first signature that runs it, itself or through composites.
    entries: Vec<Option<usize>>,
}

/// An operator where it stands.
#[derive(Clone, Copy)]
pub(crate) struct Site<'s> {
    pub(crate) part: &'s Part<'s>,
    pub(crate) graph: usize,
    pub(crate) node: usize,
    pub(crate) operator: Operator<'s>,
}

impl<'b> Subject<'b> {
    pub(crate) fn new(bundle: &'b Bundle) -> Subject<'b> {
        let mut unreadable = Vec::new();
        let mut parts = Vec::new();
        for section in bundle.sections().iter().filter(|section| section.kind == SectionKind::TfLiteModel) {
            match read_model(bundle, section) {
                Ok(model) => parts.push(Part::new(section, model)),
                Err(error) => unreadable.push((Some(section), error.to_string())),
            }
        }
        let mut failed = |kind, error: kinglet_bundle::Error| {
            unreadable.push((bundle.section(kind, None), error.to_string()));
        };
        let llm = bundle.section(SectionKind::LlmMetadata, None).map(|_| bundle.llm_metadata());
        let llm = llm.and_then(|read| read.map_err(|error| failed(SectionKind::LlmMetadata, error)).ok());
        let executor = bundle.executor_metadata();
        let executor = executor.map_err(|error| failed(SectionKind::ExecutorMetadata, error)).ok().flatten();
        let kinds = states::buffers(executor.as_ref()).iter();
        let state_kinds = kinds.map(|buffer| (buffer.decode_input.clone(), buffer.kind)).collect();
        Subject { bundle, parts, llm, executor, unreadable, state_kinds, tokens: OnceCell::new() }
    }

    /// The language model.
    pub(crate) fn language(&self) -> Option<&Part<'b>> {
        self.parts.iter().find(|part| part.section.model_type() == Some("prefill_decode"))
    }

    /// What the executor's metadata says that a state holds.
    pub(crate) fn state_kind(&self, name: &str) -> Option<StateKind> {
        self.state_kinds.get(name).copied()
    }

    /// What the tokenizer says; nothing where there is none that can be read.
    pub(crate) fn tokens(&self) -> &Tokens {
        self.tokens.get_or_init(|| match self.bundle.tokenizer() {
            Some(kinglet_bundle::Tokenizer::HuggingFace) => Tokens::read(self.bundle),
            _ => Tokens::default(),
        })
    }

    /// Every operator of every part.
    pub(crate) fn sites(&self) -> impl Iterator<Item = Site<'_>> {
        self.parts.iter().flat_map(|part| (0..part.model.subgraphs().len()).flat_map(move |graph| part.sites(graph)))
    }

    /// The section of the language model's metadata.
    pub(crate) fn llm_spot(&self) -> Spot<'_> {
        self.bundle.section(SectionKind::LlmMetadata, None).map_or_else(Spot::default, Spot::section)
    }

    /// Whether the language model has recurrent states.
    pub(crate) fn is_hybrid(&self) -> bool {
        let decode = self.language().and_then(|part| part.model.signature("decode"));
        decode.is_some_and(|decode| states::names(decode).iter().any(|name| states::is_recurrent(name, self)))
    }
}

fn read_model(bundle: &Bundle, section: &Section) -> kinglet_tflite::Result<Model> {
    let weights = bundle.sections().iter().filter(|s| s.kind == SectionKind::TfLiteWeights);
    let weights = weights.filter(|s| s.model_type() == section.model_type()).map(|s| s.data.clone()).next();
    Model::parse(section.data.clone(), weights)
}

impl<'b> Part<'b> {
    fn new(section: &'b Section, model: Model) -> Part<'b> {
        let reaches_gpu = match section.item("backend_constraint") {
            Some(Value::Text(backends)) => backends.to_lowercase().contains("gpu"),
            _ => true,
        };
        Part { names: Names::measure(section), reaches_gpu, entries: entries(&model), section, model }
    }

    /// The first signature that runs a subgraph.
    pub(crate) fn entry(&self, graph: usize) -> Option<usize> {
        self.entries[graph]
    }

    pub(crate) fn sites(&self, graph: usize) -> impl Iterator<Item = Site<'_>> {
        let operators = self.model.operators(&self.model.subgraphs()[graph]).enumerate();
        operators.map(move |(node, operator)| Site { part: self, graph, node, operator })
    }

    /// Signatures with a subgraph of their own: of several that share one, the first.
    pub(crate) fn signatures(&self) -> impl Iterator<Item = &Signature> {
        let first = |(n, signature): &(usize, &Signature)| self.entries[signature.subgraph] == Some(*n);
        self.model.signatures().iter().enumerate().filter(first).map(|(_, signature)| signature)
    }

    pub(crate) fn label(&self, graph: usize, tensor: usize) -> String {
        self.names.label(self.section, graph, tensor)
    }

    pub(crate) fn spot(&self) -> Spot<'_> {
        Spot { part: Some(self), ..Spot::section(self.section) }
    }

    pub(crate) fn spot_in(&self, graph: usize) -> Spot<'_> {
        Spot { graph: Some(graph), ..self.spot() }
    }
}

/// For each subgraph the first signature that reaches it.
fn entries(model: &Model) -> Vec<Option<usize>> {
    let mut entries = vec![None; model.subgraphs().len()];
    let mut open = Vec::new();
    for (n, signature) in model.signatures().iter().enumerate() {
        open.push(signature.subgraph);
        while let Some(graph) = open.pop() {
            if entries[graph].is_some() {
                continue;
            }
            entries[graph] = Some(n);
            open.extend(model.operators(&model.subgraphs()[graph]).filter_map(|operator| match operator.kind() {
                Kind::Composite { decomposition, .. } => Some(*decomposition),
                _ => None,
            }));
        }
    }
    entries
}

/// An operator's name; the StableHLO operators have theirs from here.
pub(crate) fn operator_name(kind: &Kind) -> String {
    match kind {
        Kind::Builtin(number) => match op::stablehlo(*number) {
            Some(name) => format!("STABLEHLO_{name}"),
            None => kind.to_string(),
        },
        _ => head(&kind.to_string()),
    }
}

impl<'s> Site<'s> {
    pub(crate) fn is(&self, number: u32) -> bool {
        *self.operator.kind() == Kind::Builtin(number)
    }

    pub(crate) fn is_any(&self, numbers: &[u32]) -> bool {
        matches!(self.operator.kind(), Kind::Builtin(number) if numbers.contains(number))
    }

    pub(crate) fn subgraph(&self) -> &'s Subgraph {
        &self.part.model.subgraphs()[self.graph]
    }

    pub(crate) fn tensor(&self, index: usize) -> &'s Tensor {
        &self.subgraph().tensors()[index]
    }

    /// Input `n`, if there is one.
    pub(crate) fn input(&self, n: usize) -> Option<&'s Tensor> {
        self.operator.input(n).map(|index| self.tensor(index))
    }

    pub(crate) fn spot(&self) -> Spot<'s> {
        Spot { node: Some((self.node, self.operator)), ..self.part.spot_in(self.graph) }
    }

    pub(crate) fn name(&self) -> String {
        operator_name(self.operator.kind())
    }
}
