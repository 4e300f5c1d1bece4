//! Sizes: a source file goes in, files and functions that one cannot overlook come out; tests are not measured.

use super::rust::{code_only, functions, without_tests};
use super::{File, Finding};

const RULE: &str = "sizes";
/// Lines with code from which a file is a warning, and from which it is an error.
const FILE_LINES: (usize, usize) = (400, 800);
/// The same for a function.
const FUNCTION_LINES: (usize, usize) = (40, 80);

pub(crate) fn check(file: &File) -> Vec<Finding> {
    let Some(source) = file.rust().filter(|_| !is_test(&file.path)) else { return Vec::new() };
    let code = code_only(source);
    let lines = without_tests(&code);
    let length = lines.iter().filter(|(_, line)| !line.trim().is_empty()).count();
    let whole = judge(length, FILE_LINES, &file.path, 0, "the file");
    let parts = functions(&lines).into_iter().filter_map(|(name, line, length)| {
        judge(length, FUNCTION_LINES, &file.path, line, &format!("function `{name}`"))
    });
    whole.into_iter().chain(parts).collect()
}

fn is_test(path: &str) -> bool {
    path.contains("/tests/") || path.ends_with("/tests.rs")
}

fn judge(length: usize, (warn, fail): (usize, usize), path: &str, line: usize, what: &str) -> Option<Finding> {
    let message = |most| format!("{what} has {length} lines of code, more than {most}");
    if length > fail {
        Some(Finding::new(path, line, RULE, message(fail)))
    } else {
        (length > warn).then(|| Finding::warning(path, line, RULE, message(warn)))
    }
}

#[cfg(test)]
mod tests {
    use super::super::file;
    use super::*;

    fn findings(path: &str, lines: usize) -> Vec<(usize, bool)> {
        let found = check(&file(path, &"x;\n\n// comment\n".repeat(lines)));
        found.iter().map(|finding| (finding.line, finding.is_warning)).collect()
    }

    #[test]
    fn long_files_warn_and_longer_ones_fail() {
        assert_eq!(findings("crates/a/src/lib.rs", 400), []);
        assert_eq!(findings("crates/a/src/lib.rs", 401), [(0, true)]);
        assert_eq!(findings("crates/a/src/lib.rs", 800), [(0, true)]);
        assert_eq!(findings("crates/a/src/lib.rs", 801), [(0, false)]);
    }

    #[test]
    fn tests_and_other_files_may_be_long() {
        for path in ["crates/a/tests/all.rs", "crates/a/src/b/tests.rs", "fixtures/list.txt"] {
            assert_eq!(findings(path, 900), [], "{path}");
        }
        let source = format!("a;\n#[cfg(test)]\nmod tests {{\n{}}}\n", "    x;\n".repeat(900));
        assert_eq!(check(&file("crates/a/src/lib.rs", &source)), []);
    }

    #[test]
    fn long_functions_warn_and_longer_ones_fail() {
        for (lines, expected) in [(38, vec![]), (39, vec![(2, true)]), (79, vec![(2, false)])] {
            let source = format!("//! A.\nfn long() {{\n{}}}\n", "    x;\n".repeat(lines));
            let found = check(&file("crates/a/src/lib.rs", &source));
            let found: Vec<(usize, bool)> = found.iter().map(|finding| (finding.line, finding.is_warning)).collect();
            assert_eq!(found, expected, "{lines}");
        }
    }
}
