//! Papers: the list of files goes in, those that are missing or do not mention what they should come out.

use std::collections::BTreeSet;

use super::edges::short;
use super::{File, Finding};
use crate::metadata::Metadata;

/// Papers that every clone has.
const REQUIRED: &[&str] = &[
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "CRATES.md",
    "Cargo.lock",
    "LICENSE",
    "README.md",
    "SECURITY.md",
];
/// Folders whose folders say where their files come from.
const EXPLAINED: &[&str] = &["fixtures/", "models/"];

pub(crate) fn check(files: &[File], metadata: &Metadata) -> Vec<Finding> {
    let has = |path: &str| files.iter().any(|file| file.path == path);
    let absent = REQUIRED.iter().filter(|path| !has(path)).map(|path| Finding::new(*path, 0, "papers", "is missing"));
    let folders: BTreeSet<&str> = files.iter().filter_map(|file| explained_folder(&file.path)).collect();
    let silent = folders.into_iter().map(|folder| format!("{folder}/README.md")).filter(|path| !has(path));
    let silent = silent.map(|path| Finding::new(path, 0, "papers", "is missing: it says where the files come from"));
    absent.chain(silent).chain(check_map(files, metadata)).collect()
}

/// `fixtures/text` for `fixtures/text/a/b.json`.
fn explained_folder(path: &str) -> Option<&str> {
    let top = EXPLAINED.iter().find(|top| path.starts_with(**top))?;
    let rest = &path[top.len()..];
    rest.find('/').map(|end| &path[..top.len() + end])
}

/// The map names each crate in backquotes.
fn check_map(files: &[File], metadata: &Metadata) -> Vec<Finding> {
    let map = files.iter().find(|file| file.path == "ARCHITECTURE.md").and_then(|file| file.text.as_deref());
    let Some(map) = map else { return Vec::new() };
    let unnamed =
        metadata.ours().map(|package| short(&package.name)).filter(|name| !map.contains(&format!("`{name}`")));
    unnamed.map(|name| Finding::new("ARCHITECTURE.md", 0, "papers", format!("does not mention `{name}`"))).collect()
}

/// Links of a Markdown file to other files lead somewhere.
pub(crate) fn check_links(file: &File, files: &[File]) -> Vec<Finding> {
    if !file.path.ends_with(".md") {
        return Vec::new();
    }
    let folder = file.path.rsplit_once('/').map_or("", |(folder, _)| folder);
    let links = file.lines().flat_map(|(number, line)| line.split("](").skip(1).map(move |rest| (number, rest)));
    let targets = links.filter_map(|(number, rest)| Some((number, rest.split_once(')')?.0.split('#').next()?)));
    let local = targets.filter(|(_, target)| !target.is_empty() && !target.contains(':'));
    local
        .filter(|(_, target)| !leads_somewhere(&joined(folder, target), files))
        .map(|(number, target)| Finding::new(&file.path, number, "links", format!("`{target}` does not exist")))
        .collect()
}

fn leads_somewhere(path: &str, files: &[File]) -> bool {
    let inside = format!("{}/", path.trim_end_matches('/'));
    files.iter().any(|file| file.path == path || file.path.starts_with(&inside))
}

fn joined(folder: &str, target: &str) -> String {
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in target.split('/') {
        match part {
            "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::super::file;
    use super::*;
    use crate::metadata::Package;

    fn shown(findings: &[Finding]) -> Vec<String> {
        findings.iter().map(Finding::to_string).collect()
    }

    #[test]
    fn missing_papers_are_named() {
        let files: Vec<File> = REQUIRED.iter().skip(1).map(|path| file(path, "")).collect();
        let found = check(&files, &Metadata { packages: Vec::new() });
        assert_eq!(shown(&found), ["error: ARCHITECTURE.md: [papers] is missing"]);
    }

    #[test]
    fn folders_of_fixtures_and_models_are_explained() {
        let mut files: Vec<File> = REQUIRED.iter().map(|path| file(path, "")).collect();
        files.extend([
            file("fixtures/text/deep/a.json", ""),
            file("models/demo/README.md", ""),
            file("fixtures/a", ""),
        ]);
        let found = check(&files, &Metadata { packages: Vec::new() });
        let expected = "error: fixtures/text/README.md: [papers] is missing: it says where the files come from";
        assert_eq!(shown(&found), [expected]);
    }

    #[test]
    fn the_map_mentions_each_crate() {
        let files = [file("ARCHITECTURE.md", "| `blob` | bytes | pool |")];
        let ours = ["kinglet-blob", "kinglet-pool"].map(|name| Package {
            name: name.into(),
            is_ours: true,
            ..Package::default()
        });
        let found = check_map(&files, &Metadata { packages: ours.into() });
        assert_eq!(shown(&found), ["error: ARCHITECTURE.md: [papers] does not mention `pool`"]);
    }

    #[test]
    fn links_lead_to_files_and_folders() {
        let text = "[a](../README.md) [b](b.md#part) [c](https://x.y/z)\n[d](#here) [e](../crates) [f](gone.md)\n";
        let files = [file("docs/a.md", text), file("docs/b.md", ""), file("README.md", ""), file("crates/x/y.rs", "")];
        assert_eq!(shown(&check_links(&files[0], &files)), ["error: docs/a.md:2: [links] `gone.md` does not exist"]);
    }
}
