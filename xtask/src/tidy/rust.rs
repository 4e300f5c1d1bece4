//! Rust source as rules want to see it: text goes in, the same lines without comments, contents of literals and tests
//! come out; it understands no more of the language than that.

/// `source` with comments and the contents of literals replaced by spaces; lines stay where they are.
pub(crate) fn code_only(source: &str) -> String {
    let chars: Vec<char> = source.chars().collect();
    let mut code = String::with_capacity(source.len());
    let mut at = 0;
    while at < chars.len() {
        let end = literal_end(&chars, at);
        if end > at {
            code.extend(chars[at..end].iter().map(|&c| if c == '\n' { '\n' } else { ' ' }));
            at = end;
        } else {
            code.push(chars[at]);
            at += 1;
        }
    }
    code
}

/// Where the comment or literal that begins at `at` ends; `at` itself when none begins there.
fn literal_end(chars: &[char], at: usize) -> usize {
    match (chars[at], chars.get(at + 1)) {
        ('/', Some('/')) => find(chars, at, |rest| rest[0] == '\n').unwrap_or(chars.len()),
        ('/', Some('*')) => block_comment_end(chars, at),
        ('"', _) => quoted_end(chars, at, '"'),
        ('\'', Some('\\')) => quoted_end(chars, at, '\''),
        ('\'', Some(_)) if chars.get(at + 2) == Some(&'\'') => at + 3,
        ('r', Some('"' | '#')) if begins_word(chars, at) => raw_string_end(chars, at),
        _ => at,
    }
}

/// Whether a prefix of a literal may begin at `at`: no other word runs into it, save the `b` or `c` of `br` and `cr`.
fn begins_word(chars: &[char], at: usize) -> bool {
    let is_word = |i: usize| chars[i].is_alphanumeric() || chars[i] == '_';
    match at.checked_sub(1) {
        Some(before) if matches!(chars[before], 'b' | 'c') => before == 0 || !is_word(before - 1),
        Some(before) => !is_word(before),
        None => true,
    }
}

fn block_comment_end(chars: &[char], start: usize) -> usize {
    let (mut at, mut depth) = (start, 0);
    while at < chars.len() {
        match (chars[at], chars.get(at + 1)) {
            ('/', Some('*')) => (depth, at) = (depth + 1, at + 2),
            ('*', Some('/')) => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            return at;
        }
    }
    chars.len()
}

fn quoted_end(chars: &[char], start: usize, quote: char) -> usize {
    let mut at = start + 1;
    while at < chars.len() {
        match chars[at] {
            '\\' => at += 2,
            c if c == quote => return at + 1,
            _ => at += 1,
        }
    }
    chars.len()
}

fn raw_string_end(chars: &[char], start: usize) -> usize {
    let hashes = chars[start + 1..].iter().take_while(|&&c| c == '#').count();
    let open = start + 1 + hashes;
    if chars.get(open) != Some(&'"') {
        return start;
    }
    let closes =
        |rest: &[char]| rest[0] == '"' && rest[1..].iter().take(hashes).filter(|&&c| c == '#').count() == hashes;
    find(chars, open + 1, closes).map_or(chars.len(), |quote| quote + 1 + hashes)
}

fn find(chars: &[char], from: usize, wanted: impl Fn(&[char]) -> bool) -> Option<usize> {
    (from..chars.len()).find(|&i| wanted(&chars[i..]))
}

/// `code` with its test modules emptied, as lines with their numbers from 1. `code` is [`code_only`]'s.
pub(crate) fn without_tests(code: &str) -> Vec<(usize, &str)> {
    let mut kept = Vec::new();
    let mut lines = code.lines().enumerate().map(|(i, line)| (i + 1, line)).peekable();
    while let Some((number, line)) = lines.next() {
        if !is_test_attribute(line) {
            kept.push((number, line));
            continue;
        }
        while lines.next_if(|(_, line)| line.trim_start().starts_with("#[")).is_some() {}
        let Some((_, item)) = lines.next() else { break };
        if item.trim_end().ends_with('{') {
            let close = format!("{}}}", &item[..item.len() - item.trim_start().len()]);
            while lines.next_if(|(_, line)| line.trim_end() != close).is_some() {}
            lines.next();
        }
    }
    kept
}

