//! `kinglet unpack`, `pack`, `diff` and `set`: a bundle goes in, its parts, another bundle or what differs comes out.

use std::io::{self, Write};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use kinglet_bundle::Bundle;
use kinglet_bundle::write::Output;
use kinglet_repack::diff::{Change, Comparison, Facts, State, diff};
use kinglet_repack::set::{Changes, StopToken, set};
use kinglet_repack::{pack, unpack};
use kinglet_text::proof;

use crate::failure::{Class, Failure};
use crate::interrupt::{self, Interrupt};
use crate::progress::Progress;
use crate::terminal::{self, Terminal};
use crate::units;

/// Take a bundle apart: a folder with a file for every section
///
/// The template and the tokenizer lie beside their sections in readable form; `pack` takes a file that was changed.
#[derive(Args, Clone, Debug)]
pub(crate) struct UnpackOptions {
    /// A .litertlm file of any family
    bundle: PathBuf,
    /// The folder to make
    folder: PathBuf,
    /// Replace a folder that was unpacked before
    #[arg(long)]
    force: bool,
}

/// Put a folder together that `unpack` made: the same bytes, where nothing was changed
#[derive(Args, Clone, Debug)]
pub(crate) struct PackOptions {
    /// The folder
    folder: PathBuf,
    /// The bundle to write
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Replace a file that is there already
    #[arg(long)]
    force: bool,
}

/// Compare two bundles: section by section, metadata field by field; exit code 1 if they differ
#[derive(Args, Clone, Debug)]
pub(crate) struct DiffOptions {
    /// The one
    first: PathBuf,
    /// The other
    second: PathBuf,
    /// Write one JSON object
    #[arg(long)]
    json: bool,
}

/// Change what a bundle says of itself, without touching its weights
#[derive(Args, Clone, Debug)]
pub(crate) struct SetOptions {
    /// A .litertlm file of any family
    bundle: PathBuf,
    /// Where to write [default: the bundle itself, replaced once all is written]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Replace the file at --output
    #[arg(long)]
    force: bool,
    /// Chat template; refused unless the official runtime renders it as the reference rules do
    #[arg(long, value_name = "FILE")]
    template: Option<PathBuf>,
    /// Store the template whatever the official runtime makes of it
    #[arg(long, requires = "template")]
    unproved: bool,
    /// A token that ends a reply, by id or text; repeat it for each, they replace those that there are
    #[arg(long, value_name = "ID|TEXT")]
    stop: Vec<String>,
    /// What activations are computed in: fp32, fp16, fp32_fp16
    #[arg(long, value_name = "TYPE")]
    activation: Option<String>,
    /// Positions of a conversation
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    max_tokens: Option<i32>,
    /// Sampling: 0 takes the likeliest token
    #[arg(long, value_name = "T", allow_negative_numbers = true)]
    temperature: Option<f32>,
    /// Sampling: number of candidates
    #[arg(long, value_name = "K", allow_negative_numbers = true)]
    top_k: Option<i32>,
    /// Sampling: share of the probability that the candidates reach
    #[arg(long, value_name = "P", allow_negative_numbers = true)]
    top_p: Option<f32>,
    /// A text said of the whole bundle, such as model_name=Tiny
    #[arg(long, value_name = "KEY=TEXT")]
    item: Vec<String>,
}

pub(crate) fn run_unpack(options: &UnpackOptions) -> anyhow::Result<ExitCode> {
    let bundle = Bundle::open(&options.bundle)?;
    unpack::unpack(&bundle, &options.folder, options.force)?;
    writeln!(io::stderr(), "unpacked {} sections to {}", bundle.sections().len(), shown(&options.folder))?;
    Ok(ExitCode::SUCCESS)
}

pub(crate) fn run_pack(options: &PackOptions, terminal: &Terminal) -> anyhow::Result<ExitCode> {
    let packed = watched(terminal, |watch| {
        let mut output = Output::create(&options.output, options.force)?;
        let packed = pack::pack(&options.folder, &mut output, watch)?;
        output.commit()?;
        Ok(packed)
    })?;
    let Some(packed) = packed else { return Ok(ExitCode::from(interrupt::EXIT_CODE)) };
    for file in &packed.changed {
        writeln!(io::stderr(), "changed since it was unpacked: {}", terminal::name(file))?;
    }
    wrote(&options.output, packed.receipt.size_bytes)
}

pub(crate) fn run_set(options: &SetOptions, terminal: &Terminal) -> anyhow::Result<ExitCode> {
    let bundle = Bundle::open(&options.bundle)?;
    let changes = changes(options)?;
    if changes == Changes::default() {
        return Err(Failure::usage("there is nothing to change").hint("kinglet set --help lists what can be").into());
    }
    let target = options.output.as_deref().unwrap_or(&options.bundle);
    let receipt = watched(terminal, |watch| {
        let mut output = Output::create(target, options.force || options.output.is_none())?;
        let receipt = set(&bundle, &changes, &mut output, watch)?;
        output.commit()?;
        Ok(receipt)
    })?;
    let Some(receipt) = receipt else { return Ok(ExitCode::from(interrupt::EXIT_CODE)) };
    wrote(target, receipt.size_bytes)
}

pub(crate) fn run_diff(options: &DiffOptions) -> anyhow::Result<ExitCode> {
    let comparison = diff(&Bundle::open(&options.first)?, &Bundle::open(&options.second)?);
    let mut out = io::stdout().lock();
    if options.json {
        serde_json::to_writer_pretty(&mut out, &comparison).map_err(io::Error::from)?;
        writeln!(out)?;
    } else {
        write_comparison(&mut out, &comparison)?;
    }
    Ok(ExitCode::from(u8::from(!comparison.same)))
}

