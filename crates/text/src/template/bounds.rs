//! The source of a template goes in, a refusal comes out if its syntax tree could be too deep for a compiler that walks
//! it by recursion and folds constants as it goes; nothing is compiled here.
//!
//! The engine's parser limits what nests, but a chain such as `1 ~ 1 ~ …` makes as deep a tree.

use crate::Error;

/// Most names, numbers, strings and signs in one tag; the longest of the stock templates has 32.
const MAX_TOKENS: usize = 1000;
/// Most `elif` in a template, for each is one level deeper than the one before.
const MAX_ELIF: usize = 200;

/// Checks every tag of `source`, with the rules by which the engine finds where tags end.
pub(super) fn check(source: &str) -> Result<(), Error> {
    scan(source).map(drop)
}

/// Checks every tag, and that none multiplies: an engine that does not count what it makes would fill the memory with
/// `'x' * 9999999999`, even while it compiles.
pub(crate) fn check_without_product(source: &str) -> Result<(), Error> {
    match scan(source)? {
        Some(line) => Err(Error::TemplateLimit { line, reason: "products are not computed".to_owned() }),
        None => Ok(()),
    }
}

/// The line of the first tag that holds a product.
fn scan(source: &str) -> Result<Option<usize>, Error> {
    let mut scanner = Scanner { source, at: 0, multiplies: false };
    let mut product = None;
    let mut elifs = 0;
    while let Some((line, kind)) = scanner.open() {
        let tokens = match kind {
            b'#' => scanner.skip_comment(),
            b'%' => {
                elifs += usize::from(scanner.word() == "elif");
                if scanner.skip_raw() { 0 } else { scanner.count_tokens("%}") }
            }
            _ => scanner.count_tokens("}}"),
        };
        if tokens > MAX_TOKENS {
            let reason = format!("the tag holds more than {MAX_TOKENS} words and signs");
            return Err(Error::TemplateSyntax { line, reason });
        }
        if elifs > MAX_ELIF {
            return Err(Error::TemplateSyntax { line, reason: format!("there are more than {MAX_ELIF} elif") });
        }
        product = product.or(scanner.multiplies.then_some(line));
    }
    Ok(product)
}

struct Scanner<'a> {
    source: &'a str,
    at: usize,
    /// Whether a tag so far holds a product.
    multiplies: bool,
}

impl<'a> Scanner<'a> {
    fn rest(&self) -> &'a str {
        &self.source[self.at..]
    }

    /// Moves behind the next `{{`, `{%` or `{#` and returns its line and its second byte.
    fn open(&mut self) -> Option<(usize, u8)> {
        let bytes = self.source.as_bytes();
        let is_open = |at: &usize| bytes[*at] == b'{' && matches!(bytes[*at + 1], b'{' | b'%' | b'#');
        let next = (self.at..bytes.len().saturating_sub(1)).find(is_open)?;
        self.at = next + 2;
        Some((bytes[..next].iter().filter(|&&byte| byte == b'\n').count() + 1, bytes[next + 1]))
    }

    /// The first word of the tag that was just opened.
    fn word(&self) -> &'a str {
        let inner = self.rest().strip_prefix(['-', '+']).unwrap_or(self.rest());
        let inner = inner.trim_start_matches(|char: char| char.is_ascii_whitespace());
        let end = inner.bytes().position(|byte| !is_word(byte)).unwrap_or(inner.len());
        &inner[..end]
    }

    /// Moves behind a comment, which holds no token.
    fn skip_comment(&mut self) -> usize {
        self.at = self.rest().find("#}").map_or(self.source.len(), |at| self.at + at + 2);
        0
    }

    /// Moves behind a whole raw block if the tag that was just opened begins one.
    fn skip_raw(&mut self) -> bool {
        let Some(length) = basic_tag(self.rest(), "raw") else { return false };
        self.at += length;
        while let Some(open) = self.rest().find("{%") {
            self.at += open + 2;
            if let Some(length) = basic_tag(self.rest(), "endraw") {
                self.at += length;
                return true;
            }
        }
        self.at = self.source.len();
        true
    }

    /// Moves behind the end of a tag and returns how many tokens it holds, at most one more than allowed.
    fn count_tokens(&mut self, end: &str) -> usize {
        let bytes = self.source.as_bytes();
        let mut open_brackets = 0i32;
        let mut tokens = 0;
        while self.at < bytes.len() && tokens <= MAX_TOKENS {
            let rest = &bytes[self.at..];
            if open_brackets == 0 && rest.starts_with(end.as_bytes()) {
                self.at += end.len();
                break;
            }
            match rest[0] {
                b'(' | b'[' | b'{' => open_brackets += 1,
                b')' | b']' | b'}' => open_brackets -= 1,
                // Powers are of numbers only, and end where those do.
                b'*' => self.multiplies |= !(rest.starts_with(b"**") || bytes[..self.at].ends_with(b"*")),
                _ => {}
            }
            tokens += usize::from(!rest[0].is_ascii_whitespace());
            self.at += token_length(rest);
        }
        tokens
    }
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || !byte.is_ascii()
}

