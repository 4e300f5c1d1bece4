//! Directions of dependency: the manifests go in, edges that the architecture does not have come out.

use std::path::Path;

use super::{File, Finding, line_of};
use crate::metadata::{Dependency, Metadata, Package};

const RULE: &str = "edges";
/// For each crate, which of ours it may use. The order is from the ground up.
const EDGES: &[(&str, &[&str])] = &[
    ("blob", &[]),
    ("flat", &[]),
    ("kernels", &[]),
    ("pool", &[]),
    ("text", &[]),
    ("tflite", &["blob", "flat"]),
    ("bundle", &["blob", "flat", "tflite"]),
    ("checkpoint", &["blob"]),
    ("model", &["blob", "bundle", "checkpoint", "tflite"]),
    ("engine", &["model", "kernels", "pool"]),
    ("convert", &["blob", "bundle", "checkpoint", "model", "text", "tflite"]),
    ("lint", &["bundle", "flat", "tflite"]),
    ("repack", &["blob", "bundle"]),
    ("chat", &["engine", "model", "text"]),
    ("cli", &ALL),
    ("xtask", &[]),
];
const ALL: [&str; 14] = [
    "blob",
    "flat",
    "kernels",
    "pool",
    "text",
    "tflite",
    "bundle",
    "checkpoint",
    "model",
    "engine",
    "chat",
    "convert",
    "lint",
    "repack",
];
/// Crates that use nobody else's either.
const ALONE: &[&str] = &["kernels", "pool"];

/// Dependencies of tests are free: they make no edge in what ships.
pub(crate) fn check(files: &[File], metadata: &Metadata) -> Vec<Finding> {
    let mut findings = Vec::new();
    for package in metadata.ours() {
        let manifest = manifest_of(package);
        let name = short(&package.name);
        let Some((_, allowed)) = EDGES.iter().find(|(known, _)| *known == name) else {
            let message = format!("`{name}` stands in no table of edges (xtask/src/tidy/edges.rs)");
            findings.push(Finding::new(manifest, 0, RULE, message));
            continue;
        };
        let shipped = package.dependencies.iter().filter(|dependency| !dependency.is_dev);
        for dependency in shipped.filter(|dependency| !is_allowed(name, allowed, dependency, metadata)) {
            let line = line_of(files, &manifest, |line| line.starts_with(&dependency.name));
            let message = format!("`{name}` must not use `{}`", dependency.name);
            findings.push(Finding::new(&manifest, line, RULE, message));
        }
    }
    findings
}

fn is_allowed(name: &str, allowed: &[&str], dependency: &Dependency, metadata: &Metadata) -> bool {
    if metadata.is_ours(&dependency.name) { allowed.contains(&short(&dependency.name)) } else { !ALONE.contains(&name) }
}

/// The path of a member's manifest from the root.
fn manifest_of(package: &Package) -> String {
    let root = crate::root();
    let path = package.manifest.strip_prefix(&root).unwrap_or(Path::new(&package.manifest));
    path.to_string_lossy().replace('\\', "/")
}

/// The name of a crate's folder.
pub(crate) fn short(name: &str) -> &str {
    name.strip_prefix("kinglet-").unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::super::file;
    use super::*;

    fn package(name: &str, dependencies: &[(&str, bool)]) -> Package {
        let dependencies = dependencies.iter().map(|&(name, is_dev)| Dependency {
            name: name.to_owned(),
            requirement: "1".to_owned(),
            is_dev,
        });
        Package {
            name: name.to_owned(),
            manifest: format!("crates/{}/Cargo.toml", short(name)).into(),
            is_ours: true,
            dependencies: dependencies.collect(),
            ..Package::default()
        }
    }

    fn breaches(name: &str, dependencies: &[(&str, bool)]) -> usize {
        let others = ["kinglet-blob", "kinglet-engine", "kinglet-kernels"].into_iter().filter(|other| *other != name);
        let others = others.map(|other| package(other, &[]));
        check(&[], &Metadata { packages: others.chain([package(name, dependencies)]).collect() }).len()
    }

    #[test]
    fn edges_against_the_architecture_are_found() {
        assert_eq!(breaches("kinglet-checkpoint", &[("kinglet-blob", false), ("serde", false)]), 0);
        assert_eq!(breaches("kinglet-checkpoint", &[("kinglet-engine", false)]), 1);
        assert_eq!(breaches("kinglet-checkpoint", &[("kinglet-engine", true)]), 0);
        assert_eq!(breaches("kinglet-cli", &[("kinglet-engine", false), ("kinglet-blob", false)]), 0);
    }

    #[test]
    fn kernels_and_pool_use_nothing() {
        assert_eq!(breaches("kinglet-pool", &[("crossbeam", false)]), 1);
        assert_eq!(breaches("kinglet-pool", &[("kinglet-kernels", false)]), 1);
        assert_eq!(breaches("kinglet-pool", &[("proptest", true)]), 0);
    }

    #[test]
    fn a_new_crate_must_be_given_its_edges() {
        assert_eq!(breaches("kinglet-stranger", &[]), 1);
    }

    #[test]
    fn a_breach_names_the_line_of_the_manifest() {
        let files = [file("crates/pool/Cargo.toml", "[dependencies]\nlibm = \"1\"\n")];
        let metadata = Metadata { packages: vec![package("kinglet-pool", &[("libm", false)])] };
        let found = check(&files, &metadata);
        assert_eq!((found[0].path.as_str(), found[0].line), ("crates/pool/Cargo.toml", 2));
    }

    #[test]
    fn the_table_has_no_way_round() {
        for (at, (name, allowed)) in EDGES.iter().enumerate() {
            for used in *allowed {
                let below = EDGES[..at].iter().any(|(other, _)| other == used);
                assert!(below, "`{name}` uses `{used}`, which does not stand above it");
            }
        }
    }
}
