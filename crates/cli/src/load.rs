//! From options to a model that can talk: a path goes in; a recognised source, what it needs and whether that fits, then
//! a chat come out.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use kinglet_chat::Chat;
use kinglet_engine::{Activation, Activations, MAX_CHUNK, MemoryUse, Options};
use kinglet_model::assets::Assets;
use kinglet_model::source::{LoadOptions, Model, Precision, Source};
use kinglet_model::{Mixer, Plan};
use kinglet_text::{Specials, Tokenizer};
use serde::Serialize;

use crate::failure::{Class, Failure};
use crate::machine::{self, Memory};
use crate::options::{DEFAULT_CONTEXT, ModelOptions};
use crate::progress::Progress;
use crate::terminal::Terminal;
use crate::{demo, terminal, units};

/// A model that is ready, and what is known of it.
pub(crate) struct Loaded {
    pub(crate) chat: Chat,
    pub(crate) facts: Facts,
    pub(crate) needs: Needs,
    pub(crate) notices: Vec<String>,
    pub(crate) time: Duration,
}

/// What runs, and how.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Facts {
    /// `demo`, or the path.
    pub(crate) name: String,
    pub(crate) parameters: u64,
    pub(crate) layers: usize,
    pub(crate) context: usize,
    pub(crate) weights: &'static str,
    pub(crate) tier: &'static str,
    pub(crate) threads: usize,
}

/// Bytes of memory that a model with one session takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Needs {
    /// Weights that are not parts of a mapped file.
    pub(crate) weights_bytes: u64,
    /// Keys and values at the full context.
    pub(crate) key_value_bytes: u64,
    /// Delta states and convolution tails.
    pub(crate) state_bytes: u64,
    pub(crate) scratch_bytes: u64,
    pub(crate) total_bytes: u64,
    /// Of key and value bytes, what each position takes.
    pub(crate) bytes_per_position: u64,
}

impl Needs {
    pub(crate) fn of(source: &Source, context: usize, precision: Precision) -> Needs {
        let session = MemoryUse::of(source.plan(), context, MAX_CHUNK);
        let weights_bytes = source.load_bytes(precision);
        Needs {
            weights_bytes,
            key_value_bytes: session.key_values,
            state_bytes: session.states,
            scratch_bytes: session.scratch,
            total_bytes: weights_bytes.saturating_add(session.total()),
            bytes_per_position: MemoryUse::per_position(source.plan()),
        }
    }

    /// One sentence.
    pub(crate) fn statement(&self) -> String {
        format!(
            "{}: {} weights, {} keys and values ({} per position), {} states, {} scratch",
            units::bytes(self.total_bytes),
            units::bytes(self.weights_bytes),
            units::bytes(self.key_value_bytes),
            units::bytes(self.bytes_per_position),
            units::bytes(self.state_bytes),
            units::bytes(self.scratch_bytes),
        )
    }

    /// Refuses what cannot fit, before anything is loaded.
    pub(crate) fn check(&self, memory: &Memory) -> Result<(), Failure> {
        match memory.usable_bytes() {
            Some(usable) if self.total_bytes > usable => {
                let (total, usable) = (units::bytes(self.total_bytes), units::bytes(usable));
                let failure =
                    Failure::new(Class::Other, format!("this takes {total} of memory, {usable} are available"));
                Err(failure.hint(self.cure()))
            }
            _ => Ok(()),
        }
    }

    fn cure(&self) -> String {
        if self.key_value_bytes > self.weights_bytes {
            return format!("a smaller --ctx takes less: each position is {}", units::bytes(self.bytes_per_position));
        }
        "use a smaller model, or a .litertlm bundle, whose weights stay in its file".to_owned()
    }
}

/// Recognises the model at `path`, or the demo model.
pub(crate) fn source(path: Option<&Path>) -> anyhow::Result<Source> {
    Ok(match path {
        Some(path) => Source::open(path)?,
        None => Source::embedded(demo::FILES)?,
    })
}

/// Tokenizer, template and the like, without touching a weight.
pub(crate) fn assets(path: Option<&Path>) -> anyhow::Result<Assets> {
    Ok(source(path)?.assets()?)
}

/// Refuses a text that cannot fit, before a weight is converted. A token has a byte at least, so that a text with fewer
/// bytes than the context has positions needs no look.
pub(crate) fn check_length(path: Option<&Path>, options: &ModelOptions, text: &str) -> anyhow::Result<()> {
    let source = source(path)?;
    let context = context(options.ctx, &source)?;
    if text.len() < context {
        return Ok(());
    }
    let prompt = Tokenizer::from_json(&source.assets()?.tokenizer)?.encode(text, Specials::AsText)?.len();
    if prompt < context {
        return Ok(());
    }
    let most = source.plan().max_positions;
    let failure =
        Failure::new(Class::DoesNotFit, format!("the prompt has {prompt} tokens, the context has room for {context}"));
    let enough = (prompt + 256).next_power_of_two().min(most);
    Err(if enough > prompt && source.bundle().is_none() || enough < most {
        failure.hint(format!("give it more room with --ctx {enough}, or shorten it"))
    } else {
        failure.hint("shorten it: the model has no more positions")
    }
    .into())
}

