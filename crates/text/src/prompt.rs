//! Pieces of text with the trust that each deserves go in, one string with the ranges that must stay plain text comes
//! out; it never tokenises.

use std::ops::Range;

/// Whether strings such as `<|im_end|>` in a text stand for control tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Specials {
    /// Every added token is recognised: for text that a template wrote.
    Parse,
    /// No added token is recognised, they are spelled out in ordinary tokens: for text that a user wrote.
    AsText,
}

/// A stretch of a prompt with its trust.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Segment<'a> {
    /// The text.
    pub text: &'a str,
    /// Whether added tokens are recognised in it.
    pub specials: Specials,
}

/// A rendered prompt that remembers which of its bytes must not become control tokens.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Prompt {
    text: String,
    /// Sorted, disjoint, not empty, on character boundaries.
    literal: Vec<Range<usize>>,
}

impl Prompt {
    /// An empty prompt.
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends `text`. With [`Specials::AsText`] no added token that covers any byte of it is recognised, not even one
    /// that begins in an earlier piece.
    pub fn push(&mut self, text: &str, specials: Specials) {
        let start = self.text.len();
        self.text.push_str(text);
        if specials == Specials::AsText && !text.is_empty() {
            match self.literal.last_mut() {
                Some(last) if last.end == start => last.end = self.text.len(),
                _ => self.literal.push(start..self.text.len()),
            }
        }
    }

    /// The whole prompt, as a person would read it.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Byte ranges of [`text`](Self::text) in which added tokens are not recognised: sorted and disjoint.
    pub fn literal(&self) -> &[Range<usize>] {
        &self.literal
    }

    /// Whether any byte of `range` must stay text.
    pub(crate) fn is_literal(&self, range: &Range<usize>) -> bool {
        let next = self.literal.partition_point(|literal| literal.end <= range.start);
        self.literal.get(next).is_some_and(|literal| literal.start < range.end)
    }
}

impl From<&str> for Prompt {
    /// A prompt in which every added token is recognised.
    fn from(text: &str) -> Self {
        Self { text: text.to_owned(), literal: Vec::new() }
    }
}

impl<'a> FromIterator<Segment<'a>> for Prompt {
    fn from_iter<I: IntoIterator<Item = Segment<'a>>>(segments: I) -> Self {
        let mut prompt = Self::new();
        for segment in segments {
            prompt.push(segment.text, segment.specials);
        }
        prompt
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbouring_literal_pieces_become_one_range() {
        let mut prompt = Prompt::new();
        prompt.push("ab", Specials::Parse);
        prompt.push("cd", Specials::AsText);
        prompt.push("", Specials::AsText);
        prompt.push("e", Specials::AsText);
        prompt.push("f", Specials::Parse);
        assert_eq!(prompt.text(), "abcdef");
        assert_eq!(prompt.literal(), std::slice::from_ref(&(2..5)));
    }

    #[test]
    fn a_range_is_literal_if_it_shares_one_byte_with_a_literal_piece() {
        let mut prompt = Prompt::from("012");
        prompt.push("34", Specials::AsText);
        prompt.push("567", Specials::Parse);
        prompt.push("8", Specials::AsText);
        for (range, expected) in
            [(0..3, false), (0..4, true), (3..4, true), (4..9, true), (5..8, false), (7..9, true), (9..12, false)]
        {
            assert_eq!(prompt.is_literal(&range), expected, "{range:?}");
        }
    }
}
