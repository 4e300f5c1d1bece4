//! The bytes of `tokenizer.json` go in, its parts come out checked for everything that the encoder relies on; nothing
//! here encodes.

use super::added::AddedToken;
use super::pieces::{Pieces, Row, char_of_byte};
use crate::Error;
use serde::de::{IgnoredAny, SeqAccess, Unexpected, Visitor};
use serde::{Deserialize, Deserializer};
use std::collections::{HashMap, HashSet};
use tokenizers::models::bpe::{BPE, Vocab};
use tokenizers::utils::SysRegex;

/// Largest `tokenizer.json` that is read, in bytes; that of the released models has 13 MB.
const MAX_BYTES: usize = 64 << 20;
/// Longest split pattern that is compiled, in bytes.
const MAX_PATTERN: usize = 16 << 10;
/// Most split patterns; each may compile to megabytes.
const MAX_SPLITS: usize = 16;
/// Most that the counts of all repetitions in a pattern come to when they are multiplied, as nested ones are.
const MAX_REPETITIONS: u64 = 1 << 20;
/// Longest content of an added token, in bytes.
const MAX_ADDED: usize = 1 << 10;

/// Most bytes of all added tokens together: they are looked for in one automaton, which takes many times as much.
const MAX_ADDED_BYTES: usize = 4 << 20;

/// A checked tokenizer file.
pub(super) struct Spec {
    /// Holds no added token.
    pub(super) bpe: BPE,
    pub(super) pieces: Pieces,
    pub(super) added: Vec<AddedToken>,
    /// Whether text is brought to Unicode form C first.
    pub(super) compose: bool,
    /// Patterns that cut text into words, applied in turn; every match and every gap is a word.
    pub(super) splits: Vec<SysRegex>,
}

#[derive(Deserialize)]
#[serde(expecting = "an object with a model")]
struct Probe {
    model: Option<ProbeModel>,
}

#[derive(Deserialize)]
#[serde(expecting = "a model")]
struct ProbeModel {
    #[serde(rename = "type")]
    kind: Option<String>,
}

#[derive(Deserialize)]
#[serde(expecting = "an object with a model")]
struct File {
    added_tokens: Option<Vec<Added>>,
    normalizer: Option<Step>,
    pre_tokenizer: Option<Step>,
    decoder: Option<Step>,
    model: Model,
}

#[derive(Deserialize)]
#[serde(expecting = "an added token")]
struct Added {
    id: u32,
    content: String,
    #[serde(default)]
    single_word: bool,
    #[serde(default)]
    lstrip: bool,
    #[serde(default)]
    rstrip: bool,
    #[serde(default)]
    normalized: bool,
    #[serde(default)]
    special: bool,
}

/// A normalizer, pre-tokenizer or decoder: the fields of all kinds that are supported.
#[derive(Deserialize)]
#[serde(expecting = "a step with a type")]
struct Step {
    #[serde(rename = "type")]
    kind: String,
    pretokenizers: Option<Vec<Step>>,
    pattern: Option<Pattern>,
    behavior: Option<String>,
    add_prefix_space: Option<bool>,
    use_regex: Option<bool>,
}

#[derive(Deserialize)]
enum Pattern {
    Regex(String),
    String(IgnoredAny),
}

#[derive(Deserialize)]
#[serde(expecting = "a BPE model")]
struct Model {
    #[serde(rename = "type")]
    kind: Option<String>,
    dropout: Option<f64>,
    continuing_subword_prefix: Option<String>,
    end_of_word_suffix: Option<String>,
    byte_fallback: Option<bool>,
    ignore_merges: Option<bool>,
    vocab: Vocab,
    merges: Vec<Merge>,
}

/// Two tokens that become one, written as a pair or as a line with a blank; `None` is the heading of a merges file.
struct Merge(Option<(String, String)>);

impl<'de> Deserialize<'de> for Merge {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(MergeVisitor)
    }
}

struct MergeVisitor;