fn is_test_attribute(line: &str) -> bool {
    let line = line.trim_start();
    line.starts_with("#[cfg(test)]") || line.starts_with("#[cfg(all(test")
}

/// Name, first line and number of lines with code of each function in `lines`.
pub(crate) fn functions<'a>(lines: &[(usize, &'a str)]) -> Vec<(&'a str, usize, usize)> {
    let named = lines.iter().enumerate().filter_map(|(i, (number, line))| Some((i, *number, function_name(line)?)));
    named.map(|(i, number, name)| (name, number, function_length(&lines[i..]))).collect()
}

fn function_name(line: &str) -> Option<&str> {
    let (before, after) = line.split_once("fn ")?;
    let is_modifier = |word: &str| {
        matches!(word, "const" | "async" | "unsafe" | "extern" | "pub") || word.starts_with("pub(") || word == "super)"
    };
    let name = after.split(|c: char| !c.is_alphanumeric() && c != '_').next().filter(|name| !name.is_empty())?;
    before.split_whitespace().all(is_modifier).then_some(name)
}

/// Lines with code of the function that begins in the first line.
fn function_length(lines: &[(usize, &str)]) -> usize {
    let (mut depth, mut length) = (0i32, 0);
    for (_, line) in lines {
        length += usize::from(!line.trim().is_empty());
        for c in line.chars() {
            match c {
                '(' | '[' | '{' => depth += 1,
                ')' | ']' | '}' => depth -= 1,
                _ => {}
            }
            if depth == 0 && matches!(c, '}' | ';') {
                return length;
            }
        }
    }
    length
}

/// The words of a line of code.
pub(crate) fn words(line: &str) -> impl Iterator<Item = &str> {
    line.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_contents_of_literals_are_blanked() {
        let cases = [
            ("a // b\nc", "a     \nc"),
            ("a /* b /* c */ d */ e", "a                   e"),
            (r#"f("x \" y", z)"#, "f(        , z)"),
            ("let c = 'x'; let d = '\\''; fn f<'a>(a: &'a u8)", "let c =    ; let d =     ; fn f<'a>(a: &'a u8)"),
            ("r#\"a \" b\"# c", "           c"),
            ("br\"ab\" c", "b      c"),
            ("r#type + for\"x\"", "r#type + for   "),
            ("'\"' a", "    a"),
            ("\"unclosed", "         "),
            ("/* unclosed", "           "),
            ("\"two\nlines\"", "    \n      "),
        ];
        for (source, code) in cases {
            assert_eq!(code_only(source), code, "{source}");
        }
    }

    #[test]
    fn test_modules_are_left_out_wherever_they_stand() {
        let source =
            "a\n#[cfg(test)]\n#[path = \"x\"]\nmod tests {\n    b {\n    }\n}\nc\n#[cfg(test)]\nmod more;\nd\n";
        assert_eq!(without_tests(&code_only(source)), [(1, "a"), (8, "c"), (11, "d")]);
        assert_eq!(without_tests("a\n#[cfg(test)]"), [(1, "a")]);
    }

    #[test]
    fn functions_are_measured_to_their_closing_brace() {
        let source = "impl A {\n    pub(crate) const fn a(&self) -> [u8; 4] {\n        [0; 4]\n\n    }\n    fn b();\n}\nfn c() {}\nlet fn_x = f;\nfn d(\n    x: u8,\n) {\n    if x {\n    }\n}\n";
        let code = code_only(source);
        let found = functions(&without_tests(&code));
        assert_eq!(found, [("a", 2, 3), ("b", 6, 1), ("c", 8, 1), ("d", 10, 6)]);
    }

    #[test]
    fn a_pointer_to_a_function_is_none() {
        assert!(functions(&[(1, "    sum: fn (u8) -> u8,")]).is_empty());
        assert!(functions(&[(1, "let x: fn (u8);")]).is_empty());
    }
}
