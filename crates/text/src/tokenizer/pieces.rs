//! The vocabulary as `tokenizer.json` spells it goes in, the bytes of each id come out; it never encodes.

use crate::Error;
use std::fmt::Write;

/// What one id stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Piece<'a> {
    /// Bytes of the text, possibly a part of a character.
    Text(&'a [u8]),
    /// The content of a control token.
    Special(&'a [u8]),
    /// No token has this id.
    Unknown,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Text,
    Special,
    Unknown,
}

/// The bytes of every id, in one allocation.
#[derive(Debug)]
pub(crate) struct Pieces {
    bytes: Vec<u8>,
    /// End in `bytes` and kind of each id.
    ends: Vec<(u32, Kind)>,
}

/// One row for [`Pieces::new`]: the id, its token and, for added tokens, whether it is special.
pub(crate) struct Row<'a> {
    pub(crate) id: u32,
    pub(crate) token: &'a str,
    pub(crate) added: Option<bool>,
}

impl Pieces {
    /// `rows` may come in any order; two with one id are an error, gaps are not as long as most ids are in use.
    pub(crate) fn new(mut rows: Vec<Row<'_>>) -> Result<Self, Error> {
        rows.sort_unstable_by_key(|row| row.id);
        let inconsistent = |reason: String| Error::TokenizerInconsistent { section: "model.vocab", reason };
        let largest = rows.last().map_or(0, |row| row.id as usize);
        if largest > 8 * rows.len() + (1 << 16) {
            return Err(inconsistent(format!("{} tokens have ids up to {largest}", rows.len())));
        }
        let mut pieces = Self { bytes: Vec::new(), ends: Vec::with_capacity(largest + 1) };
        for row in &rows {
            if pieces.ends.len() > row.id as usize {
                return Err(inconsistent(format!("id {} is given to two tokens, one is {:?}", row.id, row.token)));
            }
            let end = pieces.bytes.len() as u32;
            pieces.ends.resize(row.id as usize, (end, Kind::Unknown));
            match row.added {
                Some(_) => pieces.bytes.extend_from_slice(row.token.as_bytes()),
                None => push_decoded(&mut pieces.bytes, row.token),
            }
            let kind = if row.added == Some(true) { Kind::Special } else { Kind::Text };
            pieces.ends.push((pieces.bytes.len() as u32, kind));
        }
        Ok(pieces)
    }

    /// One past the largest id.
    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    pub(crate) fn get(&self, id: u32) -> Piece<'_> {
        let id = id as usize;
        let Some(&(end, kind)) = self.ends.get(id) else { return Piece::Unknown };
        let start = if id == 0 { 0 } else { self.ends[id - 1].0 };
        let bytes = &self.bytes[start as usize..end as usize];
        match kind {
            Kind::Text => Piece::Text(bytes),
            Kind::Special => Piece::Special(bytes),
            Kind::Unknown => Piece::Unknown,
        }
    }
}

/// The character that stands for `byte` in a byte-level vocabulary: printable ones stand for themselves, the others are
/// numbered from U+0100.
pub(crate) fn char_of_byte(byte: u8) -> char {
    match byte {
        0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff => char::from(byte),
        0x00..=0x20 => char_from(0x100 + u32::from(byte)),
        0x7f..=0xa0 => char_from(0x121 + u32::from(byte - 0x7f)),
        0xad => char_from(0x143),
    }
}

fn char_from(code: u32) -> char {
    char::from_u32(code).expect("0x100..=0x143 are characters")
}

fn byte_of_char(char: char) -> Option<u8> {
    match u32::from(char) {
        code @ (0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff) => Some(code as u8),
        code @ 0x100..=0x120 => Some((code - 0x100) as u8),
        code @ 0x121..=0x142 => Some((code - 0x121 + 0x7f) as u8),
        0x143 => Some(0xad),
        _ => None,
    }
}

/// Writes `text` in the characters of a byte-level vocabulary.
pub(crate) fn spell(text: &str, out: &mut String) {
    out.clear();
    for byte in text.bytes() {
        // Writing to a string cannot fail.
        let _ = out.write_char(char_of_byte(byte));
    }
}

/// Appends the bytes that `token` stands for; a token with a character outside the byte alphabet stands for itself.
fn push_decoded(bytes: &mut Vec<u8>, token: &str) {
    let start = bytes.len();
    for char in token.chars() {
        let Some(byte) = byte_of_char(char) else {
            bytes.truncate(start);
            bytes.extend_from_slice(token.as_bytes());
            return;
        };
        bytes.push(byte);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_has_its_own_character_and_returns() {
        let mut seen = std::collections::HashSet::new();
        for byte in 0..=255u8 {
            let char = char_of_byte(byte);
            assert!(seen.insert(char) && !char.is_whitespace() && !char.is_control(), "{byte:#x} -> {char:?}");
            assert_eq!(byte_of_char(char), Some(byte));
        }
        assert_eq!((char_of_byte(b' '), char_of_byte(b'\n'), char_of_byte(0xad)), ('Ġ', 'Ċ', 'Ń'));
        assert_eq!(byte_of_char('字'), None);
    }

    #[test]
    fn ids_between_tokens_are_unknown_and_a_double_id_is_an_error() {
        let row = |id, token, added| Row { id, token, added };
        let pieces = Pieces::new(vec![row(4, "<s>", Some(true)), row(1, "Ġa", None), row(2, "x字", None)]).unwrap();
        assert_eq!(pieces.len(), 5);
        let expected = [
            Piece::Unknown,
            Piece::Text(b" a"),
            Piece::Text("x字".as_bytes()),
            Piece::Unknown,
            Piece::Special(b"<s>"),
            Piece::Unknown,
        ];
        for (id, piece) in expected.into_iter().enumerate() {
            assert_eq!(pieces.get(id as u32), piece, "id {id}");
        }
        assert_eq!(pieces.get(u32::MAX), Piece::Unknown);
        assert!(Pieces::new(vec![row(1, "a", None), row(1, "b", None)]).is_err());
        assert!(Pieces::new(vec![row(u32::MAX, "a", None)]).is_err(), "one token must not cost 4 G entries");
        assert_eq!(Pieces::new(Vec::new()).unwrap().len(), 0);
    }
}
