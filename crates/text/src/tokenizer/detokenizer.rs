//! Ids go in one at a time, the text that each of them completes comes out; it never emits a broken character.

use super::pieces::{Piece, Pieces};
use std::sync::Arc;

/// Turns ids into text as they arrive.
///
/// The concatenation of everything that [`push`](Self::push) and [`finish`](Self::finish) return equals
/// [`Tokenizer::decode`](crate::Tokenizer::decode) of the whole list. A character that several tokens share is emitted
/// with the last of them. Each push costs time in proportion to the token's length, however long the text is already.
#[derive(Debug, Clone)]
pub struct Detokenizer {
    pieces: Arc<Pieces>,
    skip_special: bool,
    /// Bytes of a character that is not complete yet, at most 3 between calls.
    pending: Vec<u8>,
    unknown: usize,
}

impl Detokenizer {
    pub(super) fn new(pieces: Arc<Pieces>, skip_special: bool) -> Self {
        Self { pieces, skip_special, pending: Vec::new(), unknown: 0 }
    }

    /// Takes the next id and returns the text that is complete with it. There is none inside a character, for a hidden
    /// control token and for an id that no token has (see [`unknown_ids`](Self::unknown_ids)).
    pub fn push(&mut self, id: u32) -> Option<String> {
        match self.pieces.get(id) {
            Piece::Text(bytes) => self.pending.extend_from_slice(bytes),
            Piece::Special(bytes) if !self.skip_special => self.pending.extend_from_slice(bytes),
            Piece::Special(_) => {}
            Piece::Unknown => self.unknown += 1,
        }
        let mut text = String::new();
        let kept = take_complete(&self.pending, &mut text);
        self.pending.drain(..self.pending.len() - kept);
        Some(text).filter(|text| !text.is_empty())
    }

    /// Ends the text: a character that never became complete is returned as U+FFFD. The detokenizer is then as new.
    pub fn finish(&mut self) -> String {
        let rest = if self.pending.is_empty() { String::new() } else { char::REPLACEMENT_CHARACTER.to_string() };
        self.pending.clear();
        self.unknown = 0;
        rest
    }

    /// How many ids since the last [`finish`](Self::finish) belong to no token, such as padded rows of the embedding
    /// table.
    pub fn unknown_ids(&self) -> usize {
        self.unknown
    }
}

/// Moves all complete characters into `text`, one U+FFFD for each malformed sequence, and returns how many bytes at the
/// end may still become a character.
fn take_complete(mut bytes: &[u8], text: &mut String) -> usize {
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        bytes = &bytes[chunk.valid().len() + chunk.invalid().len()..];
        match std::str::from_utf8(chunk.invalid()) {
            Ok(_) => {}
            Err(error) if bytes.is_empty() && error.error_len().is_none() => return chunk.invalid().len(),
            Err(_) => text.push(char::REPLACEMENT_CHARACTER),
        }
    }
    0
}