impl<'de> Visitor<'de> for MergeVisitor {
    type Value = Merge;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a merge of two tokens")
    }

    fn visit_str<E: serde::de::Error>(self, line: &str) -> Result<Merge, E> {
        match line.split_once(' ') {
            _ if line.starts_with("#version") => Ok(Merge(None)),
            Some((left, right)) if !right.contains(' ') => Ok(Merge(Some((left.to_owned(), right.to_owned())))),
            _ => Err(E::invalid_value(Unexpected::Str(line), &self)),
        }
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut pair: A) -> Result<Merge, A::Error> {
        let (left, right) = (pair.next_element()?, pair.next_element()?);
        match (left, right, pair.next_element::<IgnoredAny>()?) {
            (Some(left), Some(right), None) => Ok(Merge(Some((left, right)))),
            _ => Err(serde::de::Error::invalid_value(Unexpected::Seq, &self)),
        }
    }
}

fn unsupported(section: &'static str, found: impl Into<String>, expected: &'static str) -> Error {
    Error::Unsupported { section, found: found.into(), expected }
}

fn inconsistent(section: &'static str, reason: String) -> Error {
    Error::TokenizerInconsistent { section, reason }
}

impl Spec {
    pub(super) fn read(json: &[u8]) -> Result<Self, Error> {
        if json.len() > MAX_BYTES {
            return Err(Error::TokenizerTooLarge { bytes: json.len(), limit: MAX_BYTES });
        }
        let file: File = parse(json).map_err(|error| of_another_kind(json).unwrap_or(error))?;
        let compose = read_normalizer(file.normalizer)?;
        let splits = read_pre_tokenizer(file.pre_tokenizer)?;
        match file.decoder {
            Some(Step { kind, .. }) if kind == "ByteLevel" => {}
            Some(Step { kind, .. }) => return Err(unsupported("decoder.type", kind, "ByteLevel")),
            None => return Err(unsupported("decoder", "absent", "ByteLevel")),
        }
        let added = read_added(file.added_tokens.unwrap_or_default(), &file.model.vocab, compose)?;
        let (bpe, pieces) = read_model(file.model, &added)?;
        Ok(Self { bpe, pieces, added, compose, splits })
    }
}

fn parse<'a, T: Deserialize<'a>>(json: &'a [u8]) -> Result<T, Error> {
    serde_json::from_slice(json).map_err(|error| Error::TokenizerJson(error.to_string()))
}

/// Says of a file that could not be read whether it is of another kind, which tells more than the first field that differs.
fn of_another_kind(json: &[u8]) -> Option<Error> {
    match parse::<Probe>(json).ok()?.model {
        None => Some(unsupported("model", "absent", "a BPE model")),
        Some(ProbeModel { kind: Some(kind) }) if kind == "BPE" => None,
        Some(ProbeModel { kind }) => Some(unsupported("model.type", kind.as_deref().unwrap_or("absent"), "BPE")),
    }
}

fn read_normalizer(step: Option<Step>) -> Result<bool, Error> {
    match step {
        None => Ok(false),
        Some(step) if step.kind == "NFC" => Ok(true),
        Some(step) => Err(unsupported("normalizer.type", step.kind, "NFC or null")),
    }
}

fn read_pre_tokenizer(step: Option<Step>) -> Result<Vec<SysRegex>, Error> {
    const EXPECTED: &str = "Split steps and a final ByteLevel";
    let steps = match step {
        Some(Step { kind, pretokenizers: Some(steps), .. }) if kind == "Sequence" => steps,
        Some(step) => vec![step],
        None => return Err(unsupported("pre_tokenizer", "absent", EXPECTED)),
    };
    let Some((last, splits)) = steps.split_last() else {
        return Err(unsupported("pre_tokenizer.pretokenizers", "empty", EXPECTED));
    };
    if last.kind != "ByteLevel" {
        return Err(unsupported("pre_tokenizer", format!("ending with {}", last.kind), EXPECTED));
    }
    if last.add_prefix_space != Some(false) || last.use_regex != Some(false) {
        let expected = "with add_prefix_space and use_regex false";
        return Err(unsupported("pre_tokenizer.ByteLevel", "of another kind", expected));
    }
    if splits.len() > MAX_SPLITS {
        let reason = format!("there are {} split patterns, more than {MAX_SPLITS}", splits.len());
        return Err(inconsistent("pre_tokenizer", reason));
    }
    splits.iter().map(read_split).collect()
}

