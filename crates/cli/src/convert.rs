//! `kinglet convert`: a checkpoint goes in, a bundle with its lock comes out, and a report; or the word that a lock still
//! gives the same bytes.

mod check;
mod sensitivity;
mod text;
mod verify;

use std::io::{self, Write};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use clap::Args;
use kinglet_bundle::write::Output;
use kinglet_convert::recipe::Recipe;
use kinglet_convert::{Conversion, ErrorKind, Outcome, Request, Stage, TemplateChoice};
use serde_json::json;

use crate::failure::{Class, Failure};
use crate::interrupt::{self, Interrupt};
use crate::progress::Progress;
use crate::terminal::Terminal;
use crate::{load, machine, options, terminal, units};

/// Convert a checkpoint to a .litertlm bundle that LiteRT-LM runs
///
/// Beside the bundle a lock is written, with the digests of everything that went in and came out. The same checkpoint,
/// recipe, options and program give the same bytes on every machine.
#[derive(Args, Clone, Debug)]
pub(crate) struct ConvertOptions {
    /// The directory of a Hugging Face checkpoint
    #[arg(value_name = "CHECKPOINT")]
    checkpoint: PathBuf,
    /// The bundle to write
    #[arg(short, long, value_name = "FILE", required_unless_present_any = ["dry_run", "verify_lock", "sensitivity"])]
    output: Option<PathBuf>,
    /// Replace files that are there already
    #[arg(long)]
    force: bool,
    /// Which weights become int8: int8 (all but those that decide about states), int8-legacy, float
    #[arg(long, value_name = "NAME", default_value = "int8")]
    recipe: String,
    /// Tokens that each prefill signature takes [default: 1024,512,...,1; above 3 G parameters 1024,256,64,16,4,1]
    #[arg(long, value_name = "N,N,...", value_delimiter = ',', value_parser = options::parse_count)]
    ladder: Option<Vec<usize>>,
    /// Positions that a conversation can have in the official runtime
    #[arg(long, value_name = "N", default_value = "4096", value_parser = options::parse_count)]
    cache_length: usize,
    /// Chat template: simple (ChatML whose turns extend each other), stock (the checkpoint's own), or a file
    #[arg(long, value_name = "simple|stock|FILE", default_value = "simple")]
    template: String,
    /// What the model is called, for the bundle's metadata
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Say what would be written, how large it is and what memory it takes, and write nothing
    #[arg(long)]
    dry_run: bool,
    /// Convert again as a lock says, and tell whether the same bytes come out
    #[arg(long, value_name = "LOCK", conflicts_with_all = ["output", "recipe", "ladder", "cache_length", "template", "name", "dry_run", "sensitivity"])]
    verify_lock: Option<PathBuf>,
    /// Instead of writing: how far the next token's distribution moves on this text with one kind of weights in int8
    #[arg(long, value_name = "TEXTFILE", conflicts_with_all = ["output", "dry_run"])]
    sensitivity: Option<PathBuf>,
    /// Threads that work; they change no byte [default: all cores]
    #[arg(short, long, value_name = "N", value_parser = options::parse_threads)]
    threads: Option<usize>,
    /// Also list every tensor: bytes, range of scales, errors
    #[arg(long, conflicts_with_all = ["dry_run", "verify_lock", "sensitivity"])]
    tensors: bool,
    /// Write one JSON object, with every tensor in it
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(options: &ConvertOptions, terminal: &Terminal) -> anyhow::Result<ExitCode> {
    if let Some(lock) = &options.verify_lock {
        return verify::run(options, lock, terminal);
    }
    let conversion = Conversion::open(load::source(Some(&options.checkpoint))?, &request(options)?)?;
    if let Some(path) = &options.sensitivity {
        return sensitivity::run(&conversion, path, options, terminal);
    }
    for notice in conversion.notices() {
        eprintln_notice(notice)?;
    }
    match &options.output {
        Some(path) if !options.dry_run => convert(&conversion, path, options, terminal),
        _ => dry_run(&conversion, options),
    }
}

fn eprintln_notice(notice: &str) -> io::Result<()> {
    writeln!(io::stderr(), "notice: {}", terminal::name(notice))
}

fn request(options: &ConvertOptions) -> anyhow::Result<Request> {
    let template = match options.template.as_str() {
        "simple" => TemplateChoice::Simple,
        "stock" => TemplateChoice::Stock,
        path => TemplateChoice::Source(std::fs::read_to_string(path).map_err(|error| {
            let message = format!("--template {}: {error}", terminal::name(path));
            Failure::new(Class::NotFound, message).hint("expected simple, stock, or a file")
        })?),
    };
    Ok(Request {
        recipe: Recipe::named(&options.recipe)?,
        ladder: options.ladder.clone(),
        cache_length: options.cache_length,
        template,
        name: options.name.clone(),
        threads: threads(options),
    })
}

fn threads(options: &ConvertOptions) -> usize {
    options.threads.unwrap_or_else(machine::cores)
}

/// The lock of a bundle: `model.litertlm` has `model.lock.json`.
fn lock_path(bundle: &Path) -> PathBuf {
    bundle.with_extension("lock.json")
}

fn dry_run(conversion: &Conversion, options: &ConvertOptions) -> anyhow::Result<ExitCode> {
    let (sections, size_bytes) = conversion.outline()?;
    let mut out = io::stdout().lock();
    if options.json {
        let memory_bytes = conversion.memory_bytes();
        let choices = conversion.choices();
        let object =
            json!({ "size_bytes": size_bytes, "memory_bytes": memory_bytes, "options": choices, "sections": sections });
        serde_json::to_writer_pretty(&mut out, &object).map_err(io::Error::from)?;
        writeln!(out)?;
    } else {
        text::outline(&mut out, conversion, &sections, size_bytes)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn convert(
    conversion: &Conversion,
    path: &Path,
    options: &ConvertOptions,
    terminal: &Terminal,
) -> anyhow::Result<ExitCode> {
    let begun = Instant::now();
    let interrupt = Interrupt::install()?;
    interrupt.begin_files();
    let mut output = Output::create(path, options.force)?;
    let mut lock_file = Output::create(&lock_path(path), options.force)?;
    let Some(outcome) = write(conversion, &mut output, &interrupt, options, terminal)? else {
        return Ok(ExitCode::from(interrupt::EXIT_CODE));
    };
    // All bytes of both find their room before either has its name.
    let written = lock_file.write_all(outcome.lock.to_json().as_bytes()).and_then(|()| lock_file.flush());
    written.map_err(|error| lock_file.error(error))?;
    output.commit()?;
    lock_file.commit()?;
    interrupt.end();
    let seconds = begun.elapsed().as_secs_f64();
    let mut out = io::stdout().lock();
    if options.json {
        serde_json::to_writer_pretty(&mut out, &to_json(path, seconds, &outcome)).map_err(io::Error::from)?;
        writeln!(out)?;
    } else {
        if options.tensors {
            text::tensors(&mut out, &outcome.tensors)?;
        }
        text::outcome(&mut out, &outcome)?;
        let shown = terminal::name(&path.display().to_string()).into_owned();
        writeln!(io::stderr(), "wrote {shown} in {}", units::time(begun.elapsed()))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn to_json(path: &Path, seconds: f64, outcome: &Outcome) -> serde_json::Value {
    json!({
        "bundle": path.display().to_string(),
        "seconds": seconds,
        "lock": outcome.lock,
        "tensors": outcome.tensors,
        "self_check": outcome.self_check,
    })
}

/// `None`: the user asked to stop, and nothing is left of it.
fn write(
    conversion: &Conversion,
    output: &mut Output,
    interrupt: &Interrupt,
    options: &ConvertOptions,
    terminal: &Terminal,
) -> anyhow::Result<Option<Outcome>> {
    let (mut reading, mut writing) =
        (Progress::new(terminal.stderr, "reading"), Progress::new(terminal.stderr, "writing"));
    let threads = threads(options);
    let mut check = |bundle: &kinglet_bundle::Bundle| check::run(bundle, threads);
    let result = conversion.write(output, &mut check, &mut |stage, done, total| {
        match stage {
            Stage::Reading => reading.update(done, total),
            Stage::Writing => {
                reading.finish();
                writing.update(done, total);
            }
        }
        if interrupt.asked() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    reading.finish();
    writing.finish();
    match result {
        Ok(outcome) => Ok(Some(outcome)),
        Err(error) if error.kind() == ErrorKind::Interrupted => {
            writeln!(io::stderr(), "interrupted; nothing was written")?;
            Ok(None)
        }
        Err(error) => Err(error.into()),
    }
}
