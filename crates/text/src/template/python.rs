//! An engine goes in and comes out with the filters, tests and methods that templates written for Python's Jinja rely on;
//! it has no clock and reads nothing.

use super::json::{python_float, to_json};
use minijinja::value::{Kwargs, Rest, Tuple, ValueKind, from_args};
use minijinja::{Environment, Error, ErrorKind, State, Value};
use std::fmt::Write;

/// Deepest nesting that is printed.
const MAX_DEPTH: usize = 128;

/// What a template said with `raise_exception`.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{0}")]
pub(super) struct Raised(pub(super) String);

/// Adds everything that does not depend on one rendering.
pub(super) fn extend(env: &mut Environment<'_>) {
    env.set_unknown_method_callback(method);
    // No chat template needs it, and its indentation grows with the square of the nesting.
    env.remove_filter("pprint");
    env.set_formatter(|out, state, value| match value.as_str() {
        Some(text) => out.write_str(text).map_err(|_| Error::from(ErrorKind::WriteFailure)),
        None => write_str(out, state, value),
    });
    env.add_filter("trim", |text: String, chars: Option<String>| strip(&text, chars.as_deref(), true, true).to_owned());
    env.add_filter("string", |state: &State<'_, '_>, value: &Value| match value.as_str() {
        Some(_) => Ok(value.clone()),
        None => {
            let mut text = String::new();
            write_str(&mut text, state, value).map(|()| Value::from(text))
        }
    });
    env.add_test("sequence", |value: &Value| {
        matches!(value.kind(), ValueKind::Undefined | ValueKind::Seq | ValueKind::Map | ValueKind::String)
    });
    env.add_test("iterable", |value: &Value| !value.is_none() && value.try_iter().is_ok());
    env.add_function("raise_exception", |message: &Value| -> Result<Value, Error> {
        let raised = Raised(message.to_string());
        Err(Error::new(ErrorKind::InvalidOperation, raised.0.clone()).with_source(raised))
    });
}

/// Adds `tojson`, which must not escape the mark of this rendering.
pub(super) fn add_to_json(env: &mut Environment<'_>, mark: Option<char>) {
    env.add_filter("tojson", move |state: &State<'_, '_>, value: &Value, positional: Rest<Value>, named: Kwargs| {
        to_json(state, value, &positional, &named, mark)
    });
}

/// Python counts the four separators below the blank as white space, Unicode does not.
fn is_space(char: char) -> bool {
    char.is_whitespace() || matches!(char, '\u{1c}'..='\u{1f}')
}

fn strip<'a>(text: &'a str, chars: Option<&str>, left: bool, right: bool) -> &'a str {
    let drops = |char: char| chars.map_or_else(|| is_space(char), |chars| chars.contains(char));
    let text = if left { text.trim_start_matches(drops) } else { text };
    if right { text.trim_end_matches(drops) } else { text }
}

/// String methods that differ from the engine's or are missing there; all others are the engine's.
fn method(state: &mut State<'_, '_>, value: &Value, name: &str, args: &[Value]) -> Result<Value, Error> {
    let Some(text) = value.as_str() else {
        return minijinja_contrib::pycompat::unknown_method_callback(state, value, name, args);
    };
    match name {
        "strip" | "lstrip" | "rstrip" => {
            let (chars,): (Option<&str>,) = from_args(args)?;
            Ok(Value::from(strip(text, chars, name != "rstrip", name != "lstrip")))
        }
        "split" | "rsplit" if args.first().is_none_or(Value::is_none) && args.len() < 2 => {
            Ok(text.split(is_space).filter(|word| !word.is_empty()).map(Value::from).collect())
        }
        "removeprefix" => {
            let (prefix,): (&str,) = from_args(args)?;
            Ok(Value::from(text.strip_prefix(prefix).unwrap_or(text)))
        }
        "removesuffix" => {
            let (suffix,): (&str,) = from_args(args)?;
            Ok(Value::from(text.strip_suffix(suffix).unwrap_or(text)))
        }
        "partition" | "rpartition" => {
            let (separator,): (&str,) = from_args(args)?;
            partition(text, separator, name == "rpartition")
        }
        "rsplit" => {
            let (separator, count): (&str, Option<usize>) = from_args(args)?;
            rsplit(text, separator, count)
        }
        // The width of a field is not counted as work.
        "format" if text.as_bytes().chunk_by(|a, b| a.is_ascii_digit() && b.is_ascii_digit()).any(|c| c.len() > 6) => {
            Err(Error::new(ErrorKind::InvalidOperation, "a number of more than six digits in a format"))
        }
        "splitlines" => {
            let (keep_ends,): (Option<bool>,) = from_args(args)?;
            Ok(lines(text, keep_ends == Some(true)).into_iter().map(Value::from).collect())
        }
        _ => minijinja_contrib::pycompat::unknown_method_callback(state, value, name, args),
    }
}

