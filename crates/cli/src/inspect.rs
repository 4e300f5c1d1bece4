//! `kinglet inspect`: a model file or directory goes in; what it holds and what of it would be run comes out.

mod bundle;
mod checkpoint;
mod findings;
mod lint;
mod text;

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use kinglet_bundle::Bundle;
use kinglet_model::source::{LoadOptions, Model, Precision, Source};

use crate::failure::Failure;
use crate::load::{self, Needs};
use crate::options;
use crate::terminal::{self, Terminal};
use findings::{Findings, PlanFacts, Runs, TensorFacts, WeightFacts};

/// Show what a model holds, and what of it would be run
#[derive(Args, Clone, Debug)]
pub(crate) struct InspectOptions {
    /// A checkpoint directory or .litertlm file [default: the demo model in this program]
    #[arg(value_name = "FILE|DIR")]
    path: Option<PathBuf>,
    /// Write one JSON object
    #[arg(long)]
    json: bool,
    /// Also list every weight matrix
    #[arg(long)]
    tensors: bool,
    /// Show the chat template, as it stands in the model
    #[arg(long, conflicts_with_all = ["tensors", "metadata"])]
    template: bool,
    /// Also show what the writer said of the model
    #[arg(long)]
    metadata: bool,
    /// Check a bundle instead: rules of the format, of GPUs and of memory, and the known faults of published files
    #[arg(long, conflicts_with_all = ["tensors", "metadata", "template", "ctx"])]
    lint: bool,
    /// Positions that the memory is computed for [default: 4096, or what the model can do if less]
    #[arg(short, long, value_name = "N", value_parser = options::parse_context)]
    ctx: Option<usize>,
}

pub(crate) fn run(options: &InspectOptions, terminal: &Terminal) -> anyhow::Result<ExitCode> {
    if options.lint {
        return lint::run(options.path.as_deref(), options.json);
    }
    let findings = inspect(options)?;
    let mut out = io::stdout().lock();
    if options.json {
        serde_json::to_writer_pretty(&mut out, &findings).map_err(io::Error::from)?;
        writeln!(out)?;
    } else if let Some(template) = &findings.template {
        let template = if terminal.stdout { terminal::prose(template) } else { template.as_str().into() };
        write!(out, "{template}")?;
        if !template.ends_with('\n') {
            writeln!(out)?;
        }
    } else {
        text::write(&mut out, &findings)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn inspect(options: &InspectOptions) -> anyhow::Result<Findings> {
    let path = options.path.as_deref();
    let mut findings = Findings { name: load::model_name(path), ..Findings::default() };
    let source = match load::source(path) {
        Ok(source) => source,
        // A sound bundle that this program does not run can be looked at all the same.
        Err(error) => match path.filter(|path| path.is_file()).and_then(|path| Bundle::open(path).ok()) {
            Some(bundle) => {
                bundle::describe(&bundle, options.metadata, &mut findings)?;
                findings.runs = Runs::No { reason: format!("{error:#}") };
                return if options.template { Err(error) } else { Ok(findings) };
            }
            None => return Err(error),
        },
    };
    describe(source, options, &mut findings)?;
    if options.template && findings.template.is_none() {
        return Err(Failure::new(crate::failure::Class::Other, "the model has no chat template").into());
    }
    Ok(findings)
}

fn describe(source: Source, options: &InspectOptions, findings: &mut Findings) -> anyhow::Result<()> {
    let context = load::context(options.ctx, &source)?;
    if let Some(bundle) = source.bundle() {
        bundle::describe(bundle, options.metadata, findings)?;
    }
    if let Some(checkpoint) = source.checkpoint() {
        checkpoint::describe(checkpoint, options.path.as_deref(), findings)?;
        findings.memory_int8 = Some(Needs::of(&source, context, Precision::Int8));
    }
    findings.memory = Some(Needs::of(&source, context, Precision::Stored));
    findings.context = Some(context);
    // As stored nothing is converted: only small vectors are read.
    let model = source.load(LoadOptions { precision: Precision::Stored, threads: 1, progress: &mut |_, _| () })?;
    findings.runs = Runs::Yes;
    findings.plan = Some(PlanFacts::new(&model.plan, load::parameters(&model)));
    findings.weights = Some(WeightFacts::new(&model.weights));
    findings.notices = model.notices.clone();
    if options.tensors {
        findings.tensors = Some(tensors(&model));
    }
    if options.template {
        findings.template = model.assets.template;
    }
    Ok(())
}

fn tensors(model: &Model) -> Vec<TensorFacts> {
    model.weights.matrices().map(|(name, matrix)| TensorFacts::new(name, matrix)).collect()
}
