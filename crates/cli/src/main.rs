//! The program `kinglet`: arguments go in, text and an exit code come out; what another front-end would need too is in
//! the crates below.
//!
//! Rooms, in reading order: one file per command (`run`, `chat`, `convert`, `tokenize`, `inspect`, `repack`, `doctor`), `options` (what was
//! typed), `settings` (what was decided), `load` (from a path to a model that fits), `turn` (one reply), `repl` (many),
//! `failure` (errors and exit codes), `machine` and `terminal` (the world outside).

mod chat;
mod convert;
mod demo;
mod doctor;
mod editor;
mod failure;
mod inspect;
mod interrupt;
mod load;
mod machine;
mod options;
mod positional;
mod progress;
mod repack;
mod repl;
mod report;
mod run;
mod settings;
mod terminal;
mod tokenize;
mod transcript;
mod turn;
mod units;

use std::io::Write;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use terminal::Terminal;

/// A template that makes its engine panic is an error like any other, and is told as one.
fn pass_over_templates() {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if std::thread::current().name() != Some(kinglet_text::TEMPLATE_THREAD) {
            usual(panic);
        }
    }));
}

/// Run Qwen3.5 models on this computer's CPU, and make bundles of them
///
/// Replies and results go to standard output, everything else to standard error. Colour and progress are shown on
/// terminals only, and no colour where NO_COLOR is set.
#[derive(Parser)]
#[command(name = "kinglet", version, max_term_width = 100, after_help = failure::EXIT_CODES)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Run(Box<run::RunOptions>),
    Chat(Box<chat::ChatOptions>),
    Tokenize(tokenize::TokenizeOptions),
    Convert(Box<convert::ConvertOptions>),
    Inspect(inspect::InspectOptions),
    Unpack(repack::UnpackOptions),
    Pack(repack::PackOptions),
    Diff(repack::DiffOptions),
    Set(Box<repack::SetOptions>),
    Doctor(doctor::DoctorOptions),
}

fn main() -> ExitCode {
    pass_over_templates();
    let command = match Cli::try_parse() {
        Ok(cli) => cli.command,
        Err(error) => {
            // Help and version are written to standard output; whoever stops reading them has read enough.
            let _ = error.print();
            return ExitCode::from(error.exit_code().try_into().unwrap_or(failure::Class::Usage as u8));
        }
    };
    let terminal = Terminal::detect();
    let result = match &command {
        Command::Run(options) => run::run(options, &terminal),
        Command::Chat(options) => chat::run(options, &terminal),
        Command::Tokenize(options) => tokenize::run(options, &terminal),
        Command::Convert(options) => convert::run(options, &terminal),
        Command::Inspect(options) => inspect::run(options, &terminal),
        Command::Unpack(options) => repack::run_unpack(options),
        Command::Pack(options) => repack::run_pack(options, &terminal),
        Command::Diff(options) => repack::run_diff(options),
        Command::Set(options) => repack::run_set(options, &terminal),
        Command::Doctor(options) => doctor::run(options),
    };
    match result {
        Ok(code) => code,
        Err(error) if failure::is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => fail(&error),
    }
}

fn fail(error: &anyhow::Error) -> ExitCode {
    let (class, hint) = failure::classify(error);
    let mut notes = std::io::stderr().lock();
    // There is nowhere left to tell of an error in telling an error.
    let _ = writeln!(notes, "error: {}", terminal::prose(&format!("{error:#}")));
    if let Some(hint) = hint {
        let _ = writeln!(notes, "hint: {}", terminal::prose(&hint));
    }
    ExitCode::from(class as u8)
}
