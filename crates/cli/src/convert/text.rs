//! Reports for people: an outline or an outcome goes in, lines come out.

use std::io::{self, Write};

use kinglet_convert::report::by_kind;
use kinglet_convert::{Conversion, Outcome, Outlined};

use crate::units;

pub(super) fn outline(
    out: &mut impl Write,
    conversion: &Conversion,
    sections: &[Outlined],
    size_bytes: u64,
) -> io::Result<()> {
    for (index, section) in sections.iter().enumerate() {
        writeln!(out, "section {index}  {:<24} {:>10}", section.kind, units::bytes(section.size_bytes))?;
    }
    let ladder: Vec<String> = conversion.choices().ladder.iter().map(usize::to_string).collect();
    writeln!(out, "ladder     {}", ladder.join(" "))?;
    writeln!(out, "bundle     {}, {size_bytes} bytes", units::bytes(size_bytes))?;
    let memory = units::bytes(conversion.memory_bytes());
    writeln!(out, "memory     {memory} beside the mapped files")
}

pub(super) fn outcome(out: &mut impl Write, outcome: &Outcome) -> io::Result<()> {
    writeln!(out, "kind        tensors  format       bytes   relative rms   largest error")?;
    for kind in by_kind(&outcome.tensors) {
        let rms = kind.worst_relative_rms.map_or("-".to_owned(), |rms| format!("{rms:.5}"));
        let max = kind.max_error.map_or("-".to_owned(), |max| format!("{max:.5}"));
        let (name, bytes) = (kind.kind.name(), units::bytes(kind.bytes));
        writeln!(out, "{name:<12}{:>7}  {:<6} {bytes:>11}   {rms:>12}   {max:>13}", kind.tensors, kind.format)?;
    }
    let bundle = &outcome.lock.bundle;
    writeln!(out, "bundle      {}, {} bytes", units::bytes(bundle.size_bytes), bundle.size_bytes)?;
    writeln!(out, "sha256      {}", bundle.sha256)
}
