//! The packages of the workspace and all that they depend on: Cargo's own account of them goes in, typed records come
//! out; it never reads a manifest itself.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde_json::Value;

use crate::process;

/// All packages, for every platform.
pub(crate) struct Metadata {
    pub(crate) packages: Vec<Package>,
}

/// One package, ours or another's.
#[derive(Default)]
pub(crate) struct Package {
    pub(crate) name: String,
    pub(crate) version: String,
    /// Licence expression; empty when the package states none.
    pub(crate) licence: String,
    pub(crate) manifest: PathBuf,
    /// Whether it is a member of the workspace.
    pub(crate) is_ours: bool,
    pub(crate) dependencies: Vec<Dependency>,
}

/// One line of a package's manifest.
#[derive(Clone)]
pub(crate) struct Dependency {
    pub(crate) name: String,
    /// Version requirement, without the caret that Cargo adds.
    pub(crate) requirement: String,
    pub(crate) is_dev: bool,
}

impl Metadata {
    /// Asks Cargo; packages for other platforms are downloaded when their manifest is not here yet.
    pub(crate) fn read(root: &Path) -> Result<Metadata> {
        let arguments = ["metadata", "--format-version", "1", "--locked", "--quiet"];
        Metadata::parse(&process::output(&mut process::cargo(root, &arguments))?)
    }

    /// Reads the output of `cargo metadata --format-version 1`.
    pub(crate) fn parse(json: &str) -> Result<Metadata> {
        let value: Value = serde_json::from_str(json).context("cargo metadata is not JSON")?;
        let members = value["workspace_members"].as_array().context("cargo metadata has no workspace_members")?;
        let packages = value["packages"].as_array().context("cargo metadata has no packages")?;
        Ok(Metadata { packages: packages.iter().map(|package| read_package(package, members)).collect() })
    }

    /// The packages of the workspace.
    pub(crate) fn ours(&self) -> impl Iterator<Item = &Package> {
        self.packages.iter().filter(|package| package.is_ours)
    }

    /// Whether a dependency of that name is a member of the workspace.
    pub(crate) fn is_ours(&self, name: &str) -> bool {
        self.ours().any(|package| package.name == name)
    }
}

fn read_package(value: &Value, members: &[Value]) -> Package {
    let dependencies = value["dependencies"].as_array().map(Vec::as_slice).unwrap_or_default();
    Package {
        name: text(&value["name"]),
        version: text(&value["version"]),
        licence: text(&value["license"]),
        manifest: text(&value["manifest_path"]).into(),
        is_ours: members.contains(&value["id"]),
        dependencies: dependencies.iter().map(read_dependency).collect(),
    }
}

fn read_dependency(value: &Value) -> Dependency {
    Dependency {
        name: text(&value["name"]),
        requirement: text(&value["req"]).trim_start_matches('^').to_owned(),
        is_dev: value["kind"] == "dev",
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_and_their_dependencies_are_read() {
        let json = r#"{"workspace_members": ["path+ours"], "packages": [
            {"id": "path+ours", "name": "ours", "version": "1.0.0", "license": null, "manifest_path": "ours/Cargo.toml",
             "dependencies": [{"name": "theirs", "req": "^0.3", "kind": null}, {"name": "check", "req": "=1", "kind": "dev"}]},
            {"id": "index+theirs", "name": "theirs", "version": "0.3.1", "license": "MIT", "manifest_path": "t/Cargo.toml"}
        ]}"#;
        let metadata = Metadata::parse(json).expect("well formed");
        let ours: Vec<&str> = metadata.ours().map(|package| package.name.as_str()).collect();
        assert_eq!(ours, ["ours"]);
        let found: Vec<(&str, &str, bool)> = metadata.packages[0]
            .dependencies
            .iter()
            .map(|dependency| (dependency.name.as_str(), dependency.requirement.as_str(), dependency.is_dev))
            .collect();
        assert_eq!(found, [("theirs", "0.3", false), ("check", "=1", true)]);
        assert_eq!(metadata.packages[1].licence, "MIT");
        assert!(!metadata.is_ours("theirs"));
    }

    #[test]
    fn other_json_is_refused() {
        assert!(Metadata::parse("{}").is_err());
        assert!(Metadata::parse("no").is_err());
    }
}
