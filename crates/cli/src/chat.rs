//! `kinglet chat`: lines go in, replies come out, until the user leaves; the conversation itself is in `repl`.

use std::io::{self, BufRead, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;

use crate::editor::Editor;
use crate::interrupt::Interrupt;
use crate::options::{ModelOptions, ReplyOptions, SamplingOptions};
use crate::repl::{Input, Lines, Repl};
use crate::terminal::Terminal;
use crate::{load, run, units};

/// Talk with a model, line by line; /help lists what else can be done
#[derive(Args, Clone, Debug)]
pub(crate) struct ChatOptions {
    /// A checkpoint directory or .litertlm file
    #[arg(value_name = "MODEL", conflicts_with = "model")]
    path: Option<PathBuf>,
    #[command(flatten)]
    reply: ReplyOptions,
    #[command(flatten)]
    sampling: SamplingOptions,
    #[command(flatten)]
    model: ModelOptions,
}

pub(crate) fn run(options: &ChatOptions, terminal: &Terminal) -> anyhow::Result<ExitCode> {
    let path = options.path.as_deref().or(options.model.model.as_deref());
    talk(path, &options.model, &options.reply, &options.sampling, terminal)
}

/// A conversation with the model at `path`.
pub(crate) fn talk(
    path: Option<&Path>,
    model: &ModelOptions,
    reply: &ReplyOptions,
    sampling: &SamplingOptions,
    terminal: &Terminal,
) -> anyhow::Result<ExitCode> {
    let interrupt = Interrupt::install()?;
    let mut loaded = load::load(path, model, terminal)?;
    let settings = run::prepare(&mut loaded, model, reply, sampling)?;
    let mut out = io::stdout().lock();
    let mut notes = io::stderr().lock();
    if terminal.stdin {
        let (facts, parameters) = (&loaded.facts, units::count(loaded.facts.parameters));
        writeln!(notes, "{}, {parameters} parameters, context {}; /help lists commands", facts.name, facts.context)?;
    }
    let mut repl = Repl {
        loaded,
        settings,
        out: &mut out,
        notes: &mut notes,
        terminal: *terminal,
        interrupt,
        stats: reply.stats,
        show_thought: terminal.stderr || model.verbose,
        last: None,
    };
    if terminal.stdin {
        repl.run(&mut Editor::new()?)?
    } else {
        repl.run(&mut Piped)?
    }
    Ok(ExitCode::SUCCESS)
}

/// Lines of a file or another program: no prompts, and the end of the input is the end.
struct Piped;

impl Lines for Piped {
    fn next(&mut self, _prompt: &str) -> io::Result<Input> {
        let mut line = String::new();
        if io::stdin().lock().read_line(&mut line)? == 0 {
            return Ok(Input::End);
        }
        let text = line.strip_suffix('\n').unwrap_or(&line);
        Ok(Input::Line(text.strip_suffix('\r').unwrap_or(text).to_owned()))
    }
}