/// What messages call the model at `path`.
pub(crate) fn model_name(path: Option<&Path>) -> String {
    path.map_or_else(|| demo::NAME.to_owned(), |path| terminal::name(&path.display().to_string()).into_owned())
}

/// How a checkpoint's weights are held.
pub(crate) fn precision(options: &ModelOptions) -> Precision {
    if options.float { Precision::Stored } else { Precision::Int8 }
}

/// The number of positions that was asked for, or the default.
///
/// A checkpoint says how many positions the model was trained for. A bundle says how many its graph has room for, which
/// is no limit here, as the graph is not run.
pub(crate) fn context(asked: Option<usize>, source: &Source) -> Result<usize, Failure> {
    choose_context(asked, source.plan().max_positions, source.bundle().is_none())
}

fn choose_context(asked: Option<usize>, most: usize, is_limit: bool) -> Result<usize, Failure> {
    match asked {
        Some(asked) if is_limit && asked > most => {
            let failure = Failure::new(Class::DoesNotFit, format!("--ctx {asked}: the model has {most} positions"));
            Err(failure.hint(format!("give at most --ctx {most}")))
        }
        Some(asked) => Ok(asked),
        None => Ok(most.min(DEFAULT_CONTEXT)),
    }
}

/// Recognises, checks that it fits, loads.
pub(crate) fn load(path: Option<&Path>, options: &ModelOptions, terminal: &Terminal) -> anyhow::Result<Loaded> {
    let begun = Instant::now();
    let source = source(path)?;
    let context = context(options.ctx, &source)?;
    let needs = Needs::of(&source, context, precision(options));
    needs.check(&Memory::read())?;
    let engine = engine_options(options);
    let weights = if source.bundle().is_some() { "as in the bundle" } else { weights(options) };
    let mut progress = Progress::new(terminal.stderr, "loading");
    let model = source.load(LoadOptions {
        precision: precision(options),
        threads: engine.threads,
        progress: &mut |done, total| progress.update(done, total),
    });
    progress.finish();
    let model = model?;
    let chat = Chat::new(&model, &engine, context).with_context(|| model_name(path))?;
    let facts = Facts {
        name: model_name(path),
        parameters: parameters(&model),
        layers: model.plan.layers.len(),
        context,
        weights,
        tier: chat.engine().kernels().name,
        threads: chat.engine().threads(),
    };
    Ok(Loaded { chat, facts, needs, notices: model.notices, time: begun.elapsed() })
}

fn weights(options: &ModelOptions) -> &'static str {
    if options.float { "as stored" } else { "int8" }
}

fn engine_options(options: &ModelOptions) -> Options {
    let mut engine = Options::new(options.threads.unwrap_or_else(machine::cores));
    if let Some(tier) = options.tier.and_then(kinglet_kernels::by_name) {
        engine.kernels = tier;
    }
    if options.float {
        engine.activations = Activations::all(Activation::Float);
    }
    engine
}

/// Values in all weights.
pub(crate) fn parameters(model: &Model) -> u64 {
    let (linears, rest) = model.plan.parameters(model.weights.head.is_none());
    linears + rest
}

/// `8 layers (6 delta-rule, 2 attention), width 256, vocabulary 4096`.
pub(crate) fn shape(plan: &Plan) -> String {
    format!(
        "{} layers ({} delta-rule, {} attention), width {}, vocabulary {}",
        plan.layers.len(),
        plan.count(Mixer::GatedDeltaNet),
        plan.count(Mixer::GatedAttention),
        plan.hidden,
        plan.vocab,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn needs(weights: u64, key_values: u64) -> Needs {
        Needs {
            weights_bytes: weights,
            key_value_bytes: key_values,
            state_bytes: 1,
            scratch_bytes: 1,
            total_bytes: weights + key_values + 2,
            bytes_per_position: 64,
        }
    }

    #[test]
    fn what_does_not_fit_is_refused_with_numbers_and_the_right_cure() {
        let memory = Memory { available_bytes: Some(1 << 20), ..Memory::default() };
        assert!(needs(100, 100).check(&memory).is_ok());
        assert!(needs(1 << 30, 1).check(&Memory::default()).is_ok(), "nothing is known of the machine");
        for (needs, cure) in [(needs(1 << 30, 1), ".litertlm"), (needs(1, 1 << 30), "--ctx")] {
            let error = anyhow::Error::from(needs.check(&memory).expect_err("too large"));
            assert!(error.to_string().contains("1.0 GiB") && error.to_string().contains("1.0 MiB"), "{error}");
            let (class, hint) = crate::failure::classify(&error);
            assert_eq!(class, Class::Other);
            assert!(hint.expect("known").contains(cure), "{cure}");
        }
    }

    #[test]
    fn the_default_context_is_small_and_never_beyond_the_model() {
        let choose = |asked, most, is_limit| choose_context(asked, most, is_limit).ok();
        assert_eq!(choose(None, 300, true), Some(300));
        assert_eq!(choose(None, 1 << 18, true), Some(4096));
        assert_eq!(choose(Some(7), 300, true), Some(7));
        assert_eq!(choose(Some(301), 300, true), None);
        assert_eq!(choose(Some(301), 300, false), Some(301), "a bundle's graph is not run");
    }
}
