//! The line editor: a prompt goes in, an edited line comes out; earlier lines are remembered until the program ends and
//! never written to a file.

use std::io;

use rustyline::error::ReadlineError;
use rustyline::history::MemHistory;
use rustyline::{Config, Editor as LineEditor};

use crate::repl::{Input, Lines};

/// Edits lines at a terminal.
pub(crate) struct Editor(LineEditor<(), MemHistory>);

impl Editor {
    pub(crate) fn new() -> anyhow::Result<Editor> {
        let config = Config::builder().auto_add_history(true).build();
        Ok(Editor(LineEditor::with_history(config, MemHistory::new())?))
    }
}

impl Lines for Editor {
    fn next(&mut self, prompt: &str) -> io::Result<Input> {
        match self.0.readline(prompt) {
            Ok(line) => Ok(Input::Line(line)),
            Err(ReadlineError::Interrupted) => Ok(Input::Interrupted),
            Err(ReadlineError::Eof) => Ok(Input::End),
            Err(ReadlineError::Io(error)) => Err(error),
            Err(error) => Err(io::Error::other(error)),
        }
    }
}
