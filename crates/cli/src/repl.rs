//! A conversation line by line: lines go in from anywhere, replies and notes go out to anywhere; it reads no terminal.

use std::io::{self, Write};
use std::path::Path;

use kinglet_chat::Finish;
use kinglet_text::Message;

use crate::failure::{self, Failure};
use crate::interrupt::Interrupt;
use crate::load::Loaded;
use crate::settings::Settings;
use crate::terminal::{self, Terminal};
use crate::turn::{self, Ask, Screen};
use crate::{report, transcript};

/// What the user did at the prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Input {
    Line(String),
    /// Ctrl-C: the line is given up.
    Interrupted,
    /// Ctrl-D, or the end of the file.
    End,
}

/// Where lines come from.
pub(crate) trait Lines {
    /// The next line, without its end; `prompt` is for terminals.
    fn next(&mut self, prompt: &str) -> io::Result<Input>;
}

const PROMPT: &str = ">>> ";
const CONTINUATION: &str = "... ";
/// Opens and closes a message of several lines.
const QUOTES: &str = "\"\"\"";

const HELP: &str = "commands:
  /clear            forget the conversation, keep the instructions
  /system [TEXT]    set the instructions, or show them
  /set [NAME VALUE] change how replies are made, or show it
  /stats            figures of the last reply
  /save FILE        write the conversation as JSON; /save! replaces a file
  /load FILE        continue a conversation that was saved
  /bye              leave, as does ctrl-d
  \"\"\"               begins and ends a message of several lines
  ctrl-c            stops a reply, or clears the line
";

/// One conversation.
pub(crate) struct Repl<'a> {
    pub(crate) loaded: Loaded,
    pub(crate) settings: Settings,
    pub(crate) out: &'a mut dyn Write,
    pub(crate) notes: &'a mut dyn Write,
    pub(crate) terminal: Terminal,
    pub(crate) interrupt: Interrupt,
    /// Whether to print figures after every reply.
    pub(crate) stats: bool,
    pub(crate) show_thought: bool,
    /// Figures of the last reply.
    pub(crate) last: Option<String>,
}

enum Next {
    Continue,
    Leave,
}

