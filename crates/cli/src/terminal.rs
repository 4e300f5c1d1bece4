//! What stands at the ends of our streams: the environment is asked once; styles, and text that cannot harm a terminal,
//! come out.

use std::borrow::Cow;
use std::io::IsTerminal;

/// Which streams are terminals, and whether they may be coloured.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Terminal {
    pub(crate) stdin: bool,
    pub(crate) stdout: bool,
    pub(crate) stderr: bool,
    pub(crate) color: bool,
}

impl Terminal {
    pub(crate) fn detect() -> Terminal {
        // https://no-color.org: present and not empty.
        let no_color = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        Terminal {
            stdin: std::io::stdin().is_terminal(),
            stdout: std::io::stdout().is_terminal(),
            stderr: std::io::stderr().is_terminal(),
            color: !no_color && !dumb,
        }
    }

    /// `(before, after)` dimmed text on stderr.
    pub(crate) fn dim(&self) -> (&'static str, &'static str) {
        if self.stderr && self.color { ("\x1b[2m", "\x1b[0m") } else { ("", "") }
    }
}

/// A name from a file, on one line: control characters and those that reorder text are written as escapes.
pub(crate) fn name(text: &str) -> Cow<'_, str> {
    escape(text, is_harmful)
}

/// Text of several lines, such as a reply: as [`name`], but lines and tabs stay.
pub(crate) fn prose(text: &str) -> Cow<'_, str> {
    escape(text, |c| is_harmful(c) && c != '\n' && c != '\t')
}

fn is_harmful(c: char) -> bool {
    c.is_control() || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{200e}' | '\u{200f}')
}

fn escape(text: &str, harmful: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.contains(&harmful) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        if harmful(c) { shown.extend(c.escape_default()) } else { shown.push(c) }
    }
    Cow::Owned(shown)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_could_steer_a_terminal_is_spelled_out() {
        let cases = [
            ("plain é 😀", "plain é 😀", "plain é 😀"),
            ("a\x1b[2Jb", "a\\u{1b}[2Jb", "a\\u{1b}[2Jb"),
            ("a\nb\tc\rd", "a\\nb\\tc\\rd", "a\nb\tc\\rd"),
            ("x\u{202e}y\u{9b}z", "x\\u{202e}y\\u{9b}z", "x\\u{202e}y\\u{9b}z"),
        ];
        for (text, as_name, as_prose) in cases {
            assert_eq!(name(text), as_name);
            assert_eq!(prose(text), as_prose);
        }
    }

    #[test]
    fn nothing_is_dimmed_where_nobody_looks() {
        let shown = Terminal { stderr: true, color: true, ..Terminal::default() };
        assert_eq!(shown.dim(), ("\x1b[2m", "\x1b[0m"));
        assert_eq!(Terminal { color: false, ..shown }.dim(), ("", ""));
        assert_eq!(Terminal { stderr: false, ..shown }.dim(), ("", ""));
    }
}
