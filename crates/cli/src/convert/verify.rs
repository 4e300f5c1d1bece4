//! `--verify-lock`: a lock and its checkpoint go in, whether the same bytes still come out comes out.

use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use kinglet_bundle::write::Output;
use kinglet_convert::lock::Lock;
use kinglet_convert::recipe::Recipe;
use kinglet_convert::{Conversion, Request, TemplateChoice};
use serde_json::json;

use super::ConvertOptions;
use crate::failure::{Class, Failure};
use crate::interrupt::{self, Interrupt};
use crate::load;
use crate::terminal::{self, Terminal};

/// Exits with 1 where they differ. The bundle is built in a temporary file beside the lock, which is removed.
pub(super) fn run(options: &ConvertOptions, path: &Path, terminal: &Terminal) -> anyhow::Result<ExitCode> {
    let shown = terminal::name(&path.display().to_string()).into_owned();
    let json = std::fs::read(path).map_err(|error| Failure::new(Class::NotFound, format!("{shown}: {error}")))?;
    let lock = Lock::parse(&shown, &json)?;
    let conversion = Conversion::open(load::source(Some(&options.checkpoint))?, &request(&lock, options)?)?;
    let interrupt = Interrupt::install()?;
    interrupt.begin_files();
    let mut output = Output::create(&path.with_extension("rebuilt"), true)?;
    let Some(outcome) = super::write(&conversion, &mut output, &interrupt, options, terminal)? else {
        return Ok(ExitCode::from(interrupt::EXIT_CODE));
    };
    drop(output);
    interrupt.end();
    let differences = lock.differences(&outcome.lock);
    let mut out = io::stdout().lock();
    if options.json {
        let object = json!({ "match": differences.is_empty(), "differences": differences, "lock": outcome.lock });
        serde_json::to_writer_pretty(&mut out, &object).map_err(io::Error::from)?;
        writeln!(out)?;
    } else if differences.is_empty() {
        writeln!(out, "MATCH {}", lock.bundle.sha256)?;
    } else {
        writeln!(out, "DIFFERENT")?;
        differences.iter().try_for_each(|difference| writeln!(out, "  {}", terminal::name(difference)))?;
    }
    Ok(ExitCode::from(u8::from(!differences.is_empty())))
}

fn request(lock: &Lock, options: &ConvertOptions) -> anyhow::Result<Request> {
    let chosen = &lock.options;
    let template = match (chosen.template.as_str(), &chosen.template_source) {
        ("simple", _) => TemplateChoice::Simple,
        ("stock", _) => TemplateChoice::Stock,
        (_, Some(source)) => TemplateChoice::Source(source.clone()),
        (other, None) => {
            let problem = format!("the lock's template: expected simple, stock or a source, found `{other}`");
            return Err(Failure::new(Class::Damaged, problem).into());
        }
    };
    Ok(Request {
        recipe: Recipe::named(&lock.recipe.name)?,
        ladder: Some(chosen.ladder.clone()),
        cache_length: chosen.cache_length,
        template,
        name: chosen.name.clone(),
        threads: super::threads(options),
    })
}
