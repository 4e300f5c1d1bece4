//! Strings of users go in and come out marked where they spell a control token; rendered text goes in and comes out
//! without the marks, as a prompt that knows where they were. Nothing here renders or tokenises.

use crate::tokenizer::{AddedToken, AddedTokens};
use crate::{Prompt, Specials};
use std::borrow::Cow;
use std::collections::HashSet;

/// How far a string is trusted to mean the control tokens that it spells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Trust {
    /// The operator's: means all of them.
    Full,
    /// An assistant's: means thinking and tool markup, but no token that controls the conversation.
    Markup,
    /// A user's: means none.
    None,
}

impl Trust {
    fn distrusts(self, token: &AddedToken) -> bool {
        match self {
            Trust::Full => false,
            Trust::Markup => token.special && !matches!(token.content.as_str(), "<think>" | "</think>"),
            Trust::None => true,
        }
    }
}

/// Puts a character that occurs nowhere else behind the first character of each distrusted token.
///
/// Templates test, trim and split what users wrote; a mark inside the token survives that, and hides the token from the
/// template's own searches.
pub(super) struct Marker<'a> {
    added: &'a AddedTokens,
    mark: char,
}

impl<'a> Marker<'a> {
    /// A marker for a rendering in which all of `texts` may appear; `None` if they leave no character to mark with.
    pub(super) fn new<'t>(added: &'a AddedTokens, texts: impl Iterator<Item = &'t str>) -> Option<Self> {
        let used: HashSet<char> = texts.flat_map(str::chars).filter(|&char| is_mark(char)).collect();
        let mark = marks().find(|mark| !used.contains(mark))?;
        Some(Self { added, mark })
    }

    pub(super) fn mark(&self) -> char {
        self.mark
    }

    pub(super) fn marked<'t>(&self, text: &'t str, trust: Trust) -> Cow<'t, str> {
        let starts = self.added.starts(text, |token| trust.distrusts(token));
        if starts.is_empty() || trust == Trust::Full {
            return Cow::Borrowed(text);
        }
        let mut marked = String::with_capacity(text.len() + starts.len() * self.mark.len_utf8());
        let mut done = 0;
        for start in starts {
            let first = text[start..].chars().next().map_or(0, char::len_utf8);
            marked.push_str(&text[done..start + first]);
            marked.push(self.mark);
            done = start + first;
        }
        marked.push_str(&text[done..]);
        Cow::Owned(marked)
    }

    /// Takes the marks out again; the character before each is literal.
    pub(super) fn unmarked(&self, rendered: &str) -> Prompt {
        let mut prompt = Prompt::new();
        let mut pieces = rendered.split(self.mark).peekable();
        while let Some(piece) = pieces.next() {
            let last = piece.char_indices().next_back().filter(|_| pieces.peek().is_some());
            let (trusted, literal) = piece.split_at(last.map_or(piece.len(), |(at, _)| at));
            prompt.push(trusted, Specials::Parse);
            prompt.push(literal, Specials::AsText);
        }
        prompt
    }
}

/// Noncharacters first: no text should hold them; private characters where one does.
fn marks() -> impl Iterator<Item = char> {
    ('\u{fdd0}'..='\u{fdef}').chain('\u{f0000}'..='\u{ffffd}').chain('\u{100000}'..='\u{10fffd}')
}

fn is_mark(char: char) -> bool {
    matches!(char, '\u{fdd0}'..='\u{fdef}' | '\u{f0000}'..='\u{ffffd}' | '\u{100000}'..='\u{10fffd}')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn added() -> AddedTokens {
        let token = |content: &str, id, special| AddedToken { content: content.to_owned(), id, special };
        AddedTokens::new(vec![token("<s>", 0, true), token("</think>", 1, false), token("é>", 2, true)])
    }

    #[test]
    fn marked_text_returns_unharmed_with_the_first_character_of_each_token_literal() {
        let added = added();
        let cases = [
            ("a<s>b</think>", Trust::None, vec![(1, 2), (5, 6)]),
            ("a<s>b</think>", Trust::Markup, vec![(1, 2)]),
            ("a<s>b</think>", Trust::Full, vec![]),
            ("xé>", Trust::None, vec![(1, 3)]),
            (
                "x<s 
",
                Trust::None,
                vec![(1, 2)],
            ),
            ("<s><s>", Trust::None, vec![(0, 1), (3, 4)]),
            ("", Trust::None, vec![]),
        ];
        for (text, trust, literal) in cases {
            let marker = Marker::new(&added, std::iter::once(text)).unwrap();
            let prompt = marker.unmarked(&marker.marked(text, trust));
            let ranges: Vec<_> = prompt.literal().iter().map(|range| (range.start, range.end)).collect();
            assert_eq!((prompt.text(), ranges.as_slice()), (text, literal.as_slice()), "{text:?} {trust:?}");
        }
    }

    #[test]
    fn a_mark_that_the_user_wrote_survives_since_another_is_chosen() {
        let added = added();
        let text = "\u{fdd0}<s>\u{fdd1}\u{fdd0}";
        let marker = Marker::new(&added, [text, "\u{fdd2}"].into_iter()).unwrap();
        assert_eq!(marker.mark(), '\u{fdd3}');
        let prompt = marker.unmarked(&marker.marked(text, Trust::None));
        assert_eq!(prompt.text(), text);
        assert_eq!(prompt.literal(), std::slice::from_ref(&(3..4)));
    }

    #[test]
    fn text_that_holds_every_mark_is_refused_rather_than_misread() {
        let added = added();
        let all: String = marks().collect();
        assert!(Marker::new(&added, std::iter::once(all.as_str())).is_none());
        assert!(Marker::new(&added, std::iter::once(&all[3..])).is_some());
    }
}
