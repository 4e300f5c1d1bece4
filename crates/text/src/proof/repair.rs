//! The source of a template that the official runtime cannot render goes in, the same template with two known edits comes
//! out; whether the edits helped is for the proof to say.

use super::{Proof, Refusal, prove, prove_as};
use serde::Serialize;

/// A change of a template's source that leaves what it means by the reference rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Edit {
    /// `x.get('key')` is written `x['key']`, since the runtime's mappings have no methods.
    GetByIndex,
    /// Each content passes through a macro that joins the texts of its parts, since the runtime has no plain contents.
    JoinParts,
}

/// A checkpoint's own template, fit for the official runtime.
#[derive(Debug, Clone, PartialEq)]
pub struct Stock {
    /// What to store: the template, with its edits.
    pub source: String,
    /// The edits that were needed, none if the template is stored as it stands.
    pub edits: Vec<Edit>,
    /// The proof of [`source`](Self::source). Its prompts are those of the template without edits.
    pub proof: Proof,
}

/// Makes a checkpoint's own template fit for the official runtime, with as few of the known edits as will do.
///
/// With edits, three renderings have to be equal: that of the template as it came by the reference rules, and those of the
/// edited one by both rules.
///
/// # Errors
/// Why the template is unfit as it stands, if no edits help.
pub fn stock(source: &str) -> Result<Stock, Refusal> {
    let refusal = match prove(source) {
        Ok(proof) => return Ok(Stock { source: source.to_owned(), edits: Vec::new(), proof }),
        Err(refusal) => refusal,
    };
    for edits in [&[Edit::GetByIndex][..], &[Edit::JoinParts], &[Edit::GetByIndex, Edit::JoinParts]] {
        let edited = edits.iter().fold(source.to_owned(), |source, edit| edit.applied(&source));
        if edited != source
            && let Ok(proof) = prove_as(source, &edited)
        {
            return Ok(Stock { source: edited, edits: edits.to_vec(), proof });
        }
    }
    Err(refusal)
}

impl Edit {
    fn applied(self, source: &str) -> String {
        match self {
            Edit::GetByIndex => each_tag(source, get_by_index),
            Edit::JoinParts if source.contains(MACRO_NAME) => source.to_owned(),
            Edit::JoinParts => {
                let edited = each_tag(source, join_parts);
                if edited == source { edited } else { MACRO.to_owned() + &edited }
            }
        }
    }
}

const MACRO_NAME: &str = "text_of_parts";
const MACRO: &str = "{%- macro text_of_parts(content) %}\
    {%- if content is string %}{{- content }}\
    {%- elif content is mapping %}{{- raise_exception('content is neither a string nor a list of parts') }}\
    {%- elif content %}{%- for part in content %}\
    {%- if part.type != 'text' %}{{- raise_exception('only parts of text can be rendered') }}{%- endif %}\
    {{- part.text }}{%- endfor %}{%- endif %}{%- endmacro %}\n";

/// Applies `edit` to the inside of every tag that is no comment.
fn each_tag(source: &str, edit: fn(&str) -> String) -> String {
    let mut result = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(at) = ["{{", "{%", "{#"].iter().filter_map(|open| rest.find(open)).min() {
        let (text, tag) = rest.split_at(at);
        let close = match tag.as_bytes()[1] {
            b'{' => "}}",
            b'%' => "%}",
            _ => "#}",
        };
        let Some(end) = tag.find(close) else { break };
        let (tag, next) = tag.split_at(end + close.len());
        result += text;
        result += &if close == "#}" { tag.to_owned() } else { edit(tag) };
        rest = next;
    }
    result + rest
}

fn get_by_index(tag: &str) -> String {
    let mut result = String::with_capacity(tag.len());
    let mut rest = tag;
    while let Some(at) = rest.find(".get(") {
        let (before, call) = rest.split_at(at);
        result += before;
        let argument = &call[".get(".len()..];
        let length = quoted_length(argument);
        if length > 0 && argument[length..].starts_with(')') {
            result.extend(["[", &argument[..length], "]"]);
            rest = &argument[length + 1..];
        } else {
            result += ".get(";
            rest = argument;
        }
    }
    result + rest
}

/// Length of the string without escapes that `text` begins with, 0 if it begins with none.
fn quoted_length(text: &str) -> usize {
    let Some(quote) = text.chars().next().filter(|char| matches!(char, '\'' | '"')) else { return 0 };
    let inside = &text[1..];
    inside.find([quote, '\\', '\n']).filter(|&end| inside[end..].starts_with(quote)).map_or(0, |end| end + 2)
}

