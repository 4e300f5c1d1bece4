//! A template's value goes in, the text that Python's `json.dumps` writes for it comes out; it never escapes for HTML.

use minijinja::value::{Kwargs, ValueKind};
use minijinja::{Error, ErrorKind, State, Value};

/// Deepest nesting that is written.
const MAX_DEPTH: usize = 128;

/// The arguments of the `tojson` filter.
struct Style {
    ensure_ascii: bool,
    indent: Option<String>,
    item_separator: String,
    key_separator: String,
    sort_keys: bool,
    /// A character that is never escaped.
    mark: Option<char>,
}

/// The `tojson` filter: `tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False)`.
pub(super) fn to_json(
    state: &State<'_, '_>,
    value: &Value,
    positional: &[Value],
    named: &Kwargs,
    mark: Option<char>,
) -> Result<Value, Error> {
    let argument = |place: usize, name: &str| -> Result<Value, Error> {
        let given = positional.get(place).cloned();
        Ok(given.or(named.get::<Option<Value>>(name)?).unwrap_or_default())
    };
    let indent = indent_of(&argument(1, "indent")?)?;
    let (item_separator, key_separator) = separators_of(&argument(2, "separators")?, indent.is_some())?;
    let style = Style {
        ensure_ascii: argument(0, "ensure_ascii")?.is_true(),
        sort_keys: argument(3, "sort_keys")?.is_true(),
        indent,
        item_separator,
        key_separator,
        mark,
    };
    named.assert_all_used()?;
    let mut out = String::new();
    write_value(&mut out, state, &style, value, 0)?;
    Ok(Value::from(out))
}

fn invalid(reason: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidOperation, reason.into())
}

fn indent_of(indent: &Value) -> Result<Option<String>, Error> {
    const MAX_INDENT: usize = 64;
    let indent = match (indent.as_str(), indent.as_i64()) {
        _ if indent.is_none() || indent.is_undefined() => return Ok(None),
        (Some(text), _) => text.to_owned(),
        (None, Some(width)) => " ".repeat(usize::try_from(width).unwrap_or(0).min(MAX_INDENT + 1)),
        (None, None) => return Err(invalid("tojson: indent is neither a number nor a string")),
    };
    if indent.len() > MAX_INDENT {
        return Err(invalid(format!("tojson: indent is wider than {MAX_INDENT}")));
    }
    Ok(Some(indent))
}

fn separators_of(separators: &Value, is_indented: bool) -> Result<(String, String), Error> {
    if separators.is_none() || separators.is_undefined() {
        let item = if is_indented { "," } else { ", " };
        return Ok((item.to_owned(), ": ".to_owned()));
    }
    let parts: Vec<Value> = separators.try_iter()?.take(3).collect();
    match parts.as_slice() {
        [item, key] if item.as_str().is_some() && key.as_str().is_some() => Ok((item.to_string(), key.to_string())),
        _ => Err(invalid("tojson: separators are not two strings")),
    }
}

fn write_value(
    out: &mut String,
    state: &State<'_, '_>,
    style: &Style,
    value: &Value,
    depth: usize,
) -> Result<(), Error> {
    state.consume_fuel(1 + value.as_str().map_or(0, str::len) as u64 / 64)?;
    if depth > MAX_DEPTH {
        return Err(invalid("tojson: nested too deeply"));
    }
    match value.kind() {
        ValueKind::None => out.push_str("null"),
        ValueKind::Bool => out.push_str(if value.is_true() { "true" } else { "false" }),
        ValueKind::Number => write_number(out, value),
        ValueKind::String => write_string(out, style, value.as_str().unwrap_or_default()),
        ValueKind::Seq | ValueKind::Iterable => {
            let items = value.try_iter()?;
            write_container(out, style, ['[', ']'], depth, items, |out, item| {
                write_value(out, state, style, &item, depth + 1)
            })?;
        }
        ValueKind::Map => {
            let mut keys: Vec<Value> = value.try_iter()?.collect();
            if style.sort_keys {
                keys.sort();
            }
            write_container(out, style, ['{', '}'], depth, keys.into_iter(), |out, key| {
                state.consume_fuel(key.as_str().map_or(0, str::len) as u64 / 64)?;
                write_key(out, style, &key)?;
                out.push_str(&style.key_separator);
                write_value(out, state, style, &value.get_item(&key)?, depth + 1)
            })?;
        }
        kind => return Err(invalid(format!("tojson: a value of type {kind} has no JSON"))),
    }
    Ok(())
}

