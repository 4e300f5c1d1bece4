//! `CRATES.md`: the manifests and a reason for each dependency go in, a table comes out; it fails where a dependency has
//! no reason, or a reason no dependency.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Result, ensure};

use crate::metadata::{Dependency, Metadata, Package};

/// What each dependency is for, why it is this one, and what is switched off. In the order of the alphabet.
const REASONS: &[(&str, &str)] = &[
    ("anyhow", "Errors of programs, with context. The libraries have their own types."),
    ("bytemuck", "Slices of bytes seen as slices of numbers, checked for length and alignment."),
    ("clap", "Arguments, their help and their errors. The features that one could leave out save almost nothing."),
    ("ctrlc", "An interrupt ends a reply in order, on every system, without a signal handler of ours."),
    (
        "flate2",
        "Zlib streams in bundles; the `zlib-rs` backend is pure Rust, so no C compiler is needed. Sizes are capped by us.",
    ),
    ("half", "`f16` and `bf16`. The rare cases of `f16` (subnormals, ties) are not worth owning."),
    ("indicatif", "Progress bars on a terminal, in the program only. Default features off."),
    (
        "libm",
        "`exp`, `sin` and their like in plain Rust: the platform's differ in the last bit, and the same ids must give the \
         same logits everywhere.",
    ),
    ("memmap2", "Mapped files: weights are used where they lie. In one crate, behind one documented contract."),
    (
        "minijinja",
        "Chat templates are Jinja. Fuel ends a hostile template, and what would load one from a file is not compiled.",
    ),
    ("minijinja-contrib", "The methods of Python's strings, lists and dictionaries that templates in the wild call."),
    ("proptest", "Properties over generated inputs, in tests only. `std` alone: no forks, no timeouts."),
    (
        "rustyline",
        "Editing of the line that one types in `chat`. A whole shell's editor would be too much. Default features off.",
    ),
    (
        "safetensors",
        "The header of checkpoints: its validation of offsets is fuzzed upstream. The index of shards is ours.",
    ),
    ("serde", "Typed reading of JSON."),
    ("serde_json", "JSON. The order of keys is kept, because it reaches prompts through templates."),
    ("sha2", "SHA-256 of sections, files and inputs, with the instructions that processors have for it."),
    ("thiserror", "The libraries' error types, without their boilerplate."),
    (
        "tokenizers",
        "Hugging Face's tokenizers, the reference for `tokenizer.json`. `fancy-regex` instead of the default, which \
         compiles C and C++. Hidden behind a type of ours.",
    ),
    ("trycmd", "Runs the console blocks of the documentation and compares what is printed, in tests only."),
];

const OPENING: &str = "\
# Dependencies

Each dependency is hired for one need, stated here, or it is not there. Default features are off unless wanted, none
compiles C or C++ or runs a code generator while building, and all licences are permissive (`cargo xtask tidy` checks them,
also of what these bring along). Versions stand in `[workspace.dependencies]`, exact ones in `Cargo.lock`.

Written by `cargo xtask regen`; the reasons stand in `xtask/src/regen/crates.rs`.

| crate | version | used by | licence | why |
|---|---|---|---|---|
";

pub(crate) fn generate(root: &Path) -> Result<String> {
    table(&Metadata::read(root)?, REASONS)
}

/// Who uses a dependency.
#[derive(Default)]
struct Use<'a> {
    requirements: BTreeSet<&'a str>,
    shipped_in: BTreeSet<&'a str>,
    tested_in: BTreeSet<&'a str>,
}

fn table(metadata: &Metadata, reasons: &[(&str, &str)]) -> Result<String> {
    let uses = uses(metadata);
    let known = |name: &str| reasons.iter().find(|(known, _)| *known == name);
    let unexplained: Vec<&str> = uses.keys().copied().filter(|name| known(name).is_none()).collect();
    ensure!(unexplained.is_empty(), "no reason is given for {unexplained:?}");
    let unused: Vec<&str> = reasons.iter().map(|(name, _)| *name).filter(|name| !uses.contains_key(name)).collect();
    ensure!(unused.is_empty(), "a reason is given for {unused:?}, which nothing uses");
    let mut table = OPENING.to_owned();
    for (name, used) in &uses {
        let reason = known(name).map_or("", |(_, reason)| reason);
        table.push_str(&row(name, used, &licence(metadata, name, used), reason));
    }
    Ok(table)
}

