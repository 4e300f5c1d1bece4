//! Words: a file goes in, what must not stand in it comes out: paths of one machine, marks of tools, foreign packages.

use super::{File, Finding};

/// What a path on somebody's machine begins with. Written in two parts, so that this file does not contain them.
const MACHINE_PATHS: &[&str] = &[
    concat!("/wo", "rk/"),
    concat!("/ro", "ot/"),
    concat!("/tmp/ta", "rget"),
    concat!("/home", "/"),
    concat!("/Use", "rs/"),
];
/// Lines that tools leave behind; what made a change is not what the change is.
const TOOL_MARKS: &[&str] = &[
    concat!("co-autho", "red-by"),
    concat!("generated wi", "th ["),
    concat!("as an ai lan", "guage model"),
    concat!("anthro", "pic"),
    concat!("clau", "de"),
    concat!("cod", "ex cli"),
    concat!("copi", "lot"),
    concat!("chat", "gpt"),
    concat!("suba", "gent"),
    concat!("the br", "ief"),
];
/// The only place from which packages come.
const PACKAGE_SOURCE: &str = "source = \"registry+https://github.com/rust-lang/crates.io-index\"";

/// Packages that build something which is not Rust, or need a program for it.
const COMPILERS: &[&str] = &["bindgen", "cc", "cmake", "pkg-config"];

pub(crate) fn check(file: &File) -> Vec<Finding> {
    if file.path == "Cargo.lock" {
        return check_lock(file);
    }
    let mut findings = Vec::new();
    for (number, line) in file.lines() {
        let lower = line.to_lowercase();
        findings.extend(
            MACHINE_PATHS
                .iter()
                .filter(|path| line.contains(**path))
                .map(|path| Finding::new(&file.path, number, "paths", format!("`{path}` exists on one machine only"))),
        );
        findings.extend(TOOL_MARKS.iter().filter(|mark| lower.contains(**mark)).map(|mark| {
            Finding::new(&file.path, number, "marks", format!("`{mark}`: the text is about the program only"))
        }));
    }
    findings
}

fn check_lock(file: &File) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (number, line) in file.lines() {
        if line.starts_with("source = ") && line != PACKAGE_SOURCE {
            findings.push(Finding::new(&file.path, number, "sources", format!("not from crates.io: {line}")));
        }
        if COMPILERS.iter().any(|name| line == format!("name = \"{name}\"")) {
            findings.push(Finding::new(&file.path, number, "compilers", format!("a Rust toolchain must do: {line}")));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::super::file;
    use super::*;

    fn found(path: &str, text: &str) -> Vec<(usize, &'static str)> {
        check(&file(path, text)).iter().map(|finding| (finding.line, finding.rule)).collect()
    }

    #[test]
    fn machine_paths_are_found_in_any_text() {
        assert_eq!(found("docs/a.md", &format!("fine\nsee {}x\n", MACHINE_PATHS[0])), [(2, "paths")]);
        assert_eq!(found("a.json", &format!("{{\"at\": \"{}b\"}}", MACHINE_PATHS[1])), [(1, "paths")]);
        assert_eq!(found("docs/a.md", "target/release and /proc/cpuinfo\n"), []);
    }

    #[test]
    fn marks_of_tools_are_found_in_any_case() {
        assert_eq!(found("a.rs", &format!("//! A.\n// {}\n", TOOL_MARKS[0].to_uppercase())), [(2, "marks")]);
    }

    #[test]
    fn packages_come_from_one_place() {
        let lock = format!("{PACKAGE_SOURCE}\nsource = \"git+https://example.org/x\"\n");
        assert_eq!(found("Cargo.lock", &lock), [(2, "sources")]);
    }

    #[test]
    fn nothing_needs_a_compiler_of_another_language() {
        assert_eq!(found("Cargo.lock", "name = \"ccc\"\nname = \"cc\"\n"), [(2, "compilers")]);
    }

    #[test]
    fn this_file_passes_its_own_rules() {
        assert_eq!(found("xtask/src/tidy/words.rs", include_str!("words.rs")), []);
    }
}