/// Wraps every expression that ends in `.content` or `['content']`.
fn join_parts(tag: &str) -> String {
    let mut result = String::with_capacity(tag.len());
    let mut rest = tag;
    while let Some(length) = rest.chars().next().map(char::len_utf8) {
        let is_continued = result.ends_with(|char: char| is_word(char) || matches!(char, '.' | ']' | ')'));
        let string = quoted_length(rest);
        let expression = if is_continued { 0 } else { content_length(rest) };
        let length = [string, expression].into_iter().find(|&length| length > 0).unwrap_or(length);
        let (piece, next) = rest.split_at(length);
        if expression > 0 && !asks_for_presence(next) {
            result.extend([MACRO_NAME, "(", piece, ")"]);
        } else {
            result += piece;
        }
        rest = next;
    }
    result
}

/// Length of the expression of names and indexes that `text` begins with, up to its last `content`; 0 if there is none.
fn content_length(text: &str) -> usize {
    let name = word_length(text);
    if name == 0 || text.starts_with(|char: char| char.is_ascii_digit()) {
        return 0;
    }
    let (mut at, mut found) = (name, 0);
    loop {
        let rest = &text[at..];
        let (length, is_content) = if let Some(field) = rest.strip_prefix('.') {
            let field = &field[..word_length(field)];
            (if field.is_empty() { 0 } else { 1 + field.len() }, field == "content")
        } else if rest.starts_with('[') {
            let length = rest.find(']').map_or(0, |end| end + 1);
            let index = &rest[..length];
            let is_simple = !index[1.min(length)..].contains('[');
            (if is_simple { length } else { 0 }, matches!(index, "['content']" | "[\"content\"]"))
        } else {
            (0, false)
        };
        if length == 0 {
            return found;
        }
        at += length;
        found = if is_content { at } else { found };
    }
}

/// Whether `rest`, which follows an expression, tests whether there is a value at all, which the macro would hide.
fn asks_for_presence(rest: &str) -> bool {
    let mut words = rest.split_whitespace();
    let asked = match (words.next(), words.next()) {
        (Some("is"), Some("not")) => words.next(),
        (Some("is"), asked) => asked,
        _ => None,
    };
    asked.is_some_and(|asked| matches!(&asked[..word_length(asked)], "none" | "None" | "defined" | "undefined"))
}

fn is_word(char: char) -> bool {
    char.is_alphanumeric() || char == '_'
}

fn word_length(text: &str) -> usize {
    text.find(|char: char| !is_word(char)).unwrap_or(text.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edits_change_expressions_within_tags_and_nothing_else() {
        let get = [
            ("{{ m.get('role') }} m.get('role')", "{{ m['role'] }} m.get('role')"),
            ("{{ m.get(\"a\").get('b') }}", "{{ m[\"a\"]['b'] }}"),
            ("{{ m.get('a', 'b') ~ m.get(k) ~ m.get('a') }}", "{{ m.get('a', 'b') ~ m.get(k) ~ m['a'] }}"),
            ("{# m.get('role') #}{{ m.get('role')", "{# m.get('role') #}{{ m.get('role')"),
        ];
        for (source, expected) in get {
            assert_eq!(Edit::GetByIndex.applied(source), expected, "{source}");
        }
        let join = [
            ("{{ m.content }} m.content", "{{ text_of_parts(m.content) }} m.content"),
            ("{{ m['content']|trim }}", "{{ text_of_parts(m['content'])|trim }}"),
            ("{% set c = messages[0].content %}", "{% set c = text_of_parts(messages[0].content) %}"),
            (
                "{{ messages[loop.index0 - 1][\"content\"].strip() }}",
                "{{ text_of_parts(messages[loop.index0 - 1][\"content\"]).strip() }}",
            ),
            ("{{ 'm.content' ~ m.content }}", "{{ 'm.content' ~ text_of_parts(m.content) }}"),
            ("{% if m.content is string %}", "{% if text_of_parts(m.content) is string %}"),
            (
                "{% if m.content is not none and m.content %}",
                "{% if m.content is not none and text_of_parts(m.content) %}",
            ),
            ("{{ a(m.content)('x').content.content }}", "{{ a(text_of_parts(m.content))('x').content.content }}"),
        ];
        for (source, expected) in join {
            assert_eq!(Edit::JoinParts.applied(source), format!("{MACRO}{expected}"), "{source}");
        }
        for source in [
            "{{ content }}",
            "{% if m.content is defined%}",
            "{{ m.contents }}{{ m.content_type }}",
            "{# m.content #}",
            "{{ x[y[0]]['content'] }}",
            "{{ 1.content }}",
            "{{ '",
        ] {
            assert_eq!(Edit::JoinParts.applied(source), source);
        }
    }
}
