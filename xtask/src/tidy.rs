//! The rules that no compiler checks: the repository's files go in, breaches with file, line and rule come out; it never
//! changes a file.

mod edges;
mod licences;
mod papers;
mod rooms;
mod rust;
mod sizes;
mod words;

use std::fmt;
use std::path::Path;

use anyhow::{Result, ensure};

use crate::metadata::Metadata;
use crate::process;

/// A place that breaks a rule, or is about to.
#[derive(Debug, PartialEq)]
pub(crate) struct Finding {
    path: String,
    /// Counted from 1; 0 for the file as a whole.
    line: usize,
    rule: &'static str,
    message: String,
    /// Whether it only warns.
    is_warning: bool,
}

impl Finding {
    fn new(path: impl Into<String>, line: usize, rule: &'static str, message: impl Into<String>) -> Finding {
        Finding { path: path.into(), line, rule, message: message.into(), is_warning: false }
    }

    fn warning(path: impl Into<String>, line: usize, rule: &'static str, message: impl Into<String>) -> Finding {
        Finding { is_warning: true, ..Finding::new(path, line, rule, message) }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let level = if self.is_warning { "warning" } else { "error" };
        write!(f, "{level}: {}", self.path)?;
        if self.line > 0 {
            write!(f, ":{}", self.line)?;
        }
        write!(f, ": [{}] {}", self.rule, self.message)
    }
}

/// A file of the repository, committed or about to be.
pub(crate) struct File {
    /// From the root, with `/`.
    path: String,
    /// `None` for what is not text.
    text: Option<String>,
}

impl File {
    /// The lines, counted from 1.
    fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.text.as_deref().unwrap_or_default().lines().enumerate().map(|(i, line)| (i + 1, line))
    }

    /// The text of a Rust source file.
    fn rust(&self) -> Option<&str> {
        if self.path.ends_with(".rs") { self.text.as_deref() } else { None }
    }
}

/// Applies all rules, prints the findings, and fails when one is an error.
pub(crate) fn run(root: &Path) -> Result<()> {
    let files = list(root)?;
    let metadata = Metadata::read(root)?;
    let mut findings = Vec::new();
    for file in &files {
        findings.extend(sizes::check(file));
        findings.extend(rooms::check(file));
        findings.extend(words::check(file));
        findings.extend(papers::check_links(file, &files));
    }
    findings.extend(papers::check(&files, &metadata));
    findings.extend(edges::check(&files, &metadata));
    findings.extend(licences::check(&files, &metadata));
    for finding in &findings {
        println!("{finding}");
    }
    let errors = findings.iter().filter(|finding| !finding.is_warning).count();
    println!("tidy: {} files, {errors} errors, {} warnings", files.len(), findings.len() - errors);
    ensure!(errors == 0, "tidy found {errors} breaches of the rules");
    Ok(())
}

/// All files that are committed or would be by `git add --all`.
fn list(root: &Path) -> Result<Vec<File>> {
    let mut git = std::process::Command::new("git");
    git.args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]).current_dir(root);
    let names = process::output(&mut git)?;
    let mut names: Vec<&str> = names.split_terminator('\0').collect();
    names.sort_unstable();
    names.dedup();
    // A committed file that was deleted is none.
    let present = names.into_iter().filter(|name| root.join(name).is_file());
    present
        .map(|name| Ok(File { path: name.to_owned(), text: String::from_utf8(std::fs::read(root.join(name))?).ok() }))
        .collect()
}

/// The first line of `path` that `wanted` likes, or 0.
fn line_of(files: &[File], path: &str, wanted: impl Fn(&str) -> bool) -> usize {
    let file = files.iter().find(|file| file.path == path);
    file.and_then(|file| file.lines().find(|(_, line)| wanted(line))).map_or(0, |(number, _)| number)
}

#[cfg(test)]
fn file(path: &str, text: &str) -> File {
    File { path: path.to_owned(), text: Some(text.to_owned()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_names_file_line_and_rule() {
        assert_eq!(Finding::new("a.rs", 3, "names", "bad").to_string(), "error: a.rs:3: [names] bad");
        assert_eq!(Finding::warning("a.rs", 0, "sizes", "long").to_string(), "warning: a.rs: [sizes] long");
    }

    #[test]
    fn a_line_is_found_or_is_zero() {
        let files = [file("a", "one\ntwo\n")];
        assert_eq!(line_of(&files, "a", |line| line == "two"), 2);
        assert_eq!(line_of(&files, "a", |line| line == "three"), 0);
        assert_eq!(line_of(&files, "b", |_| true), 0);
    }
}