fn uses(metadata: &Metadata) -> BTreeMap<&str, Use<'_>> {
    let mut uses: BTreeMap<&str, Use<'_>> = BTreeMap::new();
    for package in metadata.ours() {
        for dependency in package.dependencies.iter().filter(|dependency| !metadata.is_ours(&dependency.name)) {
            uses.entry(&dependency.name).or_default().add(package, dependency);
        }
    }
    uses
}

impl<'a> Use<'a> {
    fn add(&mut self, package: &'a Package, dependency: &'a Dependency) {
        let user = package.name.strip_prefix("kinglet-").unwrap_or(&package.name);
        self.requirements.insert(&dependency.requirement);
        if dependency.is_dev {
            self.tested_in.insert(user)
        } else {
            self.shipped_in.insert(user)
        };
    }

    fn users(&self) -> String {
        let shipped = self.shipped_in.iter().map(|user| (*user).to_owned());
        let tested = self.tested_in.difference(&self.shipped_in).map(|user| format!("{user} (tests)"));
        shipped.chain(tested).collect::<Vec<_>>().join(", ")
    }
}

/// The licence of the package of that name which a requirement means: several versions may be locked, for others.
fn licence(metadata: &Metadata, name: &str, used: &Use<'_>) -> String {
    let named = metadata.packages.iter().filter(|package| package.name == name);
    let wanted = |package: &&Package| used.requirements.iter().any(|needed| is_within(&package.version, needed));
    let found: BTreeSet<&str> = named.filter(wanted).map(|package| package.licence.as_str()).collect();
    found.into_iter().collect::<Vec<_>>().join("; ")
}

/// Whether `version` has the major number of `requirement`, and where that is 0 the minor one too.
fn is_within(version: &str, requirement: &str) -> bool {
    let significant = |text: &str| {
        let numbers: Vec<String> = text.split('.').map(str::to_owned).collect();
        let kept = if numbers.first().is_some_and(|major| major == "0") { 2 } else { 1 };
        numbers.into_iter().take(kept).collect::<Vec<_>>()
    };
    significant(version) == significant(requirement.trim_start_matches(['=', '~']))
}

fn row(name: &str, used: &Use<'_>, licence: &str, reason: &str) -> String {
    let versions = used.requirements.iter().copied().collect::<Vec<_>>().join("; ");
    format!("| `{name}` | {versions} | {} | {licence} | {reason} |\n", used.users())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metadata() -> Metadata {
        let dependency = |name: &str, requirement: &str, is_dev| Dependency {
            name: name.into(),
            requirement: requirement.into(),
            is_dev,
        };
        let package = |name: &str, version: &str, licence: &str, is_ours, dependencies| Package {
            name: name.into(),
            version: version.into(),
            licence: licence.into(),
            is_ours,
            dependencies,
            ..Package::default()
        };
        let uses = |is_dev| vec![dependency("rand", "0.9", is_dev), dependency("kinglet-blob", "*", false)];
        let packages = vec![
            package("kinglet-blob", "0.1.0", "Apache-2.0", true, vec![]),
            package("kinglet-text", "0.1.0", "Apache-2.0", true, uses(false)),
            package("kinglet-chat", "0.1.0", "Apache-2.0", true, uses(true)),
            package("rand", "0.9.4", "MIT", false, vec![]),
            package("rand", "0.10.1", "ISC", false, vec![]),
        ];
        Metadata { packages }
    }

    #[test]
    fn a_row_tells_who_uses_what_and_why() {
        let written = table(&metadata(), &[("rand", "Dice.")]).expect("has its reason");
        let row = written.strip_prefix(OPENING).expect("opens with the rules");
        assert_eq!(row, "| `rand` | 0.9 | text, chat (tests) | MIT | Dice. |\n");
    }

    #[test]
    fn dependencies_and_reasons_must_meet() {
        let error = |reasons| table(&metadata(), reasons).expect_err("they do not meet").to_string();
        assert_eq!(error(&[]), "no reason is given for [\"rand\"]");
        assert_eq!(error(&[("rand", ""), ("serde", "")]), "a reason is given for [\"serde\"], which nothing uses");
    }

    #[test]
    fn reasons_stand_in_order_and_once() {
        assert!(REASONS.is_sorted_by(|a, b| a.0 < b.0));
    }

    #[test]
    fn versions_are_told_apart_as_cargo_does() {
        for (version, requirement, expected) in [
            ("1.2.3", "1", true),
            ("1.2.3", "1.1", true),
            ("0.9.4", "0.9", true),
            ("0.10.1", "0.9", false),
            ("2.0.0", "1", false),
        ] {
            assert_eq!(is_within(version, requirement), expected, "{version} for {requirement}");
        }
    }
}
