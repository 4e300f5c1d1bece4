//! The source of a template goes in, the source that the official runtime compiles in its place comes out; nothing is
//! understood, only searched and replaced, which is what the runtime does.
//!
//! The runtime's engine knows no methods of strings, so the runtime turns the calls it has heard of into filters and
//! tests before it compiles. It does so everywhere, in plain text and strings too, but only within a line, and takes the
//! first closing sign that it finds for the end of a call.

/// One search of the runtime. Its searches are applied one after the other, in this order.
struct Search {
    /// What a match begins with.
    open: &'static str,
    /// What ends the first argument, where a second one must follow.
    middle: Option<&'static str>,
    /// What a match ends with; empty if it ends where it begins.
    close: &'static str,
    /// What is written before the arguments.
    before: &'static str,
    /// What is written after them.
    after: &'static str,
}

const fn search(open: &'static str, close: &'static str, before: &'static str, after: &'static str) -> Search {
    Search { open, middle: None, close, before, after }
}

const SEARCHES: [Search; 16] = [
    search(".startswith(", ")", " is startingwith ", ""),
    search(".endswith(", ")", " is endingwith ", ""),
    Search { open: ".replace(", middle: Some(","), close: ")", before: " | replace(", after: ")" },
    search(".split(", ")[0]", " | split(", ") | first"),
    search(".split(", ")[-1]", " | split(", ") | last"),
    search(".split(", ")", " | split(", ")"),
    search(".join(", ")", " | join(", ")"),
    search(".lstrip()", "", " | lstrip", ""),
    search(".lstrip(", ")", " | lstrip(", ")"),
    search(".rstrip()", "", " | rstrip", ""),
    search(".rstrip(", ")", " | rstrip(", ")"),
    search(".strip()", "", " | trim", ""),
    search(".strip(", ")", " | trim(", ")"),
    search(".items()", "", " | items", ""),
    search("{% generation %}", "", "", ""),
    search("{% endgeneration %}", "", "", ""),
];

/// What the runtime compiles for `source`.
pub(super) fn rewritten(source: &str) -> String {
    let line = |line: &str| SEARCHES.iter().fold(line.to_owned(), |line, search| search.applied(&line));
    source.split_inclusive('\n').map(line).collect()
}

impl Search {
    fn applied(&self, line: &str) -> String {
        let mut result = String::with_capacity(line.len());
        let mut rest = line;
        // Where no end follows one match, none follows a later one.
        while let Some((untouched, arguments, next)) = self.next_match(rest) {
            result.extend([untouched, self.before, arguments, self.after]);
            rest = next;
        }
        result + rest
    }

    /// What lies before the first match, its arguments, and what lies after it.
    fn next_match<'a>(&self, line: &'a str) -> Option<(&'a str, &'a str, &'a str)> {
        let (untouched, inside) = line.split_once(self.open)?;
        if self.close.is_empty() {
            return Some((untouched, "", inside));
        }
        let first = match self.middle {
            Some(middle) => inside.find(middle)? + middle.len(),
            None => 0,
        };
        let end = first + inside[first..].find(self.close)?;
        Some((untouched, &inside[..end], &inside[end + self.close.len()..]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_become_filters_as_far_as_the_first_closing_sign() {
        let cases = [
            ("x.strip().split('a')[-1].lstrip('\\n')", "x | trim | split('a') | last | lstrip('\\n')"),
            ("x.split('a')[0]", "x | split('a') | first"),
            ("x.split('a')[1]", "x | split('a')[1]"),
            // The search for `)[0]` runs over the next call's beginning.
            ("x.split('a')[-1] ~ y.split('b')[0]", "x | split('a')[-1] ~ y | split('b') | first"),
            ("x.startswith('(a)')", "x is startingwith '(a')"),
            ("x.replace('a', 'b')", "x | replace('a', 'b')"),
            ("x.replace('a')", "x.replace('a')"),
            ("x.replace(f(1), 'b')", "x | replace(f(1), 'b')"),
            ("x.replace(',', 'b')", "x | replace(',', 'b')"),
            ("','.join(x)", "',' | join(x)"),
            ("x.items() x.items(1)", "x | items x.items(1)"),
            ("{% generation %}é{% endgeneration %}{%- generation %}", "é{%- generation %}"),
            ("x.strip(", "x.strip("),
            ("x.strip('\n') ~ y.strip('a')\n", "x.strip('\n') ~ y | trim('a')\n"),
            ("x.split(\n'a')[0]", "x.split(\n'a')[0]"),
            ("plain.strip() text", "plain | trim text"),
        ];
        for (source, expected) in cases {
            assert_eq!(rewritten(source), expected, "{source}");
        }
    }
}
