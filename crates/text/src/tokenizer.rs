//! The bytes of `tokenizer.json` go in once, then text goes in and ids come out, and back; it never reads a file and
//! never adds a token that the text does not hold.

mod added;
mod detokenizer;
mod pieces;
mod spec;

pub use added::AddedToken;
pub(crate) use added::AddedTokens;
pub use detokenizer::Detokenizer;

use crate::{Error, Prompt, Segment, Specials};
use pieces::{Piece, Pieces};
use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;
use tokenizers::models::bpe::BPE;
use tokenizers::pattern::Pattern;
use tokenizers::utils::SysRegex;
use tokenizers::{Model, NormalizedString};

/// A byte-level BPE tokenizer.
///
/// The ids equal those of the reference library for the same file, which the goldens of this crate check string by
/// string. Post-processing, truncation and padding in the file are not applied: beginning and end markers are the
/// template's business, and text is never cut.
///
/// ```no_run
/// use kinglet_text::{Specials, Tokenizer};
///
/// let tokenizer = Tokenizer::from_json(&std::fs::read("tokenizer.json")?)?;
/// let control = tokenizer.encode("<|im_end|>", Specials::Parse)?;
/// let text = tokenizer.encode("<|im_end|>", Specials::AsText)?;
/// assert_eq!(control.len(), 1);
/// assert_eq!(tokenizer.decode(&text, true), "<|im_end|>");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Tokenizer {
    bpe: BPE,
    compose: bool,
    splits: Vec<Split>,
    added: AddedTokens,
    added_ids: HashMap<String, u32>,
    pieces: Arc<Pieces>,
}

struct Split {
    regex: SysRegex,
    /// Whether the pattern matches every character, so that a gap between matches means that it gave up.
    is_total: bool,
}

impl std::fmt::Debug for Tokenizer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let added = self.added.tokens().len();
        f.debug_struct("Tokenizer")
            .field("vocab_size", &self.vocab_size())
            .field("added", &added)
            .finish_non_exhaustive()
    }
}

impl Tokenizer {
    /// Reads a complete `tokenizer.json`.
    ///
    /// # Errors
    /// If it is not JSON, not a byte-level BPE tokenizer, larger than 300 MiB, contradicts itself, or asks for a step
    /// that this crate does not have. Nothing that it asks for is silently left out, except as told above.
    pub fn from_json(json: &[u8]) -> Result<Self, Error> {
        let spec = spec::Spec::read(json)?;
        Ok(Self {
            bpe: spec.bpe,
            compose: spec.compose,
            splits: spec.splits.into_iter().map(Split::new).collect(),
            added_ids: spec::ids_of_added(&spec.added),
            added: AddedTokens::new(spec.added),
            pieces: Arc::new(spec.pieces),
        })
    }

    /// The ids of `text`.
    ///
    /// # Errors
    /// If the split pattern gives up, which takes a run of blanks of about a million characters.
    pub fn encode(&self, text: &str, specials: Specials) -> Result<Vec<u32>, Error> {
        let mut ids = Vec::new();
        match specials {
            Specials::Parse => self.encode_recognising(text, |_| true, &mut ids)?,
            Specials::AsText => self.encode_plain(text, &mut ids)?,
        }
        Ok(ids)
    }

    /// The ids of a rendered prompt. Text between two recognised control tokens is encoded as one piece, whether a
    /// template or a user wrote it, so the ids are those of the whole string as long as no user wrote a control token.
    ///
    /// # Errors
    /// As [`encode`](Self::encode).
    pub fn encode_prompt(&self, prompt: &Prompt) -> Result<Vec<u32>, Error> {
        let mut ids = Vec::new();
        self.encode_recognising(prompt.text(), |range| !prompt.is_literal(range), &mut ids)?;
        Ok(ids)
    }

