//! `kinglet tokenize`: text goes in, token ids come out, and back.

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use anyhow::Context;
use clap::Args;
use kinglet_text::{Specials, Tokenizer};
use serde_json::json;

use crate::failure::Failure;
use crate::terminal::Terminal;
use crate::{load, positional, run, terminal};

/// Show the token ids of a text, or the text of ids
///
/// Without TEXT, standard input is read as it is, the end of its last line included.
#[derive(Args, Clone, Debug)]
#[command(after_long_help = positional::RULE)]
pub(crate) struct TokenizeOptions {
    /// A checkpoint directory, .litertlm file or tokenizer.json
    #[arg(value_name = "MODEL")]
    first: Option<OsString>,
    /// The text
    #[arg(value_name = "TEXT")]
    second: Option<OsString>,
    /// Model whose tokenizer is used [default: the demo model in this program]
    #[arg(short, long, value_name = "PATH")]
    model: Option<std::path::PathBuf>,
    /// The text, whatever it looks like
    #[arg(short, long, value_name = "TEXT", conflicts_with = "decode", allow_hyphen_values = true)]
    prompt: Option<String>,
    /// Recognise control tokens such as <|im_end|>; without this they are text like any other
    #[arg(long, conflicts_with = "decode")]
    specials: bool,
    /// Show each id with its piece of text, one to a line
    #[arg(long, conflicts_with_all = ["count", "json"])]
    show: bool,
    /// Show only how many ids there are
    #[arg(long, conflicts_with = "json")]
    count: bool,
    /// Write one JSON object: ids, pieces, count, text
    #[arg(long)]
    json: bool,
    /// Show the text of these ids, separated by blanks or commas
    #[arg(long, value_name = "IDS", conflicts_with = "count")]
    decode: Option<String>,
}

pub(crate) fn run(options: &TokenizeOptions, terminal: &Terminal) -> anyhow::Result<ExitCode> {
    let text_given = options.prompt.is_some() || options.decode.is_some();
    let arguments: Vec<OsString> = [&options.first, &options.second].into_iter().flatten().cloned().collect();
    let sorted = positional::sort(&arguments, options.model.as_deref(), text_given)?;
    let doubt = |error| positional::doubt(error, &arguments, options.model.is_some() || text_given);
    let tokenizer = tokenizer(sorted.model.as_deref()).map_err(doubt)?;
    let (ids, text) = match &options.decode {
        Some(list) => {
            let ids = parse_ids(list, &tokenizer)?;
            let text = tokenizer.decode(&ids, false);
            (ids, text)
        }
        None => {
            let text = match (&options.prompt, sorted.text) {
                (Some(text), _) => text.clone(),
                (None, Some(text)) => text,
                (None, None) if terminal.stdin => return Err(Failure::usage("there is no text").into()),
                (None, None) => run::read_exactly(Path::new("-"))?,
            };
            let specials = if options.specials { Specials::Parse } else { Specials::AsText };
            (tokenizer.encode(&text, specials)?, text)
        }
    };
    print(options, &tokenizer, &ids, &text, terminal)?;
    Ok(ExitCode::SUCCESS)
}

fn tokenizer(path: Option<&Path>) -> anyhow::Result<Tokenizer> {
    if let Some(path) = path.filter(|path| path.extension().is_some_and(|ending| ending == "json")) {
        let shown = || terminal::name(&path.display().to_string()).into_owned();
        let json = std::fs::read(path).with_context(shown)?;
        return Tokenizer::from_json(&json).with_context(shown);
    }
    Ok(Tokenizer::from_json(&load::assets(path)?.tokenizer)?)
}

fn print(
    options: &TokenizeOptions,
    tokenizer: &Tokenizer,
    ids: &[u32],
    text: &str,
    terminal: &Terminal,
) -> io::Result<()> {
    let mut out = io::stdout().lock();
    let piece = |id: &u32| tokenizer.id_to_bytes(*id).unwrap_or_default();
    if options.json {
        let pieces: Vec<_> = ids.iter().map(|id| String::from_utf8_lossy(piece(id))).collect();
        serde_json::to_writer_pretty(
            &mut out,
            &json!({"count": ids.len(), "ids": ids, "pieces": pieces, "text": text}),
        )?;
        return writeln!(out);
    }
    if options.show {
        for id in ids {
            writeln!(out, "{id:>8}  {}", shown(piece(id)))?;
        }
        return Ok(());
    }
    if options.count {
        return writeln!(out, "{}", ids.len());
    }
    if options.decode.is_some() {
        let text = if terminal.stdout { terminal::prose(text) } else { text.into() };
        return writeln!(out, "{text}");
    }
    let ids: Vec<String> = ids.iter().map(u32::to_string).collect();
    writeln!(out, "{}", ids.join(" "))
}

/// A piece in quotes; bytes that are only a part of a character, as hexadecimal numbers.
fn shown(piece: &[u8]) -> String {
    match std::str::from_utf8(piece) {
        Ok(text) => format!("{text:?}"),
        Err(_) => piece.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(" "),
    }
}

fn parse_ids(list: &str, tokenizer: &Tokenizer) -> Result<Vec<u32>, Failure> {
    let words = list.split([',', ' ', '\n', '\t', '[', ']']).filter(|word| !word.is_empty());
    words.map(|word| parse_id(word, tokenizer)).collect()
}

fn parse_id(word: &str, tokenizer: &Tokenizer) -> Result<u32, Failure> {
    let id = word.parse().map_err(|_| Failure::usage(format!("--decode: `{word}` is not a token id")))?;
    if tokenizer.id_to_bytes(id).is_none() {
        let last = tokenizer.vocab_size().saturating_sub(1);
        return Err(Failure::usage(format!("--decode: no token has the id {id}; the last one is {last}")));
    }
    Ok(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_quoted_and_parts_of_characters_are_bytes() {
        assert_eq!(shown(b" a\n"), "\" a\\n\"");
        assert_eq!(shown(&[0xf0, 0x9f]), "f0 9f");
    }

    #[test]
    fn ids_are_separated_by_blanks_or_commas_and_must_exist() {
        let tokenizer = tokenizer(None).expect("embedded");
        assert_eq!(parse_ids("[1, 2,3]\n4", &tokenizer).expect("there"), [1, 2, 3, 4]);
        for bad in ["x", "-1", "99999999", "99999999999"] {
            let error = parse_ids(bad, &tokenizer).expect_err("refused").to_string();
            assert!(error.contains(bad), "{error}");
        }
    }
}