impl Repl<'_> {
    /// Talks until the user leaves. At a terminal an error leaves the conversation usable; elsewhere it ends it.
    pub(crate) fn run(&mut self, lines: &mut dyn Lines) -> anyhow::Result<()> {
        loop {
            let done = match lines.next(PROMPT)? {
                Input::End => return Ok(()),
                Input::Interrupted => writeln!(self.notes, "/bye or ctrl-d leaves").map_err(Into::into),
                Input::Line(line) => match self.line(&line, lines) {
                    Ok(Next::Leave) => return Ok(()),
                    Ok(Next::Continue) => Ok(()),
                    Err(error) => Err(error),
                },
            };
            match done {
                Err(error) if self.terminal.stdin && !failure::is_broken_pipe(&error) => self.complain(&error)?,
                other => other?,
            }
        }
    }

    fn complain(&mut self, error: &anyhow::Error) -> io::Result<()> {
        writeln!(self.notes, "error: {}", terminal::prose(&format!("{error:#}")))?;
        match failure::classify(error).1 {
            Some(hint) => writeln!(self.notes, "hint: {}", terminal::prose(&hint)),
            None => Ok(()),
        }
    }

    fn line(&mut self, line: &str, lines: &mut dyn Lines) -> anyhow::Result<Next> {
        if let Some(begun) = line.trim_start().strip_prefix(QUOTES) {
            if let Some(text) = quoted(begun, lines, self.terminal.stdin)? {
                self.say(&text)?;
            }
            return Ok(Next::Continue);
        }
        if let Some(command) = line.strip_prefix('/') {
            return self.command(command);
        }
        if !line.trim().is_empty() {
            self.say(line)?;
        }
        Ok(Next::Continue)
    }

    fn say(&mut self, text: &str) -> anyhow::Result<()> {
        if text.trim().is_empty() {
            return Ok(());
        }
        let mut screen = Screen::new(Some(&mut *self.out), &mut *self.notes, self.terminal, self.show_thought);
        let request = self.settings.request();
        let turn = turn::make(&mut self.loaded.chat, Ask::Say(text), request, &mut screen, &self.interrupt)?;
        if turn.reply.finish == Finish::ContextFull {
            let context = self.loaded.facts.context;
            writeln!(self.notes, "notice: the reply was cut off, the context of {context} is full; /clear makes room")?;
        }
        if let Some(notice) = turn::unfinished_thought(&turn.reply) {
            writeln!(self.notes, "notice: {notice}")?;
        }
        let stats = report::stats(&self.loaded, &turn);
        if self.stats {
            write!(self.notes, "{stats}")?;
        }
        self.last = Some(stats);
        Ok(())
    }

    fn command(&mut self, command: &str) -> anyhow::Result<Next> {
        let (name, rest) = command.split_once(char::is_whitespace).unwrap_or((command, ""));
        let rest = rest.trim();
        match name {
            "bye" | "exit" | "quit" => return Ok(Next::Leave),
            "help" | "?" => write!(self.notes, "{HELP}")?,
            "clear" => {
                let system = self.loaded.chat.messages().first().filter(|m| m.role == "system").cloned();
                self.loaded.chat.set_messages(system.into_iter().collect());
            }
            "system" => self.system(rest)?,
            "set" => self.set(rest)?,
            "stats" => {
                let told = self.last.as_deref().unwrap_or("there was no reply yet\n");
                write!(self.notes, "{told}")?;
            }
            "save" | "save!" => {
                transcript::save(file("save", rest)?, self.loaded.chat.messages(), name == "save!")?;
                writeln!(self.notes, "saved {}", messages(self.loaded.chat.messages().len()))?;
            }
            "load" => {
                let loaded = transcript::load(file("load", rest)?)?;
                writeln!(self.notes, "loaded {}", messages(loaded.len()))?;
                self.loaded.chat.set_messages(loaded);
            }
            _ => {
                let failure = Failure::usage(format!("there is no command /{}", terminal::name(name)));
                return Err(failure.hint("/help lists them; a blank before the / makes it a message").into());
            }
        }
        Ok(Next::Continue)
    }

    fn system(&mut self, text: &str) -> anyhow::Result<()> {
        let mut messages = self.loaded.chat.messages().to_vec();
        let present = messages.first().is_some_and(|message| message.role == "system");
        if text.is_empty() {
            let shown = if present { messages[0].text() } else { "there are no instructions".to_owned() };
            writeln!(self.notes, "{}", terminal::prose(&shown))?;
            return Ok(());
        }
        messages.splice(..usize::from(present), [Message::new("system", text)]);
        self.loaded.chat.set_messages(messages);
        Ok(())
    }

    fn set(&mut self, rest: &str) -> anyhow::Result<()> {
        let mut words = rest.split_whitespace();
        match (words.next(), words.next(), words.next()) {
            (None, ..) => write!(self.notes, "{}", self.settings.list())?,
            (Some(name), Some(value), None) => self.settings.set(name, value).map_err(Failure::usage)?,
            _ => return Err(Failure::usage("expected /set NAME VALUE").into()),
        }
        Ok(())
    }
}

/// The rest of a message that began with quotes; `None` when the user gave it up, which only one at a terminal does.
fn quoted(begun: &str, lines: &mut dyn Lines, is_typed: bool) -> anyhow::Result<Option<String>> {
    let mut text = begun.to_owned();
    while !text.trim_end().ends_with(QUOTES) {
        match lines.next(CONTINUATION)? {
            Input::Line(line) => {
                text.push('\n');
                text.push_str(&line);
            }
            Input::End if !is_typed => {
                let problem = format!("the input ends inside a message that began with {QUOTES}");
                return Err(Failure::usage(problem).hint(format!("end it with {QUOTES}")).into());
            }
            Input::Interrupted | Input::End => return Ok(None),
        }
    }
    let text = text.trim_end();
    Ok(Some(text[..text.len() - QUOTES.len()].trim_matches('\n').to_owned()))
}

fn file<'a>(command: &str, rest: &'a str) -> Result<&'a Path, Failure> {
    if rest.is_empty() { Err(Failure::usage(format!("expected /{command} FILE"))) } else { Ok(Path::new(rest)) }
}

fn messages(count: usize) -> String {
    if count == 1 { "1 message".to_owned() } else { format!("{count} messages") }
}

#[cfg(test)]
mod tests;
