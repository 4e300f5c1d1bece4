//! Where a model comes from: a path goes in, a recognised source comes out, whose plan is known before any weight is
//! touched; then the model.

use std::path::Path;
use std::sync::Arc;

use kinglet_bundle::Bundle;
use kinglet_checkpoint::Checkpoint;

use crate::assets::Assets;
use crate::error::{Error, Result};
use crate::family::qwen35;
use crate::plan::Plan;
use crate::weights::Weights;

/// How a checkpoint's linears and embedding are held. A bundle's are as the bundle has them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Precision {
    /// Int8 with one scale per row, made at load.
    #[default]
    Int8,
    /// As stored, mapped: for reference runs.
    Stored,
}

/// How to load.
pub struct LoadOptions<'a> {
    /// How a checkpoint's linears are held.
    pub precision: Precision,
    /// Threads that convert.
    pub threads: usize,
    /// Is told `(values done, values in all)` as conversion goes on.
    pub progress: &'a mut dyn FnMut(u64, u64),
}

/// A recognised model that is not loaded yet.
#[derive(Debug)]
pub struct Source {
    /// Its path, for messages; empty for one that is part of the program.
    place: String,
    plan: Arc<Plan>,
    tied: bool,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    Checkpoint(Box<Checkpoint>),
    Bundle(Box<(Bundle, qwen35::graph::Bound)>),
}

/// A model in memory.
#[derive(Debug)]
pub struct Model {
    /// What it computes.
    pub plan: Arc<Plan>,
    /// With which numbers.
    pub weights: Arc<Weights>,
    /// Tokenizer, template and the like.
    pub assets: Assets,
    /// What the user should know of how it was read: parts of the file that are not used, and the like.
    pub notices: Vec<String>,
}

impl Source {
    /// Recognises a checkpoint directory or a `.litertlm` file.
    ///
    /// # Errors
    /// A path that is not there, a damaged file, or one of another format or family, named.
    pub fn open(path: &Path) -> Result<Source> {
        let facts = std::fs::metadata(path).map_err(|_| Error::not_found(path))?;
        if facts.is_dir() {
            refuse_folder_of_bundles(path)?;
            let place = path.display().to_string();
            return Source::of_checkpoint(Checkpoint::open(path).map_err(Error::checkpoint)?, place);
        }
        if !facts.is_file() {
            let what = format!("{}: this is neither a file nor a directory", path.display());
            return Err(Error::unsupported(what, None));
        }
        refuse_other_formats(path)?;
        Source::of_bundle(Bundle::open(path).map_err(Error::bundle)?)
    }

    /// Recognises a bundle.
    ///
    /// # Errors
    /// A damaged graph, or one of another family.
    pub fn of_bundle(bundle: Bundle) -> Result<Source> {
        let place = bundle.name().to_owned();
        let bound = qwen35::graph::bind(&bundle).map_err(|error| error.within(&place))?;
        Ok(Source {
            place,
            plan: Arc::new(bound.plan.clone()),
            tied: bound.weights.head.is_none(),
            kind: Kind::Bundle(Box::new((bundle, bound))),
        })
    }

