//! A conversion from its choices to the last byte: a recognised checkpoint goes in, a bundle, its lock and a report come
//! out.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use kinglet_blob::Blob;
use kinglet_bundle::write::{Output, Part as BundlePart, Receipt, Writer, tokenizer_section};
use kinglet_bundle::{Bundle, Item, OWN_ITEM, OWN_VERSION, SectionKind};
use kinglet_model::assets::SamplingAdvice;
use kinglet_model::source::{LoadOptions, Precision, Source};
use kinglet_model::{Assets, Plan, Weights};
use kinglet_text::Tokenizer;

use crate::error::{Error, Result};
use crate::graph::{self, GraphOptions, Written};
use crate::inputs::{self, InputFile, source_digest};
use crate::lock::{Choices, LOCK_VERSION, Lock, Program, RecipeName};
use crate::metadata;
use crate::own::{SelfCheck, Statement};
use crate::parts::{Part, parts};
use crate::recipe::Recipe;
use crate::report::TensorReport;
use crate::scan;
use crate::stream::Section;
use crate::template::{ProvenTemplate, TemplateChoice};

/// What a user chooses.
#[derive(Clone, Debug)]
pub struct Request {
    /// Which tensors become int8.
    pub recipe: &'static Recipe,
    /// Tokens that each prefill signature takes, largest first; the family's default where absent.
    pub ladder: Option<Vec<usize>>,
    /// Positions in the caches of attention layers.
    pub cache_length: usize,
    /// The chat template.
    pub template: TemplateChoice,
    /// What the model is called.
    pub name: Option<String>,
    /// Threads that work. They change no byte.
    pub threads: usize,
}

/// Called with what is done and what there is to do, in bytes or values; ends the work with a `Break`.
pub type Watch<'w> = dyn FnMut(Stage, u64, u64) -> ControlFlow<()> + 'w;

/// What a conversion is at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Looking at every weight.
    Reading,
    /// Writing the bundle.
    Writing,
}

/// Runs the new bundle, whose last section is still zeros, and says what it answered.
pub type SelfCheckRunner<'r> = dyn FnMut(&Bundle) -> std::result::Result<SelfCheck, String> + 'r;

/// A conversion of which everything is settled that does not need the weights.
pub struct Conversion {
    plan: Arc<Plan>,
    weights: Arc<Weights>,
    assets: Assets,
    template: ProvenTemplate,
    sampling: SamplingAdvice,
    files: Vec<(String, Blob)>,
    recipe: &'static Recipe,
    choices: Choices,
    threads: usize,
    notices: Vec<String>,
}

/// A section of the bundle to be.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Outlined {
    /// What it holds.
    pub kind: String,
    /// Length in bytes.
    pub size_bytes: u64,
}

/// What came of a conversion.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// What went in and what came out.
    pub lock: Lock,
    /// What became of each tensor.
    pub tensors: Vec<TensorReport>,
    /// What the bundle answered.
    pub self_check: SelfCheck,
}

/// What the first pass found: scales, and the digests of the input files.
struct Prepared {
    scales: Vec<Vec<f32>>,
    inputs: Vec<InputFile>,
}

impl Conversion {
    /// Settles everything for a checkpoint.
    ///
    /// # Errors
    /// `source` is a bundle; a tensor is missing or of the wrong shape; tokenizer and vocabulary disagree; the template
    /// cannot be rendered or the ladder cannot be built.
    pub fn open(source: Source, request: &Request) -> Result<Conversion> {
        let Some(checkpoint) = source.checkpoint() else {
            let name = source.bundle().map_or_else(String::new, |bundle| format!("{}: ", bundle.name()));
            let problem = format!("{name}this is a .litertlm bundle already, expected the directory of a checkpoint");
            return Err(Error::unsupported(problem, Some("kinglet unpack, pack, set and diff work on bundles")));
        };
        let files = inputs::open(checkpoint)?;
        let model = source.load(LoadOptions { precision: Precision::Stored, threads: 1, progress: &mut |_, _| () })?;
        let tied = model.weights.head.is_none();
        check_tokenizer(&model.assets, &model.plan)?;
        let ladder = match &request.ladder {
            Some(ladder) => ladder.clone(),
            None => default_ladder(&model.plan, tied, request.cache_length),
        };
        let choices = Choices {
            ladder,
            cache_length: request.cache_length,
            template: request.template.name().to_owned(),
            template_source: request.template.source().map(str::to_owned),
            name: request.name.clone(),
        };
        let conversion = Conversion {
            template: request.template.prove(model.assets.template.as_deref())?,
            sampling: metadata::sampling(&model.assets.sampling, &model.plan, tied),
            plan: model.plan,
            weights: model.weights,
            assets: model.assets,
            notices: model.notices,
            files,
            recipe: request.recipe,
            choices,
            threads: request.threads,
        };
        conversion.graph(&conversion.no_scales())?;
        Ok(conversion)
    }

    /// What the user should know: parts of the checkpoint that are left out, and weaknesses of the template.
    pub fn notices(&self) -> impl Iterator<Item = &str> {
        self.notices.iter().chain(&self.template.warnings).map(String::as_str)
    }

