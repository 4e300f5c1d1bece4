//! `kinglet doctor`: nothing or a model goes in; what this machine has, and whether the model fits it, comes out.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use serde_json::json;

use crate::load::{self, Needs};
use crate::machine::{Machine, Memory};
use crate::options::ModelOptions;
use crate::terminal;
use crate::units;

/// Show what this machine has, and whether a model fits it
///
/// Exits with 1 when the model does not fit.
#[derive(Args, Clone, Debug)]
pub(crate) struct DoctorOptions {
    /// A checkpoint directory or .litertlm file
    #[arg(value_name = "MODEL", conflicts_with = "model")]
    path: Option<PathBuf>,
    /// Write one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    model: ModelOptions,
}

/// What was found.
struct Findings {
    machine: Machine,
    model: String,
    shape: String,
    context: usize,
    needs: Needs,
    /// Of mapped files, read for every token.
    mapped_bytes: u64,
    chosen: &'static str,
    threads: usize,
}

impl Findings {
    fn fits(&self) -> bool {
        self.needs.check(&self.machine.memory).is_ok()
    }
}

pub(crate) fn run(options: &DoctorOptions) -> anyhow::Result<ExitCode> {
    let path = options.path.as_deref().or(options.model.model.as_deref());
    let source = load::source(path)?;
    let context = load::context(options.model.ctx, &source)?;
    let machine = Machine::read();
    let found = Findings {
        model: load::model_name(path),
        shape: load::shape(source.plan()),
        context,
        needs: Needs::of(&source, context, load::precision(&options.model)),
        mapped_bytes: source.mapped_bytes(load::precision(&options.model)),
        chosen: options.model.tier.unwrap_or(kinglet_kernels::best().name),
        threads: options.model.threads.unwrap_or(machine.cores),
        machine,
    };
    let mut out = io::stdout().lock();
    if options.json {
        serde_json::to_writer_pretty(&mut out, &to_json(&found)).map_err(io::Error::from)?;
        writeln!(out)?;
    } else {
        write!(out, "{}", to_text(&found))?;
    }
    Ok(if found.fits() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn tiers() -> Vec<(&'static str, bool)> {
    let available: Vec<&str> = kinglet_kernels::available().iter().map(|tier| tier.name).collect();
    kinglet_kernels::compiled().into_iter().map(|name| (name, available.contains(&name))).collect()
}

fn to_text(found: &Findings) -> String {
    let m = &found.machine;
    let or_unknown = |value: Option<u64>| value.map_or_else(|| "unknown".to_owned(), units::bytes);
    let tier = |(name, available): (&str, bool)| match (available, name == found.chosen) {
        (true, true) => format!("{name} (chosen)"),
        (true, false) => name.to_owned(),
        (false, _) => format!("{name} (not on this CPU)"),
    };
    let fits = match (found.fits(), m.memory.usable_bytes()) {
        (_, None) => "unknown: the system does not say how much memory there is".to_owned(),
        (true, Some(usable)) if found.needs.total_bytes + found.mapped_bytes > usable => {
            let (mapped, usable) = (units::bytes(found.mapped_bytes), units::bytes(usable));
            format!("yes, but slowly: {mapped} of weights stay in their file, and only {usable} are available for them")
        }
        (true, Some(_)) => "yes".to_owned(),
        (false, Some(usable)) => format!("no: {} are available", units::bytes(usable)),
    };
    format!(
        "system    {}\n\
         cpu       {}\n\
         cores     {} to use, {} logical CPUs, {} threads chosen\n\
         tiers     {}\n\
         memory    {} in all, {} available{}\n\
         pages     {}\n\
         model     {}: {}, context {}\n\
         takes     {}{}\n\
         fits      {fits}\n",
        m.os,
        m.cpu.as_deref().map_or("unknown".into(), terminal::name),
        m.cores,
        m.logical_cpus,
        found.threads,
        tiers().into_iter().map(tier).collect::<Vec<_>>().join(", "),
        or_unknown(m.memory.total_bytes),
        or_unknown(m.memory.available_bytes),
        limit(&m.memory),
        or_unknown(m.page_bytes),
        found.model,
        found.shape,
        found.context,
        found.needs.statement(),
        mapped(found.mapped_bytes),
    )
}

fn mapped(bytes: u64) -> String {
    if bytes == 0 { String::new() } else { format!("; {} weights beside it in their file", units::bytes(bytes)) }
}

fn limit(memory: &Memory) -> String {
    match (memory.limit_bytes, memory.limit_left_bytes) {
        (Some(limit), Some(left)) => {
            format!(", limited to {} of which {} are left", units::bytes(limit), units::bytes(left))
        }
        _ => String::new(),
    }
}

fn to_json(found: &Findings) -> serde_json::Value {
    let tiers: Vec<_> = tiers()
        .into_iter()
        .map(|(name, available)| json!({"name": name, "available": available, "chosen": name == found.chosen}))
        .collect();
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "machine": found.machine,
        "tiers": tiers,
        "threads": found.threads,
        "model": {"name": found.model, "context": found.context, "needs": found.needs, "mapped_bytes": found.mapped_bytes},
        "fits": found.fits(),
    })
}
