//! The official runtime: checkpoints of the repository go in, are converted, and what LiteRT-LM makes of the bundles is
//! compared with what Kinglet does; its packages live in a virtual environment under `target/`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use crate::process;

/// A bundle that is checked, and what is known of its checkpoint.
struct Case {
    name: &'static str,
    checkpoint: &'static str,
    recipe: &'static str,
    ladder: &'static str,
    cache_length: &'static str,
    /// What transformers computed from the checkpoint.
    reference: Option<&'static str>,
    /// What the official runtime said of the official tools' bundle of the same weights.
    official: Option<&'static str>,
    answers: bool,
}

const TINY: Case = Case {
    name: "tiny-float",
    checkpoint: "fixtures/bundles/tiny/ckpt",
    recipe: "float",
    ladder: "64,16,1",
    cache_length: "256",
    reference: Some("fixtures/bundles/tiny/golden_transformers_fp32.json"),
    official: Some("fixtures/bundles/tiny/golden_litertlm_float.json"),
    answers: false,
};

/// Float and int8, one and two value heads per key head, three ladders.
const CASES: &[Case] = &[
    Case {
        name: "demo-int8",
        checkpoint: "models/demo",
        recipe: "int8",
        ladder: "128,32,8,1",
        cache_length: "1024",
        reference: None,
        official: None,
        answers: true,
    },
    TINY,
    Case {
        name: "tiny-int8",
        recipe: "int8",
        ladder: "128,32,8,4,1",
        official: Some("fixtures/bundles/tiny/golden_litertlm_wi8fc.json"),
        ..TINY
    },
    Case {
        name: "tiny4b-float",
        checkpoint: "fixtures/bundles/tiny4b/ckpt",
        reference: Some("fixtures/bundles/tiny4b/golden_transformers_fp32.json"),
        official: None,
        ..TINY
    },
    Case {
        name: "tiny4b-int8",
        checkpoint: "fixtures/bundles/tiny4b/ckpt",
        recipe: "int8",
        ladder: "128,32,8,4,1",
        reference: Some("fixtures/bundles/tiny4b/golden_transformers_fp32.json"),
        official: None,
        ..TINY
    },
];

/// Runs all checks. The remark says so where the packages cannot be had, which is no failure.
pub(crate) fn run(root: &Path) -> Result<Option<String>> {
    let folder = root.join("target/official");
    fs::create_dir_all(&folder).context("cannot make target/official")?;
    let python = match environment(root, &folder)? {
        Environment::Ready(python) => python,
        Environment::Unreachable(why) => {
            let line = format!("SKIP official: the package registry cannot be reached ({why})");
            println!("{line}");
            return Ok(Some(line));
        }
    };
    let build = |arguments: &[&str]| process::succeed(&mut process::cargo(root, arguments));
    build(&["build", "--locked", "-p", "kinglet-cli"])?;
    build(&["build", "--locked", "-p", "kinglet-engine", "-p", "kinglet-text", "--examples"])?;
    let programs = root.join(format!("{}/debug", target(root).display()));
    let table = convert_all(root, &folder, &programs.join("kinglet"))?;
    let mut check = Command::new(python);
    check.arg(root.join("conformance/official.py")).arg(table).current_dir(root).stdin(Stdio::null());
    check.arg("--logits").arg(programs.join("examples/logits"));
    check.arg("--render").arg(programs.join("examples/render"));
    process::succeed(&mut check).map(|()| None)
}

/// Where cargo puts what it builds.
fn target(root: &Path) -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from)
}

/// Converts every case and writes the table that `conformance/table.py` reads.
fn convert_all(root: &Path, folder: &Path, kinglet: &Path) -> Result<PathBuf> {
    let mut records = Vec::new();
    for case in CASES {
        let file = folder.join(format!("{}.litertlm", case.name));
        let mut command = Command::new(kinglet);
        command.arg("convert").arg(root.join(case.checkpoint)).arg("--output").arg(&file).arg("--force");
        command.args(["--recipe", case.recipe, "--ladder", case.ladder, "--cache-length", case.cache_length]);
        command.current_dir(root).stdin(Stdio::null()).stdout(Stdio::null());
        process::succeed(&mut command)?;
        let mut lint = Command::new(kinglet);
        lint.args(["inspect", "--lint"]).arg(&file).current_dir(root).stdin(Stdio::null());
        let findings = process::output(&mut lint)?;
        if !findings.ends_with("0 faults, 0 warnings, 2 notes\n") {
            bail!("{}: expected no findings but two notes, found:\n{findings}", case.name);
        }
        let path = |path: Option<&str>| path.map_or(Value::Null, |path| json!(root.join(path)));
        records.push(json!({
            "name": case.name,
            "file": file,
            "checkpoint": root.join(case.checkpoint),
            "recipe": case.recipe,
            "reference": path(case.reference),
            "official": path(case.official),
            "answers": case.answers,
        }));
    }
    let table = folder.join("bundles.json");
    fs::write(&table, serde_json::to_string_pretty(&json!({ "bundles": records }))?)
        .with_context(|| format!("cannot write {}", table.display()))?;
    Ok(table)
}

enum Environment {
    Ready(PathBuf),
    Unreachable(String),
}

/// The virtual environment with the pinned packages; made once for a list of them.
fn environment(root: &Path, folder: &Path) -> Result<Environment> {
    let requirements = root.join("conformance/requirements.txt");
    let wanted = fs::read_to_string(&requirements).context("cannot read conformance/requirements.txt")?;
    let (venv, stamp) = (folder.join("venv"), folder.join("venv/requirements.txt"));
    let python = venv.join("bin/python");
    if fs::read_to_string(&stamp).is_ok_and(|installed| installed == wanted) && python.is_file() {
        return Ok(Environment::Ready(python));
    }
    process::succeed(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&venv).stdin(Stdio::null()))?;
    let mut install = Command::new(&python);
    install.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--requirement"]);
    let done = install.arg(&requirements).stdin(Stdio::null()).output().context("cannot start pip")?;
    let said = String::from_utf8_lossy(&done.stderr);
    if done.status.success() {
        fs::write(&stamp, wanted).context("cannot note what was installed")?;
        return Ok(Environment::Ready(python));
    }
    match unreachable(&said) {
        Some(line) => Ok(Environment::Unreachable(line.to_owned())),
        None => bail!("pip ended with {}:\n{said}", done.status),
    }
}

/// The line in which pip says that it cannot reach the registry.
fn unreachable(said: &str) -> Option<&str> {
    const SIGNS: [&str; 6] = [
        "Failed to establish a new connection",
        "ConnectTimeoutError",
        "ConnectionResetError",
        "Temporary failure in name resolution",
        "Network is unreachable",
        "ProxyError",
    ];
    said.lines().find(|line| SIGNS.iter().any(|sign| line.contains(sign))).map(|line| {
        let end = line.char_indices().nth(160).map_or(line.len(), |(end, _)| end);
        line[..end].trim()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_registry_that_cannot_be_reached_is_passed_over() {
        let broken = "WARNING: Retrying (Retry(total=4)) after connection broken by 'NewConnectionError: Failed to \
                      establish a new connection: [Errno 111] Connection refused'\nERROR: No matching distribution";
        assert!(unreachable(broken).is_some());
        assert_eq!(unreachable("ERROR: No matching distribution found for litert-lm==9"), None);
    }

    #[test]
    fn all_inputs_are_in_the_repository() {
        for case in CASES {
            let files = [Some(case.checkpoint), case.reference, case.official];
            for file in files.into_iter().flatten() {
                assert!(crate::root().join(file).exists(), "{file}");
            }
        }
    }
}
