//! `kinglet inspect --lint`: a bundle goes in; what is wrong with it comes out, the worst first, with the operator, node
//! and tensor that each finding is about.

use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use anyhow::Context as _;
use kinglet_bundle::Bundle;
use kinglet_lint::{Group, Report, Severity};

use crate::failure::{Class, Failure};
use crate::terminal;

/// Findings of a rule that are written out; `--json` has more of them.
const SHOWN: usize = 3;

/// Exits with 1 where there is a fault.
pub(super) fn run(path: Option<&Path>, json: bool) -> anyhow::Result<ExitCode> {
    let Some(path) = path.filter(|path| !path.is_dir()) else {
        let problem = "--lint checks .litertlm bundles, expected one as FILE";
        return Err(Failure::new(Class::Usage, problem).hint("kinglet inspect --lint model.litertlm").into());
    };
    let report = kinglet_lint::lint(&Bundle::open(path)?);
    let mut out = io::stdout().lock();
    if json {
        serde_json::to_writer_pretty(&mut out, &report).map_err(io::Error::from)?;
        writeln!(out)?;
    } else {
        write(&mut out, &report).context("cannot write the findings")?;
    }
    Ok(ExitCode::from(u8::from(report.count(Severity::Fault) > 0)))
}

fn write(out: &mut impl Write, report: &Report) -> io::Result<()> {
    for group in &report.groups {
        write_group(out, group)?;
    }
    let counted = [(Severity::Fault, "faults"), (Severity::Warning, "warnings"), (Severity::Note, "notes")];
    let counted = counted.map(|(severity, name)| format!("{} {name}", report.count(severity)));
    writeln!(out, "{}", counted.join(", "))
}

fn write_group(out: &mut impl Write, group: &Group) -> io::Result<()> {
    writeln!(out, "{} {}: {}", group.severity, group.rule, group.meaning)?;
    for finding in group.findings.iter().take(SHOWN) {
        let (place, message) = (finding.place.to_string(), &finding.message);
        writeln!(out, "  {}: {}", terminal::name(&place), terminal::name(message))?;
    }
    if group.count > SHOWN as u64 {
        let signatures: Vec<String> =
            group.by_signature.iter().map(|(name, count)| format!("{} {count}", terminal::name(name))).collect();
        writeln!(out, "  {} in all: {}", group.count, signatures.join(", "))?;
    }
    if let Some(hint) = group.hint {
        writeln!(out, "  hint: {hint}")?;
    }
    writeln!(out)
}
