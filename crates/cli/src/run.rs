//! `kinglet run`: a prompt goes in, one reply comes out; without a prompt, at a terminal, a conversation.

use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use clap::Args;
use kinglet_chat::Finish;
use kinglet_text::Message;

use crate::failure::{Class, Failure};
use crate::interrupt::{self, Interrupt};
use crate::load::{self, Loaded};
use crate::options::{ModelOptions, ReplyOptions, SamplingOptions};
use crate::settings::Settings;
use crate::terminal::Terminal;
use crate::turn::{self, Ask, Screen};
use crate::{chat, positional, report};

/// Make one reply: to PROMPT, to the text of a file, or to standard input
///
/// The reply is written to standard output and nothing else is. What the model thinks before it answers is shown on
/// standard error, where that is a terminal or --verbose is given. Without a prompt, at a terminal, this is `kinglet
/// chat`.
#[derive(Args, Clone, Debug)]
#[command(after_long_help = positional::RULE)]
pub(crate) struct RunOptions {
    /// A checkpoint directory or .litertlm file
    #[arg(value_name = "MODEL")]
    first: Option<OsString>,
    /// What to say to the model
    #[arg(value_name = "PROMPT")]
    second: Option<OsString>,
    /// What to say to the model, whatever it looks like
    #[arg(short, long, value_name = "TEXT", conflicts_with = "prompt_file", allow_hyphen_values = true)]
    prompt: Option<String>,
    /// File that holds what to say; - is standard input
    #[arg(long, value_name = "FILE")]
    prompt_file: Option<PathBuf>,
    /// Continue the text as it stands, without chat template; special tokens in it are recognised
    #[arg(long, conflicts_with_all = ["system", "think", "no_think", "chat_template"])]
    raw: bool,
    /// Write one JSON object instead of the text
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    reply: ReplyOptions,
    #[command(flatten)]
    sampling: SamplingOptions,
    #[command(flatten)]
    model: ModelOptions,
}

pub(crate) fn run(options: &RunOptions, terminal: &Terminal) -> anyhow::Result<ExitCode> {
    let text_given = options.prompt.is_some() || options.prompt_file.is_some();
    let arguments: Vec<OsString> = [&options.first, &options.second].into_iter().flatten().cloned().collect();
    let sorted = positional::sort(&arguments, options.model.model.as_deref(), text_given)?;
    let doubt = |error| positional::doubt(error, &arguments, options.model.model.is_some() || text_given);
    if let Some(path) = sorted.model.as_deref().filter(|path| !path.exists()) {
        // Found out before standard input is waited for.
        return Err(doubt(kinglet_model::Error::not_found(path).into()));
    }
    let alone = sorted.model.is_none() && sorted.text.as_deref().is_some_and(positional::is_doubtful);
    if let Some(text) = sorted.text.as_ref().filter(|_| alone) {
        let text = crate::terminal::name(text);
        writeln!(io::stderr(), "notice: the demo model answers `{text}`; a model is given by its path, or as --model")?;
    }
    let from_input = options.prompt.is_none() && options.prompt_file.is_none() && sorted.text.is_none();
    let prompt = match (options.prompt.clone().or(sorted.text), &options.prompt_file) {
        (Some(text), _) if text == "-" && options.prompt.is_none() => Some(read(Path::new("-"))?),
        (Some(text), _) => Some(text),
        (None, Some(file)) => Some(read(file)?),
        (None, None) if !terminal.stdin => Some(read(Path::new("-"))?),
        (None, None) => None,
    };
    let Some(prompt) = prompt else {
        if options.json || options.raw {
            let missing = Failure::usage("--json and --raw need a prompt");
            return Err(missing.hint("give it as argument, file or standard input").into());
        }
        return chat::talk(sorted.model.as_deref(), &options.model, &options.reply, &options.sampling, terminal);
    };
    if prompt.trim().is_empty() {
        return Err(empty_prompt(from_input, sorted.model.as_deref()).into());
    }
    let interrupt = Interrupt::install()?;
    load::check_length(sorted.model.as_deref(), &options.model, &prompt)?;
    let mut loaded = load::load(sorted.model.as_deref(), &options.model, terminal)?;
    let settings = prepare(&mut loaded, &options.model, &options.reply, &options.sampling)?;
    answer(options, &mut loaded, &settings, &prompt, &interrupt, terminal)
}

