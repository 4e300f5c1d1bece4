//! The tokenizer as far as rules ask: `tokenizer.json` goes in, added tokens and the texts of ids come out.

use std::collections::HashMap;
use std::fmt::Formatter;

use kinglet_bundle::Bundle;
use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// Tokens of a vocabulary. Empty where nothing is known.
#[derive(Debug, Default)]
pub(crate) struct Tokens {
    added: Vec<Added>,
    vocabulary: HashMap<i64, String>,
}

#[derive(Debug, Deserialize)]
struct Added {
    id: i64,
    content: String,
}

#[derive(Deserialize)]
struct File {
    #[serde(default)]
    added_tokens: Vec<Added>,
    model: Model,
}

#[derive(Deserialize)]
struct Model {
    vocab: Vocabulary,
}

impl Tokens {
    /// Reads a bundle's `tokenizer.json`.
    pub(crate) fn read(bundle: &Bundle) -> Tokens {
        let json = bundle.tokenizer_json().unwrap_or_default();
        let file: Option<File> = serde_json::from_slice(&json).ok();
        file.map_or_else(Tokens::default, |file| Tokens { added: file.added_tokens, vocabulary: file.model.vocab.0 })
    }

    /// The id of a token that stands beside the vocabulary, such as `<|im_end|>`.
    pub(crate) fn added(&self, content: &str) -> Option<i64> {
        self.added.iter().find(|added| added.content == content).map(|added| added.id)
    }

    /// A token as the tokenizer spells it.
    pub(crate) fn text(&self, id: i64) -> Option<&str> {
        let added = self.added.iter().find(|added| added.id == id).map(|added| added.content.as_str());
        added.or_else(|| self.vocabulary.get(&id).map(String::as_str))
    }
}

/// Texts by id: `{"text": id}` as BPE has it, or `[["text", score]]` as Unigram has it.
struct Vocabulary(HashMap<i64, String>);

impl<'de> Deserialize<'de> for Vocabulary {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Vocabulary, D::Error> {
        deserializer.deserialize_any(Reader)
    }
}

struct Reader;

impl<'de> Visitor<'de> for Reader {
    type Value = Vocabulary;

    fn expecting(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.write_str("a vocabulary")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Vocabulary, A::Error> {
        let mut found = HashMap::new();
        while let Some((text, id)) = map.next_entry::<String, i64>()? {
            found.insert(id, text);
        }
        Ok(Vocabulary(found))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Vocabulary, A::Error> {
        let mut found = HashMap::new();
        while let Some((text, _)) = seq.next_element::<(String, IgnoredAny)>()? {
            found.insert(found.len() as i64, text);
        }
        Ok(Vocabulary(found))
    }
}
