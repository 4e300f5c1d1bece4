//! What a change must pass: the repository goes in, each step's time and the first failure come out; it never repairs.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::{cross, official, process, regen, tidy};

/// A step's remark, shown again at the end.
type Remark = Option<String>;
type Step = (&'static str, fn(&Path) -> Result<Remark>);

/// How tests begin a line about what this processor kept them from testing.
const UNTESTED: &str = "NOT TESTED";

/// In this order: what fails fast comes first, and a build serves as many steps as it can.
const STEPS: &[Step] = &[
    ("fmt", |root| cargo(root, &["fmt", "--all", "--check"])),
    ("tidy", |root| tidy::run(root).map(|()| None)),
    ("clippy", |root| cargo(root, &["clippy", "--locked", "--workspace", "--all-targets", "--", "-D", "warnings"])),
    ("doc", document),
    ("regen", |root| regen::check(root).map(|()| None)),
    ("test", test),
    ("official", official::run),
    ("cross", |root| cross::run(root).map(|outcome| Some(outcome.to_string()))),
];

/// Runs all steps.
pub(crate) fn run(root: &Path) -> Result<()> {
    let mut report = Vec::new();
    for (name, step) in STEPS {
        println!("\nci: {name}");
        let start = Instant::now();
        let remark =
            step(root).with_context(|| format!("ci stopped at step `{name}` after {}", shown(start.elapsed())))?;
        println!("ci: {name} passed in {}", shown(start.elapsed()));
        report.push((*name, start.elapsed(), remark));
    }
    println!("\nci: all steps passed");
    for (name, elapsed, remark) in &report {
        println!("{name:>8} {:>8}  {}", shown(*elapsed), remark.as_deref().unwrap_or_default());
    }
    println!("{:>8} {:>8}", "total", shown(report.iter().map(|(_, elapsed, _)| *elapsed).sum()));
    Ok(())
}

fn cargo(root: &Path, arguments: &[&str]) -> Result<Remark> {
    run_shown(&mut process::cargo(root, arguments))
}

fn document(root: &Path) -> Result<Remark> {
    let arguments = ["doc", "--locked", "--workspace", "--no-deps"];
    run_shown(process::cargo(root, &arguments).env("RUSTDOCFLAGS", "-D warnings"))
}

fn run_shown(command: &mut Command) -> Result<Remark> {
    println!("$ {}", process::shown(command));
    process::succeed(command).map(|()| None)
}

/// Runs all tests; the remark says which kernels were not tested because this processor lacks their instructions.
fn test(root: &Path) -> Result<Remark> {
    let mut command = process::cargo(root, &["test", "--locked", "--workspace"]);
    println!("$ {}", process::shown(&command));
    let marked = process::succeed_listening(&mut command, UNTESTED)?;
    let untested: BTreeSet<String> = marked.into_iter().collect();
    Ok((!untested.is_empty()).then(|| untested.into_iter().collect::<Vec<_>>().join("; ")))
}

fn shown(elapsed: Duration) -> String {
    format!("{:.1} s", elapsed.as_secs_f64())
}
