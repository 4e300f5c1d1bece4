//! One reply: a message goes in; text on stdout, the thought on stderr, and how long it took come out.

use std::io::{self, Write};
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use kinglet_chat::{Chat, Event, Finish, Piece, Reply, Request};

use crate::interrupt::Interrupt;
use crate::progress::Progress;
use crate::terminal::{self, Terminal};

/// What is asked of the model.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Ask<'a> {
    /// A message of a conversation.
    Say(&'a str),
    /// Text to continue.
    Complete(&'a str),
}

/// A finished reply with its times.
#[derive(Clone, Debug)]
pub(crate) struct Turn {
    pub(crate) reply: Reply,
    pub(crate) request: Request,
    pub(crate) times: Times,
}

/// When things happened, from the moment that the message was handed over.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Times {
    /// The prompt was read.
    pub(crate) prompt: Duration,
    /// The first text could be shown; absent where there was none.
    pub(crate) first: Option<Duration>,
    /// The reply was complete.
    pub(crate) end: Duration,
}

impl Turn {
    /// Tokens per second of the part of the prompt that had to be read.
    pub(crate) fn prompt_rate(&self) -> Option<f64> {
        rate(self.reply.prompt_tokens - self.reply.cached_tokens, self.times.prompt)
    }

    /// Tokens per second of the reply. The first token's logits come with the prompt, so a reply that was cut off took
    /// one step less than it has tokens; one that the model ended took a step to find that out.
    pub(crate) fn reply_rate(&self) -> Option<f64> {
        let ended = usize::from(self.reply.finish != Finish::Stop);
        rate(self.reply.reply_tokens.saturating_sub(ended), self.times.end.saturating_sub(self.times.prompt))
    }
}

fn rate(steps: usize, time: Duration) -> Option<f64> {
    (steps > 0 && !time.is_zero()).then(|| steps as f64 / time.as_secs_f64())
}

/// What to tell of a reply that used up its tokens before it came to an answer.
pub(crate) fn unfinished_thought(reply: &Reply) -> Option<&'static str> {
    let is_unfinished = reply.finish == Finish::MaxTokens && reply.content.is_empty() && reply.thought.is_some();
    is_unfinished.then_some("the tokens were used up by the thought; a larger --max-tokens, or --no-think, leaves room")
}

/// Where a reply is shown while it is made.
pub(crate) struct Screen<'a> {
    out: Option<&'a mut dyn Write>,
    notes: &'a mut dyn Write,
    terminal: Terminal,
    show_thought: bool,
    /// What was written last, to know which separator is due.
    last: Option<Part>,
    ends_line: bool,
    failed: Option<io::Error>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Thought,
    Content,
}

impl<'a> Screen<'a> {
    /// Content goes to `out`, the thought to `notes` if `show_thought`.
    pub(crate) fn new(
        out: Option<&'a mut dyn Write>,
        notes: &'a mut dyn Write,
        terminal: Terminal,
        show_thought: bool,
    ) -> Screen<'a> {
        Screen { out, notes, terminal, show_thought, last: None, ends_line: true, failed: None }
    }

    fn piece(&mut self, piece: Piece<'_>) -> io::Result<()> {
        match piece {
            Piece::Thought(text) => self.thought(text),
            Piece::Content(text) => self.content(text),
        }
    }

    fn thought(&mut self, text: &str) -> io::Result<()> {
        if !self.show_thought {
            return Ok(());
        }
        let text = if self.terminal.stderr { terminal::prose(text) } else { text.into() };
        if self.last != Some(Part::Thought) {
            self.notes.write_all(self.terminal.dim().0.as_bytes())?;
            self.last = Some(Part::Thought);
        }
        self.ends_line = text.ends_with('\n');
        self.notes.write_all(text.as_bytes())?;
        self.notes.flush()
    }

    fn content(&mut self, text: &str) -> io::Result<()> {
        self.close_thought()?;
        let Some(out) = &mut self.out else { return Ok(()) };
        let text = if self.terminal.stdout { terminal::prose(text) } else { text.into() };
        self.last = Some(Part::Content);
        self.ends_line = text.ends_with('\n');
        out.write_all(text.as_bytes())?;
        out.flush()
    }

    fn close_thought(&mut self) -> io::Result<()> {
        if self.last == Some(Part::Thought) {
            self.last = None;
            let line = if self.ends_line { "" } else { "\n" };
            writeln!(self.notes, "{}{line}", self.terminal.dim().1)?;
            self.notes.flush()?;
        }
        Ok(())
    }

    /// Ends the line that the reply began.
    fn finish(&mut self) -> io::Result<()> {
        self.close_thought()?;
        match (&mut self.out, self.failed.take()) {
            (_, Some(error)) => Err(error),
            (Some(out), None) => {
                if self.last != Some(Part::Content) || !self.ends_line {
                    out.write_all(b"\n")?;
                }
                out.flush()
            }
            (None, None) => Ok(()),
        }
    }
}

/// Makes one reply and shows it.
pub(crate) fn make(
    chat: &mut Chat,
    ask: Ask<'_>,
    request: Request,
    screen: &mut Screen<'_>,
    interrupt: &Interrupt,
) -> anyhow::Result<Turn> {
    let begun = Instant::now();
    let mut times = Times::default();
    let mut progress = Progress::new(screen.terminal.stderr, "reading");
    let mut show = |event: Event<'_>| {
        match event {
            Event::Prompt { done, total, .. } if done < total => progress.update(done as u64, total as u64),
            Event::Prompt { .. } => {
                progress.finish();
                times.prompt = begun.elapsed();
            }
            Event::Piece(piece) => {
                times.first.get_or_insert_with(|| begun.elapsed());
                if let Err(error) = screen.piece(piece) {
                    screen.failed = Some(error);
                    return ControlFlow::Break(());
                }
            }
        }
        if interrupt.asked() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    interrupt.begin();
    let reply = match ask {
        Ask::Say(text) => chat.say(text, &request, &mut show),
        Ask::Complete(text) => chat.complete(text, &request, &mut show),
    };
    interrupt.end();
    progress.finish();
    times.end = begun.elapsed();
    match reply {
        Ok(reply) => {
            screen.finish()?;
            Ok(Turn { reply, request, times })
        }
        Err(error) => {
            if screen.last.is_some() {
                screen.finish()?;
            }
            Err(error.into())
        }
    }
}
