//! Tests on another instruction set: the crates that hold code for it go in, their tests run under an emulator on
//! several processors; it never needs a C toolchain.

use std::fmt;
use std::path::Path;

use anyhow::{Result, bail};

use crate::process;

/// The target; its linker and runner stand in `.cargo/config.toml`.
pub(crate) const TARGET: &str = "aarch64-unknown-linux-musl";
/// The emulator.
const EMULATOR: &str = "qemu-aarch64-static";
/// Processors that the emulator knows: all extensions, dot products but not more, and neither.
pub(crate) const PROCESSORS: &[&str] = &["max", "cortex-a76", "cortex-a53"];
/// Tests whose results depend on the instruction set: all of the kernels and the pool, and a digest of whole models'
/// logits that must be the one of every other processor.
const TESTS: &[&[&str]] = &[
    &["--lib", "--tests", "--package", "kinglet-kernels", "--package", "kinglet-pool"],
    &["--package", "kinglet-engine", "--test", "digest"],
];

/// What became of the tests.
pub(crate) enum Outcome {
    Passed,
    /// Not run, and why.
    Skipped(&'static str),
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Outcome::Passed => write!(f, "passed on {}", PROCESSORS.join(", ")),
            Outcome::Skipped(reason) => write!(f, "SKIPPED: {reason}"),
        }
    }
}

/// Runs the tests on every processor, or says why not; without the tools it fails where `CI=true`.
pub(crate) fn run(root: &Path) -> Result<Outcome> {
    if let Some(missing) = missing() {
        if std::env::var_os("CI").is_some_and(|value| value == "true") {
            bail!("{missing}, and CI=true");
        }
        return Ok(Outcome::Skipped(missing));
    }
    for processor in PROCESSORS {
        println!("cross: {TARGET} on {processor}");
        for tests in TESTS {
            let arguments = [&["test", "--locked", "--target", TARGET], *tests].concat();
            process::succeed(process::cargo(root, &arguments).env("QEMU_CPU", processor))?;
        }
    }
    Ok(Outcome::Passed)
}

fn missing() -> Option<&'static str> {
    if !process::is_installed(EMULATOR) {
        return Some("qemu-aarch64-static is not installed (Debian: apt-get install qemu-user-static)");
    }
    if !has_target() {
        return Some("the target is not installed (rustup target add aarch64-unknown-linux-musl)");
    }
    None
}

/// Whether the toolchain has a standard library for [`TARGET`].
fn has_target() -> bool {
    let mut rustc = std::process::Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
    rustc.args(["--print", "target-libdir", "--target", TARGET]);
    process::output(&mut rustc).is_ok_and(|folder| Path::new(folder.trim()).is_dir())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_workspace_knows_how_to_link_and_run_the_target() {
        let config = std::fs::read_to_string(crate::root().join(".cargo/config.toml")).expect("the repository has one");
        assert!(config.contains(&format!("[target.{TARGET}]")), "no section for {TARGET}");
        assert!(config.contains(EMULATOR), "no runner {EMULATOR}");
    }

    #[test]
    fn what_was_skipped_is_said_aloud() {
        assert_eq!(Outcome::Skipped("no emulator").to_string(), "SKIPPED: no emulator");
    }
}
