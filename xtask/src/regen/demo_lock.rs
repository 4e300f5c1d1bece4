//! `models/demo/demo.lock.json`: the demo checkpoint goes in, is converted, and the lock of its bundle comes out, with the
//! digest of every section; where it is out of date, a change of the program has changed the bundles that it writes.

use std::path::Path;

use anyhow::{Context, Result};

use crate::process;

pub(super) fn generate(root: &Path) -> Result<String> {
    let folder = root.join("target/demo");
    std::fs::create_dir_all(&folder).context("cannot make target/demo")?;
    let bundle = folder.join("demo.litertlm");
    let mut command = process::cargo(root, &["run", "--locked", "--quiet", "-p", "kinglet-cli", "--", "convert"]);
    command.args(["models/demo", "--force", "--output"]).arg(&bundle);
    process::output(&mut command)?;
    std::fs::read_to_string(folder.join("demo.lock.json")).context("the conversion wrote no lock")
}
