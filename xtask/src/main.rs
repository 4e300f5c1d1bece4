//! Development commands: `cargo xtask ci`, `tidy`, `regen`, `official` and `cross`; nothing here ships.

mod ci;
mod cross;
mod metadata;
mod official;
mod process;
mod regen;
mod tidy;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

const HELP: &str = "\
usage: cargo xtask <command>

  ci                everything that a change must pass, in order; stops at the first failure
  tidy              the rules that no compiler checks
  regen [--check]   rewrite the generated files, or fail if one of them is out of date
  official          bundles of ours in the official runtime, from the package registry
  cross             tests on aarch64 under qemu, on three processors
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let root = root();
    let result = match words.as_slice() {
        ["ci"] => ci::run(&root),
        ["tidy"] => tidy::run(&root),
        ["regen"] => regen::write(&root),
        ["regen", "--check"] => regen::check(&root),
        ["official"] => official::run(&root).map(drop),
        ["cross"] => cross::run(&root).map(|outcome| println!("cross: {outcome}")),
        ["help" | "--help" | "-h"] => {
            print!("{HELP}");
            Ok(())
        }
        _ => Err(anyhow::anyhow!("no such command: {words:?}\n\n{HELP}")),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// The root of the repository.
fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().expect("this package lies in a folder of the repository").to_owned()
}