fn shown(path: &Path) -> String {
    terminal::name(&path.display().to_string()).into_owned()
}

fn wrote(path: &Path, size_bytes: u64) -> anyhow::Result<ExitCode> {
    writeln!(io::stderr(), "wrote {}, {}", shown(path), units::bytes(size_bytes))?;
    Ok(ExitCode::SUCCESS)
}

/// Work with a bar that an interrupt ends; `None` then.
fn watched<T>(
    terminal: &Terminal,
    work: impl FnOnce(&mut dyn FnMut(u64, u64) -> ControlFlow<()>) -> anyhow::Result<T>,
) -> anyhow::Result<Option<T>> {
    let interrupt = Interrupt::install()?;
    interrupt.begin_files();
    let mut progress = Progress::new(terminal.stderr, "writing");
    let result = work(&mut |done, total| {
        progress.update(done, total);
        if interrupt.asked() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    progress.finish();
    interrupt.end();
    match result {
        Err(_) if interrupt.asked() => {
            writeln!(io::stderr(), "interrupted; nothing was written")?;
            Ok(None)
        }
        result => result.map(Some),
    }
}

fn changes(options: &SetOptions) -> anyhow::Result<Changes> {
    let stop = |text: &String| text.parse().map_or_else(|_| StopToken::Text(text.clone()), StopToken::Id);
    let item = |text: &String| {
        let pair = text.split_once('=').filter(|(key, _)| !key.is_empty());
        let pair = pair.ok_or_else(|| Failure::usage(format!("--item: expected KEY=TEXT, found `{text}`")))?;
        Ok((pair.0.to_owned(), pair.1.to_owned()))
    };
    let items: Result<Vec<(String, String)>, Failure> = options.item.iter().map(item).collect();
    Ok(Changes {
        template: options.template.as_deref().map(|path| template(path, options.unproved)).transpose()?,
        stop_tokens: (!options.stop.is_empty()).then(|| options.stop.iter().map(stop).collect()),
        activation_type: options.activation.clone(),
        max_num_tokens: options.max_tokens,
        temperature: options.temperature,
        top_k: options.top_k,
        top_p: options.top_p,
        items: items?,
    })
}

fn template(path: &Path, unproved: bool) -> anyhow::Result<String> {
    let source = std::fs::read_to_string(path)
        .map_err(|error| Failure::new(Class::NotFound, format!("--template {}: {error}", shown(path))))?;
    if unproved {
        return Ok(source);
    }
    match proof::prove(&source) {
        Ok(proof) => {
            for warning in proof.warnings() {
                writeln!(io::stderr(), "notice: {}", terminal::name(&warning))?;
            }
            Ok(source)
        }
        Err(refusal) => {
            let hint = refusal.hint().map(|hint| format!("{hint}; or store it all the same with --unproved"));
            let hint = hint.unwrap_or_else(|| "--unproved stores it all the same".to_owned());
            Err(Failure::new(Class::Damaged, refusal.to_string()).hint(hint).into())
        }
    }
}

/// Values that take more than this are cut: a template is many lines.
const VALUE: usize = 100;

/// Changes of a section that are shown.
const CHANGES: usize = 24;

fn write_comparison(out: &mut impl Write, comparison: &Comparison) -> io::Result<()> {
    if comparison.same {
        return writeln!(out, "the same bytes");
    }
    comparison.system.iter().try_for_each(|change| write_change(out, "bundle ", change))?;
    for section in &comparison.sections {
        let facts = |facts: &Option<Facts>| {
            facts.as_ref().map_or("-".to_owned(), |f| format!("{} bytes {}", f.size_bytes, &f.sha256.to_string()[..16]))
        };
        let (name, first, second) = (terminal::name(&section.name), facts(&section.first), facts(&section.second));
        match section.state {
            State::Same => writeln!(out, "same     {name}: {first}")?,
            State::Changed => writeln!(out, "changed  {name}: {first} -> {second}")?,
            State::Added => writeln!(out, "added    {name}: {second}")?,
            State::Removed => writeln!(out, "removed  {name}: {first}")?,
        }
        section.changes.iter().take(CHANGES).try_for_each(|change| write_change(out, "  ", change))?;
        if section.changes.len() > CHANGES {
            writeln!(out, "  and {} more; --json has all", section.changes.len() - CHANGES)?;
        } else if section.state == State::Changed && section.changes.is_empty() {
            writeln!(out, "  bytes whose meaning is not known differ")?;
        }
    }
    let changed = comparison.sections.iter().any(|section| section.state != State::Same);
    if !changed && comparison.system.is_empty() {
        writeln!(out, "only the layout of the files differs")?;
    }
    Ok(())
}

fn write_change(out: &mut impl Write, before: &str, change: &Change) -> io::Result<()> {
    let value = |value: &Option<serde_json::Value>| match value {
        None => "-".to_owned(),
        Some(value) => {
            let text = value.to_string();
            match text.char_indices().nth(VALUE) {
                Some((end, _)) => format!("{}...", &text[..end]),
                None => text,
            }
        }
    };
    let (first, second) = (value(&change.first), value(&change.second));
    writeln!(out, "{before}{}: {} -> {}", terminal::name(&change.what), terminal::name(&first), terminal::name(&second))
}