    /// Recognises a checkpoint whose files are part of the program.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn embedded(files: &'static [(&'static str, &'static [u8])]) -> Result<Source> {
        Source::of_checkpoint(Checkpoint::embedded(files).map_err(Error::checkpoint)?, String::new())
    }

    fn of_checkpoint(checkpoint: Checkpoint, place: String) -> Result<Source> {
        let plan = qwen35::checkpoint::plan(checkpoint.config()).map_err(|error| error.within(&place))?;
        let tied = !qwen35::checkpoint::has_head(&checkpoint);
        Ok(Source { place, plan: Arc::new(plan), tied, kind: Kind::Checkpoint(Box::new(checkpoint)) })
    }

    /// What the model computes.
    pub fn plan(&self) -> &Arc<Plan> {
        &self.plan
    }

    /// The bundle, if it is one.
    pub fn bundle(&self) -> Option<&Bundle> {
        match &self.kind {
            Kind::Bundle(bundle) => Some(&bundle.0),
            Kind::Checkpoint(_) => None,
        }
    }

    /// The checkpoint, if it is one.
    pub fn checkpoint(&self) -> Option<&Checkpoint> {
        match &self.kind {
            Kind::Checkpoint(checkpoint) => Some(checkpoint),
            Kind::Bundle(_) => None,
        }
    }

    /// Tokenizer, template and the like, without touching a weight.
    ///
    /// # Errors
    /// A file or section of them that is missing or damaged.
    pub fn assets(&self) -> Result<Assets> {
        let assets = match &self.kind {
            Kind::Checkpoint(checkpoint) => qwen35::checkpoint::assets(checkpoint),
            Kind::Bundle(bundle) => qwen35::metadata::assets(&bundle.0),
        };
        assets.map_err(|error| error.within(&self.place))
    }

    /// Bytes of mapped files that every token reads, so that it is slow unless they stay in memory.
    pub fn mapped_bytes(&self, precision: Precision) -> u64 {
        let (linears, _) = self.plan.parameters(self.tied);
        match (&self.kind, precision) {
            (Kind::Bundle(bundle), _) => bundle.1.weights.footprint().mapped,
            (Kind::Checkpoint(_), Precision::Int8) => 0,
            // Published checkpoints are in bf16; one in f32 takes twice as much.
            (Kind::Checkpoint(_), Precision::Stored) => 2 * linears,
        }
    }

    /// Bytes of memory, beside mapped files, that loading with this precision will take.
    pub fn load_bytes(&self, precision: Precision) -> u64 {
        let (linears, rest) = self.plan.parameters(self.tied);
        match (&self.kind, precision) {
            (Kind::Bundle(bundle), _) => bundle.1.weights.footprint().owned,
            (Kind::Checkpoint(_), Precision::Int8) => linears + 4 * rest,
            (Kind::Checkpoint(_), Precision::Stored) => 4 * rest,
        }
    }

    /// Loads the weights.
    ///
    /// # Errors
    /// A tensor that is missing or of the wrong shape, type or value.
    pub fn load(self, options: LoadOptions<'_>) -> Result<Model> {
        let assets = self.assets()?;
        match self.kind {
            Kind::Checkpoint(checkpoint) => {
                let weights = qwen35::checkpoint::weights(&checkpoint, &self.plan, options);
                Ok(Model {
                    weights: Arc::new(weights.map_err(|error| error.within(&self.place))?),
                    assets,
                    notices: qwen35::checkpoint::notices(&checkpoint),
                    plan: self.plan,
                })
            }
            Kind::Bundle(bundle) => {
                let (_, bound) = *bundle;
                Ok(Model { assets, weights: Arc::new(bound.weights), notices: bound.notices, plan: self.plan })
            }
        }
    }
}

/// A folder with bundles and no checkpoint is a mistake that can be told apart.
fn refuse_folder_of_bundles(path: &Path) -> Result<()> {
    if path.join("config.json").exists() {
        return Ok(());
    }
    let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
    let bundles = entries.map(|entry| entry.path()).filter(|path| path.extension().is_some_and(|e| e == "litertlm"));
    let mut bundles: Vec<String> = bundles.map(|path| path.display().to_string()).collect();
    bundles.sort();
    match bundles.first() {
        None => Ok(()),
        Some(first) => {
            let what = format!("{}: this folder holds no checkpoint, but .litertlm bundles", path.display());
            Err(Error::unsupported(what, Some(format!("give one of its {}, such as {first}", bundles.len()))))
        }
    }
}

fn refuse_other_formats(path: &Path) -> Result<()> {
    use std::io::Read;
    let mut magic = [0; 8];
    let read = std::fs::File::open(path).and_then(|mut file| file.read(&mut magic)).unwrap_or(0);
    let shown = path.display();
    let refuse = |what: &str, hint: &str| Err(Error::unsupported(format!("{shown}: {what}"), Some(hint.to_owned())));
    if magic.starts_with(b"GGUF") {
        return refuse(
            "this is a GGUF file",
            "give the Hugging Face checkpoint that it was made from, or a .litertlm bundle",
        );
    }
    if path.extension().is_some_and(|e| e == "safetensors") {
        return refuse("this is one file of a checkpoint", "give the directory that holds it and its config.json");
    }
    if read >= 8 && &magic[4..8] == b"TFL3" {
        return refuse("this is a bare TFLite graph", "give the .litertlm bundle: it holds the tokenizer too");
    }
    if read >= 4 && magic.starts_with(b"PK\x03\x04") {
        return refuse("this is a zip archive", "a MediaPipe .task file is not a .litertlm bundle");
    }
    Ok(())
}
