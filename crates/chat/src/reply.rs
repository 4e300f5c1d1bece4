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

#[cfg(test)]
mod tests {
    use super::*;

    fn tokenizer() -> Tokenizer {
        Tokenizer::from_json(include_bytes!("../../../models/demo/tokenizer.json")).expect("a tokenizer")
    }

    /// What is shown of `text`, cut into ids, until a stop.
    fn shown(text: &str, stop: &str, thinking: bool) -> (String, String, bool) {
        let tokenizer = tokenizer();
        let stops = [Stop::Text(stop.to_owned())];
        let mut stream = Stream::new(&tokenizer, &stops, thinking);
        let (mut thought, mut content) = (String::new(), String::new());
        let mut show = |piece: Piece<'_>| match piece {
            Piece::Thought(text) => thought.push_str(text),
            Piece::Content(text) => content.push_str(text),
        };
        let ids = tokenizer.encode(text, kinglet_text::Specials::Parse).expect("ids");
        let stopped = ids.into_iter().any(|id| stream.push(id, &mut show));
        if !stopped {
            stream.finish(&mut show);
        }
        assert_eq!(content, stream.content, "what is shown is what is kept");
        (thought, content, stopped)
    }

    #[test]
    fn a_stop_text_is_found_across_ids_and_not_shown() {
        let cases = [
            ("one two three", "two", "one ", true),
            ("one two three", "wo th", "one t", true),
            ("one two three", "e", "on", true),
            ("one two three", "three!", "one two three", false),
            ("one two thr", "three", "one two thr", false),
            ("aaab", "aab", "a", true),
            ("caf\u{e9} cr\u{e8}me", "\u{e8}m", "caf\u{e9} cr", true),
        ];
        for (text, stop, wanted, stops) in cases {
            assert_eq!(shown(text, stop, false), (String::new(), wanted.to_owned(), stops), "{text} / {stop}");
        }
    }

    #[test]
    fn a_thought_ends_where_it_is_closed_and_blank_lines_around_are_dropped() {
        let (thought, content, _) = shown("7 + 8 = 15.\n</think>\n\n15", "none", true);
        assert_eq!((thought.trim_end(), content.as_str()), ("7 + 8 = 15.", "15"));
        let (thought, content, _) = shown("<think>\nhm\n</think>\n\nyes", "none", false);
        assert_eq!((thought.trim_end(), content.as_str()), ("hm", "yes"));
    }

    #[test]
    fn stop_texts_do_not_end_a_thought() {
        assert_eq!(shown("one two</think>\n\ntwo", "two", true), ("one two".into(), String::new(), true));
    }
}