/// The product of the largest count of each `{n,m}`.
fn repetitions(pattern: &str) -> u64 {
    let counts = pattern.split('{').skip(1).map(|rest| {
        let inside = rest.split('}').next().unwrap_or_default();
        // What is no number is no count, as in `\p{L}`; one beyond all numbers is the largest.
        let count = |text: &str| match text.trim() {
            digits if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) => 1,
            digits => digits.parse().unwrap_or(u64::MAX),
        };
        inside.split(',').map(count).max().unwrap_or(1).max(1)
    });
    counts.fold(1, u64::saturating_mul)
}

fn read_split(step: &Step) -> Result<SysRegex, Error> {
    if step.kind != "Split" {
        return Err(unsupported("pre_tokenizer.type", step.kind.clone(), "Split or ByteLevel"));
    }
    if step.behavior.as_deref() != Some("Isolated") {
        let found = step.behavior.clone().unwrap_or_else(|| "absent".to_owned());
        return Err(unsupported("pre_tokenizer.Split.behavior", found, "Isolated"));
    }
    let pattern = match &step.pattern {
        Some(Pattern::Regex(pattern)) if pattern.len() <= MAX_PATTERN => pattern,
        Some(Pattern::Regex(pattern)) => {
            let reason = format!("the pattern holds {} bytes, more than {MAX_PATTERN}", pattern.len());
            return Err(inconsistent("pre_tokenizer.Split.pattern", reason));
        }
        Some(Pattern::String(_)) | None => {
            return Err(unsupported("pre_tokenizer.Split.pattern", "not a regular expression", "Regex"));
        }
    };
    if repetitions(pattern) > MAX_REPETITIONS {
        let reason = format!("its repetitions come to more than {MAX_REPETITIONS}");
        return Err(inconsistent("pre_tokenizer.Split.pattern", reason));
    }
    SysRegex::new(pattern).map_err(|error| inconsistent("pre_tokenizer.Split.pattern", error.to_string()))
}

/// The reference gives ids by position and ignores those in the file, so a file in which the two differ means different
/// ids to different readers.
fn read_added(entries: Vec<Added>, vocab: &Vocab, compose: bool) -> Result<Vec<AddedToken>, Error> {
    const SECTION: &str = "added_tokens";
    let mut added: Vec<AddedToken> = Vec::with_capacity(entries.len());
    let mut seen = HashSet::new();
    let mut next = u32::try_from(vocab.len()).map_err(|_| inconsistent("model.vocab", "too many tokens".to_owned()))?;
    let bytes: usize = entries.iter().map(|entry| entry.content.len()).sum();
    if bytes > MAX_ADDED_BYTES {
        return Err(inconsistent(SECTION, format!("they hold {bytes} bytes, more than {MAX_ADDED_BYTES}")));
    }
    for entry in entries {
        let name = &entry.content;
        if name.is_empty() || name.len() > MAX_ADDED {
            return Err(inconsistent(SECTION, format!("the content with id {} holds {} bytes", entry.id, name.len())));
        }
        if entry.single_word || entry.lstrip || entry.rstrip || (entry.normalized && compose) {
            let found = format!("{name:?} with single_word, lstrip, rstrip or normalized");
            return Err(unsupported(SECTION, found, "tokens that are matched as they are"));
        }
        let in_vocab = vocab.get(name).copied();
        let expected = in_vocab.unwrap_or(next);
        if entry.id != expected {
            let reason = format!("{name:?} has id {}, its place in the file gives it {expected}", entry.id);
            return Err(inconsistent(SECTION, reason));
        }
        if in_vocab.is_none() {
            next = next.checked_add(1).ok_or_else(|| inconsistent(SECTION, "too many tokens".to_owned()))?;
        }
        if !seen.insert(name.clone()) {
            return Err(inconsistent(SECTION, format!("{name:?} is listed twice")));
        }
        added.push(AddedToken { content: entry.content, id: entry.id, special: entry.special });
    }
    Ok(added)
}