fn partition(text: &str, separator: &str, from_right: bool) -> Result<Value, Error> {
    if separator.is_empty() {
        return Err(Error::new(ErrorKind::InvalidOperation, "empty separator"));
    }
    let found = if from_right { text.rsplit_once(separator) } else { text.split_once(separator) };
    let parts = match found {
        Some((before, after)) => [before, separator, after],
        None if from_right => ["", "", text],
        None => [text, "", ""],
    };
    Ok(Value::from(Tuple::from(parts.map(Value::from))))
}

fn rsplit(text: &str, separator: &str, count: Option<usize>) -> Result<Value, Error> {
    if separator.is_empty() {
        return Err(Error::new(ErrorKind::InvalidOperation, "empty separator"));
    }
    let most = count.map_or(usize::MAX, |count| count.saturating_add(1));
    let mut parts: Vec<Value> = text.rsplitn(most, separator).map(Value::from).collect();
    parts.reverse();
    Ok(Value::from(parts))
}

/// The lines of a text by all the ends that Python knows.
fn lines(text: &str, keep_ends: bool) -> Vec<&str> {
    let mut lines = Vec::new();
    let mut rest = text;
    let is_end = |char| matches!(char, '\n'..='\r' | '\u{1c}'..='\u{1e}' | '\u{85}' | '\u{2028}' | '\u{2029}');
    while let Some((at, end)) = rest.char_indices().find(|&(_, char)| is_end(char)) {
        let after = if rest[at..].starts_with("\r\n") { at + 2 } else { at + end.len_utf8() };
        lines.push(&rest[..if keep_ends { after } else { at }]);
        rest = &rest[after..];
    }
    if !rest.is_empty() {
        lines.push(rest);
    }
    lines
}

/// Writes what Python's `str` gives; nothing for an undefined value.
fn write_str(out: &mut dyn Write, state: &State<'_, '_>, value: &Value) -> Result<(), Error> {
    let mut text = String::new();
    match value.kind() {
        ValueKind::Undefined => return Ok(()),
        ValueKind::Number | ValueKind::Seq | ValueKind::Map | ValueKind::Iterable => {
            write_repr(&mut text, state, value, 0)?
        }
        ValueKind::Invalid => return value.try_iter().map(drop),
        _ => text = value.to_string(),
    }
    out.write_str(&text).map_err(|_| Error::from(ErrorKind::WriteFailure))
}

/// Writes what Python's `repr` gives for numbers, strings, lists and dictionaries.
fn write_repr(out: &mut String, state: &State<'_, '_>, value: &Value, depth: usize) -> Result<(), Error> {
    state.consume_fuel(1)?;
    if depth > MAX_DEPTH {
        return Err(Error::new(ErrorKind::InvalidOperation, "a value is nested too deeply to print"));
    }
    match value.kind() {
        ValueKind::String => {
            let text = value.as_str().unwrap_or_default();
            state.consume_fuel(text.len() as u64 / 64)?;
            write_quoted(out, text);
        }
        ValueKind::Number => match f64::try_from(value.clone()) {
            Ok(float) if float.is_finite() && !value.is_integer() => out.push_str(&python_float(float)),
            Ok(float) if float.is_nan() => out.push_str("nan"),
            _ => out.push_str(&value.to_string()),
        },
        ValueKind::Seq | ValueKind::Iterable => {
            let [open, close] = if value.is_tuple() { ['(', ')'] } else { ['[', ']'] };
            out.push(open);
            for (place, item) in value.try_iter()?.enumerate() {
                out.push_str(if place > 0 { ", " } else { "" });
                write_repr(out, state, &item, depth + 1)?;
            }
            out.push_str(if value.is_tuple() && value.len() == Some(1) { "," } else { "" });
            out.push(close);
        }
        ValueKind::Map => {
            out.push('{');
            for (place, key) in value.try_iter()?.enumerate() {
                out.push_str(if place > 0 { ", " } else { "" });
                write_repr(out, state, &key, depth + 1)?;
                out.push_str(": ");
                write_repr(out, state, &value.get_item(&key)?, depth + 1)?;
            }
            out.push('}');
        }
        _ => out.push_str(&value.to_string()),
    }
    Ok(())
}

fn write_quoted(out: &mut String, text: &str) {
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    out.push(quote);
    for char in text.chars() {
        match char {
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\\' => out.push_str("\\\\"),
            char if char == quote => out.extend(['\\', char]),
            char if is_hidden(char) => match u32::from(char) {
                code @ ..=0xff => out.push_str(&format!("\\x{code:02x}")),
                code => out.push_str(&format!("\\u{code:04x}")),
            },
            char => out.push(char),
        }
    }
    out.push(quote);
}

/// Whether Python shows the character as an escape within quotes: controls, blanks other than the blank, format marks.
fn is_hidden(char: char) -> bool {
    char != ' ' && (char.is_control() || is_space(char))
        || matches!(char, '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}
