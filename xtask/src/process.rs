//! Other programs: a command line goes in, its success or its output comes out; it never goes through a shell.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

/// Cargo, as it started this program, in the root of the repository.
pub(crate) fn cargo(root: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(arguments).current_dir(root).stdin(Stdio::null());
    command
}

/// Runs `command` with our output, and fails unless it succeeds.
pub(crate) fn succeed(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| format!("cannot start {}", shown(command)))?;
    ensure!(status.success(), "{} ended with {status}", shown(command));
    Ok(())
}

/// Runs `command` with our output, and fails unless it succeeds; returns the lines of its standard error that begin with
/// `mark`.
pub(crate) fn succeed_listening(command: &mut Command, mark: &str) -> Result<Vec<String>> {
    let mut child =
        command.stderr(Stdio::piped()).spawn().with_context(|| format!("cannot start {}", shown(command)))?;
    let mut marked = Vec::new();
    for line in BufReader::new(child.stderr.take().context("a pipe was asked for")?).split(b'\n') {
        let line = String::from_utf8_lossy(&line?).into_owned();
        eprintln!("{line}");
        if line.starts_with(mark) {
            marked.push(line);
        }
    }
    let status = child.wait()?;
    ensure!(status.success(), "{} ended with {status}", shown(command));
    Ok(marked)
}

/// What `command` writes to standard output; fails unless it succeeds.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let output =
        command.stderr(Stdio::inherit()).output().with_context(|| format!("cannot start {}", shown(command)))?;
    ensure!(output.status.success(), "{} ended with {}", shown(command), output.status);
    String::from_utf8(output.stdout).with_context(|| format!("{} wrote something else than text", shown(command)))
}

/// Whether a program of this name can be started.
pub(crate) fn is_installed(name: &str) -> bool {
    Command::new(name)
        .arg("--version")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok()
}

/// `command` as one would type it.
pub(crate) fn shown(command: &Command) -> String {
    let program = Path::new(command.get_program()).file_name().unwrap_or(command.get_program());
    let variables = command.get_envs().filter_map(|(name, value)| {
        let value = value?.to_string_lossy();
        let quote = if value.contains(' ') { "\"" } else { "" };
        Some(format!("{}={quote}{value}{quote} ", name.to_string_lossy()))
    });
    let words = command.get_args().map(|word| format!(" {}", word.to_string_lossy()));
    variables.chain([program.to_string_lossy().into_owned()]).chain(words).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_shown_as_one_would_type_it() {
        let mut command = Command::new("/usr/local/bin/cargo");
        command.args(["doc", "--no-deps"]).env("RUSTDOCFLAGS", "-D warnings");
        assert_eq!(shown(&command), "RUSTDOCFLAGS=\"-D warnings\" cargo doc --no-deps");
    }

    #[test]
    fn marked_lines_are_heard() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo MARK one; printf 'MARK two\\nthree MARK\\n' >&2"]);
        assert_eq!(succeed_listening(&mut command, "MARK").expect("prints"), ["MARK two"]);
    }

    #[test]
    fn failure_is_told_with_the_command_line() {
        let error = succeed(&mut Command::new("false")).expect_err("it fails");
        assert_eq!(error.to_string(), "false ended with exit status: 1");
        assert!(succeed_listening(&mut Command::new("false"), "").is_err());
    }

    #[test]
    fn a_missing_program_is_noticed() {
        assert!(!is_installed("no-such-program-as-this"));
    }
}