/// Builds the encoder without the added tokens, so that it can never produce one from ordinary text.
fn read_model(model: Model, added: &[AddedToken]) -> Result<(BPE, Pieces), Error> {
    check_options(&model)?;
    let Model { mut vocab, merges, ignore_merges, .. } = model;
    check_merges(&merges, &vocab)?;
    let before = vocab.len();
    for token in added {
        vocab.remove(&token.content);
    }
    check_bytes(&vocab)?;
    let mut merges: Vec<(String, String)> = merges.into_iter().filter_map(|Merge(pair)| pair).collect();
    if vocab.len() < before {
        let known = |token: &str| vocab.contains_key(token);
        merges.retain(|(left, right)| known(left) && known(right) && known(&[left.as_str(), right].concat()));
    }
    let base = vocab.iter().map(|(token, &id)| Row { id, token, added: None });
    let rows = added.iter().map(|token| Row { id: token.id, token: &token.content, added: Some(token.special) });
    let pieces = Pieces::new(base.chain(rows).collect())?;
    let bpe = BPE::builder().vocab_and_merges(vocab, merges).ignore_merges(ignore_merges.unwrap_or(false)).build();
    Ok((bpe.map_err(|error| inconsistent("model.merges", error.to_string()))?, pieces))
}

fn check_options(model: &Model) -> Result<(), Error> {
    if model.kind.as_deref() != Some("BPE") {
        return Err(unsupported("model.type", model.kind.as_deref().unwrap_or("absent"), "BPE"));
    }
    if model.dropout.is_some_and(|dropout| dropout != 0.0) {
        return Err(unsupported("model.dropout", "set", "null, since encoding must not be random"));
    }
    if model.byte_fallback == Some(true) {
        return Err(unsupported("model.byte_fallback", "true", "false"));
    }
    let affix = |text: &Option<String>| text.as_deref().is_some_and(|text| !text.is_empty());
    if affix(&model.continuing_subword_prefix) || affix(&model.end_of_word_suffix) {
        return Err(unsupported("model", "marking the places of subwords", "a byte-level model without affixes"));
    }
    Ok(())
}

/// The builder of the encoder reports merges of unknown tokens, but panics on one that is longer than every token.
fn check_merges(merges: &[Merge], vocab: &Vocab) -> Result<(), Error> {
    let longest = vocab.keys().map(String::len).max().unwrap_or(0);
    for (rank, Merge(pair)) in merges.iter().enumerate() {
        if let Some((left, right)) = pair
            && left.len() + right.len() > longest
        {
            let reason = format!("merge {rank} of {left:?} and {right:?} is longer than every token");
            return Err(inconsistent("model.merges", reason));
        }
    }
    Ok(())
}

/// A byte without a token would vanish from the text without a word.
fn check_bytes(vocab: &Vocab) -> Result<(), Error> {
    let mut char = [0; 4];
    match (0..=255u8).find(|&byte| !vocab.contains_key(&*char_of_byte(byte).encode_utf8(&mut char))) {
        Some(byte) => Err(inconsistent("model.vocab", format!("byte {byte:#04x} has no ordinary token"))),
        None => Ok(()),
    }
}

/// Ids by token for look-ups, added tokens first as in the reference.
pub(super) fn ids_of_added(added: &[AddedToken]) -> HashMap<String, u32> {
    added.iter().map(|token| (token.content.clone(), token.id)).collect()
}
