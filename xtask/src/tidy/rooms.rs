//! Rooms: a source file goes in, breaches of what a file must open with, may be called and may contain come out.

use super::rust::{code_only, words};
use super::{File, Finding};

/// Crates whose sources may contain `unsafe`.
const UNSAFE_ROOMS: &[&str] = &["crates/blob/", "crates/kernels/", "crates/pool/"];
/// Names that say nothing about what a module holds.
const EMPTY_NAMES: &[&str] = &["utils", "util", "helpers", "helper", "common", "misc"];
/// Words that begin the definition of a type.
const TYPE_WORDS: &[&str] = &["struct", "enum", "trait", "type", "union"];

pub(crate) fn check(file: &File) -> Vec<Finding> {
    let Some(source) = file.rust() else { return Vec::new() };
    let mut findings = Vec::new();
    if !source.trim_start().starts_with("//!") {
        findings.push(Finding::new(&file.path, 1, "openings", "a module begins with `//!` and a sentence"));
    }
    if let Some(name) = file.path.trim_end_matches(".rs").split('/').find(|name| EMPTY_NAMES.contains(name)) {
        findings.push(Finding::new(&file.path, 0, "names", format!("`{name}` does not say what the module holds")));
    }
    for (i, line) in code_only(source).lines().enumerate() {
        findings.extend(check_line(&file.path, i + 1, line));
    }
    findings
}

fn check_line(path: &str, number: usize, line: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    let words: Vec<&str> = words(line).collect();
    for pair in words.windows(2) {
        if pair[0] == "mod" && EMPTY_NAMES.contains(&pair[1]) {
            let message = format!("`{}` does not say what the module holds", pair[1]);
            findings.push(Finding::new(path, number, "names", message));
        }
        if TYPE_WORDS.contains(&pair[0]) && pair[1].contains("Manager") {
            let message = format!("`{}`: say what it does, everything manages something", pair[1]);
            findings.push(Finding::new(path, number, "names", message));
        }
    }
    if words.contains(&"unsafe") && !may_be_unsafe(path) {
        let message = "only blob, kernels and pool contain `unsafe`, and the tests of other crates";
        findings.push(Finding::new(path, number, "unsafe", message));
    }
    findings
}

/// Tests outside the three rooms need it for one thing, an allocator that counts.
fn may_be_unsafe(path: &str) -> bool {
    UNSAFE_ROOMS.iter().any(|room| path.starts_with(room)) || (path.starts_with("crates/") && path.contains("/tests/"))
}

#[cfg(test)]
mod tests {
    use super::super::file;
    use super::*;

    fn rules(path: &str, source: &str) -> Vec<(usize, &'static str)> {
        check(&file(path, source)).iter().map(|finding| (finding.line, finding.rule)).collect()
    }

    #[test]
    fn breaches_are_found_with_their_line() {
        type Case<'a> = (&'a str, &'a str, &'a [(usize, &'a str)]);
        let cases: &[Case<'_>] = &[
            ("crates/a/src/lib.rs", "//! A.\nfn f() {}\n", &[]),
            ("crates/a/src/lib.rs", "#![x]\n//! A.\n", &[(1, "openings")]),
            ("crates/a/src/lib.rs", "", &[(1, "openings")]),
            ("crates/a/src/utils.rs", "//! A.\n", &[(0, "names")]),
            ("crates/a/src/misc/b.rs", "//! A.\n", &[(0, "names")]),
            ("crates/a/src/lib.rs", "//! A.\nmod common;\n", &[(2, "names")]),
            ("crates/a/src/lib.rs", "//! A.\nmod commons;\n", &[]),
            ("crates/a/src/lib.rs", "//! A.\npub struct CacheManager<T>(T);\n", &[(2, "names")]),
            ("crates/a/src/lib.rs", "//! A.\n// struct Manager\nfn manage(x: Manager) {}\n", &[]),
            ("crates/a/src/lib.rs", "//! A.\nunsafe { f() }\n", &[(2, "unsafe")]),
            ("crates/a/src/lib.rs", "//! A.\n// unsafe\nlet x = \"unsafe\";\n#![forbid(unsafe_code)]\n", &[]),
            ("crates/pool/src/lib.rs", "//! A.\nunsafe { f() }\n", &[]),
            ("crates/a/tests/counting.rs", "//! A.\nunsafe { f() }\n", &[]),
            ("xtask/src/main.rs", "//! A.\nunsafe { f() }\n", &[(2, "unsafe")]),
        ];
        for (path, source, expected) in cases {
            assert_eq!(&rules(path, source), expected, "{path}: {source}");
        }
    }

    #[test]
    fn other_files_are_left_alone() {
        assert_eq!(rules("docs/utils.md", "unsafe mod common"), []);
    }
}