/// Length of the word, string or sign that `bytes` begin with.
fn token_length(bytes: &[u8]) -> usize {
    match bytes[0] {
        quote @ (b'"' | b'\'') => {
            let mut escaped = false;
            let end = bytes[1..].iter().position(|&byte| {
                let ends = byte == quote && !escaped;
                escaped = byte == b'\\' && !escaped;
                ends
            });
            end.map_or(bytes.len(), |end| end + 2)
        }
        byte if is_word(byte) => bytes.iter().position(|&byte| !is_word(byte)).unwrap_or(bytes.len()),
        _ => 1,
    }
}

/// Length of the rest of a tag that holds `name` alone.
fn basic_tag(rest: &str, name: &str) -> Option<usize> {
    let space = |char: char| char.is_ascii_whitespace();
    let inner = rest.strip_prefix(['-', '+']).unwrap_or(rest).trim_start_matches(space);
    let inner = inner.strip_prefix(name)?.trim_start_matches(space);
    let inner = inner.strip_prefix(['-', '+']).unwrap_or(inner).strip_prefix("%}")?;
    Some(rest.len() - inner.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_longest_tag_counts() {
        let many = "a ".repeat(5000);
        let chain = " + 1".repeat(MAX_TOKENS / 2 - 1);
        let cases = [
            (many.clone(), true),
            (format!("{{# {many} #}}"), true),
            (format!("{{{{ '{many}' ~ \"{many}\\\" {many}\" }}}}"), true),
            (format!("{{%- raw -%}} {{{{ ' {many} {{% endraw %}}"), true),
            (format!("{{{{ 1{chain} }}}} {many}").repeat(20), true),
            (format!("{{{{ 1{chain}{chain}{chain} }}}}"), false),
            (format!("\n{{% raw %}}{{{{ ' {{% endraw %}}{{{{ {many} }}}}"), false),
            (format!("{{{{ {{'a': {{}}}} }}}} ' {{{{ {many} }}}}"), false),
            (format!("{{{{ ('}}}}', {many}"), false),
            (format!("{{% raw x %}}' {many}"), true),
            ("{% if a %}{%- elif b %}{% endif %}".repeat(MAX_ELIF), true),
            ("{% if a %}{%- elif b %}{% endif %}".repeat(MAX_ELIF + 1), false),
            ("{".to_owned(), true),
            ("{{ '".to_owned(), true),
        ];
        for (source, passes) in cases {
            let outcome = check(&source);
            assert_eq!(outcome.is_ok(), passes, "{:.60}: {outcome:?}", source);
        }
        assert_eq!(scan("'*' * {{ '*' }}{# * #}{% raw %}{{ 1 * 1 }}{% endraw %}\n{% set x = 2 * y %}"), Ok(Some(2)));
        assert_eq!(scan("'*' * {{ '*' }}{# * #}{{ f(2**3, **x) }}"), Ok(None));
        let line = check(&format!("\n\n{{{{ {many} }}}}")).unwrap_err();
        assert!(matches!(line, Error::TemplateSyntax { line: 3, .. }), "{line}");
    }
}