    /// What the model computes.
    pub fn plan(&self) -> &Arc<Plan> {
        &self.plan
    }

    /// Its weights as the checkpoint stores them, mapped.
    pub fn weights(&self) -> &Arc<Weights> {
        &self.weights
    }

    /// Everything beside the weights.
    pub fn assets(&self) -> &Assets {
        &self.assets
    }

    /// The constants of the graph, in the order in which they are stored.
    pub fn parts(&self) -> Vec<Part<'_>> {
        parts(&self.plan, &self.weights, self.recipe)
    }

    /// The choices, with the ladder that was settled on.
    pub fn choices(&self) -> &Choices {
        &self.choices
    }

    /// The sections to be, without looking at a weight.
    ///
    /// # Errors
    /// A header or graph that is too large.
    pub fn outline(&self) -> Result<(Vec<Outlined>, u64)> {
        let inputs: Vec<InputFile> = self.files.iter().map(unhashed).collect();
        let graph = self.graph(&self.no_scales())?;
        let recipe = self.recipe_name();
        let own_len = self.statement(&inputs, &recipe).len();
        let mut writer = self.frame(&inputs);
        writer.add(BundlePart::producer(SectionKind::TfLiteModel, model_items(), graph.length, |_| Ok(())));
        writer.add(BundlePart::producer(SectionKind::GenericBinaryData, own_items(), own_len, |_| Ok(())));
        let outlined = |part: &BundlePart<'_>| Outlined { kind: part.kind.to_string(), size_bytes: part.size_bytes() };
        let total = writer.size_bytes("the bundle")?;
        Ok((writer.parts_mut().iter().map(outlined).collect(), total))
    }

    /// Bytes of memory that the conversion holds beside mapped files.
    pub fn memory_bytes(&self) -> u64 {
        let scales: usize = self.parts().iter().map(Part::scale_count).sum();
        let vectors: u64 = self.parts().iter().filter(|part| !part.int8).map(Part::bytes).sum();
        let batches = (self.threads.max(1) as u64) * 3 * 4 * (1 << 20);
        // The graph is held as a tree while it is written, and its constants by every signature.
        vectors.min(64 << 20) + 12 * scales as u64 + batches + (32 << 20) + self.assets.tokenizer.len() as u64 * 4
    }

    /// Looks at every weight, then writes the bundle into `output`, which the caller commits or drops.
    ///
    /// # Errors
    /// A weight that is not finite, before a byte is written; no room on the disk; a bundle that does not run; a watcher
    /// that asked to stop.
    pub fn write(
        &self,
        output: &mut Output,
        self_check: &mut SelfCheckRunner<'_>,
        watch: &mut Watch<'_>,
    ) -> Result<Outcome> {
        let prepared = self.prepare(watch)?;
        let graph = self.graph(&prepared.scales)?;
        let recipe = self.recipe_name();
        let statement = self.statement(&prepared.inputs, &recipe);
        let parts = self.parts();
        let section = Section { graph: &graph, parts: &parts, scales: &prepared.scales, threads: self.threads };
        let (mut tensors, mut checked, mut failed) = (Vec::new(), None, None);
        let temporary = output.temporary().to_owned();
        let name = output.target().display().to_string();
        let mut writer = self.frame(&prepared.inputs);
        writer.add(BundlePart::producer(SectionKind::TfLiteModel, model_items(), graph.length, |out| {
            section.write(out, &mut tensors)
        }));
        writer.add(BundlePart::producer(SectionKind::GenericBinaryData, own_items(), statement.len(), |out| {
            out.flush()?;
            let check = Bundle::open(&temporary).map_err(|error| error.to_string()).and_then(|b| self_check(&b));
            match check.map_err(Error::self_check).and_then(|check| Ok((statement.encode(&check)?, check))) {
                Ok((bytes, check)) => {
                    checked = Some(check);
                    out.write_all(&bytes)
                }
                Err(error) => {
                    failed = Some(error);
                    Err(std::io::Error::other("the self-check failed"))
                }
            }
        }));
        output.expect(writer.size_bytes(&name)?)?;
        let receipt = writer.write(&name, output, &mut |done, total| watch(Stage::Writing, done, total));
        let receipt = receipt.map_err(|error| failed.unwrap_or_else(|| error.into()))?;
        let self_check = checked.expect("the last producer ran, or the writer failed");
        Ok(Outcome { lock: self.lock(prepared.inputs, recipe, &receipt), tensors, self_check })
    }

    fn prepare(&self, watch: &mut Watch<'_>) -> Result<Prepared> {
        let parts = self.parts();
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let inputs = scope.spawn(|| inputs::hash(&self.files, &stop));
            let threads = self.threads.saturating_sub(1).max(1);
            let scales = scan::scales(&parts, threads, &mut |done, total| watch(Stage::Reading, done, total));
            // The scope waits for the digests, and nobody wants them after an error.
            stop.store(scales.is_err(), Ordering::Relaxed);
            Ok(Prepared { scales: scales?, inputs: inputs.join().expect("hashing does not panic") })
        })
    }

    fn lock(&self, inputs: Vec<InputFile>, recipe: RecipeName, receipt: &Receipt) -> Lock {
        let (program, options) = (Program::this(), self.choices.clone());
        Lock { lock: LOCK_VERSION, program, inputs, recipe, options, bundle: receipt.into() }
    }

    /// The sections before the model.
    fn frame<'p>(&self, inputs: &[InputFile]) -> Writer<'p> {
        let llm = metadata::llm(&self.assets, &self.template.source, self.choices.cache_length, &self.sampling);
        let executor = metadata::executor(&self.plan, self.choices.cache_length);
        let mut writer = Writer::new(self.system_items(inputs));
        writer.add(BundlePart::bytes(SectionKind::LlmMetadata, Vec::new(), llm.encode()));
        writer.add(BundlePart::bytes(SectionKind::ExecutorMetadata, Vec::new(), executor.encode()));
        let tokenizer = tokenizer_section(&self.assets.tokenizer);
        writer.add(BundlePart::bytes(SectionKind::HfTokenizerZlib, Vec::new(), tokenizer));
        writer
    }

    /// The uuid comes from everything that the bytes depend on, so that the same bytes have the same one.
    fn system_items(&self, inputs: &[InputFile]) -> Vec<Item> {
        let choices = serde_json::to_string(&self.choices).expect("choices are plain data");
        let program = Program::this();
        let basis = format!("{} {} {choices} {}", source_digest(inputs), self.recipe.digest(), program.version);
        let digest = kinglet_bundle::write::Digest::of(basis.as_bytes());
        let mut items = vec![
            Item::text("Authors", format!("{} {}", program.name, program.version)),
            Item::text("uuid", uuid(digest.0)),
        ];
        items.extend(self.choices.name.as_ref().map(|name| Item::text("model_name", name)));
        items
    }

    fn statement<'s>(&'s self, inputs: &'s [InputFile], recipe: &'s RecipeName) -> Statement<'s> {
        Statement { plan: &self.plan, sampling: &self.sampling, recipe, choices: &self.choices, inputs }
    }

    fn recipe_name(&self) -> RecipeName {
        let Recipe { name, version, .. } = self.recipe;
        RecipeName { name: (*name).to_owned(), version: *version, sha256: self.recipe.digest().to_string() }
    }

    fn graph(&self, scales: &[Vec<f32>]) -> Result<Written> {
        let constants: Vec<_> =
            self.parts().iter().zip(scales).map(|(part, scales)| part.constant(scales.clone())).collect();
        let options = GraphOptions { ladder: self.choices.ladder.clone(), cache_length: self.choices.cache_length };
        graph::write(&self.plan, &constants, &options)
    }

    fn no_scales(&self) -> Vec<Vec<f32>> {
        self.parts().iter().map(|part| vec![0.0; part.scale_count()]).collect()
    }
}