fn write_container(
    out: &mut String,
    style: &Style,
    [open, close]: [char; 2],
    depth: usize,
    items: impl Iterator<Item = Value>,
    mut write: impl FnMut(&mut String, Value) -> Result<(), Error>,
) -> Result<(), Error> {
    let new_line = |out: &mut String, depth: usize| {
        if let Some(indent) = &style.indent {
            out.push('\n');
            out.extend(std::iter::repeat_n(indent.as_str(), depth));
        }
    };
    out.push(open);
    let mut is_empty = true;
    for item in items {
        if !is_empty {
            out.push_str(&style.item_separator);
        }
        is_empty = false;
        new_line(out, depth + 1);
        write(out, item)?;
    }
    if !is_empty {
        new_line(out, depth);
    }
    out.push(close);
    Ok(())
}

fn write_key(out: &mut String, style: &Style, key: &Value) -> Result<(), Error> {
    match key.kind() {
        ValueKind::String => write_string(out, style, key.as_str().unwrap_or_default()),
        ValueKind::None => out.push_str("\"null\""),
        ValueKind::Bool => out.push_str(if key.is_true() { "\"true\"" } else { "\"false\"" }),
        ValueKind::Number => {
            out.push('"');
            write_number(out, key);
            out.push('"');
        }
        kind => return Err(invalid(format!("tojson: a key of type {kind} has no JSON"))),
    }
    Ok(())
}

/// Writes a number as Python does, in JSON and elsewhere.
fn write_number(out: &mut String, number: &Value) {
    match f64::try_from(number.clone()) {
        Ok(float) if !number.is_integer() => out.push_str(&match float {
            float if float.is_nan() => "NaN".to_owned(),
            float if float.is_infinite() => format!("{}Infinity", if float < 0.0 { "-" } else { "" }),
            float => python_float(float),
        }),
        _ => out.push_str(&number.to_string()),
    }
}

/// The shortest text that reads back as `float`, in Python's spelling; `float` is finite.
pub(super) fn python_float(float: f64) -> String {
    let scientific = format!("{float:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..16).contains(&exponent) {
        let plain = format!("{float}");
        if plain.contains('.') { plain } else { plain + ".0" }
    } else {
        format!("{digits}e{}{:02}", if exponent < 0 { '-' } else { '+' }, exponent.unsigned_abs())
    }
}

fn write_string(out: &mut String, style: &Style, text: &str) {
    out.push('"');
    for char in text.chars() {
        match char {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            char if char < ' ' || (style.ensure_ascii && char > '~' && Some(char) != style.mark) => {
                for unit in char.encode_utf16(&mut [0; 2]) {
                    out.push_str(&format!("\\u{unit:04x}"));
                }
            }
            char => out.push(char),
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_are_spelled_as_python_spells_them() {
        let cases = [
            (0.0, "0.0"),
            (-0.0, "-0.0"),
            (1.0, "1.0"),
            (0.1, "0.1"),
            (1e15, "1000000000000000.0"),
            (1e16, "1e+16"),
            (1.5e16, "1.5e+16"),
            (123456789012345680.0, "1.2345678901234568e+17"),
            (1e-4, "0.0001"),
            (1e-5, "1e-05"),
            (1.25e-7, "1.25e-07"),
            (1e100, "1e+100"),
            (5e-324, "5e-324"),
            (f64::MAX, "1.7976931348623157e+308"),
            (-2.5, "-2.5"),
            (1.0 / 3.0, "0.3333333333333333"),
            (9999999999999998.0, "9999999999999998.0"),
        ];
        for (float, expected) in cases {
            assert_eq!(python_float(float), expected);
        }
    }
}