fn empty_prompt(from_input: bool, model: Option<&Path>) -> Failure {
    match model {
        Some(_) if from_input => {
            let model = load::model_name(model);
            Failure::usage(format!("there is no prompt for {model}: standard input is empty"))
                .hint(format!("kinglet run {model} 'Why is the sky blue?', or kinglet chat {model}"))
        }
        _ if from_input => Failure::usage("there is no prompt: standard input is empty"),
        _ => Failure::usage("the prompt is empty"),
    }
}

/// Applies what the options say of the conversation, and tells what should be known.
pub(crate) fn prepare(
    loaded: &mut Loaded,
    model: &ModelOptions,
    reply: &ReplyOptions,
    sampling: &SamplingOptions,
) -> anyhow::Result<Settings> {
    if let Some(file) = &reply.chat_template {
        let source = std::fs::read_to_string(file).with_context(|| file.display().to_string())?;
        loaded.chat.set_template(&source).with_context(|| file.display().to_string())?;
    }
    if let Some(system) = &reply.system {
        loaded.chat.set_messages(vec![Message::new("system", system.as_str())]);
    }
    let settings = Settings::new(sampling, reply, loaded.chat.advice());
    let mut notes = io::stderr().lock();
    if let Some(told) = settings.without_effect(sampling) {
        writeln!(notes, "notice: {told}")?;
    }
    if model.verbose {
        writeln!(notes, "memory: {}", loaded.needs.statement())?;
        for notice in &loaded.notices {
            writeln!(notes, "notice: {}", crate::terminal::name(notice))?;
        }
    }
    Ok(settings)
}

fn answer(
    options: &RunOptions,
    loaded: &mut Loaded,
    settings: &Settings,
    prompt: &str,
    interrupt: &Interrupt,
    terminal: &Terminal,
) -> anyhow::Result<ExitCode> {
    let mut out = io::stdout().lock();
    let mut notes = io::stderr().lock();
    let shown: Option<&mut dyn Write> = if options.json { None } else { Some(&mut out) };
    let show_thought = !options.json && (terminal.stderr || options.model.verbose);
    let mut screen = Screen::new(shown, &mut notes, *terminal, show_thought);
    let ask = if options.raw { Ask::Complete(prompt) } else { Ask::Say(prompt) };
    let turn = turn::make(&mut loaded.chat, ask, settings.request(), &mut screen, interrupt)?;
    if options.json {
        serde_json::to_writer_pretty(&mut out, &report::json(loaded, &turn)).map_err(io::Error::from)?;
        writeln!(out)?;
    }
    if options.reply.stats {
        write!(notes, "{}", report::stats(loaded, &turn))?;
    }
    match turn.reply.finish {
        Finish::Cancelled => Ok(ExitCode::from(interrupt::EXIT_CODE)),
        Finish::ContextFull => {
            writeln!(notes, "notice: the reply was cut off, the context of {} is full", loaded.facts.context)?;
            Ok(ExitCode::SUCCESS)
        }
        Finish::Stop | Finish::MaxTokens => {
            if let Some(notice) = turn::unfinished_thought(&turn.reply) {
                writeln!(notes, "notice: {notice}")?;
            }
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// Most bytes of a text: several times what the longest context of the family holds. Texts take a hundred times their
/// length in memory until they are tokens.
const TEXT_LIMIT: u64 = 16 << 20;

/// The text of a file, or of standard input for `-`, without the end of its last line.
pub(crate) fn read(file: &Path) -> anyhow::Result<String> {
    let mut text = read_exactly(file)?;
    if text.ends_with('\n') {
        text.pop();
        if text.ends_with('\r') {
            text.pop();
        }
    }
    Ok(text)
}

/// The text of a file, or of standard input for `-`.
pub(crate) fn read_exactly(file: &Path) -> anyhow::Result<String> {
    let mut text = String::new();
    let (name, result) = if file == Path::new("-") {
        ("standard input".to_owned(), io::stdin().lock().take(TEXT_LIMIT + 1).read_to_string(&mut text))
    } else {
        let name = crate::terminal::name(&file.display().to_string()).into_owned();
        let read = std::fs::File::open(file).and_then(|file| file.take(TEXT_LIMIT + 1).read_to_string(&mut text));
        (name, read)
    };
    if text.len() as u64 > TEXT_LIMIT {
        return Err(Failure::new(Class::DoesNotFit, format!("{name}: more than {TEXT_LIMIT} bytes")).into());
    }
    result.context(name)?;
    Ok(text)
}
