//! The stream of one reply: ids go in one by one, thought and content text come out; it knows where a thought ends and
//! what stops a reply, and never asks the model.

use kinglet_model::assets::Stop;
use kinglet_text::{Detokenizer, Tokenizer};

/// A piece of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece<'a> {
    /// Text of the thought.
    Thought(&'a str),
    /// Text of the answer.
    Content(&'a str),
}

/// Tells thought from content while ids arrive.
pub(crate) struct Stream<'a> {
    detokenizer: Detokenizer,
    open: Option<u32>,
    close: Option<u32>,
    thinking: bool,
    stop_texts: Vec<&'a str>,
    /// Content held back because it may begin a stop text.
    held: String,
    /// Whether the current part has shown text yet: blank lines before it are dropped.
    begun: bool,
    pub(crate) thought: String,
    pub(crate) content: String,
}

impl<'a> Stream<'a> {
    pub(crate) fn new(tokenizer: &'a Tokenizer, stops: &'a [Stop], thinking: bool) -> Stream<'a> {
        let text = |stop: &'a Stop| match stop {
            Stop::Text(text) if !text.is_empty() => Some(text.as_str()),
            _ => None,
        };
        Stream {
            detokenizer: tokenizer.detokenizer(true),
            open: tokenizer.token_to_id("<think>"),
            close: tokenizer.token_to_id("</think>"),
            thinking,
            stop_texts: stops.iter().filter_map(text).collect(),
            held: String::new(),
            begun: false,
            thought: String::new(),
            content: String::new(),
        }
    }

    /// Takes the next id; `true` when a stop text was completed, which is not part of the reply.
    pub(crate) fn push(&mut self, id: u32, show: &mut dyn FnMut(Piece<'_>)) -> bool {
        if Some(id) == self.close || (Some(id) == self.open && self.content.is_empty()) {
            let rest = self.detokenizer.finish();
            let stopped = self.text(&rest, show);
            self.release(show);
            self.thinking = Some(id) == self.open;
            self.begun = false;
            return stopped;
        }
        let piece = self.detokenizer.push(id).unwrap_or_default();
        self.text(&piece, show)
    }

    /// Ends the stream: what was held back is text after all.
    pub(crate) fn finish(&mut self, show: &mut dyn FnMut(Piece<'_>)) {
        let rest = self.detokenizer.finish();
        self.text(&rest, show);
        self.release(show);
    }

    fn text(&mut self, piece: &str, show: &mut dyn FnMut(Piece<'_>)) -> bool {
        let piece = if self.begun { piece } else { piece.trim_start_matches('\n') };
        if piece.is_empty() {
            return false;
        }
        self.begun = true;
        if self.thinking {
            self.thought.push_str(piece);
            show(Piece::Thought(piece));
            return false;
        }
        self.held.push_str(piece);
        if let Some(at) = self.stop_texts.iter().filter_map(|stop| self.held.find(stop)).min() {
            self.held.truncate(at);
            self.release(show);
            return true;
        }
        let keep = self.stop_texts.iter().map(|stop| overlap(&self.held, stop)).max().unwrap_or(0);
        let rest = self.held.split_off(self.held.len() - keep);
        self.release(show);
        self.held = rest;
        false
    }

    fn release(&mut self, show: &mut dyn FnMut(Piece<'_>)) {
        if !self.held.is_empty() {
            self.content.push_str(&self.held);
            show(Piece::Content(&self.held));
            self.held.clear();
        }
    }
}

/// Bytes at the end of `text` that begin `stop`.
fn overlap(text: &str, stop: &str) -> usize {
    let starts = stop.char_indices().map(|(i, _)| i).skip(1);
    starts.filter(|n| text.ends_with(&stop[..*n])).last().unwrap_or(0)
}