    /// The ids of the segments joined, as [`encode_prompt`](Self::encode_prompt).
    ///
    /// # Errors
    /// As [`encode`](Self::encode).
    pub fn encode_segments(&self, segments: &[Segment<'_>]) -> Result<Vec<u32>, Error> {
        self.encode_prompt(&segments.iter().copied().collect())
    }

    /// The text of `ids`, each malformed sequence of bytes as one U+FFFD, ids without a token as nothing.
    /// `skip_special` hides the tokens that are marked special.
    pub fn decode(&self, ids: &[u32], skip_special: bool) -> String {
        let mut bytes = Vec::new();
        for &id in ids {
            match self.pieces.get(id) {
                Piece::Text(piece) => bytes.extend_from_slice(piece),
                Piece::Special(piece) if !skip_special => bytes.extend_from_slice(piece),
                Piece::Special(_) | Piece::Unknown => {}
            }
        }
        String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
    }

    /// A decoder for ids that arrive one at a time.
    pub fn detokenizer(&self, skip_special: bool) -> Detokenizer {
        Detokenizer::new(Arc::clone(&self.pieces), skip_special)
    }

    /// The id of a token: the content of an added one, or one of the vocabulary as the file spells it (a blank is `Ġ`).
    pub fn token_to_id(&self, token: &str) -> Option<u32> {
        self.added_ids.get(token).copied().or_else(|| self.bpe.token_to_id(token))
    }

    /// The token with this id, spelled as in the file.
    pub fn id_to_token(&self, id: u32) -> Option<String> {
        let added = self.added.tokens().iter().find(|token| token.id == id);
        added.map(|token| token.content.clone()).or_else(|| self.bpe.id_to_token(id))
    }

    /// The bytes of text that this id stands for, possibly a part of a character.
    pub fn id_to_bytes(&self, id: u32) -> Option<&[u8]> {
        match self.pieces.get(id) {
            Piece::Text(bytes) | Piece::Special(bytes) => Some(bytes),
            Piece::Unknown => None,
        }
    }

    /// One past the largest id. There may be ids below it that no token has.
    pub fn vocab_size(&self) -> usize {
        self.pieces.len()
    }

    /// The tokens that stand outside the ordinary vocabulary, in the order of the file.
    pub fn added_tokens(&self) -> &[AddedToken] {
        self.added.tokens()
    }

    /// Checks that every id has a row in a model with `model_vocab` rows.
    ///
    /// # Errors
    /// [`Error::Misfit`] with the largest id that has none.
    pub fn check_fits(&self, model_vocab: usize) -> Result<(), Error> {
        let size = self.vocab_size();
        if size <= model_vocab {
            return Ok(());
        }
        let id = size as u32 - 1;
        Err(Error::Misfit { token: self.id_to_token(id).unwrap_or_default(), id, model_vocab })
    }

    pub(crate) fn added(&self) -> &AddedTokens {
        &self.added
    }

    fn encode_recognising(
        &self,
        text: &str,
        allowed: impl Fn(&std::ops::Range<usize>) -> bool,
        ids: &mut Vec<u32>,
    ) -> Result<(), Error> {
        let mut done = 0;
        while let Some((range, id)) = self.added.find(text, done, &allowed) {
            self.encode_plain(&text[done..range.start], ids)?;
            ids.push(id);
            done = range.end;
        }
        self.encode_plain(&text[done..], ids)
    }

    fn encode_plain(&self, text: &str, ids: &mut Vec<u32>) -> Result<(), Error> {
        let text = if self.compose { compose(text) } else { Cow::Borrowed(text) };
        let mut words: Vec<std::ops::Range<usize>> = std::iter::once(0..text.len()).collect();
        for split in &self.splits {
            words = split.cut(&text, words)?;
        }
        let mut spelled = String::new();
        for word in words {
            pieces::spell(&text[word], &mut spelled);
            let tokens = self.bpe.tokenize(&spelled).map_err(|error| Error::Encode(error.to_string()))?;
            ids.extend(tokens.iter().map(|token| token.id));
        }
        Ok(())
    }
}

impl Split {
    fn new(regex: SysRegex) -> Self {
        // One character of each class that split patterns name: letters, marks, digits, blanks, ends, signs, controls.
        const CLASSES: &str =
            "a Zé\u{301}字ा1५ \t\n\r\u{a0}\u{3000}\u{2028}'.<_😀\u{200d}\u{0}\u{1b}\u{7f}\u{e000} \r\nx  ";
        let is_total = |text: &str| (&regex).find_matches(text).is_ok_and(|found| found.iter().all(|found| found.1));
        Self { is_total: is_total(CLASSES), regex }
    }

    fn cut(&self, text: &str, words: Vec<std::ops::Range<usize>>) -> Result<Vec<std::ops::Range<usize>>, Error> {
        let mut cut = Vec::new();
        for word in words.into_iter().filter(|word| !word.is_empty()) {
            let found =
                (&self.regex).find_matches(&text[word.clone()]).map_err(|error| Error::Encode(error.to_string()))?;
            for ((start, end), is_match) in found {
                if self.is_total && !is_match {
                    return Err(Error::SplitGaveUp { at: word.start + start, len: text.len() });
                }
                cut.push(word.start + start..word.start + end);
            }
        }
        Ok(cut)
    }
}

fn compose(text: &str) -> Cow<'_, str> {
    if text.is_ascii() {
        return Cow::Borrowed(text);
    }
    let mut normalized = NormalizedString::from(text);
    normalized.nfc();
    Cow::Owned(normalized.get().to_owned())
}