fn check_tokenizer(assets: &Assets, plan: &Plan) -> Result<()> {
    let tokenizer = Tokenizer::from_json(&assets.tokenizer)?;
    tokenizer.check_fits(plan.vocab)?;
    if assets.stops.is_empty() {
        let expected = "a stop token in config.json, generation_config.json or tokenizer_config.json";
        return Err(Error::invalid("checkpoint", expected, "none"));
    }
    for stop in &assets.stops {
        if let kinglet_model::assets::Stop::Id(id) = stop
            && *id as usize >= tokenizer.vocab_size()
        {
            let expected = format!("an id below {}, the tokenizer's", tokenizer.vocab_size());
            return Err(Error::invalid("stop token", expected, id.to_string()));
        }
    }
    Ok(())
}

/// Powers of two; fewer for large models, since each rung costs memory in the official runtime.
fn default_ladder(plan: &Plan, tied: bool, cache_length: usize) -> Vec<usize> {
    let all: &[usize] = match metadata::is_large(plan, tied) {
        true => &[1024, 256, 64, 16, 4, 1],
        false => &[1024, 512, 256, 128, 64, 32, 16, 8, 4, 2, 1],
    };
    all.iter().copied().filter(|rows| *rows <= cache_length).collect()
}

fn model_items() -> Vec<Item> {
    vec![
        Item::text("model_type", "tf_lite_prefill_decode"),
        // Half precision overflows in the first layers of the family.
        Item::text("prefer_activation_type", "fp32"),
    ]
}

fn own_items() -> Vec<Item> {
    vec![Item::text(OWN_ITEM, OWN_VERSION)]
}

fn unhashed((name, blob): &(String, Blob)) -> InputFile {
    InputFile { name: name.clone(), size_bytes: blob.len() as u64, sha256: "0".repeat(64) }
}

/// A UUID of version 8 (RFC 9562) over the first bytes of a digest.
fn uuid(digest: [u8; 32]) -> String {
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&digest[..16]);
    bytes[6] = bytes[6] & 0x0f | 0x80;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let hex = |range: std::ops::Range<usize>| bytes[range].iter().map(|b| format!("{b:02x}")).collect::<String>();
    [hex(0..4), hex(4..6), hex(6..8), hex(8..10), hex(10..16)].join("-")
}
